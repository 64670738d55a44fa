//! Links: which are there, which are ours, and the messages that make and change them.

#![allow(clippy::wildcard_enum_match_arm, reason = "the kernel's vocabulary is open, and much larger than ours")]

use crate::alias::Alias;
use crate::error::Fault;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVxlan, LinkAttribute, LinkExtentMask, LinkFlags,
    LinkInfo, LinkMessage,
};
use std::collections::BTreeMap;
use std::net::IpAddr;
use tombolo_core::network::{Link, LinkKind, LinkName, Mac};

/// All links of a namespace, by name.
#[derive(Debug, Default)]
pub(crate) struct Links {
    by_name: BTreeMap<LinkName, There>,
}

/// A link that is there.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct There {
    /// Its number.
    pub(crate) index: u32,
    /// It is ours.
    pub(crate) ours: bool,
    /// It is a VXLAN device without an alias: ours, half made, if it has our name.
    pub(crate) bare_vxlan: bool,
    /// It is up.
    pub(crate) up: bool,
    /// What it is, if it is ours and can be told.
    pub(crate) link: Option<Link>,
}

impl Links {
    /// What a listing says.
    pub(crate) fn read(listing: &[RouteNetlinkMessage]) -> Self {
        let links = listing.iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewLink(link) => read(link),
            _ => None,
        });
        Self { by_name: links.collect() }
    }

    /// The link of this name.
    pub(crate) fn get(&self, name: &LinkName) -> Option<&There> {
        self.by_name.get(name)
    }

    /// Its number.
    pub(crate) fn index(&self, name: &LinkName) -> Result<u32, Fault> {
        self.get(name).map(|there| there.index).ok_or_else(|| Fault::NoLink(name.clone()))
    }

    /// The name of the link with this number.
    pub(crate) fn name(&self, index: u32) -> Option<&LinkName> {
        self.by_name.iter().find(|(_, there)| there.index == index).map(|(name, _)| name)
    }

    /// The name of the link with this number, if it is ours.
    pub(crate) fn ours(&self, index: u32) -> Option<&LinkName> {
        let of_ours = |(_, there): &(&LinkName, &There)| there.ours && there.index == index;
        self.by_name.iter().find(of_ours).map(|(name, _)| name)
    }

    /// The name of the link with this number, if it is ours and its neighbours are a network's: those of a cable are of
    /// whoever makes its peers.
    pub(crate) fn with_neighbours(&self, index: u32) -> Option<&LinkName> {
        self.ours(index).filter(|name| {
            let link = self.get(name).and_then(|there| there.link.as_ref());
            link.is_none_or(|link| !matches!(link.kind, LinkKind::Cable { .. }))
        })
    }

    /// The numbers of all links that are ours.
    pub(crate) fn numbers_of_ours(&self) -> impl Iterator<Item = u32> {
        self.by_name.values().filter(|there| there.ours).map(|there| there.index)
    }

    /// Links of ours that do their work: one that is down counts as missing, so that a plan puts it up.
    pub(crate) fn network(&self) -> BTreeMap<LinkName, Link> {
        let working = self.by_name.iter().filter(|(_, there)| there.ours && there.up);
        working.filter_map(|(name, there)| Some((name.clone(), there.link.clone()?))).collect()
    }

    /// Takes note of a change.
    pub(crate) fn note(&mut self, name: LinkName, there: Option<There>) {
        match there {
            Some(there) => drop(self.by_name.insert(name, there)),
            None => drop(self.by_name.remove(&name)),
        }
    }
}

fn read(message: &LinkMessage) -> Option<(LinkName, There)> {
    let (mut name, mut alias, mut mtu, mut mac, mut vxlan, mut is_vxlan) = (None, None, 0, None, None, false);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name = Some(LinkName(text.as_str().into())),
            LinkAttribute::IfAlias(text) => alias = Some(text.as_str()),
            LinkAttribute::Mtu(bytes) => mtu = u16::try_from(*bytes).unwrap_or(u16::MAX),
            LinkAttribute::Address(bytes) => mac = <[u8; 6]>::try_from(bytes.as_slice()).ok().map(Mac),
            LinkAttribute::LinkInfo(infos) => {
                is_vxlan = infos.contains(&LinkInfo::Kind(InfoKind::Vxlan));
                vxlan = infos.iter().find_map(|info| match info {
                    LinkInfo::Data(InfoData::Vxlan(data)) => Some(data),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    let bare_vxlan = is_vxlan && alias.is_none();
    let alias = alias.and_then(Alias::parse);
    let ours = alias.is_some();
    let kind = alias.and_then(|alias| match alias {
        Alias::Overlay => overlay(vxlan?, mac?),
        Alias::Cable { driver, rank, port, key } => Some(LinkKind::Cable { driver, rank, port, key }),
    });
    let (index, up) = (message.header.index, message.header.flags.contains(LinkFlags::Up));
    Some((name?, There { index, ours, bare_vxlan, up, link: kind.map(|kind| Link { kind, mtu }) }))
}

fn overlay(data: &[InfoVxlan], mac: Mac) -> Option<LinkKind> {
    let (mut vni, mut port, mut local) = (None, None, None);
    for info in data {
        match info {
            InfoVxlan::Id(id) => vni = Some(*id),
            InfoVxlan::Port(number) => port = Some(*number),
            InfoVxlan::Local(address) => local = Some(IpAddr::V4(*address)),
            InfoVxlan::Local6(address) => local = Some(IpAddr::V6(*address)),
            _ => {}
        }
    }
    Some(LinkKind::Overlay { vni: vni?, port: port?, local: local?, mac })
}

/// Asks for all links, without their counters.
pub(crate) fn list() -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
    RouteNetlinkMessage::GetLink(message)
}

/// Makes our overlay, still down and without its alias: the kernel takes that from nobody who makes a link.
pub(crate) fn make_overlay(name: &LinkName, link: &Link) -> Option<RouteNetlinkMessage> {
    let LinkKind::Overlay { vni, port, local, mac } = link.kind else { return None };
    let local = match local {
        IpAddr::V4(address) => InfoVxlan::Local(address),
        IpAddr::V6(address) => InfoVxlan::Local6(address),
    };
    let data = vec![InfoVxlan::Id(vni), local, InfoVxlan::Port(port), InfoVxlan::Learning(false)];
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(name.to_string()),
        LinkAttribute::Mtu(link.mtu.into()),
        LinkAttribute::Address(mac.0.to_vec()),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Vxlan), LinkInfo::Data(InfoData::Vxlan(data))]),
    ];
    Some(RouteNetlinkMessage::NewLink(message))
}

