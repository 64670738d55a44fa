//! What comes back of the question, and what the flags say.

use super::*;

/// Octets of a header.
const HEADER: usize = 12;

#[test]
fn number_rd_and_question_come_back_octet_by_octet_in_the_askers_letters() {
    let bed = bed();
    for name in ["wEb.ShOp.sVc.ClUsTeRsEt.LoCaL", "nO.ShOp.sVc.ClUsTeRsEt.LoCaL", "eXaMpLe.CoM"] {
        for desired in [false, true] {
            let request = ask(name, RecordType::A, |message| {
                message.metadata.id = 0xa5c3;
                message.metadata.recursion_desired = desired;
            });
            let reply = bed.reply(&request);
            assert_eq!(reply[..2], [0xa5, 0xc3]);
            assert_eq!(reply[2] & 1, u8::from(desired), "{name}: RD");
            assert_eq!(reply[HEADER..request.len()], request[HEADER..], "{name}");
        }
    }
}

#[test]
fn names_are_compared_without_case_and_records_have_the_askers_letters() {
    let reply = bed().read(&plain("wEb.ShOp.sVc.ClUsTeRsEt.LoCaL", RecordType::A));
    assert_eq!(addresses(&reply), ["10.102.0.10"]);
    assert_eq!(reply.answers[0].name.to_string(), "wEb.ShOp.sVc.ClUsTeRsEt.LoCaL.");
}

#[test]
fn answers_and_denials_are_authoritative_and_say_nothing_of_recursion_or_signatures() {
    let bed = bed();
    for (name, kind) in [(WEB, RecordType::A), (WEB, RecordType::TXT), (API, RecordType::A)] {
        // AD and CD are set, and so is the bit that must be zero.
        let mut request = ask(name, kind, |message| message.metadata.recursion_desired = true);
        request[3] |= 0x70;
        let reply = bed.reply(&request);
        assert_eq!(reply[2], 0x85, "{name} {kind}: QR, AA, RD");
        assert_eq!(reply[3] & 0xf0, 0, "{name} {kind}: RA, Z, AD, CD");
    }
    assert_eq!(bed.reply(&plain("example.com", RecordType::A))[2], 0x80, "not ours: QR");
}

#[test]
fn the_longest_name_is_read_and_not_found() {
    let long = "a".repeat(63);
    let name = format!("{long}.{long}.{long}.{}.clusterset.local", "b".repeat(44));
    assert_eq!(name.len(), 253);
    assert_eq!(outline(&bed().read(&plain(&name, RecordType::A))), (ResponseCode::NXDomain, [0, 1, 0]));
}

#[test]
fn owner_names_are_compressed_and_targets_of_srv_records_are_not() {
    let name = format!("_http._tcp.{WEB}");
    let request = plain(&name, RecordType::SRV);
    let reply = bed().reply(&request);
    let (owner, record) = reply[request.len()..].split_at(2);
    assert_eq!(owner, [0xc0, 12], "to the question");
    let target = b"\x03web\x04shop\x03svc\x0aclusterset\x05local\x00";
    // Type, class, lifetime, length; priority, weight, port.
    assert_eq!(record[16..16 + target.len()], target[..]);
    assert_eq!(record[8..10], [0, u8::try_from(6 + target.len()).unwrap()]);
    // The SOA's names end as the question does.
    let denied = bed().reply(&plain(API, RecordType::A));
    let question_ends = plain(API, RecordType::A).len();
    let zone_at = u8::try_from(HEADER + "\x03api\x04shop\x03svc".len()).unwrap();
    assert_eq!(denied[question_ends..question_ends + 2], [0xc0, zone_at]);
    assert_eq!(denied[question_ends + 12..question_ends + 21], [&b"\x02ns\x03dns"[..], &[0xc0, zone_at]].concat());
}

#[test]
fn denials_and_empty_answers_carry_the_soa_for_five_seconds() {
    let bed = bed();
    for (name, kind) in [(API, RecordType::A), (WEB, RecordType::TXT)] {
        let reply = bed.read(&plain(name, kind));
        let soa = &reply.authorities[0];
        assert_eq!(
            (soa.record_type(), soa.name.to_string(), soa.ttl),
            (RecordType::SOA, "clusterset.local.".into(), 5)
        );
    }
}

#[test]
fn addresses_come_in_another_order_each_time() {
    let bed = bed();
    let mut asker = Asker::new((Transport::Udp, bed.at()));
    let mut first = || {
        let reply = Message::from_vec(&asker.ask(&plain(DB, RecordType::A))).unwrap();
        addresses(&reply)[0].clone()
    };
    let [one, two, three] = [first(), first(), first()];
    assert!(one != two && two != three && one == three, "{one} {two} {three}");
}
