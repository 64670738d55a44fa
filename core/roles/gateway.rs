//! The gateway: on each node that may be one. It stands for election, announces while it holds the lease, keeps a warm
//! session to every candidate of every other cluster, and gives its node the network that follows.
//!
//! ```text
//!  cards of all candidates ─┐                         ┌─> Cluster, Endpoint, Candidates   at the broker and here
//!  lease ─> Election ───────┴─> holder: announce ─────┤
//!  the broker's claims ───────> holder: claim        ─┤
//!  the broker's records ──────> holder: copy here ────┴─> the other clusters' records     here, for all nodes
//!  own card  <── reach of each cluster <── Paths <── hellos
//! ```
//! Losing the lease ends the announcing and nothing else: cables, routes and sessions stay (B01).

mod announcing;
mod copies;
mod gone;
mod joining;
mod leaving;
mod reach;

use super::backends::exported;
use super::dialling::{Changed, Dialling};
use super::node_side::{
    NodeConfig, NodeSide, OwnSide, claims, nodes, own_candidates, remote_candidates, remote_clusters,
};
use super::{Event, Input, Output, RequestId, Role};
use crate::base::{ClusterId, Epoch, Instant, Lasting, Machine, NodeName, Slot};
use crate::election::{self, Election};
use crate::model::{Api, ApiError, CableKey, Gateway as Card, Key, Kind, Object, Version, WatchEvent, Write};
use crate::sync::{Index, Writer};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use gone::{GONE, Silent};
use joining::Joining;
use leaving::Leaving;
use reach::Reached;

/// Name of the Lease, as Submariner has it.
pub const LEASE: &str = "submariner-gateway-lock";

/// Requests of the election carry this bit, those of the writer do not.
const OF_ELECTION: u64 = 1 << 63;

/// The kinds that gateways copy from the broker for their cluster.
const COPIED: [Kind; 3] = [Kind::Cluster, Kind::Endpoint, Kind::Candidates];

/// How a gateway daemon is set up.
#[derive(Clone, PartialEq, Debug)]
pub struct GatewayConfig {
    /// Who and where.
    pub node: NodeConfig,
    /// Its private address.
    pub address: IpAddr,
    /// Where it takes part in NAT discovery, if it does.
    pub discovery_port: Option<u16>,
    /// Whether there is a way to look up the address under which it is seen from outside.
    pub looks_up: bool,
    /// Public key of the own cable device for each remote rank.
    pub keys: Vec<CableKey>,
    /// Unique for each process on the node. Of two, the earlier one is dead: whoever starts them sees to that.
    pub process: String,
    /// UID of the cluster's namespace `kube-system`: which cluster it is, whatever it is called (B36).
    pub cluster_uid: String,
}

/// The machine of `tombolo gateway`.
#[derive(Clone, PartialEq, Debug)]
pub struct Gateway {
    address: IpAddr,
    discovery_port: Option<u16>,
    keys: Vec<CableKey>,
    index: Index,
    writer: Writer,
    reached: Reached,
    /// Cards of nodes that are no gateways any more.
    gone: Lasting<Silent>,
    election: Election,
    /// No other node may be a gateway.
    alone: bool,
    node: NodeSide,
    dialling: Dialling,
    /// While it holds the lease: the epoch of its term.
    term: Option<Epoch>,
    told_lease: Option<(Epoch, Option<Slot>)>,
    hesitates_until: Option<Instant>,
    joining: Joining,
    leaving: Option<Leaving>,
    /// Clusters whose announcements are not copied, and why.
    strangers: BTreeMap<ClusterId, String>,
    outbox: VecDeque<Output>,
}

/// Why a gateway wakes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GatewayWake {
    /// The lease has to be read, renewed or given up.
    Election,
    /// The cluster's ranges have to be claimed, or given back.
    Joining,
    /// The lease has to be taken away.
    Leaving,
    /// A hello is due, or a neighbour has been silent.
    Paths,
    /// An address is to be tested or looked up.
    Dialling,
    /// A write may be tried again.
    Writer,
    /// What an API does not show any more may be gone for good, and so may a gateway.
    Absence,
    /// A cluster may be lost for good.
    Loss,
}

