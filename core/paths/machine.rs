//! The machine of one node: hellos in, hellos and ways out.
//!
//! A step applies its input, then [`Paths::settle`] runs every rule that may have something to say: what was touched,
//! and what came due. All comparisons with time flip at deadlines that the machine asks to be woken at, so a wake-up
//! at any other moment finds nothing to do.

use super::carried::Lengths;
use super::grades::{Cluster, Heard, grew};
use super::membership::Workers;
use super::peer::{Here, Peer};
use super::rules::Rules;
use super::session::{Session, Word};
use super::slots::{SlotSet, Slots};
use super::timing::{HELLO, IGNORED, JITTER_PERCENT, SETTLE};
use super::vocabulary::{Config, Input, Me, Neighbour, Output};
use super::wake::{Reason, Wake, due};
use super::way::Way;
use super::wire::{ClusterHash, Hello, Origin, REGISTERS_MAX, Sender, Side, WireError, worker_hash};
use crate::base::{ClusterId, Epoch, Instant, Machine, Rng, Slot};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

/// The failover protocol of one node.
#[derive(Clone, PartialEq, Debug)]
pub struct Paths {
    cluster: ClusterId,
    hash: ClusterHash,
    node: u32,
    me: Option<Slot>,
    boot: Instant,
    rules: Rules,
    rng: Rng,
    /// What the own hellos say of this candidate.
    origin: Origin,
    beat_due: Instant,
    epoch: Epoch,
    holder: Option<Slot>,
    /// Candidates of the own cluster.
    own: Cluster,
    own_news: bool,
    own_next: Option<(Instant, Reason)>,
    candidates: Slots<Option<Session>>,
    /// Those of them that were heard and are heard no more.
    silent: SlotSet,
    /// Milliseconds between this worker's reports, as each candidate wishes.
    report_every: Slots<u16>,
    workers: Workers,
    /// A worker's own report.
    both: SlotSet,
    /// Since when a worker has heard enough to complain: its start, or when it last had nobody.
    hearing_since: Instant,
    peers: BTreeMap<ClusterHash, Peer>,
    digest: u32,
    /// Where the table goes on when it does not fit one hello.
    table_from: ClusterHash,
    ways: Arc<BTreeMap<ClusterId, Way>>,
    ways_changed: bool,
    ignored_at: Option<Instant>,
    ignored_since: u32,
    next: Option<(Instant, Reason)>,
    outputs: VecDeque<Output>,
}

