//! Whether the machine lets the lab work: a thread on each processor that sleeps for a moment, again and again, and notes
//! when it slept too long; and how long the lab itself was busy with an act, and began no probe. What was measured
//! meanwhile may be the machine's and not the daemons'.

use core::time::Duration;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Instant;

/// How long one sleeps.
const NAP: Duration = Duration::from_millis(10);

/// The longest time for which a processor did not let the lab work when it wanted to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stall {
    /// When it was over, since the start.
    pub at: Duration,
    /// How long it was.
    pub lasted: Duration,
}

/// See the module docs. Its threads end soon after it.
#[derive(Debug)]
pub(super) struct Canary {
    began: Instant,
    longest: Arc<Mutex<Stall>>,
}

impl Canary {
    /// Starts one on each processor on which this thread may run; time begins now.
    pub(super) fn start() -> io::Result<Self> {
        let canary = Self { began: Instant::now(), longest: Arc::default() };
        let all = sched_getaffinity(Pid::from_raw(0))?;
        for processor in (0..CpuSet::count()).filter(|processor| all.is_set(*processor).unwrap_or(false)) {
            let (began, seen) = (canary.began, Arc::downgrade(&canary.longest));
            Builder::new().name("canary".into()).spawn(move || {
                let mut own = CpuSet::new();
                // On which processor it sits is of use only if it may sit there.
                let _ = own.set(processor).and_then(|()| sched_setaffinity(Pid::from_raw(0), &own));
                loop {
                    let before = Instant::now();
                    std::thread::sleep(NAP);
                    let Some(longest) = seen.upgrade() else { return };
                    Self { began, longest }.note(before, NAP);
                }
            })?;
        }
        Ok(canary)
    }

    /// Something that should have taken so long has lasted since then.
    pub(super) fn note(&self, since: Instant, should: Duration) {
        let lasted = since.elapsed().saturating_sub(should);
        let mut longest = self.longest.lock().unwrap_or_else(PoisonError::into_inner);
        if lasted > longest.lasted {
            *longest = Stall { at: self.began.elapsed(), lasted };
        }
    }

    /// The longest stall since the start.
    pub(super) fn longest(&self) -> Stall {
        *self.longest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sings_on_each_processor_and_ends() {
        let canary = Canary::start().unwrap_or_else(|error| unreachable!("{error}"));
        std::thread::sleep(NAP * 5);
        assert!(canary.longest().lasted > Duration::ZERO, "no sleep ends to the nanosecond");
        let left = Arc::downgrade(&canary.longest);
        drop(canary);
        std::thread::sleep(NAP * 20);
        assert_eq!(left.strong_count(), 0);
    }
}
