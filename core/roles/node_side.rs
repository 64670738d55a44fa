//! What gateway and route agent share: this node's sessions with its neighbours, and the network that follows.

use super::addresses::overlay_address;
use super::dialling::Choices;
use super::node_network::{Backends, Known, OwnCandidate, node_network};
use super::{Event, Output, Via};
use crate::base::{Cidr, ClusterId, Epoch, Instant, Machine, NodeName, Slot};
use crate::model::{Api, CableDriver, CableKey, Candidates, Claims, ClusterRecord, Key, KeyRef, Kind, Node, Object};
use crate::network::Wanted;
use crate::paths::{self, Carried, Me, Neighbour, Paths, SlotSet, Way};
use crate::sync::Index;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

/// Who and where a daemon on a node is.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeConfig {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeName,
    /// Pod ranges of the cluster.
    pub pods: Vec<Cidr>,
    /// Service ranges of the cluster.
    pub services: Vec<Cidr>,
    /// How cables carry packets.
    pub driver: CableDriver,
    /// Spreads timers.
    pub seed: u64,
    /// When the process started.
    pub boot: Instant,
}

/// A candidate's own side of its cables, but for its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnSide<'a> {
    pub(super) address: IpAddr,
    pub(super) keys: &'a [CableKey],
    pub(super) choices: &'a Choices,
}

/// How long a daemon that has just started takes nothing away, once its API has all there is: by then it has heard of every
/// path that lives, as paths are claimed anew within 0.7 s.
const ADOPT: Duration = Duration::from_secs(1);

/// How far a daemon has come that has just started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Start {
    /// The views are not complete: it touches nothing.
    Listing,
    /// It has not heard of all paths: it takes nothing away. No end is in sight while the API may lack what it had.
    Adopting { until: Option<Instant> },
    /// It knows what there is to know.
    Done,
}

impl Start {
    fn deadline(self) -> Option<Instant> {
        if let Self::Adopting { until } = self { until } else { None }
    }
}

/// How far a node is with having nothing of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Clearing {
    /// What is applied next may be what was wanted before.
    Asked,
    /// What is applied next is nothing.
    AskedAgain,
    Done,
}

/// See the module docs.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct NodeSide {
    config: NodeConfig,
    paths: Option<(Me, Paths)>,
    /// Where each is reached; to a worker, remote candidates are only names.
    neighbours: BTreeMap<Neighbour, Option<(Via, IpAddr)>>,
    senders: BTreeMap<(Via, IpAddr), Neighbour>,
    ways: Arc<BTreeMap<ClusterId, Way>>,
    silent: SlotSet,
    start: Start,
    wanted: Option<Arc<Wanted>>,
    /// The cluster leaves: nothing is to be on this node.
    leaving: Option<Clearing>,
    outbox: VecDeque<Output>,
    /// The highest epoch heard in hellos, until it is taken.
    heard_epoch: Option<Epoch>,
}

impl NodeSide {
    pub(super) fn new(config: NodeConfig) -> Self {
        Self {
            config,
            paths: None,
            neighbours: BTreeMap::new(),
            senders: BTreeMap::new(),
            ways: Arc::default(),
            silent: SlotSet::EMPTY,
            start: Start::Listing,
            wanted: None,
            leaving: None,
            outbox: VecDeque::new(),
            heard_epoch: None,
        }
    }

    pub(super) fn config(&self) -> &NodeConfig {
        &self.config
    }

    pub(super) fn ways(&self) -> &BTreeMap<ClusterId, Way> {
        &self.ways
    }

    /// The own slot, once the cluster's candidates are known and this node is one.
    pub(super) fn slot(&self) -> Option<Slot> {
        match self.paths.as_ref()?.0 {
            Me::Candidate(slot) => Some(slot),
            Me::Worker => None,
        }
    }

    pub(super) fn poll_output(&mut self) -> Option<Output> {
        self.outbox.pop_front()
    }

    pub(super) fn take_heard_epoch(&mut self) -> Option<Epoch> {
        self.heard_epoch.take()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let paths = self.paths.as_ref().and_then(|(_, paths)| paths.poll_timeout()).map(|(at, _)| at);
        paths.into_iter().chain(self.start.deadline()).min()
    }

    /// Takes a hello. True if the paths changed.
    pub(super) fn hello(&mut self, via: Via, from: IpAddr, bytes: Vec<u8>, now: Instant) -> bool {
        let Some(neighbour) = self.senders.get(&(via, from)) else {
            // A stranger, or a neighbour that this node has not been told of yet: it will say hello again.
            return false;
        };
        self.feed(paths::Input::Hello { from: neighbour.clone(), bytes }, now)
    }

