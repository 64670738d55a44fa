//! What is applied is what is observed then, and nothing else has changed.

use crate::Test;
use crate::bed::{Wires, inside, sh, snapshot, wanted};
use crate::drawn;
use crate::networks::{Node as At, address, node, service};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tombolo_core::model::Protocol;
use tombolo_core::network::{Network, plan};
use tombolo_linux::{Node, normal};

pub const TESTS: &[Test] = &[
    ("networks_of_two_clusters_are_read_back_as_they_were_applied", networks_of_two_clusters),
    ("drawn_networks_are_read_back_as_they_were_applied", drawn_networks),
    ("uninstall_gives_the_node_back_as_it_was", uninstall),
    ("a_daemon_that_starts_finds_what_its_former_self_left", adoption),
    ("b21_five_hundred_passes_leave_one_copy_of_each_rule", b21_passes),
    ("b21_copies_that_are_there_shrink_to_one", b21_copies),
];

/// An uplink with the node's address.
pub fn uplink(at: At) {
    let address = address(at);
    sh(&format!(
        "ip link add eth0 type veth peer wire; for end in eth0 wire; do ip link set $end addrgenmode none up; done
         ip address add {address}/24 dev eth0"
    ));
}

/// Applies, in one go, and looks.
fn apply_and_look(kernel: &mut Node, network: &Network) -> Network {
    let steps = plan(&wanted(network), &kernel.observe().unwrap());
    kernel.apply(&steps).unwrap_or_else(|error| panic!("{error}\n{steps}"));
    kernel.observe().unwrap()
}

fn networks_of_two_clusters() {
    for at in [(1, 1), (1, 2), (1, 3), (2, 1)] {
        inside(move || {
            uplink(at);
            let mut kernel = Node::open(Box::new(Wires::default())).unwrap();
            for (choice, backends) in [((1, 1), 1u8), ((2, 1), 2), ((1, 2), 0)] {
                let mut network = node(at, choice);
                if at.1 <= 2 {
                    let backends: Vec<_> = (0..backends).map(|n| ([10, 2, 3, n + 7].into(), 8080)).collect();
                    network.put(service(at.0, Protocol::Tcp, 80, &backends));
                    network.put(service(at.0, Protocol::Udp, 53, &backends));
                }
                let network = normal(&network);
                let observed = apply_and_look(&mut kernel, &network);
                let left = plan(&wanted(&network), &observed);
                assert!(left.is_empty(), "{at:?} {choice:?}, left:\n{left}");
                assert_eq!(observed, network);
                assert!(kernel.reconcile(&wanted(&network)).unwrap().is_empty());
            }
        });
    }
}

