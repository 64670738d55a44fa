//! The trace: one line for each fact, in fixed columns, and a running hash over all lines. Two runs with one seed print
//! the same hash, or something in them was left to chance.
//!
//! The hash is taken over [`line`] alone. What [`text`] adds for a reader (the legend, names in brackets) is not in it.

use crate::probing::{stream_of, streams};
use crate::whereabouts::Whereabouts;
use crate::wording::{self, seconds};
use crate::{Change, Fact, Outcome, Place, ProbeId, Scenario, What};
use core::fmt::{self, Write as _};
use core::net::IpAddr;
use core::time::Duration;
use serde::{Serialize, Serializer};
use tombolo_core::base::ClusterId;
use tombolo_core::base::hash::{fnv1a, fnv1a_more};
use tombolo_core::model::{
    Candidates, Claim, Claims, EndpointSlice, Gateway, Import, InternalTrafficPolicy, Lease, Object, Offer, Port,
    Service, ServiceExport, SessionAffinity, SourceSlice, TargetPort,
};
use tombolo_core::roles::Event;

/// What the columns and words of a trace mean.
pub const LEGEND: &str = "\
time       seconds since the start of the scenario
place      world: the scenario's own doing; <cluster>/<node>: its kernel or its power;
           <cluster>/<node> <daemon>: one process; <cluster> api, broker api: a write that was accepted there
what       =>  an act of the timeline           !   a daemon tells (election, path)
           +   object or route is new           *   object has another content     -   object or route is gone
           ?   a probe ended: p<stream>.<number>, when it began, what came of it
           [ ] the nodes that are meant, for a reader
";

/// Hash of a trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TraceHash(u64);

impl TraceHash {
    /// Of no line.
    pub const EMPTY: Self = Self(fnv1a(b""));

    /// Takes one more fact in.
    #[must_use]
    pub fn with(self, fact: &Fact) -> Self {
        Self(fnv1a_more(fnv1a_more(self.0, line(fact).as_bytes()), b"\n"))
    }

