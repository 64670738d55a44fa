//! What a daemon's machine takes and gives.

use crate::base::{ClusterId, Epoch, Machine, Slot, Wall};
use crate::dns::Table;
use crate::model::{Api, ApiError, Key, Kind, Object, Version, WatchEvent, Write};
use crate::nat;
use crate::network::{Plan, Wanted};
use crate::paths::Carried;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use serde::{Deserialize, Serialize};

/// Number of a read or a write, unique within one run of one daemon.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// On which of the node's links a hello travels. Hellos of one link are answered on the same link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Via {
    /// Our overlay, to a node of the own cluster.
    Overlay,
    /// The cable device for remote candidates of this rank.
    Cable(Slot),
}

/// What can happen to a daemon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// The wall clock reads this now. Given at the start and about once a second.
    Wall(Wall),
    /// One step of one watch.
    Watched(Api, WatchEvent),
    /// What came of [`Output::Read`]: the object, or `None` if there is none.
    Read(RequestId, Result<Option<(Object, Version)>, ApiError>),
    /// What came of [`Output::Write`]: the new version, or the last one for a deletion.
    Written(RequestId, Result<Version, ApiError>),
    /// A hello arrived.
    Hello {
        /// On which link.
        via: Via,
        /// Source address.
        from: IpAddr,
        /// Payload.
        bytes: Vec<u8>,
    },
    /// A datagram of NAT discovery arrived.
    Probe {
        /// Out of what: one that travelled in a tunnel proves nothing (B13).
        arrival: nat::Arrival,
        /// Source address and port.
        from: SocketAddr,
        /// Whose seal it bears.
        seal: nat::Seal,
        /// Payload.
        bytes: Vec<u8>,
    },
    /// What came of [`Output::LookUp`]: the own public address, if there is one, or why it is not known.
    LookedUp(Result<Option<IpAddr>, String>),
    /// The last [`Output::Network`] was applied, or not and why.
    Applied(Result<(), String>),
    /// Stop cleanly: give up what is held, then fall silent.
    Stop,
    /// The cluster leaves the clusterset: take away all that is this daemon's at the broker, in the own API and on the node.
    /// It is over with [`Event::Left`]. A daemon that is started again meanwhile is told again.
    Leave,
}

/// What a daemon wants done.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub enum Output {
    /// Read one object, fresh from the API.
    Read(RequestId, Api, Key),
    /// Write one object.
    Write(RequestId, Api, Write),
    /// Send a hello (UDP, port [`crate::paths::HELLO_PORT`] on both sides).
    Send {
        /// On which link.
        via: Via,
        /// The other end's address on that link.
        to: IpAddr,
        /// Payload.
        bytes: Vec<u8>,
    },
    /// Send a datagram of NAT discovery from the own discovery port, out of the uplink and never into a tunnel.
    Probe {
        /// To.
        to: SocketAddr,
        /// With the seal for this cluster.
        sealed: Option<ClusterId>,
        /// Payload without the seal.
        bytes: Vec<u8>,
    },
    /// Find out under which address this node is seen from outside.
    LookUp,
    /// The whole network state that the node should have.
    Network(Arc<Wanted>),
    /// A new DNS table.
    Dns(Arc<Table>),
    /// Something worth telling.
    Event(Event),
}

