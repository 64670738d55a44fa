//! API servers: the embedded one of each cluster, served on the stack of its host.

use super::chronicle::Chronicle;
use super::process::{NAP, Process};
use super::sockets::{StackId, TcpListener};
use super::{FullSpeed, FullSpeedError};
use crate::world::{HostId, START};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::task::spawn_local;
use tombolo_apiserver::ApiServer;
use tombolo_cluster::{API_PORT, ClusterApi, Process as Becomes, process_after};
use tombolo_core::base::Rng;
use tombolo_scenarios::{ApiFault, ApiRef, Host, StageError};

/// One API server.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) api: ClusterApi,
    pub(super) host: HostId,
    /// None while it is down.
    pub(super) process: Option<Process>,
    /// How often it was started.
    starts: u64,
}

impl From<StageError> for FullSpeedError {
    fn from(error: StageError) -> Self {
        Self::Api(error.to_string())
    }
}

impl FullSpeed {
    /// Makes the server of each API, with what its cluster has without us.
    pub(super) fn build_apis(&mut self, own_broker: bool) -> Result<(), FullSpeedError> {
        let layout = Arc::clone(&self.layout);
        let names = layout.clusters().cloned().map(ApiRef::Cluster);
        for name in names.chain(own_broker.then_some(ApiRef::Broker)) {
            let Some(host) = layout.find(&Host::Api(name.clone())) else { continue };
            let seed = Rng::stream(self.seed, &format!("api {name}")).bits();
            let (clock, chronicle) = (self.chronicle.clone(), self.chronicle.clone());
            let tell = move |place, what| chronicle.tell(place, what);
            let api = ClusterApi::new(&layout, name, seed, move || START + clock.now(), tell)?;
            self.apis.push(Served { api, host, process: None, starts: 0 });
            self.start_api(self.apis.len() - 1)?;
        }
        Ok(())
    }

    /// Something is about to be written by the cluster itself.
    pub(super) fn stir_api(&self, number: usize) -> Option<&ClusterApi> {
        let served = self.apis.get(number)?;
        self.stir(StackId(served.host.0));
        Some(&served.api)
    }

    /// The API is another cluster's now.
    pub(super) fn rebuild_api(&mut self, number: usize) -> Result<(), FullSpeedError> {
        let (layout, at) = (Arc::clone(&self.layout), START + self.time);
        let Some(ran) = self.apis.get(number).map(|api| api.process.is_some()) else { return Ok(()) };
        self.stop_api(number);
        if let Some(served) = self.apis.get_mut(number) {
            served.api.rebuild(&layout, at)?;
        }
        if ran { self.start_api(number) } else { Ok(()) }
    }

    /// Starts an API, unless it runs.
    pub(super) fn start_api(&mut self, number: usize) -> Result<(), FullSpeedError> {
        let (now, seed) = (self.time, self.seed);
        let Some(api) = self.apis.get(number).filter(|api| api.process.is_none()) else { return Ok(()) };
        if api.starts > 0 {
            self.free_port(StackId(api.host.0));
        }
        let Some(api) = self.apis.get_mut(number) else { return Ok(()) };
        api.starts += 1;
        let seed = Rng::stream(seed, &format!("api {} {}", api.api.name(), api.starts)).bits();
        let process = Process::new(now, seed, NAP)?;
        let stack = StackId(api.host.0);
        process.spawn(serve(
            api.api.name().clone(),
            api.api.server().clone(),
            self.sockets.v4(stack),
            self.chronicle.clone(),
        ));
        api.process = Some(process);
        Ok(())
    }

    /// Kills the process of an API: its host closes all connections, and answers no new one.
    pub(super) fn stop_api(&mut self, number: usize) {
        let Some(api) = self.apis.get_mut(number) else { return };
        let stack = StackId(api.host.0);
        self.sockets.enter(stack);
        api.process = None;
        self.sockets.set_silent(stack, true);
    }

    /// Lets nothing of an API's former process stand in the way of the next: a connection that is still being closed holds
    /// the port (the simulated sockets have no `SO_REUSEADDR`).
    fn free_port(&mut self, stack: StackId) {
        // The ends of connections leave before these are forgotten; what is forgotten is gone once all has been sent.
        self.sockets.send_all(self.time, &mut self.fabric);
        self.sockets.forget(stack);
        self.sockets.send_all(self.time, &mut self.fabric);
        self.sockets.set_silent(stack, false);
    }

    /// The number of an API.
    pub(super) fn find_api(&self, name: &ApiRef) -> Option<usize> {
        self.apis.iter().position(|served| served.api.name() == name)
    }

    /// Whether an API's process runs.
    pub(super) fn is_serving(&self, name: &ApiRef) -> bool {
        self.find_api(name).and_then(|number| self.apis.get(number)).is_some_and(|api| api.process.is_some())
    }

    /// Lets an API behave like this.
    pub(super) fn set_fault(&mut self, number: usize, fault: &ApiFault) -> Result<(), FullSpeedError> {
        let Some(served) = self.apis.get(number) else { return Ok(()) };
        self.stir(StackId(served.host.0));
        let process = process_after(fault);
        if matches!(process, Becomes::Ends | Becomes::Restarts) {
            self.stop_api(number);
        }
        if let Some(served) = self.apis.get_mut(number) {
            served.api.suffer(fault);
        }
        match process {
            Becomes::Stays | Becomes::Ends => Ok(()),
            Becomes::Runs | Becomes::Restarts => self.start_api(number),
        }
    }
}

async fn serve(name: ApiRef, server: ApiServer, own: Ipv4Addr, chronicle: Chronicle) {
    let listener = match TcpListener::bind(SocketAddr::new(own.into(), API_PORT)).await {
        Ok(listener) => listener,
        Err(error) => return chronicle.broke(format!("the API of {name} cannot serve: {error}")),
    };
    while let Ok((stream, _)) = listener.accept().await {
        let server = server.clone();
        spawn_local(async move {
            // However the connection ends, it is the client's to notice.
            let _ = server.serve_connection(stream).await;
        });
    }
}
