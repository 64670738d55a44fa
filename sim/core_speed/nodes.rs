//! The cluster's judgement of its nodes ([`crate::world`]), carried out at core speed: endpoint slices follow, and each
//! node's service translation after them.

use super::{CoreSpeed, Event};
use crate::world::{HostId, PROXY_LAG, PROXY_RETRY, ServiceLayout, second_slice};
use std::sync::Arc;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{Api, EndpointSlice, Key, Kind, Object, Write};
use tombolo_scenarios::{ApiRef, Host};

impl CoreSpeed {
    /// The slices of these services follow what the cluster thinks of their pods, and each node's service translation after
    /// them.
    pub(super) fn put_slices(&mut self, cluster: &ClusterId, which: &dyn Fn(&ServiceLayout) -> bool) {
        let layout = Arc::clone(&self.layout);
        let Some(api) = self.find_api(&ApiRef::Cluster(cluster.clone())) else { return };
        for service in layout.services().iter().filter(|service| service.cluster == *cluster && which(service)) {
            let [first, second] = self.lifecycles.slices(&layout, service);
            first.into_iter().for_each(|first| self.put_slice(api, first));
            match second {
                Some(second) => self.put_slice(api, second),
                None => self.delete_slice(api, service),
            }
        }
        for (host, _) in layout.nodes_of(cluster) {
            let lag = self.chance.duration(PROXY_LAG.0, PROXY_LAG.1);
            self.later(lag, Event::ProxySync(host));
        }
    }

    fn put_slice(&mut self, api: usize, slice: EndpointSlice) {
        let slice = Object::from(slice);
        let there = self.apis.get(api).and_then(|api| api.get(Api::Local, &slice.key())).map(|(_, version)| version);
        let write =
            there.map_or_else(|| Write::Create(slice.clone()), |version| Write::Replace(slice.clone(), version));
        self.write_as_world(api, write);
    }

    /// Deletes the slice to which pods of a service had moved, if it is there.
    fn delete_slice(&mut self, api: usize, service: &ServiceLayout) {
        let key = Key::new(Kind::EndpointSlice, &service.key.namespace, second_slice(service));
        let there = self.apis.get(api).and_then(|api| api.get(Api::Local, &key)).map(|(_, version)| version);
        if let Some(version) = there {
            self.write_as_world(api, Write::Delete(key, version));
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
        let services = self.lifecycles.services(&self.layout, host);
        if let Some(proxy) = self.fabric.proxy_mut(host) {
            proxy.set_services(services);
        }
    }
}
