//! The steps of a plan, carried out in order.
//!
//! Steps of nft that stand together become one transaction, made before the next step of another kind begins. In our
//! table some lines follow from routes and rules (which transit is not tracked): while a plan is carried out they cover
//! what was and what will be, so that no packet of a new route meets the table of the old ones.
//!
//! A step that fails holds up those that need it, and no other: the way to one cluster is not the way to another.

use crate::alias::Alias;
use crate::error::{Error, Fault, unless};
use crate::links::{self, Links, There};
use crate::node::{Node, Observed, step};
use crate::notes::Notes;
use crate::{addresses, neighbours, routes, rules, sysctls};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use nix::errno::Errno;
use std::mem::discriminant;
use std::net::IpAddr;
use tombolo_core::network::{
    Action, Entry, Link, LinkKind, LinkName, Neighbour, Network, Plan, Route, RouteId, Rule, Step, leans_on,
};

const ADD: u16 = NLM_F_CREATE | NLM_F_EXCL;
const PUT: u16 = NLM_F_CREATE | NLM_F_REPLACE;

/// A plan that is being carried out.
pub(crate) struct Work<'a> {
    node: &'a mut Node,
    links: Links,
    notes: Notes,
    before: Network,
    /// As it is now.
    now: Network,
    /// As it will be.
    after: Network,
    /// Steps that failed, and those that were not taken for it.
    missed: Vec<Action>,
}

/// What came of a plan.
pub(crate) struct Outcome {
    /// How many steps were taken.
    pub(crate) done: usize,
    /// The first that failed.
    pub(crate) error: Option<Error>,
}

impl<'a> Work<'a> {
    pub(crate) fn new(node: &'a mut Node, observed: Observed, plan: &Plan) -> Self {
        let Observed { network: before, links, notes, .. } = observed;
        let (now, mut after) = (before.clone(), before.clone());
        plan.apply(&mut after);
        Self { node, links, notes, before, now, after, missed: Vec::new() }
    }

    pub(crate) fn carry_out(mut self, plan: &Plan) -> Outcome {
        let (mut done, mut error) = (0, None);
        if let Err(failed) = self.walk(plan, &mut done, &mut error) {
            error = Some(failed);
        }
        Outcome { done, error }
    }

    /// Fails where our table does: without it, no other step is safe.
    fn walk(&mut self, plan: &Plan, done: &mut usize, error: &mut Option<Error>) -> Result<(), Error> {
        let table = |fault| step("our nft table", fault);
        self.take_notes(plan)?;
        self.node.outlive(&self.before, &self.after);
        let mut written = false;
        let mut meanwhile = self.after.clone().over(&self.before);
        for (number, one) in plan.steps().iter().enumerate() {
            if self.is_held_up(&one.action) {
                self.missed.push(one.action.clone());
                continue;
            }
            if is_nft(one) {
                written = false;
            } else {
                if !written {
                    meanwhile.translations.clone_from(&self.now.translations);
                    meanwhile.filters.clone_from(&self.now.filters);
                    self.node.write(&meanwhile, &self.notes).map_err(table)?;
                    written = true;
                }
                if let Err(fault) = self.step(&one.action) {
                    let words = plan.lines().into_iter().nth(number).unwrap_or_default();
                    error.get_or_insert(step(&words, fault));
                    self.missed.push(one.action.clone());
                    continue;
                }
            }
            one.apply(&mut self.now);
            *done += 1;
        }
        self.node.write(&self.now, &self.notes).map_err(table)?;
        self.node.delete_orphans(&self.before, &self.now).map_err(|fault| step("orphaned flows", fault))
    }

    /// Whether a step needs one that was missed: what it adds leans on what did not come; what it takes away is leant on
    /// by what did not go, or something of its kind did not come in its stead.
    fn is_held_up(&self, action: &Action) -> bool {
        let (old, new) = halves(action);
        self.missed.iter().any(|missed| {
            let (missed_old, missed_new) = halves(missed);
            let item = missed.entry().item();
            let lacks = new.is_some_and(|new| leans_on(new, &self.after).contains(&item));
            let serves = old.is_some_and(|old| {
                let leant_on = |missed: &Entry| leans_on(missed, &self.before).contains(&old.item());
                missed_old.is_some_and(leant_on)
            });
            let replaced = new.is_none()
                && missed_new
                    .is_some_and(|missed| discriminant(&missed.item()) == discriminant(&action.entry().item()));
            item == action.entry().item() || lacks || serves || replaced
        })
    }

    /// What parameters were, before any of them is changed.
    fn take_notes(&mut self, plan: &Plan) -> Result<(), Error> {
        for one in plan.steps() {
            if let Action::Add(Entry::Sysctl(key, _)) = &one.action {
                let value = sysctls::read(key).map_err(|fault| step("kernel parameters", fault))?;
                self.notes.take_down(key, || value);
            }
        }
        Ok(())
    }

    fn step(&mut self, action: &Action) -> Result<(), Fault> {
        match action {
            Action::Add(entry) => self.add(entry),
            Action::Change { from, to } => self.change(from, to),
            Action::Remove(entry) => self.remove(entry),
        }
    }

