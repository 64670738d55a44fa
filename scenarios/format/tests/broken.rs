//! What a user sees of a broken file: one snapshot for each way to break it.

use super::super::parse;
use super::schema::refusal;
use super::{BASE, base_with};

fn mistakes(text: &str) -> String {
    parse("broken.yaml", text).expect_err("the file is broken").to_string()
}

/// One snapshot: what a user sees when `old` of the base is `new`. Then what an editor sees of it by the schema.
macro_rules! broken {
    ($sees:expr; $($name:ident: $old:expr => $new:expr;)*) => {$(
        #[test]
        fn $name() {
            let text = base_with($old, $new);
            insta::assert_snapshot!(mistakes(&text));
            let sees: fn(&str) = $sees;
            sees(&text);
        }
    )*};
}

/// The form is wrong: an editor marks it too.
fn marked(text: &str) {
    assert!(refusal(text).is_some(), "the schema takes {text}");
}

/// The form is fine, the sense is not: that takes the reader.
fn unmarked(text: &str) {
    assert_eq!(refusal(text), None);
}

/// It is no YAML, or none that a schema ever gets to see as it is.
fn no_yaml(_: &str) {}

broken! {
    marked;
    an_unknown_key_names_the_nearest: "broker:" => "brokr:";
    a_missing_key_is_named_with_an_example: "about: A file in which each section has something to break.\n" => "";
    a_range_that_is_none_is_said: "10.101.0.0/16" => "10.101.0.0";
    a_capital_in_a_cluster_id_is_shown: "  east: {" => "  East: {";
    a_latency_needs_a_unit: "latency: 5ms" => "latency: 5";
    a_link_carries_at_least_1280_bytes: "loss: 1%" => "mtu: 576";
    ipsec_is_not_there_yet: "broker: east\n" => "broker: east\ncable: ipsec\n";
    a_port_is_a_number_and_a_protocol: "80/tcp" => "80/sctp";
    an_unknown_verb_lists_the_verbs: "power_off:" => "power_of:";
    two_verbs_in_one_entry: "power_off: west/active-gateway" => "power_off: west/gw-a, power_on: west/gw-a";
    a_verb_outside_do: "do: { power_off: west/active-gateway }" => "power_off: west/active-gateway";
    an_entry_without_a_verb: "{ power_off: west/active-gateway }" => "{ }";
    a_node_without_its_cluster: "power_off: west/active-gateway" => "power_off: gw-b";
    a_cut_lacks_a_side: "power_off: west/active-gateway" => "cut: { from: west/gw-a, one_wy: true }";
    an_unknown_state_of_an_api: "is: slow, by: 6s" => "is: slwo, by: 6s";
    a_slow_api_needs_a_time: "is: slow, by: 6s" => "is: slow";
    a_dead_api_takes_no_time: "is: slow, by: 6s" => "is: down, by: 6s";
    a_clock_is_off_by_a_duration: "power_off: west/active-gateway" => "clock_skew: { node: west/gw-a, by: -30 }";
    a_clock_that_is_ahead_has_no_sign: "power_off: west/active-gateway" => "clock_skew: { node: west/gw-a, by: +1h }";
    a_wrong_clock_is_on_a_node: "power_off: west/active-gateway" => "clock_rate: { of: west/api, by: 1% }";
    what_is_built_anew_has_ranges: "power_off: west/active-gateway" => "rebuild: { cluster: west, pods: 10.7.0.0/16 }";
    a_nat_box_has_a_mapping_and_a_filter: "[gw-a*, gw-b*, worker] }" => "[gw-a*], nat: { mapping: cone } }";
    a_duration_needs_a_unit: "at: 30s" => "at: 30";
    an_expectation_needs_a_time: "by: 10s, connect" => "connect";
    an_expectation_has_one_time: "by: 10s, connect" => "by: 10s, always: true, connect";
    an_entry_without_an_expectation: "unchanged: west/active-gateway" => "unchangd: west/active-gateway";
    a_window_has_two_dots: "42s..60s" => "42s-60s";
    an_outage_is_watched_in_a_window: "during: 20s..60s" => "by: 60s";
    a_target_needs_a_port: "clusterset.local:80\" } }\n" => "clusterset.local\" } }\n";
    something_unknown_to_watch: "unchanged: west/active-gateway" => "unchanged: west/dns";
    a_list_where_a_mapping_belongs: "do: { power_off: west/active-gateway }" => "do: [power_off, west/active-gateway]";
    nothing_where_something_belongs: "broker: east" => "broker:";
}

