//! The thread of one UDP socket.

use crate::batch::{BATCH, Departure, Receiver, Sender};
use crate::counts::Cause;
use crate::desk::Desk;
use crate::zone::Reader;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long the thread rests when the system refuses to say what has come: it may lack memory.
const REST: Duration = Duration::from_millis(10);
/// After the end was called for, what had come before is still answered, as long as it is not more than this many batches.
const LAST_BATCHES: usize = 256;

/// Answers until the other end of `end` is closed.
pub(crate) fn serve(socket: &OwnedFd, at: SocketAddr, zone: &Reader, mut desk: Desk, end: &UnixStream) {
    let (mut receiver, mut sender) = (Receiver::new(at), Sender::new(at));
    let mut departures = Vec::with_capacity(BATCH);
    let mut left = None;
    loop {
        let ends = wait(socket, end);
        if ends {
            left.get_or_insert(LAST_BATCHES);
        }
        // Full batches mean that more has come. The end is looked at now and then all the same.
        for _ in 0..BATCH {
            let count = exchange(socket, zone, &mut desk, &mut receiver, &mut sender, &mut departures);
            left = left.map(|left| left.saturating_sub(1));
            if left == Some(0) || (ends && count == 0) {
                return;
            }
            if count < BATCH {
                break;
            }
        }
    }
}

/// Takes one batch, answers it, and says how many that were.
fn exchange(
    socket: &OwnedFd,
    zone: &Reader,
    desk: &mut Desk,
    receiver: &mut Receiver,
    sender: &mut Sender,
    departures: &mut Vec<Departure>,
) -> usize {
    let Ok(count) = receiver.receive(socket) else {
        std::thread::sleep(REST);
        return 0;
    };
    if count == 0 {
        return 0;
    }
    let began = Instant::now();
    {
        let table = zone.table();
        departures.extend(receiver.answer(|request, from| desk.datagram(&table, request, from)));
    }
    let lost = sender.send(socket, departures);
    (0..lost).for_each(|_| desk.counts().dropped(Cause::Unsendable));
    desk.counts().took(began.elapsed(), departures.len());
    departures.clear();
    count
}

/// Waits for datagrams or the end; whether it is the end.
fn wait(socket: &OwnedFd, end: &UnixStream) -> bool {
    let mut waiting = [PollFd::new(socket.as_fd(), PollFlags::POLLIN), PollFd::new(end.as_fd(), PollFlags::POLLIN)];
    // An interruption is one more turn.
    let _ = poll(&mut waiting, PollTimeout::NONE);
    waiting.last().and_then(PollFd::any).unwrap_or(false)
}
