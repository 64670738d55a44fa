//! The seam for cables: who makes their devices and knows their peers. The rest of such a link (alias, MTU, addresses,
//! routes, filters) is kept here as for any link.

use std::collections::BTreeMap;
use tombolo_core::network::{Link, LinkName, Peer, PeerId};

/// Makes cable devices and their peers. Errors say what failed, in a few words.
pub trait Cables: Send {
    /// Makes the device. It comes without alias and addresses, and down.
    ///
    /// # Errors
    /// Why there is no such device.
    fn make(&mut self, name: &LinkName, link: &Link) -> Result<(), String>;

    /// Whether a device of this name is there that was made here. Whoever made it may have ended before it was claimed.
    fn made(&mut self, _: &LinkName) -> bool {
        false
    }

    /// Gives a device that is there another key, port or rank.
    ///
    /// # Errors
    /// Why it is as it was.
    fn change(&mut self, name: &LinkName, link: &Link) -> Result<(), String>;

    /// Removes the device. One that is gone already is no error.
    ///
    /// # Errors
    /// Why it is still there.
    fn remove(&mut self, name: &LinkName) -> Result<(), String>;

    /// All peers of all devices there.
    ///
    /// # Errors
    /// Why they are not known.
    fn peers(&mut self) -> Result<BTreeMap<PeerId, Peer>, String>;

    /// Adds a peer, or gives one that is there this endpoint and these ranges.
    ///
    /// # Errors
    /// Why it is as it was.
    fn put_peer(&mut self, id: &PeerId, peer: &Peer) -> Result<(), String>;

    /// Removes a peer. One that is gone already is no error.
    ///
    /// # Errors
    /// Why it is still there.
    fn remove_peer(&mut self, id: &PeerId) -> Result<(), String>;
}

/// For nodes that never have a cable: each request for one fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCables;

impl NoCables {
    fn refuse(name: &LinkName) -> Result<(), String> {
        Err(format!("nothing here makes cables, and {name} is one"))
    }
}

impl Cables for NoCables {
    fn make(&mut self, name: &LinkName, _: &Link) -> Result<(), String> {
        Self::refuse(name)
    }

    fn change(&mut self, name: &LinkName, _: &Link) -> Result<(), String> {
        Self::refuse(name)
    }

    fn remove(&mut self, name: &LinkName) -> Result<(), String> {
        Self::refuse(name)
    }

    fn peers(&mut self) -> Result<BTreeMap<PeerId, Peer>, String> {
        Ok(BTreeMap::new())
    }

    fn put_peer(&mut self, id: &PeerId, _: &Peer) -> Result<(), String> {
        Self::refuse(&id.link)
    }

    fn remove_peer(&mut self, id: &PeerId) -> Result<(), String> {
        Self::refuse(&id.link)
    }
}
