//! Cables as processes, made and found by the driver, as part of a node's network.

use crate::Test;
use crate::bed::{Place, sh, until, wanted};
use crate::site::{PORT, Site, inner, outer};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tombolo_cables::client::Client;
use tombolo_cables::keys::Keys;
use tombolo_cables::{Drivers, Kernel, Status, Userspace};
use tombolo_core::base::{Cidr, Slot};
use tombolo_core::model::{CableDriver, CableKey};
use tombolo_core::network::constants::{CABLE_LINK_PREFIX, RULE_OUT, TABLE_OUT};
use tombolo_core::network::{
    Link, LinkKind, LinkName, Network, Peer, PeerId, Plan, Route, RouteId, RouteKind, Rule, Stay, Wanted,
};
use tombolo_linux::{Cables, Deed, Hand, Namespace, Node};

pub const TESTS: &[Test] = &[
    ("a_network_with_a_cable_carries_and_tells_how_it_is", carries),
    ("a_daemon_that_starts_anew_takes_its_cables_over_without_a_lost_packet", adopts),
    ("a_cable_that_dies_is_made_anew_soon", dies),
    ("uninstall_leaves_no_process_no_socket_and_no_link", uninstalls),
    ("another_port_and_another_key_come_live", changes),
    ("a_cable_that_was_never_claimed_is_made_anew", half_made),
    ("where_a_peer_was_heard_is_not_undone", learned),
    ("a_stuck_process_is_ended_all_the_same", stuck),
    ("the_socket_is_for_root_and_whoever_removes_it_ends_the_cable", socket),
    ("who_says_nothing_holds_up_nobody", silence),
    ("the_kernels_driver_says_what_it_has_and_leaves_others_alone", kernel),
];

/// One side as a node: where its sockets and keys are, and its driver.
pub struct Side {
    pub directory: PathBuf,
    pub keys: Keys,
}

impl Side {
    pub fn new(side: usize) -> Self {
        static COUNT: Mutex<u32> = Mutex::new(0);
        let mut count = COUNT.lock().unwrap();
        *count += 1;
        let directory = std::env::temp_dir().join(format!("tombolo-cables-{}-{count}-{side}", std::process::id()));
        let keys = Keys::at(&directory.join("keys"));
        keys.public().unwrap();
        Self { directory, keys }
    }

    pub fn userspace(&self) -> Userspace {
        let command = vec![env!("CARGO_BIN_EXE_tombolo-cable").into()];
        Userspace { command, directory: self.directory.clone(), keys: self.keys.clone() }
    }

    pub fn drivers(&self) -> Drivers {
        Drivers::of(vec![Box::new(self.userspace())])
    }

    pub fn key(&self, rank: usize) -> CableKey {
        self.keys.public().unwrap()[rank]
    }

    fn client(&self) -> Client {
        Client::of(&self.directory, &link().0)
    }

