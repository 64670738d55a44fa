//! WireGuard of the kernel, by generic netlink.
//!
//! Messages are tested for their bytes and their way back. **They have met no kernel yet**: those that this is tested on
//! have no WireGuard.

#![allow(clippy::wildcard_enum_match_arm, reason = "the kernel's vocabulary is open, and much larger than ours")]

use crate::driver::{Driver, PeerStatus, Status};
use crate::keys::Keys;
use crate::wireguard::Secret;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_generic::GenlMessage;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd, nlas::GenlCtrlAttrs};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_wireguard::{
    WireguardAddressFamily, WireguardAllowedIp, WireguardAllowedIpAttr, WireguardAttribute, WireguardCmd,
    WireguardDeviceFlags, WireguardMessage, WireguardPeer, WireguardPeerAttribute, WireguardPeerFlags,
};
use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_ROUTE};
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tombolo_core::base::Cidr;
use tombolo_core::model::{CableDriver, CableKey};
use tombolo_core::network::constants::CABLE_LINK_PREFIX;
use tombolo_core::network::{Link, LinkKind, LinkName, Peer, PeerId};
use tombolo_linux::{Cables, Channel, Fault};

/// How often a peer hears something at least, in seconds: boxes that translate addresses forget after 30 s.
const KEEP_OPEN_SECS: u16 = 25;

/// Devices of the kernel. Its sockets are of the namespace of the thread that uses it first.
#[derive(Default)]
pub struct Kernel {
    keys: Option<Keys>,
    sockets: Option<Sockets>,
}

struct Sockets {
    route: Channel,
    generic: Channel,
    /// The number of the family "wireguard".
    family: u16,
}

/// What the kernel says of a device.
#[derive(Clone, PartialEq, Debug)]
struct Device {
    name: LinkName,
    peers: Vec<KernelPeer>,
}

#[derive(Clone, PartialEq, Debug)]
struct KernelPeer {
    key: CableKey,
    endpoint: Option<SocketAddr>,
    allowed: BTreeSet<Cidr>,
    /// Since the Unix epoch.
    handshake: Option<Duration>,
    sent: u64,
    received: u64,
}

fn said(fault: impl ToString) -> String {
    fault.to_string()
}

impl Kernel {
    /// With the keys of this node.
    #[must_use]
    pub const fn with(keys: Keys) -> Self {
        Self { keys: Some(keys), sockets: None }
    }

    /// Whether this kernel has WireGuard. It loads its module, if there is one.
    #[must_use]
    pub fn is_there() -> bool {
        Sockets::open().is_ok()
    }

    fn sockets(&mut self) -> Result<&mut Sockets, String> {
        let sockets = match self.sockets.take() {
            Some(sockets) => sockets,
            None => Sockets::open()?,
        };
        Ok(self.sockets.insert(sockets))
    }

    fn set(&mut self, attributes: Vec<WireguardAttribute>) -> Result<(), String> {
        let sockets = self.sockets()?;
        let message = sockets.message(WireguardCmd::SetDevice, attributes);
        sockets.generic.request(message, 0).map_err(said)
    }

    fn devices(&mut self) -> Result<Vec<Device>, String> {
        let sockets = self.sockets()?;
        let links = sockets.route.dump(&RouteNetlinkMessage::GetLink(LinkMessage::default())).map_err(said)?;
        let mut devices = Vec::new();
        for name in links.iter().filter_map(wireguard_link) {
            let message = sockets.message(WireguardCmd::GetDevice, vec![WireguardAttribute::IfName(name.to_string())]);
            match sockets.generic.dump(&message) {
                Ok(parts) => devices.push(read(name, &parts)),
                // It went meanwhile.
                Err(fault) if is(&fault, Errno::ENODEV) => {}
                Err(fault) => return Err(format!("{name}: {fault}")),
            }
        }
        Ok(devices)
    }

    fn set_up(&mut self, name: &LinkName, link: &Link) -> Result<(), String> {
        let LinkKind::Cable { port, key, .. } = &link.kind else { return Err(format!("{name} is no cable")) };
        let keys = self.keys.as_ref().ok_or("this node has no keys")?;
        let secret = keys.secret(key).map_err(said)?;
        let secret = secret.ok_or_else(|| format!("the private key of {key} is not here"))?;
        self.set(device(name, &secret, *port))
    }
}