    pub(super) fn lease(&mut self, epoch: Epoch, holder: Option<Slot>, now: Instant) -> bool {
        self.feed(paths::Input::Lease { epoch, holder }, now)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        if let Some((_, paths)) = &mut self.paths {
            paths.handle_timeout(now);
        }
        let started = self.start.deadline().is_some_and(|until| until <= now);
        if started {
            self.start = Start::Done;
        }
        self.pump() | started
    }

    fn feed(&mut self, input: paths::Input, now: Instant) -> bool {
        if let Some((_, paths)) = &mut self.paths {
            paths.handle(input, now);
        }
        self.pump()
    }

    /// Passes on what the paths machine wants. True if ways changed, or who of the fellow candidates is silent.
    fn pump(&mut self) -> bool {
        let mut changed = false;
        while let Some(output) = self.paths.as_mut().and_then(|(_, paths)| paths.poll_output()) {
            match output {
                paths::Output::Send { to, bytes } => {
                    if let Some(Some((via, address))) = self.neighbours.get(&to) {
                        self.outbox.push_back(Output::Send { via: *via, to: *address, bytes });
                    }
                }
                paths::Output::Ways(ways) => {
                    self.tell_changes(&ways);
                    self.ways = ways;
                    changed = true;
                }
                paths::Output::Silent(silent) => {
                    self.silent = silent;
                    changed = true;
                }
                paths::Output::Epoch(epoch) => self.heard_epoch = self.heard_epoch.max(Some(epoch)),
                paths::Output::Ignored(because) => self.outbox.push_back(Output::Event(Event::Ignored { because })),
            }
        }
        changed
    }

    fn tell_changes(&mut self, ways: &BTreeMap<ClusterId, Way>) {
        for (cluster, way) in ways {
            let before = self.ways.get(cluster).map(|way| way.carried).unwrap_or_default();
            for slot in Slot::all() {
                let carried = way.carried.get(slot);
                if carried != before.get(slot) && carried != Carried::Unknown {
                    let event = Event::Carries { cluster: cluster.clone(), slot, carried };
                    self.outbox.push_back(Output::Event(event));
                }
            }
            let Some(choice) = &way.choice else { continue };
            let before = self.ways.get(cluster).and_then(|way| way.choice.as_ref());
            let pair = (choice.local, choice.remote);
            let cluster = cluster.clone();
            if choice.alive
                && before.is_none_or(|b| !b.alive || (b.version, b.local, b.remote) != (choice.version, pair.0, pair.1))
            {
                let event = Event::PathChosen { cluster, version: choice.version, pair };
                self.outbox.push_back(Output::Event(event));
            } else if !choice.alive && before.is_some_and(|b| b.alive) {
                self.outbox.push_back(Output::Event(Event::PathDead { cluster, version: choice.version }));
            }
        }
    }

    /// Fellow candidates that were heard and are heard no more. A pod there answers by routes that nobody keeps up.
    pub(super) fn silent_nodes(&self, index: &Index) -> BTreeSet<NodeName> {
        let own = own_candidates(index, Api::Local, &self.config.cluster).into_iter();
        let silent = own.flat_map(|own| &own.by_slot).filter(|(slot, _)| self.silent.contains(**slot));
        silent.map(|(_, candidate)| candidate.node.clone()).collect()
    }

    /// Takes what the API shows: who the neighbours are.
    pub(super) fn membership(&mut self, index: &Index, now: Instant) {
        if self.leaving.is_some() {
            return;
        }
        let Some(own) = own_candidates(index, Api::Local, &self.config.cluster) else { return };
        let slot = own.by_slot.iter().find(|(_, candidate)| candidate.node == self.config.node).map(|(slot, _)| *slot);
        let me = slot.map_or(Me::Worker, Me::Candidate);
        let neighbours = self.find_neighbours(index, own, me);
        let known_as_me = self.paths.as_ref().is_some_and(|(was, _)| *was == me);
        if known_as_me && neighbours == self.neighbours {
            return;
        }
        if !known_as_me {
            let config = paths::Config {
                cluster: self.config.cluster.clone(),
                node: self.config.node.clone(),
                me,
                seed: self.config.seed,
                boot: now,
            };
            self.paths = Some((me, Paths::new(config)));
            self.silent = SlotSet::EMPTY;
        }
        self.senders = neighbours.iter().filter_map(|(n, at)| at.map(|at| (at, n.clone()))).collect();
        let names: BTreeSet<Neighbour> = neighbours.keys().cloned().collect();
        self.neighbours = neighbours;
        self.feed(paths::Input::Neighbours(names), now);
    }

