//! The words in which userspace WireGuard is spoken to: <https://www.wireguard.com/xplatform/>. `wg` speaks them too, so
//! that `wg show` works on our cables. One operation of ours besides, `status=1`, answers as `get=1` does and says more.

use crate::wireguard::{Change, PeerChange, Secret, Shared};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use std::collections::BTreeSet;
use std::fmt::{self, Display, Write};
use std::net::SocketAddr;
use std::time::Duration;
use tombolo_core::base::{Cidr, Wall};
use tombolo_core::model::CableKey;

/// What is asked for.
#[derive(Clone, PartialEq, Debug)]
pub enum Request {
    /// All about the device and its peers; with what only we tell, if that is wanted.
    Get {
        /// `status=1`.
        all: bool,
    },
    /// It is to be otherwise.
    Set(Setup),
}

/// How a device is set up otherwise. What is `None` stays.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Setup {
    /// UDP port.
    pub port: Option<u16>,
    /// Mark of what it sends outside; 0 = none.
    pub mark: Option<u32>,
    /// The rest, in order.
    pub changes: Vec<Change>,
}

/// All about a device.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct State {
    /// Its private key.
    pub secret: Option<Secret>,
    /// UDP port.
    pub port: Option<u16>,
    /// Mark of what it sends outside; 0 = none.
    pub mark: u32,
    /// Largest packet that it takes (ours).
    pub mtu: Option<u16>,
    /// Its peers.
    pub peers: Vec<PeerState>,
}

/// All about a peer.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerState {
    /// Its public key.
    pub key: CableKey,
    /// What both know besides.
    pub shared: Shared,
    /// Where it is heard, or dialled.
    pub endpoint: Option<SocketAddr>,
    /// How often it hears something from us at least, in seconds; 0 = never.
    pub keep_open_secs: u16,
    /// Its ranges.
    pub ranges: BTreeSet<Cidr>,
    /// When the last session began.
    pub handshake: Option<Wall>,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// From our last handshake's question to its answer (ours).
    pub round_trip: Option<Duration>,
}

/// A word that is not understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is not understood")]
pub struct Unknown(pub String);

fn number<T: std::str::FromStr>(value: &str) -> Option<T> {
    value.parse().ok()
}

fn key(value: &str) -> Option<[u8; 32]> {
    HEXLOWER_PERMISSIVE.decode(value.as_bytes()).ok()?.try_into().ok()
}

impl Request {
    /// Reads one, without the empty line at its end.
    ///
    /// # Errors
    /// The first line that is not understood.
    pub fn read(text: &str) -> Result<Self, Unknown> {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        match first {
            "get=1" => Ok(Self::Get { all: false }),
            "status=1" => Ok(Self::Get { all: true }),
            "set=1" => Setup::read(rest).map(Self::Set),
            _ => Err(Unknown(first.into())),
        }
    }
}

impl Setup {
    fn read(text: &str) -> Result<Self, Unknown> {
        let (mut setup, mut peer) = (Self::default(), None);
        for line in text.lines() {
            let unknown = || Unknown(line.split('=').next().unwrap_or_default().into());
            let (word, value) = line.split_once('=').ok_or_else(unknown)?;
            setup.take(&mut peer, word, value).ok_or_else(unknown)?;
        }
        setup.changes.extend(peer.map(Change::Peer));
        Ok(setup)
    }

    fn take(&mut self, peer: &mut Option<PeerChange>, word: &str, value: &str) -> Option<()> {
        match word {
            "private_key" => {
                let bytes = key(value)?;
                let secret = (bytes != [0; 32]).then(|| Secret::new(bytes));
                self.changes.push(Change::Secret(secret));
            }
            "listen_port" => self.port = Some(number(value)?),
            "fwmark" => self.mark = Some(if value.is_empty() { 0 } else { number(value)? }),
            "replace_peers" => self.changes.push((value == "true").then_some(Change::Forget)?),
            "public_key" => {
                let next = PeerChange::of(CableKey(key(value)?));
                self.changes.extend(peer.replace(next).map(Change::Peer));
            }
            _ => self.take_of_peer(peer, word, value)?,
        }
        Some(())
    }