impl Sockets {
    fn open() -> Result<Self, String> {
        let mut generic = Channel::open(NETLINK_GENERIC).map_err(said)?;
        let name = GenlCtrlAttrs::FamilyName("wireguard".into());
        let ask = GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas: vec![name] };
        let answers = generic.get(GenlMessage::from_payload(ask)).map_err(said)?;
        let number = answers.iter().flat_map(|answer| &answer.payload.nlas).find_map(|attribute| match attribute {
            GenlCtrlAttrs::FamilyId(number) => Some(*number),
            _ => None,
        });
        let family = number.ok_or("this kernel has no WireGuard")?;
        Ok(Self { route: Channel::open(NETLINK_ROUTE).map_err(said)?, generic, family })
    }

    fn message(&self, cmd: WireguardCmd, attributes: Vec<WireguardAttribute>) -> GenlMessage<WireguardMessage> {
        let mut message = GenlMessage::from_payload(WireguardMessage { cmd, attributes });
        message.set_resolved_family_id(self.family);
        message
    }
}

fn is(fault: &Fault, errno: Errno) -> bool {
    matches!(fault, Fault::Refused(refusal) if refusal.is(errno))
}

/// The name of a link, if it is a WireGuard device that may be ours.
fn wireguard_link(message: &RouteNetlinkMessage) -> Option<LinkName> {
    let RouteNetlinkMessage::NewLink(link) = message else { return None };
    let is_wireguard = |attribute: &LinkAttribute| matches!(attribute, LinkAttribute::LinkInfo(infos) if infos.contains(&LinkInfo::Kind(InfoKind::Wireguard)));
    link.attributes.iter().any(is_wireguard).then_some(())?;
    let name = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name),
        _ => None,
    });
    name.filter(|name| name.starts_with(CABLE_LINK_PREFIX)).map(|name| LinkName(name.as_str().into()))
}

/// A new link.
fn make_link(name: &LinkName) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    let kind = LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Wireguard)]);
    message.attributes = vec![LinkAttribute::IfName(name.to_string()), kind];
    RouteNetlinkMessage::NewLink(message)
}

/// A device's own key and port.
fn device(name: &LinkName, secret: &Secret, port: u16) -> Vec<WireguardAttribute> {
    vec![
        WireguardAttribute::IfName(name.to_string()),
        WireguardAttribute::PrivateKey(secret.bytes()),
        WireguardAttribute::ListenPort(port),
    ]
}

/// A peer as it is to be.
fn put(id: &PeerId, peer: &Peer) -> Vec<WireguardAttribute> {
    let allowed = peer.allowed.iter().map(|range| {
        let address = range.network();
        let family = if address.is_ipv4() { WireguardAddressFamily::Ipv4 } else { WireguardAddressFamily::Ipv6 };
        WireguardAllowedIp(vec![
            WireguardAllowedIpAttr::Family(family),
            WireguardAllowedIpAttr::IpAddr(address),
            WireguardAllowedIpAttr::Cidr(range.prefix_len()),
        ])
    });
    let attributes = vec![
        WireguardPeerAttribute::PublicKey(id.key.0),
        WireguardPeerAttribute::Flags(WireguardPeerFlags::ReplaceAllowedIps),
        WireguardPeerAttribute::Endpoint(peer.endpoint),
        WireguardPeerAttribute::PersistentKeepalive(KEEP_OPEN_SECS),
        WireguardPeerAttribute::AllowedIps(allowed.collect()),
    ];
    of_peer(id, attributes)
}

/// A peer that is to be no more.
fn remove(id: &PeerId) -> Vec<WireguardAttribute> {
    let flags = WireguardPeerFlags::RemoveMe | WireguardPeerFlags::UpdateOnly;
    of_peer(id, vec![WireguardPeerAttribute::PublicKey(id.key.0), WireguardPeerAttribute::Flags(flags)])
}

fn of_peer(id: &PeerId, attributes: Vec<WireguardPeerAttribute>) -> Vec<WireguardAttribute> {
    vec![
        WireguardAttribute::IfName(id.link.to_string()),
        WireguardAttribute::Flags(WireguardDeviceFlags::empty()),
        WireguardAttribute::Peers(vec![WireguardPeer(attributes)]),
    ]
}

