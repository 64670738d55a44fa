//! Endpoints into slices.
//!
//! An endpoint stays in the slice that has it, and a new one goes where there is room: one pod more or less changes one
//! slice, however many there are. When pods have gone and the slices are half empty, they are packed anew.

use super::Endpoints;
use crate::base::ClusterId;
use crate::model::{Family, ServiceKey, SourceEndpoint, SourceSlice};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

/// Endpoints by address, by the number of their slice.
type Placed = BTreeMap<u16, BTreeMap<IpAddr, SourceEndpoint>>;

/// The slices that `cluster` has of the service `key`, given those that it has so far.
#[must_use]
pub fn pack(cluster: &ClusterId, key: &ServiceKey, wanted: &Endpoints, known: &[&SourceSlice]) -> Vec<SourceSlice> {
    let mut placed: Vec<Placed> = Vec::new();
    let mut taken: BTreeSet<(Family, u16)> = BTreeSet::new();
    for ((family, ports), endpoints) in wanted {
        let fits = known.iter().filter(|slice| slice.family == *family && slice.ports == *ports);
        let kept = keep(endpoints, &fits.copied().collect::<Vec<_>>());
        taken.extend(kept.keys().map(|number| (*family, *number)));
        placed.push(kept);
    }
    let mut slices = Vec::new();
    for (((family, ports), endpoints), mut placed) in wanted.iter().zip(placed) {
        fill(&mut placed, endpoints, |number| taken.insert((*family, number)));
        slices.extend(placed.into_iter().map(|(number, endpoints)| SourceSlice {
            cluster: cluster.clone(),
            key: key.clone(),
            family: *family,
            number,
            endpoints: endpoints.into_values().collect(),
            ports: ports.clone(),
        }));
    }
    slices
}

/// Those endpoints that have a place, unless the slices are so empty that half of them would do.
fn keep(endpoints: &BTreeMap<IpAddr, SourceEndpoint>, known: &[&SourceSlice]) -> Placed {
    let mut placed = Placed::new();
    let mut has_place: BTreeSet<IpAddr> = BTreeSet::new();
    for slice in known {
        for address in slice.endpoints.iter().map(|endpoint| endpoint.address) {
            if let Some(endpoint) = endpoints.get(&address).filter(|_| has_place.insert(address)) {
                placed.entry(slice.number).or_default().insert(address, endpoint.clone());
            }
        }
    }
    let needed = has_place.len().div_ceil(SourceSlice::ENDPOINTS_MAX);
    let packed = placed.values().all(|slice| slice.len() <= SourceSlice::ENDPOINTS_MAX);
    if packed && placed.len() <= 2 * needed { placed } else { Placed::new() }
}