broken! {
    unmarked;
    a_target_of_digits_is_an_address: "connect: { from: west/worker, to: \"web.shop.svc.clusterset.local:80\" }" => "refuse: { from: west/worker, to: \"10.104.0.999:80\" }";
    a_range_with_host_bits_says_which_was_meant: "10.101.0.0/16" => "10.101.0.7/16";
    ranges_of_two_clusters_must_not_overlap: "10.102.0.0/16" => "10.1.128.0/17";
    pods_do_not_stand_where_the_simulator_has_its_nodes: "10.1.0.0/16" => "172.16.0.0/12";
    services_are_not_reserved_addresses: "10.102.0.0/16" => "240.0.0.0/8";
    a_cluster_needs_a_gateway: "nodes: [gw-a*, worker]" => "nodes: [gw-a, worker]";
    a_cluster_has_at_most_four_gateways: "nodes: [gw-a*, worker]" => "nodes: [a*, b*, c*, d*, e*]";
    a_node_stands_once: "[gw-a*, gw-b*, worker]" => "[gw-a*, gw-b*, gw-a]";
    a_node_cannot_be_called_like_a_role: "[gw-a*, gw-b*, worker]" => "[gw-a*, active-gateway*, worker]";
    a_name_has_at_most_63_characters: "worker] }\n  east" => &format!("{}] }}\n  east", "w".repeat(64));
    a_scenario_name_is_short: "two clusters" => "two clusters and everything that happened to them on that day in May";
    a_scenario_name_does_not_colour_the_terminal: "two clusters" => "\"two \\e[31mclusters\"";
    a_story_does_not_turn_the_direction_of_writing: "each section" => "each \u{202e}section";
    an_unknown_broker_names_the_clusters: "broker: east" => "broker: eats";
    a_loss_is_a_share: "loss: 1%" => "loss: 150%";
    a_link_joins_two_clusters: "between: [west, east]" => "between: [west, west]";
    a_port_ends_at_65535: "80/tcp" => "70000/tcp";
    a_workload_in_an_unknown_cluster: "cluster: east" => "cluster: esat";
    an_unknown_cluster_in_a_reference: "power_off: west/active-gateway" => "power_off: wets/active-gateway";
    an_unknown_node_in_a_reference: "power_off: west/active-gateway" => "power_off: west/gw-c";
    last_powered_off_needs_one: "power_off: west/active-gateway" => "power_off: east/gw-a";
    a_gateway_leads_to_another_cluster: "power_off: west/active-gateway" => "power_off: west/gateway-to-west";
    a_worker_runs_no_gateway_daemon: "power_off: west/active-gateway" => "crash: { node: west/worker, daemon: gateway }";
    an_unknown_service_in_a_verb: "power_off: west/active-gateway" => "unexport: east/shop/wbe";
    a_cut_has_two_sides: "power_off: west/active-gateway" => "cut: { from: west/gw-a, to: west/gw-a }";
    a_clock_runs_wrong_by_a_share: "power_off: west/active-gateway" => "clock_rate: { node: west/gw-a, by: -11% }";
    a_broker_behind_nat_is_reached_by_nobody: "nodes: [gw-a*, worker] }" => "nodes: [gw-a*, worker], nat: { mapping: address-dependent, filtering: address-dependent } }";
    a_member_does_not_join: "power_off: west/active-gateway" => "join: west";
    who_has_left_does_not_leave_again: "do: { power_off: west/active-gateway } }\n" => "do: { leave: west } }\n  - { at: 20s, do: { leave: west } }\n";
    a_member_is_not_built_anew: "power_off: west/active-gateway" => "rebuild: { cluster: west, pods: 10.7.0.0/16, services: 10.107.0.0/16 }";
    a_broker_is_not_built_anew: "do: { power_off: west/active-gateway } }\n" => "do: { leave: east } }\n  - { at: 25s, do: { rebuild: { cluster: east, pods: 10.7.0.0/16, services: 10.107.0.0/16 } } }\n";
    what_is_built_anew_has_no_range_twice: "do: { power_off: west/active-gateway } }\n" => "do: { leave: west } }\n  - { at: 25s, do: { rebuild: { cluster: west, pods: 10.7.0.0/16, services: 10.7.4.0/24 } } }\n";
    who_has_no_nat_box_cannot_forget: "power_off: west/active-gateway" => "nat_remap: west";
    a_restored_api_needs_a_backup: "is: slow, by: 6s" => "is: restored";
    time_goes_forward: "at: 30s" => "at: 19s";
    a_window_ends_after_it_begins: "42s..60s" => "60s..42s";
    a_probe_from_an_unknown_node: "connect: { from: west/worker" => "connect: { from: west/wroker";
    a_probe_to_an_unknown_service: "connect: { from: west/worker, to: \"web." => "connect: { from: west/worker, to: \"wbe.";
    a_probe_to_a_port_that_is_not_served: "clusterset.local:80\" } }\n" => "clusterset.local:81\" } }\n";
}

