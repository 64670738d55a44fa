//! The two MACs behind each handshake message. The first shows that the sender knows whom it speaks to: all else is
//! dropped at the cost of one hash. The second shows, under load, that the sender gets what is sent to its address.

use super::crypto::{Chance, KEY, MAC, hash, mac, open_cookie, same, seal_cookie};
use super::message::CookieReply;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tombolo_core::base::{Cidr, Instant};
use tombolo_core::model::CableKey;

/// How long a cookie counts.
const COOKIE_LIFE: Duration = Duration::from_secs(120);
/// More handshake messages than this in a second are load. Each costs about 0.2 ms, and a hundred clusters of three
/// candidates that start at once are 300.
const LOAD: u32 = 500;
/// So many of them are taken from one source in a second, under load.
const FROM_ONE: u32 = 20;
/// So many sources are counted; under load the rest is dropped.
const SOURCES_MAX: usize = 4096;

fn label(label: &[u8], key: &CableKey) -> [u8; KEY] {
    hash(&[label, &key.0])
}

/// What a receiver asks of handshake messages.
#[derive(Clone, PartialEq)]
pub struct Guard {
    first: [u8; KEY],
    cookie: [u8; KEY],
    /// What cookies are made from, and since when.
    secret: Option<([u8; KEY], Instant)>,
    /// The second that is counted.
    second: Instant,
    count: u32,
    sources: BTreeMap<IpAddr, u32>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({} since {})", self.count, self.second)
    }
}

/// What is done with a handshake message.
#[derive(Clone, PartialEq, Debug)]
pub enum Admission {
    /// It is looked at.
    Enter,
    /// Its sender is asked to prove its address.
    Prove(CookieReply),
    /// Nothing.
    Drop,
}

impl Guard {
    /// Of who has this public key.
    pub fn new(own: &CableKey) -> Self {
        let (first, cookie) = (label(b"mac1----", own), label(b"cookie--", own));
        Self { first, cookie, secret: None, second: Instant::ZERO, count: 0, sources: BTreeMap::new() }
    }

    /// Looks at the MACs of a message that came from there; `sender` is its number of the session.
    pub fn admit(
        &mut self,
        bytes: &[u8],
        sender: u32,
        from: SocketAddr,
        chance: &mut Chance,
        now: Instant,
    ) -> Admission {
        let Some((rest, second)) = bytes.split_last_chunk::<MAC>() else { return Admission::Drop };
        let Some((message, first)) = rest.split_last_chunk::<MAC>() else { return Admission::Drop };
        if !mac(&self.first, message).is_some_and(|right| same(&right, first)) {
            return Admission::Drop;
        }
        if now.since(self.second) >= Duration::from_secs(1) {
            (self.second, self.count) = (now, 0);
            self.sources.clear();
        }
        self.count = self.count.saturating_add(1);
        if self.count <= LOAD {
            return Admission::Enter;
        }
        let Some(cookie) = self.cookie_for(from, chance, now) else { return Admission::Drop };
        if mac(&cookie, rest).is_some_and(|right| same(&right, second)) {
            return self.ration(from.ip());
        }
        let nonce = chance.wide_nonce();
        let sealed = seal_cookie(&self.cookie, &nonce, &cookie, first).and_then(|sealed| sealed.try_into().ok());
        sealed.map_or(Admission::Drop, |cookie| Admission::Prove(CookieReply { receiver: sender, nonce, cookie }))
    }

    fn cookie_for(&mut self, from: SocketAddr, chance: &mut Chance, now: Instant) -> Option<[u8; MAC]> {
        let secret = match self.secret {
            Some((secret, since)) if now.since(since) < COOKIE_LIFE => secret,
            Some(_) | None => {
                let secret = chance.draw();
                self.secret = Some((secret, now));
                secret
            }
        };
        let address = match from.ip() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        mac(&secret, &[&address[..], &from.port().to_be_bytes()].concat())
    }

    /// One address, or one network of IPv6, gets only so much.
    fn ration(&mut self, from: IpAddr) -> Admission {
        let length = if from.is_ipv4() { 32 } else { 64 };
        let source = Cidr::holding(from, length).map_or(from, |range| range.network());
        if self.sources.len() >= SOURCES_MAX && !self.sources.contains_key(&source) {
            return Admission::Drop;
        }
        let count = self.sources.entry(source).or_default();
        *count = count.saturating_add(1);
        if *count <= FROM_ONE { Admission::Enter } else { Admission::Drop }
    }
}

/// What a sender puts behind handshake messages to one peer.
#[derive(Clone, PartialEq)]
pub struct Seals {
    first: [u8; KEY],
    cookie_key: [u8; KEY],
    /// The last MAC sent: a cookie is sealed for it.
    last: Option<[u8; MAC]>,
    cookie: Option<([u8; MAC], Instant)>,
}

impl fmt::Debug for Seals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seals")
    }
}

impl Seals {
    /// For this peer.
    pub fn new(peer: &CableKey) -> Self {
        Self { first: label(b"mac1----", peer), cookie_key: label(b"cookie--", peer), last: None, cookie: None }
    }

    /// The message with both MACs.
    pub fn put(&mut self, mut message: Vec<u8>, now: Instant) -> Option<Vec<u8>> {
        let first = mac(&self.first, &message)?;
        message.extend(first);
        self.last = Some(first);
        let cookie = self.cookie.filter(|(_, since)| now.since(*since) < COOKIE_LIFE);
        let second = cookie.map_or(Some([0; MAC]), |(cookie, _)| mac(&cookie, &message))?;
        message.extend(second);
        Some(message)
    }

    /// Takes a cookie, if it is for the last message.
    pub fn learn(&mut self, reply: &CookieReply, now: Instant) -> Option<()> {
        let last = self.last.take()?;
        let cookie = open_cookie(&self.cookie_key, &reply.nonce, &reply.cookie, &last);
        if cookie.is_none() {
            self.last = Some(last);
        }
        self.cookie = Some((cookie?, now));
        Some(())
    }
}
