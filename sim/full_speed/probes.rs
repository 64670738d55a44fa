//! Probes, seen by the world: it gives each to the pod it comes from, and tells its outcome, or after its timeout that
//! there is none.

use super::FullSpeed;
use super::pods::{self, Attempt, Errand, LongFlows, Question, Wait, Whereto};
use super::sockets::{Lost, StackId};
use crate::world::{HostId, ServiceLayout, place};
use core::cell::RefCell;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::AbortHandle;
use tombolo_core::base::Rng;
use tombolo_core::dns::{RecordKind, question};
use tombolo_scenarios::{Outcome, Probe, ProbeId, ProbeTarget, Target, What};

/// Names below are the cluster's own to answer.
const CLUSTER_ZONE: &str = "svc.cluster.local";

#[derive(Debug)]
struct Open {
    node: HostId,
    stack: StackId,
    began: Duration,
    due: Duration,
    wait: Rc<RefCell<Option<Wait>>>,
    task: AbortHandle,
}

/// All probes under way.
#[derive(Debug)]
pub(super) struct Probes {
    open: BTreeMap<ProbeId, Open>,
    done: Rc<RefCell<Vec<(ProbeId, Outcome)>>>,
    long: BTreeMap<HostId, LongFlows>,
    /// What happened last to a packet of a stack on its way to an address.
    losses: BTreeMap<(StackId, SocketAddr), (Duration, String)>,
    chance: Rng,
}

impl Probes {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            open: BTreeMap::new(),
            done: Rc::default(),
            long: BTreeMap::new(),
            losses: BTreeMap::new(),
            chance: Rng::stream(seed, "probes"),
        }
    }

    /// The pods of a node are gone, with all their flows.
    pub(super) fn power_off(&mut self, node: HostId) {
        self.long.remove(&node);
    }
}

impl FullSpeed {
    /// Begins a probe on a node.
    pub(super) fn begin_probe(&mut self, id: ProbeId, node: HostId, probe: &Probe) {
        let began = self.time;
        if !self.fabric.has_power(node) {
            let because = format!("{} has no power", place(&self.layout, node));
            return self.probed(id, node, began, Outcome::Failed { because });
        }
        let layout = Arc::clone(&self.layout);
        let pod = layout.host(node).and_then(|host| host.node.as_ref()).map(|node| node.probe_pod);
        let Some(stack) = pod.and_then(|pod| self.sockets.pod(node, pod)) else { return };
        let wait = Rc::new(RefCell::new(None));
        let attempt = Attempt { id, wait: Rc::clone(&wait), done: Rc::clone(&self.probes.done) };
        self.stir(stack);
        let task = match self.task_of(node, stack, probe, attempt) {
            Ok(task) => task,
            Err(outcome) => return self.probed(id, node, began, outcome),
        };
        let due = began + probe.timeout;
        self.probes.open.insert(id, Open { node, stack, began, due, wait, task });
    }

    /// Puts a probe's task into its pod; or gives its outcome, where nothing is to be sent for that.
    fn task_of(
        &mut self,
        node: HostId,
        stack: StackId,
        probe: &Probe,
        attempt: Attempt,
    ) -> Result<AbortHandle, Outcome> {
        let own = self.sockets.v4(stack);
        let failed = |because: String| Outcome::Failed { because };
        let (whereto, port, protocol) = match &probe.to {
            ProbeTarget::Fetch(Target::Address(address, port, protocol)) => {
                (Whereto::Known(*address), *port, *protocol)
            }
            ProbeTarget::Fetch(Target::Name(name, port, protocol)) => (self.whereto(node, name)?, *port, *protocol),
            ProbeTarget::Resolve(name) => {
                let question = match self.whereto(node, name) {
                    Ok(Whereto::Asked(question)) => question,
                    Ok(Whereto::Known(address)) => {
                        return Err(Outcome::Resolved { rcode: "NOERROR".into(), addresses: vec![address] });
                    }
                    Err(Outcome::Failed { .. }) if self.cluster_zone(node, name) == Some(None) => {
                        return Err(Outcome::Resolved { rcode: "NXDOMAIN".into(), addresses: Vec::new() });
                    }
                    Err(outcome) => return Err(outcome),
                };
                let process = self.pod_process(stack).map_err(|error| failed(error.to_string()))?;
                return Ok(process.spawn(pods::resolve(own, question, attempt)));
            }
        };
        let held = match &probe.to {
            ProbeTarget::Fetch(target) if probe.held => {
                Some((target.clone(), Rc::clone(self.probes.long.entry(node).or_default())))
            }
            ProbeTarget::Fetch(_) | ProbeTarget::Resolve(_) => None,
        };
        let errand = Errand { own, whereto, port, protocol, held };
        let process = self.pod_process(stack).map_err(|error| failed(error.to_string()))?;
        Ok(process.spawn(pods::fetch(errand, attempt)))
    }

