//! The verbs of a timeline ([`crate::world`]), carried out at core speed.

use super::{CoreSpeed, Event, ProcessId};
use crate::world::{Clock, Ground, HostId, Layout, Lifecycles, Outsiders, RESLICE_TIME, ServiceLayout, export};
use core::time::Duration;
use std::net::IpAddr;
use std::sync::Arc;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{Api, Kind, Object, ServiceKey, Write};
use tombolo_core::roles::Input;
use tombolo_scenarios::{ApiFault, ApiRef, Daemon, Rate, Skew, StageError, What};

/// A node that gets power has its daemons running after this, at least and at most.
const BOOT_TIME: (Duration, Duration) = (Duration::from_millis(300), Duration::from_millis(600));

impl Ground for CoreSpeed {
    fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout)
    }

    fn daemons_of(&self, node: HostId) -> Vec<Daemon> {
        let ids = self.processes_of(node);
        ids.iter().filter_map(|id| self.processes.get(id.0)).map(|process| process.daemon).collect()
    }

    fn has_power(&self, host: HostId) -> bool {
        self.fabric.has_power(host)
    }

    fn switch_off(&mut self, node: HostId) -> Result<(), StageError> {
        for id in self.processes_of(node) {
            self.kill_process(id);
        }
        self.fabric.set_power(node, false);
        self.flows.power_off(node);
        self.tell(self.node_place(node), What::Power(false));
        Ok(())
    }

    fn switch_on(&mut self, node: HostId) -> Result<(), StageError> {
        self.fabric.set_power(node, true);
        if let Some(clock) = self.clocks.get_mut(node.0) {
            clock.boot(self.now, &mut self.chance);
        }
        let power_up = self.power_ups.get_mut(node.0).map_or(0, |count| {
            *count += 1;
            *count
        });
        self.tell(self.node_place(node), What::Power(true));
        for id in self.processes_of(node) {
            let delay = self.chance.duration(BOOT_TIME.0, BOOT_TIME.1);
            self.later(delay, Event::Start(id, power_up));
        }
        self.later(BOOT_TIME.0, Event::ProxySync(node));
        Ok(())
    }

    fn kill(&mut self, node: HostId, daemon: Daemon) -> bool {
        self.find_daemon(node, daemon).is_some_and(|id| self.kill_process(id))
    }

    fn start(&mut self, node: HostId, daemon: Daemon) -> Result<(), StageError> {
        if let Some(id) = self.find_daemon(node, daemon) {
            self.start_process(id);
        }
        Ok(())
    }

    fn outsiders(&mut self) -> &mut Outsiders {
        &mut self.outsiders
    }

    fn tell_to_leave(&mut self, node: HostId, daemon: Daemon) -> Result<(), StageError> {
        let id = self.find_daemon(node, daemon);
        if let Some(client) = id.and_then(|id| Some(self.processes.get(id.0)?.client(id))) {
            self.feed(client, Input::Leave);
        }
        Ok(())
    }

    fn relay(&mut self, cluster: &ClusterId, layout: Layout) -> Result<(), StageError> {
        self.layout = Arc::new(layout);
        self.fabric.set_layout(Arc::clone(&self.layout));
        let number = self.api_number(&ApiRef::Cluster(cluster.clone()))?;
        let Some(api) = self.apis.get_mut(number) else { return Ok(()) };
        let (exported, ended) = (api.exported(), api.rebuild());
        self.answer_all(number, ended);
        for object in self.layout.objects(cluster) {
            if object.kind() != Kind::ServiceExport {
                self.write_as_world(number, Write::Create(object));
            }
        }
        for key in exported {
            self.create_export(cluster, &key)?;
        }
        self.write_slices(cluster, &|_| true)
    }

    fn set_open(&mut self, ways: &[(HostId, HostId)], open: bool) -> Result<(), StageError> {
        self.fabric.set_open(ways, open);
        Ok(())
    }

    fn listen_to_nodes(&mut self) {
        let fabric = &self.fabric;
        for judgement in self.lifecycles.listen(&self.layout, |from, to| fabric.is_open(from, to)) {
            self.later(judgement.after, Event::NodeDue(judgement));
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
        let ended = self.apis.get_mut(number).map(|api| api.set_fault(fault.clone())).unwrap_or_default();
        self.answer_all(number, ended);
        Ok(())
    }

    fn create_export(&mut self, cluster: &ClusterId, key: &ServiceKey) -> Result<bool, StageError> {
        let api = self.api_number(&ApiRef::Cluster(cluster.clone()))?;
        let object = Object::from(export(key, crate::world::START + self.now));
        Ok(self.write_as_world(api, Write::Create(object)))
    }

    fn lifecycles(&mut self) -> &mut Lifecycles {
        &mut self.lifecycles
    }

    fn write_slices(&mut self, cluster: &ClusterId, which: &dyn Fn(&ServiceLayout) -> bool) -> Result<(), StageError> {
        self.put_slices(cluster, which);
        Ok(())
    }

    fn move_back_later(&mut self, cluster: &ClusterId, key: &ServiceKey) {
        self.later(RESLICE_TIME, Event::Resliced(cluster.clone(), key.clone()));
    }

    fn delete_export(&mut self, cluster: &ClusterId, key: &ServiceKey) -> Result<bool, StageError> {
        let api = self.api_number(&ApiRef::Cluster(cluster.clone()))?;
        let key_of = Object::from(export(key, crate::world::START)).key();
        let version = self.apis.get(api).and_then(|api| api.get(Api::Local, &key_of)).map(|(_, version)| version);
        Ok(version.is_some_and(|version| self.write_as_world(api, Write::Delete(key_of, version))))
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

impl CoreSpeed {
    /// Changes the clocks of a node, with the time that it is: all its daemons go by the new ones.
    fn change_clock(&mut self, node: HostId, change: impl Fn(&mut Clock, Duration)) {
        if let Some(clock) = self.clocks.get_mut(node.0) {
            change(clock, self.now);
        }
        for id in self.processes_of(node) {
            self.sleep_anew(id);
        }
    }

    fn api_number(&self, api: &ApiRef) -> Result<usize, StageError> {
        let found =
            self.find_api(api).or_else(|| self.find_api(&self.settings.broker).filter(|_| *api == ApiRef::Broker));
        found.ok_or_else(|| StageError::Unknown(format!("API of {api}")))
    }

    fn processes_of(&self, host: HostId) -> Vec<ProcessId> {
        let all = self.processes.iter().enumerate().filter(|(_, process)| process.host == host);
        all.map(|(index, _)| ProcessId(index)).collect()
    }
}