    fn find_neighbours(&self, index: &Index, own: &Candidates, me: Me) -> BTreeMap<Neighbour, Option<(Via, IpAddr)>> {
        let cluster = &self.config.cluster;
        let mut found = BTreeMap::new();
        for node in nodes(index).into_values().filter(|node| node.name != self.config.node) {
            let slot = own.by_slot.iter().find(|(_, candidate)| candidate.node == node.name).map(|(slot, _)| *slot);
            let neighbour = match (slot, me) {
                (Some(slot), _) => Neighbour::Own { slot },
                (None, Me::Candidate(_)) => Neighbour::Worker { node: node.name.clone() },
                (None, Me::Worker) => continue,
            };
            found.insert(neighbour, Some((Via::Overlay, overlay_address(cluster, &node.uid))));
        }
        for (cluster, candidates) in remote_candidates(index, cluster) {
            for (slot, candidate) in &candidates.by_slot {
                let neighbour = Neighbour::Remote { cluster: cluster.clone(), slot: *slot };
                let in_cable = (Via::Cable(*slot), candidate.probe);
                found.insert(neighbour, matches!(me, Me::Candidate(_)).then_some(in_cable));
            }
        }
        found
    }

    /// Computes the network anew and gives it out if it differs: nothing before the views are complete, and one that
    /// takes nothing away while paths may have yet to be heard of.
    pub(super) fn network(&mut self, index: &Index, candidate: Option<OwnSide<'_>>, exported: &Backends, now: Instant) {
        let complete = index.all_synced(Api::Local, &[Kind::Node, Kind::Cluster, Kind::Candidates]);
        if !complete || self.leaving.is_some() {
            return;
        }
        if own_candidates(index, Api::Local, &self.config.cluster).is_some() {
            self.go_on_with_the_start(index, now);
        }
        let config = &self.config;
        let nodes = nodes(index);
        let (Some(node), Some(own)) = (nodes.get(&config.node), own_candidates(index, Api::Local, &config.cluster))
        else {
            return;
        };
        let remote: BTreeMap<_, _> = remote_candidates(index, &config.cluster).collect();
        let remote_clusters: BTreeMap<_, _> = remote_clusters(index, &config.cluster).collect();
        let known = Known {
            cluster: &config.cluster,
            pods: &config.pods,
            services: &config.services,
            node,
            nodes: &nodes,
            own,
            candidate: self.slot().zip(candidate).map(|(slot, side)| OwnCandidate {
                slot,
                address: side.address,
                keys: side.keys,
                choices: side.choices,
            }),
            driver: config.driver,
            remote: &remote,
            remote_clusters: &remote_clusters,
            ways: &self.ways,
            exported,
            adopting: self.start != Start::Done,
        };
        let wanted = node_network(&known);
        if self.wanted.as_deref() != Some(&wanted) {
            let wanted = Arc::new(wanted);
            self.wanted = Some(wanted.clone());
            self.outbox.push_back(Output::Network(wanted));
        }
    }

    fn go_on_with_the_start(&mut self, index: &Index, now: Instant) {
        let until = match self.start {
            Start::Listing => None,
            Start::Adopting { until } => until,
            Start::Done => return,
        };
        let own = &self.config.cluster;
        let until = says_all(index, Api::Local, own).then(|| until.unwrap_or(now + ADOPT));
        self.start = Start::Adopting { until };
        let known = |cluster: &ClusterId| self.ways.get(cluster).is_some_and(|way| way.choice.is_some());
        let mut clusters = remote_candidates(index, own).map(|(cluster, _)| cluster).peekable();
        if until.is_some() && clusters.peek().is_some() && clusters.all(|cluster| known(&cluster)) {
            self.start = Start::Done;
        }
    }

    /// Somebody's word that all it has is there may come first: the rest has its time.
    pub(super) fn hear_out(&self, index: &mut Index, api: Api, touched: &[Key], now: Instant) {
        index.hear_out(api, Kind::Cluster, &self.config.cluster, touched, now);
    }

    /// Believes absences that have lasted. True if something went.
    pub(super) fn believe_absences(&self, index: &mut Index, now: Instant) -> bool {
        let mut any = false;
        while !index.believe(now, |index, api, object| self.may_go(index, api, object)).is_empty() {
            any = true;
        }
        any
    }

    /// Whether what is missing may be gone: only on somebody's word. Of the clusters that are reached, and of the own one,
    /// the own API must have lost it: they would take it back. A cluster that says nothing at the broker has left if it
    /// noted so beside the claims, or if the broker kept what others say there.
    fn may_go(&self, index: &Index, api: Api, object: &Object) -> bool {
        let Some((cluster, epoch)) = object.announced() else { return true };
        let own = &self.config.cluster;
        if api == Api::Broker && claims(index).is_some_and(|claims| claims.is_of_before_it_left(cluster, epoch)) {
            return true;
        }
        let is_word = object.kind() == Kind::Cluster;
        match api {
            Api::Local => cluster != own && says_all(index, api, own) && !self.lives(cluster),
            Api::Broker if cluster == own || says_all(index, api, cluster) && shows_all(index, api, cluster) => true,
            Api::Broker if is_word => !index.may_be_lost(api, &object.key()) && !self.lives(cluster),
            Api::Broker => !index.believes_word_of(api, Kind::Cluster, cluster) && !self.lives(cluster),
        }
    }

