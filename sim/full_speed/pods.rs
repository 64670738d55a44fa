//! Pods: those that serve, and those from which probes come. Each is one process on a stack of its own.
//!
//! A pod that serves answers each HTTP request on its ports, and each datagram, with the name of its node. Those that ask
//! are [`tombolo_cluster::asking`], here on simulated sockets.

use super::chronicle::Chronicle;
use super::sockets::{TcpListener, TcpStream, UdpSocket};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use tokio::io::AsyncWriteExt;
use tokio::task::spawn_local;
use tombolo_cluster::asking::{self, Net, message};
use tombolo_core::model::Protocol;

/// Longest datagram that is read.
const DATAGRAM_MAX: usize = 1500;

/// Serves on a port until the process ends.
pub(super) async fn serve(own: Ipv4Addr, port: u16, protocol: Protocol, node: Rc<str>, chronicle: Chronicle) {
    if let Err(error) = try_serve(SocketAddr::new(own.into(), port), protocol, &node).await {
        chronicle.broke(format!("a pod on {node} cannot serve {port}/{protocol}: {error}"));
    }
}

async fn try_serve(own: SocketAddr, protocol: Protocol, node: &Rc<str>) -> io::Result<()> {
    match protocol {
        Protocol::Tcp => {
            let listener = TcpListener::bind(own).await?;
            while let Ok((stream, _)) = listener.accept().await {
                spawn_local(answer_requests(stream, Rc::clone(node)));
            }
        }
        Protocol::Udp => {
            let socket = UdpSocket::bind(own).await?;
            let mut buffer = vec![0; DATAGRAM_MAX];
            while let Ok((_, from)) = socket.recv_from(&mut buffer).await {
                let _ = socket.try_send_to(node.as_bytes(), from);
            }
        }
    }
    Ok(())
}

async fn answer_requests(mut stream: TcpStream, node: Rc<str>) {
    let mut read = Vec::new();
    while let Ok(Some(_)) = message(&mut stream, &mut read).await {
        let (fill, length) = (asking::fill(), node.len());
        let answer = format!("HTTP/1.1 200 OK\r\n{fill}content-length: {length}\r\n\r\n{node}");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The simulated sockets, for those who ask.
#[derive(Debug)]
pub(super) struct Simulated;

impl Net for Simulated {
    type Stream = TcpStream;
    type Datagrams = UdpSocket;

    fn connect(to: SocketAddr) -> impl Future<Output = io::Result<TcpStream>> {
        TcpStream::connect(to)
    }

    fn bind(own: Ipv4Addr) -> impl Future<Output = io::Result<UdpSocket>> {
        UdpSocket::bind(SocketAddr::new(own.into(), 0))
    }

    fn send_to(socket: &UdpSocket, bytes: &[u8], to: SocketAddr) -> impl Future<Output = ()> {
        let _ = socket.try_send_to(bytes, to);
        core::future::ready(())
    }

    fn recv_from(socket: &UdpSocket, buffer: &mut [u8]) -> impl Future<Output = io::Result<(usize, SocketAddr)>> {
        socket.recv_from(buffer)
    }
}