impl Gateway {
    /// A gateway that has just started.
    #[must_use]
    pub fn new(config: GatewayConfig) -> Self {
        let seed = config.node.seed;
        let election = Election::new(election::Config {
            lease: LEASE.into(),
            host: config.node.node.as_str().into(),
            process: config.process,
            durations: election::Durations::GATEWAY,
            seed,
        });
        Self {
            dialling: Dialling::new(&config.node, config.address, config.discovery_port, config.looks_up),
            address: config.address,
            discovery_port: config.discovery_port,
            keys: config.keys,
            index: Index::default(),
            writer: Writer::new(seed),
            reached: Reached::new(config.node.boot),
            gone: Lasting::new(GONE),
            election,
            alone: false,
            node: NodeSide::new(config.node),
            term: None,
            told_lease: None,
            hesitates_until: None,
            joining: Joining::new(config.cluster_uid, seed),
            leaving: None,
            strangers: BTreeMap::new(),
            outbox: VecDeque::new(),
        }
    }

    fn watched(&mut self, api: Api, touched: &[Key], now: Instant) {
        let any = |kinds: &[Kind]| touched.iter().any(|key| kinds.contains(&key.kind));
        self.presume_originals(api, touched, now);
        self.node.hear_out(&mut self.index, api, touched, now);
        self.see_epochs(now);
        if any(&[Kind::Claims]) {
            self.see_notes();
        }
        if any(&[Kind::Cluster, Kind::Claims]) {
            self.see_strangers();
        }
        if any(&[Kind::Node, Kind::Candidates]) {
            self.node.membership(&self.index, now);
        }
        self.see_rivals(now);
        self.refresh(now);
    }

    /// Decides anew all that follows from what is known.
    fn refresh(&mut self, now: Instant) {
        if self.node.believe_absences(&mut self.index, now) {
            self.node.membership(&self.index, now);
            self.see_strangers();
        }
        self.dial(now);
        self.network(now);
        self.reconcile(now);
    }

    /// Says to discovery whom there is to dial. What it chooses is part of the network that follows.
    fn dial(&mut self, now: Instant) {
        let config = self.node.config();
        if !self.index.all_synced(Api::Local, &[Kind::Cluster, Kind::Candidates]) || self.leaving.is_some() {
            return;
        }
        let own = || config.pods.iter().chain(&config.services);
        let ranges = remote_clusters(&self.index, &config.cluster);
        let ranges = ranges.flat_map(|(_, record)| record.pods.iter().chain(&record.services));
        let tunnelled = ranges.filter(|range| !own().any(|own| own.overlaps(range))).copied().collect();
        let candidates = remote_candidates(&self.index, &config.cluster);
        self.dialling.see(self.node.slot(), candidates, tunnelled, now);
        self.dialling.see_ways(self.node.ways(), now);
    }

    /// Another address is to be dialled, or this gateway is seen under another.
    fn dialled(&mut self, changed: Changed, now: Instant) {
        if changed.choices {
            self.network(now);
        }
        if changed.public {
            self.reconcile(now);
        }
    }

    fn network(&mut self, now: Instant) {
        if self.index.all_synced(Api::Local, &[Kind::Service, Kind::EndpointSlice, Kind::ServiceExport]) {
            let exported = exported(&self.index, &self.node.silent_nodes(&self.index));
            let side = OwnSide { address: self.address, keys: &self.keys, choices: self.dialling.choices() };
            self.node.network(&self.index, Some(side), &exported, now);
        }
    }

    /// A copy was made of something: that this process has not seen it at the broker does not mean that it is not there.
    fn presume_originals(&mut self, api: Api, touched: &[Key], now: Instant) {
        for key in touched.iter().filter(|key| api == Api::Local && COPIED.contains(&key.kind)) {
            let Some((copy, _)) = self.index.shown(api, key) else { continue };
            if copy.announced().is_some_and(|(cluster, _)| *cluster != self.node.config().cluster) {
                let copy = copy.clone();
                self.index.presume(Api::Broker, &copy, now);
            }
        }
    }

