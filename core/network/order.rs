//! Puts the moves of a plan in an order that is safe after each of them; see [`plan`](super::plan).

use super::leans::{RANK_TOP, leans_on, rank};
use super::plan::Action;
use super::{Allowance, AllowanceId, Entry, Item, Link, LinkKind, LinkName, Neighbour, Network, Peer, PeerId};
use super::{Route, RouteId, Rule, Translation, TranslationId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem::discriminant;
use core::net::IpAddr;

/// A plan in the making: what differs, and what is made anew (removed and added again).
pub(super) struct Draft<'a> {
    desired: &'a Network,
    observed: &'a Network,
    differing: BTreeMap<Item, Action>,
    anew: BTreeMap<Item, (Entry, Entry)>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(desired: &'a Network, observed: &'a Network) -> Self {
        let differing = differences(desired, observed);
        let mut draft = Self { desired, observed, differing, anew: BTreeMap::new() };
        for (item, action) in &draft.differing {
            if let Action::Change { from, to } = action
                && !changes_in_place(from, to)
            {
                draft.anew.insert(item.clone(), (from.clone(), to.clone()));
            }
        }
        draft.spread_anew();
        draft
    }

    /// All moves in a safe order. Makes changed items anew until there is one.
    pub(super) fn ordered(mut self) -> Vec<Action> {
        if self.differing.is_empty() {
            return Vec::new();
        }
        let mut gently = true;
        loop {
            let mut moves = Moves::new(&self);
            moves.keep_apart(&self);
            if gently {
                moves.keep_a_hold(&self);
            }
            let (sorted, stuck) = moves.sorted();
            if stuck.is_empty() {
                return sorted;
            }
            let changes = stuck.into_iter().filter_map(|action| match action {
                Action::Change { from, to } => Some((from, to)),
                Action::Add(_) | Action::Remove(_) => None,
            });
            match changes.max_by_key(|(_, to)| rank(to)) {
                Some((from, to)) => {
                    self.anew.insert(to.item(), (from, to));
                    self.spread_anew();
                }
                // Leaning has no rings within one network, so nothing sticks twice without a change in place.
                None => gently = false,
            }
        }
    }

    /// Whatever leans, before and after, on something that is made anew is made anew too.
    fn spread_anew(&mut self) {
        if self.anew.is_empty() {
            return;
        }
        let mut staying: Vec<_> = self
            .desired
            .entries()
            .filter_map(|new| Some((self.observed.entry(&new.item())?, new)))
            .filter(|(_, new)| !self.anew.contains_key(&new.item()))
            .collect();
        loop {
            let shaken = |items: Vec<Item>| items.iter().any(|item| self.anew.contains_key(item));
            let (hit, rest): (Vec<_>, Vec<_>) = staying
                .into_iter()
                .partition(|(old, new)| shaken(leans_on(old, self.observed)) && shaken(leans_on(new, self.desired)));
            if hit.is_empty() {
                return;
            }
            self.anew.extend(hit.into_iter().map(|(old, new)| (new.item(), (old, new))));
            staying = rest;
        }
    }
}

/// The kernel replaces anything at once, but it keeps a link's type and what is fixed at its creation.
fn changes_in_place(from: &Entry, to: &Entry) -> bool {
    let (Entry::Link(_, Link { kind: from, .. }), Entry::Link(_, Link { kind: to, .. })) = (from, to) else {
        return true;
    };
    match (from, to) {
        (LinkKind::Overlay { vni, port, .. }, LinkKind::Overlay { vni: other, port: other_port, .. }) => {
            vni == other && port == other_port
        }
        (LinkKind::Cable { driver, .. }, LinkKind::Cable { driver: other, .. }) => driver == other,
        (LinkKind::Uplink, LinkKind::Uplink) | (LinkKind::Pods, LinkKind::Pods) => true,
        (LinkKind::Overlay { .. } | LinkKind::Cable { .. } | LinkKind::Uplink | LinkKind::Pods, _) => false,
    }
}

