//! What the watches have shown, and what is believed of it.

use super::ABSENCE;
use super::shelf::{Kept, Shelf};
use crate::base::{ClusterId, Instant, Lasting};
use crate::model::{Api, Digest, Key, KeyRef, Kind, Object, ServiceKey, Version, WatchEvent};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// The objects of one kind in one API, as far as they are known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct View {
    /// What is believed to be there; without a version, the API does not show it.
    objects: Shelf,
    /// Keys of what was known before, and the running listing has not shown yet; `None` between listings.
    unmarked: Option<BTreeSet<Key>>,
    /// Of what the API shows, by whose it is; of kinds that a summary speaks for.
    digests: BTreeMap<Option<ClusterId>, Digest>,
    /// The running listing has shown something in the version in which it was known.
    goes_on: bool,
    synced: bool,
}

impl View {
    /// A listing begins.
    fn begin(&mut self) {
        self.unmarked = Some(self.objects.iter().map(|kept| kept.object.key()).collect());
        self.goes_on = false;
    }

    /// Puts what the API shows. True if it did not show just that.
    fn show(&mut self, key: &Key, object: Object, version: Version) -> bool {
        if let Some(unmarked) = &mut self.unmarked {
            unmarked.remove(key);
        }
        let shown = Kept { object, version: Some(version) };
        let before = self.objects.get(key.into());
        if before == Some(&shown) {
            self.goes_on = true;
            return false;
        }
        let was = before.filter(|kept| kept.version.is_some()).map(|kept| kept.object.cluster().cloned());
        let is = shown.object.cluster();
        if key.kind.is_summarised() && was.as_ref().map(Option::as_ref) != Some(is) {
            self.count_out(key, was);
            let digest = self.digests.entry(is.cloned()).or_default();
            *digest = digest.with(key);
        }
        self.objects.put(shown);
        true
    }

    /// Removes an object. True if there was one.
    fn remove(&mut self, key: &Key) -> bool {
        self.hide(key);
        self.objects.remove(key).is_some()
    }

    /// The API shows it no more. True if it did.
    fn hide(&mut self, key: &Key) -> bool {
        let kept = self.objects.get_mut(key);
        let was = kept.and_then(|kept| kept.version.take().map(|_| kept.object.cluster().cloned()));
        let hidden = was.is_some();
        self.count_out(key, was);
        hidden
    }

    fn count_out(&mut self, key: &Key, was: Option<Option<ClusterId>>) {
        if let Some(digest) = was.and_then(|whose| self.digests.get_mut(&whose)) {
            *digest = digest.without(key);
        }
    }
}

/// The view of all watched kinds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Index {
    views: BTreeMap<(Api, Kind), View>,
    /// How long the API has not shown what is believed to be there.
    absences: Lasting<(Api, Key)>,
    /// What is missing since a listing that showed nothing as it was known: the API may have lost all of it.
    lost: BTreeSet<(Api, Key)>,
}

impl Default for Index {
    fn default() -> Self {
        Self { views: BTreeMap::new(), absences: Lasting::new(ABSENCE), lost: BTreeSet::new() }
    }
}

/// What arrives.
impl Index {
    /// Takes one step of a watch and gives the keys whose objects changed, came, went, or are not shown any more.
    pub fn watched(&mut self, api: Api, event: WatchEvent, now: Instant) -> Vec<Key> {
        match event {
            WatchEvent::Began(kind) => {
                self.view_mut(api, kind).begin();
                Vec::new()
            }
            WatchEvent::Applied(object, version) => {
                let key = object.key();
                self.not_missing(api, &key);
                if self.view_mut(api, key.kind).show(&key, object, version) { Vec::from([key]) } else { Vec::new() }
            }
            WatchEvent::Deleted(key) => {
                self.not_missing(api, &key);
                if self.view_mut(api, key.kind).remove(&key) { Vec::from([key]) } else { Vec::new() }
            }
            WatchEvent::Synced(kind) => self.sweep(api, kind, now),
        }
    }

    /// What the cluster itself owns is as its listing says. What Tombolo's daemons write may come back, and is missing.
    fn sweep(&mut self, api: Api, kind: Kind, now: Instant) -> Vec<Key> {
        let view = self.view_mut(api, kind);
        view.synced = true;
        let Some(unmarked) = view.unmarked.take() else { return Vec::new() };
        let unmarked: Vec<Key> = unmarked.into_iter().filter(|key| view.objects.contains(key)).collect();
        if kind.is_the_clusters_own() {
            for key in &unmarked {
                view.remove(key);
            }
            return unmarked;
        }
        let (mut changed, goes_on) = (Vec::new(), view.goes_on);
        for key in unmarked {
            if self.view_mut(api, kind).hide(&key) {
                changed.push(key.clone());
            }
            if self.absences.note(&(api, key.clone()), now) && !goes_on {
                self.lost.insert((api, key));
            }
        }
        changed
    }

