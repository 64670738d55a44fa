//! Sockets, opened.

use crate::counts::Transport;
use crate::error::Error;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SetSockOpt, SockFlag, SockType, SockaddrStorage, bind, getsockname, listen, setsockopt,
    socket, sockopt,
};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};

/// Room for what comes while a thread is not scheduled, in octets: a few thousand queries. Without privilege it is cut to
/// what `net.core.rmem_max` allows.
const RECEIVE_ROOM: usize = 4 << 20;
/// With port 0, how often a port is chosen anew that is free for UDP and not for TCP.
const CHOICES: usize = 16;

/// All sockets of one address.
pub(crate) struct Opened {
    /// Where they are: the port that was chosen, if that was left to the system.
    pub(crate) at: SocketAddr,
    /// For UDP.
    pub(crate) datagrams: Vec<OwnedFd>,
    /// For TCP.
    pub(crate) streams: TcpListener,
}

impl Opened {
    /// `sockets` for UDP and one for TCP at `at`.
    pub(crate) fn at(at: SocketAddr, sockets: usize) -> Result<Self, Error> {
        let mut choices = if at.port() == 0 { CHOICES } else { 1 };
        loop {
            choices -= 1;
            match Self::once(at, sockets) {
                Err(Error::Listen { errno: Errno::EADDRINUSE, .. }) if choices > 0 => {}
                outcome => return outcome,
            }
        }
    }

    fn once(at: SocketAddr, sockets: usize) -> Result<Self, Error> {
        let on = |transport, at| move |errno| Error::Listen { transport, at, errno };
        // The first is bound without sharing the port, and shares it afterwards: another program that has the port would
        // else take part of the queries, and nobody would know.
        let first = datagrams(at, false).map_err(on(Transport::Udp, at))?;
        let at = address(&first).map_err(on(Transport::Udp, at))?;
        setsockopt(&first, sockopt::ReusePort, &true).map_err(on(Transport::Udp, at))?;
        let more = (1..sockets).map(|_| datagrams(at, true));
        let datagrams: Result<Vec<OwnedFd>, Errno> = [Ok(first)].into_iter().chain(more).collect();
        let datagrams = datagrams.map_err(on(Transport::Udp, at))?;
        let streams = streams(at).map_err(on(Transport::Tcp, at))?;
        Ok(Self { at, datagrams, streams })
    }
}

fn datagrams(at: SocketAddr, sharing: bool) -> Result<OwnedFd, Errno> {
    let socket = open(at, SockType::Datagram)?;
    if at.ip().is_unspecified() {
        match at {
            SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
            SocketAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?,
        }
    }
    if set(&socket, sockopt::RcvBufForce, &RECEIVE_ROOM).is_err() {
        setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_ROOM)?;
    }
    setsockopt(&socket, sockopt::ReusePort, &sharing)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(at))?;
    Ok(socket)
}

fn streams(at: SocketAddr) -> Result<TcpListener, Errno> {
    let socket = open(at, SockType::Stream)?;
    // Connections of before that still close must not keep a new server from starting.
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(at))?;
    listen(&socket, Backlog::new(1024)?)?;
    Ok(TcpListener::from(socket))
}

fn open(at: SocketAddr, kind: SockType) -> Result<OwnedFd, Errno> {
    let family = if at.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
    if at.is_ipv6() {
        // IPv4 has sockets of its own: no address is two.
        setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
    }
    Ok(socket)
}

fn set<O: SetSockOpt>(socket: &OwnedFd, option: O, value: &O::Val) -> Result<(), Errno> {
    setsockopt(socket, option, value)
}

fn address(socket: &OwnedFd) -> Result<SocketAddr, Errno> {
    getsockname::<SockaddrStorage>(socket.as_raw_fd()).and_then(|name| socket_address(&name).ok_or(Errno::EAFNOSUPPORT))
}

/// The address in the kernel's words, in ours.
pub(crate) fn socket_address(name: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = name.as_sockaddr_in() {
        return Some(SocketAddr::new(IpAddr::V4(v4.ip()), v4.port()));
    }
    let v6 = name.as_sockaddr_in6()?;
    Some(SocketAddr::new(IpAddr::V6(v6.ip()), v6.port()))
}
