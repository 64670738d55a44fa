//! Whether the cluster is a member: the holder claims its ranges at the broker before it announces them.
//!
//! ```text
//!  the broker shows a claim that grants all ──────────────────────> member
//!  else: Claiming ── read, decide, write on top of the version read ┬─> member
//!                                                                   └─> refused: told with who and what overlaps
//! ```
//! Level-triggered as all else: while the broker shows no such claim the holder asks again, as soon as others' claims or
//! records are different from those on which it was refused, and [`AGAIN`] later in any case.
//!
//! What was announced before goes on: a cluster whose own record stands, here or at the broker, with the same ranges is a
//! member whatever becomes of its claim. So neither a broker that is away or lost its data nor the first start of a version
//! that claims withdraws anything.

use super::{COPIED, Gateway, OF_ELECTION};
use crate::base::{ClusterId, Epoch, Instant, Machine};
use crate::ipam::{self, Application, Claiming, GlobalWish, Grounds, Outcome};
use crate::model::{Api, ApiError, Claim, Claims, ClusterRecord, Kind, Object, Ranges, Version, WatchEvent, Write};
use crate::roles::node_side::{NodeConfig, claims, nodes};
use crate::roles::{Event, Output, RequestId};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

/// Requests of the claiming carry this bit, those of the writer and the election do not.
const OF_CLAIMING: u64 = 1 << 62;
/// Requests of one conversation are numbered from here on.
const CONVERSATION: u64 = 1 << 32;
/// When a claim that was refused is tried again though nothing seems to have changed: a broker that has just started may
/// refuse what it will allow (`spec/broker-trust.md`, trap 1).
const AGAIN: Duration = Duration::from_secs(30);

/// How far the cluster has come.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Joining {
    /// Which cluster this is, whatever it is called.
    identity: String,
    seed: u64,
    conversation: Option<Claiming>,
    /// How many conversations there were, this one too.
    conversations: u64,
    /// On which grounds the last one began, and when another may begin on the same.
    asked: Option<(Grounds, Instant)>,
    claimed: bool,
    told: Option<Event>,
    /// The notes of clusters that left, as far as they were ever seen: a broker that got old data back lacks some.
    notes: BTreeMap<ClusterId, Epoch>,
    /// The latest claim that was seen of each cluster.
    latest: BTreeMap<ClusterId, Claim>,
}

impl Joining {
    pub(super) const fn new(identity: String, seed: u64) -> Self {
        Self {
            identity,
            seed,
            conversation: None,
            conversations: 0,
            asked: None,
            claimed: false,
            told: None,
            notes: BTreeMap::new(),
            latest: BTreeMap::new(),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let conversation = self.conversation.as_ref().and_then(Machine::poll_timeout).map(|(at, _)| at);
        let again = self.asked.as_ref().map(|(_, again)| *again).filter(|_| self.conversation.is_none());
        conversation.or(again)
    }

    /// Whether this request is one of the conversation's.
    pub(super) const fn asked(id: RequestId) -> bool {
        id.0 & OF_CLAIMING != 0 && id.0 & OF_ELECTION == 0
    }

    /// What is under way ends: the cluster leaves.
    pub(super) fn give_up(&mut self) {
        self.conversation = None;
        self.asked = None;
        self.claimed = false;
    }

    /// It is time to ask again, if there is anything to ask for.
    pub(super) fn rest(&mut self, now: Instant) {
        self.asked.take_if(|(_, again)| *again <= now);
    }

    /// Whether the claim is this cluster's, and not that of another one under its id.
    pub(super) fn is_ours(&self, claim: &Claim) -> bool {
        claim.identity == self.identity
    }

    /// Whether another cluster has joined under this one's id.
    pub(super) fn is_anothers(&self, claims: &Claims, own: &ClusterId) -> bool {
        claims.give_to_another(own, &self.identity)
    }

    fn base(&self) -> u64 {
        OF_CLAIMING | (self.conversations * CONVERSATION)
    }
}

/// What the holder asks for.
impl Gateway {
    /// What this cluster wants to have.
    fn application(&self) -> Application {
        let NodeConfig { cluster, pods, services, .. } = self.node.config().clone();
        let gateways = nodes(&self.index).into_values().filter(|node| node.gateway);
        let nodes = gateways.flat_map(|node| node.addresses.iter().copied()).collect();
        let ranges = Ranges { pods, services, nodes, ..Ranges::default() };
        let epoch = self.term.unwrap_or_default();
        Application { cluster, identity: self.joining.identity.clone(), ranges, global: GlobalWish::None, epoch }
    }