    /// A word about the peer named last.
    fn take_of_peer(&mut self, peer: &mut Option<PeerChange>, word: &str, value: &str) -> Option<()> {
        if word == "remove" {
            self.changes.push(Change::Remove((value == "true").then(|| peer.as_ref().map(|peer| peer.key))??));
            // Whatever else is said of it makes nothing anew.
            peer.as_mut()?.only_if_there = true;
            return Some(());
        }
        let peer = peer.as_mut()?;
        match word {
            "update_only" => peer.only_if_there = value == "true",
            "preshared_key" => peer.shared = Some(Shared(key(value)?)),
            "endpoint" => peer.endpoint = Some(value.parse().ok()?),
            "persistent_keepalive_interval" => peer.keep_open_secs = Some(number(value)?),
            "replace_allowed_ips" => peer.replace_ranges = (value == "true").then_some(true)?,
            "allowed_ip" => {
                let range = value.split_once('/').and_then(|(address, length)| {
                    // As `wg` does: bits behind the prefix are cut off.
                    Cidr::holding(address.parse().ok()?, number(length)?)
                });
                peer.ranges.insert(range?);
            }
            "protocol_version" => (value == "1").then_some(())?,
            _ => return None,
        }
        Some(())
    }
}

impl Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get { all: false } => f.write_str("get=1\n\n"),
            Self::Get { all: true } => f.write_str("status=1\n\n"),
            Self::Set(setup) => write!(f, "set=1\n{setup}\n"),
        }
    }
}

impl Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.changes {
            match change {
                Change::Secret(secret) => {
                    let bytes = secret.as_ref().map_or([0; 32], Secret::bytes);
                    writeln!(f, "private_key={}", HEXLOWER.encode(&bytes))?;
                }
                Change::Forget => writeln!(f, "replace_peers=true")?,
                // A link's MTU is the link's own.
                Change::Mtu(_) | Change::Remove(_) | Change::Peer(_) => {}
            }
        }
        if let Some(port) = self.port {
            writeln!(f, "listen_port={port}")?;
        }
        if let Some(mark) = self.mark {
            writeln!(f, "fwmark={mark}")?;
        }
        for change in &self.changes {
            match change {
                Change::Remove(key) => writeln!(f, "public_key={}\nremove=true", HEXLOWER.encode(&key.0))?,
                Change::Peer(peer) => write_peer(f, peer)?,
                Change::Secret(_) | Change::Forget | Change::Mtu(_) => {}
            }
        }
        Ok(())
    }
}

fn write_peer(f: &mut fmt::Formatter<'_>, peer: &PeerChange) -> fmt::Result {
    writeln!(f, "public_key={}", HEXLOWER.encode(&peer.key.0))?;
    if peer.only_if_there {
        writeln!(f, "update_only=true")?;
    }
    if let Some(shared) = peer.shared {
        writeln!(f, "preshared_key={}", HEXLOWER.encode(&shared.0))?;
    }
    if let Some(endpoint) = peer.endpoint {
        writeln!(f, "endpoint={endpoint}")?;
    }
    if let Some(seconds) = peer.keep_open_secs {
        writeln!(f, "persistent_keepalive_interval={seconds}")?;
    }
    if peer.replace_ranges {
        writeln!(f, "replace_allowed_ips=true")?;
    }
    peer.ranges.iter().try_for_each(|range| writeln!(f, "allowed_ip={range}"))
}

