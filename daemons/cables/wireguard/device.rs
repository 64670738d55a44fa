//! The device: its key, its peers, and what each message does to them.
//!
//! ```text
//!   Packet ──┐                ┌─> Datagram to a peer
//! Datagram ──┼──> Device ──> ─┤
//!   Change ──┘                └─> Packet for the inside
//! ```
//!
//! It is a machine (`tombolo_core::base::Machine`): its clock, its chance and its wall-clock time are given to it.
//! Whoever moves many packets does the arithmetic elsewhere, and comes here for decisions, a batch at a time:
//! [`Device::carry`] says with what to seal, [`Device::way`] with what to open, [`Device::opened`] what may pass.

use super::crypto::{Chance, Secret};
use super::guard::{Admission, Guard};
use super::handshake::{ask, hear};
use super::message::{Data, Initiation, Message, Response, STAMP};
use super::peer::{Asking, Peer, RENEW_AFTER_HEARD, Reason, Shared, Tally};
use super::ranges::{Ranges, addresses, length};
use super::session::{REJECT_AFTER_MESSAGES, Session, Way, sealed};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tombolo_core::base::{Cidr, Instant, Machine, Wall};
use tombolo_core::model::CableKey;

/// Between two questions of one peer that are answered.
const ANSWER_EVERY: Duration = Duration::from_millis(20);
/// Seconds of TAI64 at the Unix epoch.
const TAI_AT_UNIX: u64 = (1 << 62) + 10;

/// What can happen to a device.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// Something came from outside.
    Datagram {
        /// From where.
        from: SocketAddr,
        /// What.
        bytes: Vec<u8>,
    },
    /// A packet is to go out.
    Packet(Vec<u8>),
    /// It is set up otherwise.
    Change(Change),
}

/// What a device wants done.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Something goes outside.
    Datagram {
        /// Where.
        to: SocketAddr,
        /// What.
        bytes: Vec<u8>,
    },
    /// A packet has arrived.
    Packet(Vec<u8>),
}

/// How a device is set up otherwise.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// Its private key. All sessions end.
    Secret(Option<Secret>),
    /// It has this MTU inside.
    Mtu(u16),
    /// It has no peers any more.
    Forget,
    /// It has this peer no more.
    Remove(CableKey),
    /// A peer is new, or otherwise.
    Peer(PeerChange),
}

/// How a peer is set up otherwise. What is `None` stays.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerChange {
    /// Its public key.
    pub key: CableKey,
    /// It is not made if it is not there.
    pub only_if_there: bool,
    /// What both know besides.
    pub shared: Option<Shared>,
    /// Where it is dialled.
    pub endpoint: Option<SocketAddr>,
    /// How often it hears something from us at least, in seconds; 0 = never.
    pub keep_open_secs: Option<u16>,
    /// The ranges it has go before those below come.
    pub replace_ranges: bool,
    /// Ranges that it gets.
    pub ranges: BTreeSet<Cidr>,
}

impl PeerChange {
    /// No change of this peer.
    #[must_use]
    pub const fn of(key: CableKey) -> Self {
        Self {
            key,
            only_if_there: false,
            shared: None,
            endpoint: None,
            keep_open_secs: None,
            replace_ranges: false,
            ranges: BTreeSet::new(),
        }
    }
}

/// What becomes of packets for one address.
#[derive(Clone, PartialEq, Debug)]
pub enum Carry {
    /// They are sealed with this, with counters from `first` on, and go there.
    Now {
        /// What seals them.
        way: Arc<Way>,
        /// The counter of the first.
        first: u64,
        /// Where they go.
        to: SocketAddr,
    },
    /// They wait: give them to the device, as [`Input::Packet`].
    Later,
    /// They are nobody's.
    Nowhere,
}

/// A message that was opened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Opened {
    /// Its counter.
    pub counter: u64,
    /// Bytes of the message.
    pub bytes: u64,
    /// Where the packet in it comes from; `None` if it is empty.
    pub source: Option<IpAddr>,
    /// Whether it may pass: said by [`Device::opened`].
    pub passes: bool,
}

