//! How it is said, and laws of the wire that hold for any bytes.

use super::*;
use core::net::IpAddr;
use hickory_proto::op::{self, Edns, Message, MessageType, OpCode};
use hickory_proto::rr::{Name, RecordType};
use proptest::prelude::*;

fn respond_to(bytes: &[u8]) -> Option<Vec<u8>> {
    respond(&world("east").table(), bytes, &mut Picks::default())
}

fn ask_with(change: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.add_query(op::Query::query(Name::from_ascii(format!("{WEB}.")).unwrap(), RecordType::A));
    change(&mut message);
    message.to_vec().unwrap()
}

#[test]
fn the_askers_letters_come_back_in_question_and_owner_names() {
    insta::assert_snapshot!(
        ["wEb.ShOp.sVc.ClUsTeRsEt.LoCaL", "aPi.ShOp.sVc.ClUsTeRsEt.LoCaL"]
            .map(|name| world("east").dig(name, RecordKind::A))
            .join("\n")
    );
}

#[test]
fn responses_and_fragments_of_headers_are_dropped() {
    let mut response = ask_with(|_| {});
    response[2] |= 0x80;
    assert_eq!(respond_to(&response), None);
    assert_eq!(respond_to(&[0; 11]), None);
    assert_eq!(respond_to(&[]), None);
}

#[test]
fn other_opcodes_are_not_implemented() {
    let request = ask_with(|message| {
        message.metadata.op_code = OpCode::Notify;
        message.metadata.recursion_desired = true;
    });
    insta::assert_snapshot!(dig(&respond_to(&request).unwrap()));
}

#[test]
fn anything_but_one_question_is_a_format_error() {
    let none = ask_with(|message| message.queries.clear());
    let two = ask_with(|message| {
        let again = message.queries[0].clone();
        message.add_query(again);
    });
    let mut claimed = ask_with(|_| {});
    claimed[4..6].copy_from_slice(&[0xff, 0xff]);
    for request in [none, two, claimed] {
        assert_eq!(dig(&respond_to(&request).unwrap()), ";; Query, FORMERR, id: 7, flags: qr; 12 octets\n");
    }
}

#[test]
fn a_question_that_points_elsewhere_or_is_cut_is_a_format_error() {
    let good = ask_with(|_| {});
    let mut pointing = good[..12].to_vec();
    pointing.extend([0xc0, 0x00, 0, 1, 0, 1]);
    let mut long_label = good[..12].to_vec();
    long_label.extend([64]);
    long_label.extend([b'a'; 64]);
    long_label.extend([0, 0, 1, 0, 1]);
    for request in [pointing, long_label, good[..good.len() - 1].to_vec(), good[..12].to_vec()] {
        assert_eq!(dig(&respond_to(&request).unwrap()), ";; Query, FORMERR, id: 7, flags: qr; 12 octets\n");
    }
}

#[test]
fn a_broken_section_behind_a_good_question_is_a_format_error_with_the_question() {
    let mut claims_one_more = ask_with(|_| {});
    claims_one_more[11] = 1;
    let two_opts = {
        let mut bytes = ask_with(|message| message.edns = Some(Edns::new()));
        let opt = bytes[bytes.len() - 11..].to_vec();
        bytes.extend(opt);
        bytes[11] = 2;
        bytes
    };
    let opt_as_type = ask_with(|message| message.queries[0].query_type = RecordType::OPT);
    for request in [claims_one_more, two_opts, opt_as_type] {
        let reply = dig(&respond_to(&request).unwrap());
        assert!(reply.starts_with(";; Query, FORMERR, id: 7, flags: qr;"), "{reply}");
        assert!(reply.contains(&format!("\n;{WEB}. IN")), "{reply}");
    }
}

#[test]
fn an_opt_comes_back_exactly_when_there_was_one_with_do_copied_and_our_size() {
    let without = ask_with(|_| {});
    let with = ask_with(|message| {
        let mut edns = Edns::new();
        edns.set_max_payload(4096).set_dnssec_ok(true);
        message.edns = Some(edns);
    });
    insta::assert_snapshot!([without, with].map(|request| dig(&respond_to(&request).unwrap())).join("\n"));
}

#[test]
fn a_newer_edns_version_is_told_which_one_we_speak() {
    let request = ask_with(|message| {
        let mut edns = Edns::new();
        edns.set_version(1);
        message.edns = Some(edns);
    });
    insta::assert_snapshot!(dig(&respond_to(&request).unwrap()));
}

#[test]
fn check_disabled_is_cleared_and_recursion_desired_copied() {
    let request = ask_with(|message| {
        message.metadata.checking_disabled = true;
        message.metadata.recursion_desired = true;
        message.metadata.authentic_data = true;
    });
    assert!(dig(&respond_to(&request).unwrap()).starts_with(";; Query, NOERROR, id: 7, flags: qr aa rd;"));
}

/// A headless service with `count` pods.
fn crowd(count: u16) -> Table {
    let pods: Vec<String> = (0..count).map(|i| format!("10.2.{}.{}", i / 256, i % 256)).collect();
    let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
    world("east").with(import("db.shop", ServiceType::Headless, &[("east", source(&pods, true))])).table()
}

