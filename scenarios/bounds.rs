//! Every number that a verdict or an invariant depends on, with its meaning. One place, so that all worlds are judged
//! alike and the documentation can cite it.

use core::time::Duration;
use tombolo_core::sync::ABSENCE;

/// A probe of each stream begins this often: the grain of every verdict. Short against the second that a failover may
/// take, long against a round trip between sites.
pub const PROBE_EVERY: Duration = Duration::from_millis(50);

/// A probe without an answer for this long has failed.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// A world may tell the outcome of a probe this much after its timeout. Probes stop early enough before the end of the
/// run that every outcome can still arrive; one that never comes is a failure of the world.
pub const OUTCOME_GRACE: Duration = Duration::from_millis(500);

/// After the last act and the last time that an expectation names, the run goes on for this long, so that "and from
/// then on" is watched and not merely claimed. `settled` needs as much quiet.
pub const TAIL: Duration = Duration::from_secs(5);

/// When faults have ended and nothing was done for this long, everything works: all probes pass (Converges), and what is
/// there can be reached and resolved. It covers a daemon's start, one
/// listing after the longest back-off of a watch, and one choice of path; the run lasts at least as long after the last
/// act.
pub const CONVERGED_WITHIN: Duration = Duration::from_secs(10);

/// A lease that was lost with all that its API held is another's within this: it lasts 15 s and is asked for every 2 s
/// (`spec/mcs-dns.md` rule 61).
pub const LEASE_TAKEN_WITHIN: Duration = Duration::from_secs(17);

/// When faults have ended and nothing was done for this long, what is gone at its source is gone everywhere (No lost
/// delete, DNS never lies), also where only a new listing shows it: that is believed when it has lasted
/// ([`tombolo_core::sync::ABSENCE`]).
pub const GONE_WITHIN: Duration = Duration::from_secs(20);

const _: () = assert!(GONE_WITHIN.as_millis() >= CONVERGED_WITHIN.as_millis() + ABSENCE.as_millis());

/// With no API at fault and nothing done for this long, nothing moves any more (No flap). A lease lasts 15 s and is
/// asked for every 2 s (`spec/mcs-dns.md` rule 61); a candidate that reaches nobody gives it up after 5 s
/// (`spec/failover.md` 8). Then the last election that an act can cause is over.
pub const CALM_AFTER: Duration = Duration::from_secs(25);

/// A gateway whose public address changed has looked it up and told all others within this: it looks once a minute
/// (`spec/submariner.md` 6), and sooner when a path dies.
pub const ADDRESS_KNOWN_WITHIN: Duration = Duration::from_secs(70);

/// Where links lose packets, a probe may fail by chance. A flow is judged broken (Converges) only if none of its probes
/// passes for this long.
pub const CHANCE_FORGIVEN: Duration = Duration::from_secs(2);

/// A name that was exported and could be known for this long must not be denied (ARCHITECTURE section 8: an export is
/// answerable in under 1 s; this leaves room for the probe itself).
pub const NAME_KNOWN_WITHIN: Duration = Duration::from_secs(2);

/// Addresses of a cluster whose data path is lost leave the answers within this (ARCHITECTURE section 8: 3 s), plus the
/// time in which the loss is written down and read again.
pub const LOST_HIDDEN_WITHIN: Duration = Duration::from_secs(4);

/// A daemon gives up a request to an API that is not answered within this (`daemons/kube`, and both speeds of the
/// simulator). An API that is slower is as unreachable to them as one that is down, though it carries out what it is asked.
pub const REQUEST_DEADLINE: Duration = tombolo_core::sync::REQUEST_DEADLINE;
