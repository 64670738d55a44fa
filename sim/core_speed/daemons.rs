//! Daemons: they start, take inputs, wake, and what they put out is carried out.

use super::flows::Payload;
use super::process::{Client, ProcessId, Running, Watch};
use super::roles::Start;
use super::{Class, CoreSpeed, Event};
use crate::world::HostId;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use tombolo_core::base::{Rng, Slot};
use tombolo_core::dns::{Picks, Table};
use tombolo_core::network::constants::CABLE_LINK_PREFIX;
use tombolo_core::network::{Arrival, LinkName, Packet, Transport, Wanted};
use tombolo_core::paths::HELLO_PORT;
use tombolo_core::roles::{Input, Note, Output, Via};
use tombolo_scenarios::{Daemon, What};

/// How often a daemon reads its wall clock.
const WALL_EVERY: Duration = Duration::from_secs(1);
/// What a plan takes until the kernel has it, at least and at most.
const APPLY_TIME: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(3));
/// Bytes of an IPv6 and a UDP header.
const HELLO_HEADERS: usize = 48;
/// How often a machine may want to wake at one and the same moment. Law 4 says once.
const WAKES_MAX: usize = 8;

impl CoreSpeed {
    /// A daemon's process is due to start, if nothing happened to its host meanwhile.
    pub(super) fn start_due(&mut self, id: ProcessId, power_up: u64) {
        let Some(host) = self.processes.get(id.0).map(|process| process.host) else { return };
        let apart = self.outsiders.stands_apart(&self.layout, host);
        if self.power_ups.get(host.0) == Some(&power_up) && self.fabric.has_power(host) && !apart {
            self.start_process(id);
        }
    }

    /// Starts a daemon afresh, unless it runs.
    pub(super) fn start_process(&mut self, id: ProcessId) {
        let layout = Arc::clone(&self.layout);
        let Some(process) = self.processes.get_mut(id.0).filter(|process| process.running.is_none()) else { return };
        let (host, daemon) = (process.host, process.daemon);
        let Some(node) = layout.host(host).and_then(|place| place.node.as_ref()) else { return };
        process.boot += 1;
        let boot = process.boot;
        let seed = Rng::stream(self.seed, &format!("{}/{} {daemon} {boot}", node.cluster, node.name)).bits();
        let now = self.clocks.get(host.0).map(|clock| clock.read(self.now)).unwrap_or_default();
        let start = Start { layout: &layout, settings: &self.settings, host, node, daemon, boot, seed, now };
        let machine = (self.spawn)(&start);
        let watches: Vec<Watch> = machine.watched().iter().map(|(api, kind)| Watch::new(*api, *kind)).collect();
        let count = watches.len();
        let running =
            Running { machine, wake: None, watches, pending: BTreeMap::new(), table: None, picks: Picks::new(seed) };
        if let Some(process) = self.processes.get_mut(id.0) {
            process.running = Some(running);
        }
        self.tell(self.daemon_place(id), What::Process(true));
        let client = Client { process: id, boot };
        self.wall(client);
        if self.outsiders.leaves(&node.cluster) {
            self.feed(client, Input::Leave);
        }
        for watch in 0..count {
            self.connect(client, watch);
        }
    }

    /// Kills a daemon. What it left in the kernel stays; true if it ran.
    pub(super) fn kill_process(&mut self, id: ProcessId) -> bool {
        let Some(process) = self.processes.get_mut(id.0) else { return false };
        let client = process.client(id);
        if process.running.take().is_none() {
            return false;
        }
        if let Some(desired) = self.desired.get_mut(id.0) {
            *desired = None;
        }
        for api in &mut self.apis {
            api.forget(client);
        }
        self.tell(self.daemon_place(id), What::Process(false));
        true
    }

    /// Gives a daemon its wall clock, now and then once a second.
    pub(super) fn wall(&mut self, client: Client) {
        let Some(host) = self.processes.get(client.process.0).map(|process| process.host) else { return };
        let Some(wall) = self.clocks.get(host.0).map(|clock| clock.wall(self.now)) else { return };
        if self.running(client).is_some() {
            self.feed(client, Input::Wall(wall));
            self.later(WALL_EVERY, Event::Wall(client));
        }
    }

    /// One input, and all that follows from it at once.
    pub(super) fn feed(&mut self, client: Client, input: Input) {
        let now = self.local_time(client);
        let Some(running) = self.running(client) else { return };
        running.machine.take(input, now);
        self.steps += 1;
        self.settle(client);
    }

    /// A wake-up from the queue.
    pub(super) fn wake(&mut self, client: Client) {
        let now = self.now;
        let Some(running) = self.running(client).filter(|running| running.wake == Some(now)) else { return };
        running.wake = None;
        self.settle(client);
    }

    fn local_time(&self, client: Client) -> tombolo_core::base::Instant {
        let host = self.processes.get(client.process.0).map(|process| process.host);
        host.and_then(|host| self.clocks.get(host.0)).map(|clock| clock.read(self.now)).unwrap_or_default()
    }

    /// Drains a machine, wakes it if it is due, and puts its next wake-up into the queue.
    fn settle(&mut self, client: Client) {
        let now = self.local_time(client);
        for _ in 0..WAKES_MAX {
            while let Some(output) = self.running(client).and_then(|running| running.machine.next_output()) {
                self.carry_out(client, output);
            }
            let Some(running) = self.running(client) else { return };
            match running.machine.wake_at() {
                None => return,
                Some(at) if at > now => return self.sleep_until(client, at),
                Some(_) => {
                    running.machine.wake(now);
                    self.steps += 1;
                }
            }
        }
        let place = self.daemon_place(client.process);
        self.broken = Some(format!("{place} wants to wake at {now} again and again (law 4 of machines)"));
    }

