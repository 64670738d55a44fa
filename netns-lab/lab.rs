//! A topology on the kernel.

use crate::messages::{self, BRIDGE_NUMBER, CREATE, FIRST_END_NUMBER, FIRST_PORT_NUMBER, UPLINK_NUMBER};
use crate::process::Process;
use crate::relay::Relay;
use crate::topology::{Inside, PlaceName, SiteLink, Topology, cuts, nat};
use crate::{pods, scripts};
use anyhow::{Context as _, Result, anyhow};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tombolo_core::base::Rng;
use tombolo_core::nat::boxes::LIFETIME;
use tombolo_linux::{Channel, Place, requests};
use tombolo_scenarios::layout::{HostId, UPLINK};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// The longest frame's payload on any link.
const MTU: u16 = 1500;
/// Where the keeper has a folder for each host, which is that host's `/run`.
const HOSTS: &str = "/run/lab";
/// What stays in it without power: the host's disk.
pub(crate) const DISK: &str = "disk";
/// The file of names on it.
const NAMES: &str = "hosts";
/// A name by which a node knows the address under which it is seen from outside its site: somebody out there has told it.
pub(crate) const OUTSIDE: &str = "outside.lab";

/// A lab that is up. It ends with this.
pub(crate) struct Lab {
    pub(crate) topology: Topology,
    /// The first to go: they live in places.
    pods: BTreeMap<PlaceName, Process>,
    pub(crate) places: BTreeMap<PlaceName, Place>,
    pub(crate) relays: Vec<Relay>,
    /// Numbers of the ends of links between sites.
    ends: BTreeMap<(PlaceName, String), u32>,
    /// From which host nothing passes to which other.
    closed: BTreeSet<(HostId, HostId)>,
    /// NAT boxes that are not as they were at the beginning.
    nats: BTreeMap<PlaceName, nat::State>,
}

impl Lab {
    /// Makes all of it. `seed` pins the chance of its links.
    pub(crate) fn build(topology: Topology, seed: u64) -> Result<Self> {
        let (pods, places, relays) = Default::default();
        let (ends, closed, nats) = Default::default();
        let mut lab = Self { topology, pods, places, relays, ends, closed, nats };
        let all: Vec<PlaceName> = lab.topology.places.keys().cloned().collect();
        lab.open_places(&all)?;
        for name in &all {
            lab.plug(name).with_context(|| format!("the links of {name}"))?;
        }
        for (index, link) in lab.topology.links.clone().into_iter().enumerate() {
            let of = || format!("the link of {} and {}", link.routers[0], link.routers[1]);
            if link.is_plain {
                lab.wire_up(&link).with_context(of)?;
            } else {
                let relay = lab.relay(&link, Rng::stream(seed, &format!("link {index}")));
                lab.relays.push(relay.with_context(of)?);
            }
        }
        lab.furnish_all(&all)?;
        lab.settle(&all)?;
        Ok(lab)
    }

    fn open_places(&mut self, names: &[PlaceName]) -> Result<()> {
        for name in names {
            let place = Place::new().with_context(|| format!("the namespace of {name}"))?;
            self.places.insert(name.clone(), place);
        }
        Ok(())
    }

    fn furnish_all(&mut self, names: &[PlaceName]) -> Result<()> {
        for name in names {
            let inside = self.topology.places.get(name).ok_or_else(|| anyhow!("there is no {name}"))?;
            self.furnish(name, inside).with_context(|| name.to_string())?;
        }
        Ok(())
    }

    /// The last of it: cuts know all ports then, and a bridge that comes up before its ports takes up to a second to
    /// notice them. Pods answer.
    fn settle(&mut self, names: &[PlaceName]) -> Result<()> {
        for name in names {
            let Some(inside) = self.topology.places.get(name) else { continue };
            if inside.bridge.is_some() {
                let raise = || Channel::open(NETLINK_ROUTE)?.request(requests::raise_link(BRIDGE_NUMBER), 0);
                self.place(name)?.run(raise)?.with_context(|| format!("the bridge of {name}"))?;
            }
            match name {
                PlaceName::Router(_) => self.put_cuts(name)?,
                PlaceName::Pod(..) => self.start_pod(name)?,
                PlaceName::Node(..) | PlaceName::Api(_) => {}
            }
        }
        Ok(())
    }

