//! On what the exports of one name disagree.

use super::import::by_age;
use crate::base::ClusterId;
use crate::model::{ExportRecord, Offer, ServiceType, SessionAffinity};
use alloc::vec::Vec;
use core::fmt;

/// What exports of one name can disagree on, each a reason of the condition `Conflict` (MCS API).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Property {
    /// Names, numbers, protocols and application protocols of ports.
    Ports,
    /// Cluster IP or headless.
    Type,
    /// Whether clients stay with their backends.
    SessionAffinity,
    /// For how long they do.
    SessionAffinityConfig,
    /// Exported labels.
    Labels,
    /// Exported annotations.
    Annotations,
    /// Internal traffic policy.
    InternalTrafficPolicy,
    /// Traffic distribution.
    TrafficDistribution,
    /// Address families: some backends are reached by one only.
    IpFamily,
}

impl Property {
    /// All of them, in the order in which conditions name them.
    const ALL: [Self; 9] = [
        Self::Ports,
        Self::Type,
        Self::SessionAffinity,
        Self::SessionAffinityConfig,
        Self::Labels,
        Self::Annotations,
        Self::InternalTrafficPolicy,
        Self::TrafficDistribution,
        Self::IpFamily,
    ];

    /// The reason of the condition.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Ports => "PortConflict",
            Self::Type => "TypeConflict",
            Self::SessionAffinity => "SessionAffinityConflict",
            Self::SessionAffinityConfig => "SessionAffinityConfigConflict",
            Self::Labels => "LabelsConflict",
            Self::Annotations => "AnnotationsConflict",
            Self::InternalTrafficPolicy => "InternalTrafficPolicyConflict",
            Self::TrafficDistribution => "TrafficDistributionConflict",
            Self::IpFamily => "IPFamilyConflict",
        }
    }

    /// Whether two exports disagree on it. A headless service has no use for session affinity.
    fn differs(self, a: &Offer, b: &Offer) -> bool {
        let sticky = |offer: &Offer| match offer.affinity {
            SessionAffinity::ClientIp { timeout_s } if offer.service_type == ServiceType::ClusterIp => Some(timeout_s),
            SessionAffinity::ClientIp { .. } | SessionAffinity::None => None,
        };
        let (stays_a, stays_b) = (sticky(a), sticky(b));
        match self {
            Self::Ports => a.ports != b.ports,
            Self::Type => a.service_type != b.service_type,
            Self::SessionAffinity => stays_a.is_some() != stays_b.is_some(),
            Self::SessionAffinityConfig => stays_a.is_some() && stays_b.is_some() && stays_a != stays_b,
            Self::Labels => a.labels != b.labels,
            Self::Annotations => a.annotations != b.annotations,
            Self::InternalTrafficPolicy => a.internal_traffic != b.internal_traffic,
            Self::TrafficDistribution => a.traffic_distribution != b.traffic_distribution,
            Self::IpFamily => a.families != b.families,
        }
    }

    /// What the import has of it.
    const fn outcome(self) -> &'static str {
        match self {
            Self::Ports => "the import has the ports of all, and where name or number are taken, the oldest's",
            Self::Type => "exports of another type are not imported",
            Self::IpFamily => "the import has the families of all, and some backends are reached by one of them only",
            Self::SessionAffinity
            | Self::SessionAffinityConfig
            | Self::Labels
            | Self::Annotations
            | Self::InternalTrafficPolicy
            | Self::TrafficDistribution => "the import has the oldest's",
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ports => "ports",
            Self::Type => "type",
            Self::SessionAffinity => "session affinity",
            Self::SessionAffinityConfig => "time of session affinity",
            Self::Labels => "exported labels",
            Self::Annotations => "exported annotations",
            Self::InternalTrafficPolicy => "internal traffic policy",
            Self::TrafficDistribution => "traffic distribution",
            Self::IpFamily => "address families",
        })
    }
}

/// A disagreement. It concerns every export of the name, the oldest as well (B42).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// On what.
    pub property: Property,
    /// Whose export is the oldest.
    pub winner: ClusterId,
    /// How many exports differ from it.
    pub differ: usize,
    /// How many exports there are.
    pub of: usize,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { property, winner, differ, of } = self;
        let verb = if *differ == 1 { "differs" } else { "differ" };
        let outcome = property.outcome();
        write!(f, "{property}: {differ} of {of} exports {verb} from {winner}'s, the oldest; {outcome}")
    }
}

