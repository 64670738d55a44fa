//! Who answers: processes on core 0.

use super::NAMES;
use super::asking::{name, stay_on};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;
use tombolo_core::base::{ClusterId, Few, Label, Wall};
use tombolo_core::dns::{Contents, Knows, RecordKind, Table, Zone, question};
use tombolo_core::model::{
    Family, Import, Offer, Port, Protocol, ServiceKey, ServiceType, SourceEndpoint, SourceSlice,
};
use tombolo_dns::{Server, Settings};
use tombolo_shell::ZoneHand as _;

/// One that runs.
pub struct Served {
    pub at: SocketAddr,
    process: Child,
    folder: Option<PathBuf>,
}

impl Served {
    pub fn start(at: SocketAddr, command: &mut Command, folder: Option<PathBuf>) -> Self {
        stay_on(0);
        let process = command.spawn().unwrap();
        stay_on(1);
        let served = Self { at, process, folder };
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        for _ in 0..100 {
            socket.send_to(&question(1, &name(NAMES - 1), RecordKind::A).unwrap(), at).unwrap();
            let mut reply = [0; 512];
            if socket.recv(&mut reply).is_ok() && reply[7] == 1 {
                return served;
            }
        }
        panic!("nobody answers at {at}");
    }

    /// Time that the process had the core. The kernel counts in hundredths of a second.
    pub fn busy(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        Duration::from_millis(10) * (fields[11].parse::<u32>().unwrap() + fields[12].parse::<u32>().unwrap())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

pub fn free() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

pub fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 | number)
}

pub fn ours() -> Served {
    this_program("serve")
}

/// One that builds its table anew and swaps it ten times a second, on the same core: the most that a daemon has to do, when
/// a cluster is lost or comes back.
pub fn swapping() -> Served {
    this_program("swap")
}

fn this_program(how: &str) -> Served {
    let at = free();
    let program = std::env::current_exe().unwrap();
    Served::start(at, Command::new(program).args([how, &at.to_string()]), None)
}

/// This program as a server, until it is killed.
pub fn serve(at: &str, swaps: bool) {
    let settings = Settings { sockets: NonZeroUsize::MIN, ..Settings::at(vec![at.parse().unwrap()]) };
    let (_server, mut zone) = Server::start(&settings, Arc::new(table())).unwrap();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        if swaps {
            zone.swap(Arc::new(table()));
        }
    }
}

fn table() -> Table {
    let east = ClusterId::new("east").unwrap();
    let port = Port { name: Some(Label::new("http").unwrap()), protocol: Protocol::Tcp, port: 80, app_protocol: None };
    let key = |number: u32| {
        let whole = name(number);
        let mut labels = whole.split('.').map(|label| Label::new(label).unwrap());
        ServiceKey { name: labels.next().unwrap(), namespace: labels.next().unwrap() }
    };
    let offer = Arc::new(Offer::new(ServiceType::ClusterIp, [port.clone()].into(), [Family::V4].into()));
    let import = |number| {
        let sources = [(east.clone(), Wall::default())].into_iter().collect();
        Arc::new(Import { key: key(number), offer: Arc::clone(&offer), sources })
    };
    let slice = |number| SourceSlice {
        cluster: east.clone(),
        key: key(number),
        family: Family::V4,
        number: 0,
        endpoints: [SourceEndpoint { address: address(number).into(), hostname: None, ready: true }].into(),
        ports: [port.clone()].into(),
    };
    Table::build(Contents {
        zone: &Zone::default(),
        ttl: Duration::from_secs(5),
        local: &ClusterId::new("west").unwrap(),
        servers: &Few::default(),
        imports: &(0..NAMES).map(import).collect::<Vec<_>>(),
        slices: &(0..NAMES).map(slice).collect::<Vec<_>>(),
        reach: &BTreeMap::new(),
        knows: Knows::All,
        serial: 1,
    })
}