    /// Its host's clock is another: its next wake-up comes at another time.
    pub(super) fn sleep_anew(&mut self, id: ProcessId) {
        let Some(client) = self.processes.get(id.0).map(|process| process.client(id)) else { return };
        if let Some(running) = self.running(client) {
            running.wake = None;
            self.settle(client);
        }
    }

    fn sleep_until(&mut self, client: Client, at: tombolo_core::base::Instant) {
        let host = self.processes.get(client.process.0).map(|process| process.host);
        let Some(when) = host.and_then(|host| self.clocks.get(host.0)).map(|clock| clock.when(at)) else { return };
        let Some(running) = self.running(client) else { return };
        // One that stands earlier finds the machine not due and asks again.
        if running.wake.is_none_or(|wake| wake > when) {
            running.wake = Some(when);
            self.queue.push(when, Class::Timer, Event::Wake(client));
        }
    }

    fn carry_out(&mut self, client: Client, output: Output) {
        match output {
            Output::Read(id, api, key) => self.read(client, id, api, key),
            Output::Write(id, api, write) => self.write(client, id, api, write),
            Output::Send { via, to, bytes } => self.send_hello(client, via, to, bytes),
            Output::Probe { to, sealed, bytes } => self.send_probe(client, to, sealed.as_ref(), bytes),
            Output::LookUp => self.look_up(client),
            Output::Network(wanted) => self.want(client, wanted),
            Output::Dns(table) => self.swap_table(client, table),
            Output::Event(event) => {
                let is_over = event == tombolo_core::roles::Event::Left;
                self.tell(self.daemon_place(client.process), What::Told(event));
                if is_over {
                    self.kill_process(client.process);
                }
            }
        }
    }

    fn swap_table(&mut self, client: Client, table: Arc<Table>) {
        let what = What::from(Note::of_table(&table));
        if let Some(running) = self.running(client) {
            running.table = Some(table);
        }
        self.tell(self.daemon_place(client.process), what);
    }

    /// A new desired network: it replaces one that still waits.
    fn want(&mut self, client: Client, wanted: Arc<Wanted>) {
        let Some(slot) = self.desired.get_mut(client.process.0) else { return };
        if slot.replace(wanted).is_none() {
            let delay = self.chance.duration(APPLY_TIME.0, APPLY_TIME.1);
            self.later(delay, Event::Apply(client));
        }
    }

    /// The hand observes the kernel, plans and applies.
    pub(super) fn apply(&mut self, client: Client) {
        let Some(host) = self.running(client).is_some().then(|| self.processes.get(client.process.0)).flatten() else {
            return;
        };
        let host = host.host;
        let Some(wanted) = self.desired.get_mut(client.process.0).and_then(Option::take) else { return };
        let Some(kernel) = self.fabric.kernel_mut(host) else { return };
        let steps = kernel.apply(&wanted);
        let items = kernel.ours().entries().count();
        if !steps.is_empty() {
            self.tell(self.node_place(host), What::Applied { steps, items });
        }
        self.feed(client, Input::Applied(Ok(())));
    }

    /// A hello leaves on one of the node's links, if that link is there.
    fn send_hello(&mut self, client: Client, via: Via, to: IpAddr, bytes: Vec<u8>) {
        let Some(host) = self.processes.get(client.process.0).map(|process| process.host) else { return };
        let link = self.link_of(via);
        let Some(source) = self.fabric.kernel(host).and_then(|kernel| kernel.source_on(&link, to)) else {
            return;
        };
        let packet = Packet {
            source,
            destination: to,
            transport: Transport::Udp { source: HELLO_PORT, destination: HELLO_PORT },
            ttl: 64,
            length: u16::try_from(bytes.len() + HELLO_HEADERS).unwrap_or(u16::MAX),
            mss: None,
            outer: None,
        };
        self.fabric.send(self.now, host, Arrival::Local { link: Some(link) }, packet, Payload::Hello(bytes));
    }

    fn link_of(&self, via: Via) -> LinkName {
        match via {
            Via::Overlay => self.overlay.clone(),
            Via::Cable(rank) => {
                let index = usize::from(rank.get()) - 1;
                self.cables.get(index).cloned().unwrap_or_else(|| cable(rank))
            }
        }
    }

    /// A hello arrived at a host.
    pub(super) fn hello(&mut self, host: HostId, link: Option<&LinkName>, packet: &Packet, bytes: Vec<u8>) {
        let Some(id) = self.network_daemons.get(host.0).copied().flatten() else { return };
        let Transport::Udp { destination: HELLO_PORT, .. } = packet.transport else { return };
        let Some(via) = link.and_then(|link| self.fabric.kernel(host)?.via(link)) else { return };
        if let Some(client) = self.processes.get(id.0).map(|process| process.client(id)) {
            self.feed(client, Input::Hello { via, from: packet.source, bytes });
        }
    }

    /// The daemon of that kind on a host.
    pub(super) fn find_daemon(&self, host: HostId, daemon: Daemon) -> Option<ProcessId> {
        let found = self.processes.iter().position(|process| process.host == host && process.daemon == daemon);
        found.map(ProcessId)
    }
}

/// The name of the cable device for remote candidates of this rank.
pub(super) fn cable(rank: Slot) -> LinkName {
    LinkName(format!("{CABLE_LINK_PREFIX}{rank}").into())
}
