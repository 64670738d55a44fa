//! The cluster leaves the clusterset: what its gateways have anywhere goes, and the lease last.
//!
//! ```text
//!  every gateway   its node's network, its own card
//!  the holder      the announcements, at the broker and here ─> the claim at the broker ─> fellows' cards
//!  every gateway   nothing shown any more ─> stops standing for the lease ─> removes it ─> Left
//! ```
//! The claim goes after the announcements: who gets the ranges next must not meet them. As long as the broker cannot be
//! reached the cluster has not left, and its gateways go on trying. Whoever is killed meanwhile is started again, and told
//! again that the cluster leaves: all that is left to do is seen in the APIs.

use super::{COPIED, Gateway, LEASE, OF_ELECTION};
use crate::base::Instant;
use crate::election;
use crate::model::{Api, ApiError, Key, Kind, Lease, Object, Version, Write};
use crate::roles::node_side::claims;
use crate::roles::{Event, Output, RequestId};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

/// Requests about the lease that goes carry this bit, and neither that of the election nor that of the claiming.
const OF_LEAVING: u64 = 1 << 61;
/// When a lease that could not be removed is looked at again, and one that another process holds.
const AGAIN: Duration = Duration::from_secs(2);

/// How far leaving has come.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Leaving {
    /// The broker does not let the claim go.
    claim_stays: bool,
    /// Objects are gone: what becomes of the lease.
    lease: LeaseGoes,
    requests: u64,
}

#[derive(Clone, PartialEq, Debug, Default)]
enum LeaseGoes {
    /// It is still needed.
    #[default]
    NotYet,
    /// It is given up first.
    Releasing,
    /// It was asked for; with what another process held it when, if one did.
    Asked(Option<(Version, Instant)>),
    /// It is being removed.
    Removing,
    /// It is asked for again then.
    Waiting(Instant, Option<(Version, Instant)>),
    /// It is gone, and so is all else.
    Gone,
}

impl Leaving {
    /// Whether this request is one about the lease that goes.
    pub(super) const fn asked(id: RequestId) -> bool {
        id.0 & OF_LEAVING != 0 && id.0 & OF_ELECTION == 0
    }

    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        if let LeaseGoes::Waiting(at, _) = self.lease { Some(at) } else { None }
    }

    /// The claim stays, since the broker refuses to let it go. True if that is news.
    pub(super) const fn claim_stays(&mut self) -> bool {
        !core::mem::replace(&mut self.claim_stays, true)
    }

    fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(OF_LEAVING | self.requests)
    }

    fn is_last(&self, id: RequestId) -> bool {
        id.0 == OF_LEAVING | self.requests
    }
}

impl Gateway {
    /// The cluster leaves from now on.
    pub(super) fn begin_to_leave(&mut self, now: Instant) {
        if self.leaving.is_none() {
            self.leaving = Some(Leaving::default());
            self.joining.give_up();
            self.node.leave();
            self.dialling.see(None, core::iter::empty(), BTreeSet::new(), now);
            self.reconcile(now);
        }
    }

    /// Takes away what is there, as far as it is this gateway's to do.
    pub(super) fn leave(&mut self, now: Instant) {
        self.joining.rest(now);
        if self.leaving.as_ref().is_none_or(|leaving| leaving.lease != LeaseGoes::NotYet) {
            self.end_if_stopped();
            return;
        }
        for (api, key) in self.left_over() {
            self.writer.want(api, &key, None, &self.index);
        }
        if self.term.is_some() && self.is_silent_at_broker() && self.has_claim() {
            self.release_claim(now);
        }
        self.pump_writer();
        if self.is_gone() && self.node.is_cleared() {
            if let Some(leaving) = &mut self.leaving {
                leaving.lease = LeaseGoes::Releasing;
            }
            self.elect(election::Input::Stop, now);
            self.end_if_stopped();
        }
    }

    /// What is shown and this gateway has to remove: its own card, and as the holder what the cluster announces, copies and
    /// all cards.
    fn left_over(&self) -> Vec<(Api, Key)> {
        let own = self.node.config();
        let is_holder = self.term.is_some();
        let mut found: Vec<(Api, Key)> = Vec::new();
        let cards = self.index.objects(Api::Local, Kind::Gateway);
        let mine = |object: &Object| matches!(object, Object::Gateway(card) if card.node == own.node);
        found.extend(cards.filter(|(_, o)| is_holder || mine(o)).map(|(key, _)| (Api::Local, key.into())));
        if is_holder {
            for kind in COPIED {
                found.extend(self.index.objects(Api::Local, kind).map(|(key, _)| (Api::Local, key.into())));
                let at_broker = self.index.objects(Api::Broker, kind);
                let ours = at_broker.filter(|(_, object)| self.may_remove(object));
                found.extend(ours.map(|(key, _)| (Api::Broker, key.into())));
            }
        }
        // Also of a write that is still under way nothing may be left.
        found.extend(self.writer.all_busy().map(|(api, key)| (api, key.clone())));
        found
    }