/// The moves, and which of them must come before which.
struct Moves {
    actions: Vec<Action>,
    /// By item, the move that gives it its new value.
    puts: BTreeMap<Item, usize>,
    /// By item, the move that ends its old value.
    takes: BTreeMap<Item, usize>,
    after: BTreeSet<(usize, usize)>,
}

impl Moves {
    fn new(draft: &Draft<'_>) -> Self {
        let mut moves =
            Self { actions: Vec::new(), puts: BTreeMap::new(), takes: BTreeMap::new(), after: BTreeSet::new() };
        for action in draft.differing.iter().filter(|(item, _)| !draft.anew.contains_key(*item)).map(|(_, a)| a) {
            moves.push(action.clone());
        }
        for (from, to) in draft.anew.values() {
            let take = moves.push(Action::Remove(from.clone()));
            let put = moves.push(Action::Add(to.clone()));
            moves.after.insert((take, put));
        }
        moves
    }

    fn push(&mut self, action: Action) -> usize {
        let at = self.actions.len();
        if let Action::Add(entry) | Action::Change { to: entry, .. } = &action {
            self.puts.insert(entry.item(), at);
        }
        if let Action::Remove(entry) | Action::Change { from: entry, .. } = &action {
            self.takes.insert(entry.item(), at);
        }
        self.actions.push(action);
        at
    }

    /// A new value comes after what it leans on has come, and an old value goes before what it leans on goes; a change
    /// in place of what serves either way is no hindrance.
    fn keep_apart(&mut self, draft: &Draft<'_>) {
        for (at, action) in self.actions.iter().enumerate() {
            let (old, new) = match action {
                Action::Add(new) => (None, Some(new)),
                Action::Change { from, to } => (Some(from), Some(to)),
                Action::Remove(old) => (Some(old), None),
            };
            let served = |entry, other: &Network, mover: usize, item: &Item| {
                matches!(self.actions.get(mover), Some(Action::Change { .. })) && leans_on(entry, other).contains(item)
            };
            if let Some(new) = new {
                let leans = leans_on(new, draft.desired);
                let movers = leans.iter().filter_map(|item| Some((*self.puts.get(item)?, item)));
                let before = movers.filter(|(mover, item)| !served(new, draft.observed, *mover, item));
                self.after.extend(before.map(|(mover, _)| (mover, at)));
            }
            if let Some(old) = old {
                let leant = leans_on(old, draft.observed);
                let movers = leant.iter().filter_map(|item| Some((*self.takes.get(item)?, item)));
                let behind = movers.filter(|(mover, item)| !served(old, draft.desired, *mover, item));
                self.after.extend(behind.map(|(mover, _)| (at, mover)));
            }
        }
    }

    /// What stays while what it leans on is replaced by another of its kind: the other comes first.
    fn keep_a_hold(&mut self, draft: &Draft<'_>) {
        let leant_on = |at: &usize| self.actions.get(*at).is_some_and(|action| rank(action.entry()) < RANK_TOP);
        if !self.takes.values().any(leant_on) {
            return;
        }
        for entry in draft.desired.entries() {
            let item = entry.item();
            if self.puts.contains_key(&item) {
                continue;
            }
            let leant = leans_on(&entry, draft.observed);
            let leans = leans_on(&entry, draft.desired);
            let gone = leant.iter().filter(|item| !leans.contains(item));
            for (old, take) in gone.filter_map(|item| Some((item, *self.takes.get(item)?))) {
                let fresh =
                    leans.iter().filter(|item| !leant.contains(item) && discriminant(*item) == discriminant(old));
                let puts = fresh.filter_map(|item| self.puts.get(item));
                self.after.extend(puts.map(|put| (*put, take)));
            }
        }
    }

