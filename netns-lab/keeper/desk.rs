//! What may be asked of a lab, and is carried out on it.

use super::{Reply, Request, Site, Whereabouts};
use crate::lab::Lab;
use crate::topology::{PlaceName, Topology, doors, nat, services_script};
use anyhow::{Context as _, Result, anyhow, bail};
use nix::fcntl::readlinkat;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tombolo_core::base::ClusterId;
use tombolo_scenarios::Scenario;
use tombolo_scenarios::ground::Door;
use tombolo_scenarios::layout::{HostId, Layout};

/// All that requests are about.
pub(crate) struct Desk {
    lab: Lab,
    layout: Arc<Layout>,
    outer: OwnedFd,
    unready: BTreeSet<IpAddr>,
}

impl Desk {
    /// Of a lab that has come up; its services work. `outer` is `/proc` as those see it who are not in the lab.
    pub(super) fn of(lab: Lab, layout: Arc<Layout>, outer: OwnedFd) -> Result<Self> {
        let desk = Self { lab, layout, outer, unready: BTreeSet::new() };
        desk.layout.clusters().try_for_each(|cluster| desk.put_all_services(cluster))?;
        Ok(desk)
    }

    pub(crate) const fn lab(&self) -> &Lab {
        &self.lab
    }

    pub(crate) const fn lab_mut(&mut self) -> &mut Lab {
        &mut self.lab
    }

    /// Who is where.
    pub(crate) fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout)
    }

    /// Who is where from now on: of nodes without power, which boot with that.
    pub(crate) fn set_layout(&mut self, scenario: &Scenario, layout: Arc<Layout>) {
        self.lab.topology = Topology::of(scenario, &layout);
        self.layout = layout;
    }

    pub(super) fn answer(&mut self, request: Request) -> Result<Reply> {
        match request {
            Request::Places => {
                let places = self.lab.places.keys().map(|name| self.whereabouts(name));
                return Ok(Reply::Places(places.collect::<Result<_>>()?));
            }
            Request::Links => return Ok(Reply::Links(self.links())),
            Request::SetLink { from, to, quality } => {
                let (relay, way) = self.way(&from, &to)?;
                self.lab.relays.get(relay).context("no such link")?.set(way, quality);
            }
            Request::Cut { from, to, closed } => {
                let way = (self.host(&from)?, self.host(&to)?);
                self.lab.set_open(&[way], !closed)?;
            }
            Request::Remap { router } => return self.set_nat(&router, |state| state.remaps += 1),
            Request::Move { router } => {
                return self.set_nat(&router, |state| state.moves = state.moves.wrapping_add(1));
            }
            Request::Ready { pod, ready } => self.set_ready(&pod, ready)?,
        }
        Ok(Reply::Done)
    }

    fn set_nat(&mut self, router: &str, change: impl FnOnce(&mut nat::State)) -> Result<Reply> {
        let at = self.lab.topology.find(router).ok_or_else(|| anyhow!("there is no {router}"))?.clone();
        Ok(Reply::Outside(self.lab.set_nat(&at, change)?))
    }

    fn whereabouts(&self, name: &PlaceName) -> Result<Whereabouts> {
        let outer = self.outer.try_clone()?;
        let link = self.lab.place(name)?.run(move || readlinkat(&outer, "thread-self"))??;
        let thread = link.to_string_lossy().rsplit('/').next().and_then(|number| number.parse().ok());
        let inside = self.lab.topology.places.get(name);
        let addresses = inside.into_iter().flat_map(|inside| &inside.addresses);
        let addresses = addresses.map(|(link, address, length)| format!("{link} {address}/{length}")).collect();
        Ok(Whereabouts { name: name.to_string(), thread: thread.context("no number of its thread")?, addresses })
    }

    fn links(&self) -> Vec<Site> {
        let mut ways = Vec::new();
        for (link, relay) in self.lab.topology.links.iter().zip(&self.lab.relays) {
            let [a, b] = link.routers.each_ref().map(ToString::to_string);
            for (way, (from, to)) in [(a.clone(), b.clone()), (b, a)].into_iter().enumerate() {
                ways.extend(relay.quality(way).map(|quality| Site { from, to, quality }));
            }
        }
        ways
    }

    /// Which link, and which of its ways.
    fn way(&self, from: &str, to: &str) -> Result<(usize, usize)> {
        let ends = self.lab.topology.links.iter().map(|link| link.routers.each_ref().map(ToString::to_string));
        let is = |[a, b]: &[String; 2]| [(a, b), (b, a)].iter().position(|(a, b)| *a == from && *b == to);
        let found = ends.enumerate().find_map(|(link, ends)| is(&ends).map(|way| (link, way)));
        found.ok_or_else(|| anyhow!("there is no link from {from} to {to}"))
    }

    fn host(&self, name: &str) -> Result<HostId> {
        let port = self.lab.topology.ports.iter().find(|port| port.host.is_some() && port.to.to_string() == name);
        port.and_then(|port| port.host).ok_or_else(|| anyhow!("there is no host {name}"))
    }

    fn set_ready(&mut self, pod: &str, ready: bool) -> Result<()> {
        let name = self.lab.topology.find(pod).ok_or_else(|| anyhow!("there is no pod {pod}"))?.clone();
        let PlaceName::Pod(cluster, ..) = &name else { bail!("{pod} is no pod") };
        let inside = self.lab.topology.places.get(&name);
        for (_, address, _) in inside.into_iter().flat_map(|inside| &inside.addresses) {
            if ready {
                self.unready.remove(address);
            } else {
                self.unready.insert(*address);
            }
        }
        self.put_all_services(cluster)
    }

    /// Each node of a cluster translates its services to those of its pods that are ready.
    fn put_all_services(&self, cluster: &ClusterId) -> Result<()> {
        let doors = doors(&self.layout, cluster, |address, _| !self.unready.contains(&address));
        for (_, node) in self.layout.nodes_of(cluster) {
            self.put_services(&PlaceName::Node(cluster.clone(), node.name.clone()), &doors)?;
        }
        Ok(())
    }

    /// A node translates these services. One without power learns of them later.
    pub(crate) fn put_services(&self, node: &PlaceName, doors: &BTreeMap<Door, Vec<IpAddr>>) -> Result<()> {
        if self.lab.is_up(node) { self.lab.nft(node, services_script(doors)) } else { Ok(()) }
    }
}
