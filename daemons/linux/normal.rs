//! What the kernel can hold of a network: another way to say the same.
//!
//! What could concern no packet (ranges of two families, a source that no route can give) is not written, and what is the
//! host's own is not ours to write. Of a network in normal form the kernel gives back each item as it was given.

use std::net::IpAddr;
use tombolo_core::network::{LinkKind, Network, Route, RouteId, RouteKind, Translation, TranslationId, Wanted};

/// `wanted` with its network in normal form.
pub(crate) fn wanted(wanted: &Wanted) -> Wanted {
    Wanted { network: network(&wanted.network), ..wanted.clone() }
}

/// The normal form of a network: the same to every packet.
#[must_use]
pub fn network(network: &Network) -> Network {
    let mut normal = network.clone();
    normal.links.retain(|_, link| match link.kind {
        LinkKind::Overlay { .. } | LinkKind::Cable { .. } => true,
        LinkKind::Uplink | LinkKind::Pods => false,
    });
    normal.routes.iter_mut().for_each(|(id, route)| settle_source(*id, route));
    normal.routes.values_mut().filter(|route| route.kind == RouteKind::Blackhole).for_each(|route| route.mtu = None);
    normal.translations.retain(|id, _| has_effect(id));
    normal.translations.iter_mut().for_each(|(id, translation)| settle_backends(id, translation));
    normal.sysctls.values_mut().for_each(|value| *value = value.trim().to_owned());
    normal
}

/// Only a source of the route's own family is ever used, and none by a route to nowhere.
fn settle_source(id: RouteId, route: &mut Route) {
    let used = |source: &IpAddr| source.is_ipv4() == id.to.is_ipv4() && route.kind != RouteKind::Blackhole;
    route.source = route.source.filter(used);
}

fn has_effect(id: &TranslationId) -> bool {
    match id {
        TranslationId::Service { .. } | TranslationId::ClampMss { .. } | TranslationId::Untracked { .. } => true,
        TranslationId::KeepSource { from, to } => from.is_ipv4() == to.is_ipv4(),
        TranslationId::Masquerade { .. } => false,
    }
}

/// A service with a backend of the other family drops, as one without backends does; how it would choose is not kept.
fn settle_backends(id: &TranslationId, translation: &mut Translation) {
    if let (TranslationId::Service { address, .. }, Translation::Service { backends, by_source }) = (id, translation) {
        if backends.iter().any(|(backend, _)| backend.is_ipv4() != address.is_ipv4()) {
            backends.clear();
        }
        *by_source &= !backends.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_core::network::{Link, LinkName, Table};

    #[test]
    fn what_concerns_no_packet_or_is_the_hosts_own_is_left_out() {
        let mut given = Network::default();
        given.links.insert(LinkName("eth0".into()), Link { kind: LinkKind::Uplink, mtu: 1500 });
        let (v4, v6) = ("10.1.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap());
        let id = |from, to| TranslationId::KeepSource { from, to };
        for (from, to) in [(v4, v4), (v4, v6), (v6, v4), (v6, v6)] {
            given.translations.insert(id(from, to), Translation::KeepSource);
        }
        given.translations.insert(TranslationId::Masquerade { from: v4, except: v4 }, Translation::Masquerade);
        let normal = network(&given);
        assert!(normal.links.is_empty());
        assert_eq!(normal.translations.into_keys().collect::<Vec<_>>(), [id(v4, v4), id(v6, v6)]);
    }

    #[test]
    fn a_route_keeps_a_source_of_its_own_family_alone() {
        let out = || RouteKind::Out { link: LinkName("tb-cable-1".into()), via: None };
        let source: Option<IpAddr> = Some([10, 1, 0, 1].into());
        for (to, kind, kept) in
            [("10.2.0.0/16", out(), source), ("fd00::/8", out(), None), ("10.2.0.0/16", RouteKind::Blackhole, None)]
        {
            let id = RouteId { table: Table(7403), to: to.parse().unwrap() };
            let given = Network { routes: [(id, Route { kind, source, mtu: None })].into(), ..Network::default() };
            assert_eq!(network(&given).routes[&id].source, kept, "{to}");
        }
    }

    #[test]
    fn a_service_that_drops_is_one_without_backends() {
        let id = TranslationId::Service {
            address: [10, 102, 0, 1].into(),
            protocol: tombolo_core::model::Protocol::Tcp,
            port: 80,
        };
        for (backends, kept) in [(vec![], 0), (vec![("fd00::1", 80)], 0), (vec![("10.2.0.7", 80)], 1)] {
            let backends = backends.into_iter().map(|(text, port)| (text.parse().unwrap(), port)).collect();
            let translation = Translation::Service { backends, by_source: true };
            let given = Network { translations: [(id.clone(), translation)].into(), ..Network::default() };
            let Translation::Service { backends, by_source } = &network(&given).translations[&id] else { panic!() };
            assert_eq!((backends.len(), *by_source), (kept, kept > 0));
        }
    }
}
