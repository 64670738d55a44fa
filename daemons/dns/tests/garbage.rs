//! Core's kept messages that are damaged or hostile, sent.

use super::*;
use tombolo_core::dns::{Picks, respond, respond_on_stream};

const CORPUS: &str = include_str!("../../../core/dns/tests/corpus.txt");

/// What is wrong with a message, and its bytes.
fn corpus() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    CORPUS.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (wrong, hex) = line.split_once(": ").unwrap_or_else(|| (line.trim_end_matches(':'), ""));
        let octet = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
        (wrong, hex.as_bytes().chunks(2).map(octet).collect())
    })
}

#[test]
fn each_kept_message_gets_what_core_says_to_it_and_the_next_good_one_is_answered() {
    let bed = bed();
    let table = table::table();
    let good = plain(WEB, RecordType::A);
    assert!(corpus().count() >= 50);
    for way in bed.ways() {
        let mut asker = Asker::new(way);
        for (wrong, bytes) in corpus() {
            asker.send(&bytes);
            let expected = match way.0 {
                Transport::Udp => respond(&table, &bytes, &mut Picks::default()),
                Transport::Tcp => respond_on_stream(&table, &bytes, &mut Picks::default()),
            };
            if let Some(expected) = expected {
                assert_eq!(asker.receive(), expected, "{wrong} by {way:?}");
            }
            let reply = Message::from_vec(&asker.ask(&good)).unwrap();
            assert_eq!(addresses(&reply), ["10.102.0.10"], "{wrong} by {way:?}");
        }
    }
}

#[test]
fn the_largest_datagram_is_a_format_error_and_costs_nobody_else_anything() {
    let bed = bed();
    let mut asker = Asker::new((Transport::Udp, bed.at()));
    let mut large = plain(WEB, RecordType::A);
    // 65000 octets of records, as it says.
    large[7] = 200;
    large.resize(65_000, 0xff);
    assert_eq!(asker.ask(&large)[3] & 0x0f, 1);
    assert_eq!(asker.ask(&plain(WEB, RecordType::A))[3] & 0x0f, 0);
}
