//! What holds for any packet on any node.

use super::clusters::{WEST_A, host};
use super::drawn::{address, cases, key, link_name, network};
use crate::base::Instant;
use crate::network::{
    Arrival, Conntrack, Direction, Encapsulation, Flags, Learned, LinkKind, LinkName, Network, Packet, Transport,
    Tuple, Verdict, forward,
};
use core::net::IpAddr;
use proptest::prelude::*;

/// A drawn network on top of what a host has.
fn node() -> impl Strategy<Value = Network> {
    network().prop_map(|ours| {
        let mut whole = host(WEST_A);
        ours.entries().for_each(|entry| whole.put(entry));
        whole
    })
}

fn arrival() -> impl Strategy<Value = Arrival> {
    let name = prop_oneof![link_name(), Just(LinkName("eth0".into())), Just(LinkName("cni0".into()))];
    prop_oneof![
        3 => name.clone().prop_map(Arrival::Link),
        1 => proptest::option::of(name).prop_map(|link| Arrival::Local { link })
    ]
}

fn some_address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        address(),
        Just(IpAddr::from([172, 16, 1, 1])),
        any::<u32>().prop_map(|bits| core::net::Ipv4Addr::from(bits).into())
    ]
}

fn packet() -> impl Strategy<Value = Packet> {
    let flags =
        (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(syn, ack, fin)| Flags { syn, ack, fin, rst: false });
    let port = || prop_oneof![Just(80), Just(81), 4000u16..4003];
    let transport = prop_oneof![
        (port(), port(), flags).prop_map(|(source, destination, flags)| Transport::Tcp { source, destination, flags }),
        (port(), port()).prop_map(|(source, destination)| Transport::Udp { source, destination })
    ];
    let outer =
        (some_address(), 4800u16..4802, proptest::option::of(key())).prop_map(|(source, port, key)| Encapsulation {
            source,
            source_port: 9,
            destination: IpAddr::from([172, 16, 1, 1]),
            destination_port: port,
            key,
        });
    (some_address(), some_address(), transport, 0u8..4, proptest::option::of(outer)).prop_map(
        |(source, destination, transport, ttl, outer)| Packet {
            source,
            destination,
            transport,
            ttl,
            length: 60,
            mss: if let Transport::Tcp { flags: Flags { syn: true, .. }, .. } = transport { Some(1_460) } else { None },
            outer,
        },
    )
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn something_becomes_of_it_and_what_leaves_leaves_by_the_uplink_for_another_host(
        network in node(),
        arrival in arrival(),
        packet in packet(),
    ) {
        let outcomes = forward(&network, &Conntrack::new(), &arrival, &packet);
        prop_assert!(!outcomes.is_empty());
        for outcome in outcomes {
            let Verdict::Send { link, packet: sent, .. } = outcome.verdict else { continue };
            prop_assert_eq!(&network.links[&link].kind, &LinkKind::Uplink);
            prop_assert!(sent.ttl <= packet.ttl);
            if let Some(outer) = sent.outer {
                prop_assert!(!network.addresses.keys().any(|(_, own)| *own == outer.destination));
            }
        }
    }

    #[test]
    fn an_answer_is_translated_back_to_what_the_first_sender_expects(
        network in node(),
        arrival in arrival(),
        packet in packet(),
    ) {
        for outcome in forward(&network, &Conntrack::new(), &arrival, &packet) {
            let Some(learned @ Learned::Opened { original, reply, .. }) = outcome.learned else { continue };
            prop_assert_eq!(original, Tuple::of(&packet));
            let mut conntrack = Conntrack::new();
            conntrack.commit(learned, Instant::ZERO);
            let (flow, direction) = conntrack.lookup(&reply).unwrap();
            if reply != original {
                prop_assert_eq!(direction, Direction::Reply);
                prop_assert_eq!(flow.leaves_as(direction), original.inverse());
            }
            prop_assert_eq!(flow.leaves_as(Direction::Original), reply.inverse());
        }
    }
}