    /// The moves in order, and those that wait for each other in a ring.
    fn sorted(self) -> (Vec<Action>, Vec<Action>) {
        let mut waits = alloc::vec![0usize; self.actions.len()];
        let mut behind = BTreeMap::<usize, Vec<usize>>::new();
        for (first, then) in &self.after {
            behind.entry(*first).or_default().push(*then);
            waits[*then] += 1;
        }
        let priorities: Vec<_> = self.actions.iter().map(priority).collect();
        let free = (0..waits.len()).filter(|at| waits[*at] == 0);
        let mut ready: BTreeSet<_> = free.map(|at| (&priorities[at], at)).collect();
        let mut actions: Vec<_> = self.actions.into_iter().map(Some).collect();
        let mut sorted = Vec::with_capacity(actions.len());
        while let Some((_, at)) = ready.pop_first() {
            sorted.extend(actions[at].take());
            for then in behind.remove(&at).unwrap_or_default() {
                waits[then] -= 1;
                if waits[then] == 0 {
                    ready.insert((&priorities[then], then));
                }
            }
        }
        (sorted, actions.into_iter().flatten().collect())
    }
}

/// The order where nothing decides: what comes, from the ground up; then what goes, from the top down.
fn priority(action: &Action) -> (u8, u8, Item) {
    match action {
        Action::Add(entry) | Action::Change { to: entry, .. } => (0, rank(entry), entry.item()),
        Action::Remove(entry) => (1, u8::MAX - rank(entry), entry.item()),
    }
}

fn differences(desired: &Network, observed: &Network) -> BTreeMap<Item, Action> {
    let mut found = Vec::new();
    differ(&desired.links, &observed.links, &mut found, |k: &LinkName, v: &Link| Entry::Link(k.clone(), v.clone()));
    differ(&desired.addresses, &observed.addresses, &mut found, |(link, address): &(LinkName, IpAddr), v: &u8| {
        Entry::Address(link.clone(), *address, *v)
    });
    differ(
        &desired.neighbours,
        &observed.neighbours,
        &mut found,
        |(link, address): &(LinkName, IpAddr), v: &Neighbour| Entry::Neighbour(link.clone(), *address, v.clone()),
    );
    differ(&desired.routes, &observed.routes, &mut found, |k: &RouteId, v: &Route| Entry::Route(*k, v.clone()));
    differ(&desired.rules, &observed.rules, &mut found, |k: &u32, v: &Rule| Entry::Rule(*k, v.clone()));
    differ(&desired.translations, &observed.translations, &mut found, |k: &TranslationId, v: &Translation| {
        Entry::Translation(k.clone(), v.clone())
    });
    differ(&desired.filters, &observed.filters, &mut found, |k: &AllowanceId, v: &Allowance| {
        Entry::Filter(k.clone(), v.clone())
    });
    differ(&desired.peers, &observed.peers, &mut found, |k: &PeerId, v: &Peer| Entry::Peer(k.clone(), v.clone()));
    differ(&desired.sysctls, &observed.sysctls, &mut found, |k: &String, v: &String| {
        Entry::Sysctl(k.clone(), v.clone())
    });
    found.into_iter().collect()
}

fn differ<K: Ord, V: PartialEq>(
    desired: &BTreeMap<K, V>,
    observed: &BTreeMap<K, V>,
    found: &mut Vec<(Item, Action)>,
    entry: impl Fn(&K, &V) -> Entry,
) {
    let mut note = |action: Action, item: Item| found.push((item, action));
    for (key, new) in desired {
        let to = || entry(key, new);
        match observed.get(key) {
            Some(old) if old == new => {}
            Some(old) => note(Action::Change { from: entry(key, old), to: to() }, to().item()),
            None => note(Action::Add(to()), to().item()),
        }
    }
    for (key, old) in observed.iter().filter(|(key, _)| !desired.contains_key(*key)) {
        note(Action::Remove(entry(key, old)), entry(key, old).item());
    }
}
