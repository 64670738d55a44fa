//! A process: a tokio runtime with a clock that stands still until it is driven. Dropping it kills it: all its tasks end
//! at once, and its host closes their sockets.

use core::time::Duration;
use std::future::Future;
use std::io;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime, RngSeed};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

/// See the module docs.
#[derive(Debug)]
pub(super) struct Process {
    runtime: LocalRuntime,
    /// What its clock read at birth.
    origin: Instant,
    born: Duration,
}

impl Process {
    /// A process that is born at `born`. `seed` decides every choice that tokio leaves to chance.
    pub(super) fn new(born: Duration, seed: u64) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .rng_seed(RngSeed::from_bytes(&seed.to_be_bytes()))
            .build_local(LocalOptions::default())?;
        let origin = {
            let _inside = runtime.enter();
            Instant::now()
        };
        Ok(Self { runtime, origin, born })
    }

    /// Puts a task into it.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) -> AbortHandle {
        self.runtime.spawn_local(task).abort_handle()
    }

    /// Lets it live until `until`. Its stack must have been entered.
    pub(super) fn live(&self, until: Duration) {
        let until = self.origin + until.saturating_sub(self.born);
        self.runtime.block_on(async move { sleep_until(until).await });
    }
}
