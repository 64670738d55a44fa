//! What the watches have shown, and what is believed of it.

#[cfg(test)]
mod tests;

use super::ABSENCE;
use super::former::Former;
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
    /// What it shows instead, where that was announced in an earlier epoch than what is believed.
    earlier: BTreeMap<Key, Object>,
    /// Keys of what was known before, and the running listing has not shown yet; `None` between listings.
    unmarked: Option<BTreeSet<Key>>,
    /// Of what the API shows, by whose it is; of kinds that a summary speaks for.
    digests: BTreeMap<Option<ClusterId>, Digest>,
    /// The running listing has shown something in the version in which it was known.
    goes_on: bool,
    synced: bool,
    /// The watch broke off, and no listing has been complete since.
    lost: bool,
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
        if before.is_some_and(|before| is_later(&before.object, &shown.object)) {
            return self.show_earlier(key, shown);
        }
        let was_earlier = self.earlier.remove(key).is_some();
        if before == Some(&shown) && !was_earlier {
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

    /// What is of an earlier epoch comes out of a backup, or from one who was away for long: it is shown, and not believed.
    fn show_earlier(&mut self, key: &Key, shown: Kept) -> bool {
        let Some(believed) = self.objects.get_mut(key) else { return false };
        if believed.version == shown.version && self.earlier.get(key) == Some(&shown.object) {
            self.goes_on = true;
            return false;
        }
        believed.version = shown.version;
        self.earlier.insert(key.clone(), shown.object);
        true
    }

    /// Removes an object. True if there was one.
    fn remove(&mut self, key: &Key) -> bool {
        self.hide(key);
        self.objects.remove(key).is_some()
    }

    /// The API shows it no more. True if it did.
    fn hide(&mut self, key: &Key) -> bool {
        self.earlier.remove(key);
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
    /// The age of the newest word of each cluster. One that is older comes out of a backup, and is none.
    newest: BTreeMap<(Api, Kind, ClusterId), u64>,
    /// How things were at the broker, should a listing have shown the past.
    former: Former,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            views: BTreeMap::new(),
            absences: Lasting::new(ABSENCE),
            lost: BTreeSet::new(),
            newest: BTreeMap::new(),
            former: Former::default(),
        }
    }
}

/// What arrives.
impl Index {
    /// Takes one step of a watch and gives the keys whose objects changed, came, went, are not shown any more, or are not
    /// believed to be as they are shown.
    pub fn watched(&mut self, api: Api, event: WatchEvent, now: Instant) -> Vec<Key> {
        match (api, &event) {
            (Api::Broker, WatchEvent::Applied(object @ Object::ExportSummary(_), _)) => {
                self.former.hear(object.cluster())
            }
            (
                Api::Broker,
                WatchEvent::Deleted(Key { kind: Kind::ExportSummary, .. }) | WatchEvent::Synced(Kind::ExportSummary),
            ) => {
                self.former.hear(None);
            }
            _ => {}
        }
        match event {
            WatchEvent::Began(kind) => {
                self.view_mut(api, kind).begin();
                Vec::new()
            }
            WatchEvent::Applied(object, version) => {
                let key = object.key();
                self.not_missing(api, &key);
                self.note_word(api, &object);
                self.note_former(api, &key, &object);
                if self.view_mut(api, key.kind).show(&key, object, version) { Vec::from([key]) } else { Vec::new() }
            }
            WatchEvent::Deleted(key) => {
                self.not_missing(api, &key);
                self.newest
                    .retain(|(of, kind, cluster), _| (*of, *kind, cluster.as_str()) != (api, key.kind, &*key.name));
                self.former.remove(&key);
                if self.view_mut(api, key.kind).remove(&key) { Vec::from([key]) } else { Vec::new() }
            }
            WatchEvent::Synced(kind) => self.sweep(api, kind, now),
            WatchEvent::Lost(kind) => {
                self.view_mut(api, kind).lost = true;
                Vec::new()
            }
        }
    }

    /// What the cluster itself owns is as its listing says. What Tombolo's daemons write may come back, and is missing.
    fn sweep(&mut self, api: Api, kind: Kind, now: Instant) -> Vec<Key> {
        let view = self.view_mut(api, kind);
        (view.synced, view.lost) = (true, false);
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

    fn note_word(&mut self, api: Api, object: &Object) {
        if let Some((cluster, age)) = word_by(object) {
            let newest = self.newest.entry((api, object.kind(), cluster.clone())).or_default();
            *newest = age.max(*newest);
        }
    }

    fn note_former(&mut self, api: Api, key: &Key, object: &Object) {
        let Some(cluster) = object.cluster().filter(|_| api == Api::Broker && key.kind.is_summarised()) else { return };
        let Some(view) = self.views.get(&(api, key.kind)) else { return };
        if view.unmarked.is_none() {
            self.former.remove(key);
            return;
        }
        let before = view.objects.get(key.into()).map(|kept| &kept.object);
        // Who never says a word is not waited for.
        let speaks = self.newest_word_of(api, Kind::ExportSummary, cluster).is_some();
        if view.synced && before != Some(object) && speaks {
            self.former.keep(key, cluster, before, object);
        }
    }

    fn not_missing(&mut self, api: Api, key: &Key) {
        let missing = (api, key.clone());
        self.absences.clear(&missing);
        self.lost.remove(&missing);
    }
}

/// What is believed to be there.
impl Index {
    /// Whether what is shown of these `kinds` is all there is now, as far as can be known: no watch of them is broken off.
    #[must_use]
    pub fn follows(&self, api: Api, kinds: &[Kind]) -> bool {
        let follows = |kind: &Kind| self.views.get(&(api, *kind)).is_some_and(|view| view.synced && !view.lost);
        kinds.iter().all(follows)
    }

