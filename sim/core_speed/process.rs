//! A daemon: its machine while it runs, and what its hands keep for it.

use crate::world::HostId;
use core::fmt::Debug;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;
use tombolo_core::base::{Instant, Machine, Revision};
use tombolo_core::dns::{Picks, Table};
use tombolo_core::model::{Api, Kind};
use tombolo_core::roles::{Input, Output, RequestId, Role};
use tombolo_scenarios::Daemon;

/// Any role's machine.
pub trait Driven: Debug {
    /// [`Machine::handle`]
    fn take(&mut self, input: Input, now: Instant);
    /// [`Machine::poll_output`]
    fn next_output(&mut self) -> Option<Output>;
    /// [`Machine::poll_timeout`]
    fn wake_at(&self) -> Option<Instant>;
    /// [`Machine::handle_timeout`]
    fn wake(&mut self, now: Instant);
    /// [`Role::watches`]
    fn watched(&self) -> &'static [(Api, Kind)];
}

impl<R: Role> Driven for R {
    fn take(&mut self, input: Input, now: Instant) {
        Machine::handle(self, input, now);
    }

    fn next_output(&mut self) -> Option<Output> {
        Machine::poll_output(self)
    }

    fn wake_at(&self) -> Option<Instant> {
        Machine::poll_timeout(self).map(|(at, _)| at)
    }

    fn wake(&mut self, now: Instant) {
        Machine::handle_timeout(self, now);
    }

    fn watched(&self) -> &'static [(Api, Kind)] {
        Role::watches(self)
    }
}

/// Number of a daemon's place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ProcessId(pub(super) usize);

/// One run of a daemon: what is meant for an earlier run is for nobody.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Client {
    pub(super) process: ProcessId,
    pub(super) boot: u64,
}

/// A daemon's place, and the daemon while it runs.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) host: HostId,
    pub(super) daemon: Daemon,
    /// How often it was started.
    pub(super) boot: u64,
    pub(super) running: Option<Running>,
}

/// A running daemon.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) machine: Box<dyn Driven>,
    /// The wake-up that stands in the queue; never later than the machine wants.
    pub(super) wake: Option<Duration>,
    pub(super) watches: Vec<Watch>,
    /// Reads and writes without an answer so far.
    pub(super) pending: BTreeMap<RequestId, Asked>,
    /// What its socket answers from.
    pub(super) table: Option<Arc<Table>>,
    pub(super) picks: Picks,
}

/// What a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    Read,
    Write,
}

/// The client's side of one watch.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) api: Api,
    pub(super) kind: Kind,
    /// Counts connections: what comes over an older one is for nobody.
    pub(super) session: u64,
    /// Where it can go on; nowhere: it must list anew.
    pub(super) revision: Option<Revision>,
    pub(super) phase: Phase,
    /// When the phase ends by itself.
    pub(super) due: Duration,
    /// Connections that failed one after the other.
    pub(super) failures: u32,
}

/// How far a watch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Waits before it tries again.
    Waiting,
    /// Asked, without an answer so far.
    Asking,
    /// Open.
    Open,
}

impl Watch {
    pub(super) const fn new(api: Api, kind: Kind) -> Self {
        Self { api, kind, session: 0, revision: None, phase: Phase::Waiting, due: Duration::ZERO, failures: 0 }
    }
}

impl Process {
    pub(super) const fn client(&self, id: ProcessId) -> Client {
        Client { process: id, boot: self.boot }
    }
}
