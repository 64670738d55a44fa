//! What the tests serve.

use super::{IpAddr, Table};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tombolo_core::base::{ClusterId, Few, Label, Wall};
use tombolo_core::dns::{Contents, Knows, Zone};
use tombolo_core::model::{
    Families, Family, Import, Object, Offer, Port, Protocol, ServiceKey, ServiceType, SourceEndpoint, SourceSlice,
};

/// A service of cluster east.
pub(super) struct Service {
    name: String,
    service_type: ServiceType,
    /// Each with a host name after a `=`, if it has one.
    endpoints: Vec<String>,
}

pub(super) fn cluster_ip(name: &str, addresses: &[&str]) -> Service {
    let endpoints = addresses.iter().map(ToString::to_string).collect();
    Service { name: name.into(), service_type: ServiceType::ClusterIp, endpoints }
}

pub(super) fn headless(name: &str, endpoints: impl IntoIterator<Item = String>) -> Service {
    Service { name: name.into(), service_type: ServiceType::Headless, endpoints: endpoints.into_iter().collect() }
}

/// `web` of both families, `db` with two hosts, and `crowd` with 200.
pub(super) fn table() -> Table {
    let of_crowd = (0..200).map(|number| format!("10.9.0.{number}"));
    table_of(&[
        cluster_ip("web", &["10.102.0.10", "fd00::10"]),
        headless("db", ["10.2.1.5=db-0", "fd00:2::5=db-0", "10.2.1.6=db-1"].map(String::from)),
        headless("crowd", of_crowd),
    ])
}

pub(super) fn table_of(services: &[Service]) -> Table {
    table_that(Knows::All, services)
}

pub(super) fn table_that(knows: Knows, services: &[Service]) -> Table {
    Table::build(Contents {
        zone: &Zone::default(),
        ttl: Duration::from_secs(5),
        local: &cluster("west"),
        servers: &Few::default(),
        imports: &services.iter().map(Service::import).collect::<Vec<_>>(),
        slices: &services.iter().flat_map(Service::slices).collect::<Vec<_>>(),
        reach: &BTreeMap::new(),
        knows,
        serial: 7,
    })
}

fn cluster(id: &str) -> ClusterId {
    ClusterId::new(id).unwrap()
}

impl Service {
    fn key(&self) -> ServiceKey {
        ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new(&self.name).unwrap() }
    }

    fn import(&self) -> Arc<Import> {
        let offer = Offer::new(self.service_type, [port()].into(), Families::default());
        let sources = [(cluster("east"), Wall::default())].into_iter().collect();
        Arc::new(Import { key: self.key(), offer: Arc::new(offer), sources })
    }

    /// As an API shows it.
    pub(super) fn objects(&self) -> Vec<Object> {
        let slices = self.slices().into_iter().filter(|slice| !slice.endpoints.is_empty());
        [Object::Import(self.import())].into_iter().chain(slices.map(Object::from)).collect()
    }

    fn slices(&self) -> Vec<SourceSlice> {
        let endpoint = |text: &String| {
            let (address, host) = text.split_once('=').map_or((text.as_str(), None), |(a, host)| (a, Some(host)));
            let hostname = host.map(|host| Label::new(host).unwrap());
            SourceEndpoint { address: address.parse::<IpAddr>().unwrap(), hostname, ready: true }
        };
        let slice = |family: Family| SourceSlice {
            cluster: cluster("east"),
            key: self.key(),
            family,
            number: 0,
            endpoints: self.endpoints.iter().map(endpoint).filter(|e| Family::of(e.address) == family).collect(),
            ports: [port()].into(),
        };
        [Family::V4, Family::V6].map(slice).into()
    }
}

fn port() -> Port {
    Port { name: Some(Label::new("http").unwrap()), protocol: Protocol::Tcp, port: 80, app_protocol: None }
}
