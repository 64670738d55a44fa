//! Packets go on while plans are applied.

use crate::Test;
use crate::bed::wanted;
use crate::networks::node;
use crate::site::{BACKENDS, SERVICE, Site, ask, caller};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tombolo_linux::Node;

pub const TESTS: &[Test] = &[
    ("no_ping_is_lost_while_daemons_restart_and_apply", no_ping_lost),
    ("no_datagram_to_a_service_is_lost_while_its_table_is_replaced", no_datagram_lost),
];

fn no_ping_lost() {
    let site = Site::new();
    let ping = site.worker.beside(|| crate::bed::sh("ping -q -i 0.002 -c 1000 -W 2 -I 10.1.3.1 10.2.3.7"));
    let mut turns = 0;
    while !ping.is_finished() {
        // The path moves to the other cable and back, a service comes and goes.
        let choice = if turns % 2 == 0 { (1, 2) } else { (1, 1) };
        site.apply(&site.gateway, site.gateway_network(choice, &BACKENDS[..turns % 3]));
        site.apply(&site.worker, node((1, 3), (1, 1)));
        turns += 1;
    }
    let told = ping.join().unwrap();
    assert!(told.contains("1000 received"), "{turns} turns\n{told}");
    assert!(turns > 4, "only {turns} turns");
}

fn no_datagram_lost() {
    let mut site = Site::new();
    site.serve(BACKENDS[0]);
    site.apply(&site.gateway, site.gateway_network((1, 1), &BACKENDS[..1]));
    let stop = Arc::new(AtomicBool::new(false));
    let wanted = [(1, 1), (1, 2)].map(|choice| wanted(&site.gateway_network(choice, &BACKENDS[..1])));
    let (wires, stopped) = (site.wires.clone(), stop.clone());
    let applying = site.gateway.beside(move || {
        let mut turns = 0;
        while !stopped.load(Ordering::Relaxed) {
            // Our table follows the routes: it is replaced at each turn.
            let mut kernel = Node::open(Box::new(wires.clone())).unwrap();
            wanted.iter().for_each(|wanted| drop(kernel.reconcile(wanted).unwrap()));
            turns += 1;
        }
        turns
    });
    let answered = site.far.run(|| {
        let socket = caller(SERVICE);
        let answered = (0..2000).filter(|_| {
            std::thread::sleep(Duration::from_millis(1));
            ask(&socket).is_ok_and(|who| who == BACKENDS[0])
        });
        answered.count()
    });
    stop.store(true, Ordering::Relaxed);
    let turns = applying.join().unwrap();
    assert_eq!(answered, 2000, "in {turns} turns");
    assert!(turns > 4, "only {turns} turns");
}