/// All disagreements among the `records` of one service, whatever their order.
#[must_use]
pub fn conflicts<'a>(records: impl IntoIterator<Item = &'a ExportRecord>) -> Vec<Conflict> {
    let by_age = by_age(records);
    let Some((oldest, others)) = by_age.split_first() else { return Vec::new() };
    let on = |property: Property| {
        let differ = others.iter().filter(|other| property.differs(&oldest.offer, &other.offer)).count();
        (differ > 0).then(|| Conflict { property, winner: oldest.cluster.clone(), differ, of: by_age.len() })
    };
    Property::ALL.into_iter().filter_map(on).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;
    use crate::model::{Family, InternalTrafficPolicy};
    use alloc::string::{String, ToString};
    use alloc::sync::Arc;
    use alloc::vec;

    fn reasons(records: &[ExportRecord]) -> Vec<&'static str> {
        conflicts(records).iter().map(|conflict| conflict.property.reason()).collect()
    }

    /// Two exports; the newer one is changed.
    fn against(change: impl FnOnce(&mut Offer)) -> Vec<&'static str> {
        let mut new = record("east", 2, vec![port("http", Protocol::Tcp, 80)]);
        change(Arc::make_mut(&mut new.offer));
        reasons(&[record("west", 1, vec![port("http", Protocol::Tcp, 80)]), new])
    }

    #[test]
    fn each_property_has_its_reason() {
        assert_eq!(against(|_| {}), Vec::<&str>::new());
        assert_eq!(against(|o| o.ports = [port("http", Protocol::Tcp, 81)].into()), ["PortConflict"]);
        assert_eq!(against(|o| o.ports = [].into()), ["PortConflict"]);
        assert_eq!(against(|o| o.service_type = ServiceType::Headless), ["TypeConflict"]);
        let sticky = SessionAffinity::ClientIp { timeout_s: 60 };
        assert_eq!(against(|o| o.affinity = sticky), ["SessionAffinityConflict"]);
        assert_eq!(against(|o| o.labels = [("a".into(), "b".into())].into()), ["LabelsConflict"]);
        assert_eq!(against(|o| o.annotations = [("a".into(), "b".into())].into()), ["AnnotationsConflict"]);
        let local = InternalTrafficPolicy::Local;
        assert_eq!(against(|o| o.internal_traffic = local), ["InternalTrafficPolicyConflict"]);
        let close = Some(String::from("PreferClose"));
        assert_eq!(against(|o| o.traffic_distribution = close), ["TrafficDistributionConflict"]);
        assert_eq!(against(|o| o.families = [Family::V4, Family::V6].into()), ["IPFamilyConflict"]);
    }

    #[test]
    fn the_time_of_affinity_is_a_conflict_of_its_own() {
        let sticky = |cluster: &str, created_s: u64, timeout_s: u32| {
            let mut record = record(cluster, created_s, vec![]);
            Arc::make_mut(&mut record.offer).affinity = SessionAffinity::ClientIp { timeout_s };
            record
        };
        assert_eq!(reasons(&[sticky("west", 1, 60), sticky("east", 2, 90)]), ["SessionAffinityConfigConflict"]);
        assert_eq!(reasons(&[sticky("west", 1, 60), sticky("east", 2, 60)]), Vec::<&str>::new());
    }

    #[test]
    fn a_conflict_names_the_oldest_export_and_how_many_differ_b42() {
        let web = || vec![port("http", Protocol::Tcp, 80)];
        let mut headless = record("east", 2, web());
        Arc::make_mut(&mut headless.offer).service_type = ServiceType::Headless;
        let other = record("north", 3, vec![]);
        for records in [
            [record("west", 1, web()), headless.clone(), other.clone()],
            [other.clone(), headless.clone(), record("west", 1, web())],
        ] {
            let told: Vec<String> = conflicts(&records).iter().map(ToString::to_string).collect();
            assert_eq!(
                told,
                [
                    "ports: 1 of 3 exports differs from west's, the oldest; the import has the ports of all, and where \
                     name or number are taken, the oldest's",
                    "type: 1 of 3 exports differs from west's, the oldest; exports of another type are not imported",
                ]
            );
        }
        assert_eq!(reasons(&[headless, other]).len(), 2, "when west leaves, east and north disagree on the same");
        assert_eq!(reasons(&[record("west", 1, web())]), Vec::<&str>::new());
    }

    #[test]
    fn headless_exports_do_not_disagree_on_session_affinity() {
        let headless = |cluster: &str, affinity| {
            let mut record = record(cluster, 1, vec![]);
            let offer = Arc::make_mut(&mut record.offer);
            (offer.service_type, offer.affinity) = (ServiceType::Headless, affinity);
            record
        };
        let sticky = |timeout_s| SessionAffinity::ClientIp { timeout_s };
        let records = [headless("a", SessionAffinity::None), headless("b", sticky(60)), headless("c", sticky(90))];
        assert_eq!(reasons(&records), Vec::<&str>::new());
    }
}
