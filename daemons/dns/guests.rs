//! Who is connected, and who has to go when there are too many.

use crate::settings::Limits;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Guests {
    all: BTreeMap<u64, Guest>,
    next: u64,
}

#[derive(Debug)]
struct Guest {
    from: IpAddr,
    /// Since then it has asked nothing.
    quiet_since: Rc<Cell<Instant>>,
    task: AbortHandle,
}

impl Guests {
    /// Makes room for one more from there, and says how many had to go.
    pub(crate) fn make_room(&mut self, limits: Limits, from: IpAddr) -> usize {
        let mut gone = 0;
        while self.count(|guest| guest.from == from) >= limits.connections_per_client.max(1) {
            gone += self.part_with_the_quietest(|guest| guest.from == from);
        }
        while self.count(|_| true) >= limits.connections.max(1) {
            gone += self.part_with_the_quietest(|_| true);
        }
        gone
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Takes in a connection, whose task `start` begins by its number.
    pub(crate) fn enter(
        &mut self,
        from: IpAddr,
        quiet_since: Rc<Cell<Instant>>,
        start: impl FnOnce(u64) -> AbortHandle,
    ) {
        let number = self.next;
        self.next += 1;
        let task = start(number);
        self.all.insert(number, Guest { from, quiet_since, task });
    }

    /// It has ended.
    pub(crate) fn leave(&mut self, number: u64) {
        self.all.remove(&number);
    }

    fn count(&self, which: impl Fn(&Guest) -> bool) -> usize {
        self.all.values().filter(|guest| which(guest)).count()
    }

    fn part_with_the_quietest(&mut self, which: impl Fn(&Guest) -> bool) -> usize {
        let quietest =
            self.all.iter().filter(|(_, guest)| which(guest)).min_by_key(|(_, guest)| guest.quiet_since.get());
        let Some(number) = quietest.map(|(number, _)| *number) else { return 0 };
        let Some(guest) = self.all.remove(&number) else { return 0 };
        guest.task.abort();
        1
    }
}
