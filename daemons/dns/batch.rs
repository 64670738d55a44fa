//! Many datagrams in one call, in and out, with the address that each was sent to.

use crate::sockets::socket_address;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Datagrams in one call. More would let the first wait long for the last.
pub(crate) const BATCH: usize = 32;
/// Room for a request. A question with all that may come with it is a tenth; what is longer is cut, and understood no more.
const REQUEST_MAX: usize = 4096;
/// How long a reply may wait for room at the device. UDP may lose it then.
const SEND_PATIENCE_MS: u8 = 10;

/// The own address that a datagram was sent to, where the socket has more than one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The socket's only one, or it is not known.
    Only,
    V4(libc::in_addr_t),
    /// With the link, if the address means nothing without.
    V6([u8; 16], u32),
}

/// One datagram that came.
#[derive(Clone, Copy)]
struct Arrival {
    octets: usize,
    from: SockaddrStorage,
    asked: Asked,
}

/// One datagram to be sent.
pub(crate) struct Departure {
    pub(crate) bytes: Vec<u8>,
    to: SockaddrStorage,
    by: Asked,
}

/// Takes datagrams from a socket.
pub(crate) struct Receiver {
    headers: MultiHeaders<SockaddrStorage>,
    buffers: Vec<[u8; REQUEST_MAX]>,
    arrivals: Vec<Arrival>,
    room: Option<Vec<u8>>,
}

impl Receiver {
    pub(crate) fn new(at: SocketAddr) -> Self {
        let room = room(at);
        Self {
            headers: MultiHeaders::preallocate(BATCH, room.clone()),
            buffers: vec![[0; REQUEST_MAX]; BATCH],
            arrivals: Vec::with_capacity(BATCH),
            room,
        }
    }

    /// Takes what is there, at most [`BATCH`], and says how many that are. It does not wait.
    pub(crate) fn receive(&mut self, socket: &OwnedFd) -> Result<usize, Errno> {
        self.arrivals.clear();
        let mut slices: Vec<[IoSliceMut<'_>; 1]> =
            self.buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let flags = MsgFlags::MSG_DONTWAIT;
        let messages = match recvmmsg(socket.as_raw_fd(), &mut self.headers, slices.iter_mut(), flags, None) {
            Ok(messages) => messages,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(0),
            Err(errno) => return Err(errno),
        };
        for message in messages {
            let Some(from) = message.address else { continue };
            let asked = message.cmsgs().ok().and_then(|mut all| all.find_map(asked)).unwrap_or(Asked::Only);
            self.arrivals.push(Arrival { octets: message.bytes, from, asked });
        }
        if self.room.is_some() && self.arrivals.iter().any(|arrival| arrival.asked == Asked::Only) {
            // A message that came without one leaves no room for the next one's.
            self.headers = MultiHeaders::preallocate(BATCH, self.room.clone());
        }
        Ok(self.arrivals.len())
    }

    /// What `answer` makes of each datagram that was taken, addressed to its sender.
    pub(crate) fn answer<'a>(
        &'a self,
        mut answer: impl FnMut(&[u8], SocketAddr) -> Option<Vec<u8>> + 'a,
    ) -> impl Iterator<Item = Departure> + 'a {
        self.arrivals.iter().zip(&self.buffers).filter_map(move |(arrival, buffer)| {
            let from = socket_address(&arrival.from)?;
            let bytes = answer(buffer.get(..arrival.octets)?, from)?;
            Some(Departure { bytes, to: arrival.from, by: arrival.asked })
        })
    }
}

/// Room for the control message that tells which address was asked; `None` where there is only one.
fn room(at: SocketAddr) -> Option<Vec<u8>> {
    let is_one = !at.ip().is_unspecified();
    (!is_one).then(|| match at {
        SocketAddr::V4(_) => nix::cmsg_space!(libc::in_pktinfo),
        SocketAddr::V6(_) => nix::cmsg_space!(libc::in6_pktinfo),
    })
}

#[allow(clippy::wildcard_enum_match_arm, reason = "of all control messages two were asked for")]
fn asked(message: ControlMessageOwned) -> Option<Asked> {
    match message {
        // Not what stands in the packet, which may be a broadcast, but what the host takes it for.
        ControlMessageOwned::Ipv4PacketInfo(info) => Some(Asked::V4(info.ipi_spec_dst.s_addr)),
        ControlMessageOwned::Ipv6PacketInfo(info) => {
            let address = info.ipi6_addr.s6_addr;
            let is_of_a_link = matches!(address, [0xfe, 0x80..=0xbf, ..]);
            Some(Asked::V6(address, if is_of_a_link { info.ipi6_ifindex } else { 0 }))
        }
        _ => None,
    }
}

