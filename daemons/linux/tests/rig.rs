//! One node whose links all end here: what goes in and what comes out of them is packets in hand.

use crate::bed::{sh, wanted};
use crate::clusters::{self, cable, host};
use crate::wire;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tombolo_core::network::constants::{CABLE_PORT_BASE, OVERLAY_LINK, OVERLAY_PORT, OVERLAY_VNI};
use tombolo_core::network::{
    Encapsulation, Link, LinkKind, LinkName, Mac, Network, Packet, Peer, PeerId, RouteKind, Table, TranslationId,
    Transport, Verdict,
};
use tombolo_linux::{Cables, Node};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

const UPLINK: Mac = Mac([2, 0, 0, 0, 9, 1]);
const PODS: Mac = Mac([2, 0, 0, 0, 9, 2]);
const STRANGER: Mac = Mac([2, 0, 0, 0, 9, 9]);

/// Where a packet came out, and as what.
#[derive(Clone, PartialEq, Debug)]
pub enum Seen {
    /// To a local pod.
    Pod(Packet),
    /// To the host itself.
    Host(Packet),
    /// Out of the uplink, as it is.
    Uplink(Packet),
    /// Out of the uplink in the overlay, to this node.
    Overlay(IpAddr, Packet),
    /// Into the cable of this rank.
    Cable(u8, Packet),
}

impl Seen {
    /// What one would see of a verdict.
    pub fn of(verdict: &Verdict) -> Option<Self> {
        match verdict {
            Verdict::Drop { .. } => None,
            Verdict::DeliverPod { packet } => Some(Self::Pod(*packet)),
            Verdict::DeliverHost { packet, .. } => Some(Self::Host(*packet)),
            Verdict::Send { packet, .. } => {
                let inner = Packet { outer: None, ..*packet };
                Some(match packet.outer {
                    None => Self::Uplink(inner),
                    Some(outer) if outer.destination_port == OVERLAY_PORT => Self::Overlay(outer.destination, inner),
                    Some(Encapsulation { source_port, .. }) => {
                        Self::Cable(u8::try_from(source_port - CABLE_PORT_BASE).unwrap(), inner)
                    }
                })
            }
        }
    }

    /// Where, in a word.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Pod(_) => "pod",
            Self::Host(_) => "host",
            Self::Uplink(_) => "uplink",
            Self::Overlay(..) => "overlay",
            Self::Cable(..) => "cable",
        }
    }

    /// The packet.
    pub const fn packet(&self) -> &Packet {
        match self {
            Self::Pod(packet) | Self::Host(packet) | Self::Uplink(packet) => packet,
            Self::Overlay(_, packet) | Self::Cable(_, packet) => packet,
        }
    }
}

/// Cables whose other end is here.
#[derive(Clone, Default)]
struct Ends {
    devices: Arc<Mutex<BTreeMap<LinkName, Arc<SyncDevice>>>>,
    peers: BTreeMap<PeerId, Peer>,
}

impl Cables for Ends {
    fn make(&mut self, name: &LinkName, _: &Link) -> Result<(), String> {
        let device = DeviceBuilder::new().name(name.to_string()).layer(Layer::L3).enable(false).build_sync();
        let device = device.map_err(|error| error.to_string())?;
        device.set_nonblocking(true).map_err(|error| error.to_string())?;
        self.devices.lock().unwrap().insert(name.clone(), Arc::new(device));
        Ok(())
    }

    fn change(&mut self, _: &LinkName, _: &Link) -> Result<(), String> {
        Ok(())
    }

    fn remove(&mut self, name: &LinkName) -> Result<(), String> {
        self.devices.lock().unwrap().remove(name);
        Ok(())
    }

    fn peers(&mut self) -> Result<BTreeMap<PeerId, Peer>, String> {
        Ok(self.peers.clone())
    }

    fn put_peer(&mut self, id: &PeerId, peer: &Peer) -> Result<(), String> {
        self.peers.insert(id.clone(), peer.clone());
        Ok(())
    }

    fn remove_peer(&mut self, id: &PeerId) -> Result<(), String> {
        self.peers.remove(id);
        Ok(())
    }
}

/// The node.
pub struct Rig {
    uplink: SyncDevice,
    pods: SyncDevice,
    cables: Arc<Mutex<BTreeMap<LinkName, Arc<SyncDevice>>>>,
    host: [OwnedFd; 2],
    kernel: Node,
    overlay_mac: Mac,
}