broken! {
    no_yaml;
    a_key_twice_names_the_first_line: "broker: east\n" => "broker: east\nbroker: west\n";
    a_star_before_a_name_is_no_yaml_alias: "nodes: [gw-a*, worker]" => "nodes: [*gw-a, worker]";
    a_bracket_is_missing: "ports: [80/tcp]" => "ports: [80/tcp";
    a_tab_is_no_indentation: "  west: {" => "\twest: {";
}

#[test]
fn two_clusters_behind_nat_are_refused_unless_one_gets_through_to_the_other() {
    let base = BASE.replace("gw-b*", "gw-b").replace("broker: east", "broker: own");
    let two = |west: &str, east: &str| {
        let with = |text: &str, nat: &str| text.replacen("worker] }", &format!("worker], nat: {{ {nat} }} }}"), 1);
        with(&with(&base, west), east)
    };
    let strict = "mapping: address-dependent, filtering: address-and-port-dependent";
    let fixed = "mapping: endpoint-independent, ports: kept, filtering: address-and-port-dependent";
    let open = "mapping: endpoint-independent, ports: kept, filtering: address-dependent";
    for (west, east) in [(strict, strict), (strict, fixed), (fixed, strict)] {
        let text = two(west, east);
        assert!(mistakes(&text).contains("west and east are both behind NAT boxes"), "{west} {east}");
        assert!(mistakes(&text).contains("neither reaches the other"), "{}", mistakes(&text));
    }
    for (west, east) in [(strict, open), (open, strict), (fixed, fixed), (fixed, open)] {
        assert!(parse("nat.yaml", &two(west, east)).is_ok(), "{west} {east}");
    }
    let crowded = two(fixed, fixed).replace("gw-b,", "gw-b*,");
    assert!(mistakes(&crowded).contains("neither reaches the other"), "the second gateway's ports are taken");
}

#[test]
fn special_ranges_are_refused_and_what_lies_beside_them_is_not() {
    for special in [
        "0.0.0.0/0",
        "127.4.0.0/16",
        "169.254.0.0/20",
        "172.16.3.0/24",
        "198.19.0.0/16",
        "224.0.0.0/16",
        "255.255.0.0/16",
    ] {
        let text = mistakes(&base_with("10.1.0.0/16", special));
        assert!(text.contains(&format!("the pods {special} of west overlap ")), "{text}");
    }
    for fine in ["172.17.0.0/16", "192.168.0.0/16", "100.64.0.0/10", "fd00::/64"] {
        assert!(parse("fine.yaml", &base_with("10.1.0.0/16", fine)).is_ok(), "{fine}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let text = BASE
        .replace("10.101.0.0/16", "10.101.0.0/33")
        .replace("power_off: west/", "power_off: wets/")
        .replace("at_most: 1s", "at_most: 1")
        .replace("broker: east", "broker: north");
    insta::assert_snapshot!(mistakes(&text));
}

#[test]
fn a_broken_definition_is_not_told_again_at_each_reference() {
    let text = base_with("  west: {", "  West: {");
    assert_eq!(parse("broken.yaml", &text).unwrap_err().mistakes().len(), 1);
}

#[test]
fn a_long_line_is_cut_around_the_place() {
    let text = base_with("power_off: west/active-gateway", &format!("{}power_off: wets/gw-a", " ".repeat(400)));
    insta::assert_snapshot!(mistakes(&text));
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    for steering in ["\u{1b}[31m", "\\e[31m", "\u{9b}31m", "\\x9b31m", "\u{202e}", "\\u202e", "\u{2066}"] {
        for broken in ["broker: \"{}east\"", "broker: east\norigin: [\"{}B01\"]", "broker: east\n\"{}cable\": vxlan"] {
            let text = mistakes(&base_with("broker: east", &broken.replace("{}", steering)));
            assert!(!text.chars().any(|c| c != '\n' && crate::format::errors::steers(c)), "{text:?}");
        }
    }
}

#[test]
fn a_kubernetes_manifest_is_one_mistake() {
    let service =
        "apiVersion: v1\nkind: Service\nmetadata: { name: web, namespace: shop }\nspec: { ports: [{ port: 80 }] }\n";
    let list = "apiVersion: v1\nitems: []\n";
    let several = format!("---\n{service}---\n{service}");
    insta::assert_snapshot!([mistakes(service), mistakes(list), mistakes(&several)].join("\n\n"));
    // A scenario with such a key is a scenario with a key too many.
    let text = format!("kind: Scenario\n{BASE}");
    assert!(mistakes(&text).starts_with("broken.yaml:1:1: unknown key 'kind' in a scenario"), "{}", mistakes(&text));
}

#[test]
fn empty_files_and_second_documents_are_refused() {
    insta::assert_snapshot!(
        [mistakes(""), mistakes("# nothing\n"), mistakes(&format!("{BASE}---\nmore: true\n"))].join("\n\n")
    );
}
