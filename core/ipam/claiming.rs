//! The conversation with the broker that records a claim.

use super::admission::{Application, Refusal, admit};
use super::overlap::conflicts;
use crate::base::{ClusterId, Epoch, Instant, Machine, Rng};
use crate::model::{ApiError, Claim, Claims, Ranges, Version};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// A request is given up after this: its answer will not come any more.
const GIVE_UP: Duration = Duration::from_secs(10);
/// First and longest pause after failures.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(8));

/// What arrives.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// The answer to a read: the claims and their version, or that there are none yet.
    Answered {
        /// The read's.
        request: u64,
        /// The claims.
        result: Result<Option<(Claims, Version)>, ApiError>,
    },
    /// What came of a write.
    Written {
        /// The write's.
        request: u64,
        /// The new version.
        result: Result<Version, ApiError>,
    },
}

/// What it wants.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Output {
    /// Read the claims.
    Read {
        /// To be given back with the answer.
        request: u64,
    },
    /// Write them, on top of this version; without one, they must not be there yet.
    Write {
        /// To be given back with the answer.
        request: u64,
        /// What all have claimed.
        claims: Claims,
        /// The version they were decided on.
        expected: Option<Version>,
    },
    /// It is over.
    Done(Outcome),
}

/// How it ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// The broker holds this claim.
    Claimed(Claim),
    /// The broker holds no claim of the cluster's any more.
    Released,
    /// Nothing was written. Who and what is in the way: of a cluster that wants to join like this, or the broker itself.
    Refused(String),
}

/// Why it wakes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum ClaimingWake {
    /// An answer will not come any more.
    GiveUp,
    /// The pause after a failure is over.
    Again,
}

#[derive(Clone, PartialEq, Debug)]
enum Stage {
    Reading { request: u64, until: Instant },
    Writing { request: u64, until: Instant, then: Outcome },
    Pausing { until: Instant },
    Over,
}

/// What is known of the others before the claims are read.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Grounds {
    /// The claims as they were seen last. A broker that lost them gets them back, also those of clusters that are away; one
    /// that got old ones back, the notes of who left since.
    pub claims: Claims,
    /// What clusters announce.
    pub records: BTreeMap<ClusterId, Ranges>,
    /// The latest claim that was seen of each, unless somebody removed it. Where the broker has one of before a cluster left, or
    /// none, it gets this instead.
    pub latest: BTreeMap<ClusterId, Claim>,
}

/// Those of the `latest` claims that the broker lacks, and has lost: nobody noted that their cluster left. What would meet a
/// claim that stands is not given back.
#[must_use]
pub fn lost_claims(claims: &Claims, latest: &BTreeMap<ClusterId, Claim>) -> BTreeMap<ClusterId, Claim> {
    let mut lost = BTreeMap::new();
    // As nearly always: it is asked at each step of a gateway.
    if latest.keys().all(|cluster| claims.members.contains_key(cluster)) {
        return lost;
    }
    let mut with = claims.clone();
    for (cluster, claim) in latest {
        let is_over = with.members.contains_key(cluster) || with.is_of_before_it_left(cluster, claim.epoch);
        let meets = |(other, theirs): (&ClusterId, &Claim)| {
            !conflicts((cluster, &claim.ranges), (other, &theirs.ranges)).is_empty()
        };
        if !is_over && !with.members.iter().any(meets) {
            with.members.insert(cluster.clone(), claim.clone());
            lost.insert(cluster.clone(), claim.clone());
        }
    }
    lost
}

/// What the conversation is about.
#[derive(Clone, PartialEq, Debug)]
enum Wish {
    Claim(Box<(Application, Grounds)>),
    Release { cluster: ClusterId, identity: String, epoch: Epoch },
}

/// Claims for one cluster, or gives its claim back: reads, decides, writes on top of what was read, and begins again when
/// somebody was faster.
#[derive(Clone, PartialEq, Debug)]
pub struct Claiming {
    wish: Wish,
    stage: Stage,
    failures: u32,
    next_request: u64,
    jitter: Rng,
    outputs: VecDeque<Output>,
}

impl Claiming {
    /// Begins to claim at once. `seed` spreads the pauses.
    #[must_use]
    pub fn new(application: Application, grounds: Grounds, seed: u64, now: Instant) -> Self {
        Self::begin(Wish::Claim(Box::new((application, grounds))), seed, now)
    }

    /// Begins to give the claim of `cluster` back at once, and to leave a note that it announced up to this epoch, also where
    /// the broker has lost the claim: somebody may give it back. Where another cluster has the id, that is left alone.
    #[must_use]
    pub fn release(cluster: ClusterId, identity: String, epoch: Epoch, seed: u64, now: Instant) -> Self {
        Self::begin(Wish::Release { cluster, identity, epoch }, seed, now)
    }

    fn begin(wish: Wish, seed: u64, now: Instant) -> Self {
        let mut begun = Self {
            wish,
            stage: Stage::Over,
            failures: 0,
            next_request: 0,
            jitter: Rng::stream(seed, "ipam/claiming"),
            outputs: VecDeque::new(),
        };
        begun.read(now);
        begun
    }

