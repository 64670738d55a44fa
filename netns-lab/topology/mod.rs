//! What a scenario is made of on a kernel, as data: places, what is in each, and what joins them.
//!
//! ```text
//!   pod ─eth0── [cni0 node eth0] ── [br0 router to-east] ── relay ── [to-west router br0] ── node …
//!                 API server eth0 ──┘
//! ```
//! Addresses are the [`Layout`]'s, and what a node has is [`Layout::base`]: the same as in the simulator.

pub mod cuts;
pub mod nat;
mod services;
mod words;

pub use services::{doors, script as services_script};

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tombolo_core::base::{Cidr, ClusterId, NodeName};
use tombolo_core::model::Protocol;
use tombolo_core::nat::boxes::Behaviour;
use tombolo_core::network::{RouteKind, Table};
use tombolo_scenarios::layout::{HostId, Layout, NodeLayout, PODS, UPLINK, outside, router};
use tombolo_scenarios::{ApiRef, Host, LinkSpec, Scenario};

/// The link of a router that its site is on.
pub const SITE: &str = "br0";
/// Length of a site's subnet.
const SITE_LEN: u8 = 24;

/// A namespace of a lab.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PlaceName {
    /// `router:west`: the router of a cluster's site, or of the broker's.
    Router(ApiRef),
    /// `api:west`: the host of an API server.
    Api(ApiRef),
    /// `west/gw-a`.
    Node(ClusterId, NodeName),
    /// `west/worker/probe`, `east/worker/shop.web.1`.
    Pod(ClusterId, NodeName, String),
}

impl fmt::Display for PlaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Router(site) => f.pad(&format!("router:{site}")),
            Self::Api(api) => f.pad(&format!("api:{api}")),
            Self::Node(cluster, node) => f.pad(&format!("{cluster}/{node}")),
            Self::Pod(cluster, node, pod) => f.pad(&format!("{cluster}/{node}/{pod}")),
        }
    }
}

/// What is in a namespace. Its ports are in [`Topology::ports`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inside {
    /// A bridge of this name.
    pub bridge: Option<&'static str>,
    /// By link, address and the length of its prefix.
    pub addresses: Vec<(String, IpAddr, u8)>,
    /// Where to, by which link, by whom.
    pub routes: Vec<Route>,
    /// It forwards packets.
    pub forwards: bool,
    /// What pods listen on.
    pub listens: BTreeSet<(u16, Protocol)>,
}

/// A route of a namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Route {
    /// Where to.
    pub to: Cidr,
    /// By this link.
    pub link: String,
    /// By this neighbour; none: they are neighbours.
    pub via: Option<IpAddr>,
}

/// A port of a bridge and the `eth0` at its other end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Port {
    /// Where the bridge is.
    pub at: PlaceName,
    /// Name of the port.
    pub name: String,
    /// Whose `eth0` it leads to.
    pub to: PlaceName,
    /// The host there, for cuts; none for a pod.
    pub host: Option<HostId>,
}

/// A link between two sites' routers.
#[derive(Clone, PartialEq, Debug)]
pub struct SiteLink {
    /// The routers.
    pub routers: [PlaceName; 2],
    /// Name of the link's end in each.
    pub ends: [String; 2],
    /// How it behaves, each way.
    pub spec: LinkSpec,
    /// It is a wire, and nothing else: nobody delays, loses or reads what passes.
    pub is_plain: bool,
}

/// The NAT box of a site is its router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NatPlan {
    /// Where.
    pub router: PlaceName,
    /// Number of the site.
    pub site: u8,
    /// How it behaves.
    pub behaviour: Behaviour,
}

/// Everything. See the module docs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Topology {
    /// The namespaces.
    pub places: BTreeMap<PlaceName, Inside>,
    /// Ports of bridges, in order of being made.
    pub ports: Vec<Port>,
    /// Links between sites.
    pub links: Vec<SiteLink>,
    /// NAT boxes.
    pub nats: Vec<NatPlan>,
}

impl Topology {
    /// What `scenario` is made of, everything in its place.
    #[must_use]
    pub fn of(scenario: &Scenario, layout: &Layout) -> Self {
        let mut topology = Self::default();
        for (index, host) in layout.hosts().iter().enumerate() {
            let id = HostId(index);
            let at = topology.site(layout, host.site);
            let name = place(&host.host);
            topology.ports.push(Port { at, name: format!("h{index}"), to: name.clone(), host: Some(id) });
            let inside = match &host.node {
                Some(node) => topology.node(layout, (id, node)),
                None => plain_host(host.address, host.site),
            };
            topology.places.insert(name, inside);
        }
        topology.add_links(scenario, layout);
        topology
    }