    /// What answers in a pod, unless it does already.
    fn start_pod(&mut self, name: &PlaceName) -> Result<()> {
        let listens = self.topology.places.get(name).map(|inside| inside.listens.clone()).unwrap_or_default();
        if listens.is_empty() || self.pods.contains_key(name) {
            return Ok(());
        }
        let place = self.place(name)?;
        let open = move || listens.into_iter().map(pods::answer::listen).collect::<io::Result<Vec<_>>>();
        let (ports, called) = (place.run(open)?.with_context(|| name.to_string())?, name.to_string());
        self.pods.insert(name.clone(), Process::start(place, move || pods::answer::answer(ports, called))?);
        Ok(())
    }

    /// A node, and its pods.
    fn of_node(&self, node: &PlaceName) -> Vec<PlaceName> {
        let pods = self.topology.ports.iter().filter(|port| port.at == *node).map(|port| port.to.clone());
        core::iter::once(node.clone()).chain(pods).collect()
    }

    /// The wire of a node is gone.
    pub(crate) fn unplug(&self, node: &PlaceName) -> Result<()> {
        let (router, _, number) = self.wire(node)?;
        let pull = move || Channel::open(NETLINK_ROUTE)?.request(messages::unplug(number), 0);
        self.place(&router)?.run(pull)?.with_context(|| format!("the wire of {node}"))
    }

    /// A node that was unplugged loses its power: all its processes and pods are gone, with all but its disk.
    pub(crate) fn switch_off(&mut self, node: &PlaceName) -> Result<()> {
        let (router, ..) = self.wire(node)?;
        let names = self.of_node(node);
        let namespaces: Result<BTreeSet<PathBuf>> =
            names.iter().filter_map(|name| self.places.get(name)).map(|place| Ok(place.run(own_namespace)??)).collect();
        end_all_in(&namespaces?)?;
        for name in &names {
            self.pods.remove(name);
            self.places.remove(name);
        }
        empty(&folder(node), DISK).with_context(|| format!("the files of {node}"))?;
        self.put_cuts(&router)
    }

    /// It gets power again: as it was at the beginning, but for its disk. Its pods come up later.
    pub(crate) fn switch_on(&mut self, node: &PlaceName) -> Result<()> {
        let names = self.of_node(node);
        self.open_places(&names)?;
        self.plug(node)?;
        let (router, port, number) = self.wire(node)?;
        self.plug_all(&router, vec![(port, node.clone(), number)])?;
        self.furnish_all(&names)?;
        let no_pods: Vec<PlaceName> = vec![node.clone()];
        self.settle(&no_pods)?;
        self.put_cuts(&router)
    }

    /// The pods of a node come up.
    pub(crate) fn start_pods(&mut self, node: &PlaceName) -> Result<()> {
        self.settle(self.of_node(node).get(1..).unwrap_or_default())
    }

    /// Whether a place is there.
    pub(crate) fn is_up(&self, name: &PlaceName) -> bool {
        self.places.contains_key(name)
    }

    /// What a host keeps without power.
    pub(crate) fn disk(host: &PlaceName) -> PathBuf {
        folder(host).join(DISK)
    }

    /// Whether packets pass from one host to another, as far as cuts go.
    pub(crate) fn is_open(&self, from: HostId, to: HostId) -> bool {
        !self.closed.contains(&(from, to))
    }

    /// Packets pass from the first host of each pair to the second again, or pass no longer.
    pub(crate) fn set_open(&mut self, ways: &[(HostId, HostId)], open: bool) -> Result<()> {
        for way in ways {
            if open {
                self.closed.remove(way)
            } else {
                self.closed.insert(*way)
            };
        }
        let routers: BTreeSet<PlaceName> =
            ways.iter().filter_map(|(_, to)| cuts::router_of(&self.topology, *to)).cloned().collect();
        routers.iter().try_for_each(|router| self.put_cuts(router))
    }

    fn put_cuts(&self, router: &PlaceName) -> Result<()> {
        let script = cuts::script(&self.topology, router, |port| self.is_up(&port.to), &self.closed);
        self.nft(router, script)
    }

    pub(crate) fn place(&self, name: &PlaceName) -> Result<&Place> {
        self.places.get(name).ok_or_else(|| anyhow!("there is no {name}"))
    }

    /// Runs an nft script there.
    pub(crate) fn nft(&self, at: &PlaceName, script: String) -> Result<()> {
        self.place(at)?.run(move || scripts::nft(&script))?.with_context(|| format!("rules of {at}"))
    }

