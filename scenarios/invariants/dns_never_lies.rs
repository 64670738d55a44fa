//! **DNS never lies.** An answer holds only addresses of clusters that export the service, or did so until less than the
//! bound ago; addresses of a cluster whose data path is lost leave the answers within theirs; and a name that is exported
//! and known is never denied. SERVFAIL before the first complete view is honest, and so is an answer without addresses.

use super::{Invariant, Violation, end_may_come_late};
use crate::addresses::AddressBook;
use crate::bounds::{CONVERGED_WITHIN, GONE_WITHIN, LOST_HIDDEN_WITHIN, NAME_KNOWN_WITHIN};
use crate::exports::Exports;
use crate::membership::Membership;
use crate::mirror::Mirror;
use crate::probing::{Stream, stream_of_probe, streams};
use crate::trouble::Trouble;
use crate::wording::{self, brief, named_by, seconds};
use crate::{ApiRef, Daemon, Fact, Outcome, Place, Scenario, What, Workload};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{Kind, Object, Reach, ServiceKey};

const NAME: &str = "DNS never lies";

/// One question, and who asked it.
struct Question<'a> {
    asking: &'a ClusterId,
    name: &'a str,
    key: ServiceKey,
    /// The one cluster it asks for, if it names one.
    of: Option<ClusterId>,
    began: Duration,
    answered: Duration,
}

/// See the module.
pub(super) struct DnsNeverLies {
    workloads: Vec<Workload>,
    streams: Vec<Stream>,
    trouble: Trouble,
    exports: Exports,
    membership: Membership,
    mirror: Mirror,
    addresses: AddressBook,
    /// Clusters whose DNS server has complete views.
    synced: BTreeSet<ClusterId>,
    /// Since when the own API of a cluster holds the import of a service.
    imported: BTreeMap<(ClusterId, ServiceKey), Duration>,
    /// When a cluster last got an address for a service, and whose.
    resolved: BTreeMap<(ClusterId, ServiceKey), BTreeMap<ClusterId, Duration>>,
    /// Since when all gateways of the first cluster, of which one is active, say that the second is lost.
    lost: BTreeMap<(ClusterId, ClusterId), Duration>,
    /// When an API last got old data back.
    restored: Option<Duration>,
}

impl DnsNeverLies {
    pub(super) fn of(scenario: &Scenario) -> Self {
        Self {
            workloads: scenario.workloads.clone(),
            streams: streams(scenario),
            trouble: Trouble::of(scenario),
            exports: Exports::of(scenario),
            membership: Membership::of(scenario),
            mirror: Mirror::of(scenario),
            addresses: AddressBook::default(),
            synced: BTreeSet::new(),
            imported: BTreeMap::new(),
            resolved: BTreeMap::new(),
            lost: BTreeMap::new(),
            restored: None,
        }
    }
}

impl Invariant for DnsNeverLies {
    fn name(&self) -> &'static str {
        NAME
    }

    fn stands_for(&self) -> &'static str {
        "F9 F10: submariner#821 (B12), lighthouse#1745 (B54), lighthouse#957 (B40), aardvark-dns#679 (B61)"
    }

    fn watch(&mut self, fact: &Fact) -> Option<Violation> {
        self.trouble.watch(fact);
        self.mirror.watch(fact);
        self.addresses.watch(fact);
        self.note(fact);
        if self.restored != self.trouble.restored() {
            self.restored = self.trouble.restored();
            // What cards say is what they said once.
            let all: BTreeSet<ClusterId> = self.lost.keys().map(|(of, _)| of.clone()).collect();
            all.iter().for_each(|cluster| self.note_lost(cluster, fact.at));
        }
        let What::Probed { id, began, outcome } = &fact.what else { return None };
        let stream = self.streams.get(stream_of_probe(*id))?;
        let name = stream.name()?;
        let (key, of) = named_by(name, &self.workloads)?;
        let question = Question { asking: &stream.from.cluster, name, key, of, began: *began, answered: fact.at };
        let text = match outcome {
            Outcome::Resolved { rcode, .. } if rcode == "NXDOMAIN" => self.denied(&question),
            Outcome::Resolved { addresses, .. } => {
                let lie = addresses.iter().find_map(|address| self.answered(&question, *address));
                lie.or_else(|| twice(&question, addresses))
            }
            Outcome::Fetched { address, .. } => self.answered(&question, *address),
            Outcome::Failed { .. } => None,
        };
        let owners: Vec<(ClusterId, Duration)> =
            self.owners_in(&question, outcome).map(|owner| (owner.clone(), *began)).collect();
        let at = (question.asking.clone(), question.key);
        self.resolved.entry(at).or_default().extend(owners);
        Some(Violation { invariant: NAME, at: fact.at, text: text? })
    }

    fn excuse(&mut self, at: Duration) -> Option<String> {
        self.trouble.advance(at);
        if self.trouble.emptied_lately(at, CONVERGED_WITHIN) {
            return Some(wording::emptied(CONVERGED_WITHIN));
        }
        if !self.trouble.apis_lately(at, CONVERGED_WITHIN) {
            return None;
        }
        let apis =
            self.trouble.says_of_apis().map(|apis| format!("of addresses behind a lost path and of new names: {apis}"));
        apis.or_else(|| Some(format!("less than {} since an API was in trouble", brief(CONVERGED_WITHIN))))
    }

    fn end(&mut self, _: Duration) -> Vec<Violation> {
        Vec::new()
    }
}

