//! Any object.

use super::super::*;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tombolo_core::base::{Cidr, Epoch, Few, Label, NodeName, Slot, Wall};
use tombolo_core::model::{
    Backend, CableDriver, CableKey, Candidate, Candidates, Claim, Claims, ClusterRecord, Condition, ConditionType,
    Digest, Endpoint, EndpointSlice, ExportRecord, ExportSummary, Family, Gateway, Import, InternalTrafficPolicy,
    Lease, Namespace, Node, Offer, Port, Protocol, Ranges, Reach, Service, ServiceExport, ServiceKey, ServicePort,
    ServiceType, SessionAffinity, SourceEndpoint, SourceSlice, TargetPort,
};

pub(super) fn label() -> impl Strategy<Value = Label> {
    "[a-z]([a-z0-9-]{0,8}[a-z0-9])?".prop_map(|text| Label::new(&text).unwrap())
}

pub(super) fn cluster() -> impl Strategy<Value = ClusterId> {
    "[a-z][a-z0-9]{0,6}(\\.[a-z]{1,3})?".prop_map(|text| ClusterId::new(&text).unwrap())
}

pub(super) fn node_name() -> impl Strategy<Value = NodeName> {
    "[a-z][a-z0-9]{0,6}(\\.[a-z]{1,3}){0,2}".prop_map(|text| NodeName::new(&text).unwrap())
}

pub(super) fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)]
}

pub(super) fn range() -> impl Strategy<Value = Cidr> {
    (address(), 0..=32_u8).prop_map(|(address, length)| Cidr::holding(address, length).unwrap())
}

pub(super) fn key() -> impl Strategy<Value = ServiceKey> {
    (label(), label()).prop_map(|(namespace, name)| ServiceKey { namespace, name })
}

pub(super) fn wall_secs() -> impl Strategy<Value = Wall> {
    (0..200_000_000_000_u64).prop_map(Wall::from_unix_secs)
}

pub(super) fn wall_micros() -> impl Strategy<Value = Wall> {
    (0..200_000_000_000_000_000_u64).prop_map(Wall::from_unix_micros)
}

pub(super) fn epoch() -> impl Strategy<Value = Epoch> {
    prop_oneof![Just(Epoch(0)), any::<u64>().prop_map(Epoch)]
}

pub(super) fn cable_key() -> impl Strategy<Value = CableKey> {
    any::<[u8; 32]>().prop_map(CableKey)
}

pub(super) fn port() -> impl Strategy<Value = Port> {
    let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)];
    (option::of(label()), protocol, 1..=u16::MAX, option::of("[a-z]{1,5}"))
        .prop_map(|(name, protocol, port, app_protocol)| Port { name, protocol, port, app_protocol })
}

pub(super) fn service_port() -> impl Strategy<Value = ServicePort> {
    let target = prop_oneof![(1..=u16::MAX).prop_map(TargetPort::Number), "[a-z]{1,8}".prop_map(TargetPort::Named),];
    (port(), target).prop_map(|(port, target)| ServicePort { port, target })
}

pub(super) fn affinity() -> impl Strategy<Value = SessionAffinity> {
    prop_oneof![
        Just(SessionAffinity::None),
        (1..86_401_u32).prop_map(|timeout_s| SessionAffinity::ClientIp { timeout_s }),
    ]
}

pub(super) fn internal_traffic() -> impl Strategy<Value = InternalTrafficPolicy> {
    prop_oneof![Just(InternalTrafficPolicy::Cluster), Just(InternalTrafficPolicy::Local)]
}

pub(super) fn family() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::V4), Just(Family::V6)]
}

pub(super) fn texts() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    btree_map("[a-z]{1,5}(/[a-z]{1,3})?", "[a-z]{0,5}", 0..3)
}

fn few<T: Ord>(set: std::collections::BTreeSet<T>) -> Few<T> {
    set.into_iter().collect()
}

pub(super) fn offer() -> impl Strategy<Value = Arc<Offer>> {
    let parts = (routable(), btree_set(port(), 0..4), btree_set(family(), 0..3), affinity(), internal_traffic());
    (parts, option::of("[A-Z][a-z]{1,6}"), texts(), texts()).prop_map(
        |((service_type, ports, families, affinity, internal_traffic), traffic_distribution, labels, annotations)| {
            Arc::new(Offer {
                affinity,
                internal_traffic,
                traffic_distribution,
                labels,
                annotations,
                ..Offer::new(service_type, few(ports), families.into_iter().collect())
            })
        },
    )
}

