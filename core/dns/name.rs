//! Names in the zone, read from right to left.

use crate::base::{ClusterId, Label, LabelError};
use crate::model::{Port, Protocol, ServiceKey};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use hickory_proto::rr::Name;
use serde::{Deserialize, Serialize};

/// Why a text is no domain name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    /// A label of a zone is not valid.
    #[error("zone {zone}: {error}")]
    Zone {
        /// The text given.
        zone: String,
        /// What is wrong with it.
        error: LabelError,
    },
    /// So long that some names of services would not fit.
    #[error("zone {zone}: {length} characters leave too little room for the names of services; it may have 57 at most")]
    ZoneTooLong {
        /// The text given.
        zone: String,
        /// Its length.
        length: usize,
    },
    /// Not a name that a message can carry.
    #[error("{name:?} is no domain name: {because}")]
    Name {
        /// The text given.
        name: String,
        /// Why.
        because: String,
    },
}

/// The domain that we answer for. `clusterset.local` unless set otherwise.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(Vec<Label>);

impl Zone {
    /// Longest zone, in characters: `<cluster>.<service>.<namespace>.svc.` takes up to 3 × 63 + 3 + 4 dots of the 253
    /// that a name may have (RFC 1035 2.3.4).
    const LENGTH_MAX: usize = 57;

    /// Checks and takes `text`; a dot at the end may be there or not.
    ///
    /// # Errors
    /// [`NameError::Zone`], [`NameError::ZoneTooLong`].
    pub fn new(text: &str) -> Result<Self, NameError> {
        let bare = text.strip_suffix('.').unwrap_or(text);
        if bare.len() > Self::LENGTH_MAX {
            return Err(NameError::ZoneTooLong { zone: text.into(), length: bare.len() });
        }
        let labels: Result<Vec<Label>, LabelError> =
            bare.split('.').map(|label| Label::new(&label.to_ascii_lowercase())).collect();
        labels.map(Self).map_err(|error| NameError::Zone { zone: text.into(), error })
    }

    /// Its labels, from left to right.
    #[must_use]
    pub fn labels(&self) -> &[Label] {
        &self.0
    }

    /// What `name` is in this zone, whatever the case of its letters.
    pub(super) fn place(&self, name: &Name) -> Place {
        let mut labels = name.iter().rev();
        for ours in self.0.iter().rev() {
            if !labels.next().is_some_and(|theirs| theirs.eq_ignore_ascii_case(ours.as_str().as_bytes())) {
                return Place::Elsewhere;
            }
        }
        // Seven labels at most have a meaning: more cannot name anything, so they need not be looked at.
        let labels: Vec<&[u8]> = labels.take(8).collect();
        labels
            .into_iter()
            .map(parse)
            .collect::<Option<Vec<Part>>>()
            .and_then(|labels| inside(&labels))
            .unwrap_or(Place::Unheard)
    }
}

/// One label inside the zone.
enum Part {
    /// As the names of services, namespaces, clusters and hosts have it.
    Plain(Label),
    /// `_x`: of the names of ports and protocols (RFC 2782).
    Underscored(Label),
}

fn parse(label: &[u8]) -> Option<Part> {
    let text = core::str::from_utf8(label).ok()?.to_ascii_lowercase();
    match text.strip_prefix('_') {
        Some(rest) => Label::new(rest).ok().map(Part::Underscored),
        None => Label::new(&text).ok().map(Part::Plain),
    }
}