    /// The number of the cable's process.
    fn process(&self) -> i32 {
        let stream = UnixStream::connect(self.directory.join(format!("{}.sock", link()))).unwrap();
        nix::sys::socket::getsockopt(&stream, nix::sys::socket::sockopt::PeerCredentials).unwrap().pid()
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        for (_, client) in Client::all(&self.directory).unwrap() {
            let _ = client.end();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The cable's link.
pub fn link() -> LinkName {
    LinkName(format!("{CABLE_LINK_PREFIX}1").into())
}

/// The network of a side, with a cable to the other.
pub fn network(side: usize, own: CableKey, other: CableKey, driver: CableDriver) -> Network {
    let mut network = Network::default();
    let kind = LinkKind::Cable { driver, rank: Slot::all()[0], port: PORT, key: own };
    network.links.insert(link(), Link { kind, mtu: 1420 });
    let allowed: BTreeSet<Cidr> = inner(1 - side).into_iter().map(Cidr::host).collect();
    for to in &allowed {
        let source = inner(side).into_iter().find(|source| source.is_ipv4() == to.is_ipv4());
        let kind = RouteKind::Out { link: link(), via: None };
        network.routes.insert(RouteId { table: TABLE_OUT, to: *to }, Route { kind, source, mtu: None });
    }
    network.rules.insert(RULE_OUT, Rule { from_link: None, table: TABLE_OUT });
    for address in inner(side) {
        network.addresses.insert((link(), address), if address.is_ipv4() { 32 } else { 128 });
    }
    network.peers.insert(PeerId { link: link(), key: other }, Peer { endpoint: outer(1 - side, false), allowed });
    network
}

pub fn reconcile(place: &Place, drivers: Drivers, wanted: Wanted) -> Plan {
    place.run(move || {
        Node::open(Box::new(drivers)).unwrap().reconcile(&wanted).unwrap_or_else(|error| panic!("{error}"))
    })
}

fn status(place: &Place, side: &Side) -> Vec<Status> {
    let mut drivers = side.drivers();
    place.run(move || drivers.status().unwrap())
}

/// Two nodes with a cable between them.
struct Pair {
    site: Site,
    sides: [Side; 2],
}

impl Pair {
    fn new() -> Self {
        Self { site: Site::new(), sides: [Side::new(0), Side::new(1)] }
    }

    fn network(&self, side: usize) -> Network {
        network(side, self.sides[side].key(0), self.sides[1 - side].key(0), CableDriver::Wireguard)
    }

    fn apply(&self, side: usize) -> Plan {
        reconcile(&self.site.places[side], self.sides[side].drivers(), wanted(&self.network(side)))
    }

    fn joined() -> Self {
        let pair = Self::new();
        (0..2).for_each(|side| drop(pair.apply(side)));
        pair.expect_pings();
        pair
    }

    fn expect_pings(&self) {
        for (side, to) in [(0, inner(1)), (1, inner(0))] {
            for to in to {
                assert!(self.site.reaches(side, to));
            }
        }
    }
}

fn carries() {
    let pair = Pair::joined();
    assert!(pair.apply(0).is_empty(), "a second time there is nothing to do");
    let [cable] = &status(&pair.site.places[0], &pair.sides[0])[..] else { panic!() };
    assert_eq!((&cable.link, cable.is_encrypted, cable.mtu), (&link(), true, Some(1420)));
    let [peer] = &cable.peers[..] else { panic!() };
    assert_eq!((peer.key, peer.endpoint), (pair.sides[1].key(0), Some(outer(1, false))));
    assert!(peer.handshake_age.unwrap() < Duration::from_secs(10), "{peer:?}");
    assert!(peer.sent_bytes > Some(200) && peer.received_bytes > Some(200), "{peer:?}");
    // One of the two has asked, or both.
    let other = &status(&pair.site.places[1], &pair.sides[1])[0].peers[0];
    let round_trip = peer.round_trip.or(other.round_trip).unwrap();
    assert!(round_trip > Duration::ZERO && round_trip < Duration::from_secs(1), "{round_trip:?}");
    let text = cable.to_string();
    assert!(text.starts_with("tb-cable-1  wireguard in user space, encrypted, mtu 1420\n"), "{text}");
}

fn adopts() {
    let pair = Pair::joined();
    let before = pair.sides[0].process();
    let to = inner(1)[0];
    let ping = pair.site.places[0].beside(move || sh(&format!("ping -n -q -i 0.002 -c 500 -W 2 {to}")));
    let mut turns = 0;
    while !ping.is_finished() {
        assert!(pair.apply(0).is_empty());
        turns += 1;
    }
    let told = ping.join().unwrap();
    // For the last one `ping` hardly waits.
    assert!(["500 received", "499 received"].iter().any(|all| told.contains(all)), "{told}");
    assert_eq!(pair.sides[0].process(), before);
    assert!(turns > 4, "only {turns} turns");
}

fn dies() {
    let pair = Pair::joined();
    let (inbox, mut inputs) = tombolo_shell::inbox();
    let deeds = Arc::new(Mutex::new(Vec::new()));
    let told = deeds.clone();
    let tell = Box::new(move |deed: Deed| told.lock().unwrap().push(format!("{deed:?}")));
    let namespace = Namespace::Of(pair.site.places[0].namespace());
    let mut hand = Hand::start(namespace, Box::new(pair.sides[0].drivers()), inbox, tell).unwrap();
    tombolo_shell::KernelHand::apply(&mut hand, Arc::new(wanted(&pair.network(0))));
    assert!(matches!(inputs.blocking_recv(), Some(tombolo_core::roles::Input::Applied(Ok(())))));
    for _ in 0..3 {
        let before = pair.sides[0].process();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(before), nix::sys::signal::Signal::SIGKILL).unwrap();
        let began = Instant::now();
        until("an answer", || pair.site.ping(1, "-c 1 -W 0.1", inner(0)[0]).contains(" 0% packet loss"));
        // A second on a machine with time to spare.
        assert!(began.elapsed() < Duration::from_secs(3), "after {:?}: {:?}", began.elapsed(), deeds.lock().unwrap());
        assert_ne!(pair.sides[0].process(), before);
    }
}

fn uninstalls() {
    let pair = Pair::joined();
    let process = pair.sides[0].process();
    reconcile(&pair.site.places[0], pair.sides[0].drivers(), Wanted::default());
    assert!(Client::all(&pair.sides[0].directory).unwrap().is_empty());
    assert!(!pair.site.places[0].sh("ip -oneline link").contains("tb-cable"));
    until("the process is gone", || !std::path::Path::new(&format!("/proc/{process}")).exists());
    // Nor is there more to do.
    assert!(reconcile(&pair.site.places[0], pair.sides[0].drivers(), Wanted::default()).is_empty());
}

fn changes() {
    let pair = Pair::joined();
    let process = pair.sides[0].process();
    let mut other = pair.network(0);
    let kind = &mut other.links.get_mut(&link()).unwrap().kind;
    if let LinkKind::Cable { port, .. } = kind {
        *port = PORT + 50;
    }
    reconcile(&pair.site.places[0], pair.sides[0].drivers(), wanted(&other));
    assert_eq!(pair.sides[0].client().state().unwrap().unwrap().port, Some(PORT + 50));
    assert!(pair.site.reaches(0, inner(1)[0]));
    if let LinkKind::Cable { key, .. } = &mut other.links.get_mut(&link()).unwrap().kind {
        *key = pair.sides[0].key(2);
    }
    reconcile(&pair.site.places[0], pair.sides[0].drivers(), wanted(&other));
    let second = network(1, pair.sides[1].key(0), pair.sides[0].key(2), CableDriver::Wireguard);
    reconcile(&pair.site.places[1], pair.sides[1].drivers(), wanted(&second));
    pair.site.reaches(0, inner(1)[0]);
    pair.expect_pings();
    assert_eq!(pair.sides[0].process(), process, "it was made anew");
}

fn half_made() {
    let pair = Pair::joined();
    let before = pair.sides[0].process();
    pair.site.places[0].sh(&format!("ip link set {} alias ''", link()));
    pair.apply(0);
    assert_ne!(pair.sides[0].process(), before);
    pair.expect_pings();
}

/// B15, B18.
fn learned() {
    let pair = Pair::joined();
    pair.site.places[1].sh("ip address flush dev eth0; ip address add 192.0.2.99/24 dev eth0");
    assert!(pair.site.reaches(1, inner(0)[0]));
    let id = PeerId { link: link(), key: pair.sides[1].key(0) };
    let mut wanted = wanted(&pair.network(0));
    wanted.stays.insert(id, Stay::Anywhere);
    assert!(reconcile(&pair.site.places[0], pair.sides[0].drivers(), wanted).is_empty());
    let heard = status(&pair.site.places[0], &pair.sides[0])[0].peers[0].endpoint.unwrap();
    assert_eq!(heard.to_string(), format!("192.0.2.99:{PORT}"));
}

fn stuck() {
    let pair = Pair::joined();
    let process = pair.sides[0].process();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), nix::sys::signal::Signal::SIGSTOP).unwrap();
    pair.sides[0].client().end().unwrap();
    until("the process is gone", || !std::path::Path::new(&format!("/proc/{process}")).exists());
}

