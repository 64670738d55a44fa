//! The hands of a daemon in this world: sockets for hellos and DNS, cells that the world reads for everything else.

use super::chronicle::{Chronicle, HostClock};
use super::sockets::{StackId, UdpSocket, hello_links, link_address, link_number};
use core::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::spawn_local;
use tombolo_cluster::asking::DNS_PORT;
use tombolo_core::base::Wall;
use tombolo_core::dns::{Picks, Table, respond};
use tombolo_core::network::Wanted;
use tombolo_core::paths::HELLO_PORT;
use tombolo_core::roles::{Event, Input, Note, Via};
use tombolo_scenarios::{Place, What};
use tombolo_shell::{Inbox, Journal, KernelHand, NetHand, WallClock, ZoneHand};

/// Longest message over UDP that is read.
pub(super) const MESSAGE_MAX: usize = 1500;

/// Hellos: a socket for each link.
#[derive(Debug)]
pub(super) struct Hellos(Vec<Rc<UdpSocket>>);

impl Hellos {
    /// Binds to each link of a node and puts what arrives into the inbox. To be made inside the daemon's process.
    pub(super) async fn bind(stack: StackId, inbox: &Inbox) -> std::io::Result<Self> {
        let mut sockets = Vec::new();
        for via in hello_links() {
            let own = IpAddr::V6(link_address(stack, link_number(via)));
            let socket = Rc::new(UdpSocket::bind(SocketAddr::new(own, HELLO_PORT)).await?);
            spawn_local(listen(Rc::clone(&socket), via, inbox.clone()));
            sockets.push(socket);
        }
        Ok(Self(sockets))
    }
}

async fn listen(socket: Rc<UdpSocket>, via: Via, inbox: Inbox) {
    let mut buffer = vec![0; MESSAGE_MAX];
    while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
        inbox.put(Input::Hello { via, from: from.ip(), bytes });
    }
}

impl NetHand for Hellos {
    fn send(&mut self, via: Via, to: IpAddr, bytes: Vec<u8>) {
        if let Some(socket) = self.0.get(link_number(via)) {
            // What cannot be sent is lost, as on any wire.
            let _ = socket.try_send_to(&bytes, SocketAddr::new(to, HELLO_PORT));
        }
    }
}

/// For daemons that send no hellos.
#[derive(Debug)]
pub(super) struct NoHellos(pub(super) Chronicle, pub(super) Place);

impl NetHand for NoHellos {
    fn send(&mut self, via: Via, to: IpAddr, _bytes: Vec<u8>) {
        let because = format!("this daemon has no socket to say hello to {to} ({via:?})");
        self.0.tell(self.1.clone(), What::Told(Event::Ignored { because }));
    }
}

/// The network that a daemon wants, until the world has applied it.
#[derive(Clone, Debug, Default)]
pub(super) struct WantedCell(Rc<RefCell<Option<Arc<Wanted>>>>);

impl WantedCell {
    pub(super) fn is_some(&self) -> bool {
        self.0.borrow().is_some()
    }

    pub(super) fn take(&self) -> Option<Arc<Wanted>> {
        self.0.borrow_mut().take()
    }
}

impl KernelHand for WantedCell {
    fn apply(&mut self, wanted: Arc<Wanted>) {
        *self.0.borrow_mut() = Some(wanted);
    }
}

/// The table that DNS sockets answer from.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    table: Rc<RefCell<Option<Arc<Table>>>>,
    chronicle: Chronicle,
    place: Place,
}

impl Zone {
    pub(super) fn new(chronicle: Chronicle, place: Place) -> Self {
        Self { table: Rc::default(), chronicle, place }
    }

    /// Answers on a node's address until the process ends.
    pub(super) async fn serve(self, own: Ipv4Addr, seed: u64) {
        let socket = match UdpSocket::bind(SocketAddr::new(own.into(), DNS_PORT)).await {
            Ok(socket) => socket,
            Err(error) => return self.chronicle.broke(format!("{} cannot serve DNS: {error}", self.place)),
        };
        let mut picks = Picks::new(seed);
        let mut buffer = vec![0; MESSAGE_MAX];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let table = self.table.borrow().clone();
            let query = buffer.get(..length).unwrap_or_default();
            if let Some(answer) = table.and_then(|table| respond(&table, query, &mut picks)) {
                let _ = socket.try_send_to(&answer, from);
            }
        }
    }
}

impl ZoneHand for Zone {
    fn swap(&mut self, table: Arc<Table>) {
        let what = What::from(Note::of_table(&table));
        *self.table.borrow_mut() = Some(table);
        self.chronicle.tell(self.place.clone(), what);
    }
}

/// Events become facts. The last one of a daemon that leaves is noted for the world.
#[derive(Debug)]
pub(super) struct Diary(pub(super) Chronicle, pub(super) Place, pub(super) Rc<Cell<bool>>);

impl Journal for Diary {
    fn tell(&mut self, event: Event) {
        // Nothing of the daemon is left: the world ends it.
        self.2.set(self.2.get() || event == Event::Left);
        self.0.tell(self.1.clone(), What::Told(event));
    }
}

/// The wall clock of the daemon's host.
#[derive(Debug)]
pub(super) struct HostWall(pub(super) Chronicle, pub(super) HostClock);

impl WallClock for HostWall {
    fn now(&self) -> Wall {
        self.1.get().wall(self.0.now())
    }
}