    /// Of all these facts.
    #[must_use]
    pub fn of(facts: &[Fact]) -> Self {
        facts.iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Display for TraceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for TraceHash {
    /// As text: JSON readers round large numbers.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The trace as text, with its legend: what each stream of probes looks at and for which expectations, and which node has
/// which slot.
#[must_use]
pub fn text(scenario: &Scenario, facts: &[Fact]) -> String {
    let mut text = String::from(LEGEND);
    let mut last = Whereabouts::default();
    facts.iter().for_each(|fact| last.watch(fact));
    legend_of_slots(scenario, &last, &mut text);
    legend_of_probes(scenario, &mut text);
    text.push('\n');
    let mut now = Whereabouts::default();
    for fact in facts {
        now.watch(fact);
        text.push_str(&line(fact));
        text.push_str(&names(fact, &now, &last).unwrap_or_default());
        text.push('\n');
    }
    text
}

fn legend_of_slots(scenario: &Scenario, last: &Whereabouts, text: &mut String) {
    let slots_of = |cluster| last.slots(cluster).map(|(slot, node)| format!("{slot} {node}")).collect::<Vec<_>>();
    let known = scenario.clusters.keys().map(|cluster| (cluster, slots_of(cluster))).filter(|(_, all)| !all.is_empty());
    let known = known.map(|(cluster, all)| format!("{cluster}: {}", all.join(", "))).collect::<Vec<_>>();
    if !known.is_empty() {
        let _ = writeln!(text, "slots      candidates as last announced: {}", known.join("; "));
    }
}

fn legend_of_probes(scenario: &Scenario, text: &mut String) {
    let streams = streams(scenario);
    for (index, stream) in streams.iter().enumerate() {
        let _ = writeln!(text, "{:<10} {}", format!("p{index}"), wording::stream(stream));
        for expectation in scenario.expect.iter().filter(|e| stream_of(&streams, e) == Some(index)) {
            let _ = writeln!(text, "             {}", wording::expectation(expectation));
        }
    }
}

/// The nodes behind the slots of a path.
fn names(fact: &Fact, now: &Whereabouts, last: &Whereabouts) -> Option<String> {
    let (What::Told(Event::PathChosen { cluster, pair: (local, remote), .. }), Place::Daemon(own, ..)) =
        (&fact.what, &fact.place)
    else {
        return None;
    };
    let name = |cluster: &ClusterId, slot| {
        let node = now.node_of_slot(cluster, slot).or_else(|| last.node_of_slot(cluster, slot))?;
        Some(format!("{cluster}/{node}"))
    };
    Some(format!(" [{} - {}]", name(own, *local)?, name(cluster, *remote)?))
}

/// One fact as a line.
#[must_use]
pub fn line(fact: &Fact) -> String {
    format!("{}  {:<24}  {}", micros(fact.at), fact.place, what(&fact.what))
}

fn micros(at: Duration) -> String {
    format!("{:>4}.{:06}", at.as_secs(), at.subsec_micros())
}

/// What happened, in words.
#[must_use]
pub fn what(what: &What) -> String {
    match what {
        What::Act(done) => format!("=> {done}"),
        What::Power(true) => "power is on".into(),
        What::Power(false) => "power is off".into(),
        What::Process(true) => "runs".into(),
        What::Process(false) => "no longer runs".into(),
        What::Told(event) => format!("! {event}"),
        What::Wrote { by, change, key, object } => {
            format!("{} {key}, by {by}: {}", sign(*change), describe(object))
        }
        What::Applied { steps, .. } => steps.join(" | "),
        What::Table { names, synced } => {
            format!("dns table of {names} names{}", if *synced { "" } else { ", views not complete" })
        }
        What::Probed { id, outcome, began } => {
            format!("? {} since {}: {}", probe(*id), seconds(*began), self::outcome(outcome))
        }
    }
}

/// What came of a probe, in words.
#[must_use]
pub fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Fetched { address, server } => format!("answer of {address} from {server}"),
        Outcome::Resolved { rcode, addresses } if addresses.is_empty() => format!("{rcode}, no address"),
        Outcome::Resolved { rcode, addresses } => format!("{rcode} {}", list(addresses)),
        Outcome::Failed { because } => format!("failed: {because}"),
    }
}

fn probe(id: ProbeId) -> String {
    format!("p{}.{}", crate::probing::stream_of_probe(id), id.0 & u64::from(u32::MAX))
}

const fn sign(change: Change) -> char {
    match change {
        Change::Created => '+',
        Change::Replaced => '*',
        Change::Deleted => '-',
    }
}

fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let items = items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>();
    if items.is_empty() { "none".into() } else { items.join(",") }
}

/// All that an object says, on one line.
fn describe(object: &Object) -> String {
    match object {
        Object::Namespace(_) => "is there".into(),
        Object::Node(o) => format!(
            "uid {} addresses {} pods {} gateway {}",
            o.uid,
            list(&o.addresses),
            list(&o.pod_ranges),
            if o.gateway { "yes" } else { "no" }
        ),
        Object::Service(o) => service(o),
        Object::EndpointSlice(o) => slice(o),
        Object::ServiceExport(o) => export(o),
        Object::Lease(o) => lease(o),
        Object::Gateway(o) => gateway(o),
        Object::Cluster(o) => {
            format!("epoch {} pods {} services {}", o.epoch, list(&o.pods), list(&o.services))
        }
        Object::Endpoint(o) => format!(
            "epoch {} gateway {} private {} public {}{} subnets {} cable {}",
            o.epoch,
            o.node,
            o.private_ip,
            list(o.public_ip),
            outside(None, o.discovery_port),
            list(&o.subnets),
            o.driver
        ),
        Object::Candidates(o) => candidates(o),
        Object::Claims(o) => claims(o),
        Object::ExportRecord(o) => format!("{} created {}", offer(&o.offer), o.created.unix_micros()),
        Object::ExportSummary(o) => format!("generation {} of {}", o.generation, o.digest),
        Object::Import(o) => import(o),
        Object::SourceSlice(o) => source_slice(o),
    }
}

fn ports<'a>(ports: impl IntoIterator<Item = &'a Port>) -> String {
    list(ports.into_iter().map(|port| {
        let name = port.name.as_ref().map(|name| format!("{name}:")).unwrap_or_default();
        let spoken = port.app_protocol.as_ref().map(|spoken| format!(" {spoken}")).unwrap_or_default();
        format!("{name}{}/{}{spoken}", port.port, port.protocol)
    }))
}

