//! A hunt, end to end: a planted bug is found within a few seeds, shrunk to the acts that matter, and fails alike when its
//! file is read and played.

use core::time::Duration;
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeSet;
use tombolo_core::base::ClusterId;
use tombolo_scenarios::fuzz::{Blame, draw, faults, smallest};
use tombolo_scenarios::{
    Ability, ApiFault, ApiRef, Fact, Fault, Options, Outcome, Place, Probe, ProbeId, Scenario, Stage, StageError, What,
};
use tombolo_sim::core_speed::CoreSpeed;

/// In so many seeds the planted bug must show.
const SEEDS_MAX: u64 = 25;
/// For shrinking it.
const RUNS_MAX: usize = 150;

pub fn trials() -> Vec<Trial> {
    vec![Trial::test("fuzz: a planted bug is found and shrunk to a file of few acts", a_planted_bug_is_found)]
}

/// The simulator with a bug: where a daemon starts while an API of its cluster is at fault, the cluster's DNS denies the
/// next name it is asked for.
struct Planted {
    world: CoreSpeed,
    at_fault: BTreeSet<ApiRef>,
    deny_next: BTreeSet<ClusterId>,
}

impl Planted {
    fn note(&mut self, fault: &Fault) {
        match fault {
            Fault::Api(api, ApiFault::Healthy | ApiFault::RestartedEmpty | ApiFault::Restored) => {
                self.at_fault.remove(api);
            }
            Fault::Api(api, ApiFault::Down | ApiFault::Slow(_) | ApiFault::Erroring | ApiFault::SlowDeletes(_)) => {
                self.at_fault.insert(api.clone());
            }
            Fault::Start(cluster, ..) | Fault::PowerOn(cluster, _) => {
                if self.at_fault.contains(&ApiRef::Cluster(cluster.clone())) {
                    self.deny_next.insert(cluster.clone());
                }
            }
            Fault::Api(_, ApiFault::HistoryExpired | ApiFault::BackedUp)
            | Fault::PowerOff(..)
            | Fault::Crash(..)
            | Fault::Cut { .. }
            | Fault::Heal { .. }
            | Fault::Export(..)
            | Fault::Unexport(..)
            | Fault::Ready(..)
            | Fault::Unready(..)
            | Fault::ClockSkew(..)
            | Fault::ClockRate(..)
            | Fault::NatRemap(_)
            | Fault::ChangeAddress(_)
            | Fault::Join(_)
            | Fault::Leave(_)
            | Fault::Rebuild(_)
            | Fault::Reslice(..) => {}
        }
    }
}

impl Stage for Planted {
    fn name(&self) -> &'static str {
        "core speed with a planted bug"
    }
    fn lacks(&self, ability: Ability) -> Option<String> {
        self.world.lacks(ability)
    }
    fn now(&self) -> Duration {
        self.world.now()
    }
    fn advance(&mut self, until: Duration) -> Result<(), StageError> {
        self.world.advance(until)
    }
    fn act(&mut self, fault: &Fault) -> Result<String, StageError> {
        self.note(fault);
        self.world.act(fault)
    }
    fn probe(&mut self, id: ProbeId, probe: &Probe) -> Result<(), StageError> {
        self.world.probe(id, probe)
    }
    fn facts(&mut self) -> Vec<Fact> {
        let mut facts = self.world.facts();
        for fact in &mut facts {
            if let (What::Probed { outcome: Outcome::Resolved { rcode, addresses }, .. }, Place::Node(cluster, _)) =
                (&mut fact.what, &fact.place)
                && !addresses.is_empty()
                && self.deny_next.remove(cluster)
            {
                (*rcode, *addresses) = ("NXDOMAIN".into(), Vec::new());
            }
        }
        facts
    }
}

fn play(scenario: &Scenario, seed: u64) -> Vec<tombolo_scenarios::fuzz::Fault> {
    let Ok(world) = CoreSpeed::new(scenario, seed) else { return Vec::new() };
    let mut stage = Planted { world, at_fault: BTreeSet::new(), deny_next: BTreeSet::new() };
    faults(scenario, &tombolo_scenarios::run(scenario, &mut stage, &Options { seed }))
}

fn a_planted_bug_is_found() -> Result<(), Failed> {
    let lie = Blame::Invariant("DNS never lies");
    let found = (1..=SEEDS_MAX).find_map(|seed| {
        let drawn = draw(seed, &[]);
        play(&drawn, seed).iter().any(|fault| fault.blame == lie).then_some((seed, drawn))
    });
    let (seed, drawn) = found.ok_or("the planted bug was not found")?;
    let kept = smallest(&drawn, lie, RUNS_MAX, &|| false, &|candidate| play(candidate, seed));
    let kept = kept.ok_or("no file fails alike")?;
    let text = format!("seed {seed}, {} runs, drawn with {} acts\n{}", kept.runs, drawn.timeline.len(), kept.text);
    assert!(kept.text.contains("is: ") && kept.text.contains("start: ") || kept.text.contains("power_on: "), "{text}");
    assert!(kept.scenario.timeline.len() <= 4, "two faults and their cures: {text}");
    assert!(kept.scenario.clusters.len() <= 2 && kept.scenario.expect.len() == 1, "{text}");
    // From the file, as somebody else plays it; and without the bug it holds.
    let read = tombolo_scenarios::parse("fuzz.yaml", &kept.text).map_err(|errors| errors.to_string())?;
    assert!(play(&read, seed).contains(&kept.fault), "{text}");
    let mut sound = CoreSpeed::new(&read, seed)?;
    assert_eq!(faults(&read, &tombolo_scenarios::run(&read, &mut sound, &Options { seed })), [], "{text}");
    Ok(())
}
