//! Candidates around one API, each with its own clocks and its own way to the API, stepped by hand.
//!
//! The API is a versioned store. A request travels there, happens, and its answer travels back; each way takes what the
//! test says. True time is the world's; a candidate only knows its own monotonic clock (an offset and a rate) and its
//! own wall clock (another offset). Checked at every step: at no true time do two announce, and each term's epoch is
//! greater than all before.

use super::*;
use crate::base::{Instant, Machine, Revision, Store, drain};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

pub(super) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
pub(super) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A candidate's way to the API.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub there: Duration,
    pub back: Duration,
    /// Nothing gets through.
    pub cut: bool,
}

const NEAR: Way = Way { there: millis(5), back: millis(5), cut: false };

/// What a candidate's clocks show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    /// Parts per thousand of true time.
    pub rate: u64,
    pub wall_offset: i64,
}

#[derive(Clone, Debug)]
struct Host {
    machine: Option<Election>,
    clocks: Clocks,
    way: Way,
    announces: Option<Epoch>,
    /// Counts its processes.
    life: u32,
}

#[derive(Clone, Debug)]
enum Happening {
    AtApi { host: usize, life: u32, request: Output },
    AtHost { host: usize, life: u32, input: Input },
}

/// What was announced when, in true time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Log {
    pub at: Duration,
    pub host: usize,
    pub what: Output,
}

/// Makes a broken candidate of a real one, by changing what it is told.
pub(super) type Lie = fn(&mut Input, wall: Wall);

pub(super) struct World {
    pub now: Duration,
    hosts: Vec<Host>,
    durations: Durations,
    api: Store<String, Lease>,
    /// Versions of an emptied API are others, as its uids are.
    api_life: u32,
    coming: BTreeMap<(Duration, u64), Happening>,
    queued: u64,
    pub log: Vec<Log>,
    /// What went wrong, instead of a panic: a test may want it.
    pub violation: Option<String>,
    /// Whether candidates hear of each other's epochs, as by hellos.
    pub hellos: bool,
    pub lie: Option<Lie>,
}

impl World {
    pub fn new(clocks: &[Clocks], durations: Durations) -> Self {
        let host = |clocks: &Clocks| Host { machine: None, clocks: *clocks, way: NEAR, announces: None, life: 0 };
        let mut world = Self {
            now: secs(1),
            hosts: clocks.iter().map(host).collect(),
            durations,
            api: Store::new(0),
            api_life: 0,
            coming: BTreeMap::new(),
            queued: 0,
            log: Vec::new(),
            violation: None,
            hellos: true,
            lie: None,
        };
        for host in 0..clocks.len() {
            world.start(host);
        }
        world
    }

    /// Two with equal clocks, started 100 ms apart: the first is elected.
    pub fn pair() -> Self {
        Self::new(&[Clocks { rate: 1_000, wall_offset: 0 }; 2], Durations::GATEWAY)
    }

    fn local(&self, host: usize) -> Instant {
        // An origin of its own, so that mixing up two clocks shows.
        let rate = u32::try_from(self.hosts[host].clocks.rate).unwrap();
        Instant::from_origin(secs(1_000 * (1 + u64::try_from(host).unwrap())) + self.now * rate / 1_000)
    }

    /// The first true time at which the host's clock reads `at` or later.
    fn true_time(&self, host: usize, at: Instant) -> Duration {
        let rate = u128::from(self.hosts[host].clocks.rate);
        let origin = secs(1_000 * (1 + u64::try_from(host).unwrap()));
        let nanos = (at.since_origin().saturating_sub(origin).as_nanos() * 1_000).div_ceil(rate);
        Duration::from_nanos(u64::try_from(nanos).unwrap())
    }

    fn wall(&self, host: usize) -> Wall {
        let true_wall = 1_800_000_000 + i64::try_from(self.now.as_secs()).unwrap();
        Wall::from_unix_secs(u64::try_from(true_wall + self.hosts[host].clocks.wall_offset).unwrap())
    }

    /// Starts a new process.
    pub fn start(&mut self, host: usize) {
        let state = &mut self.hosts[host];
        state.life += 1;
        state.announces = None;
        state.machine = Some(Election::new(Config {
            lease: "gateway".into(),
            host: host.to_string(),
            process: state.life.to_string(),
            durations: self.durations,
            seed: u64::try_from(host).unwrap(),
        }));
        if let Some(epoch) = self.newest().filter(|_| self.hellos) {
            self.input(host, Input::Seen(epoch));
        }
        let life = self.hosts[host].life;
        let at = self.now + millis(100) * u32::try_from(host).unwrap();
        self.queue(at, Happening::AtHost { host, life, input: Input::Wall(Wall::default()) });
    }

    /// The process ends, as by power loss.
    pub fn kill(&mut self, host: usize) {
        self.hosts[host].machine = None;
        self.hosts[host].announces = None;
    }

    pub fn slow(&mut self, host: usize, there: Duration, back: Duration) {
        self.hosts[host].way = Way { there, back, cut: false };
    }

    pub fn cut(&mut self, host: usize) {
        self.hosts[host].way.cut = true;
    }

    pub fn is_running(&self, host: usize) -> bool {
        self.hosts[host].machine.as_ref().is_some_and(|machine| !machine.is_stopped())
    }

    pub fn heal(&mut self, host: usize) {
        self.hosts[host].way = NEAR;
    }

    /// The API restarts with nothing.
    pub fn empty_api(&mut self) {
        self.api = Store::new(0);
        self.api_life += 1;
    }