/// Labels inside the zone, from the right; `None` for a shape that cannot exist.
fn inside(from_right: &[Part]) -> Option<Place> {
    let plain = from_right.iter().map_while(|part| match part {
        Part::Plain(label) => Some(label),
        Part::Underscored(_) => None,
    });
    let plain: Vec<&Label> = plain.collect();
    let underscored = from_right.get(plain.len()..).unwrap_or_default();
    let underscored: Option<Vec<&Label>> = underscored
        .iter()
        .map(|part| match part {
            Part::Underscored(label) => Some(label),
            Part::Plain(_) => None,
        })
        .collect();
    let (namespace, name, below) = match (plain.as_slice(), underscored.as_deref()?) {
        ([], []) => return Some(Place::Apex),
        ([one], []) => {
            return match one.as_str() {
                "dns-version" => Some(Place::Version),
                "svc" => Some(Place::Services),
                "dns" => Some(Place::Servers),
                _ => None,
            };
        }
        ([dns, ns], []) if dns.as_str() == "dns" && ns.as_str() == "ns" => return Some(Place::Server),
        ([svc, namespace], []) if svc.as_str() == "svc" => return Some(Place::Namespace((*namespace).clone())),
        ([svc, namespace, name, below @ ..], _) if svc.as_str() == "svc" => (*namespace, *name, below),
        _ => return None,
    };
    let service = ServiceKey { namespace: namespace.clone(), name: name.clone() };
    match underscored.as_deref()? {
        [] => below_service(service, below),
        [protocol, port @ ..] => {
            let cluster = match below {
                [] => None,
                [one] => Some(ClusterId::new(one.as_str()).ok()?),
                [right, left] => Some(two_labels(left, right)?),
                _ => return None,
            };
            let protocol = match protocol.as_str() {
                "tcp" => Protocol::Tcp,
                "udp" => Protocol::Udp,
                _ => return None,
            };
            match port {
                [] => Some(Place::Protocol(service, cluster, protocol)),
                [name] => Some(Place::Port(service, cluster, PortName { name: (*name).clone(), protocol })),
                _ => None,
            }
        }
    }
}

fn below_service(service: ServiceKey, below: &[&Label]) -> Option<Place> {
    match below {
        [] => Some(Place::Service(service)),
        [one] => Some(Place::Below(service, (*one).clone())),
        [right, left] => Some(Place::TwoBelow(service, (*left).clone(), (*right).clone())),
        [right, left, host] => Some(Place::ThreeBelow(service, (*host).clone(), two_labels(left, right)?)),
        _ => None,
    }
}

fn two_labels(left: &Label, right: &Label) -> Option<ClusterId> {
    ClusterId::new(&format!("{left}.{right}")).ok()
}

/// The name of a port in SRV names: `_<name>._<protocol>`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PortName {
    pub(super) name: Label,
    pub(super) protocol: Protocol,
}

impl PortName {
    pub(super) fn is(&self, port: &Port) -> bool {
        port.name.as_ref() == Some(&self.name) && port.protocol == self.protocol
    }
}

/// What a name stands for, by its shape alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Not in the zone.
    Elsewhere,
    /// `Z`
    Apex,
    /// `dns-version.Z`
    Version,
    /// `svc.Z`
    Services,
    /// `<ns>.svc.Z`
    Namespace(Label),
    /// `<svc>.<ns>.svc.Z`
    Service(ServiceKey),
    /// `<label>.<svc>.<ns>.svc.Z`: a cluster whose id is one label, or the right half of one whose id is two.
    Below(ServiceKey, Label),
    /// `<left>.<right>.<svc>.<ns>.svc.Z`: a cluster whose id is two labels, or a host of one whose id is one.
    TwoBelow(ServiceKey, Label, Label),
    /// `<host>.<label>.<label>.<svc>.<ns>.svc.Z`: a host of a cluster whose id is two labels.
    ThreeBelow(ServiceKey, Label, ClusterId),
    /// `_<protocol>.[<cluster>.]<svc>.<ns>.svc.Z`
    Protocol(ServiceKey, Option<ClusterId>, Protocol),
    /// `_<port>._<protocol>.[<cluster>.]<svc>.<ns>.svc.Z`
    Port(ServiceKey, Option<ClusterId>, PortName),
    /// `dns.Z`
    Servers,
    /// `ns.dns.Z`: who answers.
    Server,
    /// In the zone, but of no shape that can exist.
    Unheard,
}

impl Default for Zone {
    fn default() -> Self {
        // Written out, since parsing could fail as far as the types know.
        Self(["clusterset", "local"].iter().filter_map(|label| Label::new(label).ok()).collect())
    }
}