    /// The place of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&PlaceName> {
        self.places.keys().find(|place| place.to_string() == name)
    }

    /// The NAT box that a router is, if it is one.
    #[must_use]
    pub fn nat(&self, router: &PlaceName) -> Option<&NatPlan> {
        self.nats.iter().find(|nat| nat.router == *router)
    }

    /// The router of a site; it is made when its first host comes.
    fn site(&mut self, layout: &Layout, site: u8) -> PlaceName {
        let name = PlaceName::Router(site_name(layout, site));
        let fresh = || Inside {
            bridge: Some(SITE),
            addresses: vec![(SITE.into(), router(site), SITE_LEN)],
            forwards: true,
            ..Inside::default()
        };
        self.places.entry(name.clone()).or_insert_with(fresh);
        name
    }

    /// What is in a node's namespace; its pods are places of their own.
    fn node(&mut self, layout: &Layout, (id, node): (HostId, &NodeLayout)) -> Inside {
        let mut pods: BTreeMap<IpAddr, (String, BTreeSet<(u16, Protocol)>)> = BTreeMap::new();
        pods.insert(node.probe_pod, ("probe".into(), BTreeSet::new()));
        for service in layout.services() {
            let here = (1..).zip(&service.pods).filter(|(_, pod)| pod.node == id);
            pods.extend(here.map(|(number, pod)| {
                let name = format!("{}.{}.{number}", service.key.namespace, service.key.name);
                (pod.address, (name, service.ports.iter().copied().collect()))
            }));
        }
        let at = PlaceName::Node(node.cluster.clone(), node.name.clone());
        for (number, (address, (name, listens))) in pods.into_iter().enumerate() {
            let name = PlaceName::Pod(node.cluster.clone(), node.name.clone(), name);
            let port = Port { at: at.clone(), name: format!("p{number}"), to: name.clone(), host: None };
            self.ports.push(port);
            let mut inside = plain(address, node.pod_range.prefix_len(), node.bridge);
            inside.listens = listens;
            self.places.insert(name, inside);
        }
        let base = layout.base(id);
        let addresses = base.addresses.iter().map(|((link, address), length)| (link.to_string(), *address, *length));
        // What leads to neighbours, the kernel makes of the addresses.
        let routes = base.routes.iter().filter(|(id, _)| id.table == Table::MAIN).filter_map(|(id, route)| {
            let RouteKind::Out { link, via: Some(via) } = &route.kind else { return None };
            Some(Route { to: id.to, link: link.to_string(), via: Some(*via) })
        });
        Inside {
            bridge: Some(PODS),
            addresses: addresses.collect(),
            routes: routes.collect(),
            forwards: true,
            ..Inside::default()
        }
    }

    fn add_links(&mut self, scenario: &Scenario, layout: &Layout) {
        let nats = layout.nats();
        let sites: BTreeSet<u8> = layout.hosts().iter().map(|host| host.site).collect();
        for a in &sites {
            let name = site_name(layout, *a);
            let router_a = PlaceName::Router(name.clone());
            if let Some(behaviour) = nats.get(usize::from(*a)).copied().flatten() {
                self.nats.push(NatPlan { router: router_a.clone(), site: *a, behaviour });
            }
            for b in sites.range(a + 1..) {
                let other = site_name(layout, *b);
                let router_b = PlaceName::Router(other.clone());
                let ends = [format!("to-{b}"), format!("to-{a}")];
                self.routes_over(&router_a, &ends[0], (*b, nats));
                self.routes_over(&router_b, &ends[1], (*a, nats));
                let spec = scenario.links.spec(cluster(&name), cluster(&other));
                let routers = [router_a.clone(), router_b];
                self.links.push(SiteLink { routers, ends, spec, is_plain: false });
            }
        }
    }

    /// Where a site is, for the router of another. Behind a NAT box, only the box's outside addresses are known.
    fn routes_over(&mut self, at: &PlaceName, link: &str, (site, nats): (u8, &[Option<Behaviour>])) {
        let has_box = nats.get(usize::from(site)).copied().flatten().is_some();
        let known = if has_box { vec![outside(site, 0), outside(site, 1)] } else { vec![router(site)] };
        let Some(inside) = self.places.get_mut(at) else { return };
        for to in known.into_iter().filter_map(|address| Cidr::holding(address, SITE_LEN)) {
            inside.routes.push(Route { to, link: link.to_owned(), via: Some(router(site)) });
        }
    }
}

const fn cluster(site: &ApiRef) -> Option<&ClusterId> {
    match site {
        ApiRef::Cluster(cluster) => Some(cluster),
        ApiRef::Broker => None,
    }
}

/// The place of a host.
#[must_use]
pub fn place(host: &Host) -> PlaceName {
    match host {
        Host::Node(cluster, node) => PlaceName::Node(cluster.clone(), node.clone()),
        Host::Api(api) => PlaceName::Api(api.clone()),
    }
}

fn site_name(layout: &Layout, site: u8) -> ApiRef {
    let named = layout.clusters().find(|cluster| layout.site_of(cluster) == Some(site));
    named.map_or(ApiRef::Broker, |cluster| ApiRef::Cluster(cluster.clone()))
}

fn plain_host(address: IpAddr, site: u8) -> Inside {
    plain(address, SITE_LEN, router(site))
}

fn plain(address: IpAddr, length: u8, gateway: IpAddr) -> Inside {
    let everything = Cidr::holding(IpAddr::from([0; 4]), 0);
    let route = |to| Route { to, link: UPLINK.into(), via: Some(gateway) };
    Inside {
        addresses: vec![(UPLINK.into(), address, length)],
        routes: everything.map(route).into_iter().collect(),
        ..Inside::default()
    }
}

#[cfg(test)]
mod tests;
