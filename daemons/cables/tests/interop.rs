//! Ours with others': wireguard-go at the other end, and `wg` at the socket.

use crate::Test;
use crate::bed::until;
use crate::contender::{OTHER, Running, end, is_there, start, state};
use crate::site::{LINK, PORT, inner, outer, secret};
use crate::traffic::{call, listen};
use data_encoding::BASE64;
use std::path::Path;
use std::time::{Duration, Instant};
use tombolo_cables::client::Client;
use tombolo_cables::process::DIRECTORY;
use tombolo_cables::uapi::Setup;

const OURS: &str = env!("CARGO_BIN_EXE_tombolo-cable");

/// Those that can be run here; says which cannot.
pub fn tests() -> Vec<Test> {
    let with_other: &[Test] = &[
        ("wireguard_go_and_ours_carry_for_each_other", carry),
        ("wireguard_go_and_ours_follow_each_other_to_another_address", roam),
        ("wireguard_go_and_ours_are_back_after_a_restart", restart),
    ];
    let with_wg: &[Test] = &[("wg_shows_and_sets_a_cable_of_ours", wg)];
    let mut tests = Vec::new();
    for (program, these) in [(OTHER, with_other), ("wg", with_wg)] {
        if is_there(program) {
            tests.extend(these);
        } else {
            println!("SKIPPED: {} with others' (no {program})", these.len());
        }
    }
    tests
}

/// Ours on the one side, the other on the other.
fn joined(is_v6: bool) -> Running {
    let running = Running::joined([OURS, OTHER], is_v6);
    for (side, to) in [(0, inner(1)), (1, inner(0))] {
        to.into_iter().for_each(|to| assert!(running.0.reaches(side, to), "{side} to {to}, outside IPv6: {is_v6}"));
    }
    running
}

fn carry() {
    const BYTES: usize = 12 << 20;
    for is_v6 in [false, true] {
        let running = joined(is_v6);
        let site = &running.0;
        for (port, to) in (7000..).zip(inner(1)) {
            let threads = [listen(&site.places[1], to, port, BYTES), call(&site.places[0], to, port, BYTES)];
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
        for length in [0, 1, 15, 16, 17, 1371, 1372] {
            let told = site.ping(0, &format!("-c 1 -W 5 -M do -s {length}"), inner(1)[1]);
            assert!(told.contains(" 0% packet loss"), "{length} bytes\n{told}");
        }
        let states = [state(site, 0), state(site, 1)];
        for (side, state) in states.iter().enumerate() {
            let [peer] = &state.peers[..] else { panic!("{state:?}") };
            assert_eq!((peer.key, peer.endpoint), (secret(1 - side).public(), Some(outer(1 - side, is_v6))));
            assert!(peer.handshake.is_some() && peer.sent > 2 * BYTES as u64, "{peer:?}");
        }
        // Some of it is lost on the way: the other is slower.
        assert!(states[0].peers[0].sent >= states[1].peers[0].received, "{states:?}");
    }
}

fn roam() {
    let running = joined(false);
    let site = &running.0;
    let expect = |side: usize, moved: &str| {
        until("an answer", || site.ping(side, "-c 1 -W 0.2", inner(1 - side)[0]).contains(" 0% packet loss"));
        assert_eq!(state(site, 1 - side).peers[0].endpoint.unwrap().to_string(), moved);
        assert!(site.reaches(1 - side, inner(side)[1]));
    };
    // Ours gets another address, the other another port: it holds on to an address that it has lost.
    site.places[0].sh("ip address flush dev eth0; ip address add 192.0.2.77/24 dev eth0");
    expect(0, &format!("192.0.2.77:{PORT}"));
    site.places[1].run(|| {
        let setup = Setup { port: Some(PORT + 1), ..Setup::default() };
        Client::of(Path::new(DIRECTORY), LINK).set(setup).unwrap();
    });
    expect(1, &format!("192.0.2.2:{}", PORT + 1));
}

fn restart() {
    let running = joined(false);
    let site = &running.0;
    for side in [0, 1] {
        end(site, side);
        start(site, side, [OURS, OTHER][side], false);
        let began = Instant::now();
        let answers = || site.ping(1 - side, "-c 1 -W 0.2", inner(side)[0]).contains(" 0% packet loss");
        until("an answer", answers);
        assert!(began.elapsed() < Duration::from_secs(4), "side {side} after {:?}", began.elapsed());
    }
}

fn wg() {
    let running = Running::apart();
    let site = &running.0;
    start(site, 0, OURS, false);
    let key = |side: usize| BASE64.encode(&secret(side).public().0);
    let shown = site.places[0].sh(&format!("wg show {LINK} dump"));
    let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split('\t').collect()).collect();
    let [own, peer] = &lines[..] else { panic!("{shown}") };
    assert_eq!(own[1..], [&key(0), &PORT.to_string(), "off"]);
    let ranges = format!("{}/32,{}/128", inner(1)[0], inner(1)[1]);
    assert_eq!(peer[..4], [&key(1), "(none)", &outer(1, false).to_string(), &ranges]);
    assert_eq!((peer[4], peer[7]), ("0", "25"));
    assert!(site.places[0].sh("wg show").contains("every 25 seconds"));
    let (other, shared) = (key(2), BASE64.encode(&[7; 32]));
    site.places[0].sh(&format!(
        "echo {shared} >/run/shared
         wg set {LINK} fwmark 0x77 peer {other} preshared-key /run/shared endpoint [2001:db8::9]:9 allowed-ips 10.9.0.0/16
         wg set {LINK} peer {} remove",
        key(1)
    ));
    let shown = site.places[0].sh(&format!("wg show {LINK} dump"));
    assert!(shown.contains(&format!("{other}\t{shared}\t[2001:db8::9]:9\t10.9.0.0/16\t0\t")), "{shown}");
    assert!(shown.contains("0x77") && !shown.contains(&key(1)), "{shown}");
    end(site, 0);
    assert!(!site.places[0].sh("ip -oneline link").contains(LINK));
}