    /// Feeds the election with what is announced for this cluster, so that a new term is above it.
    fn see_epochs(&mut self, now: Instant) {
        let own = &self.node.config().cluster;
        let announced = [Api::Local, Api::Broker]
            .into_iter()
            .flat_map(|api| COPIED.into_iter().map(move |kind| (api, kind)))
            .flat_map(|(api, kind)| self.index.objects(api, kind))
            .filter_map(|(_, object)| object.announced())
            .filter(|(cluster, _)| *cluster == own)
            .map(|(_, epoch)| epoch)
            .max();
        let before_it_left = claims(&self.index).and_then(|claims| claims.left.get(own).copied());
        let highest = announced.max(self.node.take_heard_epoch());
        if let Some(epoch) = before_it_left.filter(|_| self.leaving.is_none()) {
            self.elect(election::Input::Left(epoch), now);
        }
        if let Some(epoch) = highest {
            self.elect(election::Input::Seen(epoch), now);
        }
    }

    /// Tells the election whether other nodes may be gateways.
    fn see_rivals(&mut self, now: Instant) {
        let own = &self.node.config().node;
        let others = nodes(&self.index).into_values().any(|node| node.gateway && node.name != *own);
        let alone = self.index.synced(Api::Local, Kind::Node) && !others;
        if alone != self.alone {
            self.alone = alone;
            self.elect(election::Input::Alone(alone), now);
        }
    }

    fn elect(&mut self, input: election::Input, now: Instant) {
        self.election.handle(input, now);
        self.pump_election(now);
    }

    fn pump_election(&mut self, now: Instant) {
        let mut changed = false;
        while let Some(output) = self.election.poll_output() {
            match output {
                election::Output::Read { request } => {
                    let key = Key::new(Kind::Lease, "", LEASE);
                    self.outbox.push_back(Output::Read(RequestId(request | OF_ELECTION), Api::Local, key));
                }
                election::Output::Write { request, lease, expected } => {
                    let write = match expected {
                        None => Write::Create(Object::from(lease)),
                        Some(version) => Write::Replace(Object::from(lease), version),
                    };
                    self.outbox.push_back(Output::Write(RequestId(request | OF_ELECTION), Api::Local, write));
                }
                election::Output::Elected(epoch) => {
                    self.term = Some(epoch);
                    self.outbox.push_back(Output::Event(Event::Elected(epoch)));
                    changed = true;
                }
                election::Output::StoodDown { epoch, because } => {
                    self.term = None;
                    self.outbox.push_back(Output::Event(Event::StoodDown { epoch, because }));
                    changed = true;
                }
            }
        }
        if changed {
            self.reconcile(now);
        }
        self.end_if_stopped();
        self.tell_lease(now);
    }

    /// Tells the hellos who announces: the highest epoch on any card, or the own term.
    fn tell_lease(&mut self, now: Instant) {
        let Some(own) = own_candidates(&self.index, Api::Local, &self.node.config().cluster) else { return };
        let slot_of = |node: &NodeName| own.by_slot.iter().find(|(_, c)| c.node == *node).map(|(slot, _)| *slot);
        let from_cards = cards(&self.index)
            .filter_map(|card| card.active.map(|epoch| (epoch, slot_of(&card.node))))
            .max_by_key(|(epoch, _)| *epoch);
        let mine = self.term.map(|epoch| (epoch, self.node.slot()));
        let lease = mine.max(from_cards);
        if let Some((epoch, holder)) = lease.filter(|_| lease != self.told_lease) {
            self.told_lease = lease;
            if self.node.lease(epoch, holder, now) {
                self.network(now);
            }
        }
    }