impl DnsNeverLies {
    fn note(&mut self, fact: &Fact) {
        match (&fact.what, &fact.place) {
            (What::Table { synced: true, .. }, Place::Daemon(cluster, ..)) => {
                self.synced.insert(cluster.clone());
            }
            (What::Process(_), Place::Daemon(cluster, _, Daemon::Dns)) => {
                self.synced.remove(cluster);
            }
            (What::Wrote { object: Object::Import(import), .. }, Place::Api(ApiRef::Cluster(cluster))) => {
                let at = (cluster.clone(), import.key.clone());
                let held = self.mirror.get(&ApiRef::Cluster(cluster.clone()), &fact_key(import)).is_some();
                if held {
                    self.imported.entry(at).or_insert(fact.at);
                } else {
                    self.imported.remove(&at);
                }
            }
            (What::Wrote { object: Object::Gateway(_), .. }, Place::Api(ApiRef::Cluster(cluster))) => {
                self.note_lost(cluster, fact.at);
            }
            _ => {}
        }
    }

    fn note_lost(&mut self, cluster: &ClusterId, at: Duration) {
        let mut lost: Option<BTreeSet<ClusterId>> = None;
        let mut any_active = false;
        for object in self.mirror.objects_at(&ApiRef::Cluster(cluster.clone()), Kind::Gateway) {
            let Object::Gateway(gateway) = object else { continue };
            any_active |= gateway.active.is_some();
            let says =
                gateway.reach.iter().filter(|(_, reach)| **reach == Reach::Lost).map(|(id, _)| id.clone()).collect();
            lost = Some(lost.map_or_else(|| BTreeSet::clone(&says), |all| &all & &says));
        }
        // Nobody speaks for a cluster without an active gateway; the cards of the others may be old (F9).
        let lost = lost.filter(|_| any_active).unwrap_or_default();
        self.lost.retain(|(of, to), _| of != cluster || lost.contains(to));
        for to in lost {
            self.lost.entry((cluster.clone(), to)).or_insert(at);
        }
    }

