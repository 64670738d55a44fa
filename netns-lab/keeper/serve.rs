//! The keeper's own work.

use super::{Reply, Request, Site, Stay, Whereabouts, address};
use crate::lab::Lab;
use crate::nft;
use crate::topology::{PlaceName, Topology, cuts, doors, nat, services_script};
use anyhow::{Context as _, Result, anyhow, bail};
use nix::fcntl::readlinkat;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tombolo_core::base::ClusterId;
use tombolo_scenarios::layout::{HostId, Layout};

/// How long what has ended stays in lists of processes.
const REAP: Duration = Duration::from_millis(500);

/// Is a lab, until it has to end. `up` is called with how it came up.
///
/// # Errors
/// Why it cannot come up.
pub fn keep(file: &Path, name: &str, seed: u64, stay: Stay, up: impl FnOnce(&str) -> Result<()>) -> Result<()> {
    let began = Instant::now();
    if stay == Stay::WithStarter {
        // Beside the pipe below, which says the same to one that listens.
        set_pdeathsig(Signal::SIGKILL)?;
    } else {
        nix::unistd::setsid().ok();
    }
    if std::process::id() != 1 {
        bail!("only `up` starts this");
    }
    let listener = UnixListener::bind_addr(&address(name)?)
        .map_err(|error| anyhow!("a lab '{name}' is up already: take another --name, or end it ({error})"))?;
    let scenario = read(file)?;
    let layout = Layout::of(&scenario)?;
    let outer = own_files()?;
    let lab = Lab::build(Topology::of(&scenario, &layout), seed)?;
    let desk = Desk { lab, layout, outer, unready: BTreeSet::new(), nats: BTreeMap::new() };
    for cluster in desk.layout.clusters() {
        desk.put_services(cluster)?;
    }
    let (places, links) = (desk.lab.places.len(), desk.lab.topology.ports.len() + desk.lab.relays.len());
    let desk = Arc::new(Mutex::new(desk));
    Builder::new().name("words".into()).spawn(move || listen(&listener, &desk))?;
    Builder::new().name("reaper".into()).spawn(|| {
        loop {
            std::thread::sleep(REAP);
            nft::reap();
        }
    })?;
    up(&format!("{places} namespaces and {links} links in {} ms", began.elapsed().as_millis()))?;
    match stay {
        Stay::WithStarter => drop(std::io::stdin().read_to_end(&mut Vec::new())),
        Stay::UntilEnded => loop {
            std::thread::park();
        },
    }
    Ok(())
}

/// The scenario in a file.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(file: &Path) -> Result<tombolo_scenarios::Scenario> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    tombolo_scenarios::parse(&file.display().to_string(), &text).map_err(|errors| anyhow!("{errors}"))
}

/// Mounts of its own, that nobody else sees; `/proc` shows the lab's processes. Gives `/proc` as it was: there the lab's
/// threads have the numbers by which others find them.
fn own_files() -> Result<OwnedFd> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    let outer = File::open("/proc")?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), None::<&str>).context("/proc")?;
    Ok(outer.into())
}

/// All that requests are about.
struct Desk {
    lab: Lab,
    layout: Layout,
    outer: OwnedFd,
    unready: BTreeSet<IpAddr>,
    nats: BTreeMap<PlaceName, nat::State>,
}

fn listen(listener: &UnixListener, desk: &Arc<Mutex<Desk>>) {
    for stream in listener.incoming().flatten() {
        let is_root = getsockopt(&stream, PeerCredentials).is_ok_and(|peer| peer.uid() == 0);
        if !is_root {
            continue;
        }
        let desk = desk.clone();
        let work = move || {
            // Whoever hangs up is not told anything.
            let _ = converse(&stream, &desk);
        };
        // No thread for it: it is hung up on.
        let _ = Builder::new().name("words".into()).spawn(work);
    }
}

fn converse(stream: &UnixStream, desk: &Mutex<Desk>) -> Result<()> {
    for line in BufReader::new(stream).lines() {
        let answer = |request| desk.lock().unwrap_or_else(PoisonError::into_inner).answer(request);
        let reply = serde_json::from_str(&line?).map_err(Into::into).and_then(answer);
        let reply = reply.unwrap_or_else(|error| Reply::No(format!("{error:#}")));
        let mut stream = stream;
        stream.write_all(format!("{}\n", serde_json::to_string(&reply)?).as_bytes())?;
    }
    Ok(())
}

