//! The words that stand for values. Each table has its one home here: it is read by, mistakes list it, and the schema
//! offers it.

use super::values::Kind;
use crate::{Ability, ApiFault, Daemon, Daemons, Flow};
use core::time::Duration;
use tombolo_core::model::{CableDriver, Protocol};
use tombolo_core::nat::boxes::Dependence;

/// Words with what they stand for.
pub(super) type Words<T> = [(&'static str, T)];

pub(super) const ABILITIES: &Words<Ability> = &[
    ("loss", Ability::Loss),
    ("delay", Ability::Delay),
    ("jitter", Ability::Jitter),
    ("held-flows", Ability::HeldFlows),
    ("clocks", Ability::Clocks),
    ("deterministic", Ability::Deterministic),
    ("hours", Ability::Hours),
];

pub(super) const CABLES: &Words<CableDriver> = &[("wireguard", CableDriver::Wireguard), ("vxlan", CableDriver::Vxlan)];

pub(super) const DAEMONS: &Words<Daemons> = &[
    (Daemon::Gateway.name(), Daemons::One(Daemon::Gateway)),
    (Daemon::RouteAgent.name(), Daemons::One(Daemon::RouteAgent)),
    (Daemon::Discovery.name(), Daemons::One(Daemon::Discovery)),
    (Daemon::Dns.name(), Daemons::One(Daemon::Dns)),
    ("all", Daemons::All),
];

pub(super) const FLOWS: &Words<Flow> = &[("new", Flow::New), ("held", Flow::Held)];

pub(super) const PROTOCOLS: &Words<Protocol> = &[("tcp", Protocol::Tcp), ("udp", Protocol::Udp)];

/// DNS response codes stand for themselves.
pub(super) const RCODES: &Words<()> =
    &[("NOERROR", ()), ("NXDOMAIN", ()), ("SERVFAIL", ()), ("REFUSED", ()), ("FORMERR", ()), ("NOTIMP", ())];

/// On what a mapping or a filter depends.
pub(super) const NAT_KINDS: &Words<Dependence> = &[
    ("endpoint-independent", Dependence::Nothing),
    ("address-dependent", Dependence::Address),
    ("address-and-port-dependent", Dependence::AddressAndPort),
];

/// Whether a NAT box keeps ports.
pub(super) const NAT_PORTS: &Words<bool> = &[("kept", true), ("changed", false)];

pub(super) const FLAGS: &Words<bool> = &[("true", true), ("false", false)];

/// For keys whose presence says all.
pub(super) const SET: &Words<()> = &[("true", ())];

/// How an API can be told to behave.
pub(super) enum Behaviour {
    Plain(ApiFault),
    Timed(fn(Duration) -> ApiFault),
}

pub(super) const BEHAVIOURS: &Words<Behaviour> = &[
    ("healthy", Behaviour::Plain(ApiFault::Healthy)),
    ("slow", Behaviour::Timed(ApiFault::Slow)),
    ("slow-deletes", Behaviour::Timed(ApiFault::SlowDeletes)),
    ("erroring", Behaviour::Plain(ApiFault::Erroring)),
    ("down", Behaviour::Plain(ApiFault::Down)),
    ("restarted-empty", Behaviour::Plain(ApiFault::RestartedEmpty)),
    ("backed-up", Behaviour::Plain(ApiFault::BackedUp)),
    ("restored", Behaviour::Plain(ApiFault::Restored)),
    ("history-expired", Behaviour::Plain(ApiFault::HistoryExpired)),
];

/// The states of an API that need a time.
pub(super) fn timed_states() -> Vec<&'static str> {
    let timed = BEHAVIOURS.iter().filter(|(_, behaviour)| matches!(behaviour, Behaviour::Timed(_)));
    timed.map(|(word, _)| *word).collect()
}

/// What `text` stands for.
pub(super) fn meaning<'t, T>(table: &'t Words<T>, text: &str) -> Option<&'t T> {
    table.iter().find(|(word, _)| *word == text).map(|(_, meaning)| meaning)
}

/// The words alone.
fn listed<T>(table: &Words<T>) -> Vec<&'static str> {
    table.iter().map(|(word, _)| *word).collect()
}

impl Kind {
    /// The words of which a value of this kind is one; none if it is no such kind.
    pub(super) fn words(self) -> Vec<&'static str> {
        match self {
            Self::Ability => listed(ABILITIES),
            Self::Cable => listed(CABLES),
            Self::Daemon => listed(DAEMONS),
            Self::Flow => listed(FLOWS),
            Self::Rcode => listed(RCODES),
            Self::NatKind => listed(NAT_KINDS),
            Self::NatPorts => listed(NAT_PORTS),
            Self::Flag => listed(FLAGS),
            Self::Set => listed(SET),
            Self::ApiFault => listed(BEHAVIOURS),
            Self::Text
            | Self::Name
            | Self::Cluster
            | Self::NodeSpec
            | Self::Broker
            | Self::Api
            | Self::Range
            | Self::Duration
            | Self::Window
            | Self::Port
            | Self::Count
            | Self::Share
            | Self::Mtu
            | Self::Skew
            | Self::Rate
            | Self::Target
            | Self::DnsName
            | Self::Node
            | Self::Side
            | Self::Service
            | Self::Watched => Vec::new(),
        }
    }
}
