//! Which objects belong to a service whose name they do not have.

use crate::model::{Key, Object, ServiceKey, SourceSlice};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Objects of one kind by the service they belong to. An object can be moved to another service, and when it is gone
/// only its key is left to tell which service it belonged to (never read from its name: B66).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ByService {
    service_of: BTreeMap<Key, ServiceKey>,
    members: BTreeMap<ServiceKey, BTreeSet<Key>>,
}

impl ByService {
    /// Notes that `object` belongs to `service` now, or is gone. Gives the services that this concerns.
    pub(super) fn moved(&mut self, object: &Key, service: Option<ServiceKey>) -> Vec<ServiceKey> {
        let before = match &service {
            Some(service) => self.service_of.insert(object.clone(), service.clone()),
            None => self.service_of.remove(object),
        };
        if let Some(before) = before.as_ref().filter(|before| service.as_ref() != Some(before)) {
            self.leave(object, before);
        }
        if let Some(service) = &service {
            self.members.entry(service.clone()).or_default().insert(object.clone());
        }
        let mut concerned: Vec<ServiceKey> = before.into_iter().chain(service).collect();
        concerned.dedup();
        concerned
    }

    fn leave(&mut self, object: &Key, service: &ServiceKey) {
        if let Some(members) = self.members.get_mut(service) {
            members.remove(object);
            if members.is_empty() {
                self.members.remove(service);
            }
        }
    }

    /// The objects of `service`.
    pub(super) fn of(&self, service: &ServiceKey) -> impl Iterator<Item = &Key> {
        self.members.get(service).into_iter().flatten()
    }
}

/// The slice that an object is, if it is one.
pub(super) fn as_slice(object: &Object) -> Option<&Arc<SourceSlice>> {
    let Object::SourceSlice(slice) = object else { return None };
    Some(slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Label;
    use crate::model::Kind;
    use alloc::vec;

    fn service(name: &str) -> ServiceKey {
        ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new(name).unwrap() }
    }

    fn slice(name: &str) -> Key {
        Key::new(Kind::EndpointSlice, "shop", name)
    }

    #[test]
    fn an_object_that_moves_concerns_both_services_and_belongs_to_the_new_one() {
        let mut slices = ByService::default();
        assert_eq!(slices.moved(&slice("a"), Some(service("web"))), vec![service("web")]);
        assert_eq!(slices.moved(&slice("a"), Some(service("api"))), vec![service("web"), service("api")]);
        assert_eq!(slices.of(&service("web")).count(), 0);
        assert_eq!(slices.of(&service("api")).collect::<Vec<_>>(), vec![&slice("a")]);
    }

    #[test]
    fn an_object_that_is_gone_still_tells_its_service_and_leaves_nothing() {
        let mut slices = ByService::default();
        slices.moved(&slice("a"), Some(service("web")));
        assert_eq!(slices.moved(&slice("a"), None), vec![service("web")]);
        assert_eq!(slices.moved(&slice("a"), None), vec![]);
        assert_eq!(slices, ByService::default());
    }
}
