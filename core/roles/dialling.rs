//! Where a gateway dials the candidates of other clusters: what NAT discovery finds, and until then what they say
//! themselves.
//!
//! ```text
//!  their records, ranges ─┐                            ┌─> Choices  → the endpoints of cable peers
//!  datagrams, lookups ────┼─> crate::nat::Discovery ───┼─> Probe, LookUp
//!  a path that died ──────┘                            └─> own public address → own card → all other clusters
//! ```
//! A candidate with a public address says by it that it is behind NAT, so that is dialled first. Whether a daemon has just
//! started or not, a peer that is dialled at one of its two addresses stays there until discovery has chosen
//! ([`Stay`](crate::network::Stay)): a restart moves no cable (B13). Where a cable heard its peer last is the cable's own
//! business and appears nowhere here (B15); as long as it carries, only the private address is better, if discovery had an
//! answer from there.

use super::announce::cable_name;
use super::node_side::NodeConfig;
use super::{Event, Output};
use crate::base::{Cidr, ClusterId, Instant, Machine, Slot};
use crate::model::{Candidate, Candidates, Reach};
use crate::nat::{self, Arrival, Choice, Dialect, Discovery, Ignored, Me, Remote, RemoteId, Seal};
use crate::network::constants::CABLE_PORT_BASE;
use crate::paths::{SlotSet, Way};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// Where to dial which candidate.
pub(super) type Choices = BTreeMap<(ClusterId, Slot), Choice>;

/// See the module docs.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Dialling {
    own: IpAddr,
    discovery: Discovery,
    slots: BTreeMap<RemoteId, Slot>,
    choices: Choices,
    /// Under which address this gateway is seen from outside, once that was looked up.
    public: Option<Option<IpAddr>>,
    /// Clusters to which no path lives.
    dead: BTreeSet<ClusterId>,
    /// Whose cables carry.
    carrying: BTreeMap<ClusterId, SlotSet>,
    outbox: VecDeque<Output>,
}

/// What came of a step, beside outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Changed {
    /// Another address is to be dialled.
    pub(super) choices: bool,
    /// The own public address is another.
    pub(super) public: bool,
}

impl Dialling {
    /// A gateway at `address` that asks and answers at `port`.
    pub(super) fn new(config: &NodeConfig, address: IpAddr, port: Option<u16>, looks_up: bool) -> Self {
        let endpoint = cable_name(&config.cluster, address);
        let me = Me { cluster: config.cluster.clone(), endpoint, private: address, port: port.unwrap_or(0) };
        Self {
            own: address,
            discovery: Discovery::new(nat::Config { me, looks_up, seed: config.seed, boot: config.boot }),
            slots: BTreeMap::new(),
            choices: Choices::new(),
            public: None,
            dead: BTreeSet::new(),
            carrying: BTreeMap::new(),
            outbox: VecDeque::new(),
        }
    }

    /// Where to dial.
    pub(super) const fn choices(&self) -> &Choices {
        &self.choices
    }

    /// The own public address, if it is another than the private one. The outer `None`: it is not known yet.
    pub(super) fn public(&self) -> Option<Option<IpAddr>> {
        self.public.map(|public| public.filter(|public| *public != self.own))
    }

    pub(super) fn poll_output(&mut self) -> Option<Output> {
        self.outbox.pop_front()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.discovery.poll_timeout().map(|(at, _)| at)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) -> Changed {
        self.discovery.handle_timeout(now);
        self.pump()
    }

    /// A datagram of discovery.
    pub(super) fn probe(
        &mut self,
        arrival: Arrival,
        from: SocketAddr,
        seal: Seal,
        bytes: Vec<u8>,
        now: Instant,
    ) -> Changed {
        self.feed(nat::Input::Datagram { arrival, from, seal, bytes }, now)
    }

    pub(super) fn looked_up(&mut self, result: Result<Option<IpAddr>, String>, now: Instant) -> Changed {
        self.feed(nat::Input::LookedUp(result), now)
    }

    /// The other clusters' candidates and all that is reached through cables. `slot` is the own one: without it nobody is
    /// dialled.
    pub(super) fn see<'a>(
        &mut self,
        slot: Option<Slot>,
        candidates: impl Iterator<Item = (ClusterId, &'a Candidates)>,
        tunnelled: BTreeSet<Cidr>,
        now: Instant,
    ) -> Changed {
        let mut remotes = BTreeMap::new();
        self.slots.clear();
        if let Some(own) = slot {
            let port = cable_port(own);
            for (cluster, candidates) in candidates {
                for (slot, candidate) in &candidates.by_slot {
                    let endpoint = cable_name(&cluster, candidate.address);
                    let id = RemoteId { cluster: cluster.clone(), endpoint };
                    self.slots.insert(id.clone(), *slot);
                    remotes.insert(id, remote(candidate, port));
                }
            }
        }
        self.discovery.handle(nat::Input::Tunnelled(tunnelled), now);
        self.discovery.handle(nat::Input::Remotes(remotes), now);
        let mut changed = self.pump();
        let choices = self
            .slots
            .iter()
            .filter_map(|(id, slot)| self.discovery.choice(id).map(|choice| ((id.cluster.clone(), *slot), choice)));
        let choices: Choices = choices.collect();
        changed.choices |= choices != self.choices;
        self.choices = choices;
        changed
    }