impl State {
    /// As an answer; `all` with what only we tell.
    #[must_use]
    pub fn words(&self, all: bool) -> String {
        let mut words = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut words, all);
        words
    }

    fn write(&self, f: &mut String, all: bool) -> fmt::Result {
        if let Some(secret) = &self.secret {
            writeln!(f, "private_key={}", HEXLOWER.encode(&secret.bytes()))?;
        }
        if let Some(port) = self.port {
            writeln!(f, "listen_port={port}")?;
        }
        if self.mark != 0 {
            writeln!(f, "fwmark={}", self.mark)?;
        }
        if let Some(mtu) = self.mtu.filter(|_| all) {
            writeln!(f, "mtu={mtu}")?;
        }
        for peer in &self.peers {
            writeln!(f, "public_key={}", HEXLOWER.encode(&peer.key.0))?;
            writeln!(f, "preshared_key={}\nprotocol_version=1", HEXLOWER.encode(&peer.shared.0))?;
            if let Some(endpoint) = peer.endpoint {
                writeln!(f, "endpoint={endpoint}")?;
            }
            let micros = peer.handshake.map_or(0, Wall::unix_micros);
            writeln!(f, "last_handshake_time_sec={}", micros / 1_000_000)?;
            writeln!(f, "last_handshake_time_nsec={}", micros % 1_000_000 * 1_000)?;
            writeln!(f, "tx_bytes={}\nrx_bytes={}", peer.sent, peer.received)?;
            writeln!(f, "persistent_keepalive_interval={}", peer.keep_open_secs)?;
            if let Some(time) = peer.round_trip.filter(|_| all) {
                writeln!(f, "round_trip_usec={}", time.as_micros())?;
            }
            peer.ranges.iter().try_for_each(|range| writeln!(f, "allowed_ip={range}"))?;
        }
        Ok(())
    }

    /// Reads an answer, without `errno` and the empty line at its end. What others tell besides is passed over.
    ///
    /// # Errors
    /// The first line of which the value is not understood.
    pub fn read(text: &str) -> Result<Self, Unknown> {
        let mut state = Self::default();
        for line in text.lines() {
            let (word, value) = line.split_once('=').ok_or_else(|| Unknown(line.into()))?;
            state.take(word, value).ok_or_else(|| Unknown(word.into()))?;
        }
        Ok(state)
    }

    fn take(&mut self, word: &str, value: &str) -> Option<()> {
        match word {
            "private_key" => self.secret = Some(Secret::new(key(value)?)),
            "listen_port" => self.port = Some(number(value)?),
            "fwmark" => self.mark = number(value)?,
            "mtu" => self.mtu = Some(number(value)?),
            "public_key" => self.peers.push(PeerState::of(CableKey(key(value)?))),
            _ => self.peers.last_mut()?.take(word, value)?,
        }
        Some(())
    }
}

impl PeerState {
    /// One of which only its key is known.
    const fn of(key: CableKey) -> Self {
        Self {
            key,
            shared: Shared([0; 32]),
            endpoint: None,
            keep_open_secs: 0,
            ranges: BTreeSet::new(),
            handshake: None,
            sent: 0,
            received: 0,
            round_trip: None,
        }
    }

