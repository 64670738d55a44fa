//! What the lease holder announces, here and at the broker, and how it goes on from what was announced before.

use super::{COPIED, Gateway, cards, nodes, own_candidates};
use crate::base::{Epoch, Instant, NodeName};
use crate::model::{Api, Candidates, ClusterRecord, Gateway as Card, Key, Kind, Object};
use crate::roles::announce::{assign_slots, endpoint};
use crate::sync::ABSENCE;
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

impl Gateway {
    /// Whether somebody may yet tell who had which slot: fellow gateways put that back in an own API that lost its data,
    /// and the broker has it. One that knows of none and gave the slots anew would end all sessions.
    fn hesitates(&mut self, now: Instant) -> bool {
        let asks = self.candidates_before().is_none() && !self.index.synced(Api::Broker, Kind::Candidates);
        let until = self.node.config().boot + ABSENCE;
        self.hesitates_until = Some(until).filter(|until| asks && now < *until);
        self.hesitates_until.is_some()
    }

    /// The holder's announcements: here and, as a member, at the broker; the new one before the old ones go. Its Cluster in
    /// the own API is its word that the copies are all there.
    pub(super) fn announce(&mut self, epoch: Epoch, now: Instant) {
        let needed = [Kind::Node, Kind::Gateway, Kind::Cluster, Kind::Endpoint, Kind::Candidates];
        if !self.index.all_synced(Api::Local, &needed) || self.hesitates(now) {
            return;
        }
        let config = self.node.config().clone();
        let candidates = assign_slots(&config, epoch, self.candidates_before(), &self.gateways());
        let endpoint = endpoint(&config, epoch, &self.card());
        let cluster = ClusterRecord {
            cluster: config.cluster.clone(),
            pods: config.pods.clone(),
            services: config.services.clone(),
            epoch,
        };
        let ours = [Object::from(cluster), Object::from(candidates), Object::from(endpoint)];
        let member = self.may_announce();
        for api in [Api::Local, Api::Broker] {
            if !COPIED.iter().all(|kind| self.index.synced(api, *kind)) || (api == Api::Broker && !member) {
                continue;
            }
            for object in &ours {
                let is_word = api == Api::Local && object.kind() == Kind::Cluster;
                if !is_word || (member && self.may_say_all(&object.key())) {
                    self.want_announced(api, object, epoch);
                }
            }
            let [.., endpoint] = &ours;
            self.remove_former_endpoints(api, &endpoint.key(), epoch);
        }
    }

    /// Whether the own API has, or had, all that belongs there; one that lost its data lost that word, too.
    fn may_say_all(&self, word: &Key) -> bool {
        let is_shown = |key: &Key| self.index.shown(Api::Local, key).is_some();
        let has_all = |kind| self.index.synced(Api::Broker, kind) && self.copies(kind).keys().all(is_shown);
        is_shown(word) || COPIED.into_iter().all(has_all)
    }

    /// The cluster's candidates as they were announced last, here or, if the own API has lost that, at the broker: what an
    /// API shows may be later than what is only believed of another.
    pub(super) fn candidates_before(&self) -> Option<&Candidates> {
        let own = &self.node.config().cluster;
        let known = |api| {
            let candidates = own_candidates(&self.index, api, own)?;
            Some(((candidates.epoch, self.index.word_of(api, Kind::Candidates, own).is_some()), candidates))
        };
        let latest = known(Api::Broker).into_iter().chain(known(Api::Local)).max_by_key(|(rank, _)| *rank);
        latest.map(|(_, candidates)| candidates)
    }

    /// The nodes that may be gateways, with their cards: the own one with its own, others perhaps without.
    fn gateways(&self) -> BTreeMap<&NodeName, Option<Cow<'_, Card>>> {
        let nodes = nodes(&self.index).into_values().filter(|node| node.gateway).map(|node| (&node.name, None));
        let mut gateways: BTreeMap<_, _> = nodes.collect();
        for card in cards(&self.index) {
            if let Some(known) = gateways.get_mut(&card.node) {
                *known = Some(Cow::Borrowed(card));
            }
        }
        gateways.insert(&self.node.config().node, Some(Cow::Owned(self.card())));
        gateways
    }

    /// Writes an announcement unless a newer epoch's stands there.
    fn want_announced(&mut self, api: Api, object: &Object, epoch: Epoch) {
        let key = object.key();
        let newer = self.index.get(api, &key).and_then(Object::announced).is_some_and(|(_, there)| there > epoch);
        if !newer {
            self.writer.want(api, &key, Some(object), &self.index);
        }
    }

    /// Removes this cluster's other Endpoints, once the own one is seen, and not one of an earlier term in its place (R31,
    /// B04).
    fn remove_former_endpoints(&mut self, api: Api, own: &Key, epoch: Epoch) {
        let shown = self.index.shown(api, own).and_then(|(object, _)| object.announced());
        if shown.is_none_or(|(_, term)| term != epoch) || self.index.is_in_doubt(api, own) {
            return;
        }
        let cluster = &self.node.config().cluster;
        let former: Vec<Key> = self
            .index
            .objects(api, Kind::Endpoint)
            .filter(|(key, _)| *key != own.as_key_ref())
            .filter(|(_, object)| object.announced().is_some_and(|(of, term)| of == cluster && term <= epoch))
            .map(|(key, _)| key.into())
            .collect();
        for key in former {
            self.writer.want(api, &key, None, &self.index);
        }
    }
}
