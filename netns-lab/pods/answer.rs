//! A pod's servers. TCP: what begins as an HTTP request gets an HTTP response; any other line comes back behind the pod's
//! name and the caller's address as the pod sees it. UDP: so does each datagram. A connection stays open as long as its client wants.

use core::future::pending;
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::rc::Rc;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tombolo_core::model::Protocol;

/// Longest line or datagram.
const LINE_MAX: u16 = 2048;

/// A port that is open.
pub enum Listening {
    /// For connections.
    Tcp(TcpListener),
    /// For datagrams.
    Udp(UdpSocket),
}

/// Opens a port of the namespace of the calling thread.
///
/// # Errors
/// The port cannot be had.
pub fn listen((port, protocol): (u16, Protocol)) -> io::Result<Listening> {
    let at = (Ipv4Addr::UNSPECIFIED, port);
    Ok(match protocol {
        Protocol::Tcp => {
            let listener = TcpListener::bind(at)?;
            listener.set_nonblocking(true)?;
            Listening::Tcp(listener)
        }
        Protocol::Udp => {
            let socket = UdpSocket::bind(at)?;
            socket.set_nonblocking(true)?;
            Listening::Udp(socket)
        }
    })
}

/// Answers at these ports under this name, for as long as it is polled, on a set of local tasks.
pub async fn answer(ports: Vec<Listening>, name: String) {
    let name: Rc<str> = name.into();
    for port in ports {
        let name = Rc::clone(&name);
        spawn_local(async move {
            // A port without a reactor is one that nobody answers at.
            let _ = match port {
                Listening::Tcp(listener) => accept(listener, name).await,
                Listening::Udp(socket) => echo(socket, &name).await,
            };
        });
    }
    pending().await
}

async fn accept(listener: TcpListener, name: Rc<str>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        // An error is about a connection that is gone by now.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let name = Rc::clone(&name);
        spawn_local(async move {
            // Whoever hangs up has had enough.
            let _ = serve(stream, &name).await;
        });
    }
}

async fn serve(mut stream: TcpStream, name: &str) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let name = format!("{name} {}", stream.peer_addr()?);
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    loop {
        let line = line(&mut reader).await?;
        if line.is_empty() {
            return Ok(());
        }
        if !line.contains(" HTTP/1.") {
            writer.write_all(format!("{name} {}\n", line.trim_end()).as_bytes()).await?;
            continue;
        }
        while !self::line(&mut reader).await?.trim_end().is_empty() {}
        let body = format!("{name}\n");
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length:";
        writer.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
    }
}

/// The next line, or as much of it as anybody may send; empty at the end.
async fn line(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<String> {
    let mut bytes = Vec::new();
    reader.take(LINE_MAX.into()).read_until(b'\n', &mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

async fn echo(socket: UdpSocket, name: &str) -> io::Result<()> {
    let socket = tokio::net::UdpSocket::from_std(socket)?;
    let mut bytes = [0; LINE_MAX as usize];
    loop {
        // An error is the word of a router about an earlier answer.
        let Ok((length, from)) = socket.recv_from(&mut bytes).await else { continue };
        let answer =
            [name.as_bytes(), b" ", from.to_string().as_bytes(), b" ", bytes.get(..length).unwrap_or_default()]
                .concat();
        let _ = socket.send_to(&answer, from).await;
    }
}
