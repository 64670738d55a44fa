//! The protocol's times (`spec/failover.md` 5). The model that checked the rules used these values; they hang
//! together (LISTEN is longer than STALE, FRESH longer than two latencies beside a hello), so change none alone.

use core::time::Duration;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Between two hellos of a fast session, and between two beats.
pub const HELLO: Duration = ms(100);
/// Jitter of [`HELLO`], in percent each way.
pub const JITTER_PERCENT: u32 = 10;
/// Between two hellos of a slow session (standby to standby); each is an `ask`.
pub const SLOW: Duration = ms(10_000);
/// So long silent: ask.
pub const SUSPECT: Duration = ms(150);
/// Between two asks of a suspect.
pub const ASK: Duration = ms(20);
/// So long silent: down.
pub const DOWN: Duration = ms(400);
/// A pair may be claimed only when its other end was heard within this.
pub const FRESH: Duration = ms(200);
/// Between the three hellos of a burst.
pub const BURST: Duration = ms(30);
/// Hellos of a burst, the one at once included.
pub const BURST_HELLOS: u8 = 3;
/// Changes that a session tells at once while a burst runs; more of them wait for the burst's next hello, so that
/// the death of a gateway that was active for a hundred clusters is not a hundred hellos to each worker.
pub const BURST_AT_ONCE: u8 = 4;
/// How long a `hurry` keeps sessions fast.
pub const HOLD: Duration = ms(2_000);
/// Least wait before version 1 after the first session is up, for the pair (1, 1).
pub const FIRST: Duration = ms(200);
/// And so much more for each rank below it.
pub const FIRST_STEP: Duration = ms(150);
/// No beat of either end grew for this long: the choice is not alive.
pub const STALE: Duration = ms(500);
/// The same, to wake slow sessions.
pub const KICK: Duration = ms(250);
/// A worse grade counts against the choice when it lasts so long without a gap.
pub const INSIDE: Duration = ms(100);
/// No claim so long after the own start.
pub const LISTEN: Duration = ms(600);
/// No word to a peer not yet heard so long after the own start.
pub const QUIET: Duration = ms(300);
/// An end does not revoke another's claim for so long.
pub const GRACE: Duration = ms(200);
/// A worker's report counts as complaint so long after its start.
pub const SETTLE: Duration = ms(500);
/// Not alive for so long: claim although no worker is reached.
pub const LAST: Duration = ms(2_000);
/// Answers to `ask` are at least so far apart.
pub const ANSWER: Duration = ms(10);
/// A fast session that was silent for so long while the choice is alive …
pub const BACK_OFF_AFTER: Duration = ms(10_000);
/// … sends only so often.
pub const BACK_OFF: Duration = ms(1_000);
/// Above 100 workers a worker reports every so much for each worker.
pub const REPORT_PER_WORKER: Duration = ms(1);
/// A slow session stands in for the path (rule F2) so long after it was last seen up: two of its hellos may be lost.
pub const STAND_IN: Duration = ms(35_000);
/// … and yields to one that is up so long after it was last up itself: a hello of it or its answer did not come.
pub const AGED: Duration = ms(11_500);
/// Between two reports of datagrams that were no use.
pub const IGNORED: Duration = ms(1_000);
/// Between two questions whether a fast session still carries what it did: what carries less is a black hole for so long.
pub const CONFIRM: Duration = ms(5_000);
/// The same of a slow session.
pub const CONFIRM_SLOW: Duration = ms(60_000);
/// Between two questions whether more carries, where not all does that the link takes (RFC 8899 5.1.1: 600 s, to spare
/// phones).
pub const RAISE: Duration = ms(60_000);
/// Between two tries of a round.
pub const AGAIN: Duration = ms(60);