    /// The paths in use: where the last one died, addresses are doubted.
    pub(super) fn see_ways(&mut self, ways: &BTreeMap<ClusterId, Way>, now: Instant) -> Changed {
        self.carrying = ways.iter().map(|(cluster, way)| (cluster.clone(), way.carries)).collect();
        let lost = |way: &Way| way.reach == Reach::Lost;
        let dead: BTreeSet<ClusterId> =
            ways.iter().filter(|(_, way)| lost(way)).map(|(cluster, _)| cluster.clone()).collect();
        let doubted: Vec<RemoteId> = self
            .slots
            .keys()
            .filter(|id| dead.contains(&id.cluster) && !self.dead.contains(&id.cluster))
            .cloned()
            .collect();
        self.dead = dead;
        for id in doubted {
            self.discovery.handle(nat::Input::Doubt(id), now);
        }
        self.pump()
    }

    fn carries(&self, cluster: &ClusterId, slot: Slot) -> bool {
        self.carrying.get(cluster).is_some_and(|carrying| carrying.contains(slot))
    }

    fn feed(&mut self, input: nat::Input, now: Instant) -> Changed {
        self.discovery.handle(input, now);
        self.pump()
    }

    fn pump(&mut self) -> Changed {
        let mut changed = Changed::default();
        while let Some(output) = self.discovery.poll_output() {
            match output {
                nat::Output::Send { to, sealed, bytes } => {
                    self.outbox.push_back(Output::Probe { to, sealed, bytes });
                }
                nat::Output::Chosen { remote, choice } => {
                    let Some(slot) = self.slots.get(&remote).copied() else { continue };
                    let cluster = remote.cluster;
                    let before = self.choices.insert((cluster.clone(), slot), choice);
                    changed.choices |= before != Some(choice);
                    let moves = before.map(|before| before.socket()) != Some(choice.socket());
                    if moves && (choice.answered || !self.carries(&cluster, slot)) {
                        self.outbox.push_back(Output::Event(Event::Dials { cluster, slot, choice }));
                    }
                }
                nat::Output::Unanswered { remote } => {
                    let Some(slot) = self.slots.get(&remote).copied() else { continue };
                    self.outbox.push_back(Output::Event(Event::Unanswered { cluster: remote.cluster, slot }));
                }
                nat::Output::LookUp => self.outbox.push_back(Output::LookUp),
                nat::Output::Public(address) => {
                    let before = self.public();
                    self.public = Some(address);
                    changed.public |= self.public() != before;
                    if self.public().flatten() != before.flatten() {
                        self.outbox.push_back(Output::Event(Event::Public(self.public().flatten())));
                    }
                }
                // Part of every test: the slower of two answers, and one box's answer for another gateway behind it.
                nat::Output::Ignored { why: Ignored::Late | Ignored::OldNumber | Ignored::Refused(_), .. } => {}
                nat::Output::Ignored { from, why, more } => {
                    let others = if more > 0 { alloc::format!(", and {more} more") } else { String::new() };
                    let because = alloc::format!("a discovery datagram from {from}: {why}{others}");
                    self.outbox.push_back(Output::Event(Event::Ignored { because }));
                }
            }
        }
        changed
    }
}

/// The port on which a candidate takes what the one of rank `own` sends.
const fn cable_port(own: Slot) -> u16 {
    CABLE_PORT_BASE + own.get() as u16
}

fn remote(candidate: &Candidate, cable_port: u16) -> Remote {
    Remote {
        private: Some(candidate.address),
        public: candidate.public,
        discovery_port: candidate.discovery_port,
        cable_port,
        nat_enabled: candidate.public.is_some(),
        load_balancer: false,
        dialect: Dialect::Sealed,
    }
}

/// Where to dial a candidate: where discovery found it, or where its record says, and then perhaps at its other address.
pub(super) fn places(choice: Option<&Choice>, candidate: &Candidate, own: Slot) -> (SocketAddr, Option<SocketAddr>) {
    if let Some(choice) = choice {
        return (choice.socket(), None);
    }
    let at = |address: IpAddr| SocketAddr::new(address, cable_port(own));
    match candidate.public {
        Some(public) => (at(public), Some(at(candidate.address))),
        None => (at(candidate.address), None),
    }
}