    fn take(&mut self, word: &str, value: &str) -> Option<()> {
        let add = |wall: Option<Wall>, micros: u64| {
            let micros = wall.map_or(0, Wall::unix_micros).saturating_add(micros);
            (micros > 0).then(|| Wall::from_unix_micros(micros))
        };
        match word {
            "preshared_key" => self.shared = Shared(key(value)?),
            "endpoint" => self.endpoint = Some(value.parse().ok()?),
            "persistent_keepalive_interval" => self.keep_open_secs = number(value)?,
            "allowed_ip" => {
                self.ranges.insert(value.parse().ok()?);
            }
            "last_handshake_time_sec" => {
                self.handshake = add(self.handshake, number::<u64>(value)?.checked_mul(1_000_000)?);
            }
            "last_handshake_time_nsec" => self.handshake = add(self.handshake, number::<u64>(value)? / 1_000),
            "tx_bytes" => self.sent = number(value)?,
            "rx_bytes" => self.received = number(value)?,
            "round_trip_usec" => self.round_trip = Some(Duration::from_micros(number(value)?)),
            _ => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges() -> impl Strategy<Value = BTreeSet<Cidr>> {
        let range = (any::<std::net::IpAddr>(), 0_u8..=32).prop_map(|(address, length)| Cidr::holding(address, length));
        proptest::collection::btree_set(range.prop_map(Option::unwrap), 0..4)
    }

    fn endpoint() -> impl Strategy<Value = SocketAddr> {
        any::<(std::net::IpAddr, u16)>().prop_map(|(address, port)| SocketAddr::new(address, port))
    }

    fn change() -> impl Strategy<Value = PeerChange> {
        let shared = proptest::option::of(any::<[u8; 32]>().prop_map(Shared));
        let rest = (any::<bool>(), proptest::option::of(endpoint()), proptest::option::of(any::<u16>()));
        (any::<[u8; 32]>(), any::<bool>(), shared, rest, ranges()).prop_map(
            |(key, only_if_there, shared, (replace_ranges, endpoint, keep_open_secs), ranges)| PeerChange {
                key: CableKey(key),
                only_if_there,
                shared,
                endpoint,
                keep_open_secs,
                replace_ranges,
                ranges,
            },
        )
    }

    fn peer() -> impl Strategy<Value = PeerState> {
        (change(), any::<u32>(), any::<(u64, u64)>(), proptest::option::of(any::<u32>())).prop_map(
            |(change, handshake, (sent, received), round_trip)| PeerState {
                shared: change.shared.unwrap_or_default(),
                endpoint: change.endpoint,
                keep_open_secs: change.keep_open_secs.unwrap_or(0),
                ranges: change.ranges,
                handshake: (handshake > 0).then(|| Wall::from_unix_micros(u64::from(handshake) * 999_983)),
                sent,
                received,
                round_trip: round_trip.map(|micros| Duration::from_micros(micros.into())),
                ..PeerState::of(change.key)
            },
        )
    }

    proptest! {
        #[test]
        fn a_setup_is_read_as_it_was_written(
            peers in proptest::collection::vec(change(), 0..4),
            gone in proptest::option::of(any::<[u8; 32]>()),
            port: Option<u16>, mark: Option<u32>, secret in any::<[u8; 32]>(), forget: bool,
        ) {
            let mut changes = vec![Change::Secret(Some(Secret::new(secret)))];
            changes.extend(forget.then_some(Change::Forget));
            changes.extend(peers.into_iter().map(Change::Peer));
            changes.extend(gone.map(|key| Change::Remove(CableKey(key))));
            let request = Request::Set(Setup { port, mark, changes });
            let text = request.to_string();
            let Request::Set(mut read) = Request::read(text.strip_suffix("\n\n").unwrap_or(&text)).unwrap() else { panic!() };
            // Of one that is gone, there is also that nothing of it changes if it is not there.
            if gone.is_some() {
                prop_assert!(matches!(read.changes.pop(), Some(Change::Peer(peer)) if peer.only_if_there));
            }
            prop_assert_eq!(Request::Set(read), request);
        }

        #[test]
        fn a_state_is_read_as_it_was_written(
            peers in proptest::collection::vec(peer(), 0..4),
            port: Option<u16>, mark: u32, mtu: Option<u16>, secret in any::<[u8; 32]>(),
        ) {
            let state = State { secret: Some(Secret::new(secret)), port, mark, mtu, peers };
            prop_assert_eq!(State::read(&state.words(true)).unwrap(), state);
        }

        #[test]
        fn garbage_is_refused_or_understood(text in "(set=1\n)?([a-z_]{1,12}=[0-9a-f./:]{0,70}\n){0,5}") {
            let _ = Request::read(&text);
            let _ = State::read(&text);
        }
    }

    #[test]
    fn what_is_not_understood_is_named_without_its_value() {
        let named = |text| Request::read(text).unwrap_err().0;
        assert_eq!(named("set=1\nprivate_key=abc"), "private_key");
        assert_eq!(named("set=1\nendpoint=1.2.3.4:5"), "endpoint");
        assert_eq!(named("set=1\nnonsense"), "nonsense");
        assert_eq!(named("put=1"), "put=1");
    }

    #[test]
    fn what_wg_asks_for_is_told_in_its_words_alone() {
        let state = State { mtu: Some(1420), port: Some(4511), ..State::default() };
        assert_eq!(state.words(false), "listen_port=4511\n");
        assert_eq!(state.words(true), "listen_port=4511\nmtu=1420\n");
    }
}
