//! What is answered, message by message: a small world, and dig to look at it.

mod corpus;
mod names;
mod rules;
mod wire;

use super::client::mnemonic;
use super::*;
use crate::base::{ClusterId, Label, Wall};
use crate::model::{
    Families, Family, Import, Offer, Port, Protocol, Reach, ServiceKey, ServiceType, SourceEndpoint, SourceSlice,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use hickory_proto::op::{Message, MessageType};

fn cluster(text: &str) -> ClusterId {
    ClusterId::new(text).unwrap()
}

fn key(text: &str) -> ServiceKey {
    let (name, namespace) = text.split_once('.').unwrap();
    ServiceKey { namespace: Label::new(namespace).unwrap(), name: Label::new(name).unwrap() }
}

fn port(name: &str, number: u16) -> Port {
    let name = (!name.is_empty()).then(|| Label::new(name).unwrap());
    Port { name, protocol: Protocol::Tcp, port: number, app_protocol: None }
}

/// What one cluster has: an endpoint for each word, an address and perhaps a host name after a `=`; in the end its ports.
#[derive(Clone)]
struct Source {
    endpoints: Vec<String>,
    ready: bool,
    ports: Vec<Port>,
}

fn source(endpoints: &[&str], ready: bool) -> Source {
    Source { endpoints: endpoints.iter().map(ToString::to_string).collect(), ready, ports: vec![port("http", 80)] }
}

impl Source {
    fn slices(&self, id: &str, key: &ServiceKey) -> Vec<SourceSlice> {
        let endpoint = |text: &String| {
            let (address, host) = text.split_once('=').map_or((text.as_str(), None), |(a, host)| (a, Some(host)));
            let hostname = host.map(|host| Label::new(host).unwrap());
            SourceEndpoint { address: address.parse().unwrap(), hostname, ready: self.ready }
        };
        let slice = |family: Family| SourceSlice {
            cluster: cluster(id),
            key: key.clone(),
            family,
            number: 0,
            endpoints: self.endpoints.iter().map(endpoint).filter(|e| Family::of(e.address) == family).collect(),
            ports: self.ports.iter().cloned().collect(),
        };
        [Family::V4, Family::V6].map(slice).into()
    }
}

struct Service {
    key: ServiceKey,
    service_type: ServiceType,
    sources: BTreeMap<String, Source>,
}

fn import(name: &str, service_type: ServiceType, sources: &[(&str, Source)]) -> Service {
    let sources = sources.iter().map(|(id, source)| (id.to_string(), source.clone())).collect();
    Service { key: key(name), service_type, sources }
}

impl Service {
    fn import(&self) -> Arc<Import> {
        let mut ports: Vec<&Port> = self.sources.values().flat_map(|source| &source.ports).collect();
        ports.dedup_by_key(|port| &port.name);
        Arc::new(Import {
            key: self.key.clone(),
            offer: Arc::new(Offer::new(self.service_type, ports.into_iter().cloned().collect(), Families::default())),
            sources: self.sources.keys().map(|id| (cluster(id), Wall::default())).collect(),
        })
    }

    fn slices(&self) -> Vec<SourceSlice> {
        self.sources.iter().flat_map(|(id, source)| source.slices(id, &self.key)).collect()
    }
}

/// A table for the tests; each test changes what it is about.
struct World {
    local: ClusterId,
    services: Vec<Service>,
    servers: Vec<IpAddr>,
    reach: BTreeMap<ClusterId, Reach>,
    knows: Knows,
}

/// `web` is exported by east, north and west; asked for in `local`.
fn world(local: &str) -> World {
    let web = import(
        "web.shop",
        ServiceType::ClusterIp,
        &[
            ("east", source(&["10.102.0.10"], true)),
            ("north.eu", source(&["10.103.0.10"], true)),
            ("west", source(&["10.101.0.10"], true)),
        ],
    );
    World { local: cluster(local), services: vec![web], servers: vec![], reach: BTreeMap::new(), knows: Knows::All }
}

impl World {
    fn table(&self) -> Table {
        Table::build(Contents {
            zone: &Zone::default(),
            ttl: Duration::from_secs(5),
            local: &self.local,
            servers: &self.servers.clone().into(),
            imports: &self.services.iter().map(Service::import).collect::<Vec<_>>(),
            slices: &self.services.iter().flat_map(Service::slices).collect::<Vec<_>>(),
            reach: &self.reach,
            knows: self.knows,
            serial: 7,
        })
    }

    fn lost(mut self, id: &str) -> Self {
        self.reach.insert(cluster(id), Reach::Lost);
        self
    }

    fn with(mut self, service: Service) -> Self {
        self.services.push(service);
        self
    }

    fn source_mut(&mut self, id: &str) -> &mut Source {
        self.services[0].sources.get_mut(id).unwrap()
    }

    /// The reply to one query, like dig prints it.
    fn dig(&self, name: &str, kind: RecordKind) -> String {
        let request = question(7, name, kind).unwrap();
        dig(&respond(&self.table(), &request, &mut Picks::default()).unwrap())
    }

    /// What `count` replies in a row on one socket hold.
    fn ask(&self, name: &str, kind: RecordKind, count: usize) -> Vec<String> {
        let (table, mut picks) = (self.table(), Picks::default());
        let query = Query::new(name, kind).unwrap();
        (0..count)
            .map(|_| match answer(&table, &query, &mut picks) {
                Answer::Records(records) => records.iter().map(text).collect::<Vec<_>>().join(" "),
                empty @ (Answer::NoData | Answer::NoSuchName | Answer::NotReady | Answer::Refused) => {
                    format!("{empty:?}")
                }
            })
            .collect()
    }
}

fn text(data: &Data) -> String {
    match data {
        Data::Address(address) => address.to_string(),
        Data::Srv(Srv { port, target, addresses, .. }) => {
            let target = match target {
                Target::Service => "*".into(),
                Target::Cluster(cluster) => cluster.to_string(),
                Target::Host(host, cluster) => format!("{host}.{cluster}"),
            };
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            format!("{target}:{port}[{}]", addresses.join(","))
        }
        Data::Version | Data::Soa | Data::Ns => format!("{data:?}"),
    }
}

const WEB: &str = "web.shop.svc.clusterset.local";

fn dig(reply: &[u8]) -> String {
    let m = Message::from_vec(reply).unwrap();
    let flag = |set: bool, name: &'static str| if set { name } else { "" };
    let flags = [
        flag(m.metadata.message_type == MessageType::Response, " qr"),
        flag(m.metadata.authoritative, " aa"),
        flag(m.metadata.truncation, " tc"),
        flag(m.metadata.recursion_desired, " rd"),
        flag(m.metadata.recursion_available, " ra"),
        flag(m.metadata.authentic_data, " ad"),
        flag(m.metadata.checking_disabled, " cd"),
    ]
    .concat();
    let mut out = format!(
        ";; {:?}, {}, id: {}, flags:{flags}; {} octets\n",
        m.metadata.op_code,
        mnemonic(m.metadata.response_code),
        m.metadata.id,
        reply.len()
    );
    if let Some(edns) = &m.edns {
        let dnssec = if edns.flags().dnssec_ok { ", do" } else { "" };
        let options: String = edns.options().as_ref().iter().map(|(_, option)| format!(", {option:?}")).collect();
        out += &format!(";; EDNS {}{dnssec}, udp: {}{options}\n", edns.version(), edns.max_payload());
    }
    for question in &m.queries {
        out += &format!(";{} {} {}\n", question.name, question.query_class, question.query_type);
    }
    for (section, records) in [("ANSWER", &m.answers), ("AUTHORITY", &m.authorities), ("ADDITIONAL", &m.additionals)] {
        if !records.is_empty() {
            out += &format!(";; {section}\n");
        }
        for r in records {
            out += &format!("{} {} {} {} {}\n", r.name, r.ttl, r.dns_class, r.record_type(), r.data);
        }
    }
    out
}

fn headless() -> World {
    world("east").with(import(
        "db.shop",
        ServiceType::Headless,
        &[
            ("east", source(&["10.2.1.5", "10.2.1.6"], true)),
            ("west", source(&["10.1.1.5", "10.2.1.5"], true)),
            ("south", source(&[], false)),
        ],
    ))
}

const DB: &str = "db.shop.svc.clusterset.local";
