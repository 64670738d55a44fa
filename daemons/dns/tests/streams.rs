//! Connections: many questions on one, and such that take more than their part.

use super::*;
use crate::{Cause, Limits};
use std::thread::sleep;
use std::time::Instant;

fn limited(limits: Limits) -> Bed {
    let settings = Settings { limits, ..settings(vec!["127.0.0.1:0".parse().unwrap()]) };
    bed_with(&settings, table::table())
}

fn connect(bed: &Bed) -> TcpStream {
    let stream = TcpStream::connect(bed.at()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn is_answered(stream: &mut TcpStream) -> bool {
    stream.write_all(&framed(&plain(WEB, RecordType::A))).is_ok() && message(stream).is_ok()
}

/// That the server closes it. What it had sent before is passed over.
fn is_closed(mut stream: TcpStream) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// A question whose number is `id`.
fn numbered(id: u16) -> Vec<u8> {
    ask(WEB, RecordType::A, |message| message.metadata.id = id)
}

#[test]
fn tcp_and_udp_have_the_same_port() {
    let bed = bed();
    for at in bed.server.addresses() {
        for transport in [Transport::Udp, Transport::Tcp] {
            assert_eq!(Asker::new((transport, *at)).ask(&plain(WEB, RecordType::A))[3] & 0x0f, 0);
        }
    }
}

#[test]
fn questions_one_after_the_other_without_waiting_are_all_answered() {
    let bed = bed();
    let mut stream = connect(&bed);
    stream.write_all(&(0..500).flat_map(|id| framed(&numbered(id))).collect::<Vec<u8>>()).unwrap();
    let mut ids: Vec<[u8; 2]> = (0..500).map(|_| *message(&mut stream).unwrap().first_chunk().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..500).map(u16::to_be_bytes).collect::<Vec<_>>());
}

#[test]
fn a_question_may_come_octet_by_octet_and_another_in_halves() {
    let bed = bed();
    let mut stream = connect(&bed);
    stream.set_nodelay(true).unwrap();
    for octet in framed(&numbered(1)) {
        stream.write_all(&[octet]).unwrap();
    }
    assert_eq!(message(&mut stream).unwrap()[..2], [0, 1]);
    // The second one is not whole yet: the first is answered all the same.
    let both = [framed(&numbered(2)), framed(&numbered(3))].concat();
    let (most, rest) = both.split_at(both.len() - 5);
    stream.write_all(most).unwrap();
    assert_eq!(message(&mut stream).unwrap()[..2], [0, 2]);
    stream.write_all(rest).unwrap();
    assert_eq!(message(&mut stream).unwrap()[..2], [0, 3]);
}

#[test]
fn a_message_of_no_octets_and_one_that_gets_no_answer_are_passed_over() {
    let bed = bed();
    let mut stream = connect(&bed);
    stream
        .write_all(&[&[0, 0, 0, 0][..], &framed(&[1]), &framed(&[0xff; 12]), &framed(&numbered(5))].concat())
        .unwrap();
    assert_eq!(message(&mut stream).unwrap()[..2], [0, 5]);
}

#[test]
fn the_longest_message_is_read_and_is_a_format_error() {
    let bed = bed();
    let mut stream = connect(&bed);
    let mut long = numbered(6);
    long[7] = 255;
    long.resize(65_535, 0xff);
    stream.write_all(&framed(&long)).unwrap();
    let reply = message(&mut stream).unwrap();
    assert_eq!((&reply[..2], reply[3] & 0x0f), (&[0, 6][..], 1));
    assert!(is_answered(&mut stream));
}

#[test]
fn a_client_that_has_closed_its_half_gets_its_replies() {
    let bed = bed();
    let mut stream = connect(&bed);
    stream.write_all(&framed(&numbered(7))).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(message(&mut stream).unwrap()[..2], [0, 7]);
    assert!(is_closed(stream));
}

#[test]
fn one_that_asks_nothing_or_never_a_whole_question_is_let_go_and_one_that_asks_stays() {
    let bed = limited(Limits { idle: Duration::from_secs(2), ..Limits::default() });
    let (quiet, mut slow, mut empty, mut busy) = (connect(&bed), connect(&bed), connect(&bed), connect(&bed));
    let began = Instant::now();
    // Octet by octet, and message by message of no octets: something comes all the time.
    for octet in framed(&numbered(1)).into_iter().cycle().take(25) {
        let _ = slow.write_all(&[octet]);
        let _ = empty.write_all(&[0, 0]);
        assert!(is_answered(&mut busy), "after {:?}", began.elapsed());
        sleep(Duration::from_millis(100));
    }
    assert!(is_closed(quiet) && is_closed(slow) && is_closed(empty));
    assert!(is_answered(&mut busy));
    assert_eq!(bed.server.tally().dropped, [(Cause::Slow, 3)]);
}

#[test]
fn one_that_never_reads_is_let_go_and_keeps_nobody_waiting() {
    let bed = limited(Limits { idle: Duration::from_millis(600), ..Limits::default() });
    let mut deaf = connect(&bed);
    deaf.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    // Replies of several KiB, until neither side has room for more.
    let questions = framed(&plain(CROWD, RecordType::A)).repeat(100);
    while deaf.write_all(&questions).is_ok() {}
    let mut other = connect(&bed);
    assert!(is_answered(&mut other));
    drop(other);
    assert!(is_closed(deaf), "with what it did not read");
    assert_eq!(bed.server.tally().dropped_for(Cause::Slow), 1);
}

#[test]
fn one_that_reads_late_gets_all_of_it() {
    let bed = bed();
    let mut stream = connect(&bed);
    let mut asking = stream.try_clone().unwrap();
    // Over six MiB of replies: more than is on the way at once.
    let asks = std::thread::Builder::new()
        .spawn(move || (0..2_000).for_each(|_| asking.write_all(&framed(&plain(CROWD, RecordType::A))).unwrap()));
    sleep(Duration::from_millis(200));
    for _ in 0..2_000 {
        let reply = Message::from_vec(&message(&mut stream).unwrap()).unwrap();
        assert_eq!(reply.answers.len(), 200);
    }
    asks.unwrap().join().unwrap();
}

#[test]
fn of_too_many_connections_of_one_client_the_quietest_yields_and_other_clients_are_not_touched() {
    let bed = limited(Limits { connections_per_client: 3, ..Limits::default() });
    let from = |host: u8| {
        use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
        use std::os::fd::AsRawFd;
        let open = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).unwrap();
        bind(open.as_raw_fd(), &SockaddrIn::new(127, 0, 0, host, 0)).unwrap();
        connect(open.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, bed.at().port())).unwrap();
        let stream = TcpStream::from(open);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let mut other = from(8);
    assert!(is_answered(&mut other));
    let mut all = [from(9), from(9), from(9)];
    assert!(all.iter_mut().all(is_answered));
    // The first asks again: now the second is the quietest.
    assert!(is_answered(&mut all[0]));
    let mut fourth = from(9);
    assert!(is_answered(&mut fourth));
    let [mut first, second, mut third] = all;
    assert!(is_closed(second));
    assert!(is_answered(&mut first) && is_answered(&mut third) && is_answered(&mut other));
    assert_eq!(bed.server.tally().dropped, [(Cause::Crowded, 1)]);
}

#[test]
fn of_too_many_connections_in_all_the_quietest_yields() {
    let bed = limited(Limits { connections: 2, ..Limits::default() });
    let (mut first, mut second) = (connect(&bed), connect(&bed));
    assert!(is_answered(&mut first) && is_answered(&mut second));
    let mut third = connect(&bed);
    assert!(is_answered(&mut third));
    assert!(is_closed(first));
    assert!(is_answered(&mut second) && is_answered(&mut third));
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    let bed = limited(Limits { connections: 8, ..Limits::default() });
    for _ in 0..200 {
        let mut stream = connect(&bed);
        assert!(is_answered(&mut stream));
        assert!(bed.server.tally().connections > 0);
    }
    let began = Instant::now();
    while bed.server.tally().connections > 0 {
        assert!(began.elapsed() < PATIENCE);
        sleep(Duration::from_millis(1));
    }
}