impl Desk {
    fn answer(&mut self, request: Request) -> Result<Reply> {
        match request {
            Request::Places => {
                let places = self.lab.places.keys().map(|name| self.whereabouts(name));
                return Ok(Reply::Places(places.collect::<Result<_>>()?));
            }
            Request::Links => return Ok(Reply::Links(self.links())),
            Request::SetLink { from, to, quality } => {
                let (relay, way) = self.way(&from, &to)?;
                self.lab.relays.get(relay).context("no such link")?.set(way, quality);
            }
            Request::Cut { from, to, closed } => {
                let pair = (self.host(&from)?, self.host(&to)?);
                let (at, script) = cuts::cut(&self.lab.topology, pair, closed).context("no such host")?;
                self.lab.nft(&at, script)?;
            }
            Request::Remap { router } => return self.set_nat(&router, |state| state.remaps += 1),
            Request::Move { router } => {
                return self.set_nat(&router, |state| state.moves = state.moves.wrapping_add(1));
            }
            Request::Ready { pod, ready } => self.set_ready(&pod, ready)?,
        }
        Ok(Reply::Done)
    }

    fn set_nat(&mut self, router: &str, change: impl FnOnce(&mut nat::State)) -> Result<Reply> {
        let at = self.lab.topology.find(router).ok_or_else(|| anyhow!("there is no {router}"))?.clone();
        let state = self.nats.entry(at.clone()).or_default();
        change(state);
        self.lab.set_nat(&at, *state)?;
        let outside = self.lab.topology.nat(&at).map(|plan| state.outside(plan));
        Ok(outside.map_or(Reply::Done, Reply::Outside))
    }

    fn whereabouts(&self, name: &PlaceName) -> Result<Whereabouts> {
        let outer = self.outer.try_clone()?;
        let link = self.lab.place(name)?.run(move || readlinkat(&outer, "thread-self"))??;
        let thread = link.to_string_lossy().rsplit('/').next().and_then(|number| number.parse().ok());
        let inside = self.lab.topology.places.get(name);
        let addresses = inside.into_iter().flat_map(|inside| &inside.addresses);
        let addresses = addresses.map(|(link, address, length)| format!("{link} {address}/{length}")).collect();
        Ok(Whereabouts { name: name.to_string(), thread: thread.context("no number of its thread")?, addresses })
    }

    fn links(&self) -> Vec<Site> {
        let mut ways = Vec::new();
        for (link, relay) in self.lab.topology.links.iter().zip(&self.lab.relays) {
            let [a, b] = link.routers.each_ref().map(ToString::to_string);
            for (way, (from, to)) in [(a.clone(), b.clone()), (b, a)].into_iter().enumerate() {
                ways.extend(relay.quality(way).map(|quality| Site { from, to, quality }));
            }
        }
        ways
    }

    /// Which link, and which of its ways.
    fn way(&self, from: &str, to: &str) -> Result<(usize, usize)> {
        let ends = self.lab.topology.links.iter().map(|link| link.routers.each_ref().map(ToString::to_string));
        let is = |[a, b]: &[String; 2]| [(a, b), (b, a)].iter().position(|(a, b)| *a == from && *b == to);
        let found = ends.enumerate().find_map(|(link, ends)| is(&ends).map(|way| (link, way)));
        found.ok_or_else(|| anyhow!("there is no link from {from} to {to}"))
    }

    fn host(&self, name: &str) -> Result<HostId> {
        let port = self.lab.topology.ports.iter().find(|port| port.host.is_some() && port.to.to_string() == name);
        port.and_then(|port| port.host).ok_or_else(|| anyhow!("there is no host {name}"))
    }

    fn set_ready(&mut self, pod: &str, ready: bool) -> Result<()> {
        let name = self.lab.topology.find(pod).ok_or_else(|| anyhow!("there is no pod {pod}"))?.clone();
        let PlaceName::Pod(cluster, ..) = &name else { bail!("{pod} is no pod") };
        let inside = self.lab.topology.places.get(&name);
        for (_, address, _) in inside.into_iter().flat_map(|inside| &inside.addresses) {
            if ready {
                self.unready.remove(address);
            } else {
                self.unready.insert(*address);
            }
        }
        self.put_services(cluster)
    }

    /// Each node of a cluster translates its services.
    fn put_services(&self, cluster: &ClusterId) -> Result<()> {
        let doors = doors(&self.layout, cluster, |address, _| !self.unready.contains(&address));
        let script = services_script(&doors);
        for (_, node) in self.layout.nodes_of(cluster) {
            self.lab.nft(&PlaceName::Node(cluster.clone(), node.name.clone()), script.clone())?;
        }
        Ok(())
    }
}
