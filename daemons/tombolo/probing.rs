//! The hand of NAT discovery: a socket at the gateway's private address that sends over the uplink and never into a tunnel
//! (B13), and the seals.

use crate::datagrams::Datagrams;
use crate::errors::Error;
use crate::hellos::via;
use crate::public::Lookup;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
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

/// See the module docs.
#[derive(Debug)]
pub struct Probing {
    socket: Option<Rc<Datagrams>>,
    own: ClusterId,
    address: IpAddr,
    secret: Option<Secret>,
    lookup: Lookup,
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
        lookup: Lookup,
        inbox: Inbox,
    ) -> Result<Self, Error> {
        let bound = port.map(|port| {
            let at = SocketAddr::new(address, port);
            Datagrams::bind(at).map_err(|source| Error::Socket { what: format!("UDP {at}, for NAT discovery"), source })
        });
        let socket = bound.transpose()?.map(Rc::new);
        let listening =
            socket.clone().map(|socket| spawn_local(listen(socket, own.clone(), secret.clone(), inbox.clone())));
        Ok(Self { socket, own, address, secret, lookup, inbox, tasks: listening.into_iter().collect() })
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
        let (lookup, inbox) = (self.lookup.clone(), self.inbox.clone());
        self.tasks.retain(|task| !task.is_finished());
        self.tasks.push(spawn_local(async move { inbox.put(Input::LookedUp(lookup.find().await)) }));
    }
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
    fn the_link_of_an_address_is_found() {
        assert_eq!(link_with("127.0.0.1".parse().unwrap()), if_nametoindex("lo").ok());
        assert_eq!(link_with("192.0.2.77".parse().unwrap()), None);
    }
}
