//! What a cluster does by itself when a node falls silent or comes back: after a grace time its pods are no longer
//! ready, later they are again, and every node's service translation follows. As Kubernetes' node lifecycle does it; a
//! node counts as heard if it has power and can speak with its API server both ways.

use crate::layout::{HostId, Layout, ServiceLayout};
use crate::{ApiRef, Host};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{EndpointSlice, Protocol, ServiceKey};

/// Address, protocol and port of a service or of a backend.
pub type Door = (IpAddr, Protocol, u16);

/// A silent node is given up after this (`--node-monitor-grace-period`).
const GRACE: Duration = Duration::from_secs(40);
/// A node that is heard again has ready pods after this.
const RECOVERY: Duration = Duration::from_secs(2);
/// A change of backends reaches kube-proxy within this.
pub const PROXY_LAG: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));
/// kube-proxy tries again to reach its API after this.
pub const PROXY_RETRY: Duration = Duration::from_secs(1);
/// For so long a pod that moves between slices is in both.
pub const RESLICE_TIME: Duration = Duration::from_secs(3);

/// What a cluster thinks of one of its nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lifecycle {
    heard: bool,
    ready: bool,
    /// Counts changes of `heard`: a judgement that was due for an older one is void.
    generation: u64,
}

/// A judgement of a node that becomes due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// Of this one.
    pub node: HostId,
    /// So much later.
    pub after: Duration,
    generation: u64,
}

/// What each cluster thinks of its nodes, and of the pods on them.
#[derive(Clone, Debug)]
pub struct Lifecycles {
    nodes: Vec<Lifecycle>,
    /// Services whose pods say themselves that they are not ready.
    unready: BTreeSet<(ClusterId, ServiceKey)>,
    /// Services of which some pods are moving to another slice.
    moving: BTreeSet<(ClusterId, ServiceKey)>,
}

/// Name of the slice to which pods of a service move.
#[must_use]
pub fn second_slice(service: &ServiceLayout) -> String {
    format!("{}-1", service.key.name)
}

impl Lifecycles {
    /// All heard, all ready.
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        let node = Lifecycle { heard: true, ready: true, generation: 0 };
        Self { nodes: vec![node; layout.hosts().len()], unready: BTreeSet::new(), moving: BTreeSet::new() }
    }

    /// Something changed that decides whether nodes are heard: packets pass from one host to another where the way
    /// `is_open`. Gives what is to be judged later.
    pub fn listen(&mut self, layout: &Layout, is_open: impl Fn(HostId, HostId) -> bool) -> Vec<Judgement> {
        let mut judgements = Vec::new();
        for (host, node) in layout.nodes() {
            let api = layout.find(&Host::Api(ApiRef::Cluster(node.cluster.clone())));
            let heard = api.is_some_and(|api| is_open(host, api) && is_open(api, host));
            let Some(state) = self.nodes.get_mut(host.0).filter(|state| state.heard != heard) else { continue };
            state.heard = heard;
            state.generation += 1;
            if state.ready != heard {
                let after = if heard { RECOVERY } else { GRACE };
                judgements.push(Judgement { node: host, after, generation: state.generation });
            }
        }
        judgements
    }

    /// The grace or recovery time of a node is over. False if something changed since.
    pub fn judge(&mut self, judgement: Judgement) -> bool {
        let state = self.nodes.get_mut(judgement.node.0).filter(|state| state.generation == judgement.generation);
        let Some(state) = state else { return false };
        state.ready = state.heard;
        true
    }

    /// Whether the cluster counts the pods of a service on a node as ready.
    #[must_use]
    pub fn is_ready(&self, service: &ServiceLayout, host: HostId) -> bool {
        let node_is = self.nodes.get(host.0).is_some_and(|state| state.ready);
        node_is && !self.unready.contains(&(service.cluster.clone(), service.key.clone()))
    }

    /// The pods of a service say that they are ready, or not. False if they said so before.
    pub fn set_ready(&mut self, cluster: &ClusterId, key: &ServiceKey, ready: bool) -> bool {
        let service = (cluster.clone(), key.clone());
        if ready { self.unready.remove(&service) } else { self.unready.insert(service) }
    }

    /// Pods of a service move to another slice, or are back. False if it was so before.
    pub fn set_moving(&mut self, cluster: &ClusterId, key: &ServiceKey, moving: bool) -> bool {
        let service = (cluster.clone(), key.clone());
        if moving { self.moving.insert(service) } else { self.moving.remove(&service) }
    }

    /// The slices of a service, as its cluster has them now. While pods move, every second one is in two, and called not
    /// ready where it comes from.
    #[must_use]
    pub fn slices(&self, layout: &Layout, service: &ServiceLayout) -> [Option<EndpointSlice>; 2] {
        let mut first = layout.slice(service, |host| self.is_ready(service, host));
        if !self.moving.contains(&(service.cluster.clone(), service.key.clone())) {
            return [Some(first), None];
        }
        let moving = first.backends.iter().step_by(2).cloned().collect();
        let second = EndpointSlice { name: second_slice(service), backends: moving, ..first.clone() };
        first.backends.iter_mut().step_by(2).for_each(|backend| backend.ready = false);
        [Some(first), Some(second)]
    }

    /// What the service translation of a node should be: the ready pods of each service of its cluster.
    #[must_use]
    pub fn services(&self, layout: &Layout, host: HostId) -> BTreeMap<Door, Vec<(IpAddr, u16)>> {
        let mut services = BTreeMap::new();
        let Some(node) = layout.host(host).and_then(|host| host.node.as_ref()) else { return services };
        for service in layout.services().iter().filter(|s| s.cluster == node.cluster && !s.headless) {
            let ready = service.pods.iter().filter(|pod| self.is_ready(service, pod.node));
            let pods: Vec<IpAddr> = ready.map(|pod| pod.address).collect();
            for (port, protocol) in &service.ports {
                let backends = pods.iter().map(|pod| (*pod, *port)).collect();
                services.insert((service.cluster_ip, *protocol, *port), backends);
            }
        }
        services
    }
}
