//! The verbs of a timeline, carried out.

use super::clock::Clock;
use super::{CoreSpeed, Event};
use crate::world::{HostId, export};
use core::time::Duration;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{Api, Object, ServiceKey, Write};
use tombolo_scenarios::{ApiFault, ApiRef, Daemons, Fault, Host, StageError, What};

/// A node that gets power has its daemons running after this, at least and at most.
const BOOT_TIME: (Duration, Duration) = (Duration::from_millis(300), Duration::from_millis(600));

impl CoreSpeed {
    pub(super) fn act_on(&mut self, fault: &Fault) -> Result<String, StageError> {
        match fault {
            Fault::PowerOff(cluster, node) => self.find_node(cluster, node).map(|host| self.power_off(host)),
            Fault::PowerOn(cluster, node) => self.find_node(cluster, node).map(|host| self.power_on(host)),
            Fault::Crash(cluster, node, daemons) => {
                let host = self.find_node(cluster, node)?;
                self.crash(host, *daemons)
            }
            Fault::Start(cluster, node, daemons) => {
                let host = self.find_node(cluster, node)?;
                self.start_daemons(host, *daemons)
            }
            Fault::Cut { from, to, one_way } => self.cut(from, to, *one_way),
            Fault::Heal { from, to } => self.heal(from, to),
            Fault::Api(api, fault) => self.api_fault(api, fault),
            Fault::Export(cluster, key) => self.export(cluster, key),
            Fault::Unexport(cluster, key) => self.unexport(cluster, key),
        }
    }

    fn power_off(&mut self, host: HostId) -> String {
        let place = self.node_place(host);
        if !self.fabric.has_power(host) {
            return format!("{place} had no power already");
        }
        for id in self.daemons_of(host) {
            self.kill(id);
        }
        self.fabric.set_power(host, false);
        self.flows.power_off(host);
        self.tell(place.clone(), What::Power(false));
        self.listen_to_nodes();
        format!("{place} lost power")
    }

    fn power_on(&mut self, host: HostId) -> String {
        let place = self.node_place(host);
        if self.fabric.has_power(host) {
            return format!("{place} had power already");
        }
        self.fabric.set_power(host, true);
        let clock = Clock::new(self.now, &mut self.chance);
        if let Some(old) = self.clocks.get_mut(host.0) {
            *old = clock;
        }
        let power_up = self.power_ups.get_mut(host.0).map_or(0, |count| {
            *count += 1;
            *count
        });
        self.tell(place.clone(), What::Power(true));
        self.listen_to_nodes();
        for id in self.daemons_of(host) {
            let delay = self.chance.duration(BOOT_TIME.0, BOOT_TIME.1);
            self.later(delay, Event::Start(id, power_up));
        }
        self.later(BOOT_TIME.0, Event::ProxySync(host));
        format!("{place} has power")
    }

    fn named(&self, host: HostId, daemons: Daemons) -> Result<Vec<super::ProcessId>, StageError> {
        match daemons {
            Daemons::All => Ok(self.daemons_of(host)),
            Daemons::One(daemon) => {
                let missing = || StageError::Unknown(format!("{daemon} on {}", self.node_place(host)));
                self.find_daemon(host, daemon).map(|id| vec![id]).ok_or_else(missing)
            }
        }
    }

    fn crash(&mut self, host: HostId, daemons: Daemons) -> Result<String, StageError> {
        let mut killed = Vec::new();
        for id in self.named(host, daemons)? {
            if self.kill(id) {
                killed.push(self.processes.get(id.0).map_or("", |process| process.daemon.name()));
            }
        }
        let place = self.node_place(host);
        Ok(if killed.is_empty() {
            format!("nothing ran on {place}")
        } else {
            format!("{place}: {} crashed", killed.join(", "))
        })
    }

    fn start_daemons(&mut self, host: HostId, daemons: Daemons) -> Result<String, StageError> {
        let place = self.node_place(host);
        if !self.fabric.has_power(host) {
            return Ok(format!("{place} has no power"));
        }
        let ids = self.named(host, daemons)?;
        let count = ids.len();
        for id in ids {
            self.start(id);
        }
        Ok(format!("{place}: {count} daemon{} started", if count == 1 { "" } else { "s" }))
    }

