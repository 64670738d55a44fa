//! A link between two sites: what goes into one end comes out of the other, later, or not at all.
//!
//! The kernels that labs run on have no netem everywhere, so this is a thread for each way that reads frames at one end,
//! decides what becomes of each, and writes it at the other end when it is due.

mod line;
mod wire;

pub use line::Quality;
pub use wire::Passed;
pub(crate) use wire::Wire;

use line::{ETHERNET, Line};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tombolo_core::base::Rng;
use tombolo_scenarios::LinkSpec;
use tun_rs::SyncDevice;

/// Longest frame: no link takes more.
const FRAME_MAX: usize = 65_600;
/// Frames read before those that are due are written.
const BATCH: usize = 64;
/// How long nothing is done where nothing is on its way.
const IDLE: Duration = Duration::from_secs(1);

/// A link at work. Its threads end with the process.
pub(crate) struct Relay {
    ways: [Arc<Mutex<Quality>>; 2],
    /// Who is shown each frame.
    wire: Arc<OnceLock<Arc<Wire>>>,
}

impl Relay {
    /// Joins two ends.
    pub(crate) fn start([a, b]: [Arc<SyncDevice>; 2], spec: LinkSpec, mut chance: Rng) -> io::Result<Self> {
        let ways = [(); 2].map(|()| Arc::new(Mutex::new(Quality::of(spec))));
        let wire = Arc::<OnceLock<Arc<Wire>>>::default();
        for ((from, to), way) in [(a.clone(), b.clone()), (b, a)].into_iter().zip(&ways) {
            let (line, way, wire) = (Line::new(Rng::new(chance.bits())), way.clone(), wire.clone());
            let work = move || {
                // Where an end is gone, so is the lab.
                let _ = carry(&from, &to, &way, &wire, line);
            };
            Builder::new().name("relay".into()).spawn(work)?;
        }
        Ok(Self { ways, wire })
    }

    /// Shows each frame from now on, also those that are lost then: they were on the wire. At most one is shown them.
    pub(crate) fn watch(&self, wire: &Arc<Wire>) {
        let _ = self.wire.set(Arc::clone(wire));
    }

    /// How one of its ways is: 0 from the first end to the second, 1 back.
    pub(crate) fn quality(&self, way: usize) -> Option<Quality> {
        self.ways.get(way).map(|way| *way.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes one of its ways. What is on its way arrives as it would have.
    pub(crate) fn set(&self, way: usize, quality: Quality) {
        if let Some(way) = self.ways.get(way) {
            *way.lock().unwrap_or_else(PoisonError::into_inner) = quality;
        }
    }
}

fn carry(
    from: &SyncDevice,
    to: &SyncDevice,
    way: &Mutex<Quality>,
    wire: &OnceLock<Arc<Wire>>,
    mut line: Line,
) -> io::Result<()> {
    let began = Instant::now();
    let mut frame = vec![0; FRAME_MAX];
    loop {
        wait(from, line.next_at().map_or(IDLE, |at| at.saturating_sub(began.elapsed())))?;
        let quality = *way.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..BATCH {
            match from.recv(&mut frame) {
                Ok(length) => {
                    let frame = frame.get(..length).unwrap_or_default();
                    if let Some(wire) = wire.get() {
                        wire.see(frame);
                    }
                    line.take(began.elapsed(), frame, &quality);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        while let Some(frame) = line.due(began.elapsed()) {
            // An end that is down or full takes nothing: lost, as on any wire.
            let _ = to.send(&frame);
        }
    }
}

fn wait(on: &SyncDevice, time: Duration) -> io::Result<()> {
    let mut fds = [PollFd::new(on.as_fd(), PollFlags::POLLIN)];
    match ppoll(&mut fds, Some(TimeSpec::from_duration(time)), None) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