/// See the module docs.
#[derive(Clone, PartialEq, Debug)]
pub struct Device {
    chance: Chance,
    /// The wall-clock time at the origin of the device's clock.
    wall: Wall,
    own: Option<(Secret, CableKey, Guard)>,
    mtu: usize,
    peers: BTreeMap<CableKey, Peer>,
    ranges: Ranges,
    /// Our numbers of sessions and questions.
    numbers: BTreeMap<u32, CableKey>,
    outputs: VecDeque<Output>,
}

impl Device {
    /// One without key and peers. `seed` is chance that nobody else knows; `wall` the time at the origin of its clock.
    #[must_use]
    pub fn new(seed: [u8; 32], wall: Wall) -> Self {
        Self {
            chance: Chance::new(seed),
            wall,
            own: None,
            mtu: 1420,
            peers: BTreeMap::new(),
            ranges: Ranges::default(),
            numbers: BTreeMap::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Takes in fresh chance.
    pub fn stir(&mut self, fresh: &[u8; 32]) {
        self.chance.stir(fresh);
    }

    /// Its private key.
    #[must_use]
    pub fn secret(&self) -> Option<&Secret> {
        self.own.as_ref().map(|(secret, _, _)| secret)
    }

    /// Its peers.
    pub fn peers(&self) -> impl Iterator<Item = (&CableKey, &Peer)> {
        self.peers.iter()
    }

    /// The ranges of a peer.
    #[must_use]
    pub fn ranges(&self, peer: &CableKey) -> BTreeSet<Cidr> {
        self.ranges.by(peer)
    }

    /// The wall-clock time of a moment.
    #[must_use]
    pub fn wall(&self, at: Instant) -> Wall {
        self.wall + at.since_origin()
    }

    /// What becomes of `count` packets for this address, which together make `bytes` of messages.
    pub fn carry(&mut self, to: IpAddr, count: u64, bytes: u64, now: Instant) -> Carry {
        let Some(key) = self.ranges.of(to).copied() else { return Carry::Nowhere };
        let Some(peer) = self.peers.get_mut(&key) else { return Carry::Nowhere };
        let Some(endpoint) = peer.endpoint else { return Carry::Nowhere };
        let needs_session = peer.needs_session(now);
        let session = peer.session(now).map(|session| (session.sending.clone(), session.reserve(count)));
        if session.is_some() {
            peer.sent(bytes, false, now);
        }
        if needs_session && peer.asking.is_none() {
            let _ = self.ask(&key, now);
        }
        session.map_or(Carry::Later, |(way, first)| Carry::Now { way, first, to: endpoint })
    }

    /// What opens messages of the session that we know by this number.
    pub fn way(&mut self, number: u32, now: Instant) -> Option<Arc<Way>> {
        let peer = self.peers.get_mut(self.numbers.get(&number)?)?;
        peer.sessions.get(number).filter(|session| session.lives(now)).map(|session| session.receiving.clone())
    }

    /// Takes note of messages that came from there and could be opened, all of one session: says which of them may pass.
    pub fn opened(&mut self, number: u32, from: SocketAddr, messages: &mut [Opened], now: Instant) {
        messages.iter_mut().for_each(|message| message.passes = false);
        let Some(key) = self.numbers.get(&number).copied() else { return };
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let Some(session) = peer.sessions.get(number).filter(|session| session.lives(now)) else { return };
        let (mut bytes, mut is_empty, mut is_right, mut last) = (0_u64, true, false, None);
        for message in messages {
            if message.counter >= REJECT_AFTER_MESSAGES || !session.window.take(message.counter) {
                continue;
            }
            is_right = true;
            bytes = bytes.saturating_add(message.bytes);
            let Some(source) = message.source else { continue };
            is_empty = false;
            if last != Some(source) && self.ranges.of(source) != Some(&key) {
                continue;
            }
            last = Some(source);
            message.passes = true;
        }
        let renews = session.asked && session.age(now) >= RENEW_AFTER_HEARD;
        if is_right {
            peer.endpoint = Some(from);
            peer.heard(bytes, is_empty, now);
            if let Some(gone) = peer.sessions.confirm(number) {
                peer.began(now);
                self.free(gone);
                self.send_waiting(&key, now);
            }
            if renews && self.peers.get(&key).is_some_and(|peer| peer.asking.is_none()) {
                let _ = self.ask(&key, now);
            }
        }
    }

    /// Asks a peer for a session. `None` if it cannot be asked.
    fn ask(&mut self, key: &CableKey, now: Instant) -> Option<()> {
        let stamp = stamp(self.wall(now));
        let ephemeral = Secret::new(self.chance.draw());
        let (secret, _, _) = self.own.as_ref()?;
        let peer = self.peers.get_mut(key)?;
        let to = peer.endpoint?;
        let number = free_number(&self.numbers, &mut self.chance);
        let (message, asked) = ask(secret, key, number, ephemeral, stamp)?;
        let bytes = peer.seals.put(message.bytes(), now)?;
        let old = peer.asking.take().map(|asking| asking.number);
        self.numbers.insert(number, *key);
        peer.asked(Asking { number, asked, at: now }, &mut self.chance, now);
        self.free(old);
        self.outputs.push_back(Output::Datagram { to, bytes });
        Some(())
    }

    fn asked(&mut self, message: &Initiation, from: SocketAddr, now: Instant) -> Option<()> {
        let (secret, _, _) = self.own.as_ref()?;
        let heard = hear(secret, message)?;
        let key = heard.from;
        let peer = self.peers.get_mut(&key)?;
        let proved = heard.prove(secret)?;
        let in_time = peer.answered.is_none_or(|at| now.since(at) >= ANSWER_EVERY);
        (proved.stamp > peer.stamp && in_time).then_some(())?;
        peer.stamp = proved.stamp;
        let number = free_number(&self.numbers, &mut self.chance);
        let ephemeral = Secret::new(self.chance.draw());
        let (answer, keys) = proved.grant(number, message.sender, &ephemeral, &peer.shared.0)?;
        let session = Session::new(&keys, number, message.sender, false, now)?;
        let bytes = peer.seals.put(answer.bytes(), now)?;
        peer.answered = Some(now);
        peer.endpoint = Some(from);
        peer.has_keys(now);
        let gone = peer.sessions.grant(session);
        self.free(gone);
        self.numbers.insert(number, key);
        self.outputs.push_back(Output::Datagram { to: from, bytes });
        Some(())
    }

    fn granted(&mut self, message: &Response, from: SocketAddr, now: Instant) -> Option<()> {
        let (secret, _, _) = self.own.as_ref()?;
        let key = *self.numbers.get(&message.receiver)?;
        let peer = self.peers.get_mut(&key)?;
        let asking = peer.asking.as_ref().filter(|asking| asking.number == message.receiver)?;
        let keys = asking.asked.granted(secret, message, &peer.shared.0)?;
        let session = Session::new(&keys, asking.number, message.sender, true, now)?;
        peer.tally.round_trip = Some(now.since(asking.at));
        peer.endpoint = Some(from);
        // The number stays: it is the session's from now on.
        peer.stop_asking();
        peer.has_keys(now);
        peer.began(now);
        let gone = peer.sessions.granted(session);
        let is_idle = peer.waiting.is_empty();
        self.free(gone);
        if is_idle {
            // It knows by this that we have the keys.
            self.send(&key, Vec::new(), now);
        }
        self.send_waiting(&key, now);
        Some(())
    }

    fn datagram(&mut self, bytes: Vec<u8>, from: SocketAddr, now: Instant) -> Option<()> {
        let message = Message::read(&bytes)?;
        let sender = match &message {
            Message::Initiation(message) => message.sender,
            Message::Response(message) => message.sender,
            Message::CookieReply(reply) => {
                let peer = self.peers.get_mut(self.numbers.get(&reply.receiver)?)?;
                return peer.seals.learn(reply, now);
            }
            Message::Data(data) => return self.data(*data, bytes, from, now),
        };
        let (_, _, guard) = self.own.as_mut()?;
        match guard.admit(&bytes, sender, from, &mut self.chance, now) {
            Admission::Enter => {}
            Admission::Prove(reply) => {
                self.outputs.push_back(Output::Datagram { to: from, bytes: reply.bytes() });
                return None;
            }
            Admission::Drop => return None,
        }
        match message {
            Message::Initiation(message) => self.asked(&message, from, now),
            Message::Response(message) => self.granted(&message, from, now),
            Message::CookieReply(_) | Message::Data(_) => None,
        }
    }

    fn data(&mut self, head: Data, mut bytes: Vec<u8>, from: SocketAddr, now: Instant) -> Option<()> {
        let size = u64::try_from(bytes.len()).ok()?;
        let way = self.way(head.receiver, now)?;
        let packet = way.open(head.counter, &mut bytes)?;
        let length = length(packet);
        let source = length.and_then(|_| addresses(packet)).map(|(source, _)| source);
        (source.is_some() || packet.is_empty()).then_some(())?;
        let packet = packet.get(..length.unwrap_or(0))?.to_vec();
        let mut message = [Opened { counter: head.counter, bytes: size, source, passes: false }];
        self.opened(head.receiver, from, &mut message, now);
        if message.iter().all(|message| message.passes) {
            self.outputs.push_back(Output::Packet(packet));
        }
        Some(())
    }

    /// Sends something to a peer, or lets it wait for a session. What is empty does not wait.
    fn send(&mut self, key: &CableKey, packet: Vec<u8>, now: Instant) {
        let mtu = self.mtu;
        let Some(peer) = self.peers.get_mut(key) else { return };
        let needs_session = peer.needs_session(now);
        let to = peer.endpoint;
        match (peer.session(now), to) {
            (Some(session), Some(to)) => {
                let counter = session.reserve(1);
                let bytes = data_message(&session.sending, counter, &packet, mtu);
                peer.sent(u64::try_from(bytes.len()).unwrap_or(0), packet.is_empty(), now);
                self.outputs.push_back(Output::Datagram { to, bytes });
            }
            _ if packet.is_empty() => {}
            _ => peer.wait(packet),
        }
        if needs_session && self.peers.get(key).is_some_and(|peer| peer.asking.is_none()) {
            let _ = self.ask(key, now);
        }
    }

    fn send_waiting(&mut self, key: &CableKey, now: Instant) {
        let waiting = self.peers.get_mut(key).map(|peer| std::mem::take(&mut peer.waiting)).unwrap_or_default();
        waiting.into_iter().for_each(|packet| self.send(key, packet, now));
    }

    fn free(&mut self, numbers: impl IntoIterator<Item = u32>) {
        for number in numbers {
            self.numbers.remove(&number);
        }
    }

    fn change(&mut self, change: Change, now: Instant) {
        match change {
            Change::Secret(secret) => self.set_secret(secret),
            Change::Mtu(mtu) => self.mtu = usize::from(mtu),
            Change::Forget => {
                self.peers.clear();
                self.ranges = Ranges::default();
                self.numbers.clear();
            }
            Change::Remove(key) => {
                if let Some(mut peer) = self.peers.remove(&key) {
                    self.ranges.clear(&key);
                    let asking = peer.stop_asking();
                    self.free(peer.sessions.clear().into_iter().chain(asking));
                }
            }
            Change::Peer(change) => self.change_peer(change, now),
        }
    }

    fn set_secret(&mut self, secret: Option<Secret>) {
        self.own = secret.map(|secret| {
            let public = secret.public();
            (secret, public, Guard::new(&public))
        });
        let own = self.own.as_ref().map(|(_, public, _)| *public);
        // Nobody is a peer of itself.
        if let Some(own) = own.filter(|own| self.peers.remove(own).is_some()) {
            self.ranges.clear(&own);
        }
        self.numbers.clear();
        for peer in self.peers.values_mut() {
            peer.stop_asking();
            peer.sessions.clear();
        }
    }

    fn change_peer(&mut self, change: PeerChange, now: Instant) {
        let key = change.key;
        let is_own = self.own.as_ref().is_some_and(|(_, own, _)| *own == key);
        if is_own || change.only_if_there && !self.peers.contains_key(&key) {
            return;
        }
        let peer = self.peers.entry(key).or_insert_with(|| Peer::new(&key));
        if let Some(shared) = change.shared {
            peer.shared = shared;
        }
        let moves = change.endpoint.is_some_and(|endpoint| peer.endpoint != Some(endpoint));
        peer.endpoint = change.endpoint.or(peer.endpoint);
        if let Some(seconds) = change.keep_open_secs {
            peer.keep_open = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
            peer.timers.clear(Reason::KeepOpen);
        }
        if change.replace_ranges {
            self.ranges.clear(&key);
        }
        change.ranges.into_iter().for_each(|range| self.ranges.put(range, key));
        // One that is to be kept open is greeted at once, and so is one that is elsewhere now.
        if peer.keep_open.is_some() && (moves || change.keep_open_secs.is_some()) {
            if moves {
                let number = peer.stop_asking();
                self.free(number);
            }
            self.send(&key, Vec::new(), now);
        }
    }

    /// What is to be done at a deadline of a peer.
    fn due(&mut self, key: &CableKey, reason: Reason, now: Instant) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        match reason {
            Reason::AskAgain => {
                let is_mute = peer.is_mute(now);
                if is_mute {
                    peer.waiting.clear();
                    peer.timers.clear(Reason::Acknowledge);
                }
                if is_mute || peer.is_served() || self.ask(key, now).is_none() {
                    let number = self.peers.get_mut(key).and_then(Peer::stop_asking);
                    self.free(number);
                }
            }
            Reason::Unanswered => {
                if peer.asking.is_none() {
                    let _ = self.ask(key, now);
                }
            }
            Reason::Acknowledge => {
                let again = peer.take_again();
                self.send(key, Vec::new(), now);
                if let Some(peer) = self.peers.get_mut(key) {
                    peer.acknowledged(again, now);
                }
            }
            Reason::KeepOpen => {
                let interval = peer.keep_open;
                self.send(key, Vec::new(), now);
                // If nothing could be sent, it is tried again.
                if let Some((peer, interval)) = self.peers.get_mut(key).zip(interval) {
                    peer.timers.set(Reason::KeepOpen, now + interval);
                }
            }
            Reason::Forget => {
                let numbers = peer.sessions.clear();
                self.free(numbers);
            }
        }
    }

    /// What passed between us and a peer.
    #[must_use]
    pub fn tally(&self, peer: &CableKey) -> Option<Tally> {
        self.peers.get(peer).map(|peer| peer.tally)
    }
}

impl Machine for Device {
    type Input = Input;
    type Output = Output;
    type Reason = Reason;

