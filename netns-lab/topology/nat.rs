//! The NAT box of a site, as rules of its router, by its kind in the words of RFC 4787.
//!
//! | kind | how |
//! |---|---|
//! | mapping depends on … | ports kept: the kernel keeps one where it is free; else a hash of as much as the mapping depends on, and of a seed |
//! | filtering by address and port | connection tracking alone |
//! | filtering by address, or none | what left is noted by its outside port; what comes for a noted port goes to who sent from there |
//!
//! What no rule lets in is dropped before it is tracked, as a mapping of its own would take the port that the inside is
//! about to use.

use super::NatPlan;
use core::fmt::Write as _;
use std::net::IpAddr;
use tombolo_core::nat::boxes::{Dependence, LIFETIME};
use tombolo_scenarios::layout::outside;

/// The table's name.
const TABLE: &str = "ip lab-nat";
/// The first number that a hash gives, and how many there are: none is 0. A little-endian machine swaps the bytes of it
/// to make it a port.
const PORTS: (u16, u16) = (20_000, 40_000);

/// What a box is like at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// How often it got another outside address.
    pub moves: u8,
    /// How often it forgot all its mappings.
    pub remaps: u32,
}

impl State {
    /// Its outside address.
    #[must_use]
    pub const fn outside(self, plan: &NatPlan) -> IpAddr {
        outside(plan.site, self.moves)
    }
}

/// The nft script that makes the router this box.
#[must_use]
pub fn script(plan: &NatPlan, state: State) -> String {
    let outside = state.outside(plan);
    let behaviour = plan.behaviour;
    let tracks_alone = behaviour.filtering == Dependence::AddressAndPort;
    let mut text = format!("table {TABLE}\ndelete table {TABLE}\ntable {TABLE} {{\n");
    let _ = if tracks_alone { Ok(()) } else { notes(&mut text, plan, outside) };
    let to_others = format!("oifname \"to-*\" ip saddr 172.16.{}.0/24", plan.site);
    let port = if behaviour.keeps_ports { String::new() } else { drawn_port(behaviour.mapping, state.remaps) };
    let _ = write!(
        text,
        "\tchain refused {{\n\t\ttype filter hook prerouting priority -50;\n\t\tiifname \"to-*\" ip daddr 198.18.0.0/15 drop\n\t}}
\tchain out {{\n\t\ttype nat hook postrouting priority 100;
\t\t{to_others} meta l4proto {{ tcp, udp }} snat to {outside}{port}\n\t\t{to_others} snat to {outside}\n\t}}\n}}\n"
    );
    text
}

/// A port that depends on no more than the mapping does.
fn drawn_port(mapping: Dependence, remaps: u32) -> String {
    let more = match mapping {
        Dependence::Nothing => "",
        Dependence::Address => " . ip daddr",
        Dependence::AddressAndPort => " . ip daddr . th dport",
    };
    // A seed of 0 would be another at each start.
    let seed = remaps + 1;
    format!(" : jhash ip saddr . th sport{more} mod {} seed {seed:#x} offset {}", PORTS.1, PORTS.0)
}

/// Notes of who sent from which outside port, and to whom; and the way in by them.
fn notes(text: &mut String, plan: &NatPlan, outside: IpAddr) -> core::fmt::Result {
    let lives = format!("flags dynamic,timeout; timeout {}s;", LIFETIME.as_secs());
    let (mut inward, mut learn) = (String::new(), String::new());
    for protocol in ["tcp", "udp"] {
        writeln!(text, "\tmap host-{protocol} {{ type inet_service : ipv4_addr; {lives} }}")?;
        writeln!(text, "\tmap port-{protocol} {{ type inet_service : inet_service; {lives} }}")?;
        writeln!(text, "\tset met-{protocol} {{ type inet_service . ipv4_addr; {lives} }}")?;
        let met = match plan.behaviour.filtering {
            Dependence::Nothing => String::new(),
            Dependence::Address | Dependence::AddressAndPort => {
                format!(" {protocol} dport . ip saddr @met-{protocol}")
            }
        };
        let to = format!("dnat to {protocol} dport map @host-{protocol} : {protocol} dport map @port-{protocol}");
        writeln!(inward, "\t\tip daddr {outside} meta l4proto {protocol}{met} {to}")?;
        let left = format!("oifname \"to-*\" ct direction original ip saddr {outside} meta l4proto {protocol}");
        writeln!(learn, "\t\t{left} update @host-{protocol} {{ {protocol} sport : ct original ip saddr }}")?;
        writeln!(learn, "\t\t{left} update @port-{protocol} {{ {protocol} sport : ct original proto-src }}")?;
        writeln!(learn, "\t\t{left} update @met-{protocol} {{ {protocol} sport . ip daddr }}")?;
    }
    writeln!(text, "\tchain in {{\n\t\ttype nat hook prerouting priority -100;\n{inward}\t}}")?;
    writeln!(text, "\tchain learn {{\n\t\ttype filter hook postrouting priority 200;\n{learn}\t}}")
}