/// The one vocabulary of logs, metrics, traces and verdicts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// It holds the lease now and announces in this epoch.
    Elected(Epoch),
    /// It announces no longer.
    StoodDown {
        /// The epoch that ended.
        epoch: Epoch,
        /// Why.
        because: String,
    },
    /// The clusterset does not take this cluster in: it announces nothing.
    Refused {
        /// Who and what is in the way.
        because: String,
    },
    /// The cluster leaves, and nothing of this daemon's is left behind.
    Left,
    /// Another has claimed what this cluster announces, and goes on announcing, since it did so before.
    Contested {
        /// Who and what is in the way.
        because: String,
    },
    /// The path to a cluster is now this one.
    PathChosen {
        /// The other cluster.
        cluster: ClusterId,
        /// Version of the choice.
        version: u32,
        /// Local and remote candidate.
        pair: (Slot, Slot),
    },
    /// No live path to a cluster; routes stay as they were.
    PathDead {
        /// The other cluster.
        cluster: ClusterId,
        /// Version that died.
        version: u32,
    },
    /// The cable to a gateway of another cluster carries packets of this length, and TCP connections through it are clamped to
    /// that.
    Carries {
        /// The other cluster.
        cluster: ClusterId,
        /// Its candidate.
        slot: Slot,
        /// How much.
        carried: Carried,
    },
    /// A gateway of another cluster is dialled here from now on.
    Dials {
        /// The other cluster.
        cluster: ClusterId,
        /// Its candidate.
        slot: Slot,
        /// Where, and whether NAT is in between.
        choice: nat::Choice,
    },
    /// A gateway of another cluster, which had told that its address works, has not told so for a minute.
    Unanswered {
        /// The other cluster.
        cluster: ClusterId,
        /// Its candidate.
        slot: Slot,
    },
    /// The address under which this gateway is seen from outside is this now.
    Public(Option<IpAddr>),
    /// An input was not usable and was dropped.
    Ignored {
        /// What and why.
        because: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elected(epoch) => write!(f, "elected, announces in epoch {epoch}"),
            Self::StoodDown { epoch, because } => {
                write!(f, "stood down from epoch {epoch}: {because}")
            }
            Self::Refused { because } => write!(f, "is refused, and announces nothing: {because}"),
            Self::Left => f.write_str("has left, with nothing left behind"),
            Self::Contested { because } => write!(f, "announces as before, but its claim is refused: {because}"),
            Self::PathChosen { cluster, version, pair: (local, remote) } => {
                write!(f, "path to {cluster} is now {local}-{remote} (version {version})")
            }
            Self::PathDead { cluster, version } => {
                write!(f, "path to {cluster} is dead (version {version})")
            }
            Self::Carries { cluster, slot, carried } => {
                write!(f, "the cable to candidate {slot} of {cluster} carries {carried}")
            }
            Self::Dials { cluster, slot, choice } => write!(f, "dials candidate {slot} of {cluster} at {choice}"),
            Self::Unanswered { cluster, slot } => {
                write!(f, "candidate {slot} of {cluster} has not told for a minute that its address works")
            }
            Self::Public(Some(address)) => write!(f, "is seen from outside as {address}"),
            Self::Public(None) => f.write_str("is seen from outside under its own address"),
            Self::Ignored { because } => write!(f, "ignored: {because}"),
        }
    }
}

/// What a daemon did, for whoever watches it from outside: its events, and what its hands made of its outputs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Note {
    /// It told something.
    Told(Event),
    /// A plan was applied to its node's kernel.
    Applied {
        /// One line a step.
        steps: Vec<String>,
        /// How many items of ours (links, routes, rules, …) the kernel has now.
        items: usize,
    },
    /// Its DNS server has a new table.
    Table {
        /// Names it can answer.
        names: usize,
        /// Whether all views have synced.
        synced: bool,
    },
}

impl Note {
    /// Of a plan that was applied, after which the kernel has so many items of ours.
    #[must_use]
    pub fn of_plan(plan: &Plan, items: usize) -> Self {
        Self::Applied { steps: plan.lines(), items }
    }

    /// Of a table that is answered from now on.
    #[must_use]
    pub fn of_table(table: &Table) -> Self {
        Self::Table { names: table.names(), synced: table.synced() }
    }
}

/// The machine of a daemon.
pub trait Role: Machine<Input = Input, Output = Output> {
    /// The watches that the shell keeps open for it.
    fn watches(&self) -> &'static [(Api, Kind)];
}
