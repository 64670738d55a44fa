//! The UDP socket: datagrams of one size to one place go out together, and come in together.

use super::ready::{Wish, wait};
use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Room for datagrams that wait: 10 ms at 5 Gbit/s.
const ROOM: usize = 7 << 20;
/// Most bytes of one UDP datagram, or of several that go together.
pub const LUMP_MAX: usize = 65_507;

/// A bound socket, of both families where the host has both.
pub struct Outside {
    socket: UdpSocket,
    state: UdpSocketState,
    /// It is of IPv6, and speaks IPv4 by mapped addresses.
    is_dual: bool,
}

/// Datagrams that lie behind each other, all of `size` but the last, which may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Lump<'a> {
    /// Where they go.
    pub to: SocketAddr,
    /// All of them.
    pub bytes: &'a [u8],
    /// Bytes of each.
    pub size: usize,
}

impl Outside {
    /// Binds to a port of all addresses; 0 takes any.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn bind(port: u16, mark: u32) -> io::Result<Self> {
        let (socket, is_dual) = match bind(Domain::IPV6, SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)) {
            Ok(socket) => (socket, true),
            Err(error) if error.kind() == ErrorKind::AddrInUse => return Err(error),
            // A host without IPv6.
            Err(_) => (bind(Domain::IPV4, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))?, false),
        };
        if mark != 0 {
            setsockopt(&socket, sockopt::Mark, &mark)?;
        }
        // Without the right to more, it gets what others get.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &ROOM);
        let _ = setsockopt(&socket, sockopt::SndBufForce, &ROOM);
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        Ok(Self { socket: socket.into(), state, is_dual })
    }

    /// Marks what it sends; 0 = not.
    ///
    /// # Errors
    /// Without the right to.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        Ok(setsockopt(&self.socket, sockopt::Mark, &mark)?)
    }

    /// The port that it has.
    ///
    /// # Errors
    /// If the socket does not tell.
    pub fn port(&self) -> io::Result<u16> {
        self.socket.local_addr().map(|address| address.port())
    }

    /// How many datagrams go together at most.
    pub fn together(&self) -> usize {
        self.state.max_gso_segments().max(1)
    }

    /// Sends datagrams. What the network does not take is lost, as on any wire; waits where it cannot take more now.
    pub fn send(&self, lump: Lump<'_>) {
        let size = lump.size.max(1);
        let together = self.together().min(LUMP_MAX / size).max(1);
        for bytes in lump.bytes.chunks(size * together) {
            if self.try_send(Lump { bytes, ..lump }).is_err() && bytes.len() > size {
                // A card that cannot cut them: quinn-udp has taken note of it.
                for bytes in bytes.chunks(size) {
                    let _ = self.try_send(Lump { bytes, ..lump });
                }
            }
        }
    }

    fn try_send(&self, lump: Lump<'_>) -> io::Result<()> {
        let segment_size = (lump.bytes.len() > lump.size).then_some(lump.size);
        let destination = self.outward(lump.to);
        let transmit = Transmit { destination, ecn: None, contents: lump.bytes, segment_size, src_ip: None };
        loop {
            match self.state.try_send(UdpSockRef::from(&self.socket), &transmit) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&[(self.as_fd(), Wish::Write)], None)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Takes what has come, into `rooms`; gives how many are filled.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has come.
    pub fn receive(&self, rooms: &mut [IoSliceMut<'_>], metas: &mut [RecvMeta]) -> io::Result<usize> {
        self.state.recv(UdpSockRef::from(&self.socket), rooms, metas)
    }

    fn outward(&self, to: SocketAddr) -> SocketAddr {
        match to.ip() {
            IpAddr::V4(address) if self.is_dual => SocketAddr::new(address.to_ipv6_mapped().into(), to.port()),
            IpAddr::V4(_) | IpAddr::V6(_) => to,
        }
    }
}

impl AsFd for Outside {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An address as everybody writes it.
pub fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn bind(domain: Domain, address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if domain == Domain::IPV6 {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}