impl FromStr for Zone {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl TryFrom<String> for Zone {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(&text)
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> Self {
        format!("{zone}")
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, label) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(".")?;
            }
            f.write_str(label.as_str())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn place(text: &str) -> Place {
        Zone::default().place(&Name::from_ascii(text).unwrap())
    }

    fn web() -> ServiceKey {
        ServiceKey { namespace: Label::new("shop").unwrap(), name: Label::new("web").unwrap() }
    }

    #[test]
    fn a_zone_is_given_with_or_without_its_last_dot_and_in_any_case() {
        assert_eq!(Zone::new("ClusterSet.Local.").unwrap(), Zone::default());
        assert_eq!(Zone::default().to_string(), "clusterset.local");
    }

    #[test]
    fn a_zone_that_cannot_hold_names_is_refused_with_the_reason() {
        assert_eq!(
            Zone::new("cluster_set.local").unwrap_err().to_string(),
            "zone cluster_set.local: '_' at position 8: only a-z, 0-9 and '-' are allowed, and no '-' at either end"
        );
        let long = ["a"; 30].join(".");
        assert!(matches!(Zone::new(&long), Err(NameError::ZoneTooLong { length: 59, .. })));
        assert!(Zone::new("").is_err());
    }

    #[test]
    fn names_are_read_from_right_to_left_whatever_their_case() {
        assert_eq!(place("ClusterSet.LOCAL."), Place::Apex);
        assert_eq!(place("Svc.clusterset.local."), Place::Services);
        assert_eq!(place("shop.svc.clusterset.local."), Place::Namespace(web().namespace));
        assert_eq!(place("WEB.Shop.svc.clusterset.local."), Place::Service(web()));
        assert_eq!(place("east.web.shop.svc.clusterset.local."), Place::Below(web(), Label::new("east").unwrap()));
        let label = |text: &str| Label::new(text).unwrap();
        let east_eu = || ClusterId::new("east.eu").unwrap();
        let two = Place::TwoBelow(web(), label("db-0"), label("east"));
        assert_eq!(place("db-0.east.web.shop.svc.clusterset.local."), two);
        let three = Place::ThreeBelow(web(), label("db-0"), east_eu());
        assert_eq!(place("db-0.east.eu.web.shop.svc.clusterset.local."), three);
        assert_eq!(place("_TCP.web.shop.svc.clusterset.local."), Place::Protocol(web(), None, Protocol::Tcp));
        let http = || PortName { name: label("http"), protocol: Protocol::Tcp };
        assert_eq!(place("_http._tcp.web.shop.svc.clusterset.local."), Place::Port(web(), None, http()));
        assert_eq!(
            place("_http._tcp.east.eu.web.shop.svc.clusterset.local."),
            Place::Port(web(), Some(east_eu()), http())
        );
    }

    #[test]
    fn other_shapes_cannot_exist() {
        for name in [
            "pod.",
            "web.shop.pod.",
            "a.b.c.d.web.shop.svc.",
            "_x._http._tcp.web.shop.svc.",
            "_http._sctp.web.shop.svc.",
            "_tcp.shop.svc.",
            "_http.x._tcp.web.shop.svc.",
            "a._http._tcp.web.shop.svc.",
            "_._tcp.web.shop.svc.",
            "_http._tcp.a.b.c.web.shop.svc.",
            "x.dns-version.",
            "x.dns.",
            "x.ns.dns.",
        ] {
            assert_eq!(place(&alloc::format!("{name}clusterset.local.")), Place::Unheard, "{name}");
        }
    }

    #[test]
    fn a_label_that_holds_a_dot_is_not_two_labels() {
        assert_eq!(place("web\\.shop.svc.clusterset.local."), Place::Unheard);
    }

    #[test]
    fn a_zone_is_cut_at_labels_and_not_at_letters() {
        assert_eq!(place("xclusterset.local."), Place::Elsewhere);
        assert_eq!(place("local."), Place::Elsewhere);
        assert_eq!(place("."), Place::Elsewhere);
    }
}
