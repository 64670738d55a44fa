//! Two places with a wire between them, and a cable over it.
//!
//! ```text
//! 10.1.0.1, fd00:1::1 [wg0] place 0 ── veth, 192.0.2.0/24 and 2001:db8::/64 ── place 1 [wg0] 10.2.0.1, fd00:2::1
//! ```

use crate::bed::{Place, until};
use std::net::{IpAddr, SocketAddr};
use tombolo_cables::tunnel::Tunnel;
use tombolo_cables::wireguard::{Change, PeerChange, Secret};

/// Name of the cable's link.
pub const LINK: &str = "wg0";
/// Its port.
pub const PORT: u16 = 4511;

/// Two places with a wire.
pub struct Site {
    pub places: [Place; 2],
}

/// The private key of a side.
pub fn secret(side: usize) -> Secret {
    Secret::new([u8::try_from(side).unwrap() + 1; 32])
}

/// The addresses of a side inside.
pub fn inner(side: usize) -> [IpAddr; 2] {
    [format!("10.{}.0.1", side + 1).parse().unwrap(), format!("fd00:{}::1", side + 1).parse().unwrap()]
}

/// Where a side is dialled.
pub fn outer(side: usize, is_v6: bool) -> SocketAddr {
    let text = if is_v6 { format!("[2001:db8::{}]", side + 1) } else { format!("192.0.2.{}", side + 1) };
    format!("{text}:{PORT}").parse().unwrap()
}

impl Site {
    /// Both places, and the wire.
    pub fn new() -> Self {
        let places = [Place::new(), Place::new()];
        places[0].sh(&format!("ip link add eth0 type veth peer name eth0 netns {}", places[1].thread_number));
        for (side, place) in (1..).zip(&places) {
            place.sh(&format!(
                "ip address add 192.0.2.{side}/24 dev eth0; ip address add 2001:db8::{side}/64 dev eth0 nodad
                 ip link set eth0 up"
            ));
        }
        // A wire whose other end has just come up drops for up to a second what is sent into it.
        for place in &places {
            until("the wire is up", || place.sh("ip -oneline link show eth0").contains("state UP"));
        }
        Self { places }
    }

    /// Starts a side's cable; its peer is dialled by one family or the other.
    pub fn start(&self, side: usize, is_v6: bool) -> Tunnel {
        let place = &self.places[side];
        let tunnel = place.run(move || {
            // A command that another test is about to run holds the link of a former tunnel for a moment.
            let mut started = None;
            until("the link's name is free", || {
                started = Tunnel::start(LINK).ok();
                started.is_some()
            });
            let tunnel = started.unwrap();
            tunnel.bind(PORT).unwrap();
            tunnel
        });
        self.raise(side);
        tunnel.change(vec![Change::Secret(Some(secret(side))), Change::Peer(peer(1 - side, is_v6))]);
        tunnel
    }

    /// Puts a side's link up, with its addresses and routes.
    pub fn raise(&self, side: usize) {
        let ([v4, v6], [to_v4, to_v6]) = (inner(side), inner(1 - side));
        self.places[side].sh(&format!(
            "ip address add {v4}/32 dev {LINK}; ip address add {v6}/128 dev {LINK} nodad
             ip link set {LINK} mtu 1420 up
             ip route add {to_v4} dev {LINK} src {v4}; ip route add {to_v6} dev {LINK} src {v6}"
        ));
    }

    /// Both sides with cables.
    pub fn joined(is_v6: bool) -> (Self, [Tunnel; 2]) {
        let site = Self::new();
        let tunnels = [site.start(0, is_v6), site.start(1, is_v6)];
        (site, tunnels)
    }

    /// What `ping` says, from one side to an address of the other.
    pub fn ping(&self, side: usize, options: &str, to: IpAddr) -> String {
        self.places[side].sh(&format!("ping -n -q {options} {to} || true"))
    }

    /// Whether an address is reached. The kernel takes a moment until a new address of IPv6 is its own, and of several
    /// packets `ping` waits for the last one only twice as long as the others took.
    pub fn reaches(&self, side: usize, to: IpAddr) -> bool {
        (0..10).any(|_| self.ping(side, "-c 1 -W 0.5", to).contains(" 0% packet loss"))
    }
}

/// A side as the other knows it.
pub fn peer(side: usize, is_v6: bool) -> PeerChange {
    let ranges = inner(side).into_iter().map(tombolo_core::base::Cidr::host).collect();
    PeerChange {
        endpoint: Some(outer(side, is_v6)),
        ranges,
        keep_open_secs: Some(25),
        ..PeerChange::of(secret(side).public())
    }
}
