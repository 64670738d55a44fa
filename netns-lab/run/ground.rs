//! The verbs of a timeline, carried out in the lab, and what a cluster does by itself.

use super::{Due, LabStage, apis, broken};
use crate::topology::{PlaceName, place as place_of};
use core::time::Duration;
use std::net::IpAddr;
use std::sync::Arc;
use tombolo_core::base::ClusterId;
use tombolo_core::model::ServiceKey;
use tombolo_scenarios::ground::{Ground, Lifecycles, Outsiders, PROXY_LAG, PROXY_RETRY, RESLICE_TIME, place};
use tombolo_scenarios::layout::{HostId, Layout, ServiceLayout};
use tombolo_scenarios::{ApiFault, ApiRef, Daemon, Host, Rate, Skew, StageError, What};

/// A node that gets power has its daemons running after this, at least and at most.
const BOOT_TIME: (Duration, Duration) = (Duration::from_millis(300), Duration::from_millis(600));

impl Ground for LabStage {
    fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout)
    }

    fn daemons_of(&self, node: HostId) -> Vec<Daemon> {
        self.posts.iter().filter(|post| post.host == node).map(|post| post.daemon).collect()
    }

    fn has_power(&self, host: HostId) -> bool {
        self.is_up(host)
    }

    fn switch_off(&mut self, node: HostId) -> Result<(), StageError> {
        let name = self.place_name(node)?;
        // First the wire: what the ends of processes make the kernel say is not heard.
        self.desk().lab_mut().unplug(&name).map_err(broken)?;
        // For the rest of the world, all of it ends with that.
        let at = self.chronicle.now();
        for id in self.posts_of(node) {
            self.end_daemon(id, Some(at));
        }
        self.probes.power_off(node);
        self.desk().lab_mut().switch_off(&name).map_err(broken)?;
        self.chronicle.tell_at(at, place(&self.layout, node), What::Power(false));
        Ok(())
    }

    fn switch_on(&mut self, node: HostId) -> Result<(), StageError> {
        let name = self.place_name(node)?;
        self.desk().lab_mut().switch_on(&name).map_err(broken)?;
        let power_up = self.power_ups.entry(node).or_default();
        *power_up += 1;
        let power_up = *power_up;
        self.chronicle.tell(place(&self.layout, node), What::Power(true));
        for id in self.posts_of(node) {
            let delay = self.chance.duration(BOOT_TIME.0, BOOT_TIME.1);
            self.later(delay, Due::Start(id, power_up));
        }
        self.start_asker(node)?;
        self.later(BOOT_TIME.0, Due::ProxySync(node));
        self.later(BOOT_TIME.0, Due::Pods(node, power_up));
        Ok(())
    }

    fn kill(&mut self, node: HostId, daemon: Daemon) -> bool {
        self.post_of(node, daemon).is_some_and(|id| self.kill_daemon(id))
    }

    fn start(&mut self, node: HostId, daemon: Daemon) -> Result<(), StageError> {
        self.post_of(node, daemon).map_or(Ok(()), |id| self.start_daemon(id))
    }

    fn outsiders(&mut self) -> &mut Outsiders {
        &mut self.outsiders
    }

    fn tell_to_leave(&mut self, node: HostId, daemon: Daemon) -> Result<(), StageError> {
        if let Some(id) = self.post_of(node, daemon) {
            self.restart_to_leave(id);
        }
        Ok(())
    }

    fn relay(&mut self, cluster: &ClusterId, layout: Layout) -> Result<(), StageError> {
        self.layout = Arc::new(layout);
        self.desk().set_layout(&self.scenario, Arc::clone(&self.layout));
        self.replace_disks(cluster)?;
        self.rebuild_api(self.api_number(&ApiRef::Cluster(cluster.clone()))?)?;
        self.write_slices(cluster, &|_| true)
    }

    fn set_open(&mut self, ways: &[(HostId, HostId)], open: bool) -> Result<(), StageError> {
        self.desk().lab_mut().set_open(ways, open).map_err(broken)
    }

    fn listen_to_nodes(&mut self) {
        let judgements = {
            let layout = Arc::clone(&self.layout);
            let desk = self.desk.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let is_up = |host: HostId| layout.host(host).is_some_and(|host| desk.lab().is_up(&place_of(&host.host)));
            let is_open = |from, to| is_up(from) && is_up(to) && desk.lab().is_open(from, to);
            self.lifecycles.listen(&layout, is_open)
        };
        for judgement in judgements {
            self.later(judgement.after, Due::Judge(judgement));
        }
    }

    fn forget_mappings(&mut self, site: u8) -> Result<(), StageError> {
        let router = self.desk().lab().router_of_site(site).map_err(broken)?;
        self.desk().lab_mut().set_nat(&router, |state| state.remaps += 1).map(drop).map_err(broken)
    }

    fn change_address(&mut self, site: u8) -> Result<IpAddr, StageError> {
        let router = self.desk().lab().router_of_site(site).map_err(broken)?;
        let moves = |state: &mut crate::topology::nat::State| state.moves = state.moves.wrapping_add(1);
        self.desk().lab_mut().set_nat(&router, moves).map_err(broken)
    }

    fn set_api_fault(&mut self, api: &ApiRef, fault: &ApiFault) -> Result<(), StageError> {
        self.set_fault(self.api_number(api)?, fault)
    }

    fn create_export(&mut self, cluster: &ClusterId, key: &ServiceKey) -> Result<bool, StageError> {
        self.api(&ApiRef::Cluster(cluster.clone()))?.export(cluster, key, apis::wall())
    }

    fn delete_export(&mut self, cluster: &ClusterId, key: &ServiceKey) -> Result<bool, StageError> {
        self.api(&ApiRef::Cluster(cluster.clone()))?.unexport(key)
    }

    fn lifecycles(&mut self) -> &mut Lifecycles {
        &mut self.lifecycles
    }

    fn write_slices(&mut self, cluster: &ClusterId, which: &dyn Fn(&ServiceLayout) -> bool) -> Result<(), StageError> {
        let layout = Arc::clone(&self.layout);
        let api = self.api(&ApiRef::Cluster(cluster.clone()))?;
        for service in layout.services().iter().filter(|service| service.cluster == *cluster && which(service)) {
            api.write_slices(&layout, &self.lifecycles, service)?;
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

    fn set_skew(&mut self, _: HostId, _: Skew) -> Result<(), StageError> {
        Err(StageError::Lacking("all nodes have the machine's clock".into()))
    }

    fn set_rate(&mut self, _: HostId, _: Rate) -> Result<(), StageError> {
        Err(StageError::Lacking("all nodes have the machine's clock".into()))
    }
}

impl LabStage {
    /// Whether a host has power.
    pub(super) fn is_up(&self, host: HostId) -> bool {
        self.place_name(host).is_ok_and(|name| self.desk().lab().is_up(&name))
    }

    /// kube-proxy of a node takes over what its API says, or tries again later.
    pub(super) fn proxy_due(&mut self, host: HostId) -> Result<(), StageError> {
        let layout = Arc::clone(&self.layout);
        let Some(node) = layout.host(host).and_then(|host| host.node.as_ref()) else { return Ok(()) };
        let name = ApiRef::Cluster(node.cluster.clone());
        let Some(api) = layout.find(&Host::Api(name.clone())) else { return Ok(()) };
        if !self.is_up(host) {
            return Ok(());
        }
        let reaches = self.is_serving(&name) && {
            let desk = self.desk();
            desk.lab().is_open(api, host) && desk.lab().is_open(host, api)
        };
        if reaches {
            return self.sync_proxy(host);
        }
        self.later(PROXY_RETRY, Due::ProxySync(host));
        Ok(())
    }

    /// Gives a node's service translation the ready pods of each service.
    pub(super) fn sync_proxy(&self, host: HostId) -> Result<(), StageError> {
        let services = self.lifecycles.services(&self.layout, host);
        let doors = services.into_iter().map(|(door, pods)| (door, pods.into_iter().map(|(pod, _)| pod).collect()));
        self.desk().put_services(&self.place_name(host)?, &doors.collect()).map_err(broken)
    }

    /// The pods of a node come up.
    pub(super) fn pods_due(&mut self, host: HostId, power_up: u64) -> Result<(), StageError> {
        let name: PlaceName = self.place_name(host)?;
        if self.power_ups.get(&host) == Some(&power_up) && self.is_up(host) {
            self.desk().lab_mut().start_pods(&name).map_err(broken)?;
        }
        Ok(())
    }
}
