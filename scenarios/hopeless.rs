//! Links over which nothing works for long, whatever the daemons do: those that lose most packets or all, and those so slow
//! that an answer comes after whoever asked has given up. A file may have such links, to see what becomes of the rest; but
//! that a flow over them fails tells nothing about the daemons.

use crate::bounds::{PROBE_TIMEOUT, REQUEST_DEADLINE};
use crate::probing::Stream;
use crate::wording::{brief, named_by};
use crate::{Broker, LinkSpec, ProbeTarget, Scenario, Target};
use core::time::Duration;
use std::net::IpAddr;
use tombolo_core::base::ClusterId;

/// How often a fetch or a request to an API crosses the link at least: over TCP, a connection and an answer are two round
/// trips.
const CROSSINGS: u32 = 4;
/// What the hosts at both ends may need beside: less than this is left, and it is chance whether an answer comes in time.
const HOSTS: Duration = Duration::from_millis(50);
/// Of a million packets. Where more are lost, chance explains that a flow fails for seconds.
const LOSS_MAX: u32 = 500_000;
const ALL: u32 = 1_000_000;

/// Why the probes of this stream cannot be expected to pass, if some link on their way, or between the clusters at its
/// ends and the broker, is hopeless.
pub(crate) fn hopeless(scenario: &Scenario, stream: &Stream) -> Option<String> {
    let from = &stream.from.cluster;
    targets(scenario, stream).into_iter().filter(|to| to != from).find_map(|to| {
        let through = Link { scenario, a: from, b: Site::Cluster(&to) };
        through
            .fails(PROBE_TIMEOUT, "a probe")
            .or_else(|| Link { scenario, a: from, b: Site::Broker }.fails(REQUEST_DEADLINE, "a request"))
            .or_else(|| Link { scenario, a: &to, b: Site::Broker }.fails(REQUEST_DEADLINE, "a request"))
    })
}

/// The clusters where the probes of the stream may end.
fn targets(scenario: &Scenario, stream: &Stream) -> Vec<ClusterId> {
    let address = match &stream.to {
        ProbeTarget::Fetch(Target::Address(address, ..)) => Some(*address),
        ProbeTarget::Fetch(Target::Name(..)) | ProbeTarget::Resolve(_) => None,
    };
    if let Some(address) = address {
        return of_address(scenario, address).into_iter().collect();
    }
    let Some((key, of)) = stream.name().and_then(|name| named_by(name, &scenario.workloads)) else { return Vec::new() };
    let homes = scenario.workloads.iter().filter(|workload| workload.service == key).map(|workload| &workload.cluster);
    homes.filter(|cluster| of.as_ref().is_none_or(|of| of == *cluster)).cloned().collect()
}

fn of_address(scenario: &Scenario, address: IpAddr) -> Option<ClusterId> {
    let mut ranges = scenario.all_ranges().into_iter();
    ranges.find(|(_, ranges)| ranges.iter().any(|range| range.contains(address))).map(|(id, _)| id)
}

#[derive(Clone, Copy)]
enum Site<'a> {
    Cluster(&'a ClusterId),
    Broker,
}

#[derive(Clone, Copy)]
struct Link<'a> {
    scenario: &'a Scenario,
    a: &'a ClusterId,
    b: Site<'a>,
}

impl Link<'_> {
    /// Why nothing that `what` stands for, and that is given up after `limit`, gets an answer over it.
    fn fails(self, limit: Duration, what: &str) -> Option<String> {
        let b = match (self.b, &self.scenario.broker) {
            (Site::Cluster(b), _) | (Site::Broker, Broker::Member(b)) => Some(b),
            (Site::Broker, Broker::Own) => None,
        };
        if b == Some(self.a) {
            return None;
        }
        let LinkSpec { latency, jitter, loss_millionths, mtu: _ } = self.scenario.links.spec(Some(self.a), b);
        let end = b.map_or_else(|| "the broker".to_owned(), ToString::to_string);
        let link = format!("the link between {} and {end}", self.a);
        if loss_millionths > LOSS_MAX {
            let most = if loss_millionths < ALL { "most packets" } else { "every packet" };
            return Some(format!("{link} loses {most}"));
        }
        let takes = (latency + jitter) * CROSSINGS;
        let slow = || {
            let (takes, limit) = (brief(takes), brief(limit));
            format!("{link} is slower than {what} may take: two round trips last up to {takes} of its {limit}")
        };
        (takes + HOSTS >= limit).then(slow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probing::streams;
    use crate::rehearsal::{cluster, connects, millis, scenario, secs};
    use crate::{Expectation, Links, When};

    fn of(broker: Broker, to: Option<&str>, set: impl Fn(&mut Links)) -> Option<String> {
        let mut scenario = scenario(vec![], vec![connects(When::By(secs(10)))]);
        scenario.broker = broker;
        set(&mut scenario.links);
        if let (Some(address), Some(Expectation::Connect { to, .. })) = (to, scenario.expect.first_mut()) {
            *to = Target::Address(address.parse().unwrap(), 80, tombolo_core::model::Protocol::Tcp);
        }
        hopeless(&scenario, streams(&scenario).first().unwrap())
    }

    fn east() -> Broker {
        Broker::Member(cluster("east"))
    }

    #[test]
    fn a_link_that_loses_most_packets_carries_nothing_for_long() {
        let lossy = |share| move |links: &mut Links| links.default.loss_millionths = share;
        let says = Some("the link between west and east loses every packet".to_owned());
        assert_eq!(of(east(), None, lossy(1_000_000)), says);
        assert_eq!(of(east(), Some("10.102.0.10"), lossy(1_000_000)), says);
        let says = Some("the link between west and east loses most packets".to_owned());
        assert_eq!(of(east(), None, lossy(999_999)), says);
        assert_eq!(of(east(), None, lossy(500_000)), None);
        // What stays in the cluster crosses no link.
        assert_eq!(of(east(), Some("10.1.2.10"), lossy(1_000_000)), None);
    }

    #[test]
    fn a_link_is_too_slow_if_two_round_trips_leave_a_probe_no_time() {
        let slow = |latency, jitter| {
            move |links: &mut Links| (links.default.latency, links.default.jitter) = (millis(latency), millis(jitter))
        };
        assert_eq!(of(east(), None, slow(237, 0)), None);
        let says = "the link between west and east is slower than a probe may take: two round trips last up to 960ms of its 1s";
        assert_eq!(of(east(), None, slow(240, 0)).as_deref(), Some(says));
        assert_eq!(of(east(), None, slow(200, 40)).as_deref(), Some(says));
    }

    #[test]
    fn the_way_to_the_broker_counts_too_but_a_request_may_take_longer() {
        let only_between_them = |latency| {
            move |links: &mut Links| {
                links.default.latency = millis(latency);
                let ends = (cluster("east"), cluster("west"));
                links.pairs.insert(ends, LinkSpec::default());
            }
        };
        assert_eq!(of(Broker::Own, None, only_between_them(1_237)), None);
        assert_eq!(
            of(Broker::Own, None, only_between_them(1_240)).as_deref(),
            Some(
                "the link between west and the broker is slower than a request may take: two round trips last up to 4.96s of its 5s"
            )
        );
        assert_eq!(of(east(), None, only_between_them(9_000)), None);
    }
}
