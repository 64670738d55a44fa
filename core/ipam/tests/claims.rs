//! Joining: alone, again, all at once, and with somebody else's name.

use super::{cidr, cidrs, cluster, ranges};
use crate::base::laws::{Subject, prove};
use crate::base::{Cidr, Epoch, Instant, Machine, Revision, Rng, Store, drain};
use crate::ipam::{Admitted, Application, Claiming, GlobalWish, Grounds, Input, Outcome, Output, admit};
use crate::model::{ApiError, Claim, Claims, Ranges, Version};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

const CLUSTERSET: &str = "242.0.0.0/8";

fn application(name: &str, global: GlobalWish) -> Application {
    // All have the same pods and services: that is what global addresses are for.
    let ranges = ranges(&["10.1.0.0/16"], &["10.101.0.0/16"]);
    Application { cluster: cluster(name), identity: format!("uid of {name}"), ranges, global, epoch: Epoch(5) }
}

fn any_of(within: &str, size: u64) -> GlobalWish {
    GlobalWish::Any { within: cidr(within), size }
}

fn joined(claims: &mut Claims, application: &Application) -> Claim {
    let Admitted { claim, claims: after } = admit(claims, &BTreeMap::new(), application).unwrap();
    *claims = after;
    claim
}

fn refusal(claims: &Claims, application: &Application) -> String {
    admit(claims, &BTreeMap::new(), application).unwrap_err().to_string()
}

#[test]
fn cidr_first_fit() {
    let mut claims = Claims::default();
    let mut global = |name: &str, size| joined(&mut claims, &application(name, any_of(CLUSTERSET, size))).ranges.global;
    assert_eq!(global("a", 65_536), cidrs(&["242.0.0.0/16"]));
    assert_eq!(global("b", 256), cidrs(&["242.1.0.0/24"]));
    assert_eq!(global("c", 65_536), cidrs(&["242.2.0.0/16"]));
    assert_eq!(global("d", 256), cidrs(&["242.1.1.0/24"]));
}

#[test]
fn cidr_size_rounds_up() {
    let mut claims = Claims::default();
    let claim = joined(&mut claims, &application("a", any_of("fd99::/32", 1_000)));
    assert_eq!(claim.ranges.global, cidrs(&["fd99::/118"]));
    for size in [0, 200, u64::MAX] {
        let text = refusal(&claims, &application("b", any_of("242.0.0.0/24", size)));
        assert!(
            text.starts_with(&format!("a global range of {size} addresses is not to be had in 242.0.0.0/24")),
            "{text}"
        );
    }
}

#[test]
fn cidr_reused_on_rejoin() {
    let mut claims = Claims::default();
    let first = joined(&mut claims, &application("a", any_of(CLUSTERSET, 65_536)));
    joined(&mut claims, &application("b", any_of(CLUSTERSET, 65_536)));
    let before = claims.clone();
    assert_eq!(joined(&mut claims, &application("a", any_of(CLUSTERSET, 256))), first);
    assert_eq!(claims, before);
    let other = GlobalWish::This { range: cidr("242.9.0.0/16") };
    assert_eq!(
        refusal(&claims, &application("a", other)),
        "a has the global range 242.0.0.0/16 already: leave and join again to get 242.9.0.0/16"
    );
}

#[test]
fn cidr_overlap_rejected() {
    let mut claims = Claims::default();
    joined(&mut claims, &application("a", GlobalWish::This { range: cidr("242.0.0.0/16") }));
    assert_eq!(
        refusal(&claims, &application("b", GlobalWish::This { range: cidr("242.0.4.0/24") })),
        "ranges overlap: 242.0.4.0/24 for global addresses of b meets 242.0.0.0/16 for global addresses of a"
    );
    assert_eq!(
        refusal(&claims, &application("b", GlobalWish::This { range: cidr("10.1.4.0/24") })),
        "ranges overlap: 10.1.0.0/16 for pods of b meets 10.1.4.0/24 for global addresses of b; \
         10.1.4.0/24 for global addresses of b meets 10.1.0.0/16 for pods of a"
    );
    assert_eq!(
        refusal(&claims, &application("b", GlobalWish::None)),
        "ranges overlap: 10.1.0.0/16 for pods of b meets 10.1.0.0/16 for pods of a; \
         10.101.0.0/16 for services of b meets 10.101.0.0/16 for services of a"
    );
}

#[test]
fn a_global_range_meets_nothing_that_any_member_uses() {
    let mut claims = Claims::default();
    let mut first = application("a", any_of(CLUSTERSET, 65_536));
    first.ranges.nodes = vec!["242.1.0.7".parse().unwrap()];
    joined(&mut claims, &first);
    let claim = joined(&mut claims, &application("b", any_of(CLUSTERSET, 65_536)));
    assert_eq!(claim.ranges.global, cidrs(&["242.2.0.0/16"]));
}

