//! What is a question, and what becomes of what is none.

use super::*;

#[test]
fn less_than_a_header_and_whatever_says_that_it_is_a_reply_get_no_answer() {
    let bed = bed();
    let mut reply = plain(WEB, RecordType::A);
    reply[2] |= 0x80;
    // Also one that cannot be read: two servers that told each other so would never stop.
    let mut cut = reply.clone();
    cut.truncate(20);
    for request in [&[][..], &[0], &[0; 11], &reply, &cut] {
        bed.drops(request);
    }
}

#[test]
fn other_opcodes_are_not_implemented_and_come_back_with_number_and_rd() {
    let bed = bed();
    // Status, notify, update, stateful operations, and one that was never given out.
    for opcode in [2, 4, 5, 6, 15] {
        let mut request = ask(WEB, RecordType::SOA, |message| message.metadata.recursion_desired = true);
        request[2] = request[2] & 0x87 | opcode << 3;
        let reply = bed.reply(&request);
        assert_eq!(reply, [0, 7, 0x80 | opcode << 3 | 1, 4, 0, 0, 0, 0, 0, 0, 0, 0], "{opcode}");
    }
}

#[test]
fn an_opcode_is_looked_at_before_what_it_says() {
    let mut request = plain(WEB, RecordType::SOA);
    request[2] = 5 << 3;
    request.truncate(15);
    assert_eq!(bed().reply(&request)[3] & 0x0f, 4);
}