    /// Says to the writer what each object of ours should be.
    fn reconcile(&mut self, now: Instant) {
        if self.leaving.is_some() {
            self.leave(now);
            return;
        }
        self.want_card(now);
        self.give_back();
        self.join(now);
        if let Some(epoch) = self.term {
            self.announce(epoch, now);
            if self.may_announce() {
                self.copy_from_broker();
            }
        }
        self.remove_cards_of_the_gone(now);
        self.pump_writer();
    }

    fn pump_writer(&mut self) {
        while let Some((request, api, write)) = self.writer.poll_write() {
            self.outbox.push_back(Output::Write(RequestId(request), api, write));
        }
    }

    fn want_card(&mut self, now: Instant) {
        if !self.index.synced(Api::Local, Kind::Gateway) {
            return;
        }
        let lost_before = reach::lost_before(&self.index, &self.node.config().node);
        let reach = self.reached.tell(self.node.ways(), &lost_before, now);
        let card = Object::from(Card { reach, remarks: reach::remarks(self.node.ways()), ..self.card() });
        self.writer.want(Api::Local, &card.key(), Some(&card), &self.index);
    }

    /// The own card, but for what is reached.
    fn card(&self) -> Card {
        Card {
            node: self.node.config().node.clone(),
            address: self.address,
            public: self.dialling.public().unwrap_or_else(|| self.public_before()),
            discovery_port: self.discovery_port,
            keys: self.keys.clone(),
            active: self.term,
            reach: BTreeMap::new(),
            remarks: BTreeMap::new(),
        }
    }

    /// The own public address as the own card says it, or the candidates: the next lookup may take long.
    fn public_before(&self) -> Option<IpAddr> {
        let own = &self.node.config().node;
        let card = cards(&self.index).find(|card| card.node == *own).map(|card| card.public);
        let announced = || self.candidates_before()?.by_slot.values().find(|candidate| candidate.node == *own)?.public;
        card.unwrap_or_else(announced)
    }

    fn written(&mut self, id: RequestId, result: Result<Version, ApiError>, now: Instant) {
        if Joining::asked(id) {
            self.claims_written(id, result, now);
            return;
        }
        if Leaving::asked(id) {
            self.lease_removed(id, result, now);
            return;
        }
        if id.0 & OF_ELECTION != 0 {
            self.elect(election::Input::Written { request: id.0 & !OF_ELECTION, result }, now);
            return;
        }
        if let Err(ApiError::Refused(why)) = &result {
            let because = format!("a write was refused: {why}");
            self.outbox.push_back(Output::Event(Event::Ignored { because }));
        }
        if self.writer.written(id.0, &result, now).is_some() {
            self.reconcile(now);
        }
    }
}

impl Machine for Gateway {
    type Input = Input;
    type Output = Output;
    type Reason = GatewayWake;

