//! Pods from which probes come.
//!
//! A client resolves (UDP to the cluster's clusterset DNS), connects, says one request and reads the answer; on a held
//! flow, one request after another over one connection. Time limits are the world's: it drops the future, and asks
//! [`Waiting`] how far it came.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::future::Future;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::timeout;
use tombolo_core::dns::{Reading, RecordKind, question, reading};
use tombolo_core::model::Protocol;
use tombolo_scenarios::layout::{HostId, Layout, ServiceLayout};
use tombolo_scenarios::{Outcome, Probe, ProbeTarget, Target};

/// Port of DNS.
pub const DNS_PORT: u16 = 53;
/// First wait before a query is said again, as resolvers do.
const REPEAT_QUERY: Duration = Duration::from_secs(1);
/// First wait before a datagram is said again.
const REPEAT_DATAGRAM: Duration = Duration::from_millis(200);
/// Longest datagram that is read.
const DATAGRAM_MAX: usize = 1500;
/// Longest head of an HTTP message that is read.
const HEAD_MAX: usize = 4096;
/// Names below are the cluster's own to answer.
const CLUSTER_ZONE: &str = "svc.cluster.local";

/// The sockets of a world.
pub trait Net: 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + 'static;
    /// A socket for datagrams.
    type Datagrams: 'static;
    /// Connects.
    fn connect(to: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;
    /// A socket at this address, at a free port.
    fn bind(own: Ipv4Addr) -> impl Future<Output = io::Result<Self::Datagrams>>;
    /// Sends. What cannot be sent is lost, as on any wire.
    fn send_to(socket: &Self::Datagrams, bytes: &[u8], to: SocketAddr) -> impl Future<Output = ()>;
    /// Receives.
    fn recv_from(socket: &Self::Datagrams, buffer: &mut [u8]) -> impl Future<Output = io::Result<(usize, SocketAddr)>>;
}

/// What a probe waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// The answer of the DNS server.
    Name(SocketAddr),
    /// A connection.
    Connection(SocketAddr),
    /// An answer.
    Answer(SocketAddr),
}

impl Wait {
    /// Where it was sent to.
    #[must_use]
    pub const fn dialled(self) -> SocketAddr {
        match self {
            Self::Name(to) | Self::Connection(to) | Self::Answer(to) => to,
        }
    }
}

impl fmt::Display for Wait {
    /// What failed, if nothing came.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(server) => write!(f, "no answer from the DNS server {}", server.ip()),
            Self::Connection(to) => write!(f, "no connection to {to}"),
            Self::Answer(from) => write!(f, "no answer from {from}"),
        }
    }
}

/// How far a probe came. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Rc<Cell<Option<Wait>>>);

impl Waiting {
    fn waits(&self, wait: Wait) {
        self.0.set(Some(wait));
    }

    /// What it waits for, if it has begun.
    #[must_use]
    pub fn get(&self) -> Option<Wait> {
        self.0.get()
    }
}

/// A name to ask for, and the query that asks.
#[derive(Clone, Debug)]
pub struct Question {
    name: String,
    id: u16,
    query: Vec<u8>,
    server: IpAddr,
}

/// Where the address of what is wanted comes from.
#[derive(Clone, Debug)]
enum Whereto {
    Known(IpAddr),
    Asked(Question),
}

/// What a pod is to do.
#[derive(Clone, Debug)]
pub enum Errand {
    /// Resolve, if it is a name, connect and ask.
    Fetch(Fetch),
    /// Resolve.
    Resolve(Question),
}

/// Something to fetch.
#[derive(Clone, Debug)]
pub struct Fetch {
    whereto: Whereto,
    port: u16,
    protocol: Protocol,
    /// The long flow it belongs to.
    held: Option<Target>,
}

