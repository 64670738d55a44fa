//! The law of machines.
//!
//! 1. One change (`handle` or `handle_timeout`), then drain [`Machine::poll_output`] to `None`, then ask
//!    [`Machine::poll_timeout`]; it is asked only when drained.
//! 2. A wake-up before the deadline, or a second one at it, leaves the machine equal and silent.
//! 3. Same inputs and seed, same outputs.
//! 4. After `handle_timeout(t)` and a drain, the next timeout is later than `t`.
//! 5. Extra wake-ups beside the exact ones change neither outputs nor state.
//! 6. At equal times due timers go before inputs.

use super::Instant;
use alloc::vec::Vec;
use core::fmt::Debug;

/// A pure state machine. See the module docs for the six laws.
pub trait Machine: Clone + PartialEq + Debug {
    /// What can happen to it.
    type Input: Clone + PartialEq + Debug;
    /// What it wants done.
    type Output: Clone + PartialEq + Debug;
    /// Why it wants to wake.
    type Reason: Copy + PartialEq + Debug;

    /// Takes one observation. `now` never goes back between calls.
    fn handle(&mut self, input: Self::Input, now: Instant);
    /// The next thing to do, until `None`.
    fn poll_output(&mut self) -> Option<Self::Output>;
    /// When it wants to be woken, and why. Asked only when drained.
    fn poll_timeout(&self) -> Option<(Instant, Self::Reason)>;
    /// Wakes it. Harmless at any time.
    fn handle_timeout(&mut self, now: Instant);
}

/// All outputs that wait in `machine`.
pub fn drain<M: Machine>(machine: &mut M) -> Vec<M::Output> {
    core::iter::from_fn(|| machine.poll_output()).collect()
}