    fn add(&mut self, entry: &Entry) -> Result<(), Fault> {
        match entry {
            Entry::Link(name, link) => self.add_link(name, link),
            Entry::Address(link, address, length) => self.add_address(link, *address, *length),
            Entry::Neighbour(link, address, neighbour) => self.put_neighbour(link, *address, neighbour),
            Entry::Route(id, route) => {
                let flags = if routes::owned(id.table) { PUT } else { ADD };
                self.put_route(*id, route, flags)
            }
            Entry::Rule(priority, rule) => self.add_rule(*priority, rule),
            Entry::Peer(id, peer) => self.node.cables.put_peer(id, peer).map_err(Fault::Cable),
            Entry::Sysctl(key, value) => sysctls::write(key, value),
            Entry::Translation(..) | Entry::Filter(..) => Ok(()),
        }
    }

    fn change(&mut self, from: &Entry, to: &Entry) -> Result<(), Fault> {
        match (from, to) {
            (_, Entry::Link(name, link)) => self.change_link(name, link),
            (Entry::Address(_, _, old), Entry::Address(link, address, new)) => {
                // IPv6 has an address once, whatever its prefix.
                if address.is_ipv6() {
                    self.remove_address(link, *address, *old)?;
                    return self.add_address(link, *address, *new);
                }
                self.add_address(link, *address, *new)?;
                self.remove_address(link, *address, *old)
            }
            (Entry::Neighbour(_, _, old), Entry::Neighbour(link, address, new)) => {
                self.put_neighbour(link, *address, new)?;
                if old.mac == new.mac { Ok(()) } else { self.forget_mac(link, *address, old) }
            }
            (_, Entry::Route(id, route)) => self.put_route(*id, route, PUT),
            (Entry::Rule(_, old), Entry::Rule(priority, new)) => {
                self.add_rule(*priority, new)?;
                self.remove_rule(*priority, old)
            }
            (_, entry) => self.add(entry),
        }
    }

    fn remove(&mut self, entry: &Entry) -> Result<(), Fault> {
        match entry {
            Entry::Link(name, link) => self.remove_link(name, link),
            Entry::Address(link, address, length) => self.remove_address(link, *address, *length),
            Entry::Neighbour(link, address, neighbour) => {
                let Some(index) = self.links.get(link).map(|there| there.index) else { return Ok(()) };
                removed(self.node.route.request(neighbours::remove(index, *address), 0))?;
                self.forget_mac(link, *address, neighbour)
            }
            Entry::Route(id, _) => removed(self.node.route.request(routes::remove(*id), 0)),
            Entry::Rule(priority, rule) => self.remove_rule(*priority, rule),
            Entry::Peer(id, _) => self.node.cables.remove_peer(id).map_err(Fault::Cable),
            Entry::Sysctl(key, _) => match self.notes.strike(key) {
                Some(was) if sysctls::read(key)?.is_some() => sysctls::write(key, &was),
                Some(_) | None => Ok(()),
            },
            Entry::Translation(..) | Entry::Filter(..) => Ok(()),
        }
    }

    fn add_link(&mut self, name: &LinkName, link: &Link) -> Result<(), Fault> {
        match self.links.get(name).cloned() {
            Some(there) if there.ours && there.link.as_ref().is_some_and(|old| same_device(&old.kind, &link.kind)) => {
                self.change_link(name, link)
            }
            Some(There { ours, bare_vxlan, .. })
                if ours || bare_vxlan && is_overlay(&link.kind) || self.node.cables.made(name) =>
            {
                self.remove_link(name, link)?;
                self.make_link(name, link)
            }
            Some(_) => Err(Fault::NameTaken(name.clone())),
            None => self.make_link(name, link),
        }
    }

    fn make_link(&mut self, name: &LinkName, link: &Link) -> Result<(), Fault> {
        match links::make_overlay(name, link) {
            Some(message) => self.node.route.request(message, ADD)?,
            None => self.node.cables.make(name, link).map_err(Fault::Cable)?,
        }
        self.look_again()?;
        self.shape(name, link)
    }

    fn change_link(&mut self, name: &LinkName, link: &Link) -> Result<(), Fault> {
        let Some(There { index, link: Some(old), .. }) = self.links.get(name).cloned() else {
            return Err(Fault::NoLink(name.clone()));
        };
        if !same_device(&old.kind, &link.kind) {
            self.remove_link(name, link)?;
            return self.make_link(name, link);
        }
        match (&old.kind, &link.kind) {
            (LinkKind::Overlay { local: old, .. }, LinkKind::Overlay { local, .. }) if old != local => {
                self.node.route.request(links::rehome(index, *local), 0)?;
            }
            (LinkKind::Cable { .. }, LinkKind::Cable { .. }) if old.kind != link.kind => {
                self.node.cables.change(name, link).map_err(Fault::Cable)?;
            }
            (_, _) => {}
        }
        self.shape(name, link)
    }

