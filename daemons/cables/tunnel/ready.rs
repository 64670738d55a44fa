//! Waiting for descriptors.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// It has something.
    Read,
    /// It takes something.
    Write,
}

/// Waits until one of these is ready, or as long as that.
///
/// # Errors
/// If the system cannot wait.
pub fn wait(wishes: &[(BorrowedFd<'_>, Wish)], time: Option<Duration>) -> io::Result<()> {
    let mut fds: Vec<PollFd<'_>> = wishes
        .iter()
        .map(|(fd, wish)| PollFd::new(*fd, if *wish == Wish::Read { PollFlags::POLLIN } else { PollFlags::POLLOUT }))
        .collect();
    // Rounded up: a wake-up that is early by less than a millisecond would be for nothing.
    let time = time.map(|time| time + Duration::from_millis(1));
    let time = time.map_or(PollTimeout::NONE, |time| PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX));
    match poll(&mut fds, time) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Something to wake a thread with.
pub struct Bell(EventFd);

impl Bell {
    /// A new one.
    ///
    /// # Errors
    /// If the process has too many descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?))
    }

    /// Wakes whoever waits.
    pub fn ring(&self) {
        // It fails if it has rung 2⁶⁴ times, unheard.
        let _ = self.0.write(1);
    }

    /// Takes note that it rang.
    pub fn hush(&self) {
        let _ = self.0.read();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
