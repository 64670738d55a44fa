//! What carries cables, one after another kind: whatever a [`Link`] asks for, the driver that can does.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use tombolo_core::model::{CableDriver, CableKey};
use tombolo_core::network::{Link, LinkKind, LinkName, Peer, PeerId};
use tombolo_linux::Cables;

/// A way to make cables. All it says of links and peers concerns its own alone. What it asks may be a process, a daemon
/// or the kernel: an answer always comes, or an error.
pub trait Driver: Cables {
    /// Which of the cables that a network may have it makes.
    fn kind(&self) -> CableDriver;

    /// How its cables are.
    ///
    /// # Errors
    /// Why it cannot be told.
    fn status(&mut self) -> Result<Vec<Status>, String>;
}

/// How a cable is.
#[derive(Clone, PartialEq, Debug)]
pub struct Status {
    /// Its link.
    pub link: LinkName,
    /// What carries it, in a word or two.
    pub driver: &'static str,
    /// Whether nobody on the way can read what it carries.
    pub is_encrypted: bool,
    /// Largest packet that it takes, in bytes.
    pub mtu: Option<u16>,
    /// Its peers.
    pub peers: Vec<PeerStatus>,
}

/// How a cable's peer is.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerStatus {
    /// Who it is.
    pub key: CableKey,
    /// Where it is dialled or heard.
    pub endpoint: Option<SocketAddr>,
    /// How old the keys are that both have agreed on, if they have.
    pub handshake_age: Option<Duration>,
    /// From our last handshake's question to its answer.
    pub round_trip: Option<Duration>,
    /// Bytes sent to it, with what the cable puts around them; `None` where they are not counted for each peer.
    pub sent_bytes: Option<u64>,
    /// Bytes received from it.
    pub received_bytes: Option<u64>,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sealed = if self.is_encrypted { "encrypted" } else { "NOT encrypted" };
        write!(f, "{}  {}, {sealed}", self.link, self.driver)?;
        if let Some(mtu) = self.mtu {
            write!(f, ", mtu {mtu}")?;
        }
        for peer in &self.peers {
            write!(f, "\n  {}", peer.key)?;
            match peer.endpoint {
                Some(endpoint) => write!(f, "  {endpoint}")?,
                None => write!(f, "  nowhere")?,
            }
            match peer.handshake_age {
                Some(age) => write!(f, "  handshake {} s ago", age.as_secs())?,
                None if self.is_encrypted => write!(f, "  no handshake yet")?,
                None => {}
            }
            if let Some(time) = peer.round_trip {
                write!(f, "  rtt {:.1} ms", time.as_secs_f64() * 1e3)?;
            }
            if let Some((sent, received)) = peer.sent_bytes.zip(peer.received_bytes) {
                write!(f, "  sent {sent} B  received {received} B")?;
            }
        }
        Ok(())
    }
}

/// All drivers of a node. A link that gets another driver is made anew by it (`tombolo_linux`), while others carry on.
pub struct Drivers(Vec<Box<dyn Driver>>);

impl Drivers {
    /// These; of two of one kind, the first makes what is made anew.
    #[must_use]
    pub const fn of(drivers: Vec<Box<dyn Driver>>) -> Self {
        Self(drivers)
    }

    /// How all cables are.
    ///
    /// # Errors
    /// The first that cannot be told.
    pub fn status(&mut self) -> Result<Vec<Status>, String> {
        let all: Result<Vec<_>, _> = self.0.iter_mut().map(|driver| driver.status()).collect();
        all.map(|all| all.into_iter().flatten().collect())
    }

    fn making(&mut self, name: &LinkName, link: &Link) -> Result<&mut Box<dyn Driver>, String> {
        let LinkKind::Cable { driver: kind, .. } = link.kind else { return Err(format!("{name} is no cable")) };
        let driver = self.0.iter_mut().find(|driver| driver.kind() == kind);
        driver.ok_or_else(|| format!("nothing here makes cables of {kind}"))
    }

    /// The one that has made this link.
    fn having(&mut self, name: &LinkName) -> Result<&mut Box<dyn Driver>, String> {
        self.0
            .iter_mut()
            .find_map(|driver| driver.made(name).then_some(driver))
            .ok_or_else(|| format!("there is no cable {name}"))
    }
}

impl Cables for Drivers {
    fn make(&mut self, name: &LinkName, link: &Link) -> Result<(), String> {
        self.making(name, link)?.make(name, link)
    }

    fn made(&mut self, name: &LinkName) -> bool {
        self.0.iter_mut().any(|driver| driver.made(name))
    }

    fn change(&mut self, name: &LinkName, link: &Link) -> Result<(), String> {
        self.having(name)?.change(name, link)
    }

    fn remove(&mut self, name: &LinkName) -> Result<(), String> {
        let mut all = self.0.iter_mut().filter_map(|driver| driver.made(name).then_some(driver));
        all.try_for_each(|driver| driver.remove(name))
    }

    fn peers(&mut self) -> Result<BTreeMap<PeerId, Peer>, String> {
        let all: Result<Vec<_>, _> = self.0.iter_mut().map(|driver| driver.peers()).collect();
        all.map(|all| all.into_iter().flatten().collect())
    }

    fn put_peer(&mut self, id: &PeerId, peer: &Peer) -> Result<(), String> {
        self.having(&id.link)?.put_peer(id, peer)
    }

    fn remove_peer(&mut self, id: &PeerId) -> Result<(), String> {
        // A link that is gone has taken its peers along.
        if self.made(&id.link) { self.having(&id.link)?.remove_peer(id) } else { Ok(()) }
    }
}
