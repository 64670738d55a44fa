//! How times, references, acts and expectations read in tables, traces and messages: as a scenario file writes them.

use crate::probing::Stream;
use crate::{
    ApiFault, Daemons, Expectation, Flow, NodeRef, ProbeTarget, Rate, Rebuilt, Side, Skew, Target, Verb, Watched, When,
    Which, Workload,
};
use core::fmt::Write as _;
use core::time::Duration;
use tombolo_core::base::ClusterId;
use tombolo_core::model::{Protocol, ServiceKey};

/// A time as a file writes it: `20s`, `1.5s`, `50ms`.
#[must_use]
pub fn brief(time: Duration) -> String {
    let (secs, millis) = (time.as_secs(), time.subsec_millis());
    if secs == 0 && millis != 0 {
        return format!("{millis}ms");
    }
    let mut text = secs.to_string();
    if millis != 0 {
        let _ = write!(text, ".{}", format!("{millis:03}").trim_end_matches('0'));
    }
    text + "s"
}

/// A time in columns: seconds with three digits.
#[must_use]
pub fn seconds(time: Duration) -> String {
    format!("{}.{:03}s", time.as_secs(), time.subsec_millis())
}

/// As `west/active-gateway`.
#[must_use]
pub fn node(reference: &NodeRef) -> String {
    let cluster = &reference.cluster;
    match &reference.which {
        Which::Named(name) => format!("{cluster}/{name}"),
        Which::ActiveGateway => format!("{cluster}/active-gateway"),
        Which::GatewayTo(to) => format!("{cluster}/gateway-to-{to}"),
        Which::LastPoweredOff => format!("{cluster}/last-powered-off"),
        Which::LastCrashed => format!("{cluster}/last-crashed"),
    }
}

/// As `web.shop.svc.clusterset.local:80`; TCP goes without saying.
#[must_use]
pub fn target(target: &Target) -> String {
    let (mut text, protocol) = match target {
        Target::Name(name, port, protocol) => (format!("{name}:{port}"), protocol),
        Target::Address(address, port, protocol) => (std::net::SocketAddr::new(*address, *port).to_string(), protocol),
    };
    if *protocol != Protocol::Tcp {
        let _ = write!(text, "/{protocol}");
    }
    text
}

/// What a probe does, in a few words.
#[must_use]
pub fn probe(probe: &ProbeTarget) -> String {
    match probe {
        ProbeTarget::Fetch(to) => target(to),
        ProbeTarget::Resolve(name) => format!("dns {name}"),
    }
}

/// Who asks whom, of a stream of probes.
#[must_use]
pub fn stream(stream: &Stream) -> String {
    let held = if stream.held { " (held flow)" } else { "" };
    format!("{} to {}{held}", node(&stream.from), probe(&stream.to))
}

/// As `by 10s`, `during 20s..60s`, `always`.
#[must_use]
pub fn when(when: When) -> String {
    match when {
        When::By(at) => format!("by {}", brief(at)),
        When::During(from, to) => format!("during {}..{}", brief(from), brief(to)),
        When::Always => "always".into(),
    }
}

/// One line that says what is expected.
#[must_use]
pub fn expectation(expectation: &Expectation) -> String {
    let at = when(crate::probing::when(expectation));
    match expectation {
        Expectation::Connect { from, to, .. } => format!("{at}: {} connects to {}", node(from), target(to)),
        Expectation::Refuse { from, to, .. } => format!("{at}: {} is refused by {}", node(from), target(to)),
        Expectation::Dns { from, name, rcode, any_of, .. } => {
            let answer = any_of.iter().map(|(cluster, key)| format!("{cluster}/{key}")).collect::<Vec<_>>();
            let answer = if answer.is_empty() { "no address".into() } else { answer.join(" or ") };
            format!("{at}: {} resolves {name} to {rcode}, {answer}", node(from))
        }
        Expectation::Outage { from, to, at_most, flow, .. } => {
            let held = if *flow == Flow::Held { ", held flow" } else { "" };
            format!("{at}: outage {} to {} at most {}{held}", node(from), target(to), brief(*at_most))
        }
        Expectation::Unchanged { what, .. } => format!("{at}: {} stays as it is", watched(what)),
        Expectation::Refused { cluster, .. } => format!("{at}: {cluster} is refused"),
        Expectation::Settled { .. } => format!("{at}: settled"),
    }
}

/// What `unchanged` watches.
#[must_use]
pub fn watched(what: &Watched) -> String {
    match what {
        Watched::ActiveGateway(cluster) => format!("{cluster}/active-gateway"),
        Watched::PathTo(from, to) => format!("{from}/path-to-{to}"),
    }
}

