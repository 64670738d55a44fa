//! What a cluster's API holds without us: its nodes, its services with their backends, and the exports that the
//! scenario starts with.

use super::{HostId, Layout, ServiceLayout};
use tombolo_core::base::{ClusterId, Wall};
use tombolo_core::model::{
    Backend, EndpointSlice, Node, Object, Port, Service, ServiceExport, ServiceKey, ServiceType,
};

/// When the scenario starts: 2026-01-01 00:00:00 UTC.
pub const START: Wall = Wall::from_unix_secs(1_767_225_600);

impl Layout {
    /// The objects of a cluster's API at the start.
    #[must_use]
    pub fn objects(&self, cluster: &ClusterId) -> Vec<Object> {
        let mut objects: Vec<Object> = Vec::new();
        for (id, node) in self.nodes_of(cluster) {
            objects.push(Object::Node(Node {
                name: node.name.clone(),
                uid: node.uid.clone(),
                addresses: self.host(id).map(|host| host.address).into_iter().collect(),
                pod_ranges: vec![node.pod_range],
                gateway: node.gateway,
            }));
        }
        for service in self.services().iter().filter(|service| service.cluster == *cluster) {
            objects.push(Object::Service(self.service(service)));
            objects.push(Object::EndpointSlice(self.slice(service, |_| true)));
            if service.exported {
                objects.push(Object::ServiceExport(export(&service.key, START)));
            }
        }
        objects
    }

    fn service(&self, service: &ServiceLayout) -> Service {
        let named = service.ports.len() > 1;
        let ports = service.ports.iter().map(|(port, protocol)| Port {
            // Kubernetes demands names where there are several.
            name: if named { format!("{protocol}-{port}").parse().ok() } else { None },
            protocol: *protocol,
            port: *port,
            target: *port,
        });
        Service {
            key: service.key.clone(),
            service_type: ServiceType::ClusterIp,
            cluster_ips: vec![service.cluster_ip],
            ports: ports.collect(),
            client_ip_affinity: false,
        }
    }

    /// The backends of `service`; `ready` says of which nodes the pods are.
    #[must_use]
    pub fn slice(&self, service: &ServiceLayout, ready: impl Fn(HostId) -> bool) -> EndpointSlice {
        let backends = service.pods.iter().map(|pod| Backend {
            address: pod.address,
            node: self.host(pod.node).and_then(|host| host.node.as_ref()).map(|node| node.name.clone()),
            ready: ready(pod.node),
        });
        EndpointSlice {
            namespace: service.key.namespace.clone(),
            name: format!("{}-0", service.key.name),
            service: service.key.name.clone(),
            backends: backends.collect(),
        }
    }
}

/// The wish to export `key`, made at `created`.
#[must_use]
pub fn export(key: &ServiceKey, created: Wall) -> ServiceExport {
    ServiceExport { key: key.clone(), created }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::fixtures;

    #[test]
    fn a_cluster_has_its_nodes_services_backends_and_exports() {
        let layout = Layout::of(&fixtures::two_clusters()).unwrap();
        let keys = |cluster: &str| -> Vec<String> {
            layout.objects(&cluster.parse().unwrap()).iter().map(|object| object.key().to_string()).collect()
        };
        assert_eq!(keys("west"), ["Node gw-a", "Node gw-b", "Node worker"]);
        assert_eq!(
            keys("east"),
            ["Node gw-a", "Node worker", "Service shop/web", "EndpointSlice shop/web-0", "ServiceExport shop/web"]
        );
    }

    #[test]
    fn a_backend_names_its_node_and_whether_it_is_ready() {
        let layout = Layout::of(&fixtures::two_clusters()).unwrap();
        let service = &layout.services()[0];
        let slice = layout.slice(service, |node| node != service.pods[1].node);
        let told: Vec<(&str, bool)> =
            slice.backends.iter().map(|b| (b.node.as_ref().unwrap().as_str(), b.ready)).collect();
        assert_eq!(told, [("worker", true), ("gw-a", false), ("worker", true)]);
    }

    #[test]
    fn ports_have_names_only_where_there_are_several() {
        let mut scenario = fixtures::two_clusters();
        scenario.workloads[0].ports.push((53, tombolo_core::model::Protocol::Udp));
        let layout = Layout::of(&scenario).unwrap();
        let service = layout.service(&layout.services()[0]);
        let names: Vec<String> = service.ports.iter().map(|port| port.name.as_ref().unwrap().to_string()).collect();
        assert_eq!(names, ["tcp-80", "udp-53"]);
    }
}