    fn find_hosts(&self, hosts: &[Host]) -> Result<Vec<HostId>, StageError> {
        let find = |host: &Host| self.layout.find(host).ok_or_else(|| StageError::Unknown(host.to_string()));
        hosts.iter().map(find).collect()
    }

    fn cut(&mut self, from: &[Host], to: &[Host], one_way: bool) -> Result<String, StageError> {
        let (senders, receivers) = (self.find_hosts(from)?, self.find_hosts(to)?);
        for (sender, receiver) in pairs(&senders, &receivers) {
            self.fabric.cut(sender, receiver);
            if !one_way {
                self.fabric.cut(receiver, sender);
            }
        }
        self.listen_to_nodes();
        let arrow = if one_way { "to" } else { "and" };
        Ok(format!("cut between {} {arrow} {}", names(from), names(to)))
    }

    fn heal(&mut self, from: &[Host], to: &[Host]) -> Result<String, StageError> {
        let (ones, others) = (self.find_hosts(from)?, self.find_hosts(to)?);
        for (one, other) in pairs(&ones, &others) {
            self.fabric.heal(one, other);
            self.fabric.heal(other, one);
        }
        self.listen_to_nodes();
        Ok(format!("healed between {} and {}", names(from), names(to)))
    }

    fn api_number(&self, api: &ApiRef) -> Result<usize, StageError> {
        let found =
            self.find_api(api).or_else(|| self.find_api(&self.settings.broker).filter(|_| *api == ApiRef::Broker));
        found.ok_or_else(|| StageError::Unknown(format!("API of {api}")))
    }

    fn api_fault(&mut self, api: &ApiRef, fault: &ApiFault) -> Result<String, StageError> {
        let number = self.api_number(api)?;
        let ended = self.apis.get_mut(number).map(|api| api.set_fault(fault.clone())).unwrap_or_default();
        self.answer_all(number, ended);
        let how = match fault {
            ApiFault::Healthy => "is healthy".into(),
            ApiFault::Slow(by) => format!("answers {by:?} late"),
            ApiFault::SlowDeletes(by) => format!("deletes {by:?} late"),
            ApiFault::Erroring => "answers every request with an error".into(),
            ApiFault::Down => "is down".into(),
            ApiFault::RestartedEmpty => "restarted with nothing of ours".into(),
            ApiFault::HistoryExpired => "has forgotten its history".into(),
        };
        Ok(format!("the API of {api} {how}"))
    }

    fn export(&mut self, cluster: &ClusterId, key: &ServiceKey) -> Result<String, StageError> {
        let api = self.api_number(&ApiRef::Cluster(cluster.clone()))?;
        let object = Object::ServiceExport(export(key, crate::world::START + self.now));
        let new = self.write_as_world(api, Write::Create(object));
        Ok(format!("{cluster} {} {key}", if new { "exports" } else { "exported already" }))
    }

    fn unexport(&mut self, cluster: &ClusterId, key: &ServiceKey) -> Result<String, StageError> {
        let api = self.api_number(&ApiRef::Cluster(cluster.clone()))?;
        let key_of = Object::ServiceExport(export(key, crate::world::START)).key();
        let version = self.apis.get(api).and_then(|api| api.get(Api::Local, &key_of)).map(|(_, version)| version);
        let gone = version.is_some_and(|version| self.write_as_world(api, Write::Delete(key_of, version)));
        Ok(format!("{cluster} {} {key}", if gone { "no longer exports" } else { "did not export" }))
    }
}

fn pairs<'a>(ones: &'a [HostId], others: &'a [HostId]) -> impl Iterator<Item = (HostId, HostId)> + 'a {
    ones.iter().flat_map(move |one| others.iter().map(move |other| (*one, *other))).filter(|(one, other)| one != other)
}

fn names(hosts: &[Host]) -> String {
    let names: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    names.join(", ")
}
