//! API servers: the embedded one of each cluster, over TCP in the place of its host.

use super::{LabStage, broken};
use crate::process::Process;
use crate::topology::PlaceName;
use core::time::Duration;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::task::spawn_local;
use tombolo_apiserver::ApiServer;
use tombolo_cluster::{API_PORT, ClusterApi, Process as Becomes, process_after};
use tombolo_core::base::{Rng, Wall};
use tombolo_scenarios::{ApiFault, ApiRef, Broker, StageError};

/// What the machine's wall clock reads.
pub(super) fn wall() -> Wall {
    Wall::default() + SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// One API server.
pub(super) struct Served {
    pub(super) api: ClusterApi,
    /// None while it is down.
    process: Option<Process>,
}

impl LabStage {
    /// Makes the server of each API, with what its cluster has without us.
    pub(super) fn build_apis(&mut self, seed: u64) -> Result<(), StageError> {
        let layout = Arc::clone(&self.layout);
        let own = (self.scenario.broker == Broker::Own).then_some(ApiRef::Broker);
        for name in layout.clusters().cloned().map(ApiRef::Cluster).chain(own) {
            let seed = Rng::stream(seed, &format!("api {name}")).bits();
            let chronicle = self.chronicle.clone();
            let api = ClusterApi::new(&layout, name, seed, wall, move |place, what| chronicle.tell(place, what))?;
            self.apis.push(Served { api, process: None });
            self.start_api(self.apis.len() - 1)?;
        }
        Ok(())
    }

    /// Starts an API, unless it runs.
    fn start_api(&mut self, number: usize) -> Result<(), StageError> {
        let Some(served) = self.apis.get(number).filter(|served| served.process.is_none()) else { return Ok(()) };
        let server = served.api.server().clone();
        let process = {
            let desk = self.desk();
            let place = desk.lab().place(&PlaceName::Api(served.api.name().clone())).map_err(broken)?;
            let open = || -> std::io::Result<TcpListener> {
                let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, API_PORT))?;
                listener.set_nonblocking(true)?;
                Ok(listener)
            };
            let listener = place.run(open).map_err(broken)?.map_err(broken)?;
            Process::start(place, move || serve(listener, server)).map_err(broken)?
        };
        if let Some(served) = self.apis.get_mut(number) {
            served.process = Some(process);
        }
        Ok(())
    }

    fn stop_api(&mut self, number: usize) {
        if let Some(served) = self.apis.get_mut(number) {
            served.process = None;
        }
    }

    /// The number of an API; that of the broker is a member's, if it has none of its own.
    pub(super) fn api_number(&self, api: &ApiRef) -> Result<usize, StageError> {
        let api = if *api == ApiRef::Broker { &self.setup.broker } else { api };
        let found = self.apis.iter().position(|served| served.api.name() == api);
        found.ok_or_else(|| StageError::Unknown(format!("API of {api}")))
    }

    /// What an API stores.
    pub(super) fn api(&self, name: &ApiRef) -> Result<&ClusterApi, StageError> {
        let served = self.apis.get(self.api_number(name)?);
        served.map(|served| &served.api).ok_or_else(|| StageError::Unknown(format!("API of {name}")))
    }

    /// Whether an API is served.
    pub(super) fn is_serving(&self, name: &ApiRef) -> bool {
        let served = self.api_number(name).ok().and_then(|number| self.apis.get(number));
        served.is_some_and(|served| served.process.is_some())
    }

    /// Lets an API behave like this.
    pub(super) fn set_fault(&mut self, number: usize, fault: &ApiFault) -> Result<(), StageError> {
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

    /// The API is another cluster's now.
    pub(super) fn rebuild_api(&mut self, number: usize) -> Result<(), StageError> {
        let layout = Arc::clone(&self.layout);
        let Some(served) = self.apis.get_mut(number) else { return Ok(()) };
        let ran = served.process.take().is_some();
        served.api.rebuild(&layout, wall())?;
        if ran { self.start_api(number) } else { Ok(()) }
    }
}

async fn serve(listener: TcpListener, server: ApiServer) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        // An error is about a connection that is gone by now.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let server = server.clone();
        spawn_local(async move {
            // However the connection ends, it is the client's to notice.
            let _ = server.serve_connection(stream).await;
        });
    }
}
