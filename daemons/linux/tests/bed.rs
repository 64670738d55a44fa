//! Network namespaces, each with a thread that lives in it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::panic::resume_unwind;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tombolo_core::network::{Link, LinkName, Network, Peer, PeerId, Wanted};
use tombolo_linux::Cables;

/// A fresh network namespace. It ends with this.
pub struct Place {
    place: tombolo_linux::Place,
    /// The number of its thread: `ip` takes it as the name of the namespace.
    pub thread_number: i32,
}

impl Place {
    /// Makes one; its loopback is up.
    pub fn new() -> Self {
        let place = tombolo_linux::Place::new().unwrap();
        Self { thread_number: place.thread_number(), place }
    }

    /// Does something inside.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.place.run(job).unwrap()
    }

    /// Runs commands inside; they must succeed.
    pub fn sh(&self, script: &str) -> String {
        let script = script.to_owned();
        self.run(move || sh(&script))
    }

    /// The namespace as a file.
    pub fn namespace(&self) -> OwnedFd {
        self.place.namespace().unwrap()
    }

    /// Does something on another thread inside, meanwhile.
    pub fn beside<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let job = self.place.beside(job).unwrap();
        std::thread::spawn(move || job.join().unwrap_or_else(|panic| resume_unwind(panic)).unwrap())
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
