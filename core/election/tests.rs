//! One candidate, told step by step what happens, and the machine laws.

use super::*;
use crate::base::laws::{Subject, prove};
use crate::base::{Instant, Machine, Rng, drain};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

const ME: &str = "gw-a/1";
const UNIX: u64 = 1_800_000_000;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn config() -> Config {
    let [host, process] = ["gw-a", "1"].map(Into::into);
    Config { lease: "gateway".into(), host, process, durations: Durations::GATEWAY, seed: 7 }
}

fn version(number: u64) -> Version {
    Version(number.to_string().into())
}

fn held_by(holder: &str, epoch: u64) -> Lease {
    let wall = Wall::from_unix_secs(UNIX);
    Lease {
        name: "gateway".into(),
        holder: Some(holder.into()),
        duration: secs(15),
        acquired: wall,
        renewed: wall,
        transitions: 4,
        epoch: Epoch(epoch),
    }
}

/// A candidate and the time.
struct Candidate {
    machine: Election,
    now: Instant,
}

impl Candidate {
    /// Started, with its first read on the way.
    fn new() -> Self {
        let mut candidate = Self { machine: Election::new(config()), now: Instant::ZERO + secs(100) };
        assert_eq!(candidate.machine.poll_timeout(), None);
        let first = candidate.hear(Input::Wall(Wall::from_unix_secs(UNIX)));
        assert_eq!(first, [Output::Read { request: 0 }]);
        candidate
    }

    /// Elected through a missing Lease: request 1 was the write, its version is 1.
    fn elected() -> Self {
        let mut candidate = Self::new();
        candidate.hear(Input::Answered { request: 0, result: Ok(None) });
        let elected = candidate.hear(Input::Written { request: 1, result: Ok(version(1)) });
        assert_eq!(elected, [Output::Elected(Epoch(UNIX + 1))]);
        candidate
    }

    fn hear(&mut self, input: Input) -> Vec<Output> {
        self.machine.handle(input, self.now);
        drain(&mut self.machine)
    }

    /// Lets time pass up to and with the next wake-up.
    fn wait(&mut self) -> (Reason, Vec<Output>) {
        let (at, reason) = self.machine.poll_timeout().unwrap();
        self.now = at;
        self.machine.handle_timeout(at);
        (reason, drain(&mut self.machine))
    }

    /// Shows it the same Lease at each read, the first of which is on its way.
    fn poll_until_it_writes(&mut self, mut request: u64, lease: &Lease) -> (Instant, Lease) {
        loop {
            let heard = self.hear(Input::Answered { request, result: Ok(Some((lease.clone(), version(9)))) });
            if !heard.is_empty() {
                let (_, lease, expected) = the_write(&heard);
                assert_eq!(expected, Some(version(9)));
                return (self.now, lease);
            }
            let (_, asked) = self.wait();
            let [Output::Read { request: next }] = asked[..] else { panic!("{asked:?}") };
            request = next;
        }
    }

    /// Time passes and nothing else.
    fn pass(&mut self, span: Duration) -> Vec<Output> {
        let end = self.now + span;
        let mut heard = Vec::new();
        while self.machine.poll_timeout().is_some_and(|(at, _)| at <= end) {
            heard.extend(self.wait().1);
        }
        self.now = end;
        heard
    }
}

fn the_write(outputs: &[Output]) -> (u64, Lease, Option<Version>) {
    match outputs {
        [Output::Write { request, lease, expected }] => (*request, lease.clone(), expected.clone()),
        other => panic!("not one write: {other:?}"),
    }
}

#[test]
fn a_missing_lease_is_created_with_an_epoch_after_the_unix_time() {
    let mut candidate = Candidate::new();
    let (_, lease, expected) = the_write(&candidate.hear(Input::Answered { request: 0, result: Ok(None) }));
    assert_eq!(expected, None);
    assert_eq!(lease, Lease { transitions: 0, ..held_by(ME, UNIX + 1) });
}

#[test]
fn the_epoch_is_greater_than_all_that_were_seen() {
    let mut candidate = Candidate::new();
    candidate.hear(Input::Seen(Epoch(UNIX + 30)));
    let released = Lease { holder: None, ..held_by("", UNIX + 70) };
    let (_, lease, expected) =
        the_write(&candidate.hear(Input::Answered { request: 0, result: Ok(Some((released, version(9)))) }));
    assert_eq!((lease.epoch, expected, lease.transitions), (Epoch(UNIX + 71), Some(version(9)), 5));
}

