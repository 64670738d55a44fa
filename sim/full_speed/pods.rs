//! Pods: those that serve, and those from which probes come. Each is one process on a stack of its own.
//!
//! A pod that serves answers each HTTP request on its ports, and each datagram, with the name of its node. A client
//! resolves (UDP to the cluster's clusterset DNS), connects, says one request and reads the answer; on a held flow, one
//! request after another over one connection.

use super::chronicle::Chronicle;
use super::hands::DNS_PORT;
use super::sockets::{TcpListener, TcpStream, UdpSocket};
use core::cell::RefCell;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::timeout;
use tombolo_core::dns::{Reading, reading};
use tombolo_core::model::Protocol;
use tombolo_scenarios::{Outcome, ProbeId, Target};

/// First wait before a query is said again, as resolvers do.
const REPEAT_QUERY: Duration = Duration::from_secs(1);
/// First wait before a datagram is said again.
const REPEAT_DATAGRAM: Duration = Duration::from_millis(200);
/// Longest datagram that is read.
const DATAGRAM_MAX: usize = 1500;
/// Longest head of an HTTP message that is read.
const HEAD_MAX: usize = 4096;

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

/// A line of a head that makes it longer than any segment: requests and answers are to be as long as packets may be.
fn fill() -> String {
    format!("x-fill: {:x>1500}\r\n", "")
}

async fn answer_requests(mut stream: TcpStream, node: Rc<str>) {
    let mut read = Vec::new();
    while let Ok(Some(_)) = message(&mut stream, &mut read).await {
        let length = node.len();
        let answer = format!("HTTP/1.1 200 OK\r\n{}content-length: {length}\r\n\r\n{node}", fill());
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads one HTTP message, and gives its body. `read` keeps what came after it. `None`: the other side has finished.
async fn message(stream: &mut (impl AsyncReadExt + Unpin), read: &mut Vec<u8>) -> io::Result<Option<String>> {
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
    let length = head.lines().filter_map(|line| line.split_once(": ")).find(|(name, _)| *name == "content-length");
    let length: usize = length.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0);
    let body = read.get(head_end..head_end + length)?;
    Some((head_end + length, String::from_utf8_lossy(body).into_owned()))
}

/// What a probe waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// The answer of the DNS server.
    Name(SocketAddr),
    /// A connection.
    Connection(SocketAddr),
    /// An answer.
    Answer(SocketAddr),
}

impl Wait {
    /// Where it was sent to.
    pub(super) const fn dialled(self) -> SocketAddr {
        match self {
            Self::Name(to) | Self::Connection(to) | Self::Answer(to) => to,
        }
    }

    /// What failed, if nothing came.
    pub(super) fn told(self) -> String {
        match self {
            Self::Name(server) => format!("no answer from the DNS server {}", server.ip()),
            Self::Connection(to) => format!("no connection to {to}"),
            Self::Answer(from) => format!("no answer from {from}"),
        }
    }
}

/// What the world and a probe's task share.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) id: ProbeId,
    /// What it waits for.
    pub(super) wait: Rc<RefCell<Option<Wait>>>,
    /// Outcomes for the world to tell.
    pub(super) done: Rc<RefCell<Vec<(ProbeId, Outcome)>>>,
}

impl Attempt {
    fn waits(&self, wait: Wait) {
        *self.wait.borrow_mut() = Some(wait);
    }

    fn ends(self, outcome: Outcome) {
        self.done.borrow_mut().push((self.id, outcome));
    }
}

/// A name to ask for, and the query that asks.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) name: String,
    pub(super) id: u16,
    pub(super) query: Vec<u8>,
    pub(super) server: IpAddr,
}

/// Where the address of what is wanted comes from.
#[derive(Clone, Debug)]
pub(super) enum Whereto {
    Known(IpAddr),
    Asked(Question),
}

/// Resolves, and ends with what was resolved.
pub(super) async fn resolve(own: Ipv4Addr, question: Question, attempt: Attempt) {
    let outcome = match ask(own, &question, &attempt).await {
        Ok(reading) => {
            let mut addresses = reading.addresses;
            addresses.sort_unstable();
            Outcome::Resolved { rcode: reading.rcode, addresses }
        }
        Err(because) => Outcome::Failed { because },
    };
    attempt.ends(outcome);
}

