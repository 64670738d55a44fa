//! VXLAN of the kernel between gateways. **Nothing of it is encrypted**, and who may send is told by addresses alone.
//!
//! One device has many peers. Each has a MAC that follows from its key, a forwarding entry that says behind which outer
//! address that MAC is, and a permanent neighbour for each single address that it has: routes go by way of its probe
//! address (`tombolo_core::roles`). Only IPv4 outside: a device speaks one family.
//!
//! Which ranges a peer has is not the kernel's to know. It is noted in a file beside, with the device's number: lost, or of
//! a former device, it means that peers are put anew, which changes nothing.

#![allow(clippy::wildcard_enum_match_arm, reason = "the kernel's vocabulary is open, and much larger than ours")]

use crate::driver::{Driver, PeerStatus, Status};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::link::{InfoData, InfoKind, InfoVxlan, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::RouteType;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use tombolo_core::base::Cidr;
use tombolo_core::model::{CableDriver, CableKey};
use tombolo_core::network::constants::CABLE_LINK_PREFIX;
use tombolo_core::network::{Link, LinkKind, LinkName, Peer, PeerId};
use tombolo_linux::{Cables, Channel, Fault};

/// Network identifier of all cables.
const VNI: u32 = 7450;

/// Cables of VXLAN. Its socket is of the namespace of the thread that uses it first.
pub struct Vxlan {
    /// Where it notes which ranges its peers have.
    directory: PathBuf,
    socket: Option<Channel>,
}

/// What is noted of a device.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Note {
    /// The device's number.
    index: u32,
    peers: Vec<(CableKey, Peer)>,
}

fn said(fault: impl ToString) -> String {
    fault.to_string()
}

/// The MAC of who has this key.
fn mac(key: &CableKey) -> [u8; 6] {
    let [a, b, c, d, e, ..] = key.0;
    // Of our own giving, and of one card.
    [2, a, b, c, d, e]
}

impl Vxlan {
    /// With its notes in this directory, which is best gone when the node starts.
    #[must_use]
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), socket: None }
    }

    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<(), Fault> {
        let mut socket = match self.socket.take() {
            Some(socket) => socket,
            None => Channel::open(NETLINK_ROUTE)?,
        };
        let outcome = socket.request(message, flags);
        self.socket = Some(socket);
        outcome
    }

    fn links(&mut self) -> Result<Vec<LinkMessage>, String> {
        let socket = match &mut self.socket {
            Some(socket) => socket,
            none => none.insert(Channel::open(NETLINK_ROUTE).map_err(said)?),
        };
        let listed = socket.dump(&RouteNetlinkMessage::GetLink(LinkMessage::default())).map_err(said)?;
        let ours = listed.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewLink(link) if name(&link).is_some() => Some(link),
            _ => None,
        });
        Ok(ours.collect())
    }

    fn path(&self, name: &LinkName) -> PathBuf {
        self.directory.join(format!("{name}.peers"))
    }

    /// What is noted of a device; nothing, where that is of another.
    fn note(&self, name: &LinkName) -> Note {
        let index = if_nametoindex(&*name.0).unwrap_or(0);
        let noted: Option<Note> = fs::read(self.path(name)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        noted.filter(|note| note.index == index).unwrap_or(Note { index, peers: Vec::new() })
    }

    fn write(&self, name: &LinkName, note: &Note) -> Result<(), String> {
        let write = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
            let fresh = self.path(name).with_extension("new");
            fs::write(&fresh, serde_json::to_vec(note)?)?;
            fs::rename(fresh, self.path(name))
        };
        write().map_err(said)
    }

    /// Takes away what the kernel knows of a peer.
    fn forget(&mut self, index: u32, key: &CableKey, peer: &Peer) -> Result<(), Fault> {
        for address in hosts(peer) {
            gone(self.request(RouteNetlinkMessage::DelNeighbour(neighbour(index, address, key)), 0))?;
        }
        gone(self.request(RouteNetlinkMessage::DelNeighbour(behind(index, key, peer)), 0))
    }

    fn put(&mut self, name: &LinkName, key: CableKey, peer: &Peer) -> Result<(), String> {
        let mut note = self.note(name);
        if note.index == 0 {
            return Err(format!("there is no link {name}"));
        }
        if !peer.endpoint.is_ipv4() {
            return Err(format!("VXLAN cables go over IPv4, and {key} is at {}", peer.endpoint));
        }
        if let Some(place) = note.peers.iter().position(|(is, _)| *is == key) {
            let (_, old) = note.peers.remove(place);
            let lost: Vec<_> = hosts(&old).into_iter().filter(|address| !hosts(peer).contains(address)).collect();
            for address in lost {
                gone(self.request(RouteNetlinkMessage::DelNeighbour(neighbour(note.index, address, &key)), 0))
                    .map_err(said)?;
            }
        }
        // Where the MAC is comes first: a neighbour without it would send to nowhere.
        let put = NLM_F_CREATE | NLM_F_REPLACE;
        self.request(RouteNetlinkMessage::NewNeighbour(behind(note.index, &key, peer)), put).map_err(said)?;
        for address in hosts(peer) {
            self.request(RouteNetlinkMessage::NewNeighbour(neighbour(note.index, address, &key)), put).map_err(said)?;
        }
        note.peers.push((key, peer.clone()));
        note.peers.sort_by_key(|(key, _)| *key);
        self.write(name, &note)
    }
}

