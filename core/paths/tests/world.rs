//! A model of a few clusters: each node runs the real machine on a clock of its own, each directed link has latency
//! (even between nothing and `latency`, so packets overtake each other), loss, and can be cut.
//!
//! Nodes are named as in the specification: `a1` is candidate 1 of cluster `a`, `aw2` its second worker.

use crate::base::{ClusterId, Instant, Machine, NodeName, Rng, Slot};
use crate::paths::rules::Rules;
use crate::paths::{Choice, Config, Exit, Input, Me, Neighbour, Output, Paths, Way};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

/// What a world is made of.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Candidates and workers of each cluster; ids are `a`, `b`, ….
    pub(super) clusters: Vec<(u8, u8)>,
    pub(super) latency_ms: u64,
    pub(super) loss_percent: u64,
    pub(super) seed: u64,
    pub(super) rules: Rules,
}

impl Shape {
    /// Clusters of so many candidates and workers each, 5 ms links, no loss, all rules.
    pub(super) fn new(clusters: &[(u8, u8)], seed: u64) -> Self {
        Self { clusters: clusters.to_vec(), latency_ms: 5, loss_percent: 0, seed, rules: Rules::ALL }
    }

    pub(super) fn latency_ms(self, latency_ms: u64) -> Self {
        Self { latency_ms, ..self }
    }

    pub(super) fn loss_percent(self, loss_percent: u64) -> Self {
        Self { loss_percent, ..self }
    }

    pub(super) fn rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }
}

/// Index of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Id(pub(super) usize);

/// What a node believes about a peer cluster, with the pair in (smaller id, larger id) order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Belief {
    pub(super) version: u32,
    pub(super) pair: (u8, u8),
    pub(super) alive: bool,
}

#[derive(Clone)]
struct Node {
    name: String,
    cluster: usize,
    /// 0 for a worker.
    slot: u8,
    neighbours: BTreeMap<Neighbour, Id>,
    /// Thousandths of a millisecond that its clock gains each second.
    drift_ppm: i128,
    clock_offset: i128,
    powered: bool,
    machine: Option<Paths>,
    wake_at: Option<u64>,
    boots: u64,
}

impl Node {
    fn local(&self, at: u64) -> Instant {
        let ns = i128::from(at) * (1_000_000 + self.drift_ppm) / 1_000_000 + self.clock_offset;
        Instant::from_origin(Duration::from_nanos(u64::try_from(ns).unwrap()))
    }

    /// The first moment at which its clock shows `deadline`.
    fn global(&self, deadline: Instant) -> u64 {
        let ns = i128::try_from(deadline.since_origin().as_nanos()).unwrap() - self.clock_offset;
        let mut at = u64::try_from(ns * 1_000_000 / (1_000_000 + self.drift_ppm)).unwrap();
        while self.local(at) < deadline {
            at += 1;
        }
        at
    }
}

#[derive(Clone)]
enum Event {
    Deliver { to: Id, from: Id, bytes: Vec<u8> },
    Start(Id),
}

/// All of it.
#[derive(Clone)]
pub(super) struct World {
    shape: Shape,
    nodes: Vec<Node>,
    cuts: BTreeSet<(Id, Id)>,
    /// The longest packets that pass from one to the other in a cable.
    narrow: BTreeMap<(Id, Id), u16>,
    queue: BTreeMap<(u64, u64), Event>,
    sent: u64,
    now: u64,
    rng: Rng,
    /// Each running node's choice towards each cluster.
    beliefs: BTreeMap<(Id, usize), Option<Choice>>,
    /// Each node's routes towards each cluster. They outlive its daemon, not its power.
    routes: BTreeMap<(Id, usize), Way>,
    /// When somebody last changed its choice of path between these clusters.
    changed_at: BTreeMap<(usize, usize), u64>,
    /// Hellos sent into cables and over the overlay, lost ones too.
    sent_by: BTreeMap<(Id, bool), (u64, u64)>,
    /// Print faults and changes of mind.
    pub(super) traced: bool,
    /// Steps taken by all machines.
    pub(super) steps: u64,
}

const MS: u64 = 1_000_000;

