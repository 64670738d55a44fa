//! A topology on the kernel.

use crate::messages::{self, BRIDGE_NUMBER, CREATE, FIRST_PORT_NUMBER, UPLINK_NUMBER};
use crate::relay::Relay;
use crate::topology::{Inside, PlaceName, SiteLink, Topology, cuts, nat};
use crate::{nft, pods};
use anyhow::{Context as _, Result, anyhow};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tombolo_core::base::Rng;
use tombolo_core::nat::boxes::LIFETIME;
use tombolo_linux::{Channel, Place, requests};
use tombolo_scenarios::layout::UPLINK;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// The longest frame's payload on any link.
const MTU: u16 = 1500;

/// A lab that is up. It ends with this.
pub(crate) struct Lab {
    pub(crate) topology: Topology,
    pub(crate) places: BTreeMap<PlaceName, Place>,
    pub(crate) relays: Vec<Relay>,
}

impl Lab {
    /// Makes all of it. `seed` pins the chance of its links.
    pub(crate) fn build(topology: Topology, seed: u64) -> Result<Self> {
        let mut places = BTreeMap::new();
        for name in topology.places.keys() {
            let place = Place::new().with_context(|| format!("the namespace of {name}"))?;
            places.insert(name.clone(), place);
        }
        let mut lab = Self { topology, places, relays: Vec::new() };
        for name in lab.places.keys() {
            lab.plug(name).with_context(|| format!("the links of {name}"))?;
        }
        let mut numbers = BTreeMap::new();
        for (index, link) in lab.topology.links.clone().into_iter().enumerate() {
            let relay = lab.relay(&link, &mut numbers, Rng::stream(seed, &format!("link {index}")));
            lab.relays.push(relay.with_context(|| format!("the link of {} and {}", link.routers[0], link.routers[1]))?);
        }
        for (name, inside) in &lab.topology.places {
            lab.furnish(name, inside, &numbers).with_context(|| name.to_string())?;
        }
        // Last: a bridge that comes up before its ports takes up to a second to notice them.
        for (name, _) in lab.topology.places.iter().filter(|(_, inside)| inside.bridge.is_some()) {
            let raise = || Channel::open(NETLINK_ROUTE)?.request(requests::raise_link(BRIDGE_NUMBER), 0);
            lab.place(name)?.run(raise)?.with_context(|| format!("the bridge of {name}"))?;
        }
        Ok(lab)
    }

    pub(crate) fn place(&self, name: &PlaceName) -> Result<&Place> {
        self.places.get(name).ok_or_else(|| anyhow!("there is no {name}"))
    }

    /// Runs an nft script there.
    pub(crate) fn nft(&self, at: &PlaceName, script: String) -> Result<()> {
        self.place(at)?.run(move || nft::run(&script))?.with_context(|| format!("rules of {at}"))
    }

    /// A NAT box is like this from now on, and all its mappings are forgotten.
    pub(crate) fn set_nat(&self, at: &PlaceName, state: nat::State) -> Result<()> {
        let plan = self.topology.nat(at).ok_or_else(|| anyhow!("{at} is no NAT box"))?;
        self.nft(at, nat::script(plan, state))?;
        let forget = || requests::forget_flows(&mut Channel::open(NETLINK_NETFILTER)?);
        self.place(at)?.run(forget)?.with_context(|| format!("flows of {at}"))
    }

    /// The bridge of a place, its ports, and what they lead to.
    fn plug(&self, name: &PlaceName) -> Result<()> {
        let Some(bridge) = self.topology.places.get(name).and_then(|inside| inside.bridge) else { return Ok(()) };
        let mut ports: Vec<(String, OwnedFd)> = Vec::new();
        for port in self.topology.ports.iter().filter(|port| port.at == *name) {
            ports.push((port.name.clone(), self.place(&port.to)?.namespace()?));
        }
        self.place(name)?.run(move || -> Result<()> {
            let mut channel = Channel::open(NETLINK_ROUTE)?;
            channel.request(messages::bridge(bridge), CREATE)?;
            for ((port, there), number) in ports.iter().zip(FIRST_PORT_NUMBER..) {
                channel.request(messages::port(number, port, there, UPLINK), CREATE)?;
                channel.request(requests::raise_link(number), 0)?;
            }
            Ok(())
        })?
    }