fn socket() {
    let pair = Pair::joined();
    let path = pair.sides[0].directory.join(format!("{}.sock", link()));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let process = pair.sides[0].process();
    fs::remove_file(path).unwrap();
    until("the process is gone", || !std::path::Path::new(&format!("/proc/{process}")).exists());
}

fn silence() {
    let pair = Pair::joined();
    let path = pair.sides[0].directory.join(format!("{}.sock", link()));
    let mut silent: Vec<_> = (0..20).map(|_| UnixStream::connect(&path).unwrap()).collect();
    silent[0].write_all(b"get=1\n").unwrap();
    let began = Instant::now();
    assert!(pair.apply(0).is_empty());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    // Nor does one who says nonsense.
    let mut rude = UnixStream::connect(&path).unwrap();
    rude.write_all(b"\xff\xfe\n\nset=1\nprivate_key=no\n\n").unwrap();
    rude.shutdown(std::net::Shutdown::Write).unwrap();
    let mut told = Vec::new();
    rude.read_to_end(&mut told).unwrap();
    pair.expect_pings();
}

/// Where the kernel has WireGuard, its driver carries; where it has none, it says so.
fn kernel() {
    let pair = Pair::new();
    if !pair.site.places[0].run(Kernel::is_there) {
        let keys = pair.sides[0].keys.clone();
        let (name, made) = (link(), pair.network(0).links[&link()].clone());
        let said = pair.site.places[0].run(move || Kernel::with(keys).make(&name, &made).unwrap_err());
        assert!(said.contains("WireGuard") || said.contains("No such file"), "{said}");
        return;
    }
    let drivers = |side: usize| Drivers::of(vec![Box::new(Kernel::with(pair.sides[side].keys.clone()))]);
    for side in 0..2 {
        pair.site.places[side].sh("ip link add wg9 type wireguard");
        reconcile(&pair.site.places[side], drivers(side), wanted(&pair.network(side)));
    }
    pair.expect_pings();
    assert!(reconcile(&pair.site.places[0], drivers(0), wanted(&pair.network(0))).is_empty());
    reconcile(&pair.site.places[0], drivers(0), Wanted::default());
    let links = pair.site.places[0].sh("ip -oneline link");
    assert!(links.contains("wg9") && !links.contains("tb-cable"), "{links}");
}