fn service(o: &Service) -> String {
    let ports = list(o.ports.iter().map(|port| {
        let name = port.port.name.as_ref().map(|name| format!("{name}:")).unwrap_or_default();
        let target = match &port.target {
            TargetPort::Number(number) => number.to_string(),
            TargetPort::Named(name) => name.clone(),
        };
        format!("{name}{}>{target}/{}", port.port.port, port.port.protocol)
    }));
    let policy = policy(o.affinity, o.internal_traffic, o.traffic_distribution.as_deref());
    format!("{:?} {} ports {ports}{policy}", o.service_type, list(&o.cluster_ips))
}

/// What is said beyond the usual.
fn policy(affinity: SessionAffinity, internal: InternalTrafficPolicy, distribution: Option<&str>) -> String {
    let mut said = String::new();
    if let SessionAffinity::ClientIp { timeout_s } = affinity {
        said += &format!(" by client for {timeout_s}s");
    }
    if internal == InternalTrafficPolicy::Local {
        said += " node-local";
    }
    said += &distribution.map(|distribution| format!(" distribution {distribution}")).unwrap_or_default();
    said
}

fn offer(o: &Offer) -> String {
    let policy = policy(o.affinity, o.internal_traffic, o.traffic_distribution.as_deref());
    let notes = [("labels", &o.labels), ("annotations", &o.annotations)].into_iter().filter(|(_, map)| !map.is_empty());
    let notes: String = notes.map(|(what, map)| format!(" {what} {map:?}")).collect();
    format!("{:?} ports {} families {}{policy}{notes}", o.service_type, ports(&o.ports), list(o.families))
}

fn export(o: &ServiceExport) -> String {
    let conditions = o.conditions.iter().map(|(about, condition)| {
        let status = condition.status.map_or("Unknown", |yes| if yes { "True" } else { "False" });
        format!("{about}={status}:{}", condition.reason)
    });
    let notes = [("labels", &o.labels), ("annotations", &o.annotations)].into_iter().filter(|(_, map)| !map.is_empty());
    let notes: String = notes.map(|(what, map)| format!(" {what} {map:?}")).collect();
    format!("created {} conditions {}{notes}", o.created.unix_micros(), list(conditions))
}

fn source_slice(o: &SourceSlice) -> String {
    let endpoints = o.endpoints.iter().map(|endpoint| {
        let host = endpoint.hostname.as_ref().map(|host| format!("={host}")).unwrap_or_default();
        format!("{}{host}{}", endpoint.address, if endpoint.ready { "" } else { " unready" })
    });
    format!("of {} in {}: {} ports {}", o.key, o.cluster, list(endpoints), ports(&o.ports))
}

fn slice(o: &EndpointSlice) -> String {
    let backends = o.backends.iter().map(|backend| {
        let node = backend.node.as_ref().map(|node| format!("@{node}")).unwrap_or_default();
        format!("{}{node}{}", backend.address, if backend.ready { "" } else { " unready" })
    });
    format!("of {}: {}", o.service, list(backends))
}

fn lease(o: &Lease) -> String {
    format!(
        "holder {} epoch {} transitions {} lasts {} acquired {} renewed {}",
        o.holder.as_deref().unwrap_or("nobody"),
        o.epoch,
        o.transitions,
        crate::wording::brief(o.duration),
        o.acquired.unix_micros(),
        o.renewed.unix_micros()
    )
}

fn gateway(o: &Gateway) -> String {
    let reach = o.reach.iter().map(|(cluster, reach)| format!("{cluster} {reach:?}"));
    let active = o.active.map_or("standby".into(), |epoch| format!("active in epoch {epoch}"));
    let outside = outside(o.public, o.discovery_port);
    format!("{active} address {}{outside} keys {} reach {}", o.address, list(&o.keys), list(reach))
}

/// How a gateway is found from outside.
fn outside(public: Option<IpAddr>, discovery_port: Option<u16>) -> String {
    let public = public.map(|public| format!(" public {public}")).unwrap_or_default();
    discovery_port.map_or(public.clone(), |port| format!("{public} asked at {port}"))
}

