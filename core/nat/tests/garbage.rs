//! Bytes that anybody may send.

use super::{cluster, config, east, id, ip, key, me};
use crate::base::{Instant, Machine, drain};
use crate::nat::seal::{SealKey, open, seal};
use crate::nat::wire::{DATAGRAM_MAX, Details, IpPort, Message, Request, Response, Verdict, WireError};
use crate::nat::{Arrival, Discovery, Ignored, Input, Output, Seal};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use proptest::collection::vec as many;
use proptest::prelude::*;

/// Bad datagrams that are kept: what crashed or silenced others, and every kind of mistake. One a line: what is wrong
/// with it, then its bytes.
const CORPUS: &[(&str, &[u8])] = &[
    ("an empty datagram, which ended the listener of others", &[]),
    ("an answer without sender and receiver, which crashed others", &[0x1a, 2, 0x08, 42]),
    ("an answer of nothing", &[0x1a, 0]),
    ("a question of nothing", &[0x08, 1, 0x12, 0]),
    ("a question whose sender is of nothing", &[0x08, 1, 0x12, 2, 0x12, 0]),
    ("neither question nor answer", &[0x08, 1]),
    ("a length beyond the end", &[0x12, 0x7f, 0]),
    ("a length of 2^63", &[0x12, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1]),
    ("a number that never ends", &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
    ("a number of 65 bits", &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]),
    ("a key cut short", &[0x80]),
    ("field 0", &[0x02, 0]),
    ("a group", &[0x0b, 0x0c]),
    ("wire type 7", &[0x0f]),
    ("a cluster id that is not UTF-8", &[0x12, 6, 0x12, 4, 0x0a, 2, 0xff, 0xfe]),
    ("a fixed number cut short", &[0x0d, 1, 2]),
    ("a seal and nothing else", &[0x7a, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    ("a seal that is no seal", &[0x7a, 0]),
    ("a question inside a question inside a question", &[0x12, 4, 0x12, 2, 0x12, 0]),
];

fn hears(bytes: &[u8], seal: Seal, arrival: Arrival) -> (Discovery, Vec<Output>) {
    let mut machine = Discovery::new(config(me("west", "10.1.0.1")));
    machine.handle(Input::Remotes(BTreeMap::from([(id("east"), east())])), Instant::ZERO);
    drain(&mut machine);
    let from = SocketAddr::new(ip("203.0.113.2"), 4490);
    machine.handle(Input::Datagram { arrival, from, seal, bytes: bytes.to_vec() }, Instant::ZERO);
    let outputs = drain(&mut machine);
    (machine, outputs)
}

#[test]
fn each_bad_datagram_of_the_corpus_is_counted_and_the_next_good_one_is_answered() {
    let (west, east) = (id("west"), id("east"));
    let mut machine = Discovery::new(config(me("west", "10.1.0.1")));
    machine.handle(Input::Remotes(BTreeMap::from([(id("east"), super::east())])), Instant::ZERO);
    drain(&mut machine);
    let from = SocketAddr::new(ip("203.0.113.2"), 4490);
    let mut tell = |bytes: &[u8]| {
        let seal = open(bytes, |_| Some(key()));
        let datagram = Input::Datagram { arrival: Arrival::Uplink, from, seal, bytes: bytes.to_vec() };
        machine.handle(datagram, Instant::ZERO);
        let outputs = drain(&mut machine);
        (outputs, machine.ignored().values().sum::<u64>())
    };
    for (count, (what, bytes)) in (1..).zip(CORPUS) {
        let (outputs, ignored) = tell(bytes);
        assert_eq!(ignored, count, "{what}");
        assert!(!outputs.iter().any(|output| matches!(output, Output::Send { .. })), "{what}: {outputs:?}");
        let request = Request {
            number: count,
            sender: Some(Details { cluster: east.cluster.as_str(), endpoint: &east.endpoint }),
            receiver: Some(Details { cluster: west.cluster.as_str(), endpoint: &west.endpoint }),
            source: Some(from.into()),
            destination: Some(IpPort { address: Some(ip("10.1.0.1")), port: 4490 }),
        };
        let (outputs, _) = tell(&Message::Request(1, request).encode());
        assert!(matches!(outputs.as_slice(), [Output::Send { .. }]), "{what}: {outputs:?}");
    }
}

#[test]
fn mistakes_are_told_apart() {
    let wrong = |bytes: &[u8]| Message::decode(bytes).unwrap_err();
    assert_eq!(wrong(&[]), WireError::Empty);
    assert_eq!(wrong(&[0x12, 0x7f, 0]), WireError::Short);
    assert_eq!(wrong(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), WireError::Number);
    assert_eq!(wrong(&[0x0b, 0x0c]), WireError::Field);
    assert_eq!(wrong(&[0x12, 6, 0x12, 4, 0x0a, 2, 0xff, 0xfe]), WireError::Text);
    assert_eq!(wrong(&vec![0x08; DATAGRAM_MAX + 1]), WireError::TooLong);
}

/// As protoc writes it: version 1, a request of number 300 with all its parts.
#[test]
fn the_bytes_are_those_of_protobuf() {
    let request = Request {
        number: 300,
        sender: Some(Details { cluster: "a", endpoint: "b" }),
        receiver: Some(Details { cluster: "c", endpoint: "d" }),
        source: Some(IpPort { address: Some(ip("1.2.3.4")), port: 4490 }),
        destination: Some(IpPort { address: Some(ip("5.6.7.8")), port: 0 }),
    };
    let bytes = Message::Request(1, request).encode();
    let mut wanted = vec![0x08, 1, 0x12, 44, 0x08, 0xac, 0x02, 0x12, 6, 0x0a, 1, b'a', 0x12, 1, b'b'];
    wanted.extend([0x1a, 6, 0x0a, 1, b'c', 0x12, 1, b'd', 0x22, 12, 0x0a, 7]);
    wanted.extend(b"1.2.3.4");
    wanted.extend([0x10, 0x8a, 0x23, 0x2a, 9, 0x0a, 7]);
    wanted.extend(b"5.6.7.8");
    assert_eq!(bytes, wanted);
}

#[test]
fn fields_of_other_numbers_and_types_are_skipped_and_the_last_of_equal_ones_counts() {
    let mut bytes = vec![0x9d, 0x06, 1, 2, 3, 4, 0xa1, 0x06, 1, 2, 3, 4, 5, 6, 7, 8];
    bytes.extend([0x1a, 4, 0x08, 1, 0x08, 2]);
    // A field 1 of another wire type is not the request number.
    bytes.extend([0x1a, 5, 0x0a, 1, 9, 0x28, 1]);
    let Ok(Message::Response(response)) = Message::decode(&bytes) else { unreachable!("it is an answer") };
    assert_eq!((response.number, response.source_changed), (2, true));
}

fn texts() -> impl Strategy<Value = String> {
    "[a-z0-9.-]{0,40}"
}

fn pairs() -> impl Strategy<Value = Option<IpPort>> {
    let address = prop_oneof![
        any::<[u8; 4]>().prop_map(|bytes| Some(bytes.into())),
        any::<[u8; 16]>().prop_map(|bytes| Some(bytes.into())),
        Just(None)
    ];
    proptest::option::of((address, any::<u64>()).prop_map(|(address, port)| IpPort { address, port }))
}

/// The bytes of any message, and whether reading and writing it gives them back.
fn round_trip(message: &Message<'_>) -> bool {
    Message::decode(&message.encode()).as_ref() == Ok(message)
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        names in many(texts(), 4), numbers in any::<[u64; 3]>(), source in pairs(), destination in pairs(),
        flags in any::<[bool; 5]>(),
    ) {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i: usize| names[i].as_str());
        let sender = flags[0].then_some(Details { cluster: a, endpoint: b });
        let receiver = flags[1].then_some(Details { cluster: c, endpoint: d });
        let [number, version, other] = numbers;
        let request = Message::Request(version, Request { number, sender, receiver, source, destination });
        prop_assert!(round_trip(&request));
        let verdict = match other % 6 {
            0 => Verdict::Ok,
            1 => Verdict::NatDetected,
            2 => Verdict::UnknownCluster,
            3 => Verdict::UnknownEndpoint,
            4 => Verdict::Malformed,
            _ => Verdict::Other(other.max(5)),
        };
        let response = Message::Response(Response {
            number, verdict, sender, receiver,
            source_changed: flags[2], source_port_changed: flags[3], destination_changed: flags[4],
            received: source,
        });
        prop_assert!(round_trip(&response));
    }

    #[test]
    fn garbage_never_panics(bytes in many(any::<u8>(), 0..300), through in any::<bool>()) {
        let arrival = if through { Arrival::Tunnel } else { Arrival::Uplink };
        let found = open(&bytes, |_| Some(key()));
        let (machine, outputs) = hears(&bytes, found, arrival);
        prop_assert_eq!(machine.ignored().values().sum::<u64>(), 1, "{:?}", outputs);
        prop_assert_eq!(machine.choice(&id("east")), None);
    }

    /// Bytes that are nearly a message get deeper than random ones.
    #[test]
    fn mutilated_messages_never_panic(
        number in any::<u64>(), cut in any::<proptest::sample::Index>(),
        changes in many((any::<proptest::sample::Index>(), any::<u8>()), 0..4), asks in any::<bool>(),
    ) {
        let east = id("east");
        let sender = Some(Details { cluster: "east", endpoint: &east.endpoint });
        let source = Some(IpPort { address: Some(ip("203.0.113.2")), port: 4490 });
        let message = if asks {
            Message::Request(1, Request { number, sender, receiver: sender, source, destination: source })
        } else {
            Message::Response(Response { number, sender, receiver: sender, received: source, ..Response::default() })
        };
        let mut bytes = message.encode();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let found = open(&bytes, |_| Some(key()));
        let (machine, outputs) = hears(&bytes, found, Arrival::Uplink);
        let sent = outputs.iter().filter(|output| matches!(output, Output::Send { .. })).count() as u64;
        prop_assert_eq!(machine.ignored().values().sum::<u64>() + sent, 1, "{:?}", outputs);
    }

    #[test]
    fn a_seal_is_of_every_byte_before_it_and_of_its_key(place in any::<proptest::sample::Index>(), bit in 0_u8..8) {
        let message = Message::Response(Response {
            sender: Some(Details { cluster: "east", endpoint: "e" }),
            ..Response::default()
        });
        let mut sealed = seal(&key(), message.encode());
        prop_assert_eq!(open(&sealed, |_| Some(key())), Seal::By(cluster("east")));
        prop_assert_eq!(open(&sealed, |_| None), Seal::Broken);
        prop_assert_eq!(open(&sealed, |_| Some(SealKey::from_shared(b"another"))), Seal::Broken);
        let place = place.index(sealed.len());
        sealed[place] ^= 1 << bit;
        prop_assert!(!matches!(open(&sealed, |_| Some(key())), Seal::By(_)));
    }
}

