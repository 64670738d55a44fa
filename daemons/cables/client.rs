//! Speaking with a cable's process.

use crate::process::socket;
use crate::uapi::{Request, Setup, State};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Pid;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A process that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The process of one cable.
#[derive(Clone, Debug)]
pub struct Client {
    path: PathBuf,
}

impl Client {
    /// That of this link.
    #[must_use]
    pub fn of(directory: &Path, link: &str) -> Self {
        Self { path: socket(directory, link) }
    }

    /// Those that have a socket there, by link.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn all(directory: &Path) -> io::Result<Vec<(String, Self)>> {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let link = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".sock"));
            all.extend(link.map(|link| (link.to_owned(), Self { path: path.clone() })));
        }
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(all)
    }

    /// Whether it lives.
    #[must_use]
    pub fn lives(&self) -> bool {
        self.connect().is_ok()
    }

    fn connect(&self) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(&self.path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// All about it; `None` if there is no process.
    ///
    /// # Errors
    /// If it does not answer, or not as it should.
    pub fn state(&self) -> io::Result<Option<State>> {
        let answer = match self.ask(&Request::Get { all: true }) {
            Err(error) if is_gone(&error) => return Ok(None),
            // Others' processes say less.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => self.ask(&Request::Get { all: false })?,
            other => other?,
        };
        State::read(&answer).map(Some).map_err(io::Error::other)
    }

    /// Sets it up otherwise.
    ///
    /// # Errors
    /// If there is no process, or if it cannot.
    pub fn set(&self, setup: Setup) -> io::Result<()> {
        self.ask(&Request::Set(setup)).map(drop)
    }

    /// Ends it, and waits until it is gone with its link. One that is gone already is no error.
    ///
    /// # Errors
    /// If it stays.
    pub fn end(&self) -> io::Result<()> {
        let stream = match self.connect() {
            Ok(stream) => stream,
            Err(error) if is_gone(&error) => return remove(&self.path),
            Err(error) => return Err(error),
        };
        remove(&self.path)?;
        // It hangs up when it ends.
        if is_hung_up(&stream) {
            return Ok(());
        }
        let credentials = getsockopt(&stream, sockopt::PeerCredentials)?;
        kill(Pid::from_raw(credentials.pid()), Signal::SIGKILL)?;
        if is_hung_up(&stream) { Ok(()) } else { Err(io::Error::new(ErrorKind::TimedOut, "it does not end")) }
    }

    /// Asks, and gives the answer without its last line.
    fn ask(&self, request: &Request) -> io::Result<String> {
        let mut stream = self.connect()?;
        stream.write_all(request.to_string().as_bytes())?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let short = || io::Error::new(ErrorKind::UnexpectedEof, "an answer without an end");
        let body = answer.strip_suffix("\n\n").ok_or_else(short)?;
        let (words, last) = body.rsplit_once('\n').map_or(("", body), |(words, last)| (words, last));
        match last.strip_prefix("errno=").and_then(|number| number.parse::<i32>().ok()) {
            Some(0) => Ok(words.to_owned()),
            Some(number) => Err(io::Error::from_raw_os_error(number.saturating_abs())),
            None => Err(short()),
        }
    }
}

/// Whether nobody is there to connect to.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether the other side hangs up within [`PATIENCE`].
fn is_hung_up(mut stream: &UnixStream) -> bool {
    let read = stream.read_exact(&mut [0]);
    !read.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}