impl World {
    /// A world whose nodes all start within 20 ms.
    pub(super) fn new(shape: Shape) -> Self {
        let mut rng = Rng::stream(shape.seed, "world");
        let mut nodes = Vec::new();
        for (cluster, (candidates, workers)) in shape.clusters.iter().enumerate() {
            let id = cluster_id(cluster);
            let slots = (1..=*candidates).map(|slot| (format!("{id}{slot}"), slot));
            for (name, slot) in slots.chain((1..=*workers).map(|n| (format!("{id}w{n}"), 0))) {
                nodes.push(Node {
                    name,
                    cluster,
                    slot,
                    neighbours: BTreeMap::new(),
                    drift_ppm: i128::from(rng.below(2001)) - 1000,
                    clock_offset: i128::from(rng.below(1_000_000 * MS)),
                    powered: true,
                    machine: None,
                    wake_at: None,
                    boots: 0,
                });
            }
        }
        let mut world = Self {
            shape,
            nodes,
            cuts: BTreeSet::new(),
            narrow: BTreeMap::new(),
            queue: BTreeMap::new(),
            sent: 0,
            now: 0,
            rng,
            beliefs: BTreeMap::new(),
            routes: BTreeMap::new(),
            changed_at: BTreeMap::new(),
            sent_by: BTreeMap::new(),
            traced: false,
            steps: 0,
        };
        for id in world.ids() {
            let neighbours = world.ids().into_iter().filter_map(|other| Some((world.neighbour(id, other)?, other)));
            let neighbours = neighbours.collect();
            world.nodes[id.0].neighbours = neighbours;
            let after = world.rng.below(20 * MS);
            world.push(after, Event::Start(id));
        }
        world
    }

    /// A world that has found its first paths.
    pub(super) fn settled(shape: Shape) -> Self {
        let mut world = Self::new(shape);
        world.run_ms(1_200);
        world
    }

    fn push(&mut self, at: u64, event: Event) {
        self.sent += 1;
        self.queue.insert((at, self.sent), event);
    }

    pub(super) fn ids(&self) -> Vec<Id> {
        (0..self.nodes.len()).map(Id).collect()
    }

