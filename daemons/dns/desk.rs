//! From a message and who sent it to the reply, if it gets one.

use crate::counts::{Cause, Counts, Transport};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tombolo_core::base::Cidr;
use tombolo_core::dns::{Picks, Table, respond, respond_on_stream};

/// Services that answer whatever they get: two such would never stop (echo, discard, daytime, quotd, chargen, time).
const REFLECTORS: [u16; 6] = [7, 9, 13, 17, 19, 37];

/// What makes replies: core, unless a test puts something in its place.
#[derive(Clone, Copy)]
pub(crate) struct Answering {
    pub(crate) datagram: fn(&Table, &[u8], &mut Picks) -> Option<Vec<u8>>,
    pub(crate) stream: fn(&Table, &[u8], &mut Picks) -> Option<Vec<u8>>,
}

impl Default for Answering {
    fn default() -> Self {
        Self { datagram: respond, stream: respond_on_stream }
    }
}

/// Where one socket, or all connections, have their questions answered.
pub(crate) struct Desk {
    answering: Answering,
    picks: Picks,
    clients: Arc<[Cidr]>,
    counts: Arc<Counts>,
}

impl Desk {
    pub(crate) fn new(answering: Answering, clients: Arc<[Cidr]>, counts: Arc<Counts>) -> Self {
        Self { answering, picks: picks(), clients, counts }
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Whether `client` is served.
    pub(crate) fn serves(&self, client: IpAddr) -> bool {
        self.clients.is_empty() || self.clients.iter().any(|network| network.contains(client))
    }

    /// The reply to what came in a datagram.
    pub(crate) fn datagram(&mut self, table: &Table, request: &[u8], from: SocketAddr) -> Option<Vec<u8>> {
        let dropped = if is_unanswerable(from) {
            Some(Cause::Unanswerable)
        } else {
            (!self.serves(from.ip())).then_some(Cause::Stranger)
        };
        if let Some(cause) = dropped {
            self.counts.dropped(cause);
            return None;
        }
        self.reply(table, request, Transport::Udp)
    }

    /// The reply to what came on a connection.
    pub(crate) fn stream(&mut self, table: &Table, request: &[u8]) -> Option<Vec<u8>> {
        self.reply(table, request, Transport::Tcp)
    }

    fn reply(&mut self, table: &Table, request: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let respond = match transport {
            Transport::Udp => self.answering.datagram,
            Transport::Tcp => self.answering.stream,
        };
        let picks = &mut self.picks;
        // Whatever the code that answers stumbles over, it costs one question.
        let reply = catch_unwind(AssertUnwindSafe(|| respond(table, request, picks))).unwrap_or_else(|_| {
            self.counts.panicked();
            self.picks = crate::desk::picks();
            failure(request)
        });
        match &reply {
            Some(reply) => self.counts.replied(transport, reply),
            None => self.counts.dropped(Cause::NoQuestion),
        }
        reply
    }
}

/// Turns that begin elsewhere for each socket: else all of them would send the first client to the same cluster.
fn picks() -> Picks {
    Picks::new(RandomState::new().build_hasher().finish())
}

/// Whether nobody asks from there.
fn is_unanswerable(from: SocketAddr) -> bool {
    let is_nobody = match from.ip() {
        IpAddr::V4(v4) => v4.is_unspecified() || v4.is_broadcast() || v4.is_multicast(),
        IpAddr::V6(v6) => v6.is_unspecified() || v6.is_multicast(),
    };
    is_nobody || from.port() == 0 || REFLECTORS.contains(&from.port())
}

/// SERVFAIL: a header with the number, opcode and RD of the request.
fn failure(request: &[u8]) -> Option<Vec<u8>> {
    let header = request.first_chunk::<12>()?;
    let [high, low, flags, ..] = *header;
    Some(vec![high, low, flags & 0x79 | 0x80, 2, 0, 0, 0, 0, 0, 0, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Port 0 cannot be sent from here, so it is asked here.
    #[test]
    fn what_comes_from_port_0_from_a_reflector_or_from_nobody_is_unanswerable() {
        let asks = |from: &str| !is_unanswerable(from.parse().unwrap());
        for from in
            ["10.1.2.3:0", "10.1.2.3:7", "10.1.2.3:19", "[fd00::1]:37", "0.0.0.0:999", "[::]:999", "224.0.0.1:999"]
        {
            assert!(!asks(from), "{from}");
        }
        for from in ["10.1.2.3:1", "10.1.2.3:53", "[fd00::1]:40000", "127.0.0.1:1024"] {
            assert!(asks(from), "{from}");
        }
    }
}
