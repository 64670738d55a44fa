//! What one packet costs in the model, and one plan. `cargo bench -p tombolo-core --bench forward`
//!
//! Prints nanoseconds a call, the best of several rounds: the simulator pushes every hello and probe through it, so
//! anything above 2 µs is a loss of speed worth looking at.
#![allow(clippy::print_stdout, reason = "a bench prints its numbers")]
#![allow(clippy::disallowed_types, reason = "a bench measures real time")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench may fail loudly")]

extern crate alloc;

#[path = "../tests/clusters.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod clusters;

use clusters::*;
use std::hint::black_box;
use std::time::Instant;
use tombolo_core::network::{Arrival, Conntrack, Entry, Network, Packet, PeerId, Verdict, Wanted, forward, plan};
use tombolo_core::{base, model, network};

fn main() {
    let mut world = Clusters::usual();
    let local = |name: &str| Arrival::Local { link: Some(link(name)) };
    let (pods, uplink) = (Arrival::Link(link("cni0")), Arrival::Link(link("eth0")));

    let hello = udp((probe_address(WEST_A), 4491), (probe_address(EAST_A), 4491));
    packet("hello into a cable", &mut world, WEST_A, &local("tb-cable-1"), hello);
    let hello = through(&mut world, WEST_A, &local("tb-cable-1"), hello);
    packet("hello out of a cable", &mut world, EAST_A, &uplink, hello);
    let hello = udp((overlay_address(WEST_A), 4491), (overlay_address(WEST_WORKER), 4491));
    packet("hello into the overlay", &mut world, WEST_A, &local("vx-tombolo"), hello);

    let call = tcp((pod(WEST_WORKER), 4000), (ip("10.102.0.80"), 80), SYN);
    packet("pod into the overlay, new flow", &mut world, WEST_WORKER, &pods, call);
    let call = through(&mut world, WEST_WORKER, &pods, call);
    packet("transit, overlay to cable", &mut world, WEST_A, &uplink, call);
    let call = through(&mut world, WEST_A, &uplink, call);
    packet("service, new flow", &mut world, EAST_A, &uplink, call);
    world.at(EAST_A, &uplink, &call);
    packet("service, known flow", &mut world, EAST_A, &uplink, call);
    let call = through(&mut world, EAST_A, &uplink, call);
    packet("overlay to pod", &mut world, EAST_WORKER, &uplink, call);

    crowd(world.node(WEST_A));
    let call = tcp((pod(WEST_WORKER), 4001), (ip("10.102.0.80"), 80), SYN);
    let call = through(&mut world, WEST_WORKER, &pods, call);
    packet("transit among 100 peers", &mut world, WEST_A, &uplink, call);

    plans();
}

fn packet(what: &str, world: &mut Clusters, place: Place, arrival: &Arrival, packet: Packet) {
    let Node { network, conntrack } = world.node(place).clone();
    assert!(!matches!(one(&network, &conntrack, arrival, &packet), Verdict::Drop { .. }), "{what} is dropped");
    measure(what, || drop(black_box(forward(&network, &conntrack, arrival, black_box(&packet)))));
}

fn one(network: &Network, conntrack: &Conntrack, arrival: &Arrival, packet: &Packet) -> Verdict {
    forward(network, conntrack, arrival, packet).remove(0).verdict
}

fn through(world: &mut Clusters, place: Place, arrival: &Arrival, packet: Packet) -> Packet {
    let Node { network, conntrack } = world.node(place).clone();
    sent(&one(&network, &conntrack, arrival, &packet)).0
}

/// A hundred more clusters behind one cable device.
fn crowd(node: &mut Node) {
    let peer = node.network.peers[&PeerId { link: cable(1), key: key(EAST_A, 1) }].clone();
    for n in 100..200u8 {
        let mut peer = peer.clone();
        peer.allowed = [cidr(&format!("10.{n}.0.0/24")), cidr(&format!("172.20.{n}.0/24"))].into();
        node.network.put(Entry::Peer(PeerId { link: cable(1), key: key((n, 1), 1) }, peer));
    }
}

fn plans() {
    let here = ours(WEST_A, (1, 1));
    let wanted = |network: Network| Wanted { network, ..Wanted::default() };
    let (same, moved) = (wanted(here.clone()), wanted(ours(WEST_A, (1, 2))));
    measure("plan, nothing to do", || drop(black_box(plan(&same, black_box(&here)))));
    measure("plan, another choice", || drop(black_box(plan(&moved, black_box(&here)))));
    let nothing = Network::default();
    measure("plan, from nothing", || drop(black_box(plan(&same, black_box(&nothing)))));
}

fn measure(what: &str, mut call: impl FnMut()) {
    const CALLS: u32 = 2_000;
    let mut round = || {
        let began = Instant::now();
        (0..CALLS).for_each(|_| call());
        began.elapsed().as_nanos() / u128::from(CALLS)
    };
    let best = (0..15).map(|_| round()).min().unwrap_or_default();
    println!("{what:34}{best:>9} ns");
}
