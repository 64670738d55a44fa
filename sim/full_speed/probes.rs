//! Probes, seen by the world: it gives each to the pod it comes from, and tells its outcome, or after its timeout that
//! there is none.

use super::FullSpeed;
use super::pods::Simulated;
use super::sockets::{Lost, StackId};
use crate::world::{HostId, place};
use core::cell::RefCell;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::AbortHandle;
use tombolo_cluster::asking::{LongFlows, Waiting, errand, go};
use tombolo_core::base::Rng;
use tombolo_scenarios::{Outcome, Probe, ProbeId, What};

#[derive(Debug)]
struct Open {
    node: HostId,
    stack: StackId,
    began: Duration,
    due: Duration,
    waiting: Waiting,
    task: AbortHandle,
}

/// All probes under way.
#[derive(Debug)]
pub(super) struct Probes {
    open: BTreeMap<ProbeId, Open>,
    done: Rc<RefCell<Vec<(ProbeId, Outcome)>>>,
    long: BTreeMap<HostId, LongFlows<Simulated>>,
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
        self.stir(stack);
        let number = || u16::try_from(self.probes.chance.below(65_536)).unwrap_or(0);
        let errand = match errand(&layout, node, probe, number) {
            Ok(errand) => errand,
            Err(outcome) => return self.probed(id, node, began, outcome),
        };
        let (waiting, done) = (Waiting::default(), Rc::clone(&self.probes.done));
        let flows = self.probes.long.entry(node).or_default().clone();
        let (own, asks) = (self.sockets.v4(stack), waiting.clone());
        let task = async move {
            let outcome = go::<Simulated>(own, &errand, &flows, &asks).await;
            done.borrow_mut().push((id, outcome));
        };
        let task = match self.pod_process(stack) {
            Ok(process) => process.spawn(task),
            Err(error) => return self.probed(id, node, began, Outcome::Failed { because: error.to_string() }),
        };
        let due = began + probe.timeout;
        self.probes.open.insert(id, Open { node, stack, began, due, waiting, task });
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
        let Some(wait) = open.waiting.get() else { return "the pod did not get to it".into() };
        let loss = self.probes.losses.get(&(open.stack, wait.dialled())).filter(|(at, _)| *at >= open.began);
        match loss {
            Some((_, loss)) => format!("{wait} ({loss})"),
            None => wait.to_string(),
        }
    }

    fn probed(&mut self, id: ProbeId, node: HostId, began: Duration, outcome: Outcome) {
        self.chronicle.tell(place(&self.layout, node), What::Probed { id, began, outcome });
    }
}