#[test]
fn a_new_observer_waits_a_full_lease_duration_however_old_the_renew_time_is() {
    let mut candidate = Candidate::new();
    let began = candidate.now;
    let old = Lease { renewed: Wall::from_unix_secs(1), ..held_by("gw-b/1", 5) };
    let (took, lease) = candidate.poll_until_it_writes(0, &old);
    assert_eq!((took.since(began), lease.holder.as_deref()), (secs(15), Some(ME)));
}

#[test]
fn a_holder_that_cannot_renew_stands_down_when_the_deadline_is_over_counted_from_when_it_asked() {
    let mut candidate = Candidate::new();
    candidate.hear(Input::Answered { request: 0, result: Ok(None) });
    let asked = candidate.now;
    candidate.pass(secs(4));
    candidate.hear(Input::Written { request: 1, result: Ok(version(1)) });
    let heard = loop {
        let (reason, heard) = candidate.wait();
        if reason == Reason::TermEnds {
            break heard;
        }
    };
    let because = "not renewed for 10s: no answer in time".into();
    assert_eq!(heard, [Output::StoodDown { epoch: Epoch(UNIX + 1), because }]);
    assert_eq!(candidate.now.since(asked), secs(10));
}

#[test]
fn a_holder_renews_with_the_version_it_knows_and_keeps_epoch_and_acquire_time() {
    let mut candidate = Candidate::elected();
    let (reason, heard) = candidate.wait();
    let (_, lease, expected) = the_write(&heard);
    assert_eq!((reason, expected), (Reason::Poll, Some(version(1))));
    assert_eq!((lease.epoch, lease.acquired), (Epoch(UNIX + 1), Wall::from_unix_secs(UNIX)));
    assert!(lease.renewed > lease.acquired);
}

#[test]
fn a_renewal_can_be_seen_also_if_the_wall_clock_was_set_back() {
    let mut candidate = Candidate::elected();
    let (at, _) = candidate.machine.poll_timeout().unwrap();
    candidate.now = at;
    candidate.machine.handle(Input::Wall(Wall::from_unix_secs(UNIX)), at);
    let (_, lease, _) = the_write(&candidate.wait().1);
    assert_eq!(lease.renewed, Wall::from_unix_micros(UNIX * 1_000_000 + 1));
}

#[test]
fn a_late_answer_to_an_abandoned_request_is_ignored() {
    let mut candidate = Candidate::new();
    let (reason, heard) = candidate.wait();
    assert_eq!((reason, heard), (Reason::NoAnswer, [Output::Read { request: 1 }].into()));
    let before = candidate.machine.clone();
    assert_eq!(candidate.hear(Input::Answered { request: 0, result: Ok(None) }), []);
    assert_eq!(candidate.machine, before);
}

#[test]
fn a_take_over_without_an_answer_that_happened_is_recognised_and_begins_a_new_epoch() {
    let mut candidate = Candidate::new();
    let (_, took, _) = the_write(&candidate.hear(Input::Answered { request: 0, result: Ok(None) }));
    let (reason, heard) = candidate.wait();
    assert_eq!((reason, heard), (Reason::NoAnswer, [Output::Read { request: 2 }].into()));
    let heard = candidate.hear(Input::Answered { request: 2, result: Ok(Some((took.clone(), version(1)))) });
    let (request, lease, expected) = the_write(&heard);
    assert!(lease.epoch > took.epoch);
    assert_eq!((expected, lease.transitions), (Some(version(1)), took.transitions));
    let heard = candidate.hear(Input::Written { request, result: Ok(version(2)) });
    assert_eq!(heard, [Output::Elected(lease.epoch)]);
}

#[test]
fn a_renewal_without_an_answer_that_happened_is_no_new_term() {
    let mut candidate = Candidate::elected();
    let (_, renewed, _) = the_write(&candidate.wait().1);
    let (reason, heard) = candidate.wait();
    assert_eq!((reason, heard), (Reason::NoAnswer, [Output::Read { request: 3 }].into()));
    let heard = candidate.hear(Input::Answered { request: 3, result: Ok(Some((renewed, version(2)))) });
    let (request, lease, expected) = the_write(&heard);
    assert_eq!((lease.epoch, expected), (Epoch(UNIX + 1), Some(version(2))));
    assert_eq!(candidate.hear(Input::Written { request, result: Ok(version(3)) }), []);
    assert_eq!(candidate.machine.epoch(), Some(Epoch(UNIX + 1)));
}

