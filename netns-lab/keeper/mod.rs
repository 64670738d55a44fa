//! The process on which a lab hangs: process 1 of a namespace of processes of its own.
//!
//! It lives as long as whoever started it in the foreground, or else until it is ended. It answers on a socket with an
//! abstract name, one request and one reply a line, for root alone.

mod desk;
mod played;
mod serve;
mod start;
mod words;

pub use crate::relay::Quality;
pub(crate) use desk::Desk;
pub use played::Played;
pub use serve::keep;
pub(crate) use serve::read;
pub use start::{Keeping, Stay, start};
pub use words::{Reply, Request, Site, Whereabouts};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Pid;
use std::fs;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

/// What the names of all keepers' sockets begin with.
const PREFIX: &str = "tombolo-lab/";
/// How long an ended lab may take to be gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a lab did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No lab of that name is up.
    #[error("no lab '{0}' is up")]
    NotUp(String),
    /// Somebody has taken the name who is not root.
    #[error("'{0}' is no lab: user {1} has taken its name")]
    Impostor(String, u32),
    /// It said no.
    #[error("{0}")]
    Refused(String),
    /// It does not end.
    #[error("process {0} of lab '{1}' was killed and is not gone after 30 s")]
    Undead(i32, String),
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It said what nobody understands: another version of this program.
    #[error("the lab speaks otherwise: {0}")]
    Words(#[from] serde_json::Error),
}

/// The names of all labs that are up.
///
/// # Errors
/// If the system does not tell.
pub fn list() -> io::Result<Vec<String>> {
    let sockets = fs::read_to_string("/proc/self/net/unix")?;
    let names =
        sockets.lines().filter_map(|line| line.split_whitespace().nth(7)?.strip_prefix('@')?.strip_prefix(PREFIX));
    let mut names: Vec<String> = names.map(ToOwned::to_owned).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{PREFIX}{name}"))
}

/// A lab that is up.
pub struct Keeper {
    name: String,
    process: i32,
    stream: BufReader<UnixStream>,
}

impl Keeper {
    /// Speaks with the lab of that name.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn find(name: &str) -> Result<Self, Error> {
        let stream = match UnixStream::connect_addr(&address(name)?) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Err(Error::NotUp(name.to_owned())),
            other => other?,
        };
        let peer = getsockopt(&stream, PeerCredentials).map_err(io::Error::from)?;
        if peer.uid() != 0 {
            return Err(Error::Impostor(name.to_owned(), peer.uid()));
        }
        Ok(Self { name: name.to_owned(), process: peer.pid(), stream: BufReader::new(stream) })
    }

    /// The number of its process.
    #[must_use]
    pub const fn process(&self) -> i32 {
        self.process
    }

    /// Asks it for something.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn ask(&mut self, request: &Request) -> Result<Reply, Error> {
        let line = format!("{}\n", serde_json::to_string(request)?);
        self.stream.get_mut().write_all(line.as_bytes())?;
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(Error::NotUp(self.name.clone()));
        }
        let reply = serde_json::from_str(&line)?;
        if let Reply::No(why) = reply { Err(Error::Refused(why)) } else { Ok(reply) }
    }

    /// Ends it. When this returns, its processes are gone; the kernel takes its namespaces away by itself.
    ///
    /// # Errors
    /// [`Error::Undead`], or it cannot be killed.
    pub fn end(self) -> Result<(), Error> {
        // Not by asking: it ends as well if it does not listen, and all that has to be taken away the kernel takes.
        match kill(Pid::from_raw(self.process), Signal::SIGKILL) {
            Ok(()) | Err(nix::errno::Errno::ESRCH) => {}
            Err(errno) => return Err(Error::Io(errno.into())),
        }
        let until = Instant::now() + PATIENCE;
        while is_alive(self.process) {
            if Instant::now() > until {
                return Err(Error::Undead(self.process, self.name));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Whether anything of a process is still at work, as this namespace of processes counts. Its first thread may have ended long before the others; the last one
/// ends all processes of the namespace.
pub(crate) fn is_alive(process: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state stands behind the name, which may hold anything.
    let Some((_, rest)) = status.rsplit_once(") ") else { return false };
    let threads = fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
    threads > 1 || !rest.starts_with(['Z', 'X'])
}