    fn whereto(&mut self, node: HostId, name: &str) -> Result<Whereto, Outcome> {
        let failed = |because: String| Outcome::Failed { because };
        match self.cluster_zone(node, name) {
            Some(Some(address)) => return Ok(Whereto::Known(address)),
            Some(None) => return Err(failed(format!("{name}: NXDOMAIN"))),
            None => {}
        }
        let id = u16::try_from(self.probes.chance.below(65_536)).unwrap_or(0);
        let query = question(id, name, RecordKind::A).map_err(|error| failed(error.to_string()))?;
        let server = self.dns_server(node).ok_or_else(|| failed("no DNS server".into()))?;
        Ok(Whereto::Asked(Question { name: name.to_owned(), id, query, server }))
    }

    /// The answer of the cluster's own DNS, if the name is in its zone.
    fn cluster_zone(&self, node: HostId, name: &str) -> Option<Option<IpAddr>> {
        let inside = name.trim_end_matches('.').strip_suffix(CLUSTER_ZONE)?.strip_suffix('.')?;
        let cluster = &self.layout.host(node)?.node.as_ref()?.cluster;
        let named = |service: &&ServiceLayout| {
            service.cluster == *cluster
                && !service.headless
                && inside.split('.').eq([service.key.name.as_str(), service.key.namespace.as_str()])
        };
        Some(self.layout.services().iter().find(named).map(|service| service.cluster_ip))
    }

    /// The address of the cluster's clusterset DNS server.
    fn dns_server(&self, node: HostId) -> Option<IpAddr> {
        let cluster = &self.layout.host(node)?.node.as_ref()?.cluster;
        self.layout.host(self.layout.home_of_singletons(cluster)?).map(|host| host.address)
    }

    /// A packet was lost: it is told if the probe that sent it fails.
    pub(super) fn packet_lost(&mut self, lost: Lost) {
        if self.probes.open.values().any(|open| open.stack == lost.from) {
            let told = format!("{}: {}", place(&self.layout, lost.host), lost.why);
            self.probes.losses.insert((lost.from, lost.dialled), (self.time, told));
        }
    }

    /// Tells the outcomes that have come, and those of probes whose time is over.
    pub(super) fn tell_probes(&mut self) {
        let done = core::mem::take(&mut *self.probes.done.borrow_mut());
        for (id, outcome) in done {
            if let Some(open) = self.probes.open.remove(&id) {
                self.probed(id, open.node, open.began, outcome);
            }
        }
        let now = self.time;
        let over: Vec<ProbeId> =
            self.probes.open.iter().filter(|(_, open)| open.due <= now).map(|(id, _)| *id).collect();
        for id in over {
            let Some(open) = self.probes.open.remove(&id) else { continue };
            open.task.abort();
            let because = self.why(&open);
            self.probed(id, open.node, open.began, Outcome::Failed { because });
        }
    }

    fn why(&self, open: &Open) -> String {
        let Some(wait) = *open.wait.borrow() else { return "the pod did not get to it".into() };
        let loss = self.probes.losses.get(&(open.stack, wait.dialled())).filter(|(at, _)| *at >= open.began);
        match loss {
            Some((_, loss)) => format!("{} ({loss})", wait.told()),
            None => wait.told(),
        }
    }

    fn probed(&mut self, id: ProbeId, node: HostId, began: Duration, outcome: Outcome) {
        self.chronicle.tell(place(&self.layout, node), What::Probed { id, began, outcome });
    }
}