#[test]
fn a_seal_is_looked_for_at_the_end_alone_and_never_goes_on_behind_it() {
    let message =
        Message::Response(Response { sender: Some(Details { cluster: "east", endpoint: "e" }), ..Response::default() });
    let plain = message.encode();
    assert_eq!(open(&plain, |_| Some(key())), Seal::None);
    let mut more = seal(&key(), plain.clone());
    more.extend([0x08, 7]);
    assert_eq!(open(&more, |_| Some(key())), Seal::Broken);
    let twice = seal(&key(), seal(&key(), plain));
    assert_eq!(open(&twice, |_| Some(key())), Seal::By(cluster("east")), "a seal of a sealed message is one");
}

/// HMAC-SHA256 as others compute it, over the same bytes.
#[test]
fn the_seal_is_the_one_of_rfc_2104() {
    let sealed = seal(&SealKey::from_shared(b"secret"), vec![0x1a, 0]);
    let hex = sealed.iter().fold(String::new(), |text, byte| text + &alloc::format!("{byte:02x}"));
    assert_eq!(hex, "1a007a106e1b19c0c63ab1712fb752d30182aeba");
    let (machine, _) = hears(&[0x1a, 0], Seal::None, Arrival::Uplink);
    assert_eq!(machine.ignored().keys().collect::<Vec<_>>(), [&Ignored::Incomplete]);
}