#[test]
fn a_reply_that_does_not_fit_carries_as_many_whole_records_as_do_and_says_so() {
    let sized = |size: Option<u16>| {
        ask_with(|message| {
            message.queries[0].name = Name::from_ascii(format!("{DB}.")).unwrap();
            message.edns = size.map(|size| {
                let mut edns = Edns::new();
                edns.set_max_payload(size);
                edns
            });
        })
    };
    let table = crowd(200);
    for (size, limit) in [(None, 512), (Some(512), 512), (Some(1000), 1000), (Some(1232), 1232), (Some(4096), 1232)] {
        let reply = respond(&table, &sized(size), &mut Picks::default()).unwrap();
        let read = Message::from_vec(&reply).unwrap();
        // The encoder writes a name whole before it shortens it, so it needs room for one.
        assert!(reply.len() <= limit && reply.len() + 16 + DB.len() > limit, "{} of {limit}", reply.len());
        assert!(read.metadata.truncation);
        assert_eq!(read.edns.is_some(), size.is_some(), "the OPT is not what is dropped");
    }
    let stream = respond_on_stream(&table, &sized(None), &mut Picks::default()).unwrap();
    let stream = reading(&stream).unwrap();
    assert_eq!((stream.addresses.len(), stream.truncated), (200, false));
    let small = respond(&crowd(20), &sized(None), &mut Picks::default()).unwrap();
    assert_eq!((reading(&small).unwrap().addresses.len(), reading(&small).unwrap().truncated), (20, false));
}

#[test]
fn even_a_stream_cannot_carry_more_than_64_kib() {
    let request = question(7, DB, RecordKind::A).unwrap();
    let reply = respond_on_stream(&crowd(5_000), &request, &mut Picks::default()).unwrap();
    let read = Message::from_vec(&reply).unwrap();
    assert!(read.metadata.truncation && read.edns.is_some());
    assert!(reply.len() + 16 + DB.len() > 65_535, "{}", reply.len());
}

#[test]
fn names_point_into_the_question_wherever_the_library_would_let_them() {
    let world = headless();
    let table = world.table();
    let below = ["", "east.", "north.eu.", "_http._tcp.", "_HTTP._tcp.west.", "_http._tcp.north.eu.", "db-0.east."];
    let services = below.iter().flat_map(|below| ["Web", "db"].map(|service| format!("{below}{service}.shop.svc.")));
    let others = ["", "ns.dns.", "NS.dns.", "x.ns.dns.", "dns.", "hostmaster.", "dns-version.", "local.clusterset."];
    let kinds = [RecordKind::A, RecordKind::Aaaa, RecordKind::Txt, RecordKind::Srv, RecordKind::Ns, RecordKind::Soa];
    for front in services.chain(others.map(String::from)) {
        for (zone, kind) in
            ["clusterset.local", "ClusterSet.LOCAL"].into_iter().flat_map(|zone| kinds.map(|kind| (zone, kind)))
        {
            let request = question(7, &format!("{front}{zone}"), kind).unwrap();
            let reply = respond(&table, &request, &mut Picks::default()).unwrap();
            assert_eq!(Message::from_vec(&reply).unwrap().to_vec().unwrap(), reply, "{front}{zone} {kind:?}");
        }
    }
}

// The asking side.

#[test]
fn a_probe_reads_what_it_asked_for() {
    let request = question(4711, WEB, RecordKind::A).unwrap();
    let reply = respond_to(&request).unwrap();
    let expected = Reading {
        id: 4711,
        rcode: "NOERROR".into(),
        truncated: false,
        addresses: vec!["10.102.0.10".parse::<IpAddr>().unwrap()],
    };
    assert_eq!(reading(&reply), Ok(expected));
    assert_eq!(reading(&request), Err(BadReply::Query));
    assert!(matches!(reading(&reply[..20]), Err(BadReply::Malformed(_))));
}

#[test]
fn a_name_that_no_message_can_carry_is_no_question() {
    let long = "a".repeat(64);
    assert!(matches!(question(1, &long, RecordKind::A), Err(NameError::Name { .. })));
}

proptest! {
    #[test]
    fn no_bytes_can_break_it(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        respond_to(&bytes);
        let _ = reading(&bytes);
    }

    #[test]
    fn no_damage_to_a_query_can_break_it_and_each_reply_is_well_formed(
        name in prop::sample::select(vec![WEB, DB, "clusterset.local", "example.com"]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        cuts: bool,
    ) {
        let mut bytes = question(7, name, RecordKind::A).unwrap();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if cuts {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Some(reply) = respond(&headless().table(), &bytes, &mut Picks::default()) {
            let read = Message::from_vec(&reply).unwrap();
            prop_assert_eq!(read.metadata.message_type, MessageType::Response);
            prop_assert_eq!(&reply[..2], &bytes[..2]);
            prop_assert!(reply.len() <= 1232);
        }
    }

    #[test]
    fn the_question_comes_back_byte_for_byte(
        labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..12), 0..8),
        in_zone: bool,
        kind: u16,
        class: u16,
    ) {
        let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let zone: Vec<Vec<u8>> = if in_zone { vec![b"cLusterset".into(), b"Local".into()] } else { vec![] };
        for label in labels.iter().chain(&zone) {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(label);
        }
        bytes.push(0);
        bytes.extend(kind.to_be_bytes());
        bytes.extend(class.to_be_bytes());
        let reply = respond_to(&bytes).unwrap();
        prop_assert_eq!(&reply[..2], &bytes[..2]);
        prop_assert_eq!(&reply[12..bytes.len()], &bytes[12..]);
    }
}