    /// Whose addresses the answer holds.
    fn owners_in<'a>(
        &'a self,
        question: &'a Question<'a>,
        outcome: &'a Outcome,
    ) -> impl Iterator<Item = &'a ClusterId> {
        let addresses = match outcome {
            Outcome::Resolved { addresses, .. } => addresses.as_slice(),
            Outcome::Fetched { address, .. } => std::slice::from_ref(address),
            Outcome::Failed { .. } => &[],
        };
        self.exports.exporters(&question.key).filter(|cluster| {
            let owner = ((*cluster).clone(), question.key.clone());
            let theirs = self.addresses.of_service(&owner, Duration::ZERO, question.answered);
            addresses.iter().any(|address| theirs.contains(address))
        })
    }

    /// Whether the name is to be known whatever became of pods: without a ready one a headless service has no name
    /// (`spec/mcs-dns.md` 3.2).
    fn must_have_pods(&self, cluster: &ClusterId, key: &ServiceKey, at: Duration) -> bool {
        let headless = self.workloads.iter().any(|w| w.headless && w.cluster == *cluster && w.service == *key);
        !headless || self.exports.is_ready(cluster, key, at) && self.trouble.calm_for(at) >= CONVERGED_WITHIN
    }

    /// Says why NXDOMAIN is a lie, if it is.
    fn denied(&self, question: &Question<'_>) -> Option<String> {
        let Question { asking, name, key, of, began, answered } = question;
        // Who is no member, or has just become one again, need not know.
        let member_since = self.membership.since(asking, *began)?;
        if self.membership.was_leaving(asking, *answered, &self.trouble) {
            return None;
        }
        let named = |cluster: &&ClusterId| {
            let meant = of.as_ref().is_none_or(|of| of == *cluster);
            meant
                && self.must_have_pods(cluster, key, *began)
                && !end_may_come_late(&self.exports, &self.trouble, (cluster, key), *began)
        };
        let exporters = || {
            let since = |cluster| Some((cluster, self.exports.since(cluster, key, *began)?.max(member_since)));
            self.exports.exporters(key).filter(named).filter_map(since)
        };
        let since = exporters().map(|(_, since)| since).min()?;
        if self.trouble.emptied_lately(*answered, CONVERGED_WITHIN) {
            return None;
        }
        let at = ((*asking).clone(), key.clone());
        let had = |(cluster, since)| self.resolved.get(&at)?.get(cluster).filter(|when| **when >= since);
        if let Some(when) = exporters().find_map(had) {
            return Some(format!(
                "{asking} was told that {name} does not exist, and had its address at {}",
                seconds(*when)
            ));
        }
        let known = *self.imported.get(&at)?.max(&since);
        let undisturbed = self.synced.contains(*asking) && !self.trouble.apis_lately(*answered, CONVERGED_WITHIN);
        (undisturbed && known + NAME_KNOWN_WITHIN <= *began)
            .then(|| format!("{asking} was told that {name} does not exist, and imports it since {}", seconds(known)))
    }

    /// Says why this address is a lie, if it is.
    fn answered(&self, question: &Question<'_>, address: IpAddr) -> Option<String> {
        let Question { asking, name, key, began, answered, .. } = question;
        let mut all_known = true;
        let mut owners = Vec::new();
        let calm = self.trouble.calm_for(*answered) >= GONE_WITHIN + answered.saturating_sub(*began);
        let from = if calm { began.saturating_sub(GONE_WITHIN) } else { Duration::ZERO };
        for cluster in self.exports.exporters(key) {
            let known = self.addresses.of_service(&(cluster.clone(), key.clone()), from, *answered);
            all_known &= !known.is_empty();
            if known.contains(&address) {
                owners.push(cluster);
            }
        }
        if owners.is_empty() {
            return all_known.then(|| format!("{asking} was told {address} for {name}, which no exporter has"));
        }
        owners.retain(|cluster| self.exports.within(cluster, key, from, *began));
        if owners.is_empty() {
            return Some(format!("{asking} was told {address} for {name}, whose export is over"));
        }
        let gone = owners.iter().map(|cluster| self.lost.get(&((*asking).clone(), (*cluster).clone())));
        let since = gone.collect::<Option<Vec<_>>>()?.into_iter().max()?;
        let hidden = *since + LOST_HIDDEN_WITHIN <= *began && !self.trouble.apis_lately(*answered, CONVERGED_WITHIN);
        hidden.then(|| {
            format!("{asking} was told {address} for {name}, and its path there is lost since {}", seconds(*since))
        })
    }
}

/// Says which address the answer holds twice, if it does (B58). Worlds give them sorted.
fn twice(question: &Question<'_>, addresses: &[IpAddr]) -> Option<String> {
    let twice = addresses.windows(2).find_map(|pair| (pair.first() == pair.last()).then(|| pair.first()).flatten())?;
    Some(format!("{} was told {twice} twice for {}", question.asking, question.name))
}

