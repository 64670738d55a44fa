//! Probes: each is given to the probe pod of the node that it comes from, where a thread asks for it.

use super::{LabStage, broken};
use crate::process::Process;
use crate::topology::PlaceName;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tombolo_cluster::asking::{Errand, LongFlows, Net, Waiting, errand, go};
use tombolo_core::base::Rng;
use tombolo_scenarios::ground::place;
use tombolo_scenarios::layout::HostId;
use tombolo_scenarios::{Outcome, Place, Probe, ProbeId, StageError, What};

/// An outcome that has not come for so long beyond its time never comes: its pod is gone, or hangs.
const OVERDUE: Duration = Duration::from_millis(100);

/// The kernel's sockets.
struct Real;

impl Net for Real {
    type Stream = TcpStream;
    type Datagrams = UdpSocket;

    async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn bind(own: Ipv4Addr) -> impl Future<Output = io::Result<UdpSocket>> {
        UdpSocket::bind((own, 0))
    }

    async fn send_to(socket: &UdpSocket, bytes: &[u8], to: SocketAddr) {
        let _ = socket.send_to(bytes, to).await;
    }

    fn recv_from(socket: &UdpSocket, buffer: &mut [u8]) -> impl Future<Output = io::Result<(usize, SocketAddr)>> {
        socket.recv_from(buffer)
    }
}

/// A probe under way.
#[derive(Clone, Debug)]
struct Open {
    place: Place,
    began: Duration,
    due: Duration,
}

/// What is under way. Clones are the same.
#[derive(Clone, Debug, Default)]
struct UnderWay(Arc<Mutex<BTreeMap<ProbeId, Open>>>);

impl UnderWay {
    fn all(&self) -> MutexGuard<'_, BTreeMap<ProbeId, Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A probe for an asker.
struct Asked {
    id: ProbeId,
    errand: Errand,
    timeout: Duration,
}

/// What lives in a probe pod.
struct Asker {
    asked: mpsc::UnboundedSender<Asked>,
    _process: Process,
}

/// All that asks.
pub(super) struct Probes {
    askers: BTreeMap<HostId, Asker>,
    under_way: UnderWay,
    chance: Rng,
}

impl Probes {
    pub(super) fn new(seed: u64) -> Self {
        Self { askers: BTreeMap::new(), under_way: UnderWay::default(), chance: Rng::stream(seed, "probes") }
    }

    /// The pods of a node are gone, with all their flows.
    pub(super) fn power_off(&mut self, node: HostId) {
        self.askers.remove(&node);
    }
}

impl LabStage {
    /// Starts what asks in the probe pod of a node.
    pub(super) fn start_asker(&mut self, host: HostId) -> Result<(), StageError> {
        let layout = Arc::clone(&self.layout);
        let Some(node) = layout.host(host).and_then(|host| host.node.as_ref()) else { return Ok(()) };
        let IpAddr::V4(own) = node.probe_pod else { return Ok(()) };
        let (asked, wanted) = mpsc::unbounded_channel();
        let name = PlaceName::Pod(node.cluster.clone(), node.name.clone(), "probe".into());
        let (chronicle, under_way) = (self.chronicle.clone(), self.probes.under_way.clone());
        let tell = move |id: ProbeId, outcome: Outcome| {
            if let Some(open) = under_way.all().remove(&id) {
                chronicle.tell(open.place, What::Probed { id, began: open.began, outcome });
            }
        };
        let process = {
            let desk = self.desk();
            Process::start(desk.lab().place(&name).map_err(broken)?, move || live(own, wanted, tell))
        };
        self.probes.askers.insert(host, Asker { asked, _process: process.map_err(broken)? });
        Ok(())
    }

    /// Begins a probe on a node. It counts as begun when it was to begin: the machine may be late, and that is no gap
    /// between probes.
    pub(super) fn begin_probe(&mut self, id: ProbeId, host: HostId, probe: &Probe) -> Result<(), StageError> {
        let (began, now, at) = (self.reached, self.chronicle.now(), place(&self.layout, host));
        let number = || u16::try_from(self.probes.chance.below(65_536)).unwrap_or(0);
        let errand = match self.probes.askers.get(&host) {
            Some(asker) => errand(&self.layout, host, probe, number).map(|errand| (asker, errand)),
            None => Err(Outcome::Failed { because: format!("{at} has no power") }),
        };
        match errand {
            Err(outcome) => self.chronicle.tell(at, What::Probed { id, began, outcome }),
            Ok((asker, errand)) => {
                let due = now + probe.timeout;
                self.probes.under_way.all().insert(id, Open { place: at, began, due });
                let asked = Asked { id, errand, timeout: probe.timeout };
                asker.asked.send(asked).map_err(|_| StageError::Broken(format!("the probe pod of {host:?} ended")))?;
            }
        }
        Ok(())
    }

    /// Tells of probes whose pod cannot.
    pub(super) fn tell_overdue(&self, now: Duration) {
        let mut under_way = self.probes.under_way.all();
        let over: Vec<ProbeId> =
            under_way.iter().filter(|(_, open)| open.due + OVERDUE <= now).map(|(id, _)| *id).collect();
        for id in over {
            let Some(Open { place, began, .. }) = under_way.remove(&id) else { continue };
            let outcome = Outcome::Failed { because: "its pod was gone, or did not get to it".into() };
            self.chronicle.tell(place, What::Probed { id, began, outcome });
        }
    }
}

async fn live(
    own: Ipv4Addr,
    mut wanted: mpsc::UnboundedReceiver<Asked>,
    tell: impl Fn(ProbeId, Outcome) + Clone + 'static,
) {
    let flows = LongFlows::<Real>::default();
    while let Some(Asked { id, errand, timeout }) = wanted.recv().await {
        let (flows, tell) = (flows.clone(), tell.clone());
        spawn_local(async move {
            let waiting = Waiting::default();
            let outcome = tokio::time::timeout(timeout, go(own, &errand, &flows, &waiting)).await;
            let late = || waiting.get().map_or_else(|| "the pod did not get to it".into(), |wait| wait.to_string());
            tell(id, outcome.map_or_else(|_| Outcome::Failed { because: late() }, named));
        });
    }
}

/// A pod of a lab answers with its whole name, `east/worker/shop.web.1`, and more; verdicts know nodes.
fn named(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Fetched { address, server } => {
            let node = server.split([' ', '\n']).next().and_then(|name| name.split('/').nth(1)).map(ToOwned::to_owned);
            Outcome::Fetched { address, server: node.unwrap_or(server) }
        }
        other @ (Outcome::Resolved { .. } | Outcome::Failed { .. }) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_named_after_the_node_of_its_pod() {
        let of = |server: &str| named(Outcome::Fetched { address: [10, 1, 0, 1].into(), server: server.into() });
        assert_eq!(of("east/gw-a/shop.web.2 10.1.0.2:4000\n"), of("gw-a"));
        assert_eq!(of("east/gw-a/shop.web.2 10.1.0.2:4000 who are you?"), of("gw-a"));
    }
}