impl Paths {
    /// A machine that knows nobody yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let Config { cluster, node, me, seed, boot } = config;
        let mut rng = Rng::stream(seed, "paths");
        let beat_due = boot + rng.jitter(HELLO, JITTER_PERCENT);
        let me = match me {
            Me::Candidate(slot) => Some(slot),
            Me::Worker => None,
        };
        let mut machine = Self {
            hash: ClusterHash::of(&cluster),
            cluster,
            node: worker_hash(&node),
            me,
            boot,
            rules: Rules::ALL,
            rng,
            origin: Origin { beat: 1, ..Origin::default() },
            beat_due,
            epoch: Epoch(0),
            holder: None,
            own: Cluster::default(),
            own_news: true,
            own_next: None,
            candidates: Slots::default(),
            silent: SlotSet::EMPTY,
            report_every: Slots::default(),
            workers: Workers::default(),
            both: SlotSet::EMPTY,
            hearing_since: boot,
            peers: BTreeMap::new(),
            digest: 0,
            table_from: ClusterHash(0),
            ways: Arc::default(),
            ways_changed: false,
            ignored_at: None,
            ignored_since: 0,
            next: None,
            outputs: VecDeque::new(),
        };
        machine.find_next(boot);
        machine
    }

    #[cfg(test)]
    pub(super) fn with_rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// The ways as they are now.
    #[must_use]
    pub fn ways(&self) -> &Arc<BTreeMap<ClusterId, Way>> {
        &self.ways
    }

    const fn here(&self, now: Instant) -> Here {
        Here { me: self.me, boot: self.boot, rules: self.rules, now }
    }

    // ── Who there is ──

    fn set_neighbours(&mut self, neighbours: &BTreeSet<Neighbour>, now: Instant) {
        let mut candidates = SlotSet::EMPTY;
        let mut workers = BTreeSet::new();
        let mut remotes = BTreeMap::<ClusterHash, (&ClusterId, SlotSet)>::new();
        for neighbour in neighbours {
            match neighbour {
                Neighbour::Own { slot } if self.me == Some(*slot) => {}
                Neighbour::Own { slot } => candidates = candidates.union(SlotSet::of(*slot)),
                Neighbour::Worker { node } if self.me.is_some() => {
                    workers.insert(node);
                }
                Neighbour::Worker { .. } => {}
                Neighbour::Remote { cluster, .. } if *cluster == self.cluster => {}
                Neighbour::Remote { cluster, slot } => {
                    let (name, slots) = remotes.entry(ClusterHash::of(cluster)).or_insert((cluster, SlotSet::EMPTY));
                    if *name == cluster {
                        *slots = slots.union(SlotSet::of(*slot));
                    } else {
                        let why = format!("the ids {name} and {cluster} have one hash; the second is left out");
                        self.outputs.push_back(Output::Ignored(why));
                    }
                }
            }
        }
        self.set_peers(&remotes, now);
        adjust(&mut self.candidates, candidates, &mut self.rng, now);
        self.workers.set(&workers, &mut self.rng, now);
        self.own_news = true;
        self.ways_changed = true;
    }

    fn set_peers(&mut self, remotes: &BTreeMap<ClusterHash, (&ClusterId, SlotSet)>, now: Instant) {
        self.peers.retain(|hash, peer| remotes.get(hash).is_some_and(|(name, _)| **name == peer.name));
        for (hash, (name, slots)) in remotes {
            let peer = self.peers.entry(*hash).or_insert_with(|| Peer::new(&self.cluster, (*name).clone(), now));
            if self.me.is_some() {
                adjust(&mut peer.sessions, *slots, &mut self.rng, now);
            }
            peer.touch();
        }
        self.find_digest();
    }

    // ── What is heard ──

    fn hear(&mut self, from: &Neighbour, bytes: &[u8], now: Instant) {
        let heard = Hello::decode(bytes).map_err(|error: WireError| error.to_string());
        if let Err(why) = heard.and_then(|hello| self.hear_hello(from, &hello, now)) {
            self.ignore(from, &why, now);
        }
    }

    fn hear_hello(&mut self, from: &Neighbour, hello: &Hello, now: Instant) -> Result<(), String> {
        match from {
            Neighbour::Remote { cluster, slot } => {
                let hash = ClusterHash::of(cluster);
                self.check(hello, hash, Sender::Candidate(*slot))?;
                let peer = self.peers.get_mut(&hash).filter(|peer| peer.name == *cluster);
                let peer = peer.ok_or("no such cluster")?;
                let session = peer.sessions.get_mut(*slot).as_mut().ok_or("no session")?;
                session.hear(hello.hears, hello.ask, now);
                if let Some(lengths) = hello.lengths {
                    session.hear_lengths(lengths, now);
                }
                peer.touch();
                if hello.hurry {
                    peer.hurry(now);
                }
                for (side, slot, origin) in &hello.origins {
                    match side {
                        Side::Sender => {
                            peer.cluster.hear(*slot, *origin, now);
                        }
                        Side::Receiver => {
                            self.own_news |= hear_own(&mut self.own, &mut self.origin, self.me, *slot, *origin, now);
                        }
                    }
                }
                // A peer speaks of the register between us and of no other.
                for (other, register) in &hello.registers {
                    if *other == self.hash {
                        peer.merge(*register, now);
                    }
                }
            }
            Neighbour::Own { slot } => {
                self.check(hello, self.hash, Sender::Candidate(*slot))?;
                let session = self.candidates.get_mut(*slot).as_mut().ok_or("no session")?;
                session.hear(hello.hears, hello.ask, now);
                session.digest = Some(hello.digest);
                *self.report_every.get_mut(*slot) = hello.report_ms;
                for hurried in &hello.hurried {
                    if let Some(peer) = self.peers.get_mut(hurried).filter(|_| self.me.is_some()) {
                        peer.hurry(now);
                    }
                }
                self.hear_overlay(hello, now);
            }
            Neighbour::Worker { node } => {
                self.check(hello, self.hash, Sender::Worker(worker_hash(node)))?;
                self.workers.hear(node, hello, now).ok_or("no session")?;
                self.hear_overlay(hello, now);
            }
        }
        Ok(())
    }

    fn check(&self, hello: &Hello, cluster: ClusterHash, sender: Sender) -> Result<(), String> {
        if hello.cluster == cluster && hello.sender == sender {
            Ok(())
        } else {
            Err(format!("it says it is {:?} of {:?}", hello.sender, hello.cluster))
        }
    }

    fn hear_overlay(&mut self, hello: &Hello, now: Instant) {
        for (side, slot, origin) in &hello.origins {
            if *side == Side::Sender {
                self.own_news |= hear_own(&mut self.own, &mut self.origin, self.me, *slot, *origin, now);
            }
        }
        for (other, register) in &hello.registers {
            if let Some(peer) = self.peers.get_mut(other) {
                peer.merge(*register, now);
            }
        }
        if hello.epoch > self.epoch {
            self.epoch = hello.epoch;
            self.holder = hello.holder;
            self.outputs.push_back(Output::Epoch(hello.epoch));
        } else if hello.epoch == self.epoch {
            self.holder = self.holder.or(hello.holder);
        }
    }

    /// At most one report a second; the next one says how many were not reported.
    fn ignore(&mut self, from: &Neighbour, why: &str, now: Instant) {
        if self.ignored_at.is_some_and(|last| now < last + IGNORED) {
            self.ignored_since = self.ignored_since.saturating_add(1);
            return;
        }
        let more = match core::mem::take(&mut self.ignored_since) {
            0 => String::new(),
            more => format!(" (and {more} others since the last report)"),
        };
        self.ignored_at = Some(now);
        self.outputs.push_back(Output::Ignored(format!("a hello from {from}: {why}{more}")));
    }

    // ── What follows ──

    fn settle(&mut self, now: Instant) {
        self.beat(now);
        let mut all = false;
        if self.own_news || due(self.own_next, now) {
            all = self.own.judge(self.me, self.rules, now) || self.own_news;
            self.own_news = false;
            let mut wake = Wake::after(now);
            self.own.wake(self.me, &mut wake);
            self.own_next = wake.next();
        }
        if self.settle_peers(all, now) {
            self.find_digest();
            for session in self.candidates.iter_mut().filter_map(|(_, session)| session.as_mut()) {
                session.tell(now);
            }
            self.workers.tell(now);
        }
        self.speak_on_overlay(now);
        self.note_silent(now);
        if core::mem::take(&mut self.ways_changed) {
            let ways = self.peers.values().map(|peer| (peer.name.clone(), peer.way)).collect();
            if *self.ways != ways {
                self.ways = Arc::new(ways);
                self.outputs.push_back(Output::Ways(Arc::clone(&self.ways)));
            }
        }
        self.find_next(now);
    }

    /// What its daemon left in a fellow candidate's kernel may be out of date: others go round it.
    fn note_silent(&mut self, now: Instant) {
        let silent = self.candidates.iter().filter(|(_, s)| s.as_ref().is_some_and(|s| s.is_silent(now)));
        let silent = silent.fold(SlotSet::EMPTY, |set, (slot, _)| set.union(SlotSet::of(slot)));
        if self.me.is_some() && silent != self.silent {
            self.silent = silent;
            self.outputs.push_back(Output::Silent(silent));
        }
    }

    /// T1 and E0: the own origin.
    fn beat(&mut self, now: Instant) {
        let Some(me) = self.me else { return };
        let before = self.origin;
        let (lacked, had) = self.workers.report(now);
        self.origin = Origin { lacked, had, workers: self.workers.any(), ..self.origin };
        // A beat stands for one report: another report needs another beat, or some would never hear of it.
        let reports = self.origin != before;
        let ticks = self.beat_due <= now;
        if ticks {
            self.beat_due = now + self.rng.jitter(HELLO, JITTER_PERCENT);
        }
        if reports || ticks {
            self.origin.beat = self.origin.beat.wrapping_add(1);
        }
        self.own_news |= reports;
        self.own.set_own(me, self.origin, now);
    }

    /// Evaluates the peers that need it, or all, and says what is to be said in cables. True if a register changed.
    fn settle_peers(&mut self, all: bool, now: Instant) -> bool {
        let mut told = false;
        let here = self.here(now);
        let local_suspects = self.suspects(now);
        let blank = self.blank();
        for (hash, peer) in &mut self.peers {
            if !all && !peer.needs_evaluation(now) {
                continue;
            }
            let before = peer.way;
            told |= peer.evaluate(here, &self.own, &mut self.rng);
            self.ways_changed |= before != peer.way;
            let hurry = hurries(peer, local_suspects, now);
            let register = peer.register();
            for (slot, session) in peer.sessions.iter_mut() {
                let Some(session) = session else { continue };
                let (word, questions) = (session.take_word(now), session.take_questions());
                if word.is_none() && questions.is_empty() {
                    continue;
                }
                let mut hello = blank.clone();
                hello.hears = session.hears(now);
                hello.ask = word == Some(Word::Ask);
                hello.drain = self.origin.drain;
                hello.hurry = hurry;
                hello.origins.extend(self.own.origins().map(|(slot, origin)| (Side::Sender, slot, origin)));
                hello.origins.extend(peer.cluster.origins().map(|(slot, origin)| (Side::Receiver, slot, origin)));
                hello.registers.push((*hash, register));
                hello.digest = self.digest;
                let to = Neighbour::Remote { cluster: peer.name.clone(), slot };
                let lengths = session.heard_lengths();
                if word.is_some() {
                    hello.lengths = Some(lengths);
                    self.outputs.push_back(Output::Send { to: to.clone(), bytes: hello.encode() });
                }
                for question in questions {
                    hello.lengths = Some(Lengths { question, ..lengths });
                    self.outputs.push_back(Output::Send { to: to.clone(), bytes: hello.encode_padded() });
                }
            }
        }
        told
    }

    fn blank(&self) -> Hello {
        let sender = self.me.map_or(Sender::Worker(self.node), Sender::Candidate);
        Hello::new(self.hash, sender, self.epoch, self.holder)
    }

    /// Candidates of the own cluster that are suspect.
    fn suspects(&self, now: Instant) -> SlotSet {
        let suspects = self.candidates.iter().filter(|(_, s)| s.as_ref().is_some_and(|s| s.is_suspect(now)));
        suspects.fold(SlotSet::EMPTY, |set, (slot, _)| set.union(SlotSet::of(slot)))
    }

    fn speak_on_overlay(&mut self, now: Instant) {
        self.note_both(now);
        let here = self.here(now);
        for slot in Slot::all() {
            let every = self.report_interval(slot);
            let Some(session) = self.candidates.get_mut(slot) else { continue };
            session.tick(every, here.rules.ask, here.quiet_until(), &mut self.rng, now);
            let tells = session.tells(now);
            let Some(word) = session.take_word(now) else { continue };
            let (hears, digest) = (session.hears(now), session.digest);
            let mut hello = self.overlay_hello(tells, hears, digest, word, now);
            if self.me.is_some() {
                hello.hurried = self.hurried(now);
            }
            self.outputs.push_back(Output::Send { to: Neighbour::Own { slot }, bytes: hello.encode() });
        }
        let mut words = Vec::new();
        self.workers.speak(here, &mut self.rng, |node, session, tells, word| {
            words.push((node.clone(), tells, session.hears(now), session.digest, word));
        });
        let report_ms = self.workers.report_ms();
        for (node, tells, hears, digest, word) in words {
            let mut hello = self.overlay_hello(tells, hears, digest, word, now);
            hello.report_ms = report_ms;
            self.outputs.push_back(Output::Send { to: Neighbour::Worker { node }, bytes: hello.encode() });
        }
    }

    /// W1: how often this worker reports to the candidate.
    fn report_interval(&self, slot: Slot) -> Duration {
        let wished = Duration::from_millis(u64::from(*self.report_every.get(slot)));
        if self.me.is_some() { HELLO } else { wished.max(HELLO) }
    }

    /// W1: a worker reports at once when `both` changes.
    fn note_both(&mut self, now: Instant) {
        if self.me.is_some() {
            return;
        }
        let up = self.candidates.iter().filter(|(_, s)| s.as_ref().is_some_and(|s| s.is_up(now)));
        let both = up.fold(SlotSet::EMPTY, |set, (slot, _)| set.union(SlotSet::of(slot)));
        if both != self.both {
            if self.both.is_empty() {
                self.hearing_since = now;
            }
            self.both = both;
            for session in self.candidates.iter_mut().filter_map(|(_, session)| session.as_mut()) {
                session.say(Word::Hello);
            }
        }
    }

    /// Whether this worker's report counts as complaint: it has heard gateways for long enough, and hears one now. One
    /// that suspects all it has left is about to lose them too, and the fault is its own.
    fn is_settled(&self, now: Instant) -> bool {
        let young = now < self.hearing_since + SETTLE && self.rules.settle;
        let sure = |session: &Session| session.is_up(now) && !session.is_suspect(now);
        !young && (!self.rules.doubt || self.candidates.iter().any(|(_, session)| session.as_ref().is_some_and(sure)))
    }

    /// A hello for the own cluster. The table travels on a change and when the other side's differs; also to whom we do
    /// not hear: what it holds is not known, it may have restarted (W3).
    fn overlay_hello(&mut self, tells: bool, hears: bool, digest: Option<u32>, word: Word, now: Instant) -> Hello {
        let worker = self.me.is_none();
        let mut hello = self.blank();
        hello.hears = hears;
        hello.ask = word == Word::Ask;
        hello.drain = self.origin.drain;
        hello.digest = self.digest;
        hello.both = self.both;
        hello.settled = worker && self.is_settled(now);
        if !worker || self.rules.relay_origins {
            hello.origins.extend(self.own.origins().map(|(slot, origin)| (Side::Sender, slot, origin)));
        }
        let lags = digest != Some(self.digest) || !hears && self.rules.all_if_unheard;
        if (tells || lags) && (!worker || self.rules.relay_registers) {
            self.table(&mut hello, now);
        }
        hello
    }

    /// The register table, or of a large one the part whose turn it is, fresh changes first.
    fn table(&mut self, hello: &mut Hello, now: Instant) {
        let known = || self.peers.iter().filter(|(_, peer)| peer.register().version > 0);
        let entry = |(hash, peer): (&ClusterHash, &Peer)| (*hash, peer.register());
        if known().count() <= REGISTERS_MAX {
            hello.registers.extend(known().map(entry));
            return;
        }
        let fresh = |peer: &Peer| now < peer.changed_at + HELLO;
        hello.registers.extend(known().filter(|(_, peer)| fresh(peer)).take(REGISTERS_MAX / 2).map(entry));
        let room = REGISTERS_MAX - hello.registers.len();
        let (before, after): (Vec<_>, Vec<_>) = known().partition(|(hash, _)| **hash < self.table_from);
        let mut turn = after.into_iter().chain(before);
        hello.registers.extend(turn.by_ref().take(room).map(entry));
        let next = turn.next().map(|(hash, _)| *hash);
        self.table_from = next.unwrap_or(ClusterHash(0));
    }

    fn hurried(&self, now: Instant) -> Vec<ClusterHash> {
        let suspects = self.suspects(now);
        let hurried = self.peers.iter().filter(|(_, peer)| hurries(peer, suspects, now));
        hurried.map(|(hash, _)| *hash).take(REGISTERS_MAX).collect()
    }

    fn find_digest(&mut self) {
        let mut digest = 0xcbf2_9ce4_8422_2325;
        for (hash, peer) in &self.peers {
            let register = peer.register();
            if register.version > 0 {
                digest = crate::base::hash::fnv1a_more(digest, &hash.0.to_be_bytes());
                digest = crate::base::hash::fnv1a_more(digest, &register.version.to_be_bytes());
                digest = crate::base::hash::fnv1a_more(digest, &register.claims.bits().to_be_bytes());
                digest = crate::base::hash::fnv1a_more(digest, &register.revoked.bits().to_be_bytes());
            }
        }
        let [_, _, _, _, a, b, c, d] = crate::base::hash::mix(digest).to_be_bytes();
        self.digest = u32::from_be_bytes([a, b, c, d]);
    }

    fn find_next(&mut self, now: Instant) {
        let mut wake = Wake::after(now);
        if self.me.is_some() {
            wake.at(self.beat_due, Reason::Beat);
        }
        wake.also(self.own_next);
        wake.also(self.workers.next());
        for peer in self.peers.values() {
            wake.also(peer.next());
        }
        for session in self.candidates.iter().filter_map(|(_, session)| session.as_ref()) {
            session.wake(&mut wake);
        }
        self.next = wake.next();
    }
}