/// A device from the parts in which the kernel tells of it. A peer with many ranges comes in several of them.
fn read(name: LinkName, parts: &[GenlMessage<WireguardMessage>]) -> Device {
    let mut peers: Vec<KernelPeer> = Vec::new();
    let told = parts.iter().flat_map(|part| &part.payload.attributes).filter_map(|attribute| match attribute {
        WireguardAttribute::Peers(peers) => Some(peers),
        _ => None,
    });
    for told in told.flatten() {
        let key = told.iter().find_map(|attribute| match attribute {
            WireguardPeerAttribute::PublicKey(key) => Some(CableKey(*key)),
            _ => None,
        });
        let Some(key) = key else { continue };
        if peers.last().is_none_or(|last| last.key != key) {
            let nothing = BTreeSet::new();
            peers.push(KernelPeer { key, endpoint: None, allowed: nothing, handshake: None, sent: 0, received: 0 });
        }
        if let Some(peer) = peers.last_mut() {
            told.iter().for_each(|attribute| peer.take(attribute));
        }
    }
    Device { name, peers }
}

impl KernelPeer {
    fn take(&mut self, attribute: &WireguardPeerAttribute) {
        match attribute {
            WireguardPeerAttribute::Endpoint(endpoint) => self.endpoint = Some(*endpoint),
            WireguardPeerAttribute::AllowedIps(ranges) => self.allowed.extend(ranges.iter().filter_map(range)),
            WireguardPeerAttribute::TxBytes(bytes) => self.sent = *bytes,
            WireguardPeerAttribute::RxBytes(bytes) => self.received = *bytes,
            WireguardPeerAttribute::LastHandshake(time) => {
                let seconds = u64::try_from(time.seconds).unwrap_or(0);
                let nanos = u32::try_from(time.nano_seconds).unwrap_or(0);
                self.handshake = (seconds > 0).then(|| Duration::new(seconds, nanos));
            }
            _ => {}
        }
    }
}

fn range(told: &WireguardAllowedIp) -> Option<Cidr> {
    let (mut address, mut length): (Option<IpAddr>, _) = (None, None);
    for attribute in told.iter() {
        match attribute {
            WireguardAllowedIpAttr::IpAddr(is) => address = Some(*is),
            WireguardAllowedIpAttr::Cidr(is) => length = Some(*is),
            _ => {}
        }
    }
    Cidr::holding(address?, length?)
}

impl Cables for Kernel {
    fn make(&mut self, name: &LinkName, link: &Link) -> Result<(), String> {
        self.sockets()?.route.request(make_link(name), NLM_F_CREATE | NLM_F_EXCL).map_err(said)?;
        self.set_up(name, link)
    }

    fn made(&mut self, name: &LinkName) -> bool {
        self.devices().is_ok_and(|devices| devices.iter().any(|device| device.name == *name))
    }

    fn change(&mut self, name: &LinkName, link: &Link) -> Result<(), String> {
        self.set_up(name, link)
    }

