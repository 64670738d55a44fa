//! Stories of two candidates and one API, told in true time.

use super::pair::{Clocks, Lie, World, millis, secs};
use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

fn good(world: &World) {
    assert_eq!(world.violation, None, "{:#?}", world.log);
}

#[test]
fn the_first_to_come_is_elected_and_stays() {
    let mut world = World::pair();
    world.run(secs(600));
    good(&world);
    assert_eq!((world.announcers(), world.log.len()), ([0].into(), 1));
    assert_eq!(world.lease().unwrap().transitions, 0);
}

#[test]
fn a_dead_holder_is_followed_when_its_lease_has_not_changed_for_its_duration() {
    let mut world = World::pair();
    world.run(secs(60));
    world.kill(0);
    let killed = world.now;
    world.run(secs(60));
    good(&world);
    assert_eq!(world.announcers(), [1]);
    let took = world.log.last().unwrap().at - killed;
    // Renewed at most 2.2 s before, seen at most 2.2 s after, then 15 s.
    assert!(took > secs(12) && took < millis(17_500), "{took:?}");
    assert_eq!(world.lease().unwrap().transitions, 1);
}

#[test]
fn a_clean_stop_hands_over_at_the_next_poll() {
    let mut world = World::pair();
    world.run(secs(60));
    world.input(0, Input::Stop);
    let stopped = world.now;
    world.run(secs(30));
    good(&world);
    assert_eq!(world.announcers(), [1]);
    assert!(world.log.last().unwrap().at - stopped < millis(2_300));
    assert!(world.machine(0).is_stopped());
}

#[test]
fn with_an_api_that_answers_after_six_seconds_the_holder_stands_down_once_and_comes_back_itself_b01() {
    let mut world = World::pair();
    world.run(secs(60));
    for host in [0, 1] {
        world.slow(host, secs(3), secs(3));
    }
    world.run(secs(30));
    assert_eq!(world.announcers(), []);
    for host in [0, 1] {
        world.heal(host);
    }
    world.run(secs(30));
    good(&world);
    assert_eq!(world.announcers(), [0]);
    assert_eq!(world.log.len(), 3, "elected, stood down, elected: {:#?}", world.log);
    assert_eq!(world.lease().unwrap().transitions, 0);
}

#[test]
fn with_an_api_that_is_slow_for_the_holder_alone_the_other_follows_after_it_b01() {
    let mut world = World::pair();
    world.run(secs(60));
    world.slow(0, secs(3), secs(30));
    world.run(secs(60));
    good(&world);
    assert_eq!(world.announcers(), [1]);
    world.heal(0);
    world.run(secs(60));
    good(&world);
    assert_eq!((world.announcers(), world.log.len()), ([1].into(), 3));
}

#[test]
fn an_api_that_answers_after_four_seconds_changes_nothing() {
    let mut world = World::pair();
    world.run(secs(60));
    for host in [0, 1] {
        world.slow(host, secs(2), secs(2));
    }
    world.run(secs(120));
    good(&world);
    assert_eq!((world.announcers(), world.log.len()), ([0].into(), 1));
}

#[test]
fn clock_offsets_do_not_matter() {
    for offsets in [[0, 3_600], [3_600, 0], [0, -86_400 * 365], [-3_600, 3_600]] {
        let clocks = offsets.map(|wall_offset| Clocks { rate: 1_000, wall_offset });
        let mut world = World::new(&clocks, Durations::GATEWAY);
        world.run(secs(120));
        assert_eq!((world.announcers(), world.log.len()), ([0].into(), 1));
        world.cut(0);
        world.run(secs(60));
        good(&world);
        assert_eq!((world.announcers(), world.log.len()), ([1].into(), 3));
    }
}

#[test]
fn clock_rates_may_differ_by_a_fifth() {
    for rates in [[1_000, 1_200], [1_000, 800], [900, 1_080]] {
        let clocks = rates.map(|rate| Clocks { rate, wall_offset: 0 });
        let mut world = World::new(&clocks, Durations::GATEWAY);
        world.run(secs(120));
        world.cut(0);
        world.run(secs(60));
        good(&world);
        assert_eq!(world.announcers(), [1]);
    }
}

#[test]
fn an_emptied_api_changes_neither_the_holder_nor_its_epoch() {
    let mut world = World::pair();
    world.run(secs(60));
    world.empty_api();
    world.run(secs(60));
    good(&world);
    assert_eq!((world.announcers(), world.log.len()), ([0].into(), 1));
    assert_eq!(world.lease().map(|lease| lease.epoch), world.epochs().first().copied());
}

#[test]
fn an_api_emptied_while_the_holder_is_cut_off_is_taken_after_the_holder_is_silent() {
    let mut world = World::pair();
    world.run(secs(60));
    world.cut(0);
    world.empty_api();
    world.run(secs(60));
    good(&world);
    assert_eq!((world.announcers(), world.log.len()), ([1].into(), 3));
}