/// One line that says what is done.
#[must_use]
pub fn verb(verb: &Verb) -> String {
    match verb {
        Verb::PowerOff(at) => format!("power off {}", node(at)),
        Verb::PowerOn(at) => format!("power on {}", node(at)),
        Verb::Crash(at, which) => format!("crash {} of {}", daemons(*which), node(at)),
        Verb::Start(at, which) => format!("start {} of {}", daemons(*which), node(at)),
        Verb::Cut { from, to, one_way } => {
            format!("cut {} {} {}", side(from), if *one_way { "->" } else { "<->" }, side(to))
        }
        Verb::Heal { from, to } => format!("heal {} <-> {}", side(from), side(to)),
        Verb::Api(api, fault) => format!("{api} api {}", api_fault(fault)),
        Verb::Export(cluster, service) => format!("export {service} from {cluster}"),
        Verb::Unexport(cluster, service) => format!("unexport {service} from {cluster}"),
        Verb::ClockSkew(at, how) => format!("the wall clock of {} is {}", node(at), skew(*how)),
        Verb::NatRemap(cluster) => format!("the NAT box of {cluster} forgets its mappings"),
        Verb::ChangeAddress(cluster) => format!("the NAT box of {cluster} gets another address"),
        Verb::Join(cluster) => format!("{cluster} joins"),
        Verb::Leave(cluster) => format!("{cluster} leaves"),
        Verb::Rebuild(rebuilt) => self::rebuilt(rebuilt),
        Verb::ClockRate(at, how) => format!("the clocks of {} run {}", node(at), rate(*how)),
        Verb::Unready(cluster, service) => format!("pods of {service} in {cluster} not ready"),
        Verb::Ready(cluster, service) => format!("pods of {service} in {cluster} ready"),
        Verb::Reslice(cluster, service) => format!("pods of {service} in {cluster} move between slices"),
    }
}

/// What a cluster is now that was built anew.
#[must_use]
pub fn rebuilt(Rebuilt { cluster, pods, services }: &Rebuilt) -> String {
    format!("{cluster} is built anew, with pods {pods} and services {services}")
}

/// How far a wall clock is off.
#[must_use]
pub fn skew(skew: Skew) -> String {
    match skew {
        Skew::Ahead(by) | Skew::Behind(by) if by.is_zero() => "right".into(),
        Skew::Ahead(by) => format!("{} ahead", brief(by)),
        Skew::Behind(by) => format!("{} behind", brief(by)),
    }
}

/// At which rate clocks run.
#[must_use]
pub fn rate(Rate(millionths): Rate) -> String {
    let percent = f64::from(millionths.unsigned_abs()) / 10_000.0;
    match millionths {
        0 => "at the true rate".into(),
        1.. => format!("{percent}% too fast"),
        _ => format!("{percent}% too slow"),
    }
}

/// The name of a service in the clusterset's zone.
#[must_use]
pub fn zone_name(key: &ServiceKey) -> String {
    format!("{}.{}.svc.clusterset.local", key.name, key.namespace)
}

/// The workload that a name in the clusterset's zone stands for, and the one cluster it asks for if it names one.
#[must_use]
pub fn named_by(name: &str, workloads: &[Workload]) -> Option<(ServiceKey, Option<ClusterId>)> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    workloads.iter().find_map(|workload| {
        let rest = name.strip_suffix(&zone_name(&workload.service))?;
        if rest.is_empty() {
            return Some((workload.service.clone(), None));
        }
        let cluster = ClusterId::new(rest.strip_suffix('.')?).ok()?;
        Some((workload.service.clone(), Some(cluster)))
    })
}

pub(crate) fn side(side: &Side) -> String {
    match side {
        Side::Node(at) => node(at),
        Side::Cluster(cluster) => cluster.to_string(),
        Side::Api(api) => format!("{api} api"),
    }
}

/// That an API forgot everything lately.
pub(crate) fn emptied(within: Duration) -> String {
    format!("an API restarted with nothing stored less than {} ago", brief(within))
}

fn daemons(daemons: Daemons) -> String {
    match daemons {
        Daemons::One(daemon) => daemon.to_string(),
        Daemons::All => "all daemons".into(),
    }
}

pub(crate) fn api_fault(fault: &ApiFault) -> String {
    match fault {
        ApiFault::Healthy => "healthy".into(),
        ApiFault::Slow(by) => format!("slow by {}", brief(*by)),
        ApiFault::SlowDeletes(by) => format!("deletes late by {}", brief(*by)),
        ApiFault::Erroring => "erroring".into(),
        ApiFault::Down => "down".into(),
        ApiFault::RestartedEmpty => "restarted empty".into(),
        ApiFault::BackedUp => "backed up".into(),
        ApiFault::Restored => "restored".into(),
        ApiFault::HistoryExpired => "history expired".into(),
    }
}