    fn handle(&mut self, input: Input, now: Instant) {
        match input {
            Input::Wall(wall) => self.elect(election::Input::Wall(wall), now),
            Input::Watched(api, event) => {
                let listed = matches!(event, WatchEvent::Synced(_));
                if let (Api::Local, WatchEvent::Deleted(key)) = (api, &event)
                    && COPIED.contains(&key.kind)
                {
                    // The holder knew that it is gone; or somebody wants a cluster forgotten that will not come back.
                    self.index.forget(Api::Broker, key);
                }
                if let WatchEvent::Synced(kind) = event {
                    self.writer.relisted(api, kind);
                }
                self.see_removals(api, &event);
                let touched = self.index.watched(api, event, now);
                if listed || !touched.is_empty() {
                    self.watched(api, &touched, now);
                }
                self.tell_lease(now);
            }
            Input::Read(id, result) if Joining::asked(id) => self.claims_read(id, result, now),
            Input::Read(id, result) if Leaving::asked(id) => self.lease_read(id, result, now),
            Input::Read(id, result) => {
                let lease_of = |(object, version)| {
                    if let Object::Lease(lease) = object { Some((Arc::unwrap_or_clone(lease), version)) } else { None }
                };
                let result = result.map(|found| found.and_then(lease_of));
                self.elect(election::Input::Answered { request: id.0 & !OF_ELECTION, result }, now);
            }
            Input::Written(id, result) => self.written(id, result, now),
            Input::Hello { via, from, bytes } => {
                if self.node.hello(via, from, bytes, now) {
                    self.refresh(now);
                }
                self.see_heard(now);
            }
            Input::Probe { arrival, from, seal, bytes } => {
                let changed = self.dialling.probe(arrival, from, seal, bytes, now);
                self.dialled(changed, now);
            }
            Input::LookedUp(result) => {
                let changed = self.dialling.looked_up(result, now);
                self.dialled(changed, now);
            }
            Input::Applied(result) => {
                if self.node.applied(&result) {
                    self.reconcile(now);
                }
            }
            Input::Stop => self.elect(election::Input::Stop, now),
            Input::Leave => self.begin_to_leave(now),
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outbox.pop_front().or_else(|| self.node.poll_output()).or_else(|| self.dialling.poll_output())
    }

    fn poll_timeout(&self) -> Option<(Instant, GatewayWake)> {
        let election = self.election.poll_timeout().map(|(at, _)| (at, GatewayWake::Election));
        let paths = self.node.poll_timeout().map(|at| (at, GatewayWake::Paths));
        let dialling = self.dialling.poll_timeout().map(|at| (at, GatewayWake::Dialling));
        let writer = self.writer.poll_timeout().map(|at| (at, GatewayWake::Writer));
        let gone = self.gone.poll_timeout();
        let absence = [self.index.poll_timeout(), self.hesitates_until, gone].into_iter().flatten().min();
        let absence = absence.map(|at| (at, GatewayWake::Absence));
        let loss = self.reached.poll_timeout().map(|at| (at, GatewayWake::Loss));
        let joining = self.joining.poll_timeout().map(|at| (at, GatewayWake::Joining));
        let leaving = self.leaving.as_ref().and_then(Leaving::poll_timeout).map(|at| (at, GatewayWake::Leaving));
        [election, joining, leaving, paths, dialling, writer, absence, loss].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.election.handle_timeout(now);
        self.pump_election(now);
        let moved = self.node.handle_timeout(now);
        let dialled = self.dialling.handle_timeout(now);
        self.dialled(dialled, now);
        let absent = self.index.poll_timeout().is_some_and(|at| at <= now);
        let dares = self.hesitates_until.take_if(|until| *until <= now).is_some();
        let again = !self.writer.due(now).is_empty();
        let lost = self.reached.is_due(now);
        let gone = !self.gone.due(now).is_empty();
        let asks = self.wake_claiming(now);
        self.wake_leaving(now);
        if moved || absent {
            self.refresh(now);
        } else if again || lost || gone || dares || asks {
            self.reconcile(now);
        }
    }
}

impl Gateway {
    fn see_heard(&mut self, now: Instant) {
        if let Some(epoch) = self.node.take_heard_epoch() {
            self.elect(election::Input::Seen(epoch), now);
        }
    }
}

impl Role for Gateway {
    fn watches(&self) -> &'static [(Api, Kind)] {
        &[
            (Api::Local, Kind::Node),
            (Api::Local, Kind::Service),
            (Api::Local, Kind::EndpointSlice),
            (Api::Local, Kind::ServiceExport),
            (Api::Local, Kind::Gateway),
            (Api::Local, Kind::Cluster),
            (Api::Local, Kind::Endpoint),
            (Api::Local, Kind::Candidates),
            (Api::Broker, Kind::Cluster),
            (Api::Broker, Kind::Endpoint),
            (Api::Broker, Kind::Candidates),
            (Api::Broker, Kind::Claims),
        ]
    }
}

fn cards(index: &Index) -> impl Iterator<Item = &Card> {
    index
        .objects(Api::Local, Kind::Gateway)
        .filter_map(|(_, object)| if let Object::Gateway(card) = object { Some(&**card) } else { None })
}