    /// A NAT box changes, and all its mappings are forgotten. Gives its outside address.
    pub(crate) fn set_nat(&mut self, at: &PlaceName, change: impl FnOnce(&mut nat::State)) -> Result<IpAddr> {
        let plan = self.topology.nat(at).ok_or_else(|| anyhow!("{at} is no NAT box"))?;
        let mut state = self.nats.get(at).copied().unwrap_or_default();
        change(&mut state);
        self.nft(at, nat::script(plan, state))?;
        let forget = || requests::forget_flows(&mut Channel::open(NETLINK_NETFILTER)?);
        self.place(at)?.run(forget)?.with_context(|| format!("flows of {at}"))?;
        let outside = state.outside(plan);
        self.nats.insert(at.clone(), state);
        let behind = self.topology.ports.iter().filter(|port| port.at == *at).map(|port| port.to.clone());
        for host in behind.filter(|host| self.is_up(host)).collect::<Vec<_>>() {
            self.tell_outside(&host)?;
        }
        Ok(outside)
    }

    /// The router of a site with a NAT box.
    pub(crate) fn router_of_site(&self, site: u8) -> Result<PlaceName> {
        let plan = self.topology.nats.iter().find(|plan| plan.site == site);
        plan.map(|plan| plan.router.clone()).ok_or_else(|| anyhow!("site {site} has no NAT box"))
    }

    /// A host knows by a name under which address it is seen from outside its site.
    fn tell_outside(&self, host: &PlaceName) -> Result<()> {
        let (router, ..) = self.wire(host)?;
        let inside = self.topology.places.get(host).into_iter().flat_map(|inside| &inside.addresses);
        let own = inside.filter(|(link, ..)| link == UPLINK).map(|(_, address, _)| *address).next();
        let state = self.nats.get(&router).copied().unwrap_or_default();
        let seen = self.topology.nat(&router).map(|plan| state.outside(plan)).or(own);
        let seen = seen.ok_or_else(|| anyhow!("{host} has no address"))?;
        fs::create_dir_all(Self::disk(host))?;
        // The file stays the same, since it is mounted.
        Ok(fs::write(Self::disk(host).join(NAMES), format!("127.0.0.1 localhost\n{seen} {OUTSIDE}\n"))?)
    }

    /// The bridge of a place, its ports, and what they lead to.
    fn plug(&self, name: &PlaceName) -> Result<()> {
        let Some(bridge) = self.topology.places.get(name).and_then(|inside| inside.bridge) else { return Ok(()) };
        self.place(name)?.run(move || Channel::open(NETLINK_ROUTE)?.request(messages::bridge(bridge), CREATE))??;
        self.plug_all(name, self.ports_of(name).collect())
    }

    /// The ports of a place with their numbers: name, where it leads to, number.
    fn ports_of(&self, name: &PlaceName) -> impl Iterator<Item = (String, PlaceName, u32)> {
        let ports = self.topology.ports.iter().filter(move |port| port.at == *name);
        ports.zip(FIRST_PORT_NUMBER..).map(|(port, number)| (port.name.clone(), port.to.clone(), number))
    }

    /// The wire of a host: the router at whose bridge it ends, and the port there.
    fn wire(&self, host: &PlaceName) -> Result<(PlaceName, String, u32)> {
        let port = self.topology.ports.iter().find(|port| port.to == *host && port.host.is_some());
        let router = port.map(|port| port.at.clone()).ok_or_else(|| anyhow!("{host} has no wire"))?;
        let found = self.ports_of(&router).find(|(_, to, _)| to == host);
        found.map(|(name, _, number)| (router, name, number)).ok_or_else(|| anyhow!("{host} has no wire"))
    }

    fn plug_all(&self, at: &PlaceName, ports: Vec<(String, PlaceName, u32)>) -> Result<()> {
        let mut opened: Vec<(String, OwnedFd, u32)> = Vec::new();
        for (port, to, number) in ports {
            opened.push((port, self.place(&to)?.namespace()?, number));
        }
        self.place(at)?.run(move || -> Result<()> {
            let mut channel = Channel::open(NETLINK_ROUTE)?;
            for (port, there, number) in opened {
                channel.request(messages::port(number, &port, &there, UPLINK), CREATE)?;
                channel.request(requests::raise_link(number), 0)?;
            }
            Ok(())
        })?
    }

    fn relay(&mut self, link: &SiteLink, chance: Rng) -> Result<Relay> {
        let mut open = |at: &PlaceName, end: &str| -> Result<Arc<SyncDevice>> {
            let name = end.to_owned();
            let (device, number) = self.place(at)?.run(move || tap(&name))??;
            self.ends.insert((at.clone(), end.to_owned()), number);
            Ok(Arc::new(device))
        };
        let [a, b] = &link.routers;
        let [to_b, to_a] = &link.ends;
        Ok(Relay::start([open(a, to_b)?, open(b, to_a)?], link.spec, chance)?)
    }

