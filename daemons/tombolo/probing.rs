//! The hand of NAT discovery: a socket at the gateway's private address that sends over the uplink and never into a tunnel
//! (B13), the seals, and how the address is found under which the gateway is seen from outside.

use crate::datagrams::Datagrams;
use crate::errors::Error;
use crate::hellos::via;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::str::FromStr;
use tokio::task::{JoinHandle, spawn_local};
use tombolo_core::base::ClusterId;
use tombolo_core::nat::seal::{SealKey, open, seal};
use tombolo_core::nat::{Arrival, Seal};
use tombolo_core::roles::Input;
use tombolo_shell::{Inbox, NatHand};

/// The secret that the members of a clusterset share.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// From the content of its file. White space around it does not count.
    ///
    /// # Errors
    /// If there is none.
    pub fn new(content: &[u8]) -> Result<Self, &'static str> {
        let trimmed = content.trim_ascii();
        if trimmed.is_empty() { Err("it holds no secret") } else { Ok(Self(trimmed.to_vec())) }
    }

    /// The key that two clusters share: the same for both, and for no other two.
    fn key_of(&self, one: &ClusterId, other: &ClusterId) -> SealKey {
        let (first, second) = if one <= other { (one, other) } else { (other, one) };
        let parts = [self.0.as_slice(), first.as_str().as_bytes(), second.as_str().as_bytes()];
        // An id has no zero in it.
        SealKey::from_shared(&parts.join(&0))
    }
}

/// One way to find the address under which this gateway is seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Way {
    /// It is known.
    Address(IpAddr),
    /// A name has it.
    Name(String),
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (how, what) = text.split_once(':').ok_or_else(|| format!("{text:?} is none of ipv4:…, ipv6:…, dns:…"))?;
        let address = || what.parse::<IpAddr>().map_err(|_| format!("{what:?} is no address"));
        match how {
            "ipv4" => address().and_then(|a| if a.is_ipv4() { Ok(a) } else { Err(format!("{what} is not IPv4")) }),
            "ipv6" => address().and_then(|a| if a.is_ipv6() { Ok(a) } else { Err(format!("{what} is not IPv6")) }),
            "dns" if !what.is_empty() => return Ok(Self::Name(what.to_owned())),
            _ => Err(format!("{text:?} is none of ipv4:…, ipv6:…, dns:…")),
        }
        .map(Self::Address)
    }
}

/// The ways of a setting; `none` is no way at all.
///
/// # Errors
/// The first that cannot be understood.
pub fn ways(setting: &[String]) -> Result<Vec<Way>, Error> {
    let wrong = |because| Error::Setting { flag: "public-address", because };
    setting.iter().filter(|way| *way != "none").map(|way| way.parse().map_err(wrong)).collect()
}

/// See the module docs.
#[derive(Debug)]
pub struct Probing {
    socket: Option<Rc<Datagrams>>,
    own: ClusterId,
    address: IpAddr,
    secret: Option<Secret>,
    ways: Rc<[Way]>,
    inbox: Inbox,
    tasks: Vec<JoinHandle<()>>,
}

impl Probing {
    /// Listens on `port` of `address`, unless there is none, and puts what arrives into the inbox.
    ///
    /// # Errors
    /// If the port cannot be had.
    pub fn bind(
        own: ClusterId,
        (address, port): (IpAddr, Option<u16>),
        secret: Option<Secret>,
        ways: Vec<Way>,
        inbox: Inbox,
    ) -> Result<Self, Error> {
        let bound = port.map(|port| {
            let at = SocketAddr::new(address, port);
            Datagrams::bind(at).map_err(|source| Error::Socket { what: format!("UDP {at}, for NAT discovery"), source })
        });
        let socket = bound.transpose()?.map(Rc::new);
        let listening =
            socket.clone().map(|socket| spawn_local(listen(socket, own.clone(), secret.clone(), inbox.clone())));
        Ok(Self { socket, own, address, secret, ways: ways.into(), inbox, tasks: listening.into_iter().collect() })
    }
}

