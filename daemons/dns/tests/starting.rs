//! What keeps it from starting is told so that something can be done about it; stopped, it leaves nothing behind.

use super::*;
use crate::Error;
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use std::net::TcpListener;

fn refused(listen: &str) -> Error {
    Server::start(&settings(vec![listen.parse().unwrap()]), Arc::default()).map(|_| ()).unwrap_err()
}

#[test]
fn a_port_that_another_has_is_told_with_what_to_do() {
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = other.local_addr().unwrap();
    let port = at.port();
    assert_eq!(
        refused(&at.to_string()).to_string(),
        format!(
            "cannot listen on UDP {at}: Address already in use; another program has port {port}, `ss -lnptu 'sport = \
             :{port}'` names it: stop it, or listen on another address or port"
        )
    );
    let wildcard = refused(&format!("0.0.0.0:{port}")).to_string();
    assert!(wildcard.contains("has port") && wildcard.contains("on one of this host's addresses"), "{wildcard}");
}

#[test]
fn one_who_would_share_the_port_is_told_too() {
    let (first, port) = loop {
        // A port that is free for both.
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            break (socket, port);
        }
    };
    setsockopt(&first, sockopt::ReusePort, &true).unwrap();
    let told = refused(&format!("127.0.0.1:{port}"));
    assert!(matches!(told, Error::Listen { transport: Transport::Udp, errno: Errno::EADDRINUSE, .. }), "{told}");
}

#[test]
fn a_second_server_is_told_and_the_first_goes_on() {
    let bed = bed();
    let told = refused(&bed.at().to_string());
    assert!(matches!(told, Error::Listen { errno: Errno::EADDRINUSE, .. }), "{told}");
    bed.reply(&plain(WEB, RecordType::A));
}

#[test]
fn a_port_that_is_taken_for_tcp_alone_is_told() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let told = refused(&other.local_addr().unwrap().to_string());
    assert!(matches!(told, Error::Listen { transport: Transport::Tcp, errno: Errno::EADDRINUSE, .. }), "{told}");
}

#[test]
fn an_address_that_is_not_here_is_told() {
    assert_eq!(
        refused("192.0.2.1:0").to_string(),
        "cannot listen on UDP 192.0.2.1:0: Cannot assign requested address; no interface of this host has 192.0.2.1: listen \
         on one of those that `ip address` shows"
    );
}

#[test]
fn no_address_at_all_is_told() {
    let told = Server::start(&settings(vec![]), Arc::default()).map(|_| ()).unwrap_err();
    assert_eq!(told.to_string(), "no address to listen on was given");
}

#[test]
fn several_sockets_share_the_port_and_clients_of_all_are_answered() {
    let bed = bed_with(&settings(vec!["127.0.0.1:0".parse().unwrap()]), table::table());
    let port = format!(":{:04X} ", bed.at().port());
    let listed = std::fs::read_to_string("/proc/net/udp").unwrap();
    assert_eq!(listed.lines().filter(|line| line.contains(&port)).count(), 2);
    // The kernel spreads them by their ports: that all fall to one socket has a chance of 1 in 2^63.
    for _ in 0..64 {
        Asker::new((Transport::Udp, bed.at())).ask(&plain(WEB, RecordType::A));
    }
}

#[test]
fn stopped_it_has_answered_what_had_come_and_another_can_start_in_its_place() {
    let bed = bed();
    let at = bed.server.addresses().to_vec();
    let mut askers: Vec<Asker> = (0..20).map(|_| Asker::new((Transport::Udp, at[0]))).collect();
    askers.iter_mut().for_each(|asker| asker.send(&plain(WEB, RecordType::A)));
    let mut connected = Asker::new((Transport::Tcp, at[0]));
    connected.ask(&plain(WEB, RecordType::A));
    bed.server.stop();
    for asker in &mut askers {
        assert_eq!(asker.receive()[3] & 0x0f, 0);
    }
    let Asker::Tcp(mut connected) = connected else { panic!("it was TCP") };
    assert_eq!(connected.read(&mut [0]).unwrap(), 0, "closed");
    bed_with(&settings(at), table::table()).reply(&plain(WEB, RecordType::A));
}
