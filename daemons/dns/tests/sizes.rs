//! How much is said, and what of it where not all fits.

use super::*;

fn udp(bed: &Bed, request: &[u8]) -> (usize, Message) {
    let reply = Asker::new((Transport::Udp, bed.at())).ask(request);
    (reply.len(), Message::from_vec(&reply).unwrap())
}

fn tcp(bed: &Bed, request: &[u8]) -> Message {
    Message::from_vec(&Asker::new((Transport::Tcp, bed.at())).ask(request)).unwrap()
}

#[test]
fn without_edns_a_datagram_has_512_octets_at_most_and_no_opt() {
    let (octets, reply) = udp(&bed(), &plain(CROWD, RecordType::A));
    assert!(octets <= 512 && octets > 512 - 60, "{octets}");
    assert!(reply.metadata.truncation && reply.edns.is_none());
}

#[test]
fn with_edns_it_has_what_the_client_takes_but_never_under_512_nor_over_1232() {
    let bed = bed();
    for (takes, limit) in [(0u16, 512), (511, 512), (512, 512), (900, 900), (1232, 1232), (4096, 1232), (65_535, 1232)]
    {
        let mut request = with_edns(CROWD, RecordType::A, |_| ());
        // The library would not write less than 512.
        let at = request.len() - 8;
        request[at..at + 2].copy_from_slice(&takes.to_be_bytes());
        let (octets, reply) = udp(&bed, &request);
        assert!(octets <= limit && octets > limit - 60, "{takes}: {octets}");
        assert!(reply.metadata.truncation, "{takes}");
        assert_eq!(reply.edns.unwrap().max_payload(), 1232, "{takes}: what we take");
    }
}

#[test]
fn what_is_cut_says_so_holds_whole_records_and_is_whole_over_tcp() {
    let bed = bed();
    let (_, cut) = udp(&bed, &plain(CROWD, RecordType::A));
    let whole = tcp(&bed, &plain(CROWD, RecordType::A));
    assert!(cut.metadata.truncation && !whole.metadata.truncation);
    let (cut, mut all) = (addresses(&cut), addresses(&whole));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 200);
    assert!(!cut.is_empty() && cut.iter().all(|address| all.binary_search(address).is_ok()));
}

#[test]
fn what_is_cut_begins_with_another_address_each_time() {
    let bed = bed();
    let mut asker = Asker::new((Transport::Udp, bed.at()));
    let mut heard: Vec<String> = (0..200)
        .flat_map(|_| addresses(&Message::from_vec(&asker.ask(&plain(CROWD, RecordType::A))).unwrap()))
        .collect();
    heard.sort_unstable();
    heard.dedup();
    assert_eq!(heard.len(), 200, "nobody is left out for good");
}

#[test]
fn addresses_of_both_families_stand_beside_srv_records_and_go_first_without_a_word() {
    let bed = bed();
    let (_, beside) = udp(&bed, &plain(&format!("_http._tcp.{WEB}"), RecordType::SRV));
    let glue: Vec<String> = beside.additionals.iter().filter_map(|r| r.data.ip_addr()).map(|a| a.to_string()).collect();
    assert_eq!(glue, ["10.102.0.10", "fd00::10"]);
    let hosts = (0..7).flat_map(|n| [format!("10.2.0.{n}=host-{n}"), format!("fd00:2::{n}=host-{n}")]);
    let services = [table::headless("few", hosts)];
    let bed = bed_with(&settings(loopback()), table::table_of(&services));
    let (_, few) = udp(&bed, &plain("_http._tcp.few.shop.svc.clusterset.local", RecordType::SRV));
    assert_eq!(few.answers.len(), 7);
    assert!(few.additionals.len() < 14 && !few.metadata.truncation, "{}", few.additionals.len());
}

#[test]
fn a_newer_version_of_edns_is_told_which_one_we_speak() {
    let request = with_edns(WEB, RecordType::A, |edns| {
        edns.set_version(1);
    });
    let bed = bed();
    let reply = bed.read(&request);
    // Two codes have this number.
    assert_eq!((u16::from(reply.metadata.response_code), outline(&reply).1), (16, [0, 0, 0]));
    assert_eq!(reply.edns.unwrap().version(), 0);
    let told = bed.server.tally().replies;
    assert!(told.iter().all(|(_, kind, code, _)| (*kind, *code) == ("A", "BADVERS")), "{told:?}");
}

#[test]
fn options_are_ignored_cookies_and_subnets_among_them_and_do_is_copied() {
    let bed = bed();
    // A subnet of 10.1.2.0/24, a client's cookie, one of both sides, padding, and one that nobody knows.
    let options = [
        (8, vec![0, 1, 24, 0, 10, 1, 2]),
        (10, vec![1, 2, 3, 4, 5, 6, 7, 8]),
        (10, vec![9; 24]),
        (12, vec![0; 40]),
        (65_001, vec![1]),
    ];
    for (code, bytes) in options {
        for dnssec_ok in [false, true] {
            let request = with_edns(WEB, RecordType::A, |edns| {
                edns.set_dnssec_ok(dnssec_ok);
                edns.options_mut().insert(EdnsOption::Unknown(code, bytes.clone()));
            });
            let reply = bed.read(&request);
            assert_eq!(addresses(&reply), ["10.102.0.10"], "{code}");
            let edns = reply.edns.unwrap();
            assert_eq!((edns.flags().dnssec_ok, edns.options().as_ref().len()), (dnssec_ok, 0), "{code}");
        }
    }
}
