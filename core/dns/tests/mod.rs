//! What is answered, message by message: a small world, and dig to look at it.

mod names;
mod wire;

use super::client::mnemonic;
use super::*;
use crate::base::{ClusterId, Label};
use crate::model::{Import, Reach, ServiceKey, ServiceType, Source};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use hickory_proto::op::{Message, MessageType};

fn cluster(text: &str) -> ClusterId {
    ClusterId::new(text).unwrap()
}

fn key(text: &str) -> ServiceKey {
    let (name, namespace) = text.split_once('.').unwrap();
    ServiceKey { namespace: Label::new(namespace).unwrap(), name: Label::new(name).unwrap() }
}

fn source(addresses: &[&str], ready: bool) -> Source {
    Source { addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(), ready }
}

fn import(name: &str, service_type: ServiceType, sources: &[(&str, Source)]) -> Import {
    let sources = sources.iter().map(|(id, source)| (cluster(id), source.clone())).collect();
    Import { key: key(name), service_type, ports: BTreeSet::new(), sources }
}

/// A table for the tests; each test changes what it is about.
struct World {
    local: ClusterId,
    imports: Vec<Import>,
    reach: BTreeMap<ClusterId, Reach>,
    synced: bool,
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
    World { local: cluster(local), imports: vec![web], reach: BTreeMap::new(), synced: true }
}

impl World {
    fn table(&self) -> Table {
        Table::build(Contents {
            zone: &Zone::default(),
            ttl: Duration::from_secs(5),
            local: &self.local,
            imports: &self.imports,
            reach: &self.reach,
            synced: self.synced,
            serial: 7,
        })
    }

    fn lost(mut self, id: &str) -> Self {
        self.reach.insert(cluster(id), Reach::Lost);
        self
    }

    fn with(mut self, import: Import) -> Self {
        self.imports.push(import);
        self
    }

    fn source_mut(&mut self, id: &str) -> &mut Source {
        self.imports[0].sources.get_mut(&cluster(id)).unwrap()
    }

    /// The reply to one query, like dig prints it.
    fn dig(&self, name: &str, kind: RecordKind) -> String {
        let request = question(7, name, kind).unwrap();
        dig(&respond(&self.table(), &request, &mut Picks::default()).unwrap())
    }

    /// Addresses of `count` replies in a row on one socket.
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
        Data::Version | Data::Soa => format!("{data:?}"),
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
        out += &format!(";; EDNS {}{dnssec}, udp: {}\n", edns.version(), edns.max_payload());
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
