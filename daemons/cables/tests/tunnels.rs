//! A tunnel's threads, with a device of the kernel on each side.

use crate::Test;
use crate::bed::until;
use crate::site::{LINK, Site, inner, outer, peer, secret};
use crate::traffic::{call, listen};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use tombolo_cables::tunnel::{Tunnel, Wish, wait};
use tombolo_cables::wireguard::{Change, Tally};

pub const TESTS: &[Test] = &[
    ("both_families_pass_over_both_families", families),
    ("packets_of_every_size_pass", sizes),
    ("a_large_transfer_both_ways_at_once_arrives_as_it_was_sent", transfers),
    ("a_peer_that_changes_its_address_is_followed", roaming),
    ("a_tunnel_that_starts_anew_is_back_soon", restart),
    ("a_tunnel_whose_link_is_taken_away_ends", taken_away),
    ("what_is_not_for_a_peer_goes_nowhere", strangers),
    ("another_port_carries_on", rebound),
];

fn families() {
    for is_v6 in [false, true] {
        let (site, _tunnels) = Site::joined(is_v6);
        for (side, to) in [(0, inner(1)), (1, inner(0))] {
            for to in to {
                assert!(site.reaches(side, to));
            }
        }
    }
}

fn sizes() {
    let (site, _tunnels) = Site::joined(true);
    for (to, overhead) in [(inner(1)[0], 28), (inner(1)[1], 48)] {
        for length in (0..40).chain(1400 - overhead..=1420 - overhead) {
            let told = site.ping(0, &format!("-c 1 -W 2 -M do -s {length}"), to);
            assert!(told.contains(" 0% packet loss"), "{length} bytes to {to}\n{told}");
        }
        let told = site.ping(0, "-c 1 -W 2 -s 20000", to);
        assert!(told.contains(" 0% packet loss"), "in fragments to {to}\n{told}");
    }
}

fn transfers() {
    const BYTES: usize = 48 << 20;
    for is_v6 in [false, true] {
        let (site, tunnels) = Site::joined(is_v6);
        let all: Vec<_> = inner(1)
            .into_iter()
            .enumerate()
            .flat_map(|(index, to)| {
                let port = 7000 + u16::try_from(index).unwrap();
                let listening = listen(&site.places[1], to, port, BYTES);
                [listening, call(&site.places[0], to, port, BYTES)]
            })
            .collect();
        all.into_iter().for_each(|thread| thread.join().unwrap());
        let tally = tally(&tunnels[0], 1);
        assert!(tally.sent > 2 * BYTES as u64 && tally.received > 2 * BYTES as u64, "{tally:?}");
    }
}

fn tally(tunnel: &Tunnel, peer: usize) -> Tally {
    tunnel.look(|device| device.tally(&secret(peer).public()).unwrap())
}

fn roaming() {
    let (site, tunnels) = Site::joined(false);
    assert!(site.reaches(1, inner(0)[0]));
    for moved in ["192.0.2.77/24", "192.0.2.78/24"] {
        site.places[0].sh(&format!("ip address flush dev eth0; ip address add {moved} dev eth0"));
        // It speaks first; from then on it is answered.
        assert!(site.reaches(0, inner(1)[0]));
        assert!(site.reaches(1, inner(0)[1]));
        let seen = tunnels[1].look(|device| device.peers().next().and_then(|(_, peer)| peer.endpoint)).unwrap();
        assert_eq!(format!("{}/24", seen.ip()), moved);
    }
}

fn restart() {
    let (site, [first, second]) = Site::joined(false);
    assert!(site.reaches(0, inner(1)[0]));
    drop(second);
    let _second = site.start(1, false);
    let began = Instant::now();
    until("an answer", || site.ping(0, "-c 1 -W 0.1", inner(1)[0]).contains(" 0% packet loss"));
    // Without asking at once it would be 15 s.
    assert!(began.elapsed() < Duration::from_secs(3), "after {:?}", began.elapsed());
    drop(first);
}

fn taken_away() {
    let site = Site::new();
    let tunnel = site.start(0, false);
    site.places[0].sh(&format!("ip link del {LINK}"));
    wait(&[(tunnel.ended().as_fd(), Wish::Read)], Some(Duration::from_secs(5))).unwrap();
    assert!(tunnel.has_ended());
}

fn strangers() {
    let (site, tunnels) = Site::joined(false);
    assert!(site.reaches(0, inner(1)[0]));
    let sent = tally(&tunnels[0], 1).sent;
    site.places[0].sh(&format!("ip route add 10.9.0.0/16 dev {LINK}"));
    assert!(site.ping(0, "-c 3 -i 0.05 -W 1", "10.9.0.1".parse().unwrap()).contains("100% packet loss"));
    assert_eq!(tally(&tunnels[0], 1).sent, sent);
    // Nor does what bears another's address come in.
    site.places[0].sh(&format!("ip address add 10.9.0.1/32 dev {LINK}"));
    assert!(site.ping(0, "-c 3 -i 0.05 -W 1 -I 10.9.0.1", inner(1)[0]).contains("100% packet loss"));
    assert!(tally(&tunnels[0], 1).sent > sent);
}

fn rebound() {
    let (site, [_first, second]) = Site::joined(false);
    assert!(site.reaches(0, inner(1)[0]));
    let second = site.places[1].run(move || {
        second.bind(0).unwrap();
        second
    });
    assert_ne!(second.port(), Some(outer(1, false).port()));
    // The other learns of it by what it hears.
    assert!(site.reaches(1, inner(0)[0]));
    assert!(site.reaches(0, inner(1)[0]));
    second.change(vec![Change::Remove(secret(0).public()), Change::Peer(peer(0, false))]);
    assert!(site.reaches(1, inner(0)[0]));
}
