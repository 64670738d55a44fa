//! The hand of hellos: one socket for all links of ours, since links come and go.

use crate::datagrams::Datagrams;
use crate::errors::Error;
use nix::net::if_::{if_indextoname, if_nametoindex};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use tokio::task::{JoinHandle, spawn_local};
use tombolo_core::base::Slot;
use tombolo_core::network::constants::{CABLE_LINK_PREFIX, OVERLAY_LINK};
use tombolo_core::paths::HELLO_PORT;
use tombolo_core::roles::{Input, Via};
use tombolo_shell::{Inbox, NetHand};

/// See the module docs. What comes over another link than ours is nobody's.
#[derive(Debug)]
pub struct Hellos {
    socket: Rc<Datagrams>,
    listening: JoinHandle<()>,
}

impl Hellos {
    /// Listens, and puts what arrives into the inbox.
    ///
    /// # Errors
    /// If the port cannot be had.
    pub fn bind(inbox: Inbox) -> Result<Self, Error> {
        let at = SocketAddr::from((Ipv6Addr::UNSPECIFIED, HELLO_PORT));
        let socket = Datagrams::bind(at)
            .map_err(|source| Error::Socket { what: format!("UDP port {HELLO_PORT}, for hellos"), source })?;
        let socket = Rc::new(socket);
        Ok(Self { listening: spawn_local(listen(Rc::clone(&socket), inbox)), socket })
    }
}

impl Drop for Hellos {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(socket: Rc<Datagrams>, inbox: Inbox) {
    loop {
        // An error is about a datagram that was lost.
        let Ok(arrived) = socket.receive().await else { continue };
        if let Some(via) = via(arrived.link) {
            inbox.put(Input::Hello { via, from: arrived.from.ip(), bytes: arrived.bytes });
        }
    }
}

/// Which of our links this is, if it is one.
pub fn via(link: u32) -> Option<Via> {
    let name = if_indextoname(link).ok()?;
    let name = name.to_str().ok()?;
    if name == OVERLAY_LINK {
        return Some(Via::Overlay);
    }
    let rank: u8 = name.strip_prefix(CABLE_LINK_PREFIX)?.parse().ok()?;
    Slot::try_from(rank).ok().map(Via::Cable)
}

fn link_of(via: Via) -> String {
    match via {
        Via::Overlay => OVERLAY_LINK.to_owned(),
        Via::Cable(rank) => format!("{CABLE_LINK_PREFIX}{rank}"),
    }
}

impl NetHand for Hellos {
    fn send(&mut self, via: Via, to: IpAddr, bytes: Vec<u8>) {
        // What cannot be sent is lost, as on any wire.
        if let Ok(link) = if_nametoindex(link_of(via).as_str()) {
            let _ = self.socket.send(SocketAddr::new(to, HELLO_PORT), Some(link), None, &bytes);
        }
    }
}
