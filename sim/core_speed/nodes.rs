//! What a cluster does by itself when a node falls silent or comes back: after a grace time its pods are no longer
//! ready, later they are again, and every node's service translation follows. As Kubernetes' node lifecycle does it; a
//! node counts as heard if it has power and can speak with its API server both ways.

use super::{CoreSpeed, Event};
use crate::world::{Door, HostId};
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{Api, Object, Write};
use tombolo_scenarios::{ApiRef, Host};

/// A silent node is given up after this (`--node-monitor-grace-period`).
const GRACE: Duration = Duration::from_secs(40);
/// A node that is heard again has ready pods after this.
const RECOVERY: Duration = Duration::from_secs(2);
/// A change of backends reaches kube-proxy within this.
const PROXY_LAG: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));
/// kube-proxy tries again to reach its API after this.
const PROXY_RETRY: Duration = Duration::from_secs(1);

/// What a cluster thinks of one of its nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lifecycle {
    heard: bool,
    ready: bool,
    /// Counts changes of `heard`: a judgement that was due for an older one is void.
    generation: u64,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self { heard: true, ready: true, generation: 0 }
    }
}

impl CoreSpeed {
    /// Something changed that decides whether nodes are heard.
    pub(super) fn listen_to_nodes(&mut self) {
        let layout = Arc::clone(&self.layout);
        for (host, node) in layout.nodes() {
            let api = layout.find(&Host::Api(ApiRef::Cluster(node.cluster.clone())));
            let heard = api.is_some_and(|api| self.fabric.is_open(host, api) && self.fabric.is_open(api, host));
            let Some(state) = self.lifecycles.get_mut(host.0).filter(|state| state.heard != heard) else { continue };
            state.heard = heard;
            state.generation += 1;
            let generation = state.generation;
            if state.ready != heard {
                self.later(if heard { RECOVERY } else { GRACE }, Event::NodeDue(host, generation));
            }
        }
    }

    /// The grace or recovery time of a node is over, if nothing changed since.
    pub(super) fn node_due(&mut self, host: HostId, generation: u64) {
        let Some(state) = self.lifecycles.get_mut(host.0).filter(|state| state.generation == generation) else {
            return;
        };
        state.ready = state.heard;
        let layout = Arc::clone(&self.layout);
        let Some(node) = layout.host(host).and_then(|host| host.node.as_ref()) else { return };
        let Some(api) = self.find_api(&ApiRef::Cluster(node.cluster.clone())) else { return };
        for service in layout.services().iter().filter(|service| service.pods.iter().any(|pod| pod.node == host)) {
            let slice = Object::EndpointSlice(layout.slice(service, |host| self.has_ready_pods(host)));
            let version =
                self.apis.get(api).and_then(|api| api.get(Api::Local, &slice.key())).map(|(_, version)| version);
            if let Some(version) = version {
                self.write_as_world(api, Write::Replace(slice, version));
            }
        }
        self.services_changed(&node.cluster);
    }

    /// Whether the cluster counts the pods of a node as ready.
    fn has_ready_pods(&self, host: HostId) -> bool {
        self.lifecycles.get(host.0).is_some_and(|state| state.ready)
    }

    fn services_changed(&mut self, cluster: &ClusterId) {
        let layout = Arc::clone(&self.layout);
        for (host, _) in layout.nodes_of(cluster) {
            let lag = self.chance.duration(PROXY_LAG.0, PROXY_LAG.1);
            self.later(lag, Event::ProxySync(host));
        }
    }

    /// kube-proxy of a node takes over what its API says, or tries again later.
    pub(super) fn proxy_due(&mut self, host: HostId) {
        let layout = Arc::clone(&self.layout);
        let Some(node) = layout.host(host).and_then(|host| host.node.as_ref()) else { return };
        let Some(api) = layout.find(&Host::Api(ApiRef::Cluster(node.cluster.clone()))) else { return };
        if !self.fabric.has_power(host) {
            return;
        }
        let down = self.find_api(&ApiRef::Cluster(node.cluster.clone())).is_none_or(|api| self.is_down(api));
        if !down && self.fabric.is_open(api, host) && self.fabric.is_open(host, api) {
            self.sync_proxy(host);
        } else {
            self.later(PROXY_RETRY, Event::ProxySync(host));
        }
    }

    /// Gives a node's service translation the ready pods of each service.
    pub(super) fn sync_proxy(&mut self, host: HostId) {
        let layout = Arc::clone(&self.layout);
        let Some(node) = layout.host(host).and_then(|host| host.node.as_ref()) else { return };
        let mut services: BTreeMap<Door, Vec<(IpAddr, u16)>> = BTreeMap::new();
        for service in layout.services().iter().filter(|service| service.cluster == node.cluster) {
            let ready = service.pods.iter().filter(|pod| self.has_ready_pods(pod.node));
            let pods: Vec<IpAddr> = ready.map(|pod| pod.address).collect();
            for (port, protocol) in &service.ports {
                let backends = pods.iter().map(|pod| (*pod, *port)).collect();
                services.insert((service.cluster_ip, *protocol, *port), backends);
            }
        }
        if let Some(proxy) = self.fabric.proxy_mut(host) {
            proxy.set_services(services);
        }
    }
}
