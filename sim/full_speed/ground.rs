//! The verbs of a timeline ([`crate::world`]), carried out at full speed, and what a cluster does by itself.

use super::sockets::StackId;
use super::{Due, FullSpeed};
use crate::world::{
    Clock, Ground, HostId, Layout, Lifecycles, Outsiders, PROXY_LAG, PROXY_RETRY, RESLICE_TIME, START, ServiceLayout,
    place,
};
use core::time::Duration;
use std::net::IpAddr;
use std::sync::Arc;
use tombolo_core::base::ClusterId;
use tombolo_core::model::ServiceKey;
use tombolo_core::roles::Input;
use tombolo_scenarios::{ApiFault, ApiRef, Daemon, Host, Rate, Skew, StageError, What};

/// A node that gets power has its daemons running after this, at least and at most.
const BOOT_TIME: (Duration, Duration) = (Duration::from_millis(300), Duration::from_millis(600));

impl Ground for FullSpeed {
    fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout)
    }

    fn daemons_of(&self, node: HostId) -> Vec<Daemon> {
        self.daemons.iter().filter(|post| post.host == node).map(|post| post.daemon).collect()
    }

    fn has_power(&self, host: HostId) -> bool {
        self.fabric.has_power(host)
    }

    fn switch_off(&mut self, node: HostId) -> Result<(), StageError> {
        // First the power: what the ends of processes make their sockets say is not heard.
        self.fabric.set_power(node, false);
        for id in self.posts_of(node) {
            self.kill_daemon(id);
        }
        self.stop_pods(node);
        self.sockets.send_all(self.time, &mut self.fabric);
        for stack in core::iter::once(StackId(node.0)).chain(self.sockets.pods_of(node)) {
            self.sockets.forget(stack);
        }
        self.probes.power_off(node);
        self.chronicle.tell(place(&self.layout, node), What::Power(false));
        Ok(())
    }

    fn switch_on(&mut self, node: HostId) -> Result<(), StageError> {
        self.fabric.set_power(node, true);
        if let Some(cell) = self.clocks.get(node.0) {
            let mut clock = cell.get();
            clock.boot(self.time, &mut self.chance);
            cell.set(clock);
        }
        let power_up = self.power_ups.get_mut(node.0).map_or(0, |count| {
            *count += 1;
            *count
        });
        self.chronicle.tell(place(&self.layout, node), What::Power(true));
        for id in self.posts_of(node) {
            let delay = self.chance.duration(BOOT_TIME.0, BOOT_TIME.1);
            self.later(delay, Due::Start(id, power_up));
        }
        self.later(BOOT_TIME.0, Due::ProxySync(node));
        self.later(BOOT_TIME.0, Due::Pods(node, power_up));
        Ok(())
    }

    fn kill(&mut self, node: HostId, daemon: Daemon) -> bool {
        self.post_of(node, daemon).is_some_and(|id| self.kill_daemon(id))
    }

    fn start(&mut self, node: HostId, daemon: Daemon) -> Result<(), StageError> {
        let Some(id) = self.post_of(node, daemon) else { return Ok(()) };
        self.start_daemon(id).map_err(|error| StageError::Broken(error.to_string()))
    }

    fn outsiders(&mut self) -> &mut Outsiders {
        &mut self.outsiders
    }

    fn tell_to_leave(&mut self, node: HostId, daemon: Daemon) -> Result<(), StageError> {
        self.stir(StackId(node.0));
        let post = self.post_of(node, daemon).and_then(|id| self.daemons.get(id.0));
        if let Some(running) = post.and_then(|post| post.running.as_ref()) {
            running.inbox.put(Input::Leave);
        }
        Ok(())
    }

    fn relay(&mut self, cluster: &ClusterId, layout: Layout) -> Result<(), StageError> {
        self.layout = Arc::new(layout);
        self.fabric.set_layout(Arc::clone(&self.layout));
        self.sockets.set_layout(&self.layout);
        let number = self.api_number(&ApiRef::Cluster(cluster.clone()))?;
        self.rebuild_api(number).map_err(|error| StageError::Broken(error.to_string()))?;
        self.write_slices(cluster, &|_| true)
    }

    fn set_open(&mut self, ways: &[(HostId, HostId)], open: bool) -> Result<(), StageError> {
        self.fabric.set_open(ways, open);
        Ok(())
    }

    fn listen_to_nodes(&mut self) {
        let fabric = &self.fabric;
        for judgement in self.lifecycles.listen(&self.layout, |from, to| fabric.is_open(from, to)) {
            self.later(judgement.after, Due::Judge(judgement));
        }
    }

    fn forget_mappings(&mut self, site: u8) -> Result<(), StageError> {
        self.fabric.forget_mappings(site);
        Ok(())
    }

    fn change_address(&mut self, site: u8) -> Result<IpAddr, StageError> {
        self.fabric.change_address(site).ok_or_else(|| StageError::Unknown(format!("NAT box of site {site}")))
    }

    fn set_api_fault(&mut self, api: &ApiRef, fault: &ApiFault) -> Result<(), StageError> {
        let number = self.api_number(api)?;
        self.set_fault(number, fault).map_err(|error| StageError::Broken(error.to_string()))
    }

    fn create_export(&mut self, cluster: &ClusterId, key: &ServiceKey) -> Result<bool, StageError> {
        let (number, at) = (self.api_number(&ApiRef::Cluster(cluster.clone()))?, START + self.time);
        self.stir_api(number).map_or(Ok(false), |api| api.export(cluster, key, at))
    }

    fn delete_export(&mut self, cluster: &ClusterId, key: &ServiceKey) -> Result<bool, StageError> {
        let number = self.api_number(&ApiRef::Cluster(cluster.clone()))?;
        self.stir_api(number).map_or(Ok(false), |api| api.unexport(key))
    }

    fn lifecycles(&mut self) -> &mut Lifecycles {
        &mut self.lifecycles
    }

    fn write_slices(&mut self, cluster: &ClusterId, which: &dyn Fn(&ServiceLayout) -> bool) -> Result<(), StageError> {
        let layout = Arc::clone(&self.layout);
        let Some(api) = self.find_api(&ApiRef::Cluster(cluster.clone())) else { return Ok(()) };
        for service in layout.services().iter().filter(|service| service.cluster == *cluster && which(service)) {
            if let Some(api) = self.stir_api(api) {
                api.write_slices(&layout, &self.lifecycles, service)?;
            }
        }
        for (host, _) in layout.nodes_of(cluster) {
            let lag = self.chance.duration(PROXY_LAG.0, PROXY_LAG.1);
            self.later(lag, Due::ProxySync(host));
        }
        Ok(())
    }

    fn move_back_later(&mut self, cluster: &ClusterId, key: &ServiceKey) {
        self.later(RESLICE_TIME, Due::Resliced(cluster.clone(), key.clone()));
    }

    fn set_skew(&mut self, node: HostId, skew: Skew) -> Result<(), StageError> {
        self.change_clock(node, |clock, now| clock.set_skew(now, skew));
        Ok(())
    }

    fn set_rate(&mut self, node: HostId, rate: Rate) -> Result<(), StageError> {
        self.change_clock(node, |clock, now| clock.set_rate(now, rate));
        Ok(())
    }
}