fn candidates(o: &Candidates) -> String {
    let slots = o.by_slot.iter().map(|(slot, c)| {
        let keys = c.keys.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
        format!(
            "{slot}={} at {}{} probe {} keys {}",
            c.node,
            c.address,
            outside(c.public, c.discovery_port),
            c.probe,
            if keys.is_empty() { "none" } else { &keys }
        )
    });
    format!("epoch {} {}", o.epoch, list(slots))
}

fn claims(o: &Claims) -> String {
    let ranges = |claim: &Claim| list(claim.ranges.all().map(|(purpose, range)| format!("{range} for {purpose}")));
    list(
        o.members.iter().map(|(cluster, claim)| {
            format!("{cluster} ({}, epoch {}): {}", claim.identity, claim.epoch, ranges(claim))
        }),
    )
}

fn import(o: &Import) -> String {
    let sources = o.sources.iter().map(|(cluster, since)| format!("{cluster} since {}", since.unix_micros()));
    format!("{} from {}", offer(&o.offer), list(sources))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::When;
    use crate::rehearsal::{
        applied, candidates, connects, elected, endpoint, fact, failed, gateway, lease, millis, outage, path, place,
        probed, resolved, resolves, scenario, secs, stood_down, web_import, web_record, web_service, wrote,
    };
    use tombolo_core::model::Reach;

    #[test]
    fn a_trace_reads_in_fixed_columns() {
        let by = "west/gw-a gateway";
        let created = |object| wrote(by, Change::Created, object);
        let facts = [
            fact(secs(0), "west/gw-a", What::Power(true)),
            fact(millis(1), by, What::Process(true)),
            fact(millis(2), "east api", wrote("world", Change::Created, web_service())),
            fact(millis(1_500), by, elected(1_700_000_001)),
            fact(millis(1_501), "west api", created(lease("gw-a", 1_700_000_001, 1))),
            fact(
                millis(1_502),
                "west api",
                created(gateway("gw-a", Some(1_700_000_001), &[("east", Reach::Connected)])),
            ),
            fact(millis(1_503), "west api", created(endpoint("west", "gw-a", 1_700_000_001))),
            fact(millis(1_504), "broker api", created(candidates("west", 1_700_000_001, &["gw-a", "gw-b"]))),
            fact(millis(1_505), "broker api", wrote("east/worker discovery", Change::Created, web_record())),
            fact(millis(1_506), "west api", wrote("west/worker discovery", Change::Replaced, web_import(&["east"]))),
            fact(millis(1_507), "west api", wrote("west/worker discovery", Change::Deleted, web_import(&[]))),
            fact(millis(2_000), "west/worker route-agent", path("east", 1, 1, 1)),
            fact(millis(2_001), "west/worker", applied(&["+ route 10.2.0.0/16 dev vx-tombolo", "~ rule 7430"])),
            fact(millis(2_002), "west/worker dns", What::Table { names: 1, synced: false }),
            fact(secs(20), "world", What::Act("power off west/active-gateway: west/gw-a".into())),
            fact(secs(21), "west/worker", probed(2, 17, secs(20), failed("no answer"))),
            fact(secs(22), "west/worker", probed(3, 1, secs(22), resolved("NXDOMAIN", &[]))),
            fact(secs(120), by, stood_down(1_700_000_001)),
        ];
        assert_eq!(place("broker api").to_string(), "broker api");
        let expect =
            vec![connects(When::By(secs(10))), outage(20, 60, secs(1)), resolves(When::Always, "NOERROR", vec![])];
        insta::assert_snapshot!(text(&scenario(vec![], expect), &facts));
    }

    #[test]
    fn what_is_added_for_a_reader_is_not_in_the_hash() {
        let facts = [
            fact(secs(1), "broker api", wrote("west/gw-a gateway", Change::Created, candidates("west", 1, &["gw-a"]))),
            fact(secs(1), "broker api", wrote("east/gw-a gateway", Change::Created, candidates("east", 1, &["gw-a"]))),
            fact(secs(2), "west/worker route-agent", path("east", 1, 1, 1)),
        ];
        assert!(text(&scenario(vec![], vec![]), &facts).ends_with("is now 1-1 (version 1) [west/gw-a - east/gw-a]\n"));
        let lines = facts.iter().fold(String::new(), |all, fact| all + &line(fact) + "\n");
        assert_eq!(TraceHash::of(&facts), TraceHash(fnv1a(lines.as_bytes())));
        assert!(!lines.contains('['));
    }
}
