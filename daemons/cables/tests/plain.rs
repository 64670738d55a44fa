//! Cables of VXLAN: one device, many peers.

use crate::Test;
use crate::bed::{Place, until, wanted};
use crate::processes::{Side, link, network, reconcile};
use crate::site::{PORT, Site, inner};
use std::net::IpAddr;
use std::path::Path;
use tombolo_cables::{Drivers, Userspace, Vxlan};
use tombolo_core::base::Cidr;
use tombolo_core::model::CableDriver;
use tombolo_core::network::constants::TABLE_OUT;
use tombolo_core::network::{Network, Peer, PeerId, Route, RouteId, RouteKind, Wanted};

pub const TESTS: &[Test] = &[
    ("a_vxlan_cable_carries_to_each_peer_its_own_and_says_that_it_is_not_encrypted", peers),
    ("a_cable_changes_from_wireguard_to_vxlan_and_back_live", switch),
    ("a_note_that_is_lost_or_of_a_former_device_does_no_harm", notes),
];

/// The addresses and the outer address of the third.
const THIRD: [&str; 3] = ["10.3.0.1", "fd00:3::1", "198.51.100.3"];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A side's network by VXLAN: routes go by way of the peer's address of IPv6.
fn plain(side: usize, sides: &[Side]) -> Network {
    let mut plain = network(side, sides[side].key(0), sides[1 - side].key(0), CableDriver::Vxlan);
    by_way_of(&mut plain, inner(1 - side)[0], inner(1 - side)[1]);
    plain
}

fn by_way_of(network: &mut Network, to: IpAddr, via: IpAddr) {
    let id = RouteId { table: TABLE_OUT, to: Cidr::host(to) };
    let source = network.routes.get(&id).map_or_else(|| Some(inner(0)[0]), |route| route.source);
    let kind = RouteKind::Out { link: link(), via: Some(via) };
    network.routes.insert(id, Route { kind, source, mtu: None });
}

fn drivers(side: &Side, directory: &Path) -> Drivers {
    let userspace: Userspace = side.userspace();
    Drivers::of(vec![Box::new(userspace), Box::new(Vxlan::at(directory))])
}

fn expect(place: &Place, site: &Site, side: usize, to: IpAddr) {
    assert!(site.reaches(side, to), "{to}\n{}", place.sh("bridge fdb; ip neigh; ip -6 neigh; ip route show table all"));
}

fn peers() {
    let (site, third) = (Site::new(), Place::new());
    let sides = [Side::new(0), Side::new(1), Side::new(2)];
    site.places[0].sh(&format!(
        "ip link add eth1 type veth peer name eth0 netns {}; ip link set eth1 up; ip address add 198.51.100.1/24 dev eth1",
        third.thread_number
    ));
    third.sh("ip link set eth0 up; ip address add 198.51.100.3/24 dev eth0");
    until("the wire is up", || third.sh("ip -oneline link show eth0").contains("state UP"));
    let mut first = plain(0, &sides);
    let to_third = PeerId { link: link(), key: sides[2].key(0) };
    let allowed = [ip(THIRD[0]), ip(THIRD[1])].map(Cidr::host).into();
    first.peers.insert(to_third, Peer { endpoint: format!("{}:{PORT}", THIRD[2]).parse().unwrap(), allowed });
    by_way_of(&mut first, ip(THIRD[0]), ip(THIRD[1]));
    let mut other = network(1, sides[2].key(0), sides[0].key(0), CableDriver::Vxlan);
    by_way_of(&mut other, inner(0)[0], inner(0)[1]);
    other.addresses = [((link(), ip(THIRD[0])), 32), ((link(), ip(THIRD[1])), 128)].into();
    for route in other.routes.values_mut() {
        route.source = Some(ip(THIRD[0]));
    }
    other.peers.values_mut().for_each(|peer| peer.endpoint = format!("198.51.100.1:{PORT}").parse().unwrap());

    let apply = |place: &Place, side: usize, network: &Network| {
        reconcile(place, drivers(&sides[side], &sides[side].directory), wanted(network))
    };
    apply(&site.places[0], 0, &first);
    apply(&site.places[1], 1, &plain(1, &sides));
    apply(&third, 2, &other);
    for to in inner(1).into_iter().chain([ip(THIRD[0])]) {
        expect(&site.places[0], &site, 0, to);
    }
    assert!(apply(&site.places[0], 0, &first).is_empty(), "a second time there is nothing to do");
    let directory = sides[0].directory.clone();
    let status = site.places[0].run(move || Drivers::of(vec![Box::new(Vxlan::at(&directory))]).status().unwrap());
    let [cable] = &status[..] else { panic!("{status:?}") };
    assert_eq!((cable.is_encrypted, cable.mtu, cable.peers.len()), (false, Some(1420), 2));
    let text = cable.to_string();
    assert!(text.starts_with("tb-cable-1  vxlan of the kernel, NOT encrypted, mtu 1420\n"), "{text}");
    // One goes, the other stays; then all is gone.
    apply(&site.places[0], 0, &plain(0, &sides));
    expect(&site.places[0], &site, 0, inner(1)[1]);
    let known = site.places[0]
        .sh("bridge fdb show dev tb-cable-1; ip neigh show dev tb-cable-1; ip -6 neigh show dev tb-cable-1");
    assert!(known.contains("192.0.2.2") && !known.contains(THIRD[2]) && !known.contains(THIRD[1]), "{known}");
    reconcile(&site.places[0], drivers(&sides[0], &sides[0].directory), Wanted::default());
    assert!(!site.places[0].sh("ip -oneline link").contains("tb-cable"));
    assert!(!sides[0].directory.join("tb-cable-1.peers").exists());
}

fn switch() {
    let site = Site::new();
    let sides = [Side::new(0), Side::new(1)];
    let sealed = |side: usize| network(side, sides[side].key(0), sides[1 - side].key(0), CableDriver::Wireguard);
    for networks in [[sealed(0), sealed(1)], [plain(0, &sides), plain(1, &sides)], [sealed(0), sealed(1)]] {
        for (side, network) in networks.iter().enumerate() {
            reconcile(&site.places[side], drivers(&sides[side], &sides[side].directory), wanted(network));
        }
        for (side, to) in [(0, inner(1)), (1, inner(0))] {
            to.into_iter().for_each(|to| expect(&site.places[side], &site, side, to));
        }
    }
}

fn notes() {
    let site = Site::new();
    let sides = [Side::new(0), Side::new(1)];
    let apply = |side: usize| {
        let drivers = drivers(&sides[side], &sides[side].directory);
        reconcile(&site.places[side], drivers, wanted(&plain(side, &sides)))
    };
    (0..2).for_each(|side| drop(apply(side)));
    expect(&site.places[0], &site, 0, inner(1)[0]);
    let note = sides[0].directory.join("tb-cable-1.peers");
    let kept = std::fs::read(&note).unwrap();
    std::fs::remove_file(&note).unwrap();
    assert_eq!(apply(0).steps().len(), 1, "the peer is put anew");
    assert!(apply(0).is_empty());
    site.places[0].sh("ip link del tb-cable-1; ip link add spare type veth peer other");
    std::fs::write(&note, kept).unwrap();
    apply(0);
    expect(&site.places[0], &site, 0, inner(1)[0]);
}
