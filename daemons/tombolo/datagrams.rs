//! A UDP socket that says over which link a datagram came, and sends over the link that it is told: links may come and go
//! while it stays open.

use nix::cmsg_space;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6DontFrag, Ipv6RecvPacketInfo, Ipv6V6Only};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage, bind, recvmsg,
    sendmsg, setsockopt, socket,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Longest datagram that is read; ours are shorter.
const LONGEST: usize = 2048;

/// See the module docs.
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    v6: bool,
}

/// One that came.
#[derive(Debug)]
pub struct Arrived {
    /// From where.
    pub from: SocketAddr,
    /// Number of the link.
    pub link: u32,
    /// What it says.
    pub bytes: Vec<u8>,
}

impl Datagrams {
    /// Bound here. To be made inside the runtime that reads it.
    ///
    /// # Errors
    /// Why not.
    pub fn bind(at: SocketAddr) -> io::Result<Self> {
        let family = if at.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let opened = socket(family, SockType::Datagram, flags, None)?;
        if at.is_ipv6() {
            setsockopt(&opened, Ipv6V6Only, &true)?;
            setsockopt(&opened, Ipv6RecvPacketInfo, &true)?;
            // In pieces, a long hello would get through where no packet of its length does.
            setsockopt(&opened, Ipv6DontFrag, &true)?;
        } else {
            setsockopt(&opened, Ipv4PacketInfo, &true)?;
        }
        bind(opened.as_raw_fd(), &SockaddrStorage::from(at))?;
        Ok(Self { socket: UdpSocket::from_std(opened.into())?, v6: at.is_ipv6() })
    }

    /// Waits for the next.
    ///
    /// # Errors
    /// What the socket says; it may be of an earlier datagram that nobody took.
    pub async fn receive(&self) -> io::Result<Arrived> {
        self.socket.async_io(Interest::READABLE, || receive(&self.socket)).await
    }

    /// Sends over this link, from this address or one of the link's. What cannot be sent is lost.
    ///
    /// # Errors
    /// Why it was not sent.
    pub fn send(&self, to: SocketAddr, over: Option<u32>, from: Option<IpAddr>, bytes: &[u8]) -> io::Result<()> {
        let slices = [IoSlice::new(bytes)];
        let socket = self.socket.as_raw_fd();
        let (link, flags, to) = (over.unwrap_or_default(), MsgFlags::MSG_DONTWAIT, SockaddrStorage::from(to));
        if self.v6 {
            let from = if let Some(IpAddr::V6(from)) = from { from } else { Ipv6Addr::UNSPECIFIED };
            let info = in6_pktinfo { ipi6_addr: in6_addr { s6_addr: from.octets() }, ipi6_ifindex: link };
            sendmsg(socket, &slices, &[ControlMessage::Ipv6PacketInfo(&info)], flags, Some(&to))?;
        } else {
            let from = if let Some(IpAddr::V4(from)) = from { from } else { Ipv4Addr::UNSPECIFIED };
            let address = |ip: Ipv4Addr| in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
            let info = in_pktinfo {
                ipi_ifindex: i32::try_from(link).unwrap_or_default(),
                ipi_spec_dst: address(from),
                ipi_addr: address(Ipv4Addr::UNSPECIFIED),
            };
            sendmsg(socket, &slices, &[ControlMessage::Ipv4PacketInfo(&info)], flags, Some(&to))?;
        }
        Ok(())
    }
}

fn receive(socket: &UdpSocket) -> io::Result<Arrived> {
    let mut buffer = [0; LONGEST];
    let mut room = cmsg_space!(in6_pktinfo);
    let mut slices = [IoSliceMut::new(&mut buffer)];
    let got = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut room), MsgFlags::empty())?;
    let link = got.cmsgs()?.find_map(|message| {
        if let ControlMessageOwned::Ipv4PacketInfo(info) = message {
            u32::try_from(info.ipi_ifindex).ok()
        } else if let ControlMessageOwned::Ipv6PacketInfo(info) = message {
            Some(info.ipi6_ifindex)
        } else {
            None
        }
    });
    let from = got.address.and_then(|from| {
        let v4 = from.as_sockaddr_in().map(|from| SocketAddr::from((from.ip(), from.port())));
        v4.or_else(|| from.as_sockaddr_in6().map(|from| SocketAddr::from((from.ip(), from.port()))))
    });
    let length = got.bytes;
    let (Some(from), Some(link)) = (from, link) else { return Err(io::ErrorKind::InvalidData.into()) };
    Ok(Arrived { from, link, bytes: buffer.get(..length).unwrap_or_default().to_vec() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use nix::net::if_::if_nametoindex;

    #[tokio::test]
    async fn it_says_over_which_link_a_datagram_came_and_sends_over_one() {
        let lo = if_nametoindex("lo").unwrap();
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let at: SocketAddr = at.parse().unwrap();
            let (one, other) = (std::net::UdpSocket::bind(at).unwrap(), at);
            let free = std::net::UdpSocket::bind(other).unwrap().local_addr().unwrap();
            let socket = Datagrams::bind(free).unwrap();
            one.send_to(b"question", free).unwrap();
            let arrived = socket.receive().await.unwrap();
            assert_eq!((arrived.from, arrived.link), (one.local_addr().unwrap(), lo));
            assert_eq!(arrived.bytes, b"question");
            socket.send(arrived.from, Some(lo), Some(at.ip()), b"answer").unwrap();
            let mut buffer = [0; 16];
            let (length, from) = one.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], from), (b"answer".as_slice(), free));
        }
    }

    #[tokio::test]
    async fn over_a_link_that_is_not_there_nothing_is_sent() {
        let socket = Datagrams::bind("[::1]:0".parse().unwrap()).unwrap();
        assert!(socket.send("[::1]:9".parse().unwrap(), Some(u32::MAX / 2), None, b"lost").is_err());
    }
}