#[test]
fn a_holder_that_meets_a_conflict_reads_at_once_and_stands_down_if_another_holds() {
    let mut candidate = Candidate::elected();
    let (request, ..) = the_write(&candidate.wait().1);
    let heard = candidate.hear(Input::Written { request, result: Err(ApiError::Conflict) });
    assert_eq!(heard, [Output::Read { request: 3 }]);
    let other = held_by("gw-b/1", UNIX + 2);
    let heard = candidate.hear(Input::Answered { request: 3, result: Ok(Some((other, version(5)))) });
    let because = "the lease names gw-b/1 in epoch 1800000002".into();
    assert_eq!(heard, [Output::StoodDown { epoch: Epoch(UNIX + 1), because }]);
}

#[test]
fn stopping_releases_with_an_empty_holder_for_a_second_and_keeps_the_epoch() {
    let mut candidate = Candidate::elected();
    let heard = candidate.hear(Input::Stop);
    assert_eq!(heard[0], Output::StoodDown { epoch: Epoch(UNIX + 1), because: "stopped".into() });
    let (request, lease, expected) = the_write(&heard[1..]);
    assert_eq!((lease.holder, lease.duration, lease.epoch), (None, secs(1), Epoch(UNIX + 1)));
    assert_eq!(expected, Some(version(1)));
    assert_eq!(candidate.hear(Input::Written { request, result: Ok(version(2)) }), []);
    assert!(candidate.machine.is_stopped());
    assert_eq!(candidate.machine.poll_timeout(), None);
}

#[test]
fn stopping_releases_only_what_it_still_holds() {
    let mut candidate = Candidate::elected();
    let heard = candidate.hear(Input::Stop);
    let (request, ..) = the_write(&heard[1..]);
    let heard = candidate.hear(Input::Written { request, result: Err(ApiError::Conflict) });
    assert_eq!(heard, [Output::Read { request: 3 }]);
    let other = held_by("gw-b/1", UNIX + 2);
    assert_eq!(candidate.hear(Input::Answered { request: 3, result: Ok(Some((other, version(5)))) }), []);
    assert!(candidate.machine.is_stopped());
}

#[test]
fn stopping_while_a_take_over_is_on_its_way_gives_back_what_it_took() {
    let mut candidate = Candidate::new();
    candidate.hear(Input::Answered { request: 0, result: Ok(None) });
    assert_eq!(candidate.hear(Input::Stop), []);
    let (_, lease, expected) = the_write(&candidate.hear(Input::Written { request: 1, result: Ok(version(1)) }));
    assert_eq!((lease.holder, expected), (None, Some(version(1))));
}

#[test]
fn stopping_gives_up_when_the_api_stays_silent() {
    let mut candidate = Candidate::elected();
    candidate.hear(Input::Stop);
    candidate.pass(secs(10));
    assert!(candidate.machine.is_stopped());
    assert_eq!(candidate.machine.poll_timeout(), None);
}

#[test]
fn a_standby_that_is_stopped_writes_nothing() {
    let mut candidate = Candidate::new();
    let other = held_by("gw-b/1", 5);
    candidate.hear(Input::Answered { request: 0, result: Ok(Some((other, version(5)))) });
    assert_eq!(candidate.hear(Input::Stop), []);
    assert!(candidate.machine.is_stopped());
}

#[test]
fn an_epoch_from_elsewhere_that_outranks_the_own_ends_the_term_and_is_outwaited() {
    let mut candidate = Candidate::elected();
    let heard = candidate.hear(Input::Seen(Epoch(UNIX + 500)));
    let because = "epoch 1800000500 was seen elsewhere".into();
    assert_eq!(heard, [Output::StoodDown { epoch: Epoch(UNIX + 1), because }, Output::Read { request: 2 }]);
    let outranked = candidate.now;
    let mine = held_by(ME, UNIX + 1);
    let (took, lease) = candidate.poll_until_it_writes(2, &mine);
    assert_eq!((took.since(outranked), lease.epoch), (secs(15), Epoch(UNIX + 501)));
}

#[test]
fn an_outranked_take_over_is_not_announced() {
    let mut candidate = Candidate::new();
    candidate.hear(Input::Answered { request: 0, result: Ok(None) });
    candidate.hear(Input::Seen(Epoch(UNIX + 500)));
    assert_eq!(candidate.hear(Input::Written { request: 1, result: Ok(version(1)) }), []);
    assert_eq!(candidate.machine.epoch(), None);
}