    fn not_missing(&mut self, api: Api, key: &Key) {
        let missing = (api, key.clone());
        self.absences.clear(&missing);
        self.lost.remove(&missing);
    }
}

/// What is believed to be there.
impl Index {
    /// Whether at least one listing of `kind` was complete.
    #[must_use]
    pub fn synced(&self, api: Api, kind: Kind) -> bool {
        self.views.get(&(api, kind)).is_some_and(|view| view.synced)
    }

    /// Whether a listing is running that has not shown this: it may not be there any more.
    #[must_use]
    pub fn is_in_doubt(&self, api: Api, key: &Key) -> bool {
        let unmarked = self.views.get(&(api, key.kind)).and_then(|view| view.unmarked.as_ref());
        unmarked.is_some_and(|unmarked| unmarked.contains(key))
    }

    /// Whether that is so for all `kinds`.
    #[must_use]
    pub fn all_synced(&self, api: Api, kinds: &[Kind]) -> bool {
        kinds.iter().all(|kind| self.synced(api, *kind))
    }

    /// All objects of a kind that are believed to be there, in order of their keys.
    pub fn objects(&self, api: Api, kind: Kind) -> impl Iterator<Item = (KeyRef<'_>, &Object)> {
        let kept = self.views.get(&(api, kind)).into_iter().flat_map(|view| view.objects.iter());
        kept.map(|kept| (kept.object.key_ref(), &kept.object))
    }

    /// Those of them that go by the name of `service`, whosoever's they are.
    pub fn of_service<'a>(
        &'a self,
        api: Api,
        kind: Kind,
        service: &'a ServiceKey,
    ) -> impl Iterator<Item = (KeyRef<'a>, &'a Object)> {
        let view = self.views.get(&(api, kind)).into_iter();
        let kept = view.flat_map(move |view| view.objects.from(KeyRef::of_service(kind, service)));
        let keyed = kept.map(|kept| (kept.object.key_ref(), &kept.object));
        keyed.take_while(move |(key, _)| key.is_named(service))
    }

    /// Keeps `object` in the place of one that equals it: what it shares with others is then there once.
    pub fn share(&mut self, api: Api, key: &Key, object: &Object) {
        if let Some(kept) = self.view_mut(api, key.kind).objects.get_mut(key)
            && kept.object == *object
        {
            kept.object = object.clone();
        }
    }

    /// One object that is believed to be there.
    #[must_use]
    pub fn get<'a>(&self, api: Api, key: impl Into<KeyRef<'a>>) -> Option<&Object> {
        self.kept(api, key.into()).map(|kept| &kept.object)
    }

    /// One object and its version, if the API shows it.
    #[must_use]
    pub fn shown<'a>(&self, api: Api, key: impl Into<KeyRef<'a>>) -> Option<(&Object, &Version)> {
        let Kept { object, version } = self.kept(api, key.into())?;
        version.as_ref().map(|version| (object, version))
    }

    /// Whether the API shows any object of a kind that is one of `these`.
    pub fn shows_any(&self, api: Api, kind: Kind, these: impl Fn(&Object) -> bool) -> bool {
        self.objects(api, kind).any(|(key, object)| these(object) && self.shown(api, key).is_some())
    }

    /// What `cluster` says of itself at the API, if that is shown: its object of `kind`, of which it has one, by its own
    /// name.
    #[must_use]
    pub fn word_of(&self, api: Api, kind: Kind, cluster: &ClusterId) -> Option<&Object> {
        self.shown(api, &word(kind, cluster)).map(|(object, _)| object)
    }

    /// Whether that word is believed to be there, shown or not.
    #[must_use]
    pub fn believes_word_of(&self, api: Api, kind: Kind, cluster: &ClusterId) -> bool {
        self.get(api, &word(kind, cluster)).is_some()
    }

    /// Of what the API shows and a summary of `cluster` there speaks for: at the broker that cluster's records and slices, in
    /// its own API all imports and slices.
    #[must_use]
    pub fn summarised(&self, api: Api, cluster: &ClusterId) -> Digest {
        match api {
            Api::Broker => self.digest(api, &[Kind::ExportRecord, Kind::SourceSlice], Some(cluster)),
            Api::Local => self.digest(api, &[Kind::Import, Kind::SourceSlice], None),
        }
    }

    /// Whether a summary of `cluster` is shown, no older than `newest`, and what it speaks for is there.
    #[must_use]
    pub fn summary_holds(&self, api: Api, cluster: &ClusterId, newest: u64) -> bool {
        let word = self.word_of(api, Kind::ExportSummary, cluster);
        let Some(Object::ExportSummary(word)) = word else { return false };
        word.generation >= newest && word.digest == self.summarised(api, cluster)
    }

    /// Of the keys of all objects of these kinds that the API shows; of one cluster's, if one is named.
    fn digest(&self, api: Api, kinds: &[Kind], of: Option<&ClusterId>) -> Digest {
        let views = kinds.iter().filter_map(|kind| self.views.get(&(api, *kind)));
        let all = views.flat_map(|view| &view.digests);
        let theirs = all.filter(|(whose, _)| of.is_none() || whose.as_ref() == of);
        theirs.fold(Digest::EMPTY, |sum, (_, digest)| sum.and(*digest))
    }

    fn kept(&self, api: Api, key: KeyRef<'_>) -> Option<&Kept> {
        self.views.get(&(api, key.kind()))?.objects.get(key)
    }

    fn view_mut(&mut self, api: Api, kind: Kind) -> &mut View {
        self.views.entry((api, kind)).or_default()
    }
}

