//! What is there without us: a node's network as its cluster set it up, and the addresses between sites.
//!
//! A node is what a CNI in host-gateway mode leaves: an uplink, a link for the pods, and a route to each other node's pods
//! by that node's address.

use super::{HostId, Layout};
use std::net::{IpAddr, Ipv4Addr};
use tombolo_core::base::Cidr;
use tombolo_core::network::{Link, LinkKind, LinkName, Network, Route, RouteId, RouteKind, Table};

/// Name of a host's uplink.
pub const UPLINK: &str = "eth0";
/// Name of the link to a node's own pods.
pub const PODS: &str = "cni0";
/// MTU of both.
const MTU: u16 = 1500;
/// Length of a site's subnet.
const SITE_LEN: u8 = 24;

/// The address of a site's router.
#[must_use]
pub const fn router(site: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(172, 16, site, 1))
}

/// The outside address of a site's NAT box: at first, and after each change another.
#[must_use]
pub const fn outside(site: u8, change: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(198, 18 + change % 2, site, 1 + change / 2))
}

impl Layout {
    /// The network of a node that has just booted. Empty for a host that is no node.
    #[must_use]
    pub fn base(&self, host: HostId) -> Network {
        let mut network = Network::default();
        let Some((place, node)) = self.host(host).and_then(|place| Some((place, place.node.as_ref()?))) else {
            return network;
        };
        let (uplink, pods) = (LinkName(UPLINK.into()), LinkName(PODS.into()));
        network.links.insert(uplink.clone(), Link { kind: LinkKind::Uplink, mtu: MTU });
        network.links.insert(pods.clone(), Link { kind: LinkKind::Pods, mtu: MTU });
        network.addresses.insert((uplink.clone(), place.address), SITE_LEN);
        network.addresses.insert((pods.clone(), node.bridge), node.pod_range.prefix_len());

        let mut route = |to: Cidr, link: &LinkName, via: Option<IpAddr>, source: IpAddr| {
            let kind = RouteKind::Out { link: link.clone(), via };
            network.routes.insert(RouteId { table: Table::MAIN, to }, Route { kind, source: Some(source), mtu: None });
        };
        if let Some(site) = Cidr::holding(place.address, SITE_LEN) {
            route(site, &uplink, None, place.address);
        }
        if let Some(everything) = Cidr::holding(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0) {
            route(everything, &uplink, Some(router(place.site)), place.address);
        }
        route(node.pod_range, &pods, None, node.bridge);
        for (other, theirs) in self.nodes_of(&node.cluster).filter(|(other, _)| *other != host) {
            let via = self.host(other).map(|other| other.address);
            route(theirs.pod_range, &uplink, via, place.address);
        }
        network
    }
}