    fn request(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request
    }

    fn read(&mut self, now: Instant) {
        let request = self.request();
        self.stage = Stage::Reading { request, until: now + GIVE_UP };
        self.outputs.push_back(Output::Read { request });
    }

    fn decide(&mut self, found: Option<(Claims, Version)>, now: Instant) {
        match self.wish.clone() {
            Wish::Claim(wish) => {
                let (application, grounds) = *wish;
                self.decide_claim(found, &application, grounds, now);
            }
            Wish::Release { cluster, identity, epoch } => self.decide_release(found, (cluster, epoch), &identity, now),
        }
    }

    fn decide_claim(
        &mut self,
        found: Option<(Claims, Version)>,
        application: &Application,
        grounds: Grounds,
        now: Instant,
    ) {
        let Grounds { claims: lost, records, latest } = grounds;
        let noted = lost.left.clone();
        let (read, expected) = found.map_or((lost, None), |(claims, version)| (claims, Some(version)));
        let mut claims = read.clone();
        claims.note_left(&noted);
        for cluster in claims.void() {
            claims.members.remove(&cluster);
            let later = latest.get(&cluster).filter(|later| !claims.is_of_before_it_left(&cluster, later.epoch));
            claims.members.extend(later.map(|later| (cluster, later.clone())));
        }
        let mut given_back = lost_claims(&claims, &latest);
        given_back.remove(&application.cluster);
        claims.members.extend(given_back);
        match admit(&claims, &records, application) {
            Err(refusal) => self.refused(&refusal),
            Ok(admitted) => {
                if admitted.claims == read && expected.is_some() {
                    self.over(Outcome::Claimed(admitted.claim));
                } else {
                    self.write(admitted.claims, expected, Outcome::Claimed(admitted.claim), now);
                }
            }
        }
    }

    fn decide_release(
        &mut self,
        found: Option<(Claims, Version)>,
        (cluster, epoch): (ClusterId, Epoch),
        identity: &str,
        now: Instant,
    ) {
        let (mut claims, expected) = found.map_or_else(Default::default, |(claims, version)| (claims, Some(version)));
        let owner = claims.members.get(&cluster).map(|claim| claim.identity == identity);
        let is_anothers = owner == Some(false);
        if is_anothers || owner.is_none() && claims.is_of_before_it_left(&cluster, epoch) {
            return self.over(Outcome::Released);
        }
        claims.members.remove(&cluster);
        claims.note_left(&BTreeMap::from([(cluster, epoch)]));
        self.write(claims, expected, Outcome::Released, now);
    }

    fn write(&mut self, claims: Claims, expected: Option<Version>, then: Outcome, now: Instant) {
        let request = self.request();
        self.stage = Stage::Writing { request, until: now + GIVE_UP, then };
        self.outputs.push_back(Output::Write { request, claims, expected });
    }

    fn refused(&mut self, refusal: &Refusal) {
        self.over(Outcome::Refused(refusal.to_string()));
    }

    fn over(&mut self, outcome: Outcome) {
        self.stage = Stage::Over;
        self.outputs.push_back(Output::Done(outcome));
    }

    fn failed(&mut self, error: &ApiError, now: Instant) {
        match error {
            ApiError::Refused(why) => {
                self.over(Outcome::Refused(alloc::format!("the broker refuses the claim: {why}")))
            }
            ApiError::Conflict | ApiError::Unreachable => self.pause(now),
        }
    }

    fn pause(&mut self, now: Instant) {
        let pause = self.jitter.pause(PAUSES, self.failures);
        self.failures += 1;
        self.stage = Stage::Pausing { until: now + pause };
    }
}

impl Machine for Claiming {
    type Input = Input;
    type Output = Output;
    type Reason = ClaimingWake;

    fn handle(&mut self, input: Input, now: Instant) {
        match (input, self.stage.clone()) {
            (Input::Answered { request, result }, Stage::Reading { request: asked, .. }) if request == asked => {
                match result {
                    Ok(found) => self.decide(found, now),
                    Err(error) => self.failed(&error, now),
                }
            }
            (Input::Written { request, result }, Stage::Writing { request: asked, then, .. }) if request == asked => {
                match result {
                    Ok(_) => self.over(then),
                    // Also where the write may have happened: the next read shows it.
                    Err(error) => self.failed(&error, now),
                }
            }
            // Late answers, to requests that were given up.
            (Input::Answered { .. } | Input::Written { .. }, _) => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<(Instant, ClaimingWake)> {
        match self.stage {
            Stage::Reading { until, .. } | Stage::Writing { until, .. } => Some((until, ClaimingWake::GiveUp)),
            Stage::Pausing { until } => Some((until, ClaimingWake::Again)),
            Stage::Over => None,
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self.stage {
            Stage::Reading { until, .. } | Stage::Writing { until, .. } if until <= now => self.pause(now),
            Stage::Pausing { until } if until <= now => self.read(now),
            Stage::Reading { .. } | Stage::Writing { .. } | Stage::Pausing { .. } | Stage::Over => {}
        }
    }
}