/// Gives a place to those that have none; `take` says whether a number is free, and takes it.
fn fill(placed: &mut Placed, endpoints: &BTreeMap<IpAddr, SourceEndpoint>, mut take: impl FnMut(u16) -> bool) {
    let has_place: BTreeSet<IpAddr> = placed.values().flat_map(BTreeMap::keys).copied().collect();
    let mut homeless = endpoints.iter().filter(|(address, _)| !has_place.contains(*address)).peekable();
    for slice in placed.values_mut() {
        while slice.len() < SourceSlice::ENDPOINTS_MAX
            && let Some((address, endpoint)) = homeless.next()
        {
            slice.insert(*address, endpoint.clone());
        }
    }
    for number in 0..=u16::MAX {
        if homeless.peek().is_none() {
            return;
        }
        if take(number) {
            let slice = homeless.by_ref().take(SourceSlice::ENDPOINTS_MAX);
            placed.insert(number, slice.map(|(address, endpoint)| (*address, endpoint.clone())).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;
    use crate::base::Few;
    use crate::model::Port;
    use alloc::format;
    use alloc::string::String;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;

    /// Pods by number; those above 1,000 listen on another port, those above 2,000 are of the other family.
    fn pods(numbers: impl IntoIterator<Item = u16>) -> Endpoints {
        let mut endpoints = Endpoints::new();
        for number in numbers {
            let [_, _, c, d] = u32::from(number).to_be_bytes();
            let v4 = Ipv4Addr::new(10, 2, c, d);
            let (family, address) = if number < 2_000 {
                (Family::V4, IpAddr::V4(v4))
            } else {
                (Family::V6, IpAddr::V6(v4.to_ipv6_mapped()))
            };
            let ports: Few<Port> = [port("", Protocol::Tcp, if number < 1_000 { 80 } else { 81 })].into();
            let endpoint = SourceEndpoint { address, hostname: None, ready: true };
            endpoints.entry((family, ports)).or_default().insert(address, endpoint);
        }
        endpoints
    }

    fn packed(wanted: &Endpoints, known: &[SourceSlice]) -> Vec<SourceSlice> {
        pack(&cluster("east"), &key(), wanted, &known.iter().collect::<Vec<_>>())
    }

    fn sizes(slices: &[SourceSlice]) -> Vec<String> {
        slices.iter().map(|slice| format!("{} {}: {}", slice.family, slice.number, slice.endpoints.len())).collect()
    }

    #[test]
    fn a_slice_has_a_hundred_endpoints_at_most_and_one_family() {
        let slices = packed(&pods((0..250).chain(2_000..2_001)), &[]);
        assert_eq!(sizes(&slices), ["IPv4 0: 100", "IPv4 1: 100", "IPv4 2: 50", "IPv6 0: 1"]);
    }

    #[test]
    fn one_pod_more_or_less_changes_one_slice() {
        let before = packed(&pods(0..250), &[]);
        let after = packed(&pods((0..250).filter(|pod| *pod != 7).chain([999])), &before);
        let changed: Vec<u16> =
            before.iter().zip(&after).filter(|(a, b)| a != b).map(|(slice, _)| slice.number).collect();
        assert_eq!(changed, [0], "the new one took the place of the one that went");
    }

    #[test]
    fn half_empty_slices_are_packed_anew() {
        let before = packed(&pods(0..400), &[]);
        let few = pods((0..400).filter(|pod| pod % 100 == 0));
        assert_eq!(sizes(&packed(&few, &before)), ["IPv4 0: 4"]);
    }

    #[test]
    fn a_slice_whose_ports_change_is_changed_and_not_doubled_label_change_updates_slice() {
        let before = packed(&pods(0..3), &[]);
        let moved: Endpoints = pods(0..3)
            .into_iter()
            .map(|((family, _), endpoints)| ((family, [port("", Protocol::Tcp, 99)].into()), endpoints))
            .collect();
        assert_eq!(sizes(&packed(&moved, &before)), ["IPv4 0: 3"]);
    }

    proptest! {
        #[test]
        fn every_endpoint_has_one_place_and_packing_again_changes_nothing(
            first in prop::collection::btree_set(0..2_500u16, 0..400),
            second in prop::collection::btree_set(0..2_500u16, 0..400),
        ) {
            let before = packed(&pods(first), &[]);
            let wanted = pods(second);
            let after = packed(&wanted, &before);
            let numbers: BTreeSet<_> = after.iter().map(|slice| (slice.family, slice.number)).collect();
            prop_assert_eq!(numbers.len(), after.len());
            let mut found = Endpoints::new();
            for slice in &after {
                prop_assert!((1..=SourceSlice::ENDPOINTS_MAX).contains(&slice.endpoints.len()));
                prop_assert!(slice.endpoints.is_sorted());
                for endpoint in &slice.endpoints {
                    let of_kind = found.entry((slice.family, slice.ports.clone())).or_default();
                    prop_assert_eq!(of_kind.insert(endpoint.address, endpoint.clone()), None);
                }
            }
            prop_assert_eq!(&found, &wanted);
            prop_assert_eq!(packed(&wanted, &after), after);
        }
    }
}