pub(super) fn routable() -> impl Strategy<Value = ServiceType> {
    prop_oneof![Just(ServiceType::ClusterIp), Just(ServiceType::Headless)]
}

pub(super) fn node() -> impl Strategy<Value = Node> {
    (node_name(), "[0-9a-f]{8}", vec(address(), 0..3), vec(range(), 0..3), any::<bool>())
        .prop_map(|(name, uid, addresses, pod_ranges, gateway)| Node { name, uid, addresses, pod_ranges, gateway })
}

pub(super) fn service() -> impl Strategy<Value = Service> {
    let parts = (key(), routable(), vec(address(), 1..3), vec(family(), 0..3), vec(service_port(), 0..3));
    (parts, affinity(), internal_traffic(), option::of("[A-Z][a-z]{1,6}")).prop_map(
        |((key, service_type, addresses, families, ports), affinity, internal_traffic, traffic_distribution)| Service {
            key,
            service_type,
            cluster_ips: if service_type == ServiceType::Headless { Vec::new() } else { addresses },
            families,
            ports,
            affinity,
            internal_traffic,
            traffic_distribution,
        },
    )
}

pub(super) fn slice() -> impl Strategy<Value = EndpointSlice> {
    let backend = (any::<[u8; 4]>(), option::of(node_name()), option::of(label()), any::<bool>())
        .prop_map(|(address, node, hostname, ready)| Backend { address: address.into(), node, hostname, ready });
    (label(), label(), label(), vec(backend, 0..4), vec(port(), 0..3)).prop_map(
        |(namespace, name, service, backends, ports)| EndpointSlice {
            namespace,
            name: name.to_string(),
            service,
            backends,
            ports,
        },
    )
}

pub(super) fn source_slice() -> impl Strategy<Value = SourceSlice> {
    let endpoint = (any::<[u8; 16]>(), option::of(label()), any::<bool>());
    (cluster(), key(), family(), any::<u16>(), vec(endpoint, 0..4), btree_set(port(), 0..3)).prop_map(
        |(cluster, key, family, number, endpoints, ports)| {
            let address = |bytes: [u8; 16]| match family {
                Family::V4 => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
                Family::V6 => IpAddr::from(bytes),
            };
            let endpoints = endpoints
                .into_iter()
                .map(|(bytes, hostname, ready)| SourceEndpoint { address: address(bytes), hostname, ready })
                .collect();
            SourceSlice { cluster, key, family, number, endpoints, ports: few(ports) }
        },
    )
}

pub(super) fn export() -> impl Strategy<Value = ServiceExport> {
    let about = prop_oneof![Just(ConditionType::Valid), Just(ConditionType::Ready), Just(ConditionType::Conflict)];
    let condition = (option::of(any::<bool>()), "[A-Z][a-z]{1,5}", "[a-z ]{0,9}", wall_secs())
        .prop_map(|(status, reason, message, since)| Condition { status, reason, message, since });
    (key(), wall_secs(), texts(), texts(), btree_map(about, condition, 0..4)).prop_map(
        |(key, created, labels, annotations, conditions)| ServiceExport {
            key,
            created,
            labels,
            annotations,
            conditions,
        },
    )
}

pub(super) fn lease() -> impl Strategy<Value = Lease> {
    let holder = option::of("[a-z0-9-]{1,20}");
    (label(), holder, 0..1_000_u64, wall_micros(), wall_micros(), 0..0x7fff_ffff_u32, epoch()).prop_map(
        |(name, holder, secs, acquired, renewed, transitions, epoch)| Lease {
            name: name.to_string(),
            holder,
            duration: Duration::from_secs(secs),
            acquired,
            renewed,
            transitions,
            epoch,
        },
    )
}

pub(super) fn gateway() -> impl Strategy<Value = Gateway> {
    let reach = prop_oneof![Just(Reach::Connected), Just(Reach::Unknown), Just(Reach::Lost)];
    let outside = (option::of(address()), option::of(1..u16::MAX));
    let reached = btree_map(cluster(), (reach, option::of("[a-z ]{1,20}")), 0..4);
    (node_name(), address(), outside, vec(cable_key(), 0..5), option::of(epoch()), reached).prop_map(
        |(node, address, (public, discovery_port), keys, active, reached)| Gateway {
            node,
            address,
            public,
            discovery_port,
            keys,
            active,
            reach: reached.iter().map(|(cluster, (reach, _))| (cluster.clone(), *reach)).collect(),
            remarks: reached.into_iter().filter_map(|(cluster, (_, remark))| Some((cluster, remark?))).collect(),
        },
    )
}