/// How long it is believed without being shown.
impl Index {
    /// Believes that `object` is there, on other evidence than that the API has shown it; a complete listing that lacks
    /// it makes it missing. Nothing changes if something is believed of its key. True if something did.
    pub fn presume(&mut self, api: Api, object: &Object, now: Instant) -> bool {
        let key = object.key();
        let view = self.view_mut(api, key.kind);
        if view.objects.contains(&key) {
            return false;
        }
        view.objects.put(Kept { object: object.clone(), version: None });
        if let Some(unmarked) = &mut view.unmarked {
            unmarked.insert(key.clone());
        }
        if view.synced {
            self.absences.note(&(api, key.clone()), now);
            self.lost.insert((api, key));
        }
        true
    }

    /// Believes no more in what was presumed, or is missing. Nothing changes if the API shows it.
    pub fn forget(&mut self, api: Api, key: &Key) {
        if self.shown(api, key).is_none() {
            self.not_missing(api, key);
            self.view_mut(api, key.kind).objects.remove(key);
        }
    }

    /// Whether the API may have lost it with all the rest: the listing that first lacked it showed nothing of its kind in the
    /// version in which that was known.
    #[must_use]
    pub fn may_be_lost(&self, api: Api, key: &Key) -> bool {
        self.lost.contains(&(api, key.clone()))
    }

    /// When an absence will have lasted.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.absences.poll_timeout()
    }

    /// Believes those absences that have lasted and that `may_go` agrees to, and gives what is gone; the others are asked
    /// about again at the next call.
    pub fn believe(&mut self, now: Instant, may_go: impl Fn(&Self, Api, &Object) -> bool) -> Vec<(Api, Key)> {
        self.absences.due(now);
        let lasting = self.absences.all_lasted();
        let may_go = |(api, key): &&(Api, Key)| self.get(*api, key).is_none_or(|object| may_go(self, *api, object));
        let gone: Vec<(Api, Key)> = lasting.filter(may_go).cloned().collect();
        for (api, key) in &gone {
            self.not_missing(*api, key);
            self.view_mut(*api, key.kind).objects.remove(key);
        }
        gone
    }

    /// A cluster whose word of this `kind` is among the `touched` speaks at the API again and may bring its other objects
    /// back: their absence counts from now. At its own API, `own` has all there is.
    pub fn hear_out(&mut self, api: Api, kind: Kind, own: &ClusterId, touched: &[Key], now: Instant) {
        let speaks = |cluster: &ClusterId| touched.contains(&word(kind, cluster));
        let theirs = |key: &Key| match api {
            Api::Local => speaks(own),
            Api::Broker => self.get(api, key).and_then(Object::cluster).is_some_and(speaks),
        };
        let missing = self.absences.all().filter(|(of, key)| *of == api && theirs(key));
        let theirs: Vec<(Api, Key)> = missing.cloned().collect();
        theirs.iter().for_each(|missing| self.absences.renew(missing, now));
    }
}

