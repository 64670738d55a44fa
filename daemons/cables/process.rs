//! A cable's own process: it holds the TUN link and the UDP socket, and answers on a UNIX socket named after the link.
//!
//! It outlives the daemon that started it. A daemon that starts finds it by its socket; whoever removes the socket file
//! ends it, and so does whoever removes the link. It keeps nothing on disk: whoever started it tells it its key.

use crate::tunnel::{Tunnel, Wish, wait};
use crate::uapi::{PeerState, Request, Setup, State};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

/// Where `wg` looks for sockets.
pub const DIRECTORY: &str = "/var/run/wireguard";
/// A peer that says nothing for as long is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest request: some ten thousand ranges.
const REQUEST_MAX: usize = 1 << 20;

/// The socket of the cable with this link.
#[must_use]
pub fn socket(directory: &Path, link: &str) -> PathBuf {
    directory.join(format!("{link}.sock"))
}

/// Runs a cable until its socket file or its link is removed. `ready` is called when it can be spoken to.
///
/// # Errors
/// Why there is none, or why it ended.
pub fn run(directory: &Path, link: &str, ready: impl FnOnce()) -> io::Result<()> {
    let tunnel = Arc::new(Tunnel::start(link)?);
    let path = socket(directory, link);
    let listener = listen(directory, &path)?;
    let notify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    notify.add_watch(directory, AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVE)?;
    let ours = identity(&path);
    ready();
    while ours.is_some() && identity(&path) == ours && !tunnel.has_ended() {
        let wishes = [listener.as_fd(), notify.as_fd(), tunnel.ended().as_fd()].map(|fd| (fd, Wish::Read));
        wait(&wishes, None)?;
        match listener.accept() {
            Ok((stream, _)) => serve(stream, tunnel.clone())?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        match notify.read_events() {
            Ok(_) | Err(Errno::EAGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // Who waits for the end sees connections end: by then the port is free.
    tunnel.stop();
    if identity(&path) == ours {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Which file it is.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|data| (data.dev(), data.ino()))
}

/// The socket, for nobody but root. A former one that nobody answers on is replaced.
fn listen(directory: &Path, path: &Path) -> io::Result<UnixListener> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(ErrorKind::AddrInUse, format!("a cable answers on {} already", path.display())));
    }
    // It comes under its name when nobody else can use it any more.
    let fresh = path.with_extension("new");
    for old in [path, &fresh] {
        match fs::remove_file(old) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    let listener = UnixListener::bind(&fresh)?;
    fs::set_permissions(&fresh, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    fs::rename(&fresh, path)?;
    Ok(listener)
}

/// Answers on a thread of its own: who connects and says nothing holds up nobody.
fn serve(stream: UnixStream, tunnel: Arc<Tunnel>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let work = move || {
        // Who hangs up is not told anything.
        let _ = answer(&stream, &tunnel);
    };
    Builder::new().name("words".into()).spawn(work).map(drop)
}

fn answer(stream: &UnixStream, tunnel: &Tunnel) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut text = String::new();
        loop {
            let before = text.len();
            if reader.read_line(&mut text)? == 0 || text.len() > REQUEST_MAX {
                return Ok(());
            }
            if text.get(before..) == Some("\n") {
                break;
            }
        }
        let text = text.trim_end();
        if text.is_empty() {
            continue;
        }
        let (words, errno) = match Request::read(text) {
            Ok(Request::Get { all }) => (state(tunnel).words(all), 0),
            Ok(Request::Set(setup)) => (String::new(), set(tunnel, setup)),
            Err(_) => (String::new(), -(Errno::EINVAL as i32)),
        };
        let mut stream = stream;
        stream.write_all(format!("{words}errno={errno}\n\n").as_bytes())?;
    }
}

/// Sets it up otherwise. Gives the number of the error, if there is one.
fn set(tunnel: &Tunnel, setup: Setup) -> i32 {
    let mut outcome = Ok(());
    if let Some(mark) = setup.mark {
        outcome = tunnel.set_mark(mark);
    }
    // Its peers are greeted from there.
    if let Some(port) = setup.port.filter(|_| outcome.is_ok()) {
        outcome = tunnel.bind(port);
    }
    match outcome {
        Ok(()) => {
            tunnel.change(setup.changes);
            0
        }
        Err(error) => -error.raw_os_error().unwrap_or(Errno::EIO as i32),
    }
}

fn state(tunnel: &Tunnel) -> State {
    let (port, mark, mtu) = (tunnel.port(), tunnel.mark(), u16::try_from(tunnel.mtu()).ok());
    tunnel.look(|device| {
        let peers = device.peers().map(|(key, peer)| PeerState {
            key: *key,
            shared: peer.shared,
            endpoint: peer.endpoint,
            keep_open_secs: peer.keep_open.map_or(0, |time| u16::try_from(time.as_secs()).unwrap_or(u16::MAX)),
            ranges: device.ranges(key),
            handshake: peer.tally.handshake.map(|at| device.wall(at)),
            sent: peer.tally.sent,
            received: peer.tally.received,
            round_trip: peer.tally.round_trip,
        });
        State { secret: device.secret().cloned(), port, mark, mtu, peers: peers.collect() }
    })
}
