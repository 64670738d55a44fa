//! The rules of the DNS RFCs (`core/RULES.md`, mcs-dns 3.3), asked on real sockets: of both transports, both families.

mod addresses;
mod garbage;
mod hand;
mod headers;
mod messages;
mod sizes;
mod starting;
mod streams;
mod swap;
mod table;

use crate::desk::Answering;
use crate::{Server, Settings, Transport, Zone};
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{DNSClass, Name, RecordType};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tombolo_core::dns::Table;

const WEB: &str = "web.shop.svc.clusterset.local";
const DB: &str = "db.shop.svc.clusterset.local";
const CROWD: &str = "crowd.shop.svc.clusterset.local";
/// Of no service.
const API: &str = "api.shop.svc.clusterset.local";

/// Long enough for any reply on a busy machine. Nobody waits so long but a test that fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server on loopback.
struct Bed {
    server: Server,
    zone: Zone,
}

/// How and where something is asked.
type Way = (Transport, SocketAddr);

/// Whether this host has IPv6, at least to itself.
fn has_v6() -> bool {
    UdpSocket::bind("[::1]:0").is_ok()
}

fn loopback() -> Vec<SocketAddr> {
    let v6 = has_v6().then_some("[::1]:0");
    if v6.is_none() {
        println!("SKIPPED: IPv6, which this host has not");
    }
    ["127.0.0.1:0"].into_iter().chain(v6).map(|at| at.parse().unwrap()).collect()
}

fn settings(listen: Vec<SocketAddr>) -> Settings {
    Settings { sockets: NonZeroUsize::new(2).unwrap(), ..Settings::at(listen) }
}

/// One that serves the [`table`] at loopback.
fn bed() -> Bed {
    bed_with(&settings(loopback()), table::table())
}

fn bed_with(settings: &Settings, table: Table) -> Bed {
    let (server, zone) = Server::start(settings, Arc::new(table)).unwrap();
    Bed { server, zone }
}

impl Bed {
    /// One in which something else makes the replies.
    fn answering(answering: Answering) -> Self {
        let (server, zone) = Server::answering(&settings(loopback()), Arc::new(table::table()), answering).unwrap();
        Self { server, zone }
    }

    fn at(&self) -> SocketAddr {
        self.server.addresses()[0]
    }

    fn ways(&self) -> Vec<Way> {
        let both = |at: &SocketAddr| [(Transport::Udp, *at), (Transport::Tcp, *at)];
        self.server.addresses().iter().flat_map(both).collect()
    }

    /// The reply to `request`, which is the same by all ways.
    fn reply(&self, request: &[u8]) -> Vec<u8> {
        let mut replies = self.ways().into_iter().map(|way| Asker::new(way).ask(request));
        let first = replies.next().unwrap();
        replies.for_each(|reply| assert_eq!(reply, first));
        first
    }

    fn read(&self, request: &[u8]) -> Message {
        Message::from_vec(&self.reply(request)).unwrap()
    }

    /// That there is no reply to `request` by any way: the next question is answered, and nothing before.
    fn drops(&self, request: &[u8]) {
        for way in self.ways() {
            let mut asker = Asker::new(way);
            asker.send(request);
            let reply = asker.ask(&ask(WEB, RecordType::A, |message| message.metadata.id = 99));
            assert_eq!(reply[..2], [0, 99], "{way:?}");
        }
    }
}

/// Somebody with a socket.
enum Asker {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Asker {
    fn new((transport, at): Way) -> Self {
        match transport {
            Transport::Udp => {
                let own: IpAddr = if at.is_ipv4() { "127.0.0.1".parse().unwrap() } else { "::1".parse().unwrap() };
                Self::udp(UdpSocket::bind((own, 0)).unwrap(), at)
            }
            Transport::Tcp => {
                let stream = TcpStream::connect(at).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                Self::Tcp(stream)
            }
        }
    }

    /// A connected socket: it hears nothing but what comes from where it asked.
    fn udp(socket: UdpSocket, at: SocketAddr) -> Self {
        socket.connect(at).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::Udp(socket)
    }

    fn send(&mut self, request: &[u8]) {
        match self {
            Self::Udp(socket) => assert_eq!(socket.send(request).unwrap(), request.len()),
            Self::Tcp(stream) => stream.write_all(&framed(request)).unwrap(),
        }
    }

    fn receive(&mut self) -> Vec<u8> {
        match self {
            Self::Udp(socket) => {
                let mut buffer = vec![0; 65_535];
                let octets = socket.recv(&mut buffer).unwrap();
                buffer.truncate(octets);
                buffer
            }
            Self::Tcp(stream) => message(stream).unwrap(),
        }
    }

    fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.send(request);
        self.receive()
    }
}

/// `request` with its length before it.
fn framed(request: &[u8]) -> Vec<u8> {
    [&u16::try_from(request.len()).unwrap().to_be_bytes()[..], request].concat()
}

/// The next message on a connection.
fn message(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message)?;
    Ok(message)
}

/// A question, changed.
fn ask(name: &str, kind: RecordType, change: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    let mut name = Name::from_ascii(name).unwrap();
    name.set_fqdn(true);
    message.add_query(Query::query(name, kind));
    change(&mut message);
    message.to_vec().unwrap()
}

fn plain(name: &str, kind: RecordType) -> Vec<u8> {
    ask(name, kind, |_| ())
}

/// With an OPT, changed.
fn with_edns(name: &str, kind: RecordType, change: impl FnOnce(&mut Edns)) -> Vec<u8> {
    ask(name, kind, |message| {
        let mut edns = Edns::new();
        edns.set_max_payload(1232);
        change(&mut edns);
        message.edns = Some(edns);
    })
}

fn addresses(reply: &Message) -> Vec<String> {
    reply.answers.iter().filter_map(|record| record.data.ip_addr()).map(|address| address.to_string()).collect()
}

/// Code of the reply, and how many records each section has.
fn outline(reply: &Message) -> (ResponseCode, [usize; 3]) {
    let counts = [&reply.answers, &reply.authorities, &reply.additionals].map(Vec::len);
    (reply.metadata.response_code, counts)
}
