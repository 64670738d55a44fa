//! What a daemon's loop holds in its hands. All calls return at once.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::sync::mpsc;
use tombolo_core::base::{ClusterId, Wall};
use tombolo_core::dns::Table;
use tombolo_core::model::{Api, Key, Kind, Write};
use tombolo_core::network::Wanted;
use tombolo_core::roles::{Event, Input, RequestId, Via};

/// Where hands put what happened. Cheap to clone; inputs of one hand keep their order.
#[derive(Clone, Debug)]
pub struct Inbox(mpsc::UnboundedSender<Input>);

impl Inbox {
    /// Puts an input there. One that comes after the loop has ended is for nobody.
    pub fn put(&self, input: Input) {
        // The only error is that the loop has ended.
        let _ = self.0.send(input);
    }
}

/// A new inbox, and the loop's end of it.
#[must_use]
pub fn inbox() -> (Inbox, mpsc::UnboundedReceiver<Input>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Inbox(sender), receiver)
}

/// Watches, reads and writes. Each request has a deadline of its own: an answer always comes.
pub trait KubeHand {
    /// Keeps these watches open from now on; steps come as [`Input::Watched`].
    fn watch(&mut self, watches: &'static [(Api, Kind)]);
    /// Reads an object; comes as [`Input::Read`].
    fn read(&mut self, id: RequestId, api: Api, key: Key);
    /// Writes an object; comes as [`Input::Written`].
    fn write(&mut self, id: RequestId, api: Api, write: Write);
}

/// Hellos. What arrives comes as [`Input::Hello`].
pub trait NetHand {
    /// Sends a hello out of one link. What cannot be sent is lost, as on any wire.
    fn send(&mut self, via: Via, to: IpAddr, bytes: Vec<u8>);
}

/// NAT discovery. What arrives comes as [`Input::Probe`], with the link that it came out of and whose seal it bears.
pub trait NatHand {
    /// Seals a datagram for `sealed` and sends it from the discovery port, out of the uplink and never into a tunnel.
    fn probe(&mut self, to: SocketAddr, sealed: Option<ClusterId>, bytes: Vec<u8>);
    /// Finds out under which address this node is seen from outside; comes as [`Input::LookedUp`].
    fn look_up(&mut self);
}

/// The node's kernel.
pub trait KernelHand {
    /// Observes, plans and applies; comes as [`Input::Applied`]. A newer one overtakes one not begun yet.
    fn apply(&mut self, wanted: Arc<Wanted>);
}

/// The DNS sockets.
pub trait ZoneHand {
    /// Answers from this table from now on.
    fn swap(&mut self, table: Arc<Table>);
}

/// Logs, metrics, traces.
pub trait Journal {
    /// Takes note.
    fn tell(&mut self, event: Event);
}

/// The host's wall clock.
pub trait WallClock {
    /// What it reads now.
    fn now(&self) -> Wall;
}

/// All hands of a daemon. One that has no use for a kind of output takes a hand that tells so.
pub struct Hands {
    /// Watches, reads, writes.
    pub kube: Box<dyn KubeHand>,
    /// Hellos.
    pub net: Box<dyn NetHand>,
    /// NAT discovery.
    pub nat: Box<dyn NatHand>,
    /// The node's network.
    pub kernel: Box<dyn KernelHand>,
    /// DNS.
    pub zone: Box<dyn ZoneHand>,
    /// Events.
    pub journal: Box<dyn Journal>,
    /// Wall clock.
    pub wall: Box<dyn WallClock>,
}

impl core::fmt::Debug for Hands {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Hands")
    }
}
