//! A worker and a gateway of west, and the far end of its cables.

use crate::bed::{Place, Wires, wanted};
use crate::clusters::cable;
use crate::networks::{node, service};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tombolo_core::model::Protocol;
use tombolo_core::network::{Network, Wanted};
use tombolo_linux::Node;

/// The service, as the far end calls it.
pub const SERVICE: &str = "10.101.0.80:80";
/// The far end's own address.
pub const FAR: &str = "10.2.3.7";
/// Backends of the service, both on the worker.
pub const BACKENDS: [&str; 2] = ["10.1.3.1:8080", "10.1.3.2:8080"];

/// The three, joined.
pub struct Site {
    pub worker: Place,
    pub gateway: Place,
    pub far: Place,
    pub wires: Wires,
    stop: Arc<AtomicBool>,
    servers: Vec<JoinHandle<()>>,
}

impl Site {
    /// All is up, nothing of ours but the links to the far end is applied.
    pub fn new() -> Self {
        let (worker, gateway, far) = (Place::new(), Place::new(), Place::new());
        let tid = gateway.thread_number;
        worker.sh(&format!("ip link add eth0 type veth peer eth0 netns {tid}; ip link set eth0 up; ip address add 172.16.1.3/24 dev eth0
            ip link add cni0 type bridge; ip link set cni0 up; ip address add 10.1.3.1/24 dev cni0; ip address add 10.1.3.2/24 dev cni0"));
        gateway.sh("ip link set eth0 up; ip address add 172.16.1.1/24 dev eth0");
        let mut wires = Wires::default();
        wires.to.extend([1, 2].map(|rank| (cable(rank), far.thread_number)));
        let site = Self { worker, gateway, far, wires, stop: Arc::default(), servers: Vec::new() };
        site.apply(&site.worker, node((1, 3), (1, 1)));
        site.apply(&site.gateway, site.gateway_network((1, 1), &[]));
        site.far.sh("for cable in tb-cable-1 tb-cable-2; do ip link set $cable arp off up; done
            ip address add 10.2.3.7/32 dev tb-cable-1
            for range in 10.1.0.0/16 10.101.0.0/16 10.55.0.0/16; do ip route add $range dev tb-cable-1 src 10.2.3.7; done");
        site
    }

    /// What is ours on the gateway, with the service on these backends, both protocols.
    pub fn gateway_network(&self, choice: (u8, u8), backends: &[&str]) -> Network {
        let mut network = node((1, 1), choice);
        let backends: Vec<_> = backends.iter().map(|text| text.parse::<SocketAddr>().unwrap()).collect();
        let backends: Vec<(IpAddr, u16)> = backends.iter().map(|socket| (socket.ip(), socket.port())).collect();
        if !backends.is_empty() {
            network.put(service(1, Protocol::Udp, 80, &backends));
            network.put(service(1, Protocol::Tcp, 80, &backends));
        }
        network
    }

    /// A daemon starts in a place and applies this.
    pub fn apply(&self, place: &Place, network: Network) {
        let (wires, wanted): (_, Wanted) = (self.wires.clone(), wanted(&network));
        place.run(move || drop(Node::open(Box::new(wires)).unwrap().reconcile(&wanted).unwrap()));
    }

    /// Serves UDP and TCP at this address of the worker; each answer is this address.
    pub fn serve(&mut self, address: &'static str) {
        let stop = self.stop.clone();
        self.servers.push(self.worker.beside(move || {
            let socket = UdpSocket::bind(address).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            while !stop.load(Ordering::Relaxed) {
                let mut bytes = [0; 64];
                if let Ok((_, from)) = socket.recv_from(&mut bytes) {
                    socket.send_to(address.as_bytes(), from).unwrap();
                }
            }
        }));
        let stop = self.stop.clone();
        self.servers.push(self.worker.beside(move || {
            let listener = TcpListener::bind(address).unwrap();
            listener.set_nonblocking(true).unwrap();
            let mut streams = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                streams.extend(listener.accept().ok().map(|(stream, _)| stream));
                for stream in &mut streams {
                    stream.set_nonblocking(true).unwrap();
                    let mut byte = [0];
                    if matches!(stream.read(&mut byte), Ok(1)) {
                        stream.write_all(address.as_bytes()).unwrap();
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }));
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.servers.drain(..).for_each(|server| drop(server.join()));
    }
}

/// A socket of the far end.
pub fn caller(to: &str) -> UdpSocket {
    let socket = UdpSocket::bind((FAR, 0)).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket
}

/// Who answers.
pub fn ask(socket: &UdpSocket) -> io::Result<String> {
    socket.send(b"who?")?;
    let mut bytes = [0; 64];
    match socket.recv(&mut bytes) {
        Ok(length) => Ok(String::from_utf8_lossy(&bytes[..length]).into_owned()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::TimedOut.into()),
        Err(error) => Err(error),
    }
}
