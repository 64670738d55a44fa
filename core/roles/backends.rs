//! Where the traffic of exported services goes: the backends behind each port of each cluster IP.

use super::node_network::{Backends, ServicePort};
use crate::base::NodeName;
use crate::model::{Api, Backend, EndpointSlice, Key, Kind, Object, Port, SessionAffinity, TargetPort};
use crate::sync::Index;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::vec::Vec;

/// Ready backends of each port of each exported service, but for those on `silent` nodes if there are others.
pub(super) fn exported(index: &Index, silent: &BTreeSet<NodeName>) -> Backends {
    let mut of_services: BTreeMap<_, Vec<&EndpointSlice>> = BTreeMap::new();
    for slice in slices(index) {
        of_services.entry((&slice.namespace, &slice.service)).or_default().push(slice);
    }
    let mut found = Backends::new();
    for (_, object) in index.objects(Api::Local, Kind::ServiceExport) {
        let Object::ServiceExport(export) = object else { continue };
        let key = Key::of_service(Kind::Service, &export.key);
        let Some(Object::Service(service)) = index.get(Api::Local, &key) else { continue };
        let slices = of_services.get(&(&service.key.namespace, &service.key.name)).map_or(&[][..], Vec::as_slice);
        let backends = ready_backends(slices, silent);
        for address in &service.cluster_ips {
            for port in &service.ports {
                let of_family = backends.iter().filter(|(_, b)| b.address.is_ipv4() == address.is_ipv4());
                let targets =
                    of_family.filter_map(|(slice, b)| Some((b.address, target(&port.target, &port.port, slice)?)));
                let entry = ServicePort {
                    name: service.key.to_string(),
                    backends: targets.collect(),
                    by_source: service.affinity != SessionAffinity::None,
                };
                found.insert((*address, port.port.protocol, port.port.port), entry);
            }
        }
    }
    found
}

/// With their slices, and without those on `silent` nodes if there are others.
fn ready_backends<'a>(
    slices: &[&'a EndpointSlice],
    silent: &BTreeSet<NodeName>,
) -> Vec<(&'a EndpointSlice, &'a Backend)> {
    let of_slice =
        |slice: &&'a EndpointSlice| slice.backends.iter().map(|backend| (*slice, backend)).collect::<Vec<_>>();
    let ready = slices.iter().flat_map(of_slice).filter(|(_, backend)| backend.ready);
    let is_silent = |backend: &Backend| backend.node.as_ref().is_some_and(|node| silent.contains(node));
    let (off, ready): (Vec<_>, Vec<_>) = ready.partition(|(_, backend)| is_silent(backend));
    if ready.is_empty() { off } else { ready }
}

/// Where the pods of `slice` listen for this port of their service. A name stands for what the slice says of it.
fn target(target: &TargetPort, port: &Port, slice: &EndpointSlice) -> Option<u16> {
    match target {
        TargetPort::Number(number) => Some(*number),
        TargetPort::Named(_) => {
            let same = |one: &&Port| one.name == port.name && one.protocol == port.protocol;
            slice.ports.iter().find(same).map(|one| one.port)
        }
    }
}

fn slices(index: &Index) -> impl Iterator<Item = &EndpointSlice> {
    index
        .objects(Api::Local, Kind::EndpointSlice)
        .filter_map(|(_, object)| if let Object::EndpointSlice(slice) = object { Some(&**slice) } else { None })
}