    /// Whether the broker shows a claim of this cluster's for all that it would announce.
    fn claim_is_shown(&self) -> bool {
        let own = &self.node.config().cluster;
        let claim = claims(&self.index).and_then(|claims| claims.members.get(own));
        let left = self.joining.notes.get(own).copied();
        claim.is_some_and(|claim| Some(claim.epoch) > left && claim.grants(&self.application()))
    }

    /// Takes note of who left, for ever, and of the latest claims.
    pub(super) fn see_notes(&mut self) {
        let Some(shown) = claims(&self.index) else { return };
        for (cluster, epoch) in &shown.left {
            let known = self.joining.notes.entry(cluster.clone()).or_default();
            *known = (*epoch).max(*known);
        }
        for (cluster, claim) in &shown.members {
            let latest = self.joining.latest.entry(cluster.clone()).or_insert_with(|| claim.clone());
            if claim.epoch >= latest.epoch {
                *latest = claim.clone();
            }
        }
    }

    /// Whether the broker has all these notes.
    fn notes_are_shown(&self) -> bool {
        let has = |(cluster, epoch): (&ClusterId, &Epoch)| {
            claims(&self.index).is_some_and(|claims| claims.is_of_before_it_left(cluster, *epoch))
        };
        self.joining.notes.iter().all(has)
    }

    /// Whether the broker lacks claims of others that it had: a backup of before they were made.
    fn claims_are_lost(&self) -> bool {
        let own = &self.node.config().cluster;
        let lost = |shown| ipam::lost_claims(shown, &self.joining.latest).keys().any(|cluster| cluster != own);
        claims(&self.index).is_some_and(lost)
    }

    /// Somebody removes claims from those that are shown, who wants those clusters forgotten. (What a listing lacks, the broker
    /// may have lost.)
    pub(super) fn see_removals(&mut self, api: Api, event: &WatchEvent) {
        let (Api::Broker, WatchEvent::Applied(Object::Claims(now), _)) = (api, event) else { return };
        let shown = self.index.shown(api, &Object::from(Claims::default()).key());
        let Some(before) = shown.and_then(|(object, _)| as_claims(object)) else { return };
        if self.index.is_live(api, Kind::Claims) {
            let removed = before.members.keys().filter(|cluster| !now.members.contains_key(*cluster));
            removed.for_each(|cluster| drop(self.joining.latest.remove(cluster)));
        }
    }

    /// Whether it is of a cluster that left, and of before. One that is reached has joined again, and will say so.
    pub(super) fn is_of_before_it_left(&self, object: &Object) -> bool {
        let Some((of, epoch)) = object.announced() else { return false };
        self.joining.notes.get(of).is_some_and(|last| epoch <= *last) && !self.node.lives(of)
    }

    /// Whether the holder may announce its ranges.
    pub(super) fn may_announce(&self) -> bool {
        self.joining.claimed || self.announced_before()
    }

    /// Whether the record of this cluster stands, with these ranges. (Without its claim it would not have been written.)
    fn announced_before(&self) -> bool {
        let NodeConfig { cluster, pods, services, .. } = self.node.config();
        let record = |api| self.index.objects(api, Kind::Cluster).filter_map(|(_, object)| as_record(object));
        let mut records = record(Api::Local).chain(record(Api::Broker)).filter(|record| record.cluster == *cluster);
        records.any(|record| record.pods == *pods && record.services == *services)
    }