#[test]
fn the_absence_of_a_lease_counts_only_while_each_poll_sees_it() {
    let mut candidate = Candidate::new();
    candidate.hear(Input::Seen(Epoch(UNIX + 1)));
    let mut asked = 0;
    // Missed once, after ten seconds: it may have been there in between.
    let mut missed = None;
    let began = candidate.now;
    loop {
        let miss = missed.is_none() && candidate.now.since(began) > secs(10);
        let result = if miss { Err(ApiError::Unreachable) } else { Ok(None) };
        missed = missed.or(miss.then_some(candidate.now));
        let heard = candidate.hear(Input::Answered { request: asked, result });
        if matches!(heard[..], [Output::Write { .. }]) {
            break;
        }
        asked += 1;
        assert_eq!(candidate.wait().1, [Output::Read { request: asked }]);
    }
    assert!(candidate.now.since(missed.unwrap()) > secs(15));
}

#[test]
fn an_epoch_that_the_lease_knows_of_changes_nothing() {
    let mut candidate = Candidate::elected();
    assert_eq!(candidate.hear(Input::Seen(Epoch(UNIX + 1))), []);
    assert_eq!(candidate.machine.epoch(), Some(Epoch(UNIX + 1)));
}

#[test]
fn a_process_woken_long_after_its_deadline_stands_down_before_anything_else() {
    let mut candidate = Candidate::elected();
    candidate.wait();
    candidate.now = candidate.now + secs(3_600);
    candidate.machine.handle_timeout(candidate.now);
    let heard = drain(&mut candidate.machine);
    assert!(matches!(heard[..], [Output::StoodDown { .. }, Output::Read { .. }]), "{heard:?}");
}

#[test]
fn nothing_is_asked_before_the_time_is_known() {
    let mut machine = Election::new(config());
    machine.handle(Input::Seen(Epoch(5)), Instant::ZERO);
    machine.handle(Input::Yield { for_: secs(1) }, Instant::ZERO);
    assert_eq!((drain(&mut machine), machine.poll_timeout()), (Vec::new(), None));
}

#[test]
fn unsafe_durations_are_refused_with_the_reason() {
    let text = |lease, deadline, retry| Durations::new(lease, deadline, retry).unwrap_err().to_string();
    assert_eq!(text(secs(10), secs(10), secs(2)), "renew deadline 10s, lease 10s: the deadline must be shorter");
    assert_eq!(
        text(secs(15), secs(10), secs(9)),
        "retry period 9s, renew deadline 10s: it must be above zero and 1.2 times it shorter"
    );
    assert_eq!(
        text(Duration::from_millis(1_500), secs(1), Duration::from_millis(1)),
        "a lease of 1.5s: it lasts a whole number of seconds"
    );
    assert_eq!(Durations::new(secs(15), secs(10), secs(2)), Ok(Durations::GATEWAY));
}

/// An API that answers at any time, rightly or with any error, and another candidate that writes now and then.
struct RandomApi {
    there: Option<Lease>,
    version: u64,
}

impl RandomApi {
    fn write(&mut self, lease: Lease) -> Version {
        self.there = Some(lease);
        self.version += 1;
        version(self.version)
    }

    fn serve(&mut self, output: &Output, rng: &mut Rng) -> Option<Input> {
        let error = match rng.below(10) {
            0 => Some(ApiError::Conflict),
            1 => Some(ApiError::Unreachable),
            2 => Some(ApiError::Refused("not allowed".into())),
            _ => None,
        };
        match output {
            Output::Read { request } => {
                let found = self.there.clone().map(|lease| (lease, version(self.version)));
                Some(Input::Answered { request: *request, result: error.map_or(Ok(found), Err) })
            }
            Output::Write { request, lease, expected } => {
                let fits = expected.as_ref().is_none_or(|expected| *expected == version(self.version));
                let result = match error {
                    None if fits => Ok(self.write(lease.clone())),
                    None => Err(ApiError::Conflict),
                    // It may have happened.
                    Some(error) => {
                        if rng.chance(500_000) {
                            self.write(lease.clone());
                        }
                        Err(error)
                    }
                };
                Some(Input::Written { request: *request, result })
            }
            Output::Elected(_) | Output::StoodDown { .. } => None,
        }
    }
}

impl Subject for RandomApi {
    type M = Election;
    const GAP_MAX: Duration = Duration::from_secs(8);