/// What a pod on `node` has to do for a probe; or what came of it, where nothing is to be sent for that. `id` gives the
/// number of a query.
///
/// # Errors
/// That outcome.
pub fn errand(layout: &Layout, node: HostId, probe: &Probe, id: impl FnOnce() -> u16) -> Result<Errand, Outcome> {
    let (whereto, port, protocol) = match &probe.to {
        ProbeTarget::Fetch(Target::Address(address, port, protocol)) => (Whereto::Known(*address), *port, *protocol),
        ProbeTarget::Fetch(Target::Name(name, port, protocol)) => {
            (self::whereto(layout, node, name, id)?, *port, *protocol)
        }
        ProbeTarget::Resolve(name) => {
            let own = cluster_zone(layout, node, name);
            return match self::whereto(layout, node, name, id) {
                Ok(Whereto::Asked(question)) => Ok(Errand::Resolve(question)),
                Ok(Whereto::Known(address)) => {
                    Err(Outcome::Resolved { rcode: "NOERROR".into(), addresses: vec![address] })
                }
                Err(_) if own == Some(None) => Err(Outcome::Resolved { rcode: "NXDOMAIN".into(), addresses: vec![] }),
                Err(outcome) => Err(outcome),
            };
        }
    };
    let held = match &probe.to {
        ProbeTarget::Fetch(target) if probe.held => Some(target.clone()),
        ProbeTarget::Fetch(_) | ProbeTarget::Resolve(_) => None,
    };
    Ok(Errand::Fetch(Fetch { whereto, port, protocol, held }))
}

fn whereto(layout: &Layout, node: HostId, name: &str, id: impl FnOnce() -> u16) -> Result<Whereto, Outcome> {
    let failed = |because: String| Outcome::Failed { because };
    match cluster_zone(layout, node, name) {
        Some(Some(address)) => return Ok(Whereto::Known(address)),
        Some(None) => return Err(failed(format!("{name}: NXDOMAIN"))),
        None => {}
    }
    let id = id();
    let query = question(id, name, RecordKind::A).map_err(|error| failed(error.to_string()))?;
    let server = dns_server(layout, node).ok_or_else(|| failed("no DNS server".into()))?;
    Ok(Whereto::Asked(Question { name: name.to_owned(), id, query, server }))
}

/// The answer of the cluster's own DNS, if the name is in its zone.
fn cluster_zone(layout: &Layout, node: HostId, name: &str) -> Option<Option<IpAddr>> {
    let inside = name.trim_end_matches('.').strip_suffix(CLUSTER_ZONE)?.strip_suffix('.')?;
    let cluster = &layout.host(node)?.node.as_ref()?.cluster;
    let named = |service: &&ServiceLayout| {
        service.cluster == *cluster
            && !service.headless
            && inside.split('.').eq([service.key.name.as_str(), service.key.namespace.as_str()])
    };
    Some(layout.services().iter().find(named).map(|service| service.cluster_ip))
}

/// The address of the cluster's clusterset DNS server.
fn dns_server(layout: &Layout, node: HostId) -> Option<IpAddr> {
    let cluster = &layout.host(node)?.node.as_ref()?.cluster;
    layout.host(layout.home_of_singletons(cluster)?).map(|host| host.address)
}

/// Does an errand in the pod whose address is `own`, to its end.
pub async fn go<N: Net>(own: Ipv4Addr, errand: &Errand, flows: &LongFlows<N>, waiting: &Waiting) -> Outcome {
    let outcome = match errand {
        Errand::Fetch(fetch) => {
            let fetched = Asker { own, flows, waiting }.fetch(fetch).await;
            fetched.map(|(address, server)| Outcome::Fetched { address, server })
        }
        Errand::Resolve(question) => ask::<N>(own, question, waiting).await.map(|reading| {
            let mut addresses = reading.addresses;
            addresses.sort_unstable();
            Outcome::Resolved { rcode: reading.rcode, addresses }
        }),
    };
    outcome.unwrap_or_else(|because| Outcome::Failed { because })
}

async fn ask<N: Net>(own: Ipv4Addr, question: &Question, waiting: &Waiting) -> Result<Reading, String> {
    let server = SocketAddr::new(question.server, DNS_PORT);
    waiting.waits(Wait::Name(server));
    let socket = N::bind(own).await.map_err(|error| error.to_string())?;
    let mut pause = REPEAT_QUERY;
    let mut buffer = vec![0; DATAGRAM_MAX];
    loop {
        N::send_to(&socket, &question.query, server).await;
        let answered = async {
            loop {
                let (length, from) = N::recv_from(&socket, &mut buffer).await.map_err(|error| error.to_string())?;
                if from != server {
                    continue;
                }
                let reading = reading(buffer.get(..length).unwrap_or_default()).map_err(|error| error.to_string())?;
                if reading.id == question.id {
                    return Ok(reading);
                }
            }
        };
        if let Ok(answer) = timeout(pause, answered).await {
            return answer;
        }
        pause *= 2;
    }
}