    /// Whether there is any sign that this cluster is a member, for gateways that do not hold the lease.
    pub(super) fn is_member(&self) -> bool {
        let own = &self.node.config().cluster;
        let is_own = |object: &Object| object.announced().is_some_and(|(cluster, _)| cluster == own);
        let at_broker = || COPIED.into_iter().flat_map(|kind| self.index.objects(Api::Broker, kind));
        self.may_announce() || self.claim_is_shown() || at_broker().any(|(_, object)| is_own(object))
    }

    /// Goes on with the claiming, as far as it is time to.
    pub(super) fn join(&mut self, now: Instant) {
        let needed = [Kind::Cluster, Kind::Endpoint, Kind::Candidates, Kind::Claims];
        if self.term.is_none() {
            self.joining.conversation = None;
            self.joining.asked = None;
            return;
        }
        let complete = self.index.all_synced(Api::Broker, &needed) && self.index.synced(Api::Local, Kind::Node);
        if !complete || self.joining.conversation.is_some() {
            return;
        }
        if self.claim_is_shown() {
            self.joining.claimed = true;
            self.joining.told = None;
            if self.notes_are_shown() && !self.claims_are_lost() {
                self.joining.asked = None;
                return;
            }
        }
        let grounds = self.grounds();
        if self.joining.asked.as_ref().is_none_or(|(on, again)| *on != grounds || *again <= now) {
            let claiming = Claiming::new(self.application(), grounds.clone(), self.joining.seed, now);
            self.ask(claiming, grounds, now);
        }
    }

    /// The cluster leaves, and has nothing else at the broker any more: its claim goes.
    pub(super) fn release_claim(&mut self, now: Instant) {
        // It leaves in the latest term that it saw: a later one wants another note.
        let (cluster, epoch) = (self.node.config().cluster.clone(), self.election.seen());
        let mut grounds = Grounds::default();
        grounds.claims.note_left(&BTreeMap::from([(cluster.clone(), epoch)]));
        let waits = self.joining.asked.as_ref().is_some_and(|(on, again)| *on == grounds && *again > now);
        if self.joining.conversation.is_some() || waits {
            return;
        }
        let release = Claiming::release(cluster, self.joining.identity.clone(), epoch, self.joining.seed, now);
        self.ask(release, grounds, now);
    }

    /// Begins a conversation with the broker, on these grounds.
    fn ask(&mut self, conversation: Claiming, grounds: Grounds, now: Instant) {
        self.joining.conversations += 1;
        self.joining.asked = Some((grounds, now + AGAIN));
        self.joining.conversation = Some(conversation);
        self.pump_claiming(now);
    }

    /// What is known of the others, also where the broker has lost it.
    fn grounds(&self) -> Grounds {
        let own = &self.node.config().cluster;
        let mut records: BTreeMap<ClusterId, Ranges> = BTreeMap::new();
        // Who left may still be shown by a broker that got old data back.
        let announced = |kind| self.index.objects(Api::Broker, kind).filter(|(_, o)| !self.is_of_before_it_left(o));
        for (_, object) in announced(Kind::Cluster) {
            let Some(record) = as_record(object).filter(|record| record.cluster != *own) else { continue };
            records.insert(record.cluster.clone(), ranges_of(record));
        }
        for (_, object) in announced(Kind::Endpoint) {
            let Object::Endpoint(endpoint) = object else { continue };
            if endpoint.cluster != *own {
                records.entry(endpoint.cluster.clone()).or_default().nodes.push(endpoint.private_ip);
            }
        }
        let claims = self.index.objects(Api::Broker, Kind::Claims).find_map(|(_, object)| as_claims(object));
        let mut claims = claims.cloned().unwrap_or_default();
        claims.note_left(&self.joining.notes);
        Grounds { claims, records, latest: self.joining.latest.clone() }
    }

    /// A request of the conversation was answered.
    pub(super) fn claims_read(
        &mut self,
        id: RequestId,
        result: Result<Option<(Object, Version)>, ApiError>,
        now: Instant,
    ) {
        let claims_of = |(object, version)| {
            if let Object::Claims(claims) = object { Some((Arc::unwrap_or_clone(claims), version)) } else { None }
        };
        let result = result.map(|found| found.and_then(claims_of));
        self.claiming(id, |request| ipam::Input::Answered { request, result }, now);
    }

