//! What becomes of established flows when a translation changes.

use crate::Test;
use crate::site::{BACKENDS, SERVICE, Site, ask, caller};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub const TESTS: &[Test] = &[
    ("a_udp_flow_to_a_backend_that_is_gone_goes_to_another", udp_moves),
    ("a_udp_flow_that_others_translate_is_left_alone", others_stay),
    ("a_tcp_flow_outlives_its_service", tcp_stays),
];

fn udp_moves() {
    let mut site = Site::new();
    BACKENDS.iter().for_each(|address| site.serve(address));
    site.apply(&site.gateway, site.gateway_network((1, 1), &BACKENDS[..1]));
    let (socket, first) = site.far.run(|| {
        let socket = caller(SERVICE);
        let first = ask(&socket).unwrap();
        (socket, first)
    });
    assert_eq!(first, BACKENDS[0]);
    // With both there, the flow stays where it is.
    site.apply(&site.gateway, site.gateway_network((1, 1), &BACKENDS));
    assert_eq!(ask(&socket).unwrap(), BACKENDS[0]);
    site.apply(&site.gateway, site.gateway_network((1, 1), &BACKENDS[1..]));
    assert_eq!(ask(&socket).unwrap(), BACKENDS[1]);
    // Without a backend nobody answers, whatever was known of the flow.
    site.apply(&site.gateway, site.gateway_network((1, 1), &[]));
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(ask(&socket).is_err());
}

fn others_stay() {
    let mut site = Site::new();
    BACKENDS.iter().for_each(|address| site.serve(address));
    let theirs = |backend| {
        format!(
            "nft -f - <<'NFT'
                table ip theirs
                flush table ip theirs
                table ip theirs {{ chain c {{ type nat hook prerouting priority -100; ip daddr 10.55.0.1 udp dport 99 dnat to {backend}; }}; }}
NFT
"
        )
    };
    // Nothing filters on this cable, so that it is others who decide.
    let open = |backends: &[&str]| {
        let mut network = site.gateway_network((1, 1), backends);
        network.filters.clear();
        network.translations.retain(|id, _| matches!(id, tombolo_core::network::TranslationId::Service { .. }));
        network
    };
    site.apply(&site.gateway, open(&BACKENDS[..1]));
    site.gateway.sh(&theirs(BACKENDS[0]));
    let socket = site.far.run(|| caller("10.55.0.1:99"));
    assert_eq!(ask(&socket).unwrap(), BACKENDS[0]);
    site.gateway.sh(&theirs(BACKENDS[1]));
    site.apply(&site.gateway, open(&BACKENDS[1..]));
    assert_eq!(ask(&socket).unwrap(), BACKENDS[0], "somebody deleted what others track");
}

fn tcp_stays() {
    let mut site = Site::new();
    site.serve(BACKENDS[0]);
    site.apply(&site.gateway, site.gateway_network((1, 1), &BACKENDS[..1]));
    let mut stream = site.far.run(|| TcpStream::connect(SERVICE).unwrap());
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut ask = || {
        stream.write_all(b"?").unwrap();
        let mut bytes = [0; 64];
        let length = stream.read(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    assert_eq!(ask(), BACKENDS[0]);
    site.apply(&site.gateway, site.gateway_network((1, 1), &[]));
    assert_eq!(ask(), BACKENDS[0]);
    // Another daemon, later: it finds in the table whose flows those are.
    site.apply(&site.gateway, site.gateway_network((1, 2), &[]));
    assert_eq!(ask(), BACKENDS[0]);
}
