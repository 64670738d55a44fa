//! What a cluster's API holds without us: the namespaces of the clusterset, its nodes, its services with their backends,
//! and the exports that the scenario starts with.

use super::{HostId, Layout, ServiceLayout};
use std::collections::BTreeSet;
use tombolo_core::base::{ClusterId, Wall};
use tombolo_core::model::{
    Backend, EndpointSlice, Family, InternalTrafficPolicy, Namespace, Node, Object, Port, Service, ServiceExport,
    ServiceKey, ServicePort, ServiceType, SessionAffinity, TargetPort,
};

/// When the scenario starts: 2026-01-01 00:00:00 UTC.
pub const START: Wall = Wall::from_unix_secs(1_767_225_600);

impl Layout {
    /// The objects of a cluster's API at the start.
    #[must_use]
    pub fn objects(&self, cluster: &ClusterId) -> Vec<Object> {
        let namespaces: BTreeSet<_> = self.services().iter().map(|service| service.key.namespace.clone()).collect();
        let mut objects: Vec<Object> = namespaces.into_iter().map(|name| Object::from(Namespace { name })).collect();
        for (id, node) in self.nodes_of(cluster) {
            objects.push(Object::from(Node {
                name: node.name.clone(),
                uid: node.uid.clone(),
                addresses: self.host(id).map(|host| host.address).into_iter().collect(),
                pod_ranges: vec![node.pod_range],
                gateway: node.gateway,
            }));
        }
        for service in self.services().iter().filter(|service| service.cluster == *cluster) {
            objects.push(Object::from(self.service(service)));
            objects.push(Object::from(self.slice(service, |_| true)));
            if service.exported {
                objects.push(Object::from(export(&service.key, START)));
            }
        }
        objects
    }

    fn service(&self, service: &ServiceLayout) -> Service {
        let port = |port: Port| ServicePort { target: TargetPort::Number(port.port), port };
        Service {
            key: service.key.clone(),
            service_type: if service.headless { ServiceType::Headless } else { ServiceType::ClusterIp },
            cluster_ips: Some(service.cluster_ip).filter(|_| !service.headless).into_iter().collect(),
            families: vec![Family::of(service.cluster_ip)],
            ports: ports(service).map(port).collect(),
            affinity: SessionAffinity::None,
            internal_traffic: InternalTrafficPolicy::Cluster,
            traffic_distribution: None,
        }
    }

    /// The backends of `service`; `ready` says of which nodes the pods are.
    #[must_use]
    pub fn slice(&self, service: &ServiceLayout, ready: impl Fn(HostId) -> bool) -> EndpointSlice {
        let backends = service.pods.iter().map(|pod| Backend {
            address: pod.address,
            node: self.host(pod.node).and_then(|host| host.node.as_ref()).map(|node| node.name.clone()),
            hostname: None,
            ready: ready(pod.node),
        });
        EndpointSlice {
            namespace: service.key.namespace.clone(),
            name: format!("{}-0", service.key.name),
            service: service.key.name.clone(),
            backends: backends.collect(),
            ports: ports(service).collect(),
        }
    }
}

/// Pods listen where their service does.
fn ports(service: &ServiceLayout) -> impl Iterator<Item = Port> {
    // Kubernetes demands names where there are several.
    let named = service.ports.len() > 1;
    service.ports.iter().map(move |(port, protocol)| Port {
        name: if named { format!("{protocol}-{port}").parse().ok() } else { None },
        protocol: *protocol,
        port: *port,
        app_protocol: None,
    })
}

/// The wish to export `key`, made at `created`.
#[must_use]
pub fn export(key: &ServiceKey, created: Wall) -> ServiceExport {
    ServiceExport::new(key.clone(), created)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::two_clusters;

    #[test]
    fn a_cluster_has_its_nodes_services_backends_and_exports() {
        let layout = Layout::of(&two_clusters()).unwrap();
        let keys = |cluster: &str| -> Vec<String> {
            layout.objects(&cluster.parse().unwrap()).iter().map(|object| object.key().to_string()).collect()
        };
        assert_eq!(keys("west"), ["Namespace shop", "Node gw-a", "Node gw-b", "Node worker"]);
        assert_eq!(
            keys("east"),
            [
                "Namespace shop",
                "Node gw-a",
                "Node worker",
                "Service shop/web",
                "EndpointSlice shop/web-0",
                "ServiceExport shop/web"
            ]
        );
    }

    #[test]
    fn a_backend_names_its_node_and_whether_it_is_ready() {
        let layout = Layout::of(&two_clusters()).unwrap();
        let service = &layout.services()[0];
        let slice = layout.slice(service, |node| node != service.pods[1].node);
        let told: Vec<(&str, bool)> =
            slice.backends.iter().map(|b| (b.node.as_ref().unwrap().as_str(), b.ready)).collect();
        assert_eq!(told, [("worker", true), ("gw-a", false), ("worker", true)]);
    }

    #[test]
    fn ports_have_names_only_where_there_are_several() {
        let mut scenario = two_clusters();
        scenario.workloads[0].ports.push((53, tombolo_core::model::Protocol::Udp));
        let layout = Layout::of(&scenario).unwrap();
        let service = layout.service(&layout.services()[0]);
        let names: Vec<String> =
            service.ports.iter().map(|port| port.port.name.as_ref().unwrap().to_string()).collect();
        assert_eq!(names, ["tcp-80", "udp-53"]);
    }
}