#[test]
fn a_range_that_is_special_everywhere_is_refused() {
    let mut bad = application("a", GlobalWish::None);
    bad.ranges.services = cidrs(&["169.254.4.0/24"]);
    assert_eq!(
        refusal(&Claims::default(), &bad),
        "169.254.4.0/24 for services is special (169.254.0.0/16) and cannot be used"
    );
    bad.ranges.services = cidrs(&["0.0.0.0/0"]);
    assert!(refusal(&Claims::default(), &bad).contains("special (0.0.0.0/8)"));
}

#[test]
fn a_stranger_does_not_get_the_id_of_a_member_and_the_member_does_b36() {
    let mut claims = Claims::default();
    let east = application("east", any_of(CLUSTERSET, 256));
    let claim = joined(&mut claims, &east);
    let stranger = Application { identity: "uid of a stranger".into(), ..east.clone() };
    assert_eq!(
        refusal(&claims, &stranger),
        "the id east belongs to another cluster (its kube-system has the UID uid of east, here it is \
         uid of a stranger): choose another id, or remove the other cluster first"
    );
    assert_eq!(joined(&mut claims, &east), claim);
}

/// A broker that holds the claims.
struct Broker(Store<(), Claims>);

impl Broker {
    fn new() -> Self {
        Self(Store::new(0))
    }

    fn claims(&self) -> Claims {
        self.0.get(&()).map(|there| there.value.clone()).unwrap_or_default()
    }

    fn answer(&mut self, output: &Output) -> Option<Input> {
        let version = |revision: Revision| Version(revision.to_string().as_str().into());
        match output {
            Output::Read { request } => {
                let found = self.0.get(&()).map(|there| (there.value.clone(), version(there.modified)));
                Some(Input::Answered { request: *request, result: Ok(found) })
            }
            Output::Write { request, claims, expected } => {
                let result = match expected {
                    None => self.0.create((), claims.clone()),
                    Some(expected) => {
                        let expected = Revision(expected.0.parse().unwrap());
                        self.0.replace((), claims.clone(), Some(expected))
                    }
                };
                let result = result.map(version).map_err(|_| ApiError::Conflict);
                Some(Input::Written { request: *request, result })
            }
            Output::Done(_) => None,
        }
    }
}

/// Lets all claim at once: one thing happens at a time, to whom chance picks. An answer may be lost, and a claimer may
/// crash at any moment and begin anew.
fn race(applications: &[Application], seed: u64, broker: &mut Broker) -> Vec<Outcome> {
    let mut rng = Rng::new(seed);
    let mut now = Instant::ZERO;
    let begin = |application: &Application, rng: &mut Rng, now| {
        Claiming::new(application.clone(), Grounds::default(), rng.bits(), now)
    };
    let mut claimers: Vec<_> = applications.iter().map(|a| (begin(a, &mut rng, now), None::<Output>)).collect();
    let mut outcomes: Vec<Option<Outcome>> = vec![None; applications.len()];
    while outcomes.iter().any(Option::is_none) {
        now = now + Duration::from_millis(5);
        assert!(now < Instant::ZERO + Duration::from_secs(3_600), "it does not end: {outcomes:?}");
        let at = usize::try_from(rng.below(u64::try_from(applications.len()).unwrap())).unwrap();
        let (claimer, asked) = &mut claimers[at];
        claimer.handle_timeout(now);
        for output in drain(claimer) {
            if let Output::Done(outcome) = output {
                outcomes[at] = Some(outcome);
            } else {
                *asked = Some(output);
            }
        }
        if rng.chance(20_000) && outcomes[at].is_none() {
            (*claimer, *asked) = (begin(&applications[at], &mut rng, now), None);
        } else if rng.chance(700_000)
            && let Some(answer) = asked.take().and_then(|output| broker.answer(&output))
            && !rng.chance(100_000)
        {
            claimer.handle(answer, now);
        }
        for output in drain(claimer) {
            if let Output::Done(outcome) = output {
                outcomes[at] = Some(outcome);
            } else {
                *asked = Some(output);
            }
        }
    }
    outcomes.into_iter().flatten().collect()
}