    /// An even draw from the world's own chance.
    pub(super) fn draw(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    /// The node of this name.
    pub(super) fn id(&self, name: &str) -> Id {
        Id(self.nodes.iter().position(|node| node.name == name).unwrap_or_else(|| panic!("no node {name}")))
    }

    /// Indices of clusters.
    pub(super) fn clusters(&self) -> core::ops::Range<usize> {
        0..self.shape.clusters.len()
    }

    pub(super) fn name(&self, id: Id) -> &str {
        &self.nodes[id.0].name
    }

    pub(super) fn cluster(&self, id: Id) -> usize {
        self.nodes[id.0].cluster
    }

    pub(super) fn slot(&self, id: Id) -> Option<u8> {
        Some(self.nodes[id.0].slot).filter(|slot| *slot > 0)
    }

    /// How `other` looks from `id`, if they are neighbours.
    fn neighbour(&self, id: Id, other: Id) -> Option<Neighbour> {
        let (me, other_node) = (&self.nodes[id.0], &self.nodes[other.0]);
        let slot = Slot::try_from(other_node.slot).ok();
        if id == other {
            None
        } else if me.cluster == other_node.cluster {
            match slot {
                Some(slot) => Some(Neighbour::Own { slot }),
                None if me.slot > 0 => Some(Neighbour::Worker { node: node_name(&other_node.name) }),
                None => None,
            }
        } else {
            Some(Neighbour::Remote { cluster: cluster_id(other_node.cluster), slot: slot? })
        }
    }

    /// Nodes with which it exchanges hellos.
    pub(super) fn sessions(&self, id: Id) -> Vec<Id> {
        let me = &self.nodes[id.0];
        let speaks = |other: &Id| me.slot > 0 || self.nodes[other.0].cluster == me.cluster;
        me.neighbours.values().copied().filter(speaks).collect()
    }

    // ── Time ──

    pub(super) fn now_ms(&self) -> u64 {
        self.now / MS
    }

    pub(super) fn run_ms(&mut self, ms: u64) {
        let end = self.now + ms * MS;
        loop {
            let wake = self.nodes.iter().enumerate().filter_map(|(n, node)| Some((node.wake_at?, n))).min();
            let event = self.queue.first_key_value().map(|(key, _)| *key);
            match (wake, event) {
                // Due timers go before inputs.
                (Some((at, n)), event) if at <= end && event.is_none_or(|(other, _)| at <= other) => {
                    self.now = self.now.max(at);
                    self.step(Id(n), None);
                }
                (_, Some(key)) if key.0 <= end => {
                    self.now = key.0;
                    if let Some(event) = self.queue.remove(&key) {
                        self.happen(event);
                    }
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start(id) => self.start_now(id),
            Event::Deliver { to, from, bytes } => {
                if let Some(from) = self.neighbour(to, from) {
                    self.step(to, Some(Input::Hello { from, bytes }));
                }
            }
        }
    }

    fn step(&mut self, id: Id, input: Option<Input>) {
        let node = &mut self.nodes[id.0];
        let now = node.local(self.now);
        let Some(machine) = node.machine.as_mut() else { return };
        self.steps += 1;
        match input {
            Some(input) => machine.handle(input, now),
            None => machine.handle_timeout(now),
        }
        let mut outputs = Vec::new();
        while let Some(output) = machine.poll_output() {
            outputs.push(output);
        }
        let deadline = machine.poll_timeout().map(|(at, _)| at);
        let wake_at = deadline.map(|at| node.global(at));
        node.wake_at = wake_at;
        for output in outputs {
            match output {
                Output::Send { to, bytes } => self.send(id, &to, bytes),
                Output::Ways(ways) => self.note_ways(id, &ways),
                Output::Epoch(_) | Output::Silent(_) => {}
                Output::Ignored(why) => panic!("{} ignored {why}", self.name(id)),
            }
        }
    }

    fn send(&mut self, from: Id, to: &Neighbour, bytes: Vec<u8>) {
        let in_cable = matches!(to, Neighbour::Remote { .. });
        let (hellos, octets) = self.sent_by.entry((from, in_cable)).or_default();
        (*hellos, *octets) = (*hellos + 1, *octets + bytes.len() as u64);
        let to = self.nodes[from.0].neighbours[to];
        let lost = self.rng.below(100) < self.shape.loss_percent;
        let delay = self.rng.below(self.shape.latency_ms * MS + 1);
        let too_long = self.narrow.get(&(from, to)).is_some_and(|most| bytes.len() + 48 > usize::from(*most));
        if !lost && !too_long && self.works(from, to) {
            self.push(self.now + delay, Event::Deliver { to, from, bytes });
        }
    }

    fn note_ways(&mut self, id: Id, ways: &BTreeMap<ClusterId, Way>) {
        let mine = self.nodes[id.0].cluster;
        for (cluster, way) in ways {
            let other = cluster_index(cluster.as_str());
            self.routes.insert((id, other), *way);
            let before = self.beliefs.get(&(id, other)).copied();
            if before != Some(way.choice) {
                self.trace(|world| format!("{} to {cluster}: {:?}", world.name(id), way.choice));
                self.beliefs.insert((id, other), way.choice);
                self.changed_at.insert((mine.min(other), mine.max(other)), self.now);
            }
        }
    }

    fn trace(&self, what: impl Fn(&Self) -> String) {
        if self.traced {
            std::println!("{:>9.3} {}", self.now as f64 / 1e6, what(self));
        }
    }

    // ── Faults ──

    fn start_now(&mut self, id: Id) {
        let node = &mut self.nodes[id.0];
        if !node.powered || node.machine.is_some() {
            return;
        }
        node.boots += 1;
        self.trace(|world| format!("{} starts", world.name(id)));
        let node = &mut self.nodes[id.0];
        let boot = node.local(self.now);
        let me = Slot::try_from(node.slot).map_or(Me::Worker, Me::Candidate);
        let seed = self.shape.seed ^ crate::base::hash::mix(id.0 as u64 * 1000 + node.boots);
        let config = Config { cluster: cluster_id(node.cluster), node: node_name(&node.name), me, seed, boot };
        node.machine = Some(Paths::new(config).with_rules(self.shape.rules));
        let neighbours = node.neighbours.keys().cloned().collect();
        self.step(id, Some(Input::Neighbours(neighbours)));
    }

    /// Ends a daemon; it forgets everything.
    pub(super) fn kill(&mut self, name: &str) {
        let id = self.id(name);
        self.kill_id(id);
    }

    pub(super) fn kill_id(&mut self, id: Id) {
        self.trace(|world| format!("{} dies", world.name(id)));
        self.nodes[id.0].machine = None;
        self.nodes[id.0].wake_at = None;
        self.beliefs.retain(|(node, _), _| *node != id);
    }

    /// Ends a daemon and starts it again `ms` later.
    pub(super) fn restart(&mut self, name: &str, ms: u64) {
        let id = self.id(name);
        self.restart_id(id, ms);
    }

    pub(super) fn restart_id(&mut self, id: Id, ms: u64) {
        self.kill_id(id);
        self.push(self.now + ms * MS, Event::Start(id));
    }

    pub(super) fn power_off(&mut self, name: &str) {
        let id = self.id(name);
        self.power_off_id(id);
    }

    pub(super) fn power_off_id(&mut self, id: Id) {
        self.kill_id(id);
        self.nodes[id.0].powered = false;
        self.routes.retain(|(node, _), _| *node != id);
    }

    pub(super) fn power_on(&mut self, name: &str) {
        let id = self.id(name);
        self.power_on_id(id);
    }

    pub(super) fn power_on_id(&mut self, id: Id) {
        self.nodes[id.0].powered = true;
        self.start_now(id);
    }

    /// Cuts the way from one to the other, not back.
    pub(super) fn cut(&mut self, from: &str, to: &str) {
        let (from, to) = (self.id(from), self.id(to));
        self.cut_ids(from, to);
    }

    pub(super) fn cut_both(&mut self, one: &str, other: &str) {
        self.cut(one, other);
        self.cut(other, one);
    }

    pub(super) fn cut_ids(&mut self, from: Id, to: Id) {
        self.trace(|world| format!("cut from {} to {}", world.name(from), world.name(to)));
        self.cuts.insert((from, to));
    }

    /// From now on packets that are longer than this do not pass from one to the other.
    pub(super) fn narrow(&mut self, from: &str, to: &str, longest: u16) {
        let (from, to) = (self.id(from), self.id(to));
        self.narrow.insert((from, to), longest);
    }

    pub(super) fn heal_ids(&mut self, from: Id, to: Id) {
        self.trace(|world| format!("heal from {} to {}", world.name(from), world.name(to)));
        self.cuts.remove(&(from, to));
    }

    pub(super) fn heal_all(&mut self) {
        self.trace(|_| String::from("all cuts heal"));
        self.cuts.clear();
    }

    /// Cuts all cables of a candidate, both ways.
    pub(super) fn cut_wan(&mut self, name: &str) {
        let id = self.id(name);
        for other in self.sessions(id) {
            if self.cluster(other) != self.cluster(id) {
                self.cut_ids(id, other);
                self.cut_ids(other, id);
            }
        }
    }

    /// Cuts the ways from a candidate to its workers, not back.
    pub(super) fn cut_to_workers(&mut self, name: &str) {
        let id = self.id(name);
        for worker in self.sessions(id).into_iter().filter(|other| self.slot(*other).is_none()).collect::<Vec<_>>() {
            self.cut_ids(id, worker);
        }
    }

    /// Cuts the ways from its workers to a candidate, not back.
    pub(super) fn cut_from_workers(&mut self, name: &str) {
        let id = self.id(name);
        for worker in self.sessions(id).into_iter().filter(|other| self.slot(*other).is_none()).collect::<Vec<_>>() {
            self.cut_ids(worker, id);
        }
    }

    /// Cuts all cables between candidates of different rank.
    pub(super) fn keep_only_equal_ranks(&mut self) {
        for one in self.ids() {
            for other in self.sessions(one) {
                if self.cluster(one) != self.cluster(other) && self.slot(one) != self.slot(other) {
                    self.cut_ids(one, other);
                }
            }
        }
    }

    /// Cuts a node off its own cluster, both ways.
    pub(super) fn cut_overlay(&mut self, name: &str) {
        let id = self.id(name);
        for other in self.sessions(id) {
            if self.cluster(other) == self.cluster(id) {
                self.cut_ids(id, other);
                self.cut_ids(other, id);
            }
        }
    }

    // ── What is ──

    pub(super) fn runs(&self, id: Id) -> bool {
        self.nodes[id.0].machine.is_some()
    }

    pub(super) fn is_powered(&self, id: Id) -> bool {
        self.nodes[id.0].powered
    }

    /// Whether packets pass from one to the other.
    pub(super) fn works(&self, from: Id, to: Id) -> bool {
        self.nodes[from.0].powered && self.nodes[to.0].powered && !self.cuts.contains(&(from, to))
    }

    /// Names of the ends of the path between `a` and `b`.
    pub(super) fn ends(&self) -> (String, String) {
        let (left, right) = self.path();
        (format!("a{left}"), format!("b{right}"))
    }

    /// Gives a node an input of another kind than hellos.
    pub(super) fn tell(&mut self, name: &str, input: Input) {
        let id = self.id(name);
        self.step(id, Some(input));
    }

    pub(super) fn way(&self, id: Id, other: usize) -> Option<Way> {
        self.nodes[id.0].machine.as_ref()?.ways().get(&cluster_id(other)).copied()
    }

    /// Whether what a pod on one node sends reaches a pod on a node of another cluster, by the routes that the kernels
    /// hold (F1 to F3).
    pub(super) fn carries(&self, from: &str, to: &str) -> bool {
        let (from, to) = (self.id(from), self.id(to));
        let (here, there) = (self.cluster(from), self.cluster(to));
        let candidate = |cluster, slot: Slot| {
            self.ids().into_iter().find(|id| self.cluster(*id) == cluster && self.slot(*id) == Some(slot.get()))
        };
        let passes = |from: Id, to: Id| from == to || self.works(from, to);
        let by_cable = |local: Id, remote: Slot| {
            candidate(there, remote).is_some_and(|remote| passes(local, remote) && passes(remote, to))
        };
        let route = |id: Id| self.routes.get(&(id, there));
        match route(from).map_or(Exit::Nowhere, |way| way.out) {
            Exit::Nowhere => false,
            Exit::Cable(remote) => by_cable(from, remote),
            Exit::Overlay(slot) => candidate(here, slot).is_some_and(|local| {
                let remote = route(local).and_then(|way| way.from_overlay);
                passes(from, local) && remote.is_some_and(|remote| by_cable(local, remote))
            }),
        }
    }

    pub(super) fn belief(&self, id: Id, other: usize) -> Option<Belief> {
        let choice = self.way(id, other)?.choice?;
        let (local, remote) = (choice.local.get(), choice.remote.get());
        let pair = if self.nodes[id.0].cluster < other { (local, remote) } else { (remote, local) };
        Some(Belief { version: choice.version, pair, alive: choice.alive })
    }

    /// Hellos and bytes that a node has sent into cables, or over the overlay.
    pub(super) fn sent(&self, name: &str, in_cable: bool) -> (u64, u64) {
        self.sent_by.get(&(self.id(name), in_cable)).copied().unwrap_or_default()
    }

    /// The moment, in milliseconds, at which somebody last changed its mind about the path between two clusters.
    pub(super) fn last_change_ms(&self, pair: (usize, usize)) -> u64 {
        self.changed_at.get(&pair).copied().unwrap_or(0) / MS
    }

    /// What all running nodes of both clusters believe, or who differs.
    pub(super) fn agreed(&self, one: &str, other: &str) -> Result<Belief, String> {
        let (one, other) = (cluster_index(one), cluster_index(other));
        let mut beliefs = Vec::new();
        for id in self.ids() {
            let there = if self.cluster(id) == one { other } else { one };
            if self.runs(id) && [one, other].contains(&self.cluster(id)) {
                beliefs.push((self.name(id).to_string(), self.belief(id, there)));
            }
        }
        let first = beliefs.first().and_then(|(_, belief)| *belief).ok_or("no choice")?;
        if beliefs.iter().all(|(_, belief)| *belief == Some(first)) { Ok(first) } else { Err(format!("{beliefs:?}")) }
    }

    /// The pair that all running nodes of `a` and `b` use, alive.
    pub(super) fn path(&self) -> (u8, u8) {
        let belief = self.agreed("a", "b").unwrap_or_else(|why| panic!("at {} ms: {why}", self.now_ms()));
        assert!(belief.alive, "at {} ms: the path {belief:?} is not alive", self.now_ms());
        belief.pair
    }
}

pub(super) fn cluster_id(index: usize) -> ClusterId {
    ClusterId::new(&String::from(char::from(b'a' + u8::try_from(index).unwrap()))).unwrap()
}

fn cluster_index(name: &str) -> usize {
    usize::from(name.as_bytes()[0] - b'a')
}

pub(super) fn node_name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}