async fn ask(own: Ipv4Addr, question: &Question, attempt: &Attempt) -> Result<Reading, String> {
    let server = SocketAddr::new(question.server, DNS_PORT);
    attempt.waits(Wait::Name(server));
    let socket = bound(own).await?;
    let mut pause = REPEAT_QUERY;
    let mut buffer = vec![0; DATAGRAM_MAX];
    loop {
        let _ = socket.try_send_to(&question.query, server);
        let answered = async {
            loop {
                let (length, from) = socket.recv_from(&mut buffer).await.map_err(|error| error.to_string())?;
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

async fn bound(own: Ipv4Addr) -> Result<UdpSocket, String> {
    UdpSocket::bind(SocketAddr::new(own.into(), 0)).await.map_err(|error| error.to_string())
}

/// Long flows of a pod.
pub(super) type LongFlows = Rc<RefCell<BTreeMap<Target, Long>>>;

/// A long flow.
#[derive(Debug)]
pub(super) enum Long {
    Tcp(Conversation),
    Udp(Rc<UdpSocket>, SocketAddr),
    /// It was reset: it does not come back.
    Reset,
}

/// One request after another over one connection.
#[derive(Debug)]
pub(super) struct Conversation {
    peer: SocketAddr,
    requests: tokio::sync::mpsc::UnboundedSender<oneshot::Sender<String>>,
}

/// What to fetch, and how.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    pub(super) own: Ipv4Addr,
    pub(super) whereto: Whereto,
    pub(super) port: u16,
    pub(super) protocol: Protocol,
    /// The long flow it belongs to.
    pub(super) held: Option<(Target, LongFlows)>,
}

/// Fetches, and ends with what came of it.
pub(super) async fn fetch(errand: Errand, attempt: Attempt) {
    let outcome = match try_fetch(&errand, &attempt).await {
        Ok((address, server)) => Outcome::Fetched { address, server },
        Err(because) => Outcome::Failed { because },
    };
    attempt.ends(outcome);
}

async fn try_fetch(errand: &Errand, attempt: &Attempt) -> Result<(IpAddr, String), String> {
    if let Some((target, flows)) = &errand.held
        && flows.borrow().contains_key(target)
    {
        return over_long_flow(target, flows, attempt).await;
    }
    let address = match &errand.whereto {
        Whereto::Known(address) => *address,
        Whereto::Asked(question) => {
            let reading = ask(errand.own, question, attempt).await?;
            let first = reading.addresses.first().copied();
            first.ok_or_else(|| format!("{}: {}, no address", question.name, reading.rcode))?
        }
    };
    let to = SocketAddr::new(address, errand.port);
    match errand.protocol {
        Protocol::Tcp => over_tcp(errand, to, attempt).await,
        Protocol::Udp => over_udp(errand, to, attempt).await,
    }
}

async fn over_tcp(errand: &Errand, to: SocketAddr, attempt: &Attempt) -> Result<(IpAddr, String), String> {
    attempt.waits(Wait::Connection(to));
    let mut stream = TcpStream::connect(to).await.map_err(|error| refused(to, &error))?;
    attempt.waits(Wait::Answer(to));
    let request = request(to);
    stream.write_all(request.as_bytes()).await.map_err(|error| refused(to, &error))?;
    let mut read = Vec::new();
    let node = message(&mut stream, &mut read).await.map_err(|error| refused(to, &error))?;
    let node = node.ok_or_else(|| format!("{to} closed the flow"))?;
    if let Some((target, flows)) = &errand.held
        && !flows.borrow().contains_key(target)
    {
        let (requests, wanted) = tokio::sync::mpsc::unbounded_channel();
        spawn_local(converse(stream, to, wanted, target.clone(), Rc::clone(flows)));
        flows.borrow_mut().insert(target.clone(), Long::Tcp(Conversation { peer: to, requests }));
    }
    Ok((to.ip(), node))
}

fn request(to: SocketAddr) -> String {
    format!("GET / HTTP/1.1\r\nhost: {to}\r\n{}\r\n", fill())
}

/// Says each request as it comes, and hands out the answers in order, until the flow is reset.
async fn converse(
    mut stream: TcpStream,
    to: SocketAddr,
    mut wanted: tokio::sync::mpsc::UnboundedReceiver<oneshot::Sender<String>>,
    target: Target,
    flows: LongFlows,
) {
    let (mut reader, mut writer) = stream.split();
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
    flows.borrow_mut().insert(target, Long::Reset);
}

async fn over_long_flow(target: &Target, flows: &LongFlows, attempt: &Attempt) -> Result<(IpAddr, String), String> {
    let reset = || "the flow was reset".to_owned();
    let (peer, answer) = {
        let flows = flows.borrow();
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
    attempt.waits(Wait::Answer(peer));
    match answer {
        Ok(answer) => answer.await.map(|node| (peer.ip(), node)).map_err(|_| reset()),
        Err(socket) => exchange(&socket, peer).await.map(|node| (peer.ip(), node)),
    }
}

async fn over_udp(errand: &Errand, to: SocketAddr, attempt: &Attempt) -> Result<(IpAddr, String), String> {
    attempt.waits(Wait::Answer(to));
    let socket = Rc::new(bound(errand.own).await?);
    let node = exchange(&socket, to).await?;
    if let Some((target, flows)) = &errand.held {
        flows.borrow_mut().entry(target.clone()).or_insert(Long::Udp(socket, to));
    }
    Ok((to.ip(), node))
}

/// Says a datagram again and again until one comes back.
async fn exchange(socket: &UdpSocket, to: SocketAddr) -> Result<String, String> {
    let mut pause = REPEAT_DATAGRAM;
    let mut buffer = vec![0; DATAGRAM_MAX];
    loop {
        let _ = socket.try_send_to(b"who are you?", to);
        let answered = async {
            loop {
                let (length, from) = socket.recv_from(&mut buffer).await.map_err(|error| error.to_string())?;
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