#[test]
fn clusters_that_join_at_once_get_disjoint_ranges_and_one_too_many_is_told_why_b34() {
    for seed in 0..20 {
        let within = "242.0.0.0/20";
        let apply = |i: usize| application(&format!("c{i}"), any_of(within, 256));
        let all: Vec<_> = (0..16).map(apply).collect();
        let mut broker = Broker::new();
        let outcomes = race(&all, seed, &mut broker);
        let mut given: Vec<Cidr> = outcomes
            .iter()
            .flat_map(|outcome| match outcome {
                Outcome::Claimed(Claim { ranges: Ranges { global, .. }, .. }) => global.clone(),
                Outcome::Released => panic!("seed {seed}: nobody leaves"),
                Outcome::Refused(why) => panic!("seed {seed}: {why}"),
            })
            .collect();
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 16, "seed {seed}");
        for (application, outcome) in all.iter().zip(&outcomes) {
            let held = broker.claims().members.get(&application.cluster).cloned();
            assert_eq!(held.map(Outcome::Claimed).as_ref(), Some(outcome), "seed {seed}");
        }
        let one_more = race(&[apply(16)], seed, &mut broker);
        let [Outcome::Refused(why)] = one_more.as_slice() else { panic!("seed {seed}: {one_more:?}") };
        assert!(
            why.starts_with("no 256 neighbouring addresses are free in 242.0.0.0/20: the members have 242.0.0.0/24, ")
        );
        assert_eq!(broker.claims().members.len(), 16, "a refusal writes nothing");
    }
}

#[test]
fn a_broker_that_forbids_the_write_ends_it_with_its_reason() {
    let mut claiming = Claiming::new(application("a", GlobalWish::None), Grounds::default(), 1, Instant::ZERO);
    let mut broker = Broker::new();
    let read = drain(&mut claiming);
    claiming.handle(broker.answer(&read[0]).unwrap(), Instant::ZERO);
    let Some(Output::Write { request, .. }) = drain(&mut claiming).pop() else { panic!("no write") };
    claiming.handle(Input::Written { request, result: Err(ApiError::Refused("not yours".into())) }, Instant::ZERO);
    let why = "the broker refuses the claim: not yours".to_string();
    assert_eq!(drain(&mut claiming), [Output::Done(Outcome::Refused(why))]);
}

/// What the release of a claim says and writes, at a broker with these members.
fn released(members: &[&Application], who: &Application) -> (Vec<Output>, Claims) {
    let mut claims = Claims::default();
    for (number, member) in members.iter().enumerate() {
        let claim = Claim { identity: member.identity.clone(), ranges: Ranges::default(), epoch: Epoch(5) };
        claims.members.insert(member.cluster.clone(), claim);
        assert_eq!(claims.members.len(), number + 1);
    }
    let mut broker = Broker::new();
    if !members.is_empty() {
        broker.0.create((), claims).unwrap();
    }
    let mut release = Claiming::release(who.cluster.clone(), who.identity.clone(), Epoch(7), 1, Instant::ZERO);
    let said = converse(&mut release, &mut broker);
    (said, broker.claims())
}

/// To its end, at once. Gives what was said.
fn converse(claiming: &mut Claiming, broker: &mut Broker) -> Vec<Output> {
    let mut said = vec![];
    while let Some(output) = claiming.poll_output() {
        if let Some(answer) = broker.answer(&output) {
            claiming.handle(answer, Instant::ZERO);
        }
        said.push(output);
    }
    said
}

#[test]
fn a_claim_that_is_given_back_is_free_and_the_others_stay() {
    let (east, west) = (application("east", GlobalWish::None), application("west", GlobalWish::None));
    let (said, claims) = released(&[&east, &west], &east);
    assert_eq!(said.last(), Some(&Output::Done(Outcome::Released)));
    assert_eq!(claims.members.keys().collect::<Vec<_>>(), [&west.cluster]);
    assert_eq!(claims.left, [(east.cluster.clone(), Epoch(7))].into());
    assert!(
        claims.is_of_before_it_left(&east.cluster, Epoch(7)) && !claims.is_of_before_it_left(&east.cluster, Epoch(8))
    );
    assert!(!claims.is_of_before_it_left(&west.cluster, Epoch(1)));
}

#[test]
fn what_is_anothers_under_this_id_is_left_alone_b36() {
    let (east, west) = (application("east", GlobalWish::None), application("west", GlobalWish::None));
    let stranger = Application { identity: "uid of a stranger".into(), ..east.clone() };
    let (said, claims) = released(&[&east, &west], &stranger);
    assert_eq!((said.len(), &said[1]), (2, &Output::Done(Outcome::Released)));
    assert_eq!((claims.members.len(), claims.left.len()), (2, 0));
}

#[test]
fn a_note_is_left_though_the_broker_has_lost_the_claim() {
    let (east, west) = (application("east", GlobalWish::None), application("west", GlobalWish::None));
    for members in [&[&west][..], &[]] {
        let (said, claims) = released(members, &east);
        assert_eq!(said.last(), Some(&Output::Done(Outcome::Released)));
        assert_eq!((claims.members.len(), claims.left.get(&east.cluster)), (members.len(), Some(&Epoch(7))));
    }
}

