//! Typed looks into the index.

use super::{Discovery, as_slice, key};
use crate::base::ClusterId;
use crate::model::{
    Api, EndpointSlice, ExportRecord, Key, Kind, Object, Service, ServiceExport, ServiceKey, SourceSlice,
};

impl Discovery {
    pub(super) fn service(&self, service: &ServiceKey) -> Option<&Service> {
        let Object::Service(service) = self.index.get(Api::Local, &key(Kind::Service, service))? else { return None };
        Some(service)
    }

    pub(super) fn export(&self, service: &ServiceKey) -> Option<&ServiceExport> {
        let Object::ServiceExport(export) = self.index.get(Api::Local, &key(Kind::ServiceExport, service))? else {
            return None;
        };
        Some(export)
    }

    pub(super) fn backends_in(&self, key: &Key) -> Option<&EndpointSlice> {
        let Object::EndpointSlice(slice) = self.index.get(Api::Local, key)? else { return None };
        Some(slice)
    }

    pub(super) fn record(&self, key: &Key) -> Option<&ExportRecord> {
        let Object::ExportRecord(record) = self.index.get(Api::Broker, key)? else { return None };
        Some(record)
    }

    pub(super) fn slice(&self, api: Api, key: &Key) -> Option<&SourceSlice> {
        as_slice(self.index.get(api, key)?)
    }

    /// The records of `service` that are believed to be at the broker.
    pub(super) fn records_of(&self, service: &ServiceKey) -> impl Iterator<Item = &ExportRecord> {
        self.records.of(service).filter_map(|key| self.record(key))
    }

    /// The slices that `cluster` has of `service`.
    pub(super) fn slices_of<'a>(
        &'a self,
        api: Api,
        service: &ServiceKey,
        cluster: &'a ClusterId,
    ) -> impl Iterator<Item = &'a SourceSlice> {
        let keys = self.slices.get(&api).into_iter().flat_map(|slices| slices.of(service));
        keys.filter_map(move |key| self.slice(api, key)).filter(move |slice| slice.cluster == *cluster)
    }

    /// Whether the own API holds an import with the own cluster among its sources.
    pub(super) fn imports_from_here(&self, key: &Key) -> bool {
        let import = self.index.get(Api::Local, key);
        matches!(import, Some(Object::Import(import)) if import.sources.contains_key(&self.cluster))
    }
}
