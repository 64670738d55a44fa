//! The table is swapped whole, under load, and nobody notices.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Builder;
use tombolo_core::dns::{RecordKind, Zone as Domain};
use tombolo_shell::ZoneHand;

const NAMES: u32 = 10_000;

/// 10,000 names, all with an address of this network.
fn names(network: u8) -> Arc<Table> {
    let of = |number: u32| {
        let [.., c, d] = number.to_be_bytes();
        table::cluster_ip(&format!("s{number}"), &[&format!("10.{network}.{c}.{d}")])
    };
    Arc::new(table::table_of(&(0..NAMES).map(of).collect::<Vec<_>>()))
}

fn ask_for(number: u32) -> Vec<u8> {
    plain(&format!("s{number}.shop.svc.clusterset.local"), RecordType::A)
}

/// The network of the address in the reply, whose rest has to be that name's.
fn network(reply: &[u8], number: u32) -> u8 {
    let reply = Message::from_vec(reply).unwrap();
    let [IpAddr::V4(address)] = reply.answers.iter().filter_map(|r| r.data.ip_addr()).collect::<Vec<_>>()[..] else {
        panic!("{number}: {reply:?}")
    };
    let ([_, network, c, d], [.., high, low]) = (address.octets(), number.to_be_bytes());
    assert_eq!([c, d], [high, low]);
    network
}

#[test]
fn a_table_of_ten_thousand_names_is_swapped_under_load_and_every_question_is_answered_from_the_old_or_the_new() {
    let mut bed = bed_with(&settings(loopback()), Table::clone(&names(1)));
    let over = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = bed
        .ways()
        .into_iter()
        .enumerate()
        .map(|(at, way)| {
            let (over, asked) = (Arc::clone(&over), Arc::clone(&asked));
            let ask_all = move || {
                let (mut asker, mut number, mut count) = (Asker::new(way), u32::try_from(at).unwrap(), 0);
                while !over.load(Ordering::Relaxed) {
                    // Several under way at once; a question that is lost is never answered, and the test fails for it.
                    let numbers: Vec<u32> = (0..16).map(|n| (number + n * 613) % NAMES).collect();
                    numbers.iter().for_each(|number| asker.send(&ask_for(*number)));
                    for number in numbers {
                        assert!([1, 2].contains(&network(&asker.receive(), number)));
                        count += 1;
                    }
                    number += 1;
                    asked.fetch_add(16, Ordering::Relaxed);
                }
                count
            };
            Builder::new().spawn(ask_all).unwrap()
        })
        .collect();
    let tables = [names(1), names(2)];
    let mut swaps = 0;
    while swaps < 100 || asked.load(Ordering::Relaxed) < 5_000 {
        bed.zone.swap(Arc::new(Table::clone(&tables[swaps % 2]).with_serial(u32::try_from(swaps).unwrap())));
        swaps += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    over.store(true, Ordering::Relaxed);
    let answered: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    assert_eq!(bed.server.tally().all_replies(), answered);
    assert!(answered >= 5_000);
}

#[test]
fn after_a_swap_the_next_question_is_answered_from_the_new_table_and_the_old_one_is_freed_by_the_hand() {
    let mut bed = bed_with(&settings(loopback()), Table::clone(&names(1)));
    let mut askers: Vec<Asker> = bed.ways().into_iter().map(Asker::new).collect();
    let mut old = None;
    for network_now in [2, 3, 4] {
        let table = names(network_now);
        let weak = Arc::downgrade(&table);
        bed.zone.swap(table);
        for asker in &mut askers {
            assert_eq!(network(&asker.ask(&ask_for(77)), 77), network_now);
        }
        if let Some(old) = old.replace(weak) {
            assert!(old.upgrade().is_none(), "one swap later at the latest");
        }
    }
}

#[test]
fn a_server_of_another_zone_says_not_yet_from_the_start() {
    let zone = Domain::new("clusters.example").unwrap();
    let bed = bed_with(&settings(loopback()), Table::of_nothing(zone));
    let request = tombolo_core::dns::question(7, "web.shop.svc.clusters.example", RecordKind::A).unwrap();
    assert_eq!(bed.read(&request).metadata.response_code, ResponseCode::ServFail);
    assert_eq!(bed.read(&plain(WEB, RecordType::A)).metadata.response_code, ResponseCode::Refused);
}
