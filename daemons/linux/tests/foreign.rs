//! What is not ours stays as it is, also where it is in the way.

use crate::Test;
use crate::bed::{Wires, inside, sh, wanted};
use crate::clusters::{cable, link, put_route};
use crate::networks::{node, service};
use crate::round_trip::uplink;
use tombolo_core::model::Protocol;
use tombolo_core::network::constants::TABLE_OUT;
use tombolo_core::network::{Network, RouteKind, Table};
use tombolo_linux::{Error, Fault, NoCables, Node, normal};

pub const TESTS: &[Test] = &[
    ("a_foreign_table_rule_route_and_link_stay_untouched", untouched),
    ("a_foreign_link_of_our_name_is_left_alone_and_told", name_taken),
    ("a_foreign_route_in_the_main_table_is_not_replaced", no_replacement),
    ("what_nobody_can_parse_is_passed_over", unparsable),
    ("a_step_that_fails_is_told_with_the_kernel_s_words", told),
    ("a_step_that_fails_holds_up_no_other", others_go_on),
    ("a_half_made_overlay_is_made_anew", half_made),
];

/// What others have, of each kind that we have.
const FOREIGN: &str = "
    nft -f - <<'NFT'
        table inet theirs { map m { type ipv4_addr : ipv4_addr; elements = { 192.0.2.1 : 192.0.2.2 }; }
            chain c { type nat hook prerouting priority -100; dnat ip to ip daddr map @m; }; }
        table ip tombolo { chain c { counter comment \"another family\"; }; }
NFT
    ip rule add pref 7431 from 192.0.2.9 lookup 7431; ip rule add pref 7430 from 192.0.2.9 lookup 100
    ip route add 198.51.100.0/24 dev eth0 table 7431; ip route add blackhole 203.0.113.0/24 table 7403 proto static
    ip link add vx-other type vxlan id 9 dstport 4800 local 172.16.1.1; ip link set vx-other up alias somebodys
    ip address add 10.77.0.1/24 dev vx-other; ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:77 dev vx-other
    bridge fdb add 02:00:00:00:00:77 dst 172.16.1.77 dev vx-other";

/// The lines of a listing that speak of it.
fn foreign() -> String {
    sh("nft list table inet theirs; nft list table ip tombolo; ip rule | grep -e 192.0.2.9
        ip route show table 7431; ip route show table 7403 | grep static; ip -details link show vx-other
        ip address show vx-other; ip neigh show dev vx-other; bridge fdb show dev vx-other")
}

fn untouched() {
    inside(|| {
        uplink((1, 1));
        sh(FOREIGN);
        let before = foreign();
        let mut kernel = Node::open(Box::new(Wires::default())).unwrap();
        assert_eq!(kernel.observe().unwrap(), Network::default());
        for choice in [(1, 1), (2, 1)] {
            let mut network = node((1, 1), choice);
            network.put(service(1, Protocol::Tcp, 80, &[([10, 1, 3, 7].into(), 8080)]));
            kernel.reconcile(&wanted(&network)).unwrap();
            assert_eq!(foreign(), before);
        }
        kernel.uninstall().unwrap();
        assert_eq!(foreign(), before);
    });
}

fn name_taken() {
    inside(|| {
        uplink((1, 3));
        sh("ip link add vx-tombolo type bridge; ip link set vx-tombolo alias \"somebody's\"");
        let before = sh("ip link show vx-tombolo");
        let mut kernel = Node::open(Box::new(NoCables)).unwrap();
        let error = kernel.reconcile(&wanted(&node((1, 3), (1, 1)))).unwrap_err();
        assert!(matches!(&error, Error::Step { fault: Fault::NameTaken(name), .. } if *name == link("vx-tombolo")));
        assert_eq!(sh("ip link show vx-tombolo"), before);
        kernel.uninstall().unwrap();
        assert_eq!(sh("ip link show vx-tombolo"), before);
    });
}

fn no_replacement() {
    inside(|| {
        uplink((1, 3));
        sh("ip route add 10.2.0.0/16 via 172.16.1.254");
        let mut network = Network::default();
        put_route(&mut network, Table::MAIN, "10.2.0.0/16", RouteKind::Blackhole, None);
        let mut kernel = Node::open(Box::new(NoCables)).unwrap();
        let error = kernel.reconcile(&wanted(&network)).unwrap_err().to_string();
        assert!(error.contains("File exists"), "{error}");
        assert_eq!(sh("ip route show 10.2.0.0/16"), "10.2.0.0/16 via 172.16.1.254 dev eth0 \n");
    });
}

fn unparsable() {
    inside(|| {
        uplink((1, 3));
        let mut kernel = Node::open(Box::new(NoCables)).unwrap();
        let network = normal(&node((1, 3), (1, 1)));
        kernel.reconcile(&wanted(&network)).unwrap();
        // Of kinds that we never make, and marked as ours: they go, since nobody else would say so.
        sh("ip route add throw 192.0.2.0/24 table 7403 proto 74; ip rule add pref 7425 from 10.9.9.9 lookup 7403 protocol 74
            ip -6 route add 2001:db8::/32 table 7499 proto 74 nexthop via fe80::2 dev eth0 nexthop via fe80::1 dev eth0");
        // Of kinds that we never make, and others': they stay.
        sh("ip route add throw 192.0.2.0/24 table 7400; ip rule add pref 7426 fwmark 7 iif lo ipproto tcp dport 80 prohibit
            ip link add br7 type bridge || true; ip -6 route add unreachable 2001:db8:1::/48");
        assert_eq!(kernel.observe().unwrap(), network);
        assert!(kernel.reconcile(&wanted(&network)).unwrap().is_empty());
        assert_eq!(sh("ip route show table 7403 proto 74 | grep throw || true; ip rule | grep 10.9.9.9 || true"), "");
        assert_eq!(sh("ip -6 route show table all proto 74"), "");
        let theirs = sh("ip route show table 7400; ip rule | grep -c fwmark; ip -6 route | grep unreachable");
        assert!(theirs.starts_with("throw 192.0.2.0/24 \n1\nunreachable 2001:db8:1::/48"), "{theirs}");
    });
}

fn told() {
    inside(|| {
        uplink((1, 3));
        let mut network = node((1, 3), (1, 1));
        network.routes.values_mut().for_each(|route| route.source = Some([10, 99, 0, 1].into()));
        let error = Node::open(Box::new(NoCables)).unwrap().reconcile(&wanted(&network)).unwrap_err();
        assert_eq!(
            error.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
            "+ route 10.2.0.0/16 via inet6 fd74:1::1 dev vx-tombolo src 10.99.0.1 table 7403 because it is wanted: \
             Invalid argument (os error 22) (Invalid prefsrc address)"
        );
    });
}

fn others_go_on() {
    inside(|| {
        uplink((1, 1));
        let network = normal(&node((1, 1), (1, 1)));
        let mut kernel = Node::open(Box::new(NoCables)).unwrap();
        assert!(matches!(kernel.reconcile(&wanted(&network)), Err(Error::Step { fault: Fault::Cable(_), .. })));
        // All is there but the cables, what is on them, and routes into them.
        let mut without = network;
        for rank in [1, 2] {
            let gone = cable(rank);
            without.links.remove(&gone);
            without.addresses.retain(|(on, _), _| *on != gone);
            without.peers.retain(|id, _| id.link != gone);
            without.routes.retain(|_, route| !matches!(&route.kind, RouteKind::Out { link, .. } if *link == gone));
        }
        assert!(!without.routes.keys().any(|id| id.table == TABLE_OUT));
        assert_eq!(kernel.observe().unwrap(), without);
    });
}

fn half_made() {
    inside(|| {
        uplink((1, 3));
        sh("ip link add vx-tombolo type vxlan id 7400 dstport 4804 local 172.16.1.3");
        let network = normal(&node((1, 3), (1, 1)));
        let mut kernel = Node::open(Box::new(NoCables)).unwrap();
        kernel.reconcile(&wanted(&network)).unwrap();
        assert_eq!(kernel.observe().unwrap(), network);
    });
}