#[test]
fn of_who_left_an_old_claim_that_came_back_is_void_and_a_later_one_is_put_back() {
    let [east, west] = ["east", "west"].map(|name| application(name, GlobalWish::None));
    let claim =
        |who: &Application| Claim { identity: who.identity.clone(), ranges: who.ranges.clone(), epoch: who.epoch };
    let (identity, epoch) = ("of later".into(), Epoch(8));
    let later = Claim { identity, ranges: ranges(&["10.7.0.0/16"], &["10.107.0.0/16"]), epoch };
    for since in [None, Some(later)] {
        let mut broker = Broker::new();
        // An old backup: east has a claim, and no note. West wants to have the same.
        let old = Claims { members: [(east.cluster.clone(), claim(&east))].into(), ..Claims::default() };
        broker.0.create((), old.clone()).unwrap();
        let mut claims = old;
        claims.note_left(&[(east.cluster.clone(), Epoch(7))].into());
        let latest = since.iter().map(|later| (east.cluster.clone(), later.clone())).collect();
        let grounds = Grounds { claims, latest, ..Grounds::default() };
        let mut claiming = Claiming::new(west.clone(), grounds, 1, Instant::ZERO);
        let said = converse(&mut claiming, &mut broker);
        assert_eq!(said.last(), Some(&Output::Done(Outcome::Claimed(claim(&west)))));
        let claims = broker.claims();
        assert_eq!(claims.members.get(&east.cluster), since.as_ref());
        assert!(claims.is_of_before_it_left(&east.cluster, Epoch(7)));
    }
}

#[test]
fn a_claim_of_one_who_joined_again_at_a_broker_that_lost_its_note_stands() {
    let (east, west) = (application("east", GlobalWish::None), application("west", GlobalWish::None));
    let east = Application { ranges: ranges(&["10.7.0.0/16"], &["10.107.0.0/16"]), epoch: Epoch(8), ..east };
    let mut broker = Broker::new();
    let claim = Claim { identity: east.identity.clone(), ranges: east.ranges.clone(), epoch: east.epoch };
    broker.0.create((), Claims { members: [(east.cluster.clone(), claim)].into(), ..Claims::default() }).unwrap();
    let mut lost = Claims::default();
    lost.note_left(&[(east.cluster.clone(), Epoch(7))].into());
    let grounds = Grounds { claims: lost, ..Grounds::default() };
    let mut claiming = Claiming::new(west.clone(), grounds, 1, Instant::ZERO);
    converse(&mut claiming, &mut broker);
    let claims = broker.claims();
    assert_eq!(claims.members.keys().collect::<Vec<_>>(), [&east.cluster, &west.cluster]);
    assert!(claims.is_of_before_it_left(&east.cluster, Epoch(7)) && claims.void().is_empty());
}

struct AnyBroker(Broker);

impl Subject for AnyBroker {
    type M = Claiming;
    const GAP_MAX: Duration = Duration::from_secs(12);

    fn begin(rng: &mut Rng) -> (Self, Claiming) {
        if rng.below(3) == 0 {
            let who = application("a", GlobalWish::None);
            return (
                Self(Broker::new()),
                Claiming::release(who.cluster, who.identity, Epoch(7), rng.bits(), Instant::ZERO),
            );
        }
        let wish = [GlobalWish::None, any_of(CLUSTERSET, 256)][usize::try_from(rng.below(2)).unwrap()];
        (Self(Broker::new()), Claiming::new(application("a", wish), Grounds::default(), rng.bits(), Instant::ZERO))
    }

    fn input(&mut self, rng: &mut Rng, _: Instant) -> Input {
        let request = rng.below(4);
        match rng.below(3) {
            0 => Input::Answered { request, result: Err(ApiError::Unreachable) },
            1 => Input::Answered { request, result: Ok(None) },
            _ => Input::Written { request, result: Err(ApiError::Conflict) },
        }
    }

    fn react(&mut self, output: &Output, rng: &mut Rng, _: Instant) -> Vec<(Duration, Input)> {
        let late = Duration::from_millis(rng.below(12_000));
        match (output, rng.below(4)) {
            (_, 0) => vec![],
            (Output::Read { request }, 1) => {
                vec![(late, Input::Answered { request: *request, result: Err(ApiError::Unreachable) })]
            }
            (Output::Write { request, .. }, 1) => {
                vec![(late, Input::Written { request: *request, result: Err(ApiError::Unreachable) })]
            }
            (output, _) => self.0.answer(output).map(|answer| (late, answer)).into_iter().collect(),
        }
    }
}

#[test]
fn the_claiming_machine_keeps_the_laws() {
    let proof = prove::<AnyBroker>(128);
    assert!(proof.answers > 100 && proof.wakes > 100, "{proof:?}");
}
