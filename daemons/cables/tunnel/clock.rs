//! Time: the machine's clock for the device, and a thread that keeps its deadlines.

use super::Shared;
use super::ready::{Wish, wait};
use crate::wireguard::{Change, Input};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant as StdInstant, SystemTime, UNIX_EPOCH};
use tombolo_core::base::{Instant, Machine, Wall};

/// It is looked at least as often what deadlines there are: packets move them, and nobody is told. They move to 5 s or
/// more from now.
const LOOK: Duration = Duration::from_secs(1);

/// The clock of one tunnel.
#[derive(Clone, Copy, Debug)]
pub struct Clock(StdInstant);

impl Clock {
    /// Starts now.
    pub(super) fn start() -> Self {
        Self(StdInstant::now())
    }

    /// What it shows.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_origin(self.0.elapsed())
    }

    /// The wall-clock time at its origin.
    pub(super) fn wall(&self) -> Wall {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let origin = since.saturating_sub(self.0.elapsed());
        Wall::from_unix_micros(u64::try_from(origin.as_micros()).unwrap_or(0))
    }
}

/// Wakes the device at its deadlines.
pub(super) fn keep(shared: &Shared) -> io::Result<()> {
    let mut looked = Instant::ZERO;
    loop {
        let now = shared.clock.now();
        let mut device = shared.device();
        if device.poll_timeout().is_some_and(|(at, _)| at <= now) {
            let mut fresh = [0; 32];
            // Without fresh chance it goes on with what it has.
            let _ = getrandom::fill(&mut fresh);
            device.stir(&fresh);
            device.handle_timeout(now);
        }
        if now.since(looked) >= LOOK {
            looked = now;
            let mtu = shared.inside.mtu()?;
            if shared.mtu.swap(mtu.into(), Ordering::Relaxed) != usize::from(mtu) {
                device.handle(Input::Change(Change::Mtu(mtu)), now);
            }
        }
        let next = device.poll_timeout().map_or(LOOK, |(at, _)| at.since(now).min(LOOK));
        shared.carry_out(device);
        wait(&[(shared.end.as_fd(), Wish::Read), (shared.sooner.as_fd(), Wish::Read)], Some(next))?;
        shared.sooner.hush();
        if shared.is_ending() {
            return Ok(());
        }
    }
}
