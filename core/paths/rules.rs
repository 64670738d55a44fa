//! Switches for single rules, so that a test can show what each one is for (`spec/failover.md` 12). The product runs
//! with all of them on.

/// Which rules are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rules {
    /// Workers' reports give grades (row 1).
    pub(super) grades: bool,
    /// First word to an unheard peer only after QUIET (row 2).
    pub(super) quiet: bool,
    /// An end does not revoke another's young claim (row 3).
    pub(super) grace: bool,
    /// Only pairs heard within FRESH are claimed (row 4).
    pub(super) fresh: bool,
    /// Workers relay beats (row 6).
    pub(super) relay_origins: bool,
    /// Workers correct candidates that lag (row 7).
    pub(super) relay_registers: bool,
    /// A worker sends all registers to a candidate that it does not hear (row 8).
    pub(super) all_if_unheard: bool,
    /// A session whose pair is better than the choice is fast (row 9).
    pub(super) better_is_fast: bool,
    /// The better end counts too, not only the worse one (row 10).
    pub(super) both_ends: bool,
    /// A young worker does not complain (row 11).
    pub(super) settle: bool,
    /// A worse grade must last (row 12).
    pub(super) inside: bool,
    /// A worker that suspects all gateways it has left complains of none.
    pub(super) doubt: bool,
    /// A suspect is asked before it is down (row 13).
    pub(super) ask: bool,
    /// Slow sessions are woken by `hurry` and KICK (row 13).
    pub(super) wake: bool,
    /// No claim without workers before LAST (row 14).
    pub(super) last: bool,
}

impl Rules {
    /// The protocol.
    pub(super) const ALL: Self = Self {
        grades: true,
        quiet: true,
        grace: true,
        fresh: true,
        relay_origins: true,
        relay_registers: true,
        all_if_unheard: true,
        better_is_fast: true,
        both_ends: true,
        settle: true,
        inside: true,
        doubt: true,
        ask: true,
        wake: true,
        last: true,
    };
}