#[test]
fn anything_but_one_question_is_a_format_error() {
    let bed = bed();
    let none = ask(WEB, RecordType::A, |message| message.queries.clear());
    let two = ask(WEB, RecordType::A, |message| {
        let again = message.queries[0].clone();
        message.add_query(again);
    });
    let mut claimed = plain(WEB, RecordType::A);
    claimed[4..6].copy_from_slice(&[0xff, 0xff]);
    for request in [none, two, claimed] {
        assert_eq!(bed.reply(&request), [0, 7, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}

#[test]
fn a_question_that_cannot_be_read_is_a_format_error_told_by_the_header_alone() {
    let bed = bed();
    let good = plain(WEB, RecordType::A);
    let with = |question: &[u8]| [&good[..12], question].concat();
    let label = |octets: u8| [&[octets][..], &vec![b'a'; usize::from(octets)]].concat();
    let too_long = [label(63), label(63), label(63), label(63), vec![0, 0, 1, 0, 1]].concat();
    let requests = [
        ("a label of 64 octets", with(&[label(64), vec![0, 0, 1, 0, 1]].concat())),
        ("a name of 257 octets", with(&too_long)),
        ("a pointer to itself", with(&[0xc0, 12, 0, 1, 0, 1])),
        ("a pointer forward", with(&[0xc0, 30, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        ("a pointer to the header", with(&[0xc0, 0, 0, 1, 0, 1])),
        ("reserved bits of a label", with(&[0x80, 1, b'a', 0, 0, 1, 0, 1])),
        ("cut in its class", good[..good.len() - 1].to_vec()),
        ("cut in its name", good[..20].to_vec()),
        ("not there", good[..12].to_vec()),
    ];
    for (wrong, request) in requests {
        assert_eq!(bed.reply(&request), [0, 7, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0], "{wrong}");
    }
}

#[test]
fn a_record_that_cannot_be_read_behind_a_good_question_is_a_format_error() {
    let bed = bed();
    let good = plain(WEB, RecordType::A);
    let behind = |sections: [u8; 3], records: &[u8]| {
        let mut request = [&good, records].concat();
        let [answers, authorities, additionals] = sections;
        [request[7], request[9], request[11]] = [answers, authorities, additionals];
        request
    };
    let opt = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];
    let requests = [
        ("a record that is not there", behind([0, 0, 1], &[])),
        ("data beyond the end", behind([1, 0, 0], &[0, 0, 1, 0, 1, 0, 0, 0, 5, 0xff, 0xff])),
        ("two OPTs", behind([0, 0, 2], &[opt, opt].concat())),
        ("an OPT that has a name", behind([0, 0, 1], &[&[1, b'a'][..], &opt].concat())),
        ("an option beyond the end", behind([0, 0, 1], &[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4, 0, 10, 0, 9])),
    ];
    for (wrong, request) in requests {
        let reply = bed.reply(&request);
        assert_eq!(reply[3] & 0x0f, 1, "{wrong}");
        assert_eq!(reply[12..], good[12..], "{wrong}: with the question");
    }
}

#[test]
fn a_question_over_which_the_answering_code_breaks_down_gets_servfail_and_no_other_does() {
    let breaks = |request: &[u8]| request.windows(4).any(|octets| octets == b"boom");
    assert!(breaks(&plain("boom.shop.svc.clusterset.local", RecordType::A)));
    let bed = Bed::answering(Answering {
        datagram: |table, request, picks| {
            assert!(!request.windows(4).any(|octets| octets == b"boom"), "planted");
            tombolo_core::dns::respond(table, request, picks)
        },
        stream: |table, request, picks| {
            assert!(!request.windows(4).any(|octets| octets == b"boom"), "planted");
            tombolo_core::dns::respond_on_stream(table, request, picks)
        },
    });
    let boom = ask("boom.shop.svc.clusterset.local", RecordType::A, |m| m.metadata.recursion_desired = true);
    for way in bed.ways() {
        let mut asker = Asker::new(way);
        assert_eq!(asker.ask(&boom), [0, 7, 0x81, 2, 0, 0, 0, 0, 0, 0, 0, 0], "{way:?}");
        let good = Message::from_vec(&asker.ask(&plain(WEB, RecordType::A))).unwrap();
        assert_eq!(addresses(&good), ["10.102.0.10"], "{way:?}");
    }
    assert_eq!(bed.server.tally().panics, bed.ways().len() as u64);
}

#[test]
fn classes_other_than_in_are_refused() {
    let bed = bed();
    let of = |name: &str, class: DNSClass| {
        bed.read(&ask(name, RecordType::TXT, |message| message.queries[0].query_class = class))
    };
    for (name, class) in [
        ("version.bind", DNSClass::CH),
        ("id.server", DNSClass::CH),
        (WEB, DNSClass::HS),
        (WEB, DNSClass::ANY),
        (WEB, DNSClass::Unknown(0)),
    ] {
        assert_eq!(outline(&of(name, class)), (ResponseCode::Refused, [0, 0, 0]), "{name} {class}");
    }
}

#[test]
fn types_of_which_a_name_has_none_are_empty_whether_known_or_not() {
    let bed = bed();
    let types =
        [RecordType::TXT, RecordType::MX, RecordType::HTTPS, RecordType::RRSIG, RecordType::DNSKEY, RecordType::DS];
    for kind in types.into_iter().chain([RecordType::Unknown(65_280)]) {
        assert_eq!(outline(&bed.read(&plain(WEB, kind))), (ResponseCode::NoError, [0, 1, 0]), "{kind}");
    }
}

#[test]
fn any_gets_one_set_of_records() {
    let reply = bed().read(&plain(WEB, RecordType::ANY));
    assert_eq!(outline(&reply), (ResponseCode::NoError, [1, 0, 0]));
    assert_eq!(addresses(&reply), ["10.102.0.10"], "and not that of the other family");
}

#[test]
fn transfers_are_refused_by_every_way() {
    let bed = bed();
    for kind in [RecordType::AXFR, RecordType::IXFR] {
        let reply = bed.read(&plain("clusterset.local", kind));
        assert_eq!(outline(&reply), (ResponseCode::Refused, [0, 0, 0]), "{kind}");
    }
}

#[test]
fn types_that_stand_for_no_record_are_format_errors() {
    let bed = bed();
    for kind in [RecordType::OPT, RecordType::TSIG] {
        assert_eq!(outline(&bed.read(&plain(WEB, kind))), (ResponseCode::FormErr, [0, 0, 0]), "{kind}");
    }
}

/// Nobody else is asked, so what is not ours is refused and what is ours and unknown is denied, at once.
#[test]
fn nothing_is_forwarded_a_name_elsewhere_is_refused_and_one_in_the_zone_is_denied() {
    let bed = bed();
    let ask_for_more = |name| ask(name, RecordType::A, |message| message.metadata.recursion_desired = true);
    for name in ["example.com", "web.shop.svc.cluster.local", "local", "."] {
        assert_eq!(outline(&bed.read(&ask_for_more(name))), (ResponseCode::Refused, [0, 0, 0]), "{name}");
    }
    for name in [API, "a.b.c.clusterset.local"] {
        assert_eq!(outline(&bed.read(&ask_for_more(name))), (ResponseCode::NXDomain, [0, 1, 0]), "{name}");
    }
}

#[test]
fn before_the_views_are_complete_nothing_is_denied_and_the_reason_is_told_b54() {
    let bed = bed_with(&settings(loopback()), Table::default());
    let reply = bed.read(&with_edns(WEB, RecordType::A, |_| ()));
    assert_eq!(outline(&reply), (ResponseCode::ServFail, [0, 0, 0]));
    assert_eq!(extended_error(&reply), Some(14), "not ready");
    assert_eq!(
        extended_error(&bed.read(&with_edns("example.com", RecordType::A, |_| ()))),
        Some(20),
        "not authoritative"
    );
    let transfer = bed.read(&with_edns("clusterset.local", RecordType::AXFR, |_| ()));
    assert_eq!(extended_error(&transfer), Some(18), "prohibited");
}

fn extended_error(reply: &Message) -> Option<u16> {
    let options = reply.edns.as_ref()?.options().as_ref();
    options.iter().find_map(|(_, option)| match option {
        EdnsOption::Unknown(15, bytes) => Some(u16::from_be_bytes(bytes.first_chunk().copied()?)),
        EdnsOption::Unknown(..) | EdnsOption::Subnet(_) | EdnsOption::NSID(_) => None,
        _ => None,
    })
}
