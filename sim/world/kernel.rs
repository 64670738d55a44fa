//! One node's network: what its cluster set up, what our daemon applied on top, and the connections it tracks.
//!
//! The base ([`Layout::base`]) is never ours: a daemon observes and changes only what it owns, and both
//! together are what packets meet.

use super::{HostId, Layout};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use tombolo_core::base::{Instant, Rng};
use tombolo_core::model::CableKey;
use tombolo_core::network::{
    Arrival, Conntrack, Encapsulation, LinkKind, LinkName, Network, Outcome, Packet, Peer, PeerId, Verdict, Wanted,
    forward, plan,
};
use tombolo_core::roles::Via;
use tombolo_scenarios::layout::{PODS, UPLINK};

/// How often a free source port is drawn before the lowest is taken.
const DRAWS: usize = 16;

/// The network of one node.
#[derive(Clone, Debug)]
pub struct Kernel {
    base: Network,
    ours: Network,
    whole: Network,
    conntrack: Conntrack,
    pods_link: LinkName,
    /// By the key of a cable and the endpoint that a peer of it was given: where that peer really is. A cable answers to where it last heard its
    /// peer from, as WireGuard does. It is no part of the network: no plan compares it (B15).
    roams: BTreeMap<(CableKey, SocketAddr), SocketAddr>,
}

impl Kernel {
    /// A freshly booted node: only the base. Empty for a host that is no node.
    #[must_use]
    pub fn of(layout: &Layout, host: HostId) -> Self {
        let base = layout.base(host);
        Self {
            whole: base.clone(),
            base,
            ours: Network::default(),
            conntrack: Conntrack::new(),
            pods_link: LinkName(PODS.into()),
            roams: BTreeMap::new(),
        }
    }

    /// Name of each node's uplink.
    #[must_use]
    pub fn uplink() -> LinkName {
        LinkName(UPLINK.into())
    }

    /// Name of each node's link to its own pods.
    #[must_use]
    pub fn pods() -> LinkName {
        LinkName(PODS.into())
    }

    /// The same, without a new name.
    #[must_use]
    pub fn pods_link(&self) -> LinkName {
        self.pods_link.clone()
    }

    /// What our daemon applied.
    #[must_use]
    pub const fn ours(&self) -> &Network {
        &self.ours
    }

    /// All that packets meet.
    #[must_use]
    pub const fn whole(&self) -> &Network {
        &self.whole
    }

    /// Puts `ours` in the place of what our daemon applied before. UDP flows to backends that are gone are forgotten, as
    /// the hand does after it changed the translations; TCP flows go on.
    pub fn set_ours(&mut self, ours: Network) {
        self.whole = ours.clone().over(&self.base);
        self.ours = ours;
        let whole = &self.whole;
        let given = |id: &PeerId, peer: &Peer| Some((cable_key(whole, &id.link)?, peer.endpoint));
        let given: BTreeSet<_> = whole.peers.iter().filter_map(|(id, peer)| given(id, peer)).collect();
        self.roams.retain(|peer, _| given.contains(peer));
        for flow in self.conntrack.orphans(&self.whole) {
            self.conntrack.delete(&flow);
        }
    }

    /// Observes, plans and applies, as a daemon's hand does. Gives the steps, one a line.
    pub(crate) fn apply(&mut self, wanted: &Wanted) -> Vec<String> {
        let plan = plan(wanted, &self.ours);
        if plan.is_empty() {
            return Vec::new();
        }
        let mut ours = self.ours.clone();
        plan.apply(&mut ours);
        self.set_ours(ours);
        plan.lines()
    }

    /// On which of the links that carry hellos something came in.
    pub(crate) fn via(&self, link: &LinkName) -> Option<Via> {
        match &self.whole.links.get(link)?.kind {
            LinkKind::Overlay { .. } => Some(Via::Overlay),
            LinkKind::Cable { rank, .. } => Some(Via::Cable(*rank)),
            LinkKind::Uplink | LinkKind::Pods => None,
        }
    }

    /// The address that a socket bound to `link` sends from, towards `to`.
    pub(crate) fn source_on(&self, link: &LinkName, to: IpAddr) -> Option<IpAddr> {
        let lowest = if to.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let own = self.whole.addresses.range((link.clone(), lowest)..).take_while(|((on, _), _)| on == link);
        own.map(|((_, address), _)| *address).find(|address| address.is_ipv4() == to.is_ipv4())
    }

