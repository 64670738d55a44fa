//! The verbs of a timeline ([`crate::world`]), carried out at core speed.

use super::flows::Payload;
use super::{CoreSpeed, Event, ProcessId};
use crate::world::{Clock, Fabric, Ground, HostId, Layout, Outsiders, RESLICE_TIME, export};
use core::time::Duration;
use std::sync::Arc;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{Api, Kind, Object, ServiceKey, Write};
use tombolo_core::roles::Input;
use tombolo_scenarios::{ApiFault, ApiRef, Daemon, StageError, What};

/// A node that gets power has its daemons running after this, at least and at most.
const BOOT_TIME: (Duration, Duration) = (Duration::from_millis(300), Duration::from_millis(600));

impl Ground for CoreSpeed {
    type Payload = Payload;

    fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout)
    }

    fn fabric(&mut self) -> &mut Fabric<Payload> {
        &mut self.fabric
    }

    fn daemons_of(&self, node: HostId) -> Vec<Daemon> {
        let ids = self.processes_of(node);
        ids.iter().filter_map(|id| self.processes.get(id.0)).map(|process| process.daemon).collect()
    }

    fn switch_off(&mut self, node: HostId) {
        for id in self.processes_of(node) {
            self.kill_process(id);
        }
        self.fabric.set_power(node, false);
        self.flows.power_off(node);
        self.tell(self.node_place(node), What::Power(false));
    }

    fn switch_on(&mut self, node: HostId) {
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
    }

    fn kill(&mut self, node: HostId, daemon: Daemon) -> bool {
        self.find_daemon(node, daemon).is_some_and(|id| self.kill_process(id))
    }

    fn start(&mut self, node: HostId, daemon: Daemon) {
        if let Some(id) = self.find_daemon(node, daemon) {
            self.start_process(id);
        }
    }

    fn outsiders(&mut self) -> &mut Outsiders {
        &mut self.outsiders
    }

    fn tell_to_leave(&mut self, node: HostId, daemon: Daemon) {
        let id = self.find_daemon(node, daemon);
        if let Some(client) = id.and_then(|id| Some(self.processes.get(id.0)?.client(id))) {
            self.feed(client, Input::Leave);
        }
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
        self.write_slices(cluster, |_| true);
        Ok(())
    }

    fn listen_to_nodes(&mut self) {
        for judgement in self.lifecycles.listen(&self.fabric) {
            self.later(judgement.after, Event::NodeDue(judgement));
        }
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

    fn set_ready(&mut self, cluster: &ClusterId, key: &ServiceKey, ready: bool) -> Result<bool, StageError> {
        let new = self.lifecycles.set_ready(cluster, key, ready);
        if new {
            self.write_slices(cluster, |service| service.key == *key);
        }
        Ok(new)
    }

    fn reslice(&mut self, cluster: &ClusterId, key: &ServiceKey) -> Result<bool, StageError> {
        let new = self.lifecycles.set_moving(cluster, key, true);
        if new {
            self.write_slices(cluster, |service| service.key == *key);
            self.later(RESLICE_TIME, Event::Resliced(cluster.clone(), key.clone()));
        }
        Ok(new)
    }

    fn delete_export(&mut self, cluster: &ClusterId, key: &ServiceKey) -> Result<bool, StageError> {
        let api = self.api_number(&ApiRef::Cluster(cluster.clone()))?;
        let key_of = Object::from(export(key, crate::world::START)).key();
        let version = self.apis.get(api).and_then(|api| api.get(Api::Local, &key_of)).map(|(_, version)| version);
        Ok(version.is_some_and(|version| self.write_as_world(api, Write::Delete(key_of, version))))
    }

    fn change_clock(&mut self, node: HostId, change: &dyn Fn(&mut Clock, Duration)) {
        if let Some(clock) = self.clocks.get_mut(node.0) {
            change(clock, self.now);
        }
        for id in self.processes_of(node) {
            self.sleep_anew(id);
        }
    }
}

impl CoreSpeed {
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