fn fact_key(import: &tombolo_core::model::Import) -> tombolo_core::model::Key {
    Object::from(import.clone()).key()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::{
        WEB_IP, act, broken, cluster, fact, gateway, millis, probed, resolved, resolves, scenario, secs, web,
        web_import, web_service, wrote,
    };
    use crate::{Act, ApiFault, Change, Verb, When};

    const DNS: &str = "west/worker dns";

    fn watch(timeline: Vec<Act>, facts: &[Fact]) -> Vec<String> {
        let expect = vec![resolves(When::Always, "NOERROR", vec![])];
        broken(&mut DnsNeverLies::of(&scenario(timeline, expect)), facts, secs(60))
    }

    fn asked(at: u64, rcode: &str, addresses: &[&str]) -> Fact {
        let began = secs(at);
        fact(began + millis(2), "west/worker", probed(0, u32::try_from(at).unwrap(), began, resolved(rcode, addresses)))
    }

    /// SERVFAIL, then complete, then the address.
    fn start() -> Vec<Fact> {
        vec![
            fact(secs(0), "east api", wrote("world", Change::Created, web_service())),
            fact(secs(0), DNS, What::Process(true)),
            asked(1, "SERVFAIL", &[]),
            fact(secs(2), DNS, What::Table { names: 0, synced: true }),
            asked(2, "NXDOMAIN", &[]),
            fact(secs(3), "west api", wrote("west/worker discovery", Change::Created, web_import(&["east"]))),
        ]
    }

    fn working() -> Vec<Fact> {
        let mut facts = start();
        facts.push(asked(5, "NOERROR", &[WEB_IP]));
        facts
    }

    fn unexport() -> Vec<Act> {
        vec![act(20, Verb::Unexport(cluster("east"), web()))]
    }

    #[test]
    fn an_honest_server_passes() {
        let mut facts = working();
        facts.push(asked(10, "NOERROR", &[]));
        facts.push(asked(22, "NOERROR", &[WEB_IP]));
        facts.push(asked(25, "NXDOMAIN", &[]));
        facts.push(fact(secs(50), DNS, What::Process(false)));
        facts.push(fact(secs(51), DNS, What::Process(true)));
        facts.push(asked(52, "SERVFAIL", &[]));
        assert_eq!(watch(unexport(), &facts), [""; 0]);
    }

    #[test]
    fn denying_a_name_that_was_answered_is_caught() {
        let mut facts = working();
        // Even after a restart, even while the API is down: before the views are complete it is SERVFAIL.
        facts.push(fact(secs(20), DNS, What::Process(true)));
        facts.push(asked(21, "NXDOMAIN", &[]));
        let down = act(19, Verb::Api(ApiRef::Cluster(cluster("west")), ApiFault::Down));
        assert_eq!(
            watch(vec![down], &facts),
            ["west was told that web.shop.svc.clusterset.local does not exist, and had its address at 5.000s"]
        );
    }

    #[test]
    fn a_name_exported_anew_may_be_denied_until_the_end_of_its_former_export_must_have_come_through() {
        let mut timeline = unexport();
        timeline.push(act(21, Verb::Export(cluster("east"), web())));
        let denied_at = |at: u64, timeline: &[Act]| {
            let mut facts = working();
            // The news of the end has not yet come.
            facts.extend([asked(22, "NOERROR", &[WEB_IP]), asked(at, "NXDOMAIN", &[])]);
            watch(timeline.to_vec(), &facts).len()
        };
        assert_eq!([23, 30, 31].map(|at| denied_at(at, &timeline)), [0, 0, 1]);
        // Nothing comes through an API that is down.
        for (at, fault) in [(25, ApiFault::Down), (40, ApiFault::Healthy)] {
            timeline.push(act(at, Verb::Api(ApiRef::Broker, fault)));
        }
        assert_eq!([31, 49, 51].map(|at| denied_at(at, &timeline)), [0, 0, 1]);
    }

    #[test]
    fn an_address_that_is_given_twice_is_caught_b58() {
        let mut facts = working();
        facts.push(asked(10, "NOERROR", &[WEB_IP, WEB_IP]));
        assert_eq!(watch(vec![], &facts), ["west was told 10.102.0.10 twice for web.shop.svc.clusterset.local"]);
    }

    #[test]
    fn a_headless_name_may_go_with_its_pods_and_must_come_back_with_them() {
        let mut headless = scenario(
            vec![act(20, Verb::Unready(cluster("east"), web())), act(40, Verb::Ready(cluster("east"), web()))],
            vec![resolves(When::Always, "NOERROR", vec![])],
        );
        let mut facts = working();
        facts.extend([asked(30, "NXDOMAIN", &[]), asked(55, "NXDOMAIN", &[])]);
        assert_eq!(broken(&mut DnsNeverLies::of(&headless), &facts, secs(60)).len(), 2);
        headless.workloads[0].headless = true;
        assert_eq!(broken(&mut DnsNeverLies::of(&headless), &facts, secs(60)).len(), 1);
    }

    #[test]
    fn that_one_exporter_was_answered_does_not_mean_that_another_is_known() {
        let north = (cluster("north"), web());
        let mut both = scenario(
            vec![act(20, Verb::Unexport(cluster("east"), web())), act(20, Verb::Export(north.0.clone(), web()))],
            vec![resolves(When::Always, "NOERROR", vec![])],
        );
        let beside = Workload { cluster: north.0.clone(), exported: false, ..both.workloads[0].clone() };
        both.workloads.push(beside);
        let mut facts = working();
        facts.extend([asked(20, "NOERROR", &[WEB_IP]), asked(25, "NXDOMAIN", &[])]);
        assert_eq!(broken(&mut DnsNeverLies::of(&both), &facts, secs(60)), [""; 0]);
    }

    #[test]
    fn who_has_left_or_just_joined_again_need_not_know_names() {
        let west = || cluster("west");
        let mut facts = working();
        facts.extend([asked(21, "NXDOMAIN", &[]), asked(31, "NXDOMAIN", &[])]);
        let again = vec![act(20, Verb::Leave(west())), act(30, Verb::Join(west()))];
        assert_eq!(watch(again, &facts), [""; 0]);
        assert_eq!(watch(vec![act(30, Verb::Leave(west()))], &facts).len(), 1);
    }

    #[test]
    fn an_address_of_before_a_cluster_was_built_anew_is_caught() {
        let east = || cluster("east");
        let mut timeline = vec![act(20, Verb::Leave(east()))];
        timeline.push(act(
            40,
            Verb::Rebuild(crate::Rebuilt {
                cluster: east(),
                pods: "10.7.0.0/16".parse().unwrap(),
                services: "10.107.0.0/16".parse().unwrap(),
            }),
        ));
        timeline.push(act(40, Verb::Join(east())));
        let Object::Service(service) = web_service() else { unreachable!() };
        let anew = Object::from(tombolo_core::model::Service {
            cluster_ips: vec!["10.107.0.10".parse().unwrap()],
            ..tombolo_core::model::Service::clone(&service)
        });
        let mut facts = working();
        facts.push(fact(secs(40), "east api", wrote("world", Change::Created, anew)));
        facts.push(asked(65, "NOERROR", &["10.107.0.10"]));
        assert_eq!(watch(timeline.clone(), &facts), [""; 0]);
        facts.push(asked(66, "NOERROR", &[WEB_IP]));
        assert_eq!(
            watch(timeline, &facts),
            ["west was told 10.102.0.10 for web.shop.svc.clusterset.local, which no exporter has"]
        );
    }

    #[test]
    fn denying_a_name_that_is_imported_is_caught() {
        let mut facts = start();
        facts.push(asked(4, "NXDOMAIN", &[]));
        assert_eq!(watch(vec![], &facts), [""; 0]);
        facts.push(asked(6, "NXDOMAIN", &[]));
        assert_eq!(
            watch(vec![], &facts),
            ["west was told that web.shop.svc.clusterset.local does not exist, and imports it since 3.000s"]
        );
    }

    #[test]
    fn an_address_that_no_exporter_has_is_caught() {
        let mut facts = working();
        facts.push(asked(10, "NOERROR", &["10.102.0.11"]));
        assert_eq!(
            watch(vec![], &facts),
            ["west was told 10.102.0.11 for web.shop.svc.clusterset.local, which no exporter has"]
        );
    }

    #[test]
    fn an_address_whose_export_is_over_is_caught_after_the_bound() {
        let mut facts = working();
        facts.push(asked(39, "NOERROR", &[WEB_IP]));
        assert_eq!(watch(unexport(), &facts), [""; 0]);
        facts.push(asked(41, "NOERROR", &[WEB_IP]));
        assert_eq!(
            watch(unexport(), &facts),
            ["west was told 10.102.0.10 for web.shop.svc.clusterset.local, whose export is over"]
        );
    }

    #[test]
    fn an_address_whose_export_ended_during_an_outage_is_forgiven_until_the_bound_after_it() {
        let mut timeline = unexport();
        timeline.insert(0, act(15, Verb::Api(ApiRef::Broker, ApiFault::Down)));
        timeline.push(act(35, Verb::Api(ApiRef::Broker, ApiFault::Healthy)));
        let mut facts = working();
        facts.extend([asked(39, "NOERROR", &[WEB_IP]), asked(54, "NOERROR", &[WEB_IP])]);
        assert_eq!(watch(timeline.clone(), &facts), [""; 0]);
        facts.push(asked(56, "NOERROR", &[WEB_IP]));
        assert_eq!(watch(timeline, &facts).len(), 1);
    }

    #[test]
    fn a_name_may_be_unknown_just_after_an_api_lost_all() {
        let emptied = vec![act(20, Verb::Api(ApiRef::Cluster(cluster("west")), ApiFault::RestartedEmpty))];
        let mut facts = working();
        facts.push(asked(25, "NXDOMAIN", &[]));
        assert_eq!(watch(emptied.clone(), &facts), [""; 0]);
        let mut invariant = DnsNeverLies::of(&scenario(emptied.clone(), vec![]));
        let excuses = crate::rehearsal::excused(&mut invariant, &facts, secs(60));
        assert_eq!(excuses, ["20.000s..30.000s: an API restarted with nothing stored less than 10s ago"]);
        facts.push(asked(31, "NXDOMAIN", &[]));
        assert_eq!(watch(emptied, &facts).len(), 1);
    }

    #[test]
    fn an_address_behind_a_lost_path_is_caught_after_its_bound() {
        let card = |on, reach| gateway(on, (on == "gw-b").then_some(1), &[("east", reach)]);
        let says = |at, on, change, reach| {
            fact(secs(at), "west api", wrote(&format!("west/{on} gateway"), change, card(on, reach)))
        };
        let mut facts = working();
        facts.push(says(6, "gw-a", Change::Created, Reach::Connected));
        facts.push(says(6, "gw-b", Change::Created, Reach::Connected));
        facts.push(says(10, "gw-a", Change::Replaced, Reach::Lost));
        facts.push(asked(18, "NOERROR", &[WEB_IP]));
        facts.push(says(20, "gw-b", Change::Replaced, Reach::Lost));
        facts.push(asked(23, "NOERROR", &[WEB_IP]));
        assert_eq!(watch(vec![], &facts), [""; 0]);
        facts.push(asked(25, "NOERROR", &[WEB_IP]));
        assert_eq!(
            watch(vec![], &facts),
            ["west was told 10.102.0.10 for web.shop.svc.clusterset.local, and its path there is lost since 20.000s"]
        );
    }

    #[test]
    fn a_card_that_a_backup_brought_back_says_nothing_of_a_lost_path() {
        let card = |reach| gateway("gw-b", Some(1), &[("east", reach)]);
        let says = |at, change, reach| fact(secs(at), "west api", wrote("west/gw-b gateway", change, card(reach)));
        let west = |at, fault| act(at, Verb::Api(ApiRef::Cluster(cluster("west")), fault));
        let timeline = || vec![west(8, ApiFault::BackedUp), west(22, ApiFault::Restored)];
        let mut facts = working();
        facts.push(says(6, Change::Created, Reach::Connected));
        facts.push(says(10, Change::Replaced, Reach::Lost));
        facts.push(asked(55, "NOERROR", &[WEB_IP]));
        assert_eq!(watch(timeline(), &facts), [""; 0]);
        assert_eq!(watch(vec![], &facts).len(), 1);
    }

    #[test]
    fn a_path_may_be_lost_unnoticed_while_no_gateway_is_active() {
        let card = gateway("gw-a", None, &[("east", Reach::Lost)]);
        let mut facts = working();
        facts.push(fact(secs(10), "west api", wrote("west/gw-a gateway", Change::Created, card)));
        facts.push(asked(25, "NOERROR", &[WEB_IP]));
        assert_eq!(watch(vec![], &facts), [""; 0]);
    }
}
