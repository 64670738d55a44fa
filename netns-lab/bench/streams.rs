//! One measurement: TCP streams from one place to another, and the round trip between them.

use super::Carried;
use anyhow::{Context as _, Result, bail};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tombolo_linux::Place;

/// What a stream writes and reads at once.
const CHUNK: usize = 256 << 10;
/// How often a datagram goes there and back.
const TRIPS: usize = 300;
/// A datagram, or a stream, that nothing is heard of for so long is lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// A place, and its address.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) place: &'a Place,
    pub(super) address: IpAddr,
}

/// How many streams, and whether they go back.
pub(super) const CELLS: [(usize, bool); 4] = [(1, false), (1, true), (4, false), (4, true)];

/// All of it between two ends, once; each cell takes so long.
pub(super) fn carried(ends: [End<'_>; 2], lasts: Duration) -> Result<Carried> {
    let [near, far] = ends;
    let mut rates = [0.0; CELLS.len()];
    for ((streams, is_back), rate) in CELLS.into_iter().zip(&mut rates) {
        let (from, to) = if is_back { (far, near) } else { (near, far) };
        *rate = self::rate(from, to, streams, lasts)?;
    }
    Ok(Carried { rates, trip: trip(near, far)? })
}

/// Mbit/s of so many streams together.
fn rate(from: End<'_>, to: End<'_>, streams: usize, lasts: Duration) -> Result<f64> {
    let stop = Arc::new(AtomicBool::new(false));
    let address = to.address;
    let listener = to.place.run(move || TcpListener::bind(SocketAddr::new(address, 0)))??;
    let at = listener.local_addr()?;
    let sending = (0..streams).map(|_| {
        let stop = Arc::clone(&stop);
        Ok(from.place.beside(move || send(at, &stop))?)
    });
    let sending = sending.collect::<Result<Vec<_>>>()?;
    let receiving = (0..streams).map(|_| {
        let stream = accept(&listener)?;
        Ok(to.place.beside(move || receive(stream))?)
    });
    let receiving = receiving.collect::<Result<Vec<_>>>()?;
    let began = Instant::now();
    std::thread::sleep(lasts);
    stop.store(true, Ordering::Relaxed);
    sending.into_iter().try_for_each(|thread| joined(thread).map(drop))?;
    let bytes = receiving.into_iter().map(joined).sum::<io::Result<u64>>()?;
    #[allow(clippy::cast_precision_loss, reason = "a measurement has fewer digits")]
    let bits = bytes as f64 * 8.0;
    Ok(bits / began.elapsed().as_secs_f64() / 1e6)
}

fn accept(listener: &TcpListener) -> Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
            Err(_) if Instant::now() > until => bail!("a stream did not arrive within {} s", PATIENCE.as_secs()),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn send(to: SocketAddr, stop: &AtomicBool) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let bytes = vec![7; CHUNK];
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(&bytes)?;
    }
    Ok(())
}

fn receive(mut stream: TcpStream) -> io::Result<u64> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut room, mut count) = (vec![0; CHUNK], 0);
    loop {
        match stream.read(&mut room)? {
            0 => return Ok(count),
            length => count += length as u64,
        }
    }
}

/// What a thread came to, its panic too.
fn joined<T>(thread: JoinHandle<io::Result<io::Result<T>>>) -> io::Result<T> {
    thread.join().map_err(|_| io::Error::other("the thread panicked"))??
}

/// Microseconds of a datagram there and back, on the average.
fn trip(near: End<'_>, far: End<'_>) -> Result<f64> {
    let bind = |end: End<'_>| {
        let address = end.address;
        end.place.run(move || {
            let socket = UdpSocket::bind(SocketAddr::new(address, 0))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            io::Result::Ok(socket)
        })
    };
    let (asks, answers) = (bind(near)??, bind(far)??);
    asks.connect(answers.local_addr()?)?;
    let echo = far.place.beside(move || {
        let mut bytes = [0; 64];
        // One more, so that what the first trip has to find out is not counted.
        for _ in 0..=TRIPS {
            let (length, from) = answers.recv_from(&mut bytes)?;
            answers.send_to(bytes.get(..length).unwrap_or_default(), from)?;
        }
        io::Result::Ok(())
    })?;
    let mut bytes = [0; 64];
    let mut there_and_back = || asks.send(b"?").and_then(|_| asks.recv(&mut bytes)).context("a datagram was lost");
    there_and_back()?;
    let began = Instant::now();
    for _ in 0..TRIPS {
        there_and_back()?;
    }
    let lasted = began.elapsed();
    joined(echo)?;
    #[allow(clippy::cast_precision_loss, reason = "a measurement has fewer digits")]
    Ok(lasted.as_secs_f64() * 1e6 / TRIPS as f64)
}