    fn handle(&mut self, input: Input, now: Instant) {
        match input {
            // Whatever is wrong with it, nobody is told.
            Input::Datagram { from, bytes } => {
                let _ = self.datagram(bytes, from, now);
            }
            Input::Packet(packet) => {
                let to = length(&packet).and_then(|_| addresses(&packet)).map(|(_, to)| to);
                if let Some(key) = to.and_then(|to| self.ranges.of(to)).copied() {
                    self.send(&key, packet, now);
                }
            }
            Input::Change(change) => self.change(change, now),
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        self.peers.values().filter_map(|peer| peer.timers.next()).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        let due = |peer: &Peer| peer.timers.next().is_some_and(|(at, _)| at <= now);
        let keys: Vec<CableKey> = self.peers.iter().filter(|(_, peer)| due(peer)).map(|(key, _)| *key).collect();
        for key in keys {
            while let Some(reason) = self.peers.get_mut(&key).and_then(|peer| peer.timers.pop_due(now)) {
                self.due(&key, reason, now);
            }
        }
    }
}

/// A number that no session of ours has.
fn free_number(numbers: &BTreeMap<u32, CableKey>, chance: &mut Chance) -> u32 {
    loop {
        let number = chance.number();
        if !numbers.contains_key(&number) {
            return number;
        }
    }
}

/// TAI64N, in grains of 16 ms: nobody learns our clock's finer digits.
fn stamp(wall: Wall) -> [u8; STAMP] {
    let seconds = wall.unix_secs().saturating_add(TAI_AT_UNIX);
    let nanos = u32::try_from(wall.unix_micros() % 1_000_000 * 1_000).unwrap_or(0) & !0x00ff_ffff;
    let mut stamp = [0; STAMP];
    let digits = seconds.to_be_bytes().into_iter().chain(nanos.to_be_bytes());
    stamp.iter_mut().zip(digits).for_each(|(to, from)| *to = from);
    stamp
}

/// A packet as a data message.
fn data_message(way: &Way, counter: u64, packet: &[u8], mtu: usize) -> Vec<u8> {
    let mut message = vec![0; sealed(packet.len(), mtu)];
    if let Some(room) = message.get_mut(16..).and_then(|room| room.get_mut(..packet.len())) {
        room.copy_from_slice(packet);
    }
    // It is as long as it has to be.
    way.seal(counter, &mut message).unwrap_or_default();
    message
}