    /// Whether this cluster announced it: what is there under its id is not its own where the claim is another's, who joined
    /// under the same id (B36). Before the claims are seen nobody knows.
    fn may_remove(&self, object: &Object) -> bool {
        let own = &self.node.config().cluster;
        let is_anothers = || claims(&self.index).is_some_and(|claims| self.joining.is_anothers(claims, own));
        object.cluster() == Some(own) && self.index.synced(Api::Broker, Kind::Claims) && !is_anothers()
    }

    fn is_silent_at_broker(&self) -> bool {
        let shows = |kind| self.index.shows_any(Api::Broker, kind, |object| self.may_remove(object));
        self.index.all_synced(Api::Broker, &COPIED) && !COPIED.into_iter().any(shows)
    }

    /// Whether there is yet a claim to give back, or a note to leave.
    fn has_claim(&self) -> bool {
        let stays = self.leaving.as_ref().is_some_and(|leaving| leaving.claim_stays);
        let own = &self.node.config().cluster;
        let claims = claims(&self.index);
        let is_ours = claims.and_then(|claims| claims.members.get(own)).map(|claim| self.joining.is_ours(claim));
        let is_noted = claims.is_some_and(|claims| claims.is_of_before_it_left(own, self.election.seen()));
        let over = is_ours.map_or(is_noted, |ours| !ours);
        !self.index.synced(Api::Broker, Kind::Claims) || !over && !stays
    }

    /// Whether no API shows anything that the gateways of this cluster wrote, but for the lease.
    fn is_gone(&self) -> bool {
        let shows = |kind| self.index.shows_any(Api::Local, kind, |_| true);
        let here = [Kind::Cluster, Kind::Endpoint, Kind::Candidates, Kind::Gateway];
        let all_seen = self.index.all_synced(Api::Local, &here);
        let is_done = self.writer.all_busy().next().is_none();
        all_seen && is_done && !here.into_iter().any(shows) && self.is_silent_at_broker() && !self.has_claim()
    }

    /// It stands for the lease no more: the lease goes.
    pub(super) fn end_if_stopped(&mut self) {
        let releasing = self.leaving.as_ref().is_some_and(|leaving| leaving.lease == LeaseGoes::Releasing);
        if releasing && self.election.is_stopped() {
            self.ask_for_lease(None);
        }
    }

    fn ask_for_lease(&mut self, held: Option<(Version, Instant)>) {
        let Some(leaving) = &mut self.leaving else { return };
        leaving.lease = LeaseGoes::Asked(held);
        let key = Key::new(Kind::Lease, "", LEASE);
        self.outbox.push_back(Output::Read(leaving.next_request(), Api::Local, key));
    }

    /// The lease was read. One that another process holds is dead when it has not changed for as long as it lasts: all leave.
    pub(super) fn lease_read(
        &mut self,
        id: RequestId,
        result: Result<Option<(Object, Version)>, ApiError>,
        now: Instant,
    ) {
        let Some(leaving) = self.leaving.as_mut().filter(|leaving| leaving.is_last(id)) else { return };
        let LeaseGoes::Asked(held) = leaving.lease.clone() else { return };
        let (lease, version) = match result {
            Ok(Some((Object::Lease(lease), version))) => (lease, version),
            Ok(_) => return self.end(),
            Err(_) => {
                leaving.lease = LeaseGoes::Waiting(now + AGAIN, held);
                return;
            }
        };
        let since = held.filter(|(seen, _)| *seen == version).map_or(now, |(_, since)| since);
        if is_free(&lease, since, now) {
            leaving.lease = LeaseGoes::Removing;
            let write = Write::Delete(Object::Lease(lease).key(), version);
            self.outbox.push_back(Output::Write(leaving.next_request(), Api::Local, write));
        } else {
            leaving.lease = LeaseGoes::Waiting(now + AGAIN, Some((version, since)));
        }
    }

    /// The lease is gone, or not.
    pub(super) fn lease_removed(&mut self, id: RequestId, result: Result<Version, ApiError>, now: Instant) {
        let Some(leaving) = self.leaving.as_mut().filter(|leaving| leaving.is_last(id)) else { return };
        if leaving.lease == LeaseGoes::Removing {
            match result {
                Ok(_) => self.end(),
                Err(_) => leaving.lease = LeaseGoes::Waiting(now + AGAIN, None),
            }
        }
    }

    fn end(&mut self) {
        if let Some(leaving) = &mut self.leaving {
            leaving.lease = LeaseGoes::Gone;
            self.outbox.push_back(Output::Event(Event::Left));
        }
    }

    /// It may be time to look at the lease again.
    pub(super) fn wake_leaving(&mut self, now: Instant) {
        if let Some(Leaving { lease: LeaseGoes::Waiting(at, held), .. }) = &self.leaving
            && *at <= now
        {
            self.ask_for_lease(held.clone());
        }
    }
}

/// Whether nobody can be at work under this lease, which has not changed since then.
fn is_free(lease: &Lease, since: Instant, now: Instant) -> bool {
    lease.holder.is_none() || since + lease.duration <= now
}