    /// A write of the conversation was carried out, or not.
    pub(super) fn claims_written(&mut self, id: RequestId, result: Result<Version, ApiError>, now: Instant) {
        self.claiming(id, |request| ipam::Input::Written { request, result }, now);
    }

    fn claiming(&mut self, id: RequestId, input: impl FnOnce(u64) -> ipam::Input, now: Instant) {
        // An answer may be to a conversation that was given up.
        let request = id.0.checked_sub(self.joining.base()).filter(|request| *request < CONVERSATION);
        if let (Some(request), Some(conversation)) = (request, &mut self.joining.conversation) {
            conversation.handle(input(request), now);
            self.pump_claiming(now);
        }
    }

    /// The conversation may want to wake.
    pub(super) fn wake_claiming(&mut self, now: Instant) -> bool {
        let due = self.joining.poll_timeout().is_some_and(|at| at <= now);
        if let Some(conversation) = &mut self.joining.conversation {
            conversation.handle_timeout(now);
        }
        self.pump_claiming(now);
        due
    }

    fn pump_claiming(&mut self, now: Instant) {
        let base = self.joining.base();
        while let Some(output) = self.joining.conversation.as_mut().and_then(Machine::poll_output) {
            match output {
                ipam::Output::Read { request } => {
                    let key = Object::from(Claims::default()).key();
                    self.outbox.push_back(Output::Read(RequestId(base + request), Api::Broker, key));
                }
                ipam::Output::Write { request, claims, expected } => {
                    let claims = Object::from(claims);
                    let write = match expected {
                        None => Write::Create(claims),
                        Some(version) => Write::Replace(claims, version),
                    };
                    self.outbox.push_back(Output::Write(RequestId(base + request), Api::Broker, write));
                }
                ipam::Output::Done(outcome) => {
                    self.joining.conversation = None;
                    self.claiming_ended(outcome, now);
                }
            }
        }
    }

    fn claiming_ended(&mut self, outcome: Outcome, now: Instant) {
        if let Some((_, again)) = &mut self.joining.asked {
            *again = now + AGAIN;
        }
        match outcome {
            Outcome::Claimed(_) => {
                self.joining.told = None;
                self.joining.claimed = true;
                self.reconcile(now);
            }
            // The broker will show it.
            Outcome::Released => {}
            Outcome::Refused(because) if self.leaving.is_some() => self.claim_was_kept(because, now),
            // It was only about notes of others.
            Outcome::Refused(_) if self.claim_is_shown() => {}
            Outcome::Refused(because) => {
                let announces = self.may_announce();
                let event = if announces { Event::Contested { because } } else { Event::Refused { because } };
                if self.joining.told.as_ref() != Some(&event) {
                    self.joining.told = Some(event.clone());
                    self.outbox.push_back(Output::Event(event));
                }
            }
        }
    }
}

/// What is left to others.
impl Gateway {
    /// The broker does not let this cluster give its claim back: that is for those to do who wrote it.
    fn claim_was_kept(&mut self, because: String, now: Instant) {
        if self.leaving.as_mut().is_some_and(super::leaving::Leaving::claim_stays) {
            let because = alloc::format!("has left, but for its claim: {because}");
            self.outbox.push_back(Output::Event(Event::Ignored { because }));
        }
        self.reconcile(now);
    }
}

/// What a cluster announces.
pub(super) fn ranges_of(record: &ClusterRecord) -> Ranges {
    Ranges { pods: record.pods.clone(), services: record.services.clone(), ..Ranges::default() }
}

fn as_claims(object: &Object) -> Option<&Claims> {
    if let Object::Claims(claims) = object { Some(claims) } else { None }
}

fn as_record(object: &Object) -> Option<&ClusterRecord> {
    if let Object::Cluster(record) = object { Some(record) } else { None }
}