    /// Whether there is a live path to `cluster`.
    pub(super) fn lives(&self, cluster: &ClusterId) -> bool {
        self.ways.get(cluster).and_then(|way| way.choice).is_some_and(|choice| choice.alive)
    }

    /// The last wanted network was applied, or not: then it is wanted again. True if nothing of ours is left here since.
    pub(super) fn applied(&mut self, result: &Result<(), String>) -> bool {
        if let Err(because) = result {
            let because = format!("network not applied: {because}");
            self.tell(Event::Ignored { because });
            self.want_again();
            return false;
        }
        match self.leaving {
            Some(Clearing::Asked) => {
                self.leaving = Some(Clearing::AskedAgain);
                self.want_again();
                false
            }
            Some(Clearing::AskedAgain) => {
                self.leaving = Some(Clearing::Done);
                true
            }
            Some(Clearing::Done) | None => false,
        }
    }

    fn want_again(&mut self) {
        if let Some(wanted) = &self.wanted {
            self.outbox.push_back(Output::Network(wanted.clone()));
        }
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.outbox.push_back(Output::Event(event));
    }

    /// The cluster leaves: no hello is said any more, and nothing of ours is to be on this node.
    pub(super) fn leave(&mut self) {
        if self.leaving.is_some() {
            return;
        }
        self.leaving = Some(Clearing::Asked);
        self.paths = None;
        self.neighbours = BTreeMap::new();
        self.senders = BTreeMap::new();
        self.ways = Arc::default();
        self.start = Start::Done;
        self.wanted = Some(Arc::default());
        self.want_again();
    }

    /// Whether nothing of ours is left on this node.
    pub(super) fn is_cleared(&self) -> bool {
        self.leaving == Some(Clearing::Done)
    }
}

/// The claims that the broker shows.
pub(super) fn claims(index: &Index) -> Option<&Claims> {
    let (object, _) = index.shown(Api::Broker, &Object::from(Claims::default()).key())?;
    if let Object::Claims(claims) = object { Some(claims) } else { None }
}

/// Whether `cluster` says at `api` that all it has is there: it writes its Cluster last. In its own API, it has the copies of
/// what others announce too.
pub(super) fn says_all(index: &Index, api: Api, cluster: &ClusterId) -> bool {
    index.word_of(api, Kind::Cluster, cluster).is_some()
}

/// Whether the rest of what a cluster announces is there beside its Cluster, which may have been put back by one who did not
/// know yet that the API has lost all: of what each cluster has one, nothing is missing, and it has an Endpoint.
fn shows_all(index: &Index, api: Api, cluster: &ClusterId) -> bool {
    let theirs = |kind| index.objects(api, kind).filter(|(_, object)| object.cluster() == Some(cluster));
    let is_shown = |(key, _): (KeyRef<'_>, &Object)| index.shown(api, key).is_some();
    theirs(Kind::Candidates).all(is_shown) && theirs(Kind::Endpoint).any(is_shown)
}

/// All nodes of the cluster.
pub(super) fn nodes(index: &Index) -> BTreeMap<NodeName, &Node> {
    index
        .objects(Api::Local, Kind::Node)
        .filter_map(
            |(_, object)| if let Object::Node(node) = object { Some((node.name.clone(), &**node)) } else { None },
        )
        .collect()
}

fn candidates(index: &Index, api: Api) -> impl Iterator<Item = &Candidates> {
    index
        .objects(api, Kind::Candidates)
        .filter_map(|(_, object)| if let Object::Candidates(candidates) = object { Some(&**candidates) } else { None })
}

/// The own cluster's candidates, as announced.
pub(super) fn own_candidates<'a>(index: &'a Index, api: Api, cluster: &ClusterId) -> Option<&'a Candidates> {
    candidates(index, api).find(|candidates| candidates.cluster == *cluster)
}

/// The other clusters' candidates.
pub(super) fn remote_candidates<'a>(
    index: &'a Index,
    own: &'a ClusterId,
) -> impl Iterator<Item = (ClusterId, &'a Candidates)> + 'a {
    candidates(index, Api::Local).filter(move |c| c.cluster != *own).map(|c| (c.cluster.clone(), c))
}

/// What the other clusters are.
pub(super) fn remote_clusters<'a>(
    index: &'a Index,
    own: &'a ClusterId,
) -> impl Iterator<Item = (ClusterId, &'a ClusterRecord)> + 'a {
    index
        .objects(Api::Local, Kind::Cluster)
        .filter_map(|(_, object)| if let Object::Cluster(record) = object { Some(&**record) } else { None })
        .filter(move |record| record.cluster != *own)
        .map(|record| (record.cluster.clone(), record))
}
