//! A whole life passes all invariants at once.

use super::*;
use crate::rehearsal::{
    WEB_IP, act, applied, at, candidates, connects, elected, endpoint, fact, fetched, gateway, lease, path, probed,
    resolved, resolves, scenario, secs, web_import, web_record, web_service, wrote,
};
use crate::{Change, Verb, What, When};
use tombolo_core::model::Reach;

#[test]
fn a_gateway_that_fails_and_comes_back_breaks_nothing() {
    let (a, b) = ("west/gw-a gateway", "west/gw-b gateway");
    let route = |via: &str| format!("route 10.2.0.0/16 via inet6 {via} dev vx-tombolo table 7403");
    let east = &[("east", Reach::Connected)];
    let created = |by, object| wrote(by, Change::Created, object);
    let facts = [
        fact(secs(0), "east api", created("world", web_service())),
        fact(secs(1), a, elected(5)),
        fact(secs(1), "west api", created(a, lease("gw-a", 5, 1))),
        fact(secs(1), "west api", created(a, gateway("gw-a", Some(5), east))),
        fact(secs(1), "west api", created(b, gateway("gw-b", None, east))),
        fact(secs(1), "west api", created(a, endpoint("west", "gw-a", 5))),
        fact(secs(1), "east api", created(a, endpoint("west", "gw-a", 5))),
        fact(secs(1), "east api", created(a, candidates("west", 5, &["gw-a", "gw-b"]))),
        fact(secs(2), "east api", created("east/worker discovery", web_record())),
        fact(secs(3), "west api", created("west/worker discovery", web_import(&["east"]))),
        fact(secs(3), "west/worker dns", What::Table { names: 1, synced: true }),
        fact(secs(3), "west/worker", applied(&[&format!("+ {}", route("fd74::1"))])),
        fact(secs(4), "west/worker route-agent", path("east", 1, 1, 1)),
        fact(secs(5), "west/worker", probed(0, 1, secs(5), fetched())),
        fact(secs(5), "west/worker", probed(1, 1, secs(5), resolved("NOERROR", &[WEB_IP]))),
        fact(secs(20), "west/gw-a", What::Power(false)),
        fact(secs(21), "west/worker route-agent", path("east", 2, 2, 1)),
        fact(secs(21), "west/worker", applied(&[&format!("~ {}", route("fd74::2"))])),
        fact(secs(37), b, elected(6)),
        fact(secs(37), "west api", wrote(b, Change::Replaced, lease("gw-b", 6, 37))),
        fact(secs(37), "west api", wrote(b, Change::Replaced, gateway("gw-b", Some(6), east))),
        fact(secs(37), "west api", created(b, endpoint("west", "gw-b", 6))),
        fact(secs(37), "west api", wrote(b, Change::Deleted, endpoint("west", "gw-a", 5))),
        fact(secs(38), "east api", created(b, endpoint("west", "gw-b", 6))),
        fact(secs(38), "east api", wrote(b, Change::Deleted, endpoint("west", "gw-a", 5))),
        fact(secs(38), "east api", wrote(b, Change::Replaced, candidates("west", 6, &["gw-a", "gw-b"]))),
        fact(secs(40), "west/gw-a", What::Power(true)),
        fact(secs(41), a, What::Process(true)),
        fact(secs(42), "west api", wrote(a, Change::Replaced, gateway("gw-a", None, east))),
        fact(secs(70), "west api", wrote(b, Change::Replaced, lease("gw-b", 6, 70))),
        fact(secs(70), "west/worker", probed(0, 2, secs(70), fetched())),
        fact(secs(70), "west/worker", probed(1, 2, secs(70), resolved("NOERROR", &[WEB_IP]))),
    ];
    let timeline =
        vec![act(20, Verb::PowerOff(at("west/active-gateway"))), act(40, Verb::PowerOn(at("west/last-powered-off")))];
    let expect = vec![connects(When::By(secs(10))), resolves(When::By(secs(10)), "NOERROR", vec![])];
    let scenario = scenario(timeline, expect);
    for mut invariant in all(&scenario) {
        assert_eq!(watch_all(invariant.as_mut(), &facts, secs(80)).violations, [], "{}", invariant.name());
    }
}

#[test]
fn each_invariant_says_what_it_stands_for() {
    let all = all(&scenario(vec![], vec![]));
    let names = all.iter().map(|invariant| invariant.name()).collect::<Vec<_>>();
    assert_eq!(
        names,
        [
            "One announcer",
            "Cut is not dead",
            "No lost delete",
            "No early sweep",
            "DNS never lies",
            "No overlap",
            "No leak between strangers",
            "No flap",
            "Converges",
            "Nothing left behind"
        ]
    );
    assert!(all.iter().all(|invariant| invariant.stands_for().starts_with('F')));
}