pub(super) fn cluster_record() -> impl Strategy<Value = ClusterRecord> {
    (cluster(), vec(range(), 0..3), vec(range(), 0..3), epoch())
        .prop_map(|(cluster, pods, services, epoch)| ClusterRecord { cluster, pods, services, epoch })
}

pub(super) fn endpoint() -> impl Strategy<Value = Endpoint> {
    let driver = prop_oneof![Just(CableDriver::Wireguard), Just(CableDriver::Vxlan), Just(CableDriver::Ipsec)];
    let outside = (option::of(address()), any::<bool>(), option::of(1..u16::MAX));
    (cluster(), node_name(), any::<[u8; 4]>(), outside, vec(range(), 0..3), driver, epoch()).prop_map(
        |(cluster, node, private, (public_ip, nat_enabled, discovery_port), subnets, driver, epoch)| {
            let [a, b, c, d] = private;
            Endpoint {
                cable_name: format!("submariner-cable-{cluster}-{a}-{b}-{c}-{d}"),
                cluster,
                node,
                private_ip: private.into(),
                public_ip,
                nat_enabled,
                discovery_port,
                subnets,
                driver,
                epoch,
            }
        },
    )
}

pub(super) fn candidates() -> impl Strategy<Value = Candidates> {
    let slot = (1..=Slot::COUNT).prop_map(|slot| Slot::try_from(slot).unwrap());
    let outside = (option::of(address()), option::of(1..u16::MAX));
    let candidate = (node_name(), address(), outside, vec(cable_key(), 0..5), address()).prop_map(
        |(node, address, (public, discovery_port), keys, probe)| Candidate {
            node,
            address,
            public,
            discovery_port,
            keys,
            probe,
        },
    );
    (cluster(), epoch(), btree_map(slot, candidate, 0..5)).prop_map(|(cluster, epoch, by_slot)| Candidates {
        cluster,
        epoch,
        by_slot,
    })
}

pub(super) fn claims() -> impl Strategy<Value = Claims> {
    let ranges = || vec(range(), 0..3);
    let ranges = (ranges(), ranges(), ranges(), ranges(), vec(address(), 0..3))
        .prop_map(|(pods, services, global, overlay, nodes)| Ranges { pods, services, global, overlay, nodes });
    let claim = ("[0-9a-f-]{0,36}", ranges, any::<u64>().prop_map(Epoch));
    let claim = claim.prop_map(|(identity, ranges, epoch)| Claim { identity, ranges, epoch });
    let left = btree_map(cluster(), any::<u64>().prop_map(Epoch), 0..3);
    (btree_map(cluster(), claim, 0..4), left).prop_map(|(members, left)| Claims { members, left })
}

pub(super) fn export_record() -> impl Strategy<Value = ExportRecord> {
    (cluster(), key(), wall_micros(), offer()).prop_map(|(cluster, key, created, offer)| ExportRecord {
        cluster,
        key,
        created,
        offer,
    })
}

pub(super) fn import() -> impl Strategy<Value = Import> {
    (key(), offer(), btree_map(cluster(), wall_micros(), 0..4)).prop_map(|(key, offer, sources)| Import {
        key,
        offer,
        sources: sources.into_iter().collect(),
    })
}

pub(super) fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        label().prop_map(|name| Object::from(Namespace { name })),
        node().prop_map(Object::from),
        service().prop_map(Object::from),
        slice().prop_map(Object::from),
        export().prop_map(Object::from),
        lease().prop_map(Object::from),
        gateway().prop_map(Object::from),
        cluster_record().prop_map(Object::from),
        endpoint().prop_map(Object::from),
        candidates().prop_map(Object::from),
        claims().prop_map(Object::from),
        export_record().prop_map(Object::from),
        (cluster(), any::<u64>(), any::<u64>()).prop_map(|(cluster, generation, digest)| {
            Object::from(ExportSummary { cluster, generation, digest: Digest(digest) })
        }),
        import().prop_map(Object::from),
        source_slice().prop_map(Object::from),
    ]
}
