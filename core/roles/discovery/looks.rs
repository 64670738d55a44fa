//! Typed looks into the index.

use super::{Discovery, as_slice};
use crate::base::ClusterId;
use crate::model::{
    Api, EndpointSlice, ExportRecord, Key, Kind, Object, Service, ServiceExport, ServiceKey, SourceSlice,
};
use crate::roles::node_side::claims;
use alloc::sync::Arc;

impl Discovery {
    pub(super) fn service(&self, service: &ServiceKey) -> Option<&Service> {
        let Object::Service(service) = self.index.get(Api::Local, &Key::of_service(Kind::Service, service))? else {
            return None;
        };
        Some(service)
    }

    pub(super) fn export(&self, service: &ServiceKey) -> Option<&ServiceExport> {
        let Object::ServiceExport(export) =
            self.index.get(Api::Local, &Key::of_service(Kind::ServiceExport, service))?
        else {
            return None;
        };
        Some(export)
    }

    pub(super) fn backends_in(&self, key: &Key) -> Option<&EndpointSlice> {
        let Object::EndpointSlice(slice) = self.index.get(Api::Local, key)? else { return None };
        Some(slice)
    }

    /// The records of `service` that are believed to be at the broker.
    pub(super) fn records_of<'a>(&'a self, service: &'a ServiceKey) -> impl Iterator<Item = &'a ExportRecord> {
        let records = self.index.believed_of_service(Kind::ExportRecord, service);
        records.filter_map(|object| if let Object::ExportRecord(record) = object { Some(&**record) } else { None })
    }

    /// The slices that `cluster` has of `service`, as they are shown.
    pub(super) fn slices_of<'a>(
        &'a self,
        api: Api,
        service: &'a ServiceKey,
        cluster: &'a ClusterId,
    ) -> impl Iterator<Item = &'a Arc<SourceSlice>> {
        let slices = self.index.of_service(api, Kind::SourceSlice, service);
        slices.filter_map(|(_, object)| as_slice(object)).filter(move |slice| slice.cluster == *cluster)
    }

    /// Whether the gateways of this cluster have announced it: in its own API nobody else does.
    pub(super) fn is_announced(&self) -> bool {
        let announced = |api| self.index.believes_word_of(api, Kind::Cluster, &self.cluster);
        let at_broker = || self.index.synced(Api::Broker, Kind::Claims) && !self.is_namesake();
        announced(Api::Local) || at_broker() && announced(Api::Broker)
    }

    /// Whether another cluster has joined under this one's id.
    pub(super) fn is_namesake(&self) -> bool {
        claims(&self.index).is_some_and(|claims| claims.give_to_another(&self.cluster, &self.identity))
    }

    /// The slices of another cluster's that are believed to be at the broker.
    pub(super) fn slices_from<'a>(
        &'a self,
        service: &'a ServiceKey,
        cluster: &'a ClusterId,
    ) -> impl Iterator<Item = &'a Arc<SourceSlice>> {
        let slices = self.index.believed_of_service(Kind::SourceSlice, service);
        slices.filter_map(as_slice).filter(move |slice| slice.cluster == *cluster)
    }

    /// Whether the own API holds an import with the own cluster among its sources.
    pub(super) fn imports_from_here(&self, key: &Key) -> bool {
        let import = self.index.get(Api::Local, key);
        matches!(import, Some(Object::Import(import)) if import.sources.contains_key(&self.cluster))
    }
}