#[test]
fn an_emptied_api_does_not_send_the_epoch_backwards_whatever_the_clock_says() {
    let clocks = [0, -86_400 * 365].map(|wall_offset| Clocks { rate: 1_000, wall_offset });
    let mut world = World::new(&clocks, Durations::GATEWAY);
    world.run(secs(60));
    world.kill(0);
    world.kill(1);
    world.empty_api();
    // A new process, whose clock is a year behind; all it has is what the hellos of the peers remember.
    world.start(1);
    world.run(secs(60));
    good(&world);
    assert_eq!(world.announcers(), [1]);
    let epochs = world.epochs();
    assert_eq!(epochs, [epochs[0], Epoch(epochs[0].0 + 1)]);
}

#[test]
fn who_yields_is_followed_and_does_not_ask_again_before_its_time() {
    let mut world = World::pair();
    world.run(secs(60));
    world.input(0, Input::Yield { for_: secs(30) });
    world.run(secs(5));
    assert_eq!(world.announcers(), [1]);
    world.kill(1);
    world.run(secs(24));
    assert_eq!(world.announcers(), []);
    world.run(secs(3));
    good(&world);
    assert_eq!(world.announcers(), [0]);
}

#[derive(Clone, Debug)]
enum Fault {
    Slow(usize, Duration, Duration),
    Cut(usize),
    Heal(usize),
    Restart(usize),
    Kill(usize),
    Stop(usize),
    Yield(usize),
    EmptyApi,
}

const HOSTS: usize = 3;

fn stories() -> impl Strategy<Value = Vec<(Duration, Fault)>> {
    let host = || 0..HOSTS;
    let way = || (0..12_000u64).prop_map(millis);
    let fault = prop_oneof![
        4 => (host(), way(), way()).prop_map(|(host, there, back)| Fault::Slow(host, there, back)),
        3 => host().prop_map(Fault::Cut),
        4 => host().prop_map(Fault::Heal),
        1 => host().prop_map(Fault::Restart),
        1 => host().prop_map(Fault::Kill),
        1 => host().prop_map(Fault::Stop),
        1 => host().prop_map(Fault::Yield),
        2 => Just(Fault::EmptyApi),
    ];
    proptest::collection::vec(((0..20_000u64).prop_map(millis), fault), 0..30)
}

fn suffer(world: &mut World, fault: &Fault) {
    match *fault {
        Fault::Slow(host, there, back) => world.slow(host, there, back),
        Fault::Cut(host) => world.cut(host),
        Fault::Heal(host) => world.heal(host),
        Fault::Restart(host) => world.start(host),
        Fault::Kill(host) => world.kill(host),
        Fault::Stop(host) => world.input(host, Input::Stop),
        Fault::Yield(host) => world.input(host, Input::Yield { for_: secs(30) }),
        Fault::EmptyApi => world.empty_api(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_no_two_announce_and_when_all_is_well_one_does(
        story in stories(),
        rates in proptest::array::uniform3(900..=1_100u64),
        offsets in proptest::array::uniform3(-4_000..4_000i64),
    ) {
        let clocks = [0, 1, 2].map(|host| Clocks { rate: rates[host], wall_offset: offsets[host] });
        let mut world = World::new(&clocks, Durations::GATEWAY);
        let mut emptied = false;
        for (gap, fault) in &story {
            world.run(*gap);
            // Once: a Lease that is put back and lost again between two polls leaves no trace.
            if !matches!(fault, Fault::EmptyApi) || !core::mem::replace(&mut emptied, true) {
                suffer(&mut world, fault);
            }
        }
        for host in 0..HOSTS {
            world.heal(host);
            if !world.is_running(host) {
                world.start(host);
            }
        }
        world.run(secs(70));
        prop_assert_eq!(&world.violation, &None, "{:#?}", world.log);
        prop_assert_eq!(world.announcers().len(), 1);
        let events = world.log.len();
        world.run(secs(60));
        prop_assert_eq!(world.log.len(), events, "it does not settle: {:#?}", world.log);
    }
}

/// The planted bugs: each must be seen by the same world.
mod plants {
    use super::*;

    #[test]
    fn who_compares_the_renew_time_with_its_own_clock_is_caught() {
        let lie: Lie = |input, wall| {
            if let Input::Answered { result: Ok(Some((lease, _))), .. } = input
                && wall > lease.renewed + lease.duration
            {
                lease.holder = None;
            }
        };
        let clocks = [0, 20].map(|wall_offset| Clocks { rate: 1_000, wall_offset });
        let mut world = World::new(&clocks, Durations::GATEWAY);
        world.lie = Some(lie);
        world.run(secs(60));
        assert!(world.violation.unwrap().contains("both announce"));
    }

    #[test]
    fn who_announces_past_the_renew_deadline_is_caught() {
        let durations = Durations { renew_deadline: secs(60), ..Durations::GATEWAY };
        let mut world = World::new(&[Clocks { rate: 1_000, wall_offset: 0 }; 2], durations);
        world.run(secs(60));
        world.cut(0);
        world.run(secs(60));
        assert!(world.violation.unwrap().contains("both announce"));
    }

    #[test]
    fn who_takes_a_missing_lease_at_once_is_caught() {
        let mut world = World::pair();
        world.hellos = false;
        world.run(secs(60));
        world.cut(0);
        world.empty_api();
        // It knows of no epoch, which is what makes a missing lease a free one.
        world.start(1);
        world.run(secs(60));
        assert!(world.violation.unwrap().contains("both announce"));
    }
}