    fn wire_up(&mut self, link: &SiteLink) -> Result<()> {
        // The two ends of a wire must differ in their numbers.
        let made = u32::try_from(self.ends.len())?;
        let numbers = [FIRST_END_NUMBER + made, FIRST_END_NUMBER + made + 1];
        let ([a, b], ends, there) = (&link.routers, link.ends.clone(), self.place(&link.routers[1])?.namespace()?);
        let raise = |number: u32| Channel::open(NETLINK_ROUTE)?.request(requests::raise_link(number), 0);
        let make = move || -> Result<(), tombolo_linux::Fault> {
            let [near, far] = &ends;
            let wire = messages::wire([(numbers[0], near), (numbers[1], far)], &there);
            Channel::open(NETLINK_ROUTE)?.request(wire, CREATE)?;
            raise(numbers[0])
        };
        self.place(a)?.run(make)??;
        self.place(b)?.run(move || raise(numbers[1]))??;
        for ((at, end), number) in link.routers.iter().zip(&link.ends).zip(numbers) {
            self.ends.insert((at.clone(), end.clone()), number);
        }
        Ok(())
    }

    /// Addresses, routes, rules and whoever listens.
    fn furnish(&self, name: &PlaceName, inside: &Inside) -> Result<()> {
        if let PlaceName::Node(..) = name {
            self.tell_outside(name)?;
        }
        let number = |link: &str| match link {
            UPLINK => Some(UPLINK_NUMBER),
            _ if inside.bridge == Some(link) => Some(BRIDGE_NUMBER),
            _ => self.ends.get(&(name.clone(), link.to_owned())).copied(),
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
        let own = matches!(name, PlaceName::Node(..) | PlaceName::Api(_)).then(|| folder(name));
        let nat = self.topology.nat(name).map(|plan| nat::script(plan, nat::State::default()));
        let place = self.place(name)?;
        place.run(move || -> Result<()> {
            if let Some(folder) = own {
                own_files(&folder).context("its own files")?;
            }
            parameters(forwards, is_router)?;
            let mut channel = Channel::open(NETLINK_ROUTE)?;
            if !is_router {
                channel.request(requests::raise_link(UPLINK_NUMBER), 0)?;
            }
            wanted.into_iter().try_for_each(|request| channel.request(request, CREATE))?;
            nat.into_iter().try_for_each(|script| Ok(scripts::nft(&script)?))
        })?
    }
}

/// What a host has as `/run`, as the keeper sees it.
fn folder(host: &PlaceName) -> PathBuf {
    Path::new(HOSTS).join(host.to_string())
}

/// A host has a `/run` of its own, as cables have their sockets there, sees its own links in `/sys`, and knows the names
/// that are on its disk.
fn own_files(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder.join(DISK))?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(Some(folder), "/run", None::<&str>, MsFlags::MS_BIND, None::<&str>).context("/run")?;
    // Whoever may not mount it sees the links of the machine there, and everywhere else those of the host.
    let _ = mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), None::<&str>);
    let names = Path::new("/run").join(DISK).join(NAMES);
    if names.exists() {
        mount(Some(&names), "/etc/hosts", None::<&str>, MsFlags::MS_BIND, None::<&str>).context("/etc/hosts")?;
    }
    Ok(())
}

/// Empties a folder, but for what is called so.
fn empty(folder: &Path, but: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == but {
            continue;
        }
        if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
    }
    Ok(())
}

/// The name of the network namespace of the calling thread.
fn own_namespace() -> io::Result<PathBuf> {
    fs::read_link("/proc/thread-self/ns/net")
}

/// Kills all processes in these namespaces, and waits until they are gone.
fn end_all_in(namespaces: &BTreeSet<PathBuf>) -> Result<()> {
    loop {
        let mut last = None;
        for process in fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        {
            // Of what has ended, and is only a number still, nothing can be read.
            let inside = fs::read_link(format!("/proc/{process}/ns/net")).is_ok_and(|name| namespaces.contains(&name));
            if inside && process != i32::try_from(std::process::id()).unwrap_or_default() {
                let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
                last = Some(process);
            }
        }
        if last.is_none() {
            return Ok(());
        }
        std::thread::sleep(core::time::Duration::from_millis(1));
    }
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