/// H2: the own origin's former self is passed, another's greater beat is stored. True if others must hear of it.
fn hear_own(own: &mut Cluster, mine: &mut Origin, me: Option<Slot>, slot: Slot, origin: Origin, now: Instant) -> bool {
    if me == Some(slot) {
        if !grew(origin.beat, mine.beat) {
            mine.beat = origin.beat.wrapping_add(1);
        }
        return false;
    }
    own.hear(slot, origin, now) == Heard::News
}

fn hurries(peer: &Peer, own_suspects: SlotSet, now: Instant) -> bool {
    peer.is_in_hurry(now) || peer.last_ends().is_some_and(|(own, _)| own_suspects.contains(own))
}

/// Ends sessions with slots outside `slots`, begins missing ones.
fn adjust(sessions: &mut Slots<Option<Session>>, slots: SlotSet, rng: &mut Rng, now: Instant) {
    for (slot, session) in sessions.iter_mut() {
        if !slots.contains(slot) {
            *session = None;
        } else if session.is_none() {
            *session = Some(Session::new(now, rng));
        }
    }
}

impl Machine for Paths {
    type Input = Input;
    type Output = Output;
    type Reason = Reason;

    fn handle(&mut self, input: Input, now: Instant) {
        match input {
            Input::Neighbours(neighbours) => self.set_neighbours(&neighbours, now),
            Input::Hello { from, bytes } => self.hear(&from, &bytes, now),
            Input::Lease { epoch, holder } => {
                if epoch > self.epoch || epoch == self.epoch && holder.is_some() {
                    self.epoch = epoch;
                    self.holder = holder;
                }
            }
            Input::Drain(drain) => {
                if self.me.is_some() && drain != self.origin.drain {
                    self.origin.drain = drain;
                    self.origin.beat = self.origin.beat.wrapping_add(1);
                    self.own_news = true;
                }
            }
        }
        self.settle(now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        self.next
    }

    fn handle_timeout(&mut self, now: Instant) {
        if due(self.next, now) {
            self.settle(now);
        }
    }
}
