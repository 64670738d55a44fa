//! The thread of all TCP connections (RFC 7766).

use crate::counts::{Cause, Counts};
use crate::desk::Desk;
use crate::guests::Guests;
use crate::settings::Limits;
use crate::zone::Reader;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Octets of the length that goes before each message (RFC 1035 4.2.2).
const LENGTH_OCTETS: usize = 2;
/// How much is read at once. Many questions fit.
const READ_OCTETS: usize = 4096;
/// Replies are sent when they are this long together, or when there is no whole question left.
const WRITE_OCTETS: usize = 16 << 10;
/// How long to rest when no connection can be taken: the process may have no file left.
const REST: Duration = Duration::from_millis(50);

/// What connections have in common. All of it is used by one thread alone.
struct House {
    zone: Reader,
    desk: RefCell<Desk>,
    counts: Arc<Counts>,
    guests: RefCell<Guests>,
    limits: Limits,
}

/// Serves the listeners until the other end of `end` is closed. Replies that are being written then are lost, as with any
/// connection that ends.
pub(crate) async fn serve(
    listeners: Vec<TcpListener>,
    zone: Reader,
    desk: Desk,
    counts: Arc<Counts>,
    limits: Limits,
    mut end: UnixStream,
) {
    let house = Rc::new(House { zone, desk: RefCell::new(desk), counts, guests: RefCell::default(), limits });
    let tasks = LocalSet::new();
    for listener in listeners {
        tasks.spawn_local(receive(listener, Rc::clone(&house)));
    }
    // Nothing is ever sent: it is over when the other end is closed.
    let over = async { while end.read_u8().await.is_ok() {} };
    tasks.run_until(over).await;
}

async fn receive(listener: TcpListener, house: Rc<House>) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => take_in(&house, stream, from),
            Err(_) => sleep(REST).await,
        }
    }
}

fn take_in(house: &Rc<House>, stream: TcpStream, from: SocketAddr) {
    if !house.desk.borrow().serves(from.ip()) {
        return house.counts.dropped(Cause::Stranger);
    }
    let quiet_since = Rc::new(Cell::new(Instant::now()));
    let mut guests = house.guests.borrow_mut();
    let gone = guests.make_room(house.limits, from.ip());
    (0..gone).for_each(|_| house.counts.dropped(Cause::Crowded));
    guests.enter(from.ip(), Rc::clone(&quiet_since), |number| {
        let house = Rc::clone(house);
        let conversation = async move {
            // How it ended concerns nobody but the client, who knows.
            let _ = converse(&house, stream, &quiet_since).await;
            let mut guests = house.guests.borrow_mut();
            guests.leave(number);
            house.counts.connected(guests.len());
        };
        spawn_local(conversation).abort_handle()
    });
    house.counts.connected(guests.len());
}

/// Answers what comes, in order, until the client closes or is slow.
async fn converse(house: &House, mut stream: TcpStream, quiet_since: &Cell<Instant>) -> io::Result<()> {
    // Replies are whole when they are written; waiting for more would only delay them.
    stream.set_nodelay(true)?;
    let (mut inbox, mut outbox) = (Vec::new(), Vec::new());
    loop {
        // Empty messages and such that get no answer are no reason to stay.
        let deadline = quiet_since.get() + house.limits.idle;
        let read = read_more(&mut stream, &mut inbox);
        let Ok(octets) = timeout_at(deadline, read).await else {
            house.counts.dropped(Cause::Slow);
            return Ok(());
        };
        if octets? == 0 {
            return Ok(());
        }
        let mut taken = 0;
        while let Some(message) = inbox.get(taken..).and_then(first_message) {
            taken += LENGTH_OCTETS + message.len();
            if answer(house, message, &mut outbox) {
                quiet_since.set(Instant::now());
            }
            if outbox.len() >= WRITE_OCTETS {
                write(house, &mut stream, &mut outbox).await?;
            }
        }
        inbox.drain(..taken);
        // What a long message took is given back: there may be hundreds of connections.
        inbox.shrink_to(READ_OCTETS);
        write(house, &mut stream, &mut outbox).await?;
    }
}

/// Reads what is there after what was read before. The room grows with what has come, never by a length that is claimed.
async fn read_more(stream: &mut TcpStream, inbox: &mut Vec<u8>) -> io::Result<usize> {
    inbox.reserve(READ_OCTETS);
    stream.read_buf(inbox).await
}

/// The message that `bytes` begin with, once all of it is there.
fn first_message(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_OCTETS>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}

/// Appends the reply to `message`, if it gets one, which it says.
fn answer(house: &House, message: &[u8], outbox: &mut Vec<u8>) -> bool {
    if message.is_empty() {
        return false;
    }
    let began = Instant::now();
    let reply = house.desk.borrow_mut().stream(&house.zone.table(), message);
    let Some((reply, length)) = reply.and_then(|reply| u16::try_from(reply.len()).ok().map(|length| (reply, length)))
    else {
        return false;
    };
    outbox.extend(length.to_be_bytes());
    outbox.extend(reply);
    house.counts.took(began.elapsed(), 1);
    true
}

/// Sends all of it, if the client reads.
async fn write(house: &House, stream: &mut TcpStream, outbox: &mut Vec<u8>) -> io::Result<()> {
    if outbox.is_empty() {
        return Ok(());
    }
    let written = timeout(house.limits.idle, stream.write_all(outbox)).await;
    outbox.clear();
    outbox.shrink_to(WRITE_OCTETS);
    written.unwrap_or_else(|_| {
        house.counts.dropped(Cause::Slow);
        Err(io::ErrorKind::TimedOut.into())
    })
}
