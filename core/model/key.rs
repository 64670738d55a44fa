//! The identity of an object: a full tuple, from which nothing has to be cut, and what an API calls it.

use super::{Family, Kind, ServiceKey};
use crate::base::hash::{fnv1a, fnv1a_more, mix};
use crate::base::{ClusterId, Label, SmolStr};
use core::fmt;
use serde::{Deserialize, Serialize};

/// Identity of an object within one API. In their order, all objects that go by the name of one service follow each other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Key {
    /// Kind.
    pub kind: Kind,
    /// Namespace of the service, for what belongs to one by its name; of the object, for other things of users. Else empty:
    /// the API seam puts Tombolo's own namespace there. (At the broker it does so for all.)
    pub namespace: SmolStr,
    /// Name of the service, or of the object.
    pub name: SmolStr,
    /// Whose it is, where several clusters have one of that name.
    pub source: Option<Source>,
}

/// Which of the clusters' objects of one name an object is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Source {
    /// The cluster that has it.
    pub cluster: ClusterId,
    /// Which of its slices, if it is one.
    pub slice: Option<(Family, u16)>,
}

impl Key {
    /// Of an object that no two clusters have.
    pub fn new(kind: Kind, namespace: impl Into<SmolStr>, name: impl Into<SmolStr>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into(), source: None }
    }

    /// Of an object that goes by the name of `service`, and that no two clusters have. Those that several clusters have
    /// follow it in order.
    #[must_use]
    pub fn of_service(kind: Kind, service: &ServiceKey) -> Self {
        Self::new(kind, &service.namespace, &service.name)
    }

    /// This, of `cluster`.
    #[must_use]
    pub fn of(self, cluster: &ClusterId) -> Self {
        Self { source: Some(Source { cluster: cluster.clone(), slice: None }), ..self }
    }

    /// The service whose name it has. `None` for kinds that have names of their own, or if that is no name of a service.
    #[must_use]
    pub fn service(&self) -> Option<ServiceKey> {
        self.as_key_ref().service()
    }

    /// The same, borrowed.
    #[must_use]
    pub fn as_key_ref(&self) -> KeyRef<'_> {
        let Self { kind, namespace, name, source } = self;
        let source = source.as_ref().map(|source| (&source.cluster, source.slice));
        KeyRef { kind: *kind, namespace, name, source }
    }

    /// The namespace that it has in the API of a member, if it is among the objects of users; else empty.
    #[must_use]
    pub fn api_namespace(&self) -> &str {
        if self.kind == Kind::ExportRecord { "" } else { &self.namespace }
    }

    /// The name that it has in an API.
    #[must_use]
    pub const fn api_name(&self) -> ApiName<'_> {
        ApiName(self)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = (self.api_namespace(), self.api_name());
        if namespace.is_empty() {
            write!(f, "{} {name}", self.kind)
        } else {
            write!(f, "{} {namespace}/{name}", self.kind)
        }
    }
}

/// A [`Key`] that is in something else. It has the same order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyRef<'a> {
    pub(super) kind: Kind,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) source: Option<(&'a ClusterId, Option<(Family, u16)>)>,
}

impl<'a> KeyRef<'a> {
    /// Kind.
    #[must_use]
    pub const fn kind(self) -> Kind {
        self.kind
    }

    /// As [`Key::of_service`].
    #[must_use]
    pub fn of_service(kind: Kind, service: &'a ServiceKey) -> Self {
        Self { kind, namespace: service.namespace.as_str(), name: service.name.as_str(), source: None }
    }

    /// The service whose name it has. `None` for kinds that have names of their own, or if that is no name of a service.
    #[must_use]
    pub fn service(self) -> Option<ServiceKey> {
        match self.kind {
            Kind::Service | Kind::ServiceExport | Kind::ExportRecord | Kind::Import | Kind::SourceSlice => {
                Some(ServiceKey { namespace: Label::new(self.namespace).ok()?, name: Label::new(self.name).ok()? })
            }
            Kind::Namespace
            | Kind::Node
            | Kind::EndpointSlice
            | Kind::Lease
            | Kind::Gateway
            | Kind::Cluster
            | Kind::Endpoint
            | Kind::Candidates
            | Kind::Claims
            | Kind::ExportSummary => None,
        }
    }