    /// What becomes of a packet: one of the things that may, by chance; connection tracking learns of it.
    pub fn handle(&mut self, now: Duration, arrival: &Arrival, packet: &Packet, chance: &mut Rng) -> Verdict {
        let mut outcomes = forward(&self.whole, &self.conntrack, arrival, packet);
        let count = u64::try_from(outcomes.len()).unwrap_or(u64::MAX);
        let pick = if count > 1 { usize::try_from(chance.below(count)).unwrap_or(0) } else { 0 };
        if pick >= outcomes.len() {
            return Verdict::Drop { because: "the model of this node gave no outcome".into() };
        }
        let mut outcome = self.draw(outcomes.swap_remove(pick), chance);
        self.hear_peer(packet, &outcome.verdict);
        self.dial_peer(&mut outcome.verdict);
        if let Some(learned) = outcome.learned {
            self.conntrack.commit(learned, Instant::from_origin(now));
        }
        outcome.verdict
    }

    /// A cable learns where its peer is from what it took from it.
    fn hear_peer(&mut self, packet: &Packet, verdict: &Verdict) {
        let Some(Encapsulation { source, source_port, key: Some(key), .. }) = packet.outer else { return };
        if matches!(verdict, Verdict::Drop { .. }) {
            return;
        }
        let Some((id, peer)) = self.whole.peers.iter().find(|(id, _)| id.key == key) else { return };
        let Some(own) = cable_key(&self.whole, &id.link) else { return };
        let (given, heard) = (peer.endpoint, SocketAddr::new(source, source_port));
        if heard == given {
            self.roams.remove(&(own, given));
        } else {
            self.roams.insert((own, given), heard);
        }
    }

    /// A cable sends to where it heard its peer last.
    fn dial_peer(&self, verdict: &mut Verdict) {
        let Verdict::Send { packet: Packet { outer: Some(outer), .. }, .. } = verdict else { return };
        let Some(own) = outer.key else { return };
        let given = SocketAddr::new(outer.destination, outer.destination_port);
        if let Some(real) = self.roams.get(&(own, given)) {
            (outer.destination, outer.destination_port) = (real.ip(), real.port());
        }
    }

    /// Draws the source port, where the kernel does.
    fn draw(&self, outcome: Outcome, chance: &mut Rng) -> Outcome {
        let Some(range) = outcome.drawn.clone() else { return outcome };
        let width = u64::from(range.end().saturating_sub(*range.start())) + 1;
        let drawn = (0..DRAWS).find_map(|_| {
            let port = range.start().saturating_add(u16::try_from(chance.below(width)).unwrap_or(0));
            outcome.with_source_port(port, &self.conntrack)
        });
        drawn.unwrap_or(outcome)
    }
}

/// The own key of a cable device.
fn cable_key(network: &Network, link: &LinkName) -> Option<CableKey> {
    match network.links.get(link)?.kind {
        LinkKind::Cable { key, .. } => Some(key),
        LinkKind::Overlay { .. } | LinkKind::Uplink | LinkKind::Pods => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::fixtures;
    use tombolo_core::model::Protocol;
    use tombolo_core::network::{Entry, Item, Learned, Translation, TranslationId, Tuple};

    #[test]
    fn when_a_service_goes_its_udp_flows_are_forgotten_and_its_tcp_flows_are_not() {
        let layout = Layout::of(&fixtures::two_clusters()).unwrap();
        let (host, _) = layout.nodes_of(&"east".parse().unwrap()).next().unwrap();
        let mut kernel = Kernel::of(&layout, host);
        let (client, service, backend) = ("10.1.0.7", "10.102.0.10", "10.2.1.7");
        let mut ours = Network::default();
        let ids = [Protocol::Tcp, Protocol::Udp].map(|protocol| {
            let id = TranslationId::Service { address: service.parse().unwrap(), protocol, port: 80 };
            let backends = vec![(backend.parse().unwrap(), 8080)];
            ours.put(Entry::Translation(id.clone(), Translation::Service { backends, by_source: false }));
            let tuple = |to: &str, destination_port| Tuple {
                protocol,
                source: client.parse().unwrap(),
                source_port: 4000,
                destination: to.parse().unwrap(),
                destination_port,
            };
            let (original, reply) = (tuple(service, 80), tuple(backend, 8080).inverse());
            kernel.conntrack.commit(Learned::Opened { original, reply, picked_up: false }, Instant::ZERO);
            id
        });
        let flows = |kernel: &Kernel| kernel.conntrack.flows().map(|flow| flow.original.protocol).collect::<Vec<_>>();
        kernel.set_ours(ours.clone());
        assert_eq!(flows(&kernel), [Protocol::Tcp, Protocol::Udp]);
        ids.into_iter().for_each(|id| ours.take(&Item::Translation(id)));
        kernel.set_ours(ours);
        assert_eq!(flows(&kernel), [Protocol::Tcp]);
    }
}