    fn relay(&self, link: &SiteLink, numbers: &mut BTreeMap<(PlaceName, String), u32>, chance: Rng) -> Result<Relay> {
        let mut open = |at: &PlaceName, end: &str| -> Result<Arc<SyncDevice>> {
            let name = end.to_owned();
            let (device, number) = self.place(at)?.run(move || tap(&name))??;
            numbers.insert((at.clone(), end.to_owned()), number);
            Ok(Arc::new(device))
        };
        let [a, b] = &link.routers;
        let [to_b, to_a] = &link.ends;
        Ok(Relay::start([open(a, to_b)?, open(b, to_a)?], link.spec, chance)?)
    }

    /// Addresses, routes, rules and whoever listens.
    fn furnish(&self, name: &PlaceName, inside: &Inside, numbers: &BTreeMap<(PlaceName, String), u32>) -> Result<()> {
        let number = |link: &str| match link {
            UPLINK => Some(UPLINK_NUMBER),
            _ if inside.bridge == Some(link) => Some(BRIDGE_NUMBER),
            _ => numbers.get(&(name.clone(), link.to_owned())).copied(),
        };
        let number = |link: &str| number(link).ok_or_else(|| anyhow!("there is no link {link}"));
        let is_router = matches!(name, PlaceName::Router(_));
        let mut wanted: Vec<RouteNetlinkMessage> = Vec::new();
        for (link, address, length) in &inside.addresses {
            wanted.push(requests::add_address(number(link)?, *address, *length));
        }
        for route in &inside.routes {
            wanted.push(messages::route(route.to, number(&route.link)?, route.via));
        }
        let forwards = inside.forwards;
        let is_host = matches!(name, PlaceName::Node(..) | PlaceName::Api(_));
        let cuts = is_router.then(|| cuts::script(&self.topology, name));
        let nat = self.topology.nat(name).map(|plan| nat::script(plan, nat::State::default()));
        let place = self.place(name)?;
        place.run(move || -> Result<()> {
            if is_host {
                own_files().context("its own files")?;
            }
            parameters(forwards, is_router)?;
            let mut channel = Channel::open(NETLINK_ROUTE)?;
            if !is_router {
                channel.request(requests::raise_link(UPLINK_NUMBER), 0)?;
            }
            wanted.into_iter().try_for_each(|request| channel.request(request, CREATE))?;
            cuts.into_iter().chain(nat).try_for_each(|script| Ok(nft::run(&script)?))
        })??;
        if let PlaceName::Pod(..) = name {
            pods::answer::start(place, &name.to_string(), &inside.listens)?;
        }
        Ok(())
    }
}

/// A host has a `/run` of its own, as cables have their sockets there, and sees its own links in `/sys`.
fn own_files() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), Some("mode=755")).context("/run")?;
    // Whoever may not mount it sees the links of the machine there, and everywhere else those of the host.
    let _ = mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), None::<&str>);
    Ok(())
}

/// What a machine's own settings might be otherwise.
fn parameters(forwards: bool, is_router: bool) -> Result<()> {
    let set = |key: &str, value: &str| {
        let path = format!("/proc/sys/net/{key}");
        fs::write(&path, value).with_context(|| path.clone())
    };
    set("ipv4/ip_forward", if forwards { "1" } else { "0" })?;
    for which in ["all", "default"] {
        set(&format!("ipv4/conf/{which}/rp_filter"), "0")?;
        set(&format!("ipv4/conf/{which}/send_redirects"), "0")?;
    }
    if is_router {
        // What nobody asked for would go through the relays.
        set("ipv6/conf/all/disable_ipv6", "1")?;
        set("ipv6/conf/default/disable_ipv6", "1")?;
        // As long as a mapping lives in the model.
        for which in ["udp_timeout", "udp_timeout_stream"] {
            set(&format!("netfilter/nf_conntrack_{which}"), &LIFETIME.as_secs().to_string())?;
        }
    }
    // A bridge of pods shows its packets to nft, so that answers of a neighbour find the way back through a translation;
    // a router has nothing to do with what its site says within itself.
    let shown = if forwards && !is_router { "1" } else { "0" };
    if fs::exists("/proc/sys/net/bridge/bridge-nf-call-iptables")? {
        set("bridge/bridge-nf-call-iptables", shown)?;
    }
    Ok(())
}

/// One end of a link between sites, and its number.
fn tap(name: &str) -> Result<(SyncDevice, u32)> {
    let device = DeviceBuilder::new().name(name).layer(Layer::L2).mtu(MTU).build_sync()?;
    device.set_nonblocking(true)?;
    let number = device.if_index()?;
    Ok((device, number))
}