    fn begin(rng: &mut Rng) -> (Self, Election) {
        let there = rng.chance(500_000).then(|| held_by("gw-b/1", rng.below(UNIX * 2)));
        (Self { there, version: 1 }, Election::new(Config { seed: rng.bits(), ..config() }))
    }

    fn input(&mut self, rng: &mut Rng, now: Instant) -> Input {
        let wall = Wall::from_unix_secs(UNIX) + now.since_origin();
        match rng.below(48) {
            0 => Input::Stop,
            1..=3 => Input::Yield { for_: rng.duration(Duration::ZERO, secs(10)) },
            4..=8 => Input::Seen(Epoch(rng.below(UNIX * 2))),
            9..=12 => {
                // Another candidate writes, or the API is emptied; the input itself is one that nobody asked for.
                self.write(held_by("gw-b/2", rng.below(UNIX * 2)));
                self.there = self.there.take().filter(|_| rng.chance(700_000));
                Input::Answered { request: rng.below(20), result: Ok(None) }
            }
            16 => Input::Alone(rng.chance(500_000)),
            15 if rng.chance(100_000) => Input::Left(Epoch(UNIX + rng.below(1_000))),
            13..=15 => Input::Written { request: rng.below(20), result: Ok(version(rng.below(9))) },
            _ => Input::Wall(wall),
        }
    }

    fn react(&mut self, output: &Output, rng: &mut Rng, _now: Instant) -> Vec<(Duration, Input)> {
        let latency = if rng.chance(700_000) { secs(1) } else { secs(7) };
        let answer = self.serve(output, rng).map(|input| (rng.duration(Duration::ZERO, latency), input));
        answer.into_iter().collect()
    }
}

#[test]
fn the_election_keeps_the_laws_of_machines() {
    let proof = prove::<RandomApi>(128);
    assert!(proof.answers > 1_000 && proof.wakes > 750 && proof.coincidences > 50, "{proof:?}");
}

#[test]
fn a_lease_that_names_an_earlier_process_of_the_own_host_is_taken_at_once() {
    for (holder, free) in [("gw-a/0", true), ("gw-a", false), ("gw-a-b/0", false), ("gw-b/0", false)] {
        let mut candidate = Candidate::new();
        let held = Ok(Some((held_by(holder, 9), version(5))));
        let then = candidate.hear(Input::Answered { request: 0, result: held });
        let takes = matches!(&then[..], [Output::Write { expected, .. }] if *expected == Some(version(5)));
        assert_eq!(takes, free, "{holder}: {then:?}");
    }
}

#[test]
fn where_no_other_host_may_be_one_nobody_is_waited_for() {
    let mut candidate = Candidate::new();
    candidate.hear(Input::Seen(Epoch(UNIX + 7)));
    let waits = candidate.hear(Input::Answered { request: 0, result: Ok(None) });
    assert_eq!(waits, [], "who announced may put it back");
    assert_eq!(candidate.hear(Input::Alone(true)), [Output::Read { request: 1 }]);
    let taken = candidate.hear(Input::Answered { request: 1, result: Ok(None) });
    let [Output::Write { lease, expected: None, .. }] = &taken[..] else { panic!("{taken:?}") };
    assert!(lease.epoch > Epoch(UNIX + 7), "{lease:?}");
}

#[test]
fn a_lease_of_another_host_is_waited_for_also_by_one_that_is_alone_now() {
    let mut candidate = Candidate::new();
    candidate.hear(Input::Alone(true));
    let held = Ok(Some((held_by("gw-b/1", 9), version(5))));
    assert_eq!(candidate.hear(Input::Answered { request: 0, result: held }), []);
}

#[test]
fn a_cluster_that_left_has_no_holder_to_wait_for_and_announces_above_what_it_did() {
    let mut candidate = Candidate::new();
    candidate.hear(Input::Left(Epoch(UNIX + 500)));
    let takes = candidate.hear(Input::Answered { request: 0, result: Ok(None) });
    assert!(matches!(&takes[..], [Output::Write { lease, .. }] if lease.epoch == Epoch(UNIX + 501)), "{takes:?}");
}

#[test]
fn who_learns_that_its_cluster_had_left_in_a_later_epoch_announces_above_that() {
    let mut candidate = Candidate::elected();
    assert_eq!(candidate.hear(Input::Left(Epoch(UNIX))), []);
    let heard = candidate.hear(Input::Left(Epoch(UNIX + 500)));
    let because = format!("the cluster left in epoch {}", UNIX + 500);
    assert_eq!(heard[0], Output::StoodDown { epoch: Epoch(UNIX + 1), because });
}