/// The long flows of a pod. Clones are the same.
pub struct LongFlows<N: Net>(Rc<RefCell<BTreeMap<Target, Long<N>>>>);

impl<N: Net> Clone for LongFlows<N> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<N: Net> Default for LongFlows<N> {
    fn default() -> Self {
        Self(Rc::default())
    }
}

impl<N: Net> fmt::Debug for LongFlows<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LongFlows({})", self.0.borrow().len())
    }
}

/// A long flow.
enum Long<N: Net> {
    Tcp(Conversation),
    Udp(Rc<N::Datagrams>, SocketAddr),
    /// It was reset: it does not come back.
    Reset,
}

/// One request after another over one connection.
struct Conversation {
    peer: SocketAddr,
    requests: mpsc::UnboundedSender<oneshot::Sender<String>>,
}

struct Asker<'a, N: Net> {
    own: Ipv4Addr,
    flows: &'a LongFlows<N>,
    waiting: &'a Waiting,
}

impl<N: Net> Asker<'_, N> {
    async fn fetch(&self, errand: &Fetch) -> Result<(IpAddr, String), String> {
        if let Some(target) = &errand.held
            && self.flows.0.borrow().contains_key(target)
        {
            return self.over_long_flow(target).await;
        }
        let address = match &errand.whereto {
            Whereto::Known(address) => *address,
            Whereto::Asked(question) => {
                let reading = ask::<N>(self.own, question, self.waiting).await?;
                let first = reading.addresses.first().copied();
                first.ok_or_else(|| format!("{}: {}, no address", question.name, reading.rcode))?
            }
        };
        let to = SocketAddr::new(address, errand.port);
        match errand.protocol {
            Protocol::Tcp => self.over_tcp(errand.held.as_ref(), to).await,
            Protocol::Udp => self.over_udp(errand.held.as_ref(), to).await,
        }
    }

    async fn over_tcp(&self, held: Option<&Target>, to: SocketAddr) -> Result<(IpAddr, String), String> {
        self.waiting.waits(Wait::Connection(to));
        let mut stream = N::connect(to).await.map_err(|error| refused(to, &error))?;
        self.waiting.waits(Wait::Answer(to));
        stream.write_all(request(to).as_bytes()).await.map_err(|error| refused(to, &error))?;
        let mut read = Vec::new();
        let body = message(&mut stream, &mut read).await.map_err(|error| refused(to, &error))?;
        let body = body.ok_or_else(|| format!("{to} closed the flow"))?;
        if let Some(target) = held
            && !self.flows.0.borrow().contains_key(target)
        {
            let (requests, wanted) = mpsc::unbounded_channel();
            spawn_local(converse(stream, to, wanted, target.clone(), self.flows.clone()));
            self.flows.0.borrow_mut().insert(target.clone(), Long::Tcp(Conversation { peer: to, requests }));
        }
        Ok((to.ip(), body))
    }

    async fn over_udp(&self, held: Option<&Target>, to: SocketAddr) -> Result<(IpAddr, String), String> {
        self.waiting.waits(Wait::Answer(to));
        let socket = Rc::new(N::bind(self.own).await.map_err(|error| error.to_string())?);
        let answer = exchange::<N>(&socket, to).await?;
        if let Some(target) = held {
            self.flows.0.borrow_mut().entry(target.clone()).or_insert(Long::Udp(socket, to));
        }
        Ok((to.ip(), answer))
    }

    async fn over_long_flow(&self, target: &Target) -> Result<(IpAddr, String), String> {
        let reset = || "the flow was reset".to_owned();
        let (peer, answer) = {
            let flows = self.flows.0.borrow();
            match flows.get(target) {
                Some(Long::Tcp(conversation)) => {
                    let (sender, answer) = oneshot::channel();
                    conversation.requests.send(sender).map_err(|_| reset())?;
                    (conversation.peer, Ok(answer))
                }
                Some(Long::Udp(socket, peer)) => (*peer, Err(Rc::clone(socket))),
                Some(Long::Reset) | None => return Err(reset()),
            }
        };
        self.waiting.waits(Wait::Answer(peer));
        match answer {
            Ok(answer) => answer.await.map(|body| (peer.ip(), body)).map_err(|_| reset()),
            Err(socket) => exchange::<N>(&socket, peer).await.map(|body| (peer.ip(), body)),
        }
    }
}