/// The name of a device of ours.
fn name(link: &LinkMessage) -> Option<LinkName> {
    let is_vxlan = |attribute: &LinkAttribute| matches!(attribute, LinkAttribute::LinkInfo(infos) if infos.contains(&LinkInfo::Kind(InfoKind::Vxlan)));
    link.attributes.iter().any(is_vxlan).then_some(())?;
    let name = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name),
        _ => None,
    });
    name.filter(|name| name.starts_with(CABLE_LINK_PREFIX)).map(|name| LinkName(name.as_str().into()))
}

/// The single addresses that a peer has.
fn hosts(peer: &Peer) -> Vec<IpAddr> {
    peer.allowed.iter().filter(|range| **range == Cidr::host(range.network())).map(Cidr::network).collect()
}

fn about(family: AddressFamily, index: u32, address: IpAddr, key: &CableKey) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    (message.header.family, message.header.ifindex) = (family, index);
    (message.header.state, message.header.kind) = (NeighbourState::Permanent, RouteType::Unicast);
    let address = match address {
        IpAddr::V4(address) => NeighbourAddress::Inet(address),
        IpAddr::V6(address) => NeighbourAddress::Inet6(address),
    };
    message.attributes.push(NeighbourAttribute::Destination(address));
    message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac(key).to_vec()));
    message
}

/// A peer's address is at its MAC.
fn neighbour(index: u32, address: IpAddr, key: &CableKey) -> NeighbourMessage {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    about(family, index, address, key)
}

/// A peer's MAC is behind its outer address, at its port.
fn behind(index: u32, key: &CableKey, peer: &Peer) -> NeighbourMessage {
    let mut message = about(AddressFamily::Bridge, index, peer.endpoint.ip(), key);
    message.header.flags = NeighbourFlags::Own;
    message.attributes.push(NeighbourAttribute::Port(peer.endpoint.port()));
    message
}

/// What is gone already is no error.
fn gone(outcome: Result<(), Fault>) -> Result<(), Fault> {
    match outcome {
        Err(Fault::Refused(refusal)) if [Errno::ENOENT, Errno::ENODEV].iter().any(|errno| refusal.is(*errno)) => Ok(()),
        other => other,
    }
}

/// A new device.
fn device(name: &LinkName, port: u16, key: &CableKey) -> RouteNetlinkMessage {
    let data = vec![InfoVxlan::Id(VNI), InfoVxlan::Port(port), InfoVxlan::Learning(false)];
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(name.to_string()),
        LinkAttribute::Address(mac(key).to_vec()),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Vxlan), LinkInfo::Data(InfoData::Vxlan(data))]),
    ];
    RouteNetlinkMessage::NewLink(message)
}

impl Cables for Vxlan {
    fn make(&mut self, name: &LinkName, link: &Link) -> Result<(), String> {
        let LinkKind::Cable { port, key, .. } = &link.kind else { return Err(format!("{name} is no cable")) };
        self.request(device(name, *port, key), NLM_F_CREATE | NLM_F_EXCL).map_err(said)
    }

    fn made(&mut self, wanted: &LinkName) -> bool {
        self.links().is_ok_and(|links| links.iter().any(|link| name(link).as_ref() == Some(wanted)))
    }

    /// Its port and its MAC are for life.
    fn change(&mut self, name: &LinkName, link: &Link) -> Result<(), String> {
        let note = self.note(name);
        self.remove(name)?;
        self.make(name, link)?;
        note.peers.iter().try_for_each(|(key, peer)| self.put(name, *key, peer))
    }

    fn remove(&mut self, name: &LinkName) -> Result<(), String> {
        if let Ok(index) = if_nametoindex(&*name.0) {
            let mut message = LinkMessage::default();
            message.header.index = index;
            gone(self.request(RouteNetlinkMessage::DelLink(message), 0)).map_err(said)?;
        }
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(said(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn peers(&mut self) -> Result<BTreeMap<PeerId, Peer>, String> {
        let links = self.links()?;
        let peers = links.iter().filter_map(name).flat_map(|link| {
            let peers = self.note(&link).peers.into_iter();
            peers.map(move |(key, peer)| (PeerId { link: link.clone(), key }, peer))
        });
        Ok(peers.collect())
    }

    fn put_peer(&mut self, id: &PeerId, peer: &Peer) -> Result<(), String> {
        self.put(&id.link, id.key, peer)
    }

    fn remove_peer(&mut self, id: &PeerId) -> Result<(), String> {
        let mut note = self.note(&id.link);
        let Some(place) = note.peers.iter().position(|(key, _)| *key == id.key) else { return Ok(()) };
        let (key, peer) = note.peers.remove(place);
        self.forget(note.index, &key, &peer).map_err(said)?;
        self.write(&id.link, &note)
    }
}

impl Driver for Vxlan {
    fn kind(&self) -> CableDriver {
        CableDriver::Vxlan
    }

    fn status(&mut self) -> Result<Vec<Status>, String> {
        let mtu = |link: &LinkMessage| {
            let mtu = link.attributes.iter().find_map(|attribute| match attribute {
                LinkAttribute::Mtu(bytes) => Some(*bytes),
                _ => None,
            });
            mtu.and_then(|bytes| u16::try_from(bytes).ok())
        };
        let peer = |(key, peer): (CableKey, Peer)| PeerStatus {
            key,
            endpoint: Some(peer.endpoint),
            handshake_age: None,
            round_trip: None,
            sent_bytes: None,
            received_bytes: None,
        };
        let links = self.links()?;
        let status = links.iter().filter_map(|link| {
            let name = name(link)?;
            let peers = self.note(&name).peers.into_iter().map(peer).collect();
            Some(Status { link: name, driver: "vxlan of the kernel", is_encrypted: false, mtu: mtu(link), peers })
        });
        Ok(status.collect())
    }
}
