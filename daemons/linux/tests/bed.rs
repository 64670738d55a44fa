//! Network namespaces, each with a thread that lives in it.

use nix::sched::{CloneFlags, setns, unshare};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tombolo_core::network::{Link, LinkName, Network, Peer, PeerId, Wanted};
use tombolo_linux::Cables;

/// What a place's thread is given to do.
type Job = Box<dyn FnOnce() + Send>;

/// A fresh network namespace. It ends with this.
pub struct Place {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// The number of its thread: `ip` takes it as the name of the namespace.
    pub thread_number: i32,
}

impl Place {
    /// Makes one; its loopback is up.
    pub fn new() -> Self {
        let (jobs, given) = mpsc::channel::<Job>();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            sh("ip link set lo up");
            tell.send(nix::unistd::gettid().as_raw()).unwrap();
            given.iter().for_each(|job| job());
        });
        let thread_number = told.recv().unwrap();
        Self { jobs: Some(jobs), thread: Some(thread), thread_number }
    }

    /// Does something inside.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = mpsc::channel();
        let job = Box::new(move || drop(tell.send(catch_unwind(AssertUnwindSafe(job)))));
        self.jobs.as_ref().unwrap().send(job).unwrap();
        told.recv().unwrap().unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Runs commands inside; they must succeed.
    pub fn sh(&self, script: &str) -> String {
        let script = script.to_owned();
        self.run(move || sh(&script))
    }

    /// The namespace as a file.
    pub fn namespace(&self) -> OwnedFd {
        self.run(|| File::open("/proc/thread-self/ns/net").unwrap().into())
    }

    /// Does something on another thread inside, meanwhile.
    pub fn beside<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let namespace = self.namespace();
        std::thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            job()
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.jobs.take());
        let _ = self.thread.take().unwrap().join();
    }
}

/// Does something in a fresh namespace.
pub fn inside<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> T {
    Place::new().run(job)
}

/// Runs commands in the namespace of the calling thread; they must succeed.
pub fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// All that a program could see of this namespace's network, in text.
pub fn snapshot() -> String {
    sh("ip -details -oneline link; ip -oneline address; ip rule; ip -6 rule; ip neigh; bridge fdb
        ip route show table all; ip -6 route show table all; nft list ruleset
        cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/netfilter/nf_conntrack_tcp_loose")
}

/// Waits until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(5);
    while !is_so() {
        assert!(Instant::now() < patience, "not so after 5 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A wish for this network.
pub fn wanted(network: &Network) -> Wanted {
    Wanted { network: network.clone(), ..Wanted::default() }
}

/// Stands in for cables: a wire to another place, or to nowhere, that asks for no neighbour; and a memory of peers.
#[derive(Clone, Default)]
pub struct Wires {
    /// By cable, the thread number of the place where its other end is, under the same name.
    pub to: BTreeMap<LinkName, i32>,
    peers: Arc<Mutex<BTreeMap<PeerId, Peer>>>,
}

impl Cables for Wires {
    fn make(&mut self, name: &LinkName, _: &Link) -> Result<(), String> {
        // Both ends have one MAC: what is sent without asking is taken.
        let (mac, there) = ("address 02:00:00:00:74:01", self.to.get(name));
        let other = there.map_or_else(|| format!("name p-{name}"), |tid| format!("name {name} netns {tid}"));
        sh(&format!("ip link add {name} {mac} type veth peer {mac} {other}; ip link set {name} arp off"));
        Ok(())
    }

    fn change(&mut self, _: &LinkName, _: &Link) -> Result<(), String> {
        Ok(())
    }

    fn remove(&mut self, name: &LinkName) -> Result<(), String> {
        sh(&format!("ip link del {name}"));
        self.peers.lock().unwrap().retain(|id, _| id.link != *name);
        Ok(())
    }

    fn peers(&mut self) -> Result<BTreeMap<PeerId, Peer>, String> {
        Ok(self.peers.lock().unwrap().clone())
    }

    fn put_peer(&mut self, id: &PeerId, peer: &Peer) -> Result<(), String> {
        self.peers.lock().unwrap().insert(id.clone(), peer.clone());
        Ok(())
    }

    fn remove_peer(&mut self, id: &PeerId) -> Result<(), String> {
        self.peers.lock().unwrap().remove(id);
        Ok(())
    }
}