/// Sends datagrams on a socket.
pub(crate) struct Sender {
    plain: MultiHeaders<SockaddrStorage>,
    from: Option<MultiHeaders<SockaddrStorage>>,
}

impl Sender {
    pub(crate) fn new(at: SocketAddr) -> Self {
        let headers = |room| MultiHeaders::preallocate(BATCH, room);
        Self { plain: headers(None), from: room(at).map(|room| headers(Some(room))) }
    }

    /// Sends all, each from the address that was asked, and says how many the system would not take.
    pub(crate) fn send(&mut self, socket: &OwnedFd, all: &[Departure]) -> usize {
        all.chunk_by(|one, next| one.by == next.by).map(|group| self.send_from_one(socket, group)).sum()
    }

    fn send_from_one(&mut self, socket: &OwnedFd, mut group: &[Departure]) -> usize {
        let (mut lost, mut waited) = (0, false);
        while let Some(first) = group.first() {
            let done = match self.send_some(socket, group, first.by) {
                Ok(sent) => {
                    waited = false;
                    sent.max(1)
                }
                Err(Errno::EINTR) => 0,
                Err(Errno::EAGAIN) if !waited => {
                    waited = true;
                    let mut waiting = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
                    // It comes to the same whether there is room now or not.
                    let _ = poll(&mut waiting, PollTimeout::from(SEND_PATIENCE_MS));
                    0
                }
                // About the first: its receiver cannot be reached, or there is still no room.
                Err(_) => {
                    lost += 1;
                    1
                }
            };
            group = group.get(done..).unwrap_or_default();
        }
        lost
    }

    fn send_some(&mut self, socket: &OwnedFd, group: &[Departure], by: Asked) -> Result<usize, Errno> {
        let slices: Vec<[IoSlice<'_>; 1]> = group.iter().map(|one| [IoSlice::new(&one.bytes)]).collect();
        let to: Vec<Option<SockaddrStorage>> = group.iter().map(|one| Some(one.to)).collect();
        let (v4, v6) = by.info();
        let source = match by {
            Asked::Only => None,
            Asked::V4(_) => Some(ControlMessage::Ipv4PacketInfo(&v4)),
            Asked::V6(..) => Some(ControlMessage::Ipv6PacketInfo(&v6)),
        };
        let (headers, control) = match (&mut self.from, source) {
            (Some(headers), Some(source)) => (headers, vec![source]),
            (Some(_) | None, _) => (&mut self.plain, Vec::new()),
        };
        let sent = sendmmsg(socket.as_raw_fd(), headers, &slices, &to, &control, MsgFlags::MSG_DONTWAIT)?;
        Ok(sent.count())
    }
}

impl Asked {
    /// In the kernel's words.
    const fn info(self) -> (libc::in_pktinfo, libc::in6_pktinfo) {
        let (v4, (v6, link)) = match self {
            Self::Only => (0, ([0; 16], 0)),
            Self::V4(address) => (address, ([0; 16], 0)),
            Self::V6(address, link) => (0, (address, link)),
        };
        let nobody = libc::in_addr { s_addr: 0 };
        let of_v4 = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: libc::in_addr { s_addr: v4 }, ipi_addr: nobody };
        (of_v4, libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: v6 }, ipi6_ifindex: link })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    #[test]
    fn a_reply_that_the_system_will_not_send_holds_up_no_other() {
        for at in ["127.0.0.1:0", "0.0.0.0:0"] {
            let server = UdpSocket::bind(at).unwrap();
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let to = |port: u16, byte: u8| Departure {
                bytes: vec![byte],
                to: SockaddrStorage::from(SocketAddr::from(([127, 0, 0, 1], port))),
                by: Asked::Only,
            };
            let port = client.local_addr().unwrap().port();
            // Nothing can be sent to port 0; and an address that is not here cannot be sent from.
            let mut all = vec![to(0, 1), to(port, 2), to(0, 3), to(port, 4), to(port, 5), to(0, 6)];
            let mut unsendable = 3;
            if at.starts_with('0') {
                all.insert(2, Departure { by: Asked::V4(u32::from_ne_bytes([192, 0, 2, 1])), ..to(port, 7) });
                all.push(Departure { by: Asked::V4(u32::from_ne_bytes([127, 0, 0, 5])), ..to(port, 8) });
                unsendable += 1;
            }
            let sendable = all.len() - unsendable;
            assert_eq!(Sender::new(at.parse().unwrap()).send(&OwnedFd::from(server), &all), unsendable);
            let came: Vec<u8> = (0..sendable)
                .map(|_| {
                    let mut byte = [0];
                    client.recv(&mut byte).unwrap();
                    byte[0]
                })
                .collect();
            assert_eq!(came, [2, 4, 5, 8][..sendable]);
        }
    }
}
