//! A process: a tokio runtime with a clock that stands still until it is driven. Dropping it kills it: all its tasks end
//! at once, and its host closes their sockets.
//!
//! Driving one costs half a microsecond even if it has nothing to do, and of most there is nothing to do in most ticks. So
//! a process that was not stirred (no packet for its stack, no input from the world) naps for a few ticks and then lives
//! them at once. Its timers still fire at their times by its own clock; what they make it send leaves late by the rest of
//! the nap at most, as on a host that is busy.

use core::cell::Cell;
use core::time::Duration;
use std::future::Future;
use std::io;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime, RngSeed};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{Instant, sleep_until};
use tombolo_scenarios::Rate;

/// How long a daemon or an API server that was not stirred is left alone.
pub(super) const NAP: Duration = Duration::from_millis(4);
/// How long a pod is: all that it does by itself is to say again what was not answered, a fifth of a second later or more.
pub(super) const POD_NAP: Duration = Duration::from_millis(20);

/// See the module docs.
#[derive(Debug)]
pub(super) struct Process {
    runtime: LocalRuntime,
    /// What its clock read at `since`: its birth, or when its rate was last changed.
    origin: Cell<Instant>,
    since: Cell<Duration>,
    rate: Cell<Rate>,
    /// It has lived until then.
    lived: Cell<Duration>,
    stirred: Cell<bool>,
    nap: Duration,
}

impl Process {
    /// A process that is born at `born` and naps for `nap` at most. `seed` decides every choice that tokio leaves to chance.
    pub(super) fn new(born: Duration, seed: u64, nap: Duration) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .rng_seed(RngSeed::from_bytes(&seed.to_be_bytes()))
            .build_local(LocalOptions::default())?;
        let origin = {
            let _inside = runtime.enter();
            Instant::now()
        };
        Ok(Self {
            runtime,
            origin: Cell::new(origin),
            since: Cell::new(born),
            rate: Cell::new(Rate(0)),
            lived: Cell::new(born),
            stirred: Cell::new(true),
            nap,
        })
    }

    /// From the moment until which it has lived, its clock runs at this rate.
    pub(super) fn set_rate(&self, rate: Rate) {
        let lived = self.lived.get();
        self.origin.set(self.clock_at(lived));
        self.since.set(lived);
        self.rate.set(rate);
    }

    /// What its clock reads at `now`.
    fn clock_at(&self, now: Duration) -> Instant {
        let (elapsed, Rate(millionths)) = (now.saturating_sub(self.since.get()), self.rate.get());
        let error = elapsed * millionths.unsigned_abs() / 1_000_000;
        self.origin.get() + if millionths < 0 { elapsed.saturating_sub(error) } else { elapsed + error }
    }

    /// Puts a task into it.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) -> AbortHandle {
        self.runtime.spawn_local(task).abort_handle()
    }

    /// Lets it live until `until`, unless it naps. Its stack must have been entered.
    pub(super) fn live(&self, until: Duration) {
        if self.stirred.take() || until.saturating_sub(self.lived.get()) >= self.nap {
            self.catch_up(until);
        }
    }

    /// Something is about to be done to it at `now`: it lives until then, and goes on living. Its stack must have been
    /// entered.
    pub(super) fn stir(&self, now: Duration) {
        if self.lived.get() < now {
            self.catch_up(now);
        }
        self.stirred.set(true);
    }

    fn catch_up(&self, until: Duration) {
        self.lived.set(until);
        let until = self.clock_at(until);
        self.runtime.block_on(async move {
            sleep_until(until).await;
            // For those who wanted to wake at that very moment.
            yield_now().await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;
    use std::rc::Rc;
    use tokio::sync::Notify;
    use tokio::time::{Instant, sleep};

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// A process that notes what its clock reads every two milliseconds, and whenever it is notified.
    fn noting() -> (Process, Rc<Notify>, Rc<RefCell<Vec<u128>>>) {
        let process = Process::new(ms(100), 1, NAP).unwrap();
        let (notify, notes) = (Rc::new(Notify::new()), Rc::new(RefCell::new(Vec::new())));
        let (told, noted) = (Rc::clone(&notify), Rc::clone(&notes));
        process.spawn(async move {
            let begin = Instant::now();
            loop {
                tokio::select! {
                    biased;
                    () = told.notified() => {}
                    () = sleep(ms(2)) => {}
                }
                noted.borrow_mut().push(begin.elapsed().as_millis());
            }
        });
        (process, notify, notes)
    }

    #[test]
    fn what_is_due_at_the_end_of_a_tick_is_done_in_it() {
        let (process, _, notes) = noting();
        process.live(ms(102));
        assert_eq!(*notes.borrow(), [2]);
    }

    #[test]
    fn one_that_was_not_stirred_naps_and_then_does_everything_at_its_time() {
        let (process, _, notes) = noting();
        process.live(ms(101));
        for tick in 102..105 {
            process.live(ms(tick));
            assert_eq!(*notes.borrow(), [0; 0]);
        }
        process.live(ms(105));
        assert_eq!(*notes.borrow(), [2, 4]);
    }

    #[test]
    fn one_that_is_stirred_has_lived_until_then_before_anything_is_done_to_it() {
        let (process, notify, notes) = noting();
        process.live(ms(101));
        process.stir(ms(103));
        notify.notify_one();
        process.live(ms(104));
        assert_eq!(*notes.borrow(), [2, 3]);
    }

    #[test]
    fn one_whose_clock_is_slow_does_everything_late_from_then_on() {
        let (process, _, notes) = noting();
        process.stir(ms(102));
        process.set_rate(Rate(-500_000));
        process.stir(ms(104));
        assert_eq!(*notes.borrow(), [2]);
        process.stir(ms(106));
        assert_eq!(*notes.borrow(), [2, 4]);
        process.set_rate(Rate(0));
        process.stir(ms(108));
        assert_eq!(*notes.borrow(), [2, 4, 6]);
    }

    #[test]
    fn what_is_dropped_ends_all_its_tasks() {
        let (process, notify, _) = noting();
        assert_eq!(Rc::strong_count(&notify), 2);
        drop(process);
        assert_eq!(Rc::strong_count(&notify), 1);
    }
}