/// A line of a head that makes it longer than any segment: requests and answers are to be as long as packets may be.
#[must_use]
pub fn fill() -> String {
    format!("x-fill: {:x>1500}\r\n", "")
}

fn request(to: SocketAddr) -> String {
    format!("GET / HTTP/1.1\r\nhost: {to}\r\n{}\r\n", fill())
}

/// Says each request as it comes, and hands out the answers in order, until the flow is reset.
async fn converse<N: Net>(
    stream: N::Stream,
    to: SocketAddr,
    mut wanted: mpsc::UnboundedReceiver<oneshot::Sender<String>>,
    target: Target,
    flows: LongFlows<N>,
) {
    let (mut reader, mut writer) = split(stream);
    let mut waiting: VecDeque<oneshot::Sender<String>> = VecDeque::new();
    let mut read = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        tokio::select! {
            biased;
            count = reader.read(&mut buffer) => {
                let Ok(count @ 1..) = count else { break };
                read.extend_from_slice(buffer.get(..count).unwrap_or_default());
                while let Some((length, body)) = whole_message(&read) {
                    read.drain(..length);
                    if let Some(asked) = waiting.pop_front() {
                        // A probe whose time is over listens no more.
                        let _ = asked.send(body);
                    }
                }
            }
            asked = wanted.recv() => {
                let Some(asked) = asked else { break };
                if writer.write_all(request(to).as_bytes()).await.is_err() {
                    break;
                }
                waiting.push_back(asked);
            }
        }
    }
    flows.0.borrow_mut().insert(target, Long::Reset);
}

/// Says a datagram again and again until one comes back.
async fn exchange<N: Net>(socket: &N::Datagrams, to: SocketAddr) -> Result<String, String> {
    let mut pause = REPEAT_DATAGRAM;
    let mut buffer = vec![0; DATAGRAM_MAX];
    loop {
        N::send_to(socket, b"who are you?", to).await;
        let answered = async {
            loop {
                let (length, from) = N::recv_from(socket, &mut buffer).await.map_err(|error| error.to_string())?;
                if from == to {
                    return Ok(String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).into_owned());
                }
            }
        };
        if let Ok(answer) = timeout(pause, answered).await {
            return answer;
        }
        pause *= 2;
    }
}

fn refused(to: SocketAddr, error: &io::Error) -> String {
    format!("{to}: {error}")
}

/// Reads one HTTP message, and gives its body. `read` keeps what came after it. `None`: the other side has finished.
///
/// # Errors
/// The connection has failed, or what came is no such message.
pub async fn message(stream: &mut (impl AsyncRead + Unpin), read: &mut Vec<u8>) -> io::Result<Option<String>> {
    let mut buffer = [0; 1024];
    loop {
        if let Some((length, body)) = whole_message(read) {
            read.drain(..length);
            return Ok(Some(body));
        }
        if read.len() > HEAD_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(None);
        }
        read.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
}

/// The first message in `read`, if it is whole: its length and its body.
fn whole_message(read: &[u8]) -> Option<(usize, String)> {
    let head_end = read.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = core::str::from_utf8(read.get(..head_end)?).unwrap_or_default();
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0);
    let body = read.get(head_end..head_end.checked_add(length)?)?;
    Some((head_end + length, String::from_utf8_lossy(body).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_whole_when_its_body_is() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngw-aGET / HTTP/1.1\r\n\r\n";
        assert_eq!(whole_message(whole), Some((42, "gw-a".into())));
        assert_eq!(whole_message(&whole[..41]), None);
        assert_eq!(whole_message(&whole[42..]), Some((18, String::new())));
        let liar = b"HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551615\r\n\r\n";
        assert_eq!(whole_message(liar), None);
    }
}