impl FullSpeed {
    /// Changes the clocks of a node, with the time that it is: all its daemons go by the new ones.
    fn change_clock(&mut self, node: HostId, change: impl Fn(&mut Clock, Duration)) {
        let Some(cell) = self.clocks.get(node.0) else { return };
        let mut clock = cell.get();
        change(&mut clock, self.time);
        cell.set(clock);
        self.stir(StackId(node.0));
        for post in self.daemons.iter().filter(|post| post.host == node) {
            if let Some(running) = &post.running {
                running.process.set_rate(clock.rate());
            }
        }
    }

    fn post_of(&self, node: HostId, daemon: Daemon) -> Option<super::daemons::DaemonId> {
        let found = self.daemons.iter().position(|post| post.host == node && post.daemon == daemon);
        found.map(super::daemons::DaemonId)
    }

    fn api_number(&self, api: &ApiRef) -> Result<usize, StageError> {
        let found =
            self.find_api(api).or_else(|| self.find_api(&self.settings.broker).filter(|_| *api == ApiRef::Broker));
        found.ok_or_else(|| StageError::Unknown(format!("API of {api}")))
    }

    /// kube-proxy of a node takes over what its API says, or tries again later.
    pub(super) fn proxy_due(&mut self, host: HostId) {
        let layout = Arc::clone(&self.layout);
        let Some(node) = layout.host(host).and_then(|host| host.node.as_ref()) else { return };
        let name = ApiRef::Cluster(node.cluster.clone());
        let Some(api) = layout.find(&Host::Api(name.clone())) else { return };
        if !self.fabric.has_power(host) {
            return;
        }
        if self.is_serving(&name) && self.fabric.is_open(api, host) && self.fabric.is_open(host, api) {
            self.sync_proxy(host);
        } else {
            self.later(PROXY_RETRY, Due::ProxySync(host));
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
