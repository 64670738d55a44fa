//! Who is answered, and from which address.

use super::*;
use crate::Cause;
use nix::sched::{CloneFlags, unshare};
use std::process::Command;

/// A connected socket hears only what comes from the address and port that it asked.
fn answers_from_where_it_was_asked(bed: &Bed, at: SocketAddr) {
    for transport in [Transport::Udp, Transport::Tcp] {
        let reply = Message::from_vec(&Asker::new((transport, at)).ask(&plain(WEB, RecordType::A))).unwrap();
        assert_eq!(addresses(&reply), ["10.102.0.10"], "{transport} {at}");
    }
    assert_eq!(bed.server.tally().dropped, []);
}

#[test]
fn on_a_wildcard_address_replies_leave_from_the_address_that_was_asked() {
    let bed = bed_with(&settings(vec!["0.0.0.0:0".parse().unwrap()]), table::table());
    let port = bed.at().port();
    for host in ["127.0.0.1", "127.0.0.2", "127.1.2.3"] {
        answers_from_where_it_was_asked(&bed, SocketAddr::new(host.parse().unwrap(), port));
    }
    // Many at once, each asked at another address, so that one batch holds several.
    let mut askers: Vec<Asker> =
        (1..100u8).map(|host| Asker::new((Transport::Udp, SocketAddr::new([127, 0, 0, host].into(), port)))).collect();
    askers.iter_mut().for_each(|asker| asker.send(&plain(WEB, RecordType::A)));
    for asker in &mut askers {
        assert_eq!(addresses(&Message::from_vec(&asker.receive()).unwrap()), ["10.102.0.10"]);
    }
}

/// `run` in a network namespace of its own, in which loopback has these addresses; not, where that cannot be had.
fn in_namespace(own: &[&str], run: impl FnOnce() + Send + 'static) {
    let own: Vec<String> = own.iter().map(ToString::to_string).collect();
    let thread = std::thread::Builder::new().spawn(move || {
        let ip = |words: &[&str]| Command::new("ip").args(words).status().is_ok_and(|status| status.success());
        if unshare(CloneFlags::CLONE_NEWNET).is_err() || !ip(&["link", "set", "lo", "up"]) {
            return println!("SKIPPED: it takes root and `ip`");
        }
        if own.iter().all(|own| ip(&["address", "add", own, "dev", "lo", "nodad"])) {
            own.iter().for_each(|own| wait_for(own.split_once('/').unwrap().0.parse().unwrap()));
            run();
        } else {
            println!("SKIPPED: IPv6, which this host has not");
        }
    });
    thread.unwrap().join().unwrap();
}

/// Until datagrams arrive at `own`: the kernel makes the route to a new address a little later, and a socket that was
/// connected before goes on believing that there is none.
fn wait_for(own: IpAddr) {
    let receiver = UdpSocket::bind((own, 0)).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let arrives = || {
        let sender = UdpSocket::bind("[::1]:0").unwrap();
        sender.send_to(&[0], receiver.local_addr().unwrap()).is_ok() && receiver.recv(&mut [0]).is_ok()
    };
    while !arrives() {}
}

#[test]
fn so_they_do_with_ipv6_beside_a_wildcard_of_ipv4_on_the_same_port() {
    in_namespace(&["fd00:53::1/128", "fd00:53::2/128"], || {
        let listen = ["0.0.0.0:5353", "[::]:5353"].map(|at| at.parse().unwrap());
        let bed = bed_with(&settings(listen.into()), table::table());
        for at in ["[fd00:53::1]:5353", "[fd00:53::2]:5353", "[::1]:5353", "127.0.0.9:5353"] {
            answers_from_where_it_was_asked(&bed, at.parse().unwrap());
        }
    });
}

#[test]
fn several_addresses_are_served_and_no_other() {
    let listen = ["127.0.0.2:0", "127.0.0.3:0"].map(|at| at.parse().unwrap());
    let bed = bed_with(&settings(listen.into()), table::table());
    for at in bed.server.addresses() {
        answers_from_where_it_was_asked(&bed, *at);
    }
    let elsewhere = SocketAddr::new([127, 0, 0, 4].into(), bed.at().port());
    assert!(TcpStream::connect(elsewhere).is_err());
}

#[test]
fn what_seems_to_come_from_a_service_that_answers_everything_is_dropped() {
    in_namespace(&[], || {
        let bed = bed_with(&settings(vec!["127.0.0.1:5353".parse().unwrap()]), table::table());
        let from = |port: u16| UdpSocket::bind(("127.0.0.1", port)).unwrap();
        for port in [7, 9, 13, 17, 19, 37] {
            from(port).send_to(&plain(WEB, RecordType::A), bed.at()).unwrap();
        }
        // Another port of so small a number is answered.
        let mut asker = Asker::udp(from(53), bed.at());
        asker.ask(&plain(WEB, RecordType::A));
        while bed.server.tally().dropped_for(Cause::Unanswerable) < 6 {
            asker.ask(&plain(WEB, RecordType::A));
        }
        assert_eq!(bed.server.tally().dropped, [(Cause::Unanswerable, 6)]);
    });
}

#[test]
fn clients_from_outside_the_networks_that_are_served_get_nothing() {
    let clients = ["127.0.5.0/24", "fd00::/8"].map(|network| network.parse().unwrap()).to_vec();
    let bed = bed_with(&Settings { clients, ..settings(vec!["127.0.0.1:0".parse().unwrap()]) }, table::table());
    let from = |host: [u8; 4]| UdpSocket::bind(SocketAddr::new(host.into(), 0)).unwrap();
    from([127, 0, 6, 1]).send_to(&plain(WEB, RecordType::A), bed.at()).unwrap();
    let mut stranger = TcpStream::connect(bed.at()).unwrap();
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(stranger.read(&mut [0]).unwrap(), 0, "closed at once");
    let mut friend = Asker::udp(from([127, 0, 5, 9]), bed.at());
    while bed.server.tally().dropped_for(Cause::Stranger) < 2 {
        friend.ask(&plain(WEB, RecordType::A));
    }
    assert_eq!(bed.server.tally().dropped, [(Cause::Stranger, 2)]);
}

#[test]
fn what_is_answered_and_dropped_is_counted_by_transport_type_and_code() {
    let bed = bed_with(&settings(vec!["127.0.0.1:0".parse().unwrap()]), table::table());
    let mut udp = Asker::new((Transport::Udp, bed.at()));
    udp.send(&[0; 5]);
    for (name, kind) in [(WEB, RecordType::A), (WEB, RecordType::A), (API, RecordType::AAAA), (CROWD, RecordType::A)] {
        udp.ask(&plain(name, kind));
    }
    udp.ask(&ask(WEB, RecordType::A, |message| message.queries.clear()));
    Asker::new((Transport::Tcp, bed.at())).ask(&plain("example.com", RecordType::MX));
    let tally = bed.server.tally();
    let udp = Transport::Udp;
    assert_eq!(
        tally.replies,
        [
            (udp, "A", "NOERROR", 3),
            (udp, "AAAA", "NXDOMAIN", 1),
            (udp, "other", "FORMERR", 1),
            (Transport::Tcp, "other", "REFUSED", 1),
        ]
    );
    assert_eq!((tally.truncated, &tally.dropped[..]), (1, &[(Cause::NoQuestion, 1)][..]));
    assert_eq!(tally.all_replies(), 6);
}