fn change(index: u32, attributes: Vec<LinkAttribute>) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    (message.header.index, message.attributes) = (index, attributes);
    RouteNetlinkMessage::SetLink(message)
}

/// Says that a link is ours. It gets no address of its own making either.
pub(crate) fn claim(index: u32, alias: &Alias) -> RouteNetlinkMessage {
    let quiet = AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(In6AddrGenMode::None)]);
    change(index, vec![LinkAttribute::IfAlias(alias.to_string()), LinkAttribute::AfSpecUnspec(vec![quiet])])
}

/// Sets the MTU and, of an overlay, the MAC.
pub(crate) fn reshape(index: u32, link: &Link) -> RouteNetlinkMessage {
    let mut attributes = vec![LinkAttribute::Mtu(link.mtu.into())];
    if let LinkKind::Overlay { mac, .. } = link.kind {
        attributes.push(LinkAttribute::Address(mac.0.to_vec()));
    }
    change(index, attributes)
}

/// Gives an overlay another outer address.
pub(crate) fn rehome(index: u32, local: IpAddr) -> RouteNetlinkMessage {
    let local = match local {
        IpAddr::V4(address) => InfoVxlan::Local(address),
        IpAddr::V6(address) => InfoVxlan::Local6(address),
    };
    let data = LinkInfo::Data(InfoData::Vxlan(vec![local]));
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes = vec![LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Vxlan), data])];
    RouteNetlinkMessage::NewLink(message)
}

/// Puts a link up.
#[must_use]
pub fn raise(index: u32) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    (message.header.flags, message.header.change_mask) = (LinkFlags::Up, LinkFlags::Up);
    RouteNetlinkMessage::SetLink(message)
}

/// Removes a link.
pub(crate) fn remove(index: u32) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    RouteNetlinkMessage::DelLink(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> LinkName {
        LinkName("vx-tombolo".into())
    }

    fn overlay_link() -> Link {
        let kind =
            LinkKind::Overlay { vni: 7400, port: 4804, local: [192, 0, 2, 1].into(), mac: Mac([2, 0, 0, 0, 0, 1]) };
        Link { kind, mtu: 1450 }
    }

    /// As the kernel would list what `make_overlay` made and `claim` claimed.
    fn listed(alias: Option<&str>, flags: LinkFlags) -> RouteNetlinkMessage {
        let Some(RouteNetlinkMessage::NewLink(mut message)) = make_overlay(&name(), &overlay_link()) else { panic!() };
        (message.header.index, message.header.flags) = (7, flags);
        message.attributes.extend(alias.map(|alias| LinkAttribute::IfAlias(alias.into())));
        RouteNetlinkMessage::NewLink(message)
    }

    #[test]
    fn an_overlay_is_read_as_it_is_made() {
        let links = Links::read(&[listed(Some("tombolo overlay"), LinkFlags::Up)]);
        assert_eq!(links.network(), [(name(), overlay_link())].into());
        assert_eq!(links.ours(7), Some(&name()));
        assert_eq!(links.index(&name()).unwrap(), 7);
    }

    #[test]
    fn a_link_of_ours_that_is_down_counts_as_missing() {
        let links = Links::read(&[listed(Some("tombolo overlay"), LinkFlags::empty())]);
        assert!(links.network().is_empty());
        assert!(links.get(&name()).unwrap().ours);
    }

    #[test]
    fn a_link_of_our_name_without_our_alias_is_not_ours() {
        for alias in [None, Some("somebody's"), Some("tombolo")] {
            let links = Links::read(&[listed(alias, LinkFlags::Up)]);
            assert!(links.network().is_empty());
            assert_eq!(links.ours(7), None);
            assert_eq!(links.get(&name()).unwrap().bare_vxlan, alias.is_none());
        }
    }
}
