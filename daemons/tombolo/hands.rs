//! Hands that every daemon has, and those that say that one lacks.

use crate::notes::Notes;
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};
use tombolo_core::base::{ClusterId, Wall};
use tombolo_core::dns::Table;
use tombolo_core::network::Wanted;
use tombolo_core::paths::Carried;
use tombolo_core::roles::{Event, Note, Via};
use tombolo_linux::Deed;
use tombolo_shell::{Journal, KernelHand, NatHand, NetHand, WallClock, ZoneHand};
use tracing::{debug, info, warn};

/// How many lines about what was ignored are told in a second: whoever sends garbage must not fill the disk.
const IGNORED_LINES: u32 = 10;

/// Events and deeds become lines of the log, and notes for whoever wants them. All clones are one.
#[derive(Clone, Debug)]
pub struct Log {
    ignored: Arc<Mutex<Ignored>>,
    notes: Option<Notes>,
}

/// What was ignored within a second.
#[derive(Debug, Default)]
struct Ignored {
    since: Option<Instant>,
    told: u32,
    untold: u64,
}

impl Ignored {
    /// Whether one more is to be told; and how many were not, once that second is over.
    fn count(&mut self, now: Instant) -> (bool, u64) {
        let mut untold = 0;
        if self.since.is_none_or(|since| now.duration_since(since) >= Duration::from_secs(1)) {
            untold = core::mem::take(&mut self.untold);
            (self.since, self.told) = (Some(now), 0);
        }
        let tells = self.told < IGNORED_LINES;
        self.told += u32::from(tells);
        self.untold += u64::from(!tells);
        (tells, untold)
    }
}

impl Log {
    /// A log, which also notes what it is told.
    #[must_use]
    pub fn new(notes: Option<Notes>) -> Self {
        Self { ignored: Arc::default(), notes }
    }

    fn note(&self, note: impl FnOnce() -> Note) {
        if let Some(notes) = &self.notes {
            notes.write(&note());
        }
    }

    /// Tells an event.
    pub fn event(&self, event: &Event) {
        self.note(|| Note::Told(event.clone()));
        match event {
            Event::Refused { .. } | Event::Contested { .. } | Event::PathDead { .. } | Event::Unanswered { .. } => {
                warn!("{event}");
            }
            Event::Ignored { .. } => {
                let mut ignored = self.ignored.lock().unwrap_or_else(PoisonError::into_inner);
                let (tells, untold) = ignored.count(Instant::now());
                if untold > 0 {
                    warn!("ignored {untold} more within a second");
                }
                if tells {
                    warn!("{event}");
                }
            }
            Event::Carries { carried: Carried::Nothing, .. } => warn!("{event}"),
            Event::Elected(_)
            | Event::Carries { .. }
            | Event::StoodDown { .. }
            | Event::Left
            | Event::PathChosen { .. }
            | Event::Dials { .. }
            | Event::Public(_) => info!("{event}"),
        }
    }

    /// Tells what was done to the node's network.
    pub fn deed(&self, deed: Deed) {
        match deed {
            Deed::Applied(plan, _) if plan.is_empty() => {}
            Deed::Applied(plan, items) => {
                self.note(|| Note::of_plan(&plan, items));
                info!(steps = plan.steps().len(), "network changed");
                debug!("{plan}");
            }
            Deed::PutBack(plan, items) => {
                self.note(|| Note::of_plan(&plan, items));
                warn!("others changed what is ours; it is put back: {plan}");
            }
            Deed::Failed(error) => warn!("the network is not what it should be: {error}"),
        }
    }
}

impl Journal for Log {
    fn tell(&mut self, event: Event) {
        self.event(&event);
    }
}

/// A hand for DNS whose tables are noted.
pub struct Noted<Z> {
    /// The hand.
    pub zone: Z,
    /// Where.
    pub log: Log,
}

impl<Z: ZoneHand> ZoneHand for Noted<Z> {
    fn swap(&mut self, table: Arc<Table>) {
        self.log.note(|| Note::of_table(&table));
        self.zone.swap(table);
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemWall;

impl SystemWall {
    /// What it reads.
    #[must_use]
    pub fn read() -> Wall {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Wall::default() + since
    }
}

impl WallClock for SystemWall {
    fn now(&self) -> Wall {
        Self::read()
    }
}

/// For what a daemon has no hand for: its machine should not have asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lacking;

impl Lacking {
    fn tell(what: &str) {
        warn!("this daemon has no hand for {what}");
    }
}

impl NetHand for Lacking {
    fn send(&mut self, _: Via, to: IpAddr, _: Vec<u8>) {
        Self::tell(&format!("a hello to {to}"));
    }
}

impl NatHand for Lacking {
    fn probe(&mut self, to: SocketAddr, _: Option<ClusterId>, _: Vec<u8>) {
        Self::tell(&format!("a question to {to}"));
    }

    fn look_up(&mut self) {
        Self::tell("looking up its address");
    }
}

impl KernelHand for Lacking {
    fn apply(&mut self, _: Arc<Wanted>) {
        Self::tell("the node's network");
    }
}

impl ZoneHand for Lacking {
    fn swap(&mut self, _: Arc<Table>) {
        Self::tell("DNS");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_much_that_is_ignored_some_is_told_and_the_rest_is_counted() {
        let (mut ignored, start) = (Ignored::default(), Instant::now());
        let told = (0..100).filter(|_| ignored.count(start).0).count();
        assert_eq!(told, 10);
        assert_eq!(ignored.count(start + Duration::from_secs(1)), (true, 90));
        assert_eq!(ignored.count(start + Duration::from_secs(3)), (true, 0));
    }
}
