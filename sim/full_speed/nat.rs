//! The hand of NAT discovery: a socket that is bound to the uplink, and a cell that the world reads for lookups.

use super::hands::MESSAGE_MAX;
use super::sockets::{StackId, UdpSocket, uplink_address};
use crate::world::{Layout, opened, sealed};
use core::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::spawn_local;
use tombolo_core::base::ClusterId;
use tombolo_core::nat::{Arrival, NAT_PORT};
use tombolo_core::roles::{Event, Input};
use tombolo_scenarios::{Place, What};
use tombolo_shell::{Inbox, NatHand};

/// Whether a daemon has asked for its public address.
#[derive(Clone, Debug, Default)]
pub(super) struct LookUps(Rc<Cell<bool>>);

impl LookUps {
    pub(super) fn take(&self) -> bool {
        self.0.take()
    }
}

/// See the module docs. What comes out of a tunnel never reaches its socket.
#[derive(Debug)]
pub(super) struct Discovering {
    socket: Rc<UdpSocket>,
    own: ClusterId,
    lookups: LookUps,
}

impl Discovering {
    /// Binds to the uplink of a node and puts what arrives into the inbox. To be made inside the daemon's process.
    pub(super) async fn bind(
        stack: StackId,
        (own, layout): (ClusterId, Arc<Layout>),
        lookups: LookUps,
        inbox: Inbox,
    ) -> std::io::Result<Self> {
        let address = IpAddr::V4(uplink_address(stack));
        let socket = Rc::new(UdpSocket::bind(SocketAddr::new(address, NAT_PORT)).await?);
        spawn_local(listen(Rc::clone(&socket), own.clone(), layout, inbox));
        Ok(Self { socket, own, lookups })
    }
}

async fn listen(socket: Rc<UdpSocket>, own: ClusterId, layout: Arc<Layout>, inbox: Inbox) {
    let mut buffer = vec![0; MESSAGE_MAX];
    while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
        let seal = opened(&layout, &own, &bytes);
        inbox.put(Input::Probe { arrival: Arrival::Uplink, from, seal, bytes });
    }
}

impl NatHand for Discovering {
    fn probe(&mut self, to: SocketAddr, receiver: Option<ClusterId>, bytes: Vec<u8>) {
        let bytes = sealed(&self.own, receiver.as_ref(), bytes);
        // What cannot be sent is lost, as on any wire.
        let _ = self.socket.try_send_to(&bytes, to);
    }

    fn look_up(&mut self) {
        self.lookups.0.set(true);
    }
}

/// For daemons that take no part in discovery.
#[derive(Debug)]
pub(super) struct NoDiscovery(pub(super) super::chronicle::Chronicle, pub(super) Place);

impl NoDiscovery {
    fn tell(&self, because: String) {
        self.0.tell(self.1.clone(), What::Told(Event::Ignored { because }));
    }
}

impl NatHand for NoDiscovery {
    fn probe(&mut self, to: SocketAddr, _receiver: Option<ClusterId>, _bytes: Vec<u8>) {
        self.tell(format!("this daemon has no socket to ask {to}"));
    }

    fn look_up(&mut self) {
        self.tell("this daemon has nobody to ask for its public address".into());
    }
}