    /// Whether it has the name of `service`.
    #[must_use]
    pub fn is_named(self, service: &ServiceKey) -> bool {
        self.namespace == service.namespace.as_str() && self.name == service.name.as_str()
    }
}

impl<'a> From<&'a Key> for KeyRef<'a> {
    fn from(key: &'a Key) -> Self {
        key.as_key_ref()
    }
}

impl From<KeyRef<'_>> for Key {
    fn from(key: KeyRef<'_>) -> Self {
        let source = key.source.map(|(cluster, slice)| Source { cluster: cluster.clone(), slice });
        Self { source, ..Self::new(key.kind, key.namespace, key.name) }
    }
}

/// The name of an object in an API, as text. Unique there, since the broker has the objects of all clusters in one place,
/// and the slices of all namespaces; no more is to be read from it (B66).
#[derive(Clone, Copy, Debug)]
pub struct ApiName<'a>(&'a Key);

impl fmt::Display for ApiName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { kind, namespace, name, source } = self.0;
        let Some(Source { cluster, slice }) = source else { return f.write_str(name) };
        match slice {
            Some((family, number)) => {
                let full = format_args!("{cluster}/{namespace}/{name}/{family}/{number}");
                write!(f, "{name}-{:016x}", mix(hash(full)))
            }
            None if *kind == Kind::ExportRecord => write!(f, "{cluster}.{name}.{namespace}"),
            None => write!(f, "{cluster}-{name}"),
        }
    }
}

/// The hash of a text that is nowhere put together.
pub(super) fn hash(text: impl fmt::Display) -> u64 {
    use fmt::Write as _;
    struct Hash(u64);
    impl fmt::Write for Hash {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            self.0 = fnv1a_more(self.0, part.as_bytes());
            Ok(())
        }
    }
    let mut sum = Hash(fnv1a(&[]));
    // It takes whatever comes, so it cannot fail.
    let _ = write!(sum, "{text}");
    sum.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn web() -> ServiceKey {
        ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new("web").unwrap() }
    }

    fn east() -> ClusterId {
        ClusterId::new("east").unwrap()
    }

    fn slice(number: u16) -> Key {
        let source = Source { cluster: east(), slice: Some((Family::V4, number)) };
        Key { source: Some(source), ..Key::of_service(Kind::SourceSlice, &web()) }
    }

    #[test]
    fn an_api_knows_objects_of_many_clusters_by_names_that_differ() {
        let record = Key::of_service(Kind::ExportRecord, &web()).of(&east());
        assert_eq!(record.to_string(), "ExportRecord east.web.shop");
        let endpoint = Key::new(Kind::Endpoint, "", "submariner-cable-east-172-16-1-2").of(&east());
        assert_eq!(endpoint.to_string(), "Endpoint east-submariner-cable-east-172-16-1-2");
        assert_eq!(slice(0).to_string(), "SourceSlice shop/web-fd481b84f93c2bd2");
        assert_ne!(slice(0).api_name().to_string(), slice(1).api_name().to_string());
        assert_eq!(Key::of_service(Kind::Import, &web()).to_string(), "Import shop/web");
    }

    #[test]
    fn a_text_hashes_alike_in_one_part_and_in_many() {
        assert_eq!(hash(format_args!("{}/{}", "a", 12)), fnv1a(b"a/12"));
    }

    #[test]
    fn all_that_goes_by_one_service_follows_its_first_key() {
        let first = Key::of_service(Kind::SourceSlice, &web());
        let next = Key::new(Kind::SourceSlice, "shop", "web-2");
        let mut keys = [slice(1), next.clone(), slice(0), first.clone()];
        keys.sort();
        assert_eq!(keys, [first, slice(0), slice(1), next]);
        assert_eq!(keys.iter().filter(|key| key.as_key_ref().is_named(&web())).count(), 3);
    }

    #[test]
    fn only_what_is_named_like_a_service_tells_one() {
        assert_eq!(slice(0).service(), Some(web()));
        assert_eq!(Key::new(Kind::EndpointSlice, "shop", "web").service(), None);
        assert_eq!(Key::new(Kind::Import, "shop", "no_name").service(), None);
        let told: Vec<_> = [Kind::Node, Kind::Endpoint].map(|kind| Key::new(kind, "", "x").service()).into();
        assert_eq!(told, [None, None]);
    }
}