fn drawn_networks() {
    inside(|| {
        sh("ip link add eth0 type bridge; ip link set eth0 up; ip address add 192.0.2.1/24 dev eth0
            ip address add 192.0.2.2/24 dev eth0");
        let kernel = std::cell::RefCell::new(Node::open(Box::new(Wires::default())).unwrap());
        let mut runner = TestRunner::new(Config { cases: cases(), failure_persistence: None, ..Config::default() });
        let outcome = runner.run(&drawn::network(), |network| {
            let mut kernel = kernel.borrow_mut();
            let network = normal(&network);
            let taken = kernel.reconcile(&wanted(&network));
            let taken = taken.map_err(|error| TestCaseError::fail(format!("{error}")))?;
            let observed = kernel.observe().unwrap();
            let left = plan(&wanted(&network), &observed);
            proptest::prop_assert!(left.is_empty(), "left:\n{left}\nafter:\n{taken}");
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{error}"));
        kernel.borrow_mut().uninstall().unwrap();
        assert_eq!(kernel.borrow_mut().observe().unwrap(), Network::default());
    });
}

/// 64, or a quarter of what the environment asks for.
fn cases() -> u32 {
    Config::default().cases / 4
}

fn uninstall() {
    for at in [(1, 1), (1, 3)] {
        inside(move || {
            uplink(at);
            sh("nft add table ip theirs; nft add chain ip theirs c '{ type filter hook input priority 0; }'
                ip rule add pref 7000 from 192.0.2.9 lookup 7000; ip route add 198.51.100.0/24 dev eth0 table 7000
                echo 0 > /proc/sys/net/ipv4/ip_forward; echo 0 > /proc/sys/net/netfilter/nf_conntrack_tcp_loose");
            let before = snapshot();
            let mut kernel = Node::open(Box::new(Wires::default())).unwrap();
            kernel.reconcile(&wanted(&node(at, (1, 1)))).unwrap();
            assert_ne!(snapshot(), before);
            // It is another process that uninstalls.
            drop(kernel);
            Node::open(Box::new(Wires::default())).unwrap().uninstall().unwrap();
            assert_eq!(snapshot(), before);
        });
    }
}

fn adoption() {
    inside(|| {
        uplink((1, 1));
        let wires = Wires::default();
        let mut network = node((1, 1), (1, 1));
        network.put(service(1, Protocol::Tcp, 80, &[([10, 1, 3, 7].into(), 8080)]));
        let mut kernel = Node::open(Box::new(wires.clone())).unwrap();
        kernel.reconcile(&wanted(&network)).unwrap();
        drop(kernel);
        let left = sh("ip -oneline link; ip route show table all; ip rule");
        let mut kernel = Node::open(Box::new(wires)).unwrap();
        assert_eq!(kernel.observe().unwrap(), normal(&network));
        assert!(kernel.reconcile(&wanted(&network)).unwrap().is_empty());
        // It knows nothing yet, and takes nothing away.
        let nothing = tombolo_core::network::Wanted { adopting: true, ..Default::default() };
        assert!(kernel.reconcile(&nothing).unwrap().is_empty());
        assert_eq!(kernel.observe().unwrap(), normal(&network));
        assert_eq!(sh("ip -oneline link; ip route show table all; ip rule"), left);
    });
}

/// How many rules of ours there are, in each family.
fn count_rules() -> (usize, usize) {
    let count = |text: String| text.lines().filter(|line| line.contains("lookup 740")).count();
    (count(sh("ip rule")), count(sh("ip -6 rule")))
}

fn b21_passes() {
    inside(|| {
        uplink((1, 1));
        let wires = Wires::default();
        let mut kernel = Node::open(Box::new(wires.clone())).unwrap();
        let choices = [(1, 1), (2, 1), (1, 2)];
        for pass in 0..500usize {
            // An endpoint update now and then, and a restart.
            let network = node((1, 1), choices[pass / 25 % 3]);
            if pass % 25 == 24 {
                kernel = Node::open(Box::new(wires.clone())).unwrap();
            }
            kernel.reconcile(&wanted(&network)).unwrap();
            if pass % 25 == 0 || pass == 499 {
                assert_eq!(count_rules(), (network.rules.len(), network.rules.len()), "pass {pass}");
            }
        }
    });
}

fn b21_copies() {
    inside(|| {
        uplink((1, 3));
        let network = node((1, 3), (1, 1));
        let mut kernel = Node::open(Box::new(Wires::default())).unwrap();
        kernel.reconcile(&wanted(&network)).unwrap();
        add_copies(1900);
        assert_eq!(count_rules(), (1902, 2));
        kernel.reconcile(&wanted(&network)).unwrap();
        assert_eq!(count_rules(), (2, 2));
        assert!(kernel.reconcile(&wanted(&network)).unwrap().is_empty());
    });
}

/// Adds copies of our rule for everything else, as a program does that does not ask whether one is there.
fn add_copies(count: usize) {
    use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
    use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
    use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
    use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
    let mut socket = Socket::new(NETLINK_ROUTE).unwrap();
    socket.bind_auto().unwrap();
    socket.connect(&SocketAddr::new(0, 0)).unwrap();
    for _ in 0..count {
        let mut rule = RuleMessage::default();
        (rule.header.family, rule.header.action) = (AddressFamily::Inet, RuleAction::ToTable);
        rule.attributes = vec![RuleAttribute::Priority(7430), RuleAttribute::Table(7403)];
        let mut message = NetlinkMessage::from(RouteNetlinkMessage::NewRule(rule));
        message.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        socket.send(&bytes, 0).unwrap();
        let (answer, _) = socket.recv_from_full().unwrap();
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).unwrap();
        assert!(matches!(answer.payload, NetlinkPayload::Error(error) if error.code.is_none()));
    }
}