    /// Whether what a watch of `kind` shows now has just happened, and is not part of a listing.
    #[must_use]
    pub fn is_live(&self, api: Api, kind: Kind) -> bool {
        let view = self.views.get(&(api, kind));
        view.is_some_and(|view| view.synced && !view.lost && view.unmarked.is_none())
    }

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

    /// What is believed of those of them that are at the broker: where a listing shows something else than there was, that
    /// which was, until the word of its cluster was read.
    pub fn believed_of_service<'a>(&'a self, kind: Kind, service: &'a ServiceKey) -> impl Iterator<Item = &'a Object> {
        let is_replaced = |key| !self.former.is_empty() && self.former.has(&Key::from(key));
        let shown = self.of_service(Api::Broker, kind, service).filter(move |(key, _)| !is_replaced(*key));
        shown.map(|(_, object)| object).chain(self.former.of_service(kind, service))
    }

    /// Whose [`ExportSummary`] at the broker is to be read, since a listing showed something else of theirs than there was. Each
    /// is given once, until it was [answered](Self::answered) or not.
    ///
    /// [`ExportSummary`]: crate::model::ExportSummary
    pub fn take_unheard(&mut self) -> Vec<ClusterId> {
        self.former.take_open()
    }

    /// What was read. Gives the keys of what is believed from now on.
    pub fn answered(&mut self, cluster: &ClusterId, word: Option<&Object>) -> Vec<Key> {
        let age = word.and_then(word_by).map(|(_, age)| age);
        let newest = self.newest_word_of(Api::Broker, Kind::ExportSummary, cluster);
        if age.is_some() && age < newest {
            self.former.deny(cluster);
            return Vec::new();
        }
        self.former.confirm(cluster)
    }

    /// It could not be read.
    pub fn unanswered(&mut self, cluster: &ClusterId) {
        self.former.unanswered(cluster);
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
        let key = key.into();
        let Kept { object, version } = self.kept(api, key)?;
        let earlier = &self.views.get(&(api, key.kind()))?.earlier;
        let earlier = if earlier.is_empty() { None } else { earlier.get(&Key::from(key)) };
        version.as_ref().map(|version| (earlier.unwrap_or(object), version))
    }

    /// Whether the API shows any object of a kind that is one of `these`.
    pub fn shows_any(&self, api: Api, kind: Kind, these: impl Fn(&Object) -> bool) -> bool {
        self.objects(api, kind).any(|(key, object)| these(object) && self.shown(api, key).is_some())
    }

    /// What `cluster` says of itself at the API, if that is shown: its object of `kind`, of which it has one, by its own
    /// name. An older one than was seen before says what was once, and is none.
    #[must_use]
    pub fn word_of(&self, api: Api, kind: Kind, cluster: &ClusterId) -> Option<&Object> {
        let (object, _) = self.shown(api, &word(kind, cluster))?;
        (word_by(object).map(|(_, age)| age) >= self.newest_word_of(api, kind, cluster)).then_some(object)
    }

    /// The age of the newest word that was seen: an epoch, or a summary's generation.
    #[must_use]
    pub fn newest_word_of(&self, api: Api, kind: Kind, cluster: &ClusterId) -> Option<u64> {
        self.newest.get(&(api, kind, cluster.clone())).copied()
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

    /// Whether a summary of `cluster` is shown, none older than before, and what it speaks for is there.
    #[must_use]
    pub fn summary_holds(&self, api: Api, cluster: &ClusterId) -> bool {
        let word = self.word_of(api, Kind::ExportSummary, cluster);
        matches!(word, Some(Object::ExportSummary(word)) if word.digest == self.summarised(api, cluster))
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
    /// it makes it missing. Nothing changes if something is believed of its key, unless that is of an earlier epoch. True if
    /// something did.
    pub fn presume(&mut self, api: Api, object: &Object, now: Instant) -> bool {
        let key = object.key();
        self.note_word(api, object);
        let view = self.view_mut(api, key.kind);
        if let Some(believed) = view.objects.get_mut(&key) {
            let is_news = is_later(object, &believed.object);
            if is_news {
                let shown = core::mem::replace(&mut believed.object, object.clone());
                if believed.version.is_some() {
                    view.earlier.entry(key).or_insert(shown);
                }
            }
            return is_news;
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
            self.former.remove(key);
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

/// Whether `one` was announced in a later epoch than the other.
fn is_later(one: &Object, than: &Object) -> bool {
    let epoch = |object: &Object| object.announced().map(|(_, epoch)| epoch);
    epoch(than).is_some() && epoch(one) > epoch(than)
}

/// Whose word `object` is, and of what age: if it is one.
fn word_by(object: &Object) -> Option<(&ClusterId, u64)> {
    if let Object::Cluster(record) = object {
        return Some((&record.cluster, record.epoch.0));
    }
    let Object::ExportSummary(summary) = object else { return None };
    Some((&summary.cluster, summary.generation))
}

/// The identity of a cluster's word.
fn word(kind: Kind, cluster: &ClusterId) -> Key {
    Key::new(kind, "", cluster.as_str())
}