    fn remove(&mut self, name: &LinkName) -> Result<(), String> {
        let Ok(index) = if_nametoindex(&*name.0) else { return Ok(()) };
        let mut message = LinkMessage::default();
        message.header.index = index;
        match self.sockets()?.route.request(RouteNetlinkMessage::DelLink(message), 0) {
            Err(fault) if !is(&fault, Errno::ENODEV) => Err(said(fault)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn peers(&mut self) -> Result<BTreeMap<PeerId, Peer>, String> {
        let nowhere = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
        let peers = self.devices()?.into_iter().flat_map(|device| {
            device.peers.into_iter().map(move |peer| {
                let id = PeerId { link: device.name.clone(), key: peer.key };
                (id, Peer { endpoint: peer.endpoint.unwrap_or(nowhere), allowed: peer.allowed })
            })
        });
        Ok(peers.collect())
    }

    fn put_peer(&mut self, id: &PeerId, peer: &Peer) -> Result<(), String> {
        self.set(put(id, peer))
    }

    fn remove_peer(&mut self, id: &PeerId) -> Result<(), String> {
        self.set(remove(id))
    }
}

impl Driver for Kernel {
    fn kind(&self) -> CableDriver {
        CableDriver::Wireguard
    }

    fn status(&mut self) -> Result<Vec<Status>, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let peer = |peer: KernelPeer| PeerStatus {
            key: peer.key,
            endpoint: peer.endpoint,
            handshake_age: peer.handshake.map(|at| now.saturating_sub(at)),
            // The kernel does not tell.
            round_trip: None,
            sent_bytes: Some(peer.sent),
            received_bytes: Some(peer.received),
        };
        let status = |device: Device| Status {
            link: device.name,
            driver: "wireguard of the kernel",
            is_encrypted: true,
            mtu: None,
            peers: device.peers.into_iter().map(peer).collect(),
        };
        Ok(self.devices()?.into_iter().map(status).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;
    use netlink_packet_core::{Emitable, ParseableParametrized};
    use netlink_packet_generic::GenlHeader;

    fn name() -> LinkName {
        LinkName("tb-cable-1".into())
    }

    fn id() -> PeerId {
        PeerId { link: name(), key: CableKey([0xab; 32]) }
    }

    fn peer() -> Peer {
        let allowed = ["10.2.0.0/16", "fd00:2::/64"].iter().map(|range| range.parse().unwrap()).collect();
        Peer { endpoint: "192.0.2.1:4511".parse().unwrap(), allowed }
    }

    fn bytes(attributes: Vec<WireguardAttribute>) -> Vec<u8> {
        let message = WireguardMessage { cmd: WireguardCmd::SetDevice, attributes };
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        bytes
    }

    /// As `include/uapi/linux/wireguard.h` has it, on a little-endian machine.
    #[cfg(target_endian = "little")]
    #[test]
    fn a_device_and_a_peer_are_written_as_the_kernel_reads_them() {
        let own = bytes(device(&name(), &Secret::new([1; 32]), 4511));
        let expected = [
            // WGDEVICE_A_IFNAME, with its zero, to a multiple of four.
            "0f00020074622d6361626c652d310000",
            // WGDEVICE_A_PRIVATE_KEY
            &format!("24000300{}", "01".repeat(32)),
            // WGDEVICE_A_LISTEN_PORT
            "060006009f110000",
        ];
        assert_eq!(HEXLOWER.encode(&own), expected.concat());
        let peer = HEXLOWER.encode(&bytes(put(&id(), &peer())));
        let expected = [
            "0f00020074622d6361626c652d310000",
            // WGDEVICE_A_FLAGS: other peers stay.
            "0800050000000000",
            // WGDEVICE_A_PEERS, nested; the first; its WGPEER_A_PUBLIC_KEY
            "9800088094000080",
            &format!("24000100{}", "ab".repeat(32)),
            // WGPEER_A_FLAGS: its ranges are replaced.
            "0800030002000000",
            // WGPEER_A_ENDPOINT: a sockaddr_in
            "140004000200119fc00002010000000000000000",
            // WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL: 25
            "0600050019000000",
            // WGPEER_A_ALLOWEDIPS: family, address and length of each
            "48000980",
            "1c0000800600010002000000080002000a0200000500030010000000",
            "2800008006000100 0a000000 14000200fd000002000000000000000000000000 0500030040000000",
        ];
        assert_eq!(peer, expected.concat().replace(' ', ""));
    }

    #[test]
    fn a_device_is_read_as_it_was_written() {
        let written = put(&id(), &peer());
        let header = GenlHeader { cmd: 0, version: 1 };
        let message = WireguardMessage::parse_with_param(&bytes(written), header).unwrap();
        let half = |ranges: &[&str]| {
            let allowed = ranges.iter().map(|range| range.parse().unwrap()).collect();
            let other = put(&id(), &Peer { allowed, ..peer() });
            GenlMessage::from_payload(WireguardMessage { cmd: WireguardCmd::GetDevice, attributes: other })
        };
        let read_peer = KernelPeer {
            key: id().key,
            endpoint: Some(peer().endpoint),
            allowed: peer().allowed,
            handshake: None,
            sent: 0,
            received: 0,
        };
        let expected = Device { name: name(), peers: vec![read_peer] };
        assert_eq!(read(name(), &[GenlMessage::from_payload(message)]), expected);
        // In two parts, as the kernel tells of one with many ranges.
        assert_eq!(read(name(), &[half(&["10.2.0.0/16"]), half(&["fd00:2::/64"])]), expected);
    }

    #[test]
    fn only_wireguard_links_by_our_name_are_looked_at() {
        let RouteNetlinkMessage::NewLink(link) = make_link(&name()) else { panic!() };
        assert_eq!(wireguard_link(&RouteNetlinkMessage::NewLink(link.clone())), Some(name()));
        let mut other = link;
        other.attributes[1] = LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Vxlan)]);
        assert_eq!(wireguard_link(&RouteNetlinkMessage::NewLink(other)), None);
        assert_eq!(wireguard_link(&make_link(&LinkName("wg0".into()))), None);
    }
}