impl Rig {
    /// In the namespace of the calling thread, with what the host of this place has without us.
    pub fn new(place: clusters::Place) -> Self {
        let tap = |name: &str, mac: Mac| {
            let device = DeviceBuilder::new().name(name).layer(Layer::L2).mac_addr(mac.0).build_sync().unwrap();
            device.set_nonblocking(true).unwrap();
            sh(&format!("ip link set {name} arp off addrgenmode none up"));
            device
        };
        let (uplink, pods) = (tap("eth0", UPLINK), tap("cni0", PODS));
        base(&host(place));
        let raw = |protocol| socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_NONBLOCK, protocol).unwrap();
        let ends = Ends::default();
        let cables = ends.devices.clone();
        let kernel = Node::open(Box::new(ends)).unwrap();
        let host = [raw(SockProtocol::Udp), raw(SockProtocol::Tcp)];
        Self { uplink, pods, cables, host, kernel, overlay_mac: STRANGER }
    }

    /// Gives the node this network on top.
    pub fn apply(&mut self, ours: &Network) {
        self.kernel.reconcile(&wanted(ours)).unwrap();
        if let Some(LinkKind::Overlay { mac, .. }) =
            ours.links.get(&LinkName(OVERLAY_LINK.into())).map(|link| &link.kind)
        {
            self.overlay_mac = *mac;
        }
        self.drain();
    }

    /// A packet arrives: on the pods' link, or on the uplink, there as it is or wrapped.
    pub fn inject(&self, from_pods: bool, packet: &Packet) {
        let inner = wire::bytes(packet);
        let sent = match packet.outer {
            _ if from_pods => self.pods.send(&wire::frame(PODS, STRANGER, &inner)),
            None => self.uplink.send(&wire::frame(UPLINK, STRANGER, &inner)),
            Some(outer) if outer.destination_port == OVERLAY_PORT => {
                let wrapped = wire::vxlan(OVERLAY_VNI, &wire::frame(self.overlay_mac, STRANGER, &inner));
                let ends = ((outer.source, outer.source_port), (outer.destination, outer.destination_port));
                self.uplink.send(&wire::frame(UPLINK, STRANGER, &wire::datagram(ends.0, ends.1, &wrapped)))
            }
            Some(outer) => {
                let name = cable(u8::try_from(outer.destination_port - CABLE_PORT_BASE).unwrap());
                self.cables.lock().unwrap()[&name].send(&inner)
            }
        };
        sent.unwrap();
    }

    /// What comes out, of one packet that went in.
    pub fn seen(&self) -> Vec<Seen> {
        let patience = Instant::now() + Duration::from_millis(3);
        loop {
            let seen = self.drain();
            if !seen.is_empty() || Instant::now() > patience {
                return seen;
            }
            std::thread::yield_now();
        }
    }

    fn drain(&self) -> Vec<Seen> {
        let mut seen = Vec::new();
        each(&self.pods, |frame| seen.extend(wire::framed(frame).and_then(wire::parse).map(Seen::Pod)));
        each(&self.uplink, |frame| seen.extend(wire::framed(frame).and_then(on_uplink)));
        for (name, device) in &*self.cables.lock().unwrap() {
            let rank = name.0.rsplit('-').next().unwrap().parse().unwrap();
            each(device, |bytes| seen.extend(wire::parse(bytes).map(|packet| Seen::Cable(rank, packet))));
        }
        let mut bytes = [0; 2048];
        for socket in &self.host {
            while let Ok(length) = recv(socket.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
                // What wraps others for the overlay is no packet of its own.
                let packet = wire::parse(&bytes[..length]).filter(|packet| to_port(packet) != OVERLAY_PORT);
                seen.extend(packet.map(Seen::Host));
            }
        }
        seen
    }
}

fn each(device: &SyncDevice, mut take: impl FnMut(&[u8])) {
    let mut bytes = [0; 2048];
    loop {
        match device.recv(&mut bytes) {
            Ok(length) => take(&bytes[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn to_port(packet: &Packet) -> u16 {
    match packet.transport {
        Transport::Tcp { destination, .. } | Transport::Udp { destination, .. } => destination,
    }
}

fn on_uplink(bytes: &[u8]) -> Option<Seen> {
    let packet = wire::parse(bytes)?;
    if to_port(&packet) != OVERLAY_PORT {
        return Some(Seen::Uplink(packet));
    }
    // Behind the headers of IP, UDP and VXLAN.
    wire::framed(bytes.get(36..)?).and_then(wire::parse).map(|inner| Seen::Overlay(packet.destination, inner))
}

/// What a host has, on the kernel; and nothing of its own to say.
fn base(host: &Network) {
    sh("for key in all default; do echo 0 > /proc/sys/net/ipv4/conf/$key/rp_filter; echo 0 > /proc/sys/net/ipv4/conf/$key/send_redirects; done
        echo 0 > /proc/sys/net/ipv4/conf/eth0/rp_filter; echo 0 > /proc/sys/net/ipv4/conf/cni0/rp_filter
        echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal");
    for ((link, address), length) in &host.addresses {
        sh(&format!("ip address add {address}/{length} dev {link}"));
    }
    for (id, route) in &host.routes {
        let RouteKind::Out { link, via } = &route.kind else { continue };
        assert_eq!(id.table, Table::MAIN);
        let via = via.map_or(String::new(), |via| format!("via {via}"));
        sh(&format!("ip route replace {} {via} dev {link}", id.to));
    }
    let masquerades = host.translations.keys().filter_map(|id| match id {
        TranslationId::Masquerade { from, except } => {
            Some(format!("\t\tip saddr {from} ip daddr != {except} masquerade\n"))
        }
        TranslationId::Service { .. }
        | TranslationId::KeepSource { .. }
        | TranslationId::ClampMss { .. }
        | TranslationId::Untracked { .. } => None,
    });
    let masquerades: String = masquerades.collect();
    sh(&format!(
        "nft -f - <<'NFT'
table ip host {{
\tchain hidden {{\n\t\ttype nat hook postrouting priority 100\n{masquerades}\t}}
\tchain quiet {{\n\t\ttype filter hook output priority -400\n\t\tudp dport {OVERLAY_PORT} accept\n\t\tdrop\n\t}}
}}
NFT
"
    ));
}