    pub fn lease(&self) -> Option<&Lease> {
        self.api.get(&"gateway".to_string()).map(|there| &there.value)
    }

    /// Who announces now.
    pub fn announcers(&self) -> Vec<usize> {
        (0..self.hosts.len()).filter(|host| self.hosts[*host].announces.is_some()).collect()
    }

    pub fn machine(&self, host: usize) -> &Election {
        self.hosts[host].machine.as_ref().unwrap()
    }

    pub fn epochs(&self) -> Vec<Epoch> {
        let elected = self.log.iter().filter_map(|log| match log.what {
            Output::Elected(epoch) => Some(epoch),
            Output::Read { .. } | Output::Write { .. } | Output::StoodDown { .. } => None,
        });
        elected.collect()
    }

    fn newest(&self) -> Option<Epoch> {
        self.epochs().into_iter().max()
    }

    /// Tells a living host something.
    pub fn input(&mut self, host: usize, mut input: Input) {
        let (now, wall) = (self.local(host), self.wall(host));
        if matches!(input, Input::Wall(_)) {
            input = Input::Wall(wall);
        }
        if let Some(lie) = self.lie {
            lie(&mut input, wall);
        }
        let Some(machine) = &mut self.hosts[host].machine else { return };
        // Law 6.
        while machine.poll_timeout().is_some_and(|(at, _)| at <= now) {
            machine.handle_timeout(now);
        }
        machine.handle(input, now);
        self.settle(host);
    }

    /// Lets `span` of true time pass.
    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let wake = |host: usize| {
                let (at, _) = self.hosts[host].machine.as_ref()?.poll_timeout()?;
                Some((self.true_time(host, at).max(self.now), host))
            };
            let wake = (0..self.hosts.len()).filter_map(wake).min();
            let coming = self.coming.first_key_value().map(|((at, _), _)| *at);
            match (wake, coming) {
                (Some((at, host)), coming) if at <= end && coming.is_none_or(|coming| at <= coming) => {
                    self.now = at;
                    let now = self.local(host);
                    if let Some(machine) = &mut self.hosts[host].machine {
                        machine.handle_timeout(now);
                    }
                    self.settle(host);
                }
                (_, Some(at)) if at <= end => {
                    self.now = at;
                    if let Some((_, happening)) = self.coming.pop_first() {
                        self.happen(happening);
                    }
                }
                (_, _) => break,
            }
        }
        self.now = end;
    }

    fn queue(&mut self, at: Duration, happening: Happening) {
        self.coming.insert((at, self.queued), happening);
        self.queued += 1;
    }

    fn settle(&mut self, host: usize) {
        let life = self.hosts[host].life;
        let outputs = self.hosts[host].machine.as_mut().map(drain).unwrap_or_default();
        for output in outputs {
            match &output {
                Output::Elected(epoch) => self.elected(host, *epoch),
                Output::StoodDown { epoch, .. } => {
                    if self.hosts[host].announces.take() != Some(*epoch) {
                        self.violation = Some(format!("{host} stood down from {epoch}, which it did not announce"));
                    }
                }
                Output::Read { .. } | Output::Write { .. } => {
                    if !self.hosts[host].way.cut {
                        let at = self.now + self.hosts[host].way.there;
                        self.queue(at, Happening::AtApi { host, life, request: output.clone() });
                    }
                }
            }
            if matches!(output, Output::Elected(_) | Output::StoodDown { .. }) {
                self.log.push(Log { at: self.now, host, what: output });
            }
        }
    }

    fn elected(&mut self, host: usize, epoch: Epoch) {
        if self.newest().is_some_and(|newest| newest >= epoch) {
            self.violation = Some(format!("{host} announces epoch {epoch} after {:?}", self.newest()));
        }
        if let Some(other) = self.announcers().first() {
            self.violation = Some(format!("{host} and {other} both announce at {:?}", self.now));
        }
        self.hosts[host].announces = Some(epoch);
        for other in 0..self.hosts.len() {
            if other == host || !self.hellos {
                continue;
            }
            let life = self.hosts[other].life;
            self.queue(self.now + millis(20), Happening::AtHost { host: other, life, input: Input::Seen(epoch) });
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::AtHost { host, life, input } => {
                if self.hosts[host].life == life {
                    self.input(host, input);
                }
            }
            Happening::AtApi { host, life, request } => {
                let input = self.serve(request);
                let way = self.hosts[host].way;
                if let (Some(input), false) = (input, way.cut) {
                    self.queue(self.now + way.back, Happening::AtHost { host, life, input });
                }
            }
        }
    }

    fn version(&self, revision: Revision) -> Version {
        Version(format!("{}-{revision}", self.api_life).into())
    }

    fn serve(&mut self, request: Output) -> Option<Input> {
        match request {
            Output::Read { request } => {
                let there = self.api.get(&"gateway".to_string());
                let result = Ok(there.map(|there| (there.value.clone(), self.version(there.modified))));
                Some(Input::Answered { request, result })
            }
            Output::Write { request, lease, expected } => {
                let key = lease.name.clone();
                let there = self.api.get(&key).map(|there| self.version(there.modified));
                let written = match (there, expected) {
                    (None, None) => self.api.create(key, lease).ok(),
                    (Some(there), Some(expected)) if there == expected => self.api.replace(key, lease, None).ok(),
                    (_, _) => None,
                };
                let result = written.map(|revision| self.version(revision)).ok_or(ApiError::Conflict);
                Some(Input::Written { request, result })
            }
            Output::Elected(_) | Output::StoodDown { .. } => None,
        }
    }
}
