//! A pod's servers. TCP: what begins as an HTTP request gets an HTTP response; any other line comes back behind the pod's
//! name and the caller's address as the pod sees it. UDP: so does each datagram. A connection stays open as long as its client wants.

use anyhow::Result;
use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread::Builder;
use tombolo_core::model::Protocol;
use tombolo_linux::Place;

/// Longest line or datagram.
const LINE_MAX: usize = 2048;

/// Starts the servers of a pod called `name`. They end with the process.
///
/// # Errors
/// A port cannot be had.
pub fn start(place: &Place, name: &str, listens: &BTreeSet<(u16, Protocol)>) -> Result<()> {
    let (name, listens): (String, _) = (name.into(), listens.clone());
    Ok(place.run(move || listens.into_iter().try_for_each(|door| serve_at(door, &name)))??)
}

/// Serves at one port of the namespace of the calling thread, under this name.
///
/// # Errors
/// The port cannot be had.
pub fn serve_at((port, protocol): (u16, Protocol), name: &str) -> io::Result<()> {
    let name: Arc<str> = name.into();
    let thread = Builder::new().name("answers".into());
    let at = (Ipv4Addr::UNSPECIFIED, port);
    match protocol {
        Protocol::Tcp => {
            let listener = TcpListener::bind(at)?;
            thread.spawn(move || accept(&listener, &name)).map(drop)
        }
        Protocol::Udp => {
            let socket = UdpSocket::bind(at)?;
            thread.spawn(move || echo(&socket, &name)).map(drop)
        }
    }
}

fn accept(listener: &TcpListener, name: &Arc<str>) {
    for stream in listener.incoming().flatten() {
        let name = name.clone();
        let work = move || {
            // Whoever hangs up has had enough.
            let _ = serve(&stream, &name);
        };
        // No thread for it: it is hung up on.
        let _ = Builder::new().name("answers".into()).spawn(work);
    }
}

fn serve(stream: &TcpStream, name: &str) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let name = format!("{name} {}", stream.peer_addr()?);
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let line = line(&mut reader)?;
        if line.is_empty() {
            return Ok(());
        }
        if !line.contains(" HTTP/1.") {
            writer.write_all(format!("{name} {}\n", line.trim_end()).as_bytes())?;
            continue;
        }
        while !self::line(&mut reader)?.trim_end().is_empty() {}
        let body = format!("{name}\n");
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length:";
        writer.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes())?;
    }
}

/// The next line, or as much of it as anybody may send; empty at the end.
fn line(reader: &mut BufReader<&TcpStream>) -> io::Result<String> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(LINE_MAX).unwrap_or(u64::MAX);
    io::Read::take(reader, limit).read_until(b'\n', &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn echo(socket: &UdpSocket, name: &str) {
    let mut bytes = [0; LINE_MAX];
    loop {
        // An error is the word of a router about an earlier answer.
        let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
        let answer =
            [name.as_bytes(), b" ", from.to_string().as_bytes(), b" ", bytes.get(..length).unwrap_or_default()]
                .concat();
        let _ = socket.send_to(&answer, from);
    }
}
