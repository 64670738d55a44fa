//! Starting and stopping.

use crate::counts::{Counts, Tally};
use crate::desk::{Answering, Desk};
use crate::error::Error;
use crate::settings::Settings;
use crate::sockets::Opened;
use crate::zone::{Reader, Zone};
use crate::{datagrams, streams};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use tokio::runtime;
use tombolo_core::base::Cidr;
use tombolo_core::dns::Table;

/// The server, while it runs. Dropped, it stops: what has come is answered, sockets are closed, threads end.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<SocketAddr>,
    counts: Vec<Arc<Counts>>,
    /// Closed, it tells all threads to end.
    end: Option<UnixStream>,
    threads: Vec<JoinHandle<()>>,
    zone: Reader,
}

impl Server {
    /// Opens all sockets, and answers from `table` until the hand swaps it.
    ///
    /// # Errors
    /// An [`Error`]; nothing is left behind then.
    pub fn start(settings: &Settings, table: Arc<Table>) -> Result<(Self, Zone), Error> {
        Self::answering(settings, table, Answering::default())
    }

    pub(crate) fn answering(
        settings: &Settings,
        table: Arc<Table>,
        answering: Answering,
    ) -> Result<(Self, Zone), Error> {
        if settings.listen.is_empty() {
            return Err(Error::Nowhere);
        }
        let opened = settings.listen.iter().map(|at| Opened::at(*at, settings.sockets.get()));
        let opened = opened.collect::<Result<Vec<Opened>, Error>>()?;
        let zone = Zone::new(table);
        let (end, ended) = UnixStream::pair().map_err(lacking("pair of sockets"))?;
        let server = Self {
            addresses: Vec::new(),
            counts: Vec::new(),
            end: Some(end),
            threads: Vec::new(),
            zone: zone.reader(),
        };
        let opening = Opening { server, answering, clients: settings.clients.clone().into(), ended };
        Ok((opening.start(opened, settings)?, zone))
    }

    /// Where it listens, in the order of the settings.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Whether it has anything to say: until then all names are SERVFAIL, and whoever sends questions here should not yet
    /// (B54).
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.zone.table().synced()
    }

    /// What it has done so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally::of(self.counts.iter().map(Arc::as_ref))
    }

    /// Stops, and waits until it has.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end = None;
        for thread in self.threads.drain(..) {
            // It fails only if the thread panicked, which was told by then.
            let _ = thread.join();
        }
    }
}

fn lacking(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Start { what, source }
}

/// A server that is being put together. If it comes to nothing, the threads that it has end with it.
struct Opening {
    server: Server,
    answering: Answering,
    clients: Arc<[Cidr]>,
    ended: UnixStream,
}

impl Opening {
    fn start(mut self, opened: Vec<Opened>, settings: &Settings) -> Result<Server, Error> {
        let mut listeners = Vec::new();
        for Opened { at, datagrams, streams } in opened {
            self.server.addresses.push(at);
            listeners.push(streams);
            for (number, socket) in datagrams.into_iter().enumerate() {
                self.serve_datagrams(socket, at, number)?;
            }
        }
        self.serve_streams(listeners, settings)?;
        Ok(self.server)
    }

    fn desk(&mut self) -> Desk {
        let counts = Arc::new(Counts::default());
        self.server.counts.push(Arc::clone(&counts));
        Desk::new(self.answering, Arc::clone(&self.clients), counts)
    }

    fn thread(&mut self, name: String, run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.server.threads.push(Builder::new().name(name).spawn(run).map_err(lacking("thread"))?);
        Ok(())
    }

    fn serve_datagrams(&mut self, socket: OwnedFd, at: SocketAddr, number: usize) -> Result<(), Error> {
        let (desk, zone) = (self.desk(), self.server.zone.clone());
        let end = self.ended.try_clone().map_err(lacking("file"))?;
        self.thread(format!("dns-udp-{number}"), move || datagrams::serve(&socket, at, &zone, desk, &end))
    }

    fn serve_streams(&mut self, listeners: Vec<TcpListener>, settings: &Settings) -> Result<(), Error> {
        let (desk, zone, limits) = (self.desk(), self.server.zone.clone(), settings.limits);
        let counts = self.server.counts.last().map(Arc::clone).unwrap_or_default();
        let end = self.ended.try_clone().map_err(lacking("file"))?;
        end.set_nonblocking(true).map_err(lacking("file"))?;
        let (told, tells) = mpsc::channel();
        self.thread("dns-tcp".into(), move || {
            let runtime = match runtime::Builder::new_current_thread().enable_io().enable_time().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(told.send(Err(error))),
            };
            runtime.block_on(async {
                let listeners = listeners.into_iter().map(tokio::net::TcpListener::from_std).collect::<io::Result<_>>();
                let end = tokio::net::UnixStream::from_std(end);
                match (listeners, end) {
                    (Ok(listeners), Ok(end)) => {
                        // It waits for this, below.
                        let _ = told.send(Ok(()));
                        streams::serve(listeners, zone, desk, counts, limits, end).await;
                    }
                    (Err(error), _) | (_, Err(error)) => drop(told.send(Err(error))),
                }
            });
        })?;
        let outcome = tells.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()));
        outcome.map_err(lacking("event loop"))
    }
}