impl Drop for Probing {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn listen(socket: Rc<Datagrams>, own: ClusterId, secret: Option<Secret>, inbox: Inbox) {
    loop {
        // An error is about a datagram that was lost.
        let Ok(arrived) = socket.receive().await else { continue };
        let key_of = |sender: &ClusterId| secret.as_ref().map(|secret| secret.key_of(&own, sender));
        let seal: Seal = open(&arrived.bytes, key_of);
        let arrival = if via(arrived.link).is_some() { Arrival::Tunnel } else { Arrival::Uplink };
        inbox.put(Input::Probe { arrival, from: arrived.from, seal, bytes: arrived.bytes });
    }
}

/// The link that has this address.
fn link_with(address: IpAddr) -> Option<u32> {
    let mut all = getifaddrs().ok()?;
    let found = all.find(|known| {
        let storage = known.address.as_ref();
        let v4 = storage.and_then(|s| s.as_sockaddr_in()).map(|s| IpAddr::V4(s.ip()));
        let v6 = storage.and_then(|s| s.as_sockaddr_in6()).map(|s| IpAddr::V6(s.ip()));
        v4.or(v6) == Some(address)
    })?;
    if_nametoindex(found.interface_name.as_str()).ok()
}

impl NatHand for Probing {
    fn probe(&mut self, to: SocketAddr, sealed: Option<ClusterId>, bytes: Vec<u8>) {
        let key = sealed.as_ref().and_then(|to| self.secret.as_ref().map(|secret| secret.key_of(&self.own, to)));
        let bytes = match key {
            Some(key) => seal(&key, bytes),
            None => bytes,
        };
        // Without an uplink, and what cannot be sent, is lost, as on any wire.
        if let (Some(socket), Some(link)) = (&self.socket, link_with(self.address)) {
            let _ = socket.send(to, Some(link), Some(self.address), &bytes);
        }
    }

    fn look_up(&mut self) {
        let (ways, inbox, v4) = (Rc::clone(&self.ways), self.inbox.clone(), self.address.is_ipv4());
        self.tasks.retain(|task| !task.is_finished());
        self.tasks.push(spawn_local(async move { inbox.put(Input::LookedUp(look_up(&ways, v4).await)) }));
    }
}

/// The first way that works.
async fn look_up(ways: &[Way], v4: bool) -> Result<Option<IpAddr>, String> {
    let mut failures = Vec::new();
    for way in ways {
        match way {
            Way::Address(address) => return Ok(Some(*address)),
            Way::Name(name) => match tokio::net::lookup_host((name.as_str(), 0)).await {
                Ok(mut found) => match found.find(|at| at.is_ipv4() == v4) {
                    Some(at) => return Ok(Some(at.ip())),
                    None => failures.push(format!("{name} has no address of that family")),
                },
                Err(error) => failures.push(format!("{name}: {error}")),
            },
        }
    }
    if failures.is_empty() { Ok(None) } else { Err(failures.join("; ")) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn cluster(id: &str) -> ClusterId {
        ClusterId::new(id).unwrap()
    }

    #[test]
    fn two_clusters_share_one_key_and_no_other_two_have_it() {
        let secret = Secret::new(b"of all\n").unwrap();
        let key = |one: &str, other: &str| secret.key_of(&cluster(one), &cluster(other));
        assert_eq!(key("east", "west"), key("west", "east"));
        assert_ne!(key("east", "west"), key("east", "north"));
        assert_ne!(key("a", "bc"), key("ab", "c"));
        assert_ne!(key("east", "west"), Secret::new(b"another").unwrap().key_of(&cluster("east"), &cluster("west")));
        assert!(Secret::new(b" \n").is_err());
    }

    #[test]
    fn ways_are_read_and_what_is_wrong_is_told() {
        let of = |text: &[&str]| {
            ways(&text.iter().map(|way| (*way).to_owned()).collect::<Vec<_>>()).map_err(|error| error.to_string())
        };
        assert_eq!(of(&["none"]), Ok(vec![]));
        let known = Way::Address("192.0.2.1".parse().unwrap());
        assert_eq!(of(&["ipv4:192.0.2.1", "dns:gw.example"]), Ok(vec![known, Way::Name("gw.example".into())]));
        for (text, told) in [
            ("192.0.2.1", "--public-address: \"192.0.2.1\" is none of ipv4:…, ipv6:…, dns:…"),
            ("ipv4:::1", "--public-address: ::1 is not IPv4"),
            ("ipv6:x", "--public-address: \"x\" is no address"),
            ("dns:", "--public-address: \"dns:\" is none of ipv4:…, ipv6:…, dns:…"),
        ] {
            assert_eq!(of(&[text]), Err(told.to_owned()));
        }
    }

    #[tokio::test]
    async fn the_first_way_that_works_is_taken_and_failures_are_told_if_none_does() {
        let local = Way::Name("localhost".into());
        assert_eq!(look_up(&[local], true).await, Ok(Some("127.0.0.1".parse().unwrap())));
        assert_eq!(look_up(&[], true).await, Ok(None));
        let missing = Way::Name("no-such-host.invalid".into());
        assert!(look_up(&[missing], true).await.unwrap_err().starts_with("no-such-host.invalid: "));
    }

    #[test]
    fn the_link_of_an_address_is_found() {
        assert_eq!(link_with("127.0.0.1".parse().unwrap()), if_nametoindex("lo").ok());
        assert_eq!(link_with("192.0.2.77".parse().unwrap()), None);
    }
}