    /// Claims a link, gives it its MTU and MAC, and puts it up.
    fn shape(&mut self, name: &LinkName, link: &Link) -> Result<(), Fault> {
        let index = self.links.index(name)?;
        let alias = Alias::of(&link.kind).ok_or(Fault::Unfit("a link of this kind is never ours"))?;
        for message in [links::claim(index, &alias), links::reshape(index, link), links::raise(index)] {
            self.node.route.request(message, 0)?;
        }
        self.look_again()
    }

    fn remove_link(&mut self, name: &LinkName, link: &Link) -> Result<(), Fault> {
        let Some(there) = self.links.get(name).cloned() else { return Ok(()) };
        let is_cable = |kind: &LinkKind| matches!(kind, LinkKind::Cable { .. });
        if is_cable(there.link.as_ref().map_or(&link.kind, |old| &old.kind)) {
            self.node.cables.remove(name).map_err(Fault::Cable)?;
        } else {
            removed(self.node.route.request(links::remove(there.index), 0))?;
        }
        self.links.note(name.clone(), None);
        Ok(())
    }

    fn look_again(&mut self) -> Result<(), Fault> {
        self.links = self.node.links().map_err(|error| match error {
            Error::Unseen { fault, .. } | Error::Step { fault, .. } => fault,
            Error::Open { .. } | Error::Unsettled { .. } => Fault::Unfit("links cannot be listed"),
        })?;
        Ok(())
    }

    fn add_address(&mut self, link: &LinkName, address: IpAddr, length: u8) -> Result<(), Fault> {
        let message = addresses::add(self.links.index(link)?, address, length);
        unless(self.node.route.request(message, ADD), &[Errno::EEXIST])
    }

    fn remove_address(&mut self, link: &LinkName, address: IpAddr, length: u8) -> Result<(), Fault> {
        let Some(there) = self.links.get(link) else { return Ok(()) };
        removed(self.node.route.request(addresses::remove(there.index, address, length), 0))
    }

    /// The MAC's place first: a neighbour without it would send to nowhere.
    fn put_neighbour(&mut self, link: &LinkName, address: IpAddr, neighbour: &Neighbour) -> Result<(), Fault> {
        let index = self.links.index(link)?;
        self.node.route.request(neighbours::place_mac(index, neighbour.mac, neighbour.outer), PUT)?;
        self.node.route.request(neighbours::put(index, address, neighbour.mac), PUT)
    }

    /// Forgets where the MAC of what was a neighbour is, unless another has it too.
    fn forget_mac(&mut self, link: &LinkName, address: IpAddr, old: &Neighbour) -> Result<(), Fault> {
        let Some(there) = self.links.get(link) else { return Ok(()) };
        let mut others = self.now.neighbours.iter().filter(|((on, other), _)| on == link && *other != address);
        if others.any(|(_, other)| other.mac == old.mac) {
            return Ok(());
        }
        removed(self.node.route.request(neighbours::forget_mac(there.index, old.mac, old.outer), 0))
    }

    fn put_route(&mut self, id: RouteId, route: &Route, flags: u16) -> Result<(), Fault> {
        let message = routes::put(id, route, &self.links)?;
        self.node.route.request(message, flags)
    }

    fn add_rule(&mut self, priority: u32, rule: &Rule) -> Result<(), Fault> {
        let mut messages = rules::add(priority, rule).into_iter();
        messages.try_for_each(|message| unless(self.node.route.request(message, ADD), &[Errno::EEXIST]))
    }

    fn remove_rule(&mut self, priority: u32, rule: &Rule) -> Result<(), Fault> {
        let mut messages = rules::remove(priority, rule).into_iter();
        messages.try_for_each(|message| removed(self.node.route.request(message, 0)))
    }
}

/// What a step ends, and what it begins.
const fn halves(action: &Action) -> (Option<&Entry>, Option<&Entry>) {
    match action {
        Action::Add(new) => (None, Some(new)),
        Action::Change { from, to } => (Some(from), Some(to)),
        Action::Remove(old) => (Some(old), None),
    }
}

fn is_nft(step: &Step) -> bool {
    matches!(step.action.entry(), Entry::Translation(..) | Entry::Filter(..))
}

const fn is_overlay(kind: &LinkKind) -> bool {
    matches!(kind, LinkKind::Overlay { .. })
}

/// Whether the kernel can make the one of the other.
fn same_device(old: &LinkKind, new: &LinkKind) -> bool {
    match (old, new) {
        (
            LinkKind::Overlay { vni, port, local, .. },
            LinkKind::Overlay { vni: new_vni, port: new_port, local: new_local, .. },
        ) => vni == new_vni && port == new_port && local.is_ipv4() == new_local.is_ipv4(),
        (LinkKind::Cable { driver, .. }, LinkKind::Cable { driver: new_driver, .. }) => driver == new_driver,
        (LinkKind::Overlay { .. } | LinkKind::Cable { .. } | LinkKind::Uplink | LinkKind::Pods, _) => false,
    }
}

/// What is gone already is removed: a link takes along what is on it.
pub(crate) fn removed(result: Result<(), Fault>) -> Result<(), Fault> {
    unless(result, &[Errno::ENOENT, Errno::ESRCH, Errno::ENODEV, Errno::EADDRNOTAVAIL])
}