/// The identity of a cluster's word.
fn word(kind: Kind, cluster: &ClusterId) -> Key {
    Key::new(kind, "", cluster.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Epoch, Label, Wall};
    use crate::model::{ClusterRecord, ServiceExport, ServiceKey};
    use alloc::vec;
    use core::time::Duration;

    const LATER: Duration = Duration::from_secs(60);

    fn record(cluster: &str, epoch: u64) -> Object {
        Object::from(ClusterRecord {
            cluster: ClusterId::new(cluster).unwrap(),
            pods: vec![],
            services: vec![],
            epoch: Epoch(epoch),
        })
    }

    fn key(cluster: &str) -> Key {
        record(cluster, 0).key()
    }

    fn gone(cluster: &str) -> (Api, Key) {
        (Api::Broker, key(cluster))
    }

    fn applied(cluster: &str, epoch: u64) -> WatchEvent {
        WatchEvent::Applied(record(cluster, epoch), Version(alloc::format!("{epoch}").as_str().into()))
    }

    fn at(time: Duration) -> Instant {
        Instant::from_origin(time)
    }

    fn watched(index: &mut Index, event: WatchEvent) -> Vec<Key> {
        index.watched(Api::Broker, event, Instant::ZERO)
    }

    fn list(index: &mut Index, clusters: &[&str]) -> Vec<Key> {
        watched(index, WatchEvent::Began(Kind::Cluster));
        for cluster in clusters {
            watched(index, applied(cluster, 1));
        }
        watched(index, WatchEvent::Synced(Kind::Cluster))
    }

    fn listed(clusters: &[&str]) -> Index {
        let mut index = Index::default();
        list(&mut index, clusters);
        index
    }

    fn known(index: &Index) -> Vec<&str> {
        index
            .objects(Api::Broker, Kind::Cluster)
            .filter_map(|(_, object)| object.cluster())
            .map(ClusterId::as_str)
            .collect()
    }

    #[test]
    fn what_vanished_during_an_outage_is_gone_once_its_absence_has_lasted_b48() {
        let mut index = listed(&["a", "b"]);
        assert_eq!(list(&mut index, &["a"]), vec![key("b")]);
        assert_eq!(index.shown(Api::Broker, &key("b")), None);
        assert_eq!(index.get(Api::Broker, &key("b")), Some(&record("b", 1)));
        assert_eq!(index.poll_timeout(), Some(at(ABSENCE)));
        assert!(index.believe(at(ABSENCE / 2), |_, _, _| true).is_empty());
        assert_eq!(index.believe(at(ABSENCE), |_, _, _| true), vec![gone("b")]);
        assert_eq!(known(&index), ["a"]);
        assert_eq!(index.poll_timeout(), None);
    }

    #[test]
    fn an_absence_lasts_on_until_it_may_be_believed() {
        let mut index = listed(&["a"]);
        list(&mut index, &[]);
        assert!(index.believe(at(LATER), |_, _, _| false).is_empty());
        assert_eq!(index.poll_timeout(), None, "nothing more comes of waiting");
        assert_eq!(known(&index), ["a"]);
        assert_eq!(index.believe(at(LATER), |_, _, object| *object == record("a", 1)), vec![gone("a")]);
    }

    #[test]
    fn another_listing_without_it_does_not_count_its_absence_anew() {
        let mut index = listed(&["a"]);
        list(&mut index, &[]);
        index.watched(Api::Broker, WatchEvent::Began(Kind::Cluster), at(ABSENCE / 2));
        let again = index.watched(Api::Broker, WatchEvent::Synced(Kind::Cluster), at(ABSENCE / 2));
        assert_eq!(again, vec![], "that is no news");
        assert_eq!(index.believe(at(ABSENCE), |_, _, _| true), vec![gone("a")]);
    }

    #[test]
    fn what_is_shown_again_or_deleted_is_not_missing() {
        let mut index = listed(&["a", "b"]);
        list(&mut index, &[]);
        assert_eq!(watched(&mut index, applied("a", 1)), vec![key("a")]);
        assert_eq!(watched(&mut index, WatchEvent::Deleted(key("b"))), vec![key("b")]);
        assert_eq!(index.poll_timeout(), None);
        assert_eq!(known(&index), ["a"]);
        assert!(index.believe(at(LATER), |_, _, _| true).is_empty());
    }

    #[test]
    fn an_absence_that_is_renewed_has_to_last_from_then_on() {
        let mut index = listed(&["a", "b"]);
        list(&mut index, &[]);
        index.believe(at(ABSENCE), |_, _, _| false);
        let own = ClusterId::new("own").unwrap();
        index.hear_out(Api::Broker, Kind::Cluster, &own, &[key("a")], at(ABSENCE));
        assert_eq!(index.believe(at(ABSENCE), |_, _, _| true), vec![gone("b")]);
        assert_eq!(index.believe(at(ABSENCE * 2), |_, _, _| true), vec![gone("a")]);
    }

    #[test]
    fn what_is_presumed_is_missing_from_the_first_complete_listing_on() {
        let mut index = Index::default();
        assert!(index.presume(Api::Broker, &record("a", 7), Instant::ZERO));
        assert!(index.presume(Api::Broker, &record("b", 7), Instant::ZERO));
        assert_eq!(index.poll_timeout(), None, "before, its absence says nothing");
        list(&mut index, &["b"]);
        assert_eq!(index.get(Api::Broker, &key("b")), Some(&record("b", 1)), "what is shown counts");
        assert!(!index.presume(Api::Broker, &record("b", 7), Instant::ZERO));
        assert_eq!(index.believe(at(ABSENCE), |_, _, _| true), vec![gone("a")]);
        assert!(index.presume(Api::Broker, &record("a", 7), at(LATER)));
        assert_eq!(index.poll_timeout(), Some(at(LATER + ABSENCE)));
    }

    #[test]
    fn what_goes_missing_while_nothing_else_is_as_it_was_may_be_lost_with_all_the_rest() {
        let mut index = listed(&["a", "b", "c"]);
        list(&mut index, &["a", "b"]);
        assert!(!index.may_be_lost(Api::Broker, &key("c")), "the API has kept the others");
        watched(&mut index, WatchEvent::Began(Kind::Cluster));
        watched(&mut index, applied("b", 2));
        watched(&mut index, WatchEvent::Synced(Kind::Cluster));
        let may_be_lost = ["a", "b", "c"].map(|name| index.may_be_lost(Api::Broker, &key(name)));
        assert_eq!(may_be_lost, [true, false, false]);
        watched(&mut index, applied("a", 1));
        assert!(!index.may_be_lost(Api::Broker, &key("a")));
    }

    #[test]
    fn what_is_presumed_and_never_shown_may_be_lost_until_it_is_forgotten() {
        let mut index = listed(&["b"]);
        index.presume(Api::Broker, &record("a", 7), Instant::ZERO);
        assert!(index.may_be_lost(Api::Broker, &key("a")));
        index.forget(Api::Broker, &key("b"));
        index.forget(Api::Broker, &key("a"));
        assert_eq!(known(&index), ["b"], "what is shown is not forgotten");
        assert_eq!((index.poll_timeout(), index.may_be_lost(Api::Broker, &key("a"))), (None, false));
    }

    #[test]
    fn what_the_cluster_owns_is_as_the_listing_says() {
        let service = ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new("web").unwrap() };
        let export = Object::from(ServiceExport::new(service, Wall::default()));
        let mut index = Index::default();
        watched(&mut index, WatchEvent::Applied(export.clone(), Version("1".into())));
        watched(&mut index, WatchEvent::Began(Kind::ServiceExport));
        assert!(index.get(Api::Broker, &export.key()).is_some(), "a view stays readable while listed anew");
        assert_eq!(watched(&mut index, WatchEvent::Synced(Kind::ServiceExport)), vec![export.key()]);
        assert_eq!(index.get(Api::Broker, &export.key()), None);
    }

    #[test]
    fn a_listing_that_breaks_off_sweeps_nothing() {
        let mut index = listed(&["a", "b"]);
        watched(&mut index, WatchEvent::Began(Kind::Cluster));
        watched(&mut index, applied("a", 1));
        assert_eq!(list(&mut index, &["b", "a"]), vec![]);
        assert_eq!(index.poll_timeout(), None);
    }

    #[test]
    fn nothing_is_synced_before_the_first_complete_listing() {
        let mut index = Index::default();
        assert!(!index.synced(Api::Broker, Kind::Cluster));
        watched(&mut index, WatchEvent::Began(Kind::Cluster));
        watched(&mut index, applied("a", 1));
        assert!(!index.synced(Api::Broker, Kind::Cluster));
        assert!(listed(&[]).synced(Api::Broker, Kind::Cluster));
    }

    #[test]
    fn only_real_changes_are_reported() {
        let mut index = listed(&["a"]);
        assert_eq!(watched(&mut index, applied("a", 1)), vec![]);
        assert_eq!(watched(&mut index, applied("a", 2)), vec![key("a")]);
        assert_eq!(watched(&mut index, WatchEvent::Deleted(key("a"))), vec![key("a")]);
        assert_eq!(watched(&mut index, WatchEvent::Deleted(key("a"))), vec![]);
    }
}
