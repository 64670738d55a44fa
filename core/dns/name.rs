//! Names in the zone, read from right to left.

use crate::base::hash::{fnv1a, fnv1a_more};
use crate::base::{ClusterId, Label, LabelError, is_label};
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

    /// What `name` is in this zone, whatever the case of its letters, which are lowered in `room`.
    pub(super) fn place<'a>(&self, name: &Name, room: &'a mut Room) -> Place<'a> {
        let mut labels = name.iter().rev();
        for ours in self.0.iter().rev() {
            if !labels.next().is_some_and(|theirs| theirs.eq_ignore_ascii_case(ours.as_str().as_bytes())) {
                return Place::Elsewhere;
            }
        }
        room.lowered(labels).and_then(|labels| inside(labels.as_slice())).unwrap_or(Place::Unheard)
    }
}

/// Seven labels inside the zone at most have a meaning; more cannot name anything, so they need not be looked at.
const LABELS_MAX: usize = 7;

/// Room for the letters of a name, so that to read it takes no memory.
pub(super) struct Room([u8; Name::MAX_LENGTH]);

impl Default for Room {
    fn default() -> Self {
        Self([0; Name::MAX_LENGTH])
    }
}

impl Room {
    /// The labels, lowered; `None` if one of them is in no name.
    fn lowered<'a, 'b>(&'a mut self, labels: impl Iterator<Item = &'b [u8]>) -> Option<Labels<'a>> {
        let mut rest = self.0.as_mut_slice();
        let mut lowered = Labels::default();
        for label in labels {
            let (here, more) = rest.split_at_mut_checked(label.len())?;
            here.copy_from_slice(label);
            here.make_ascii_lowercase();
            lowered.push(part(core::str::from_utf8(here).ok()?)?)?;
            rest = more;
        }
        Some(lowered)
    }
}

/// The labels of a name inside the zone, from the right.
#[derive(Default)]
struct Labels<'a> {
    parts: [Part<'a>; LABELS_MAX],
    count: usize,
}

impl<'a> Labels<'a> {
    fn push(&mut self, part: Part<'a>) -> Option<()> {
        *self.parts.get_mut(self.count)? = part;
        self.count += 1;
        Some(())
    }

    fn as_slice(&self) -> &[Part<'a>] {
        self.parts.get(..self.count).unwrap_or_default()
    }
}

/// One label inside the zone.
#[derive(Clone, Copy)]
enum Part<'a> {
    /// As the names of services, namespaces, clusters and hosts have it.
    Plain(&'a str),
    /// `_x`: of the names of ports and protocols (RFC 2782).
    Underscored(&'a str),
}

impl Default for Part<'_> {
    fn default() -> Self {
        Self::Plain("")
    }
}

fn part(label: &str) -> Option<Part<'_>> {
    let (bare, part) = match label.strip_prefix('_') {
        Some(rest) => (rest, Part::Underscored(rest)),
        None => (label, Part::Plain(label)),
    };
    is_label(bare).then_some(part)
}

/// Labels inside the zone, from the right; `None` for a shape that cannot exist.
fn inside<'a>(from_right: &[Part<'a>]) -> Option<Place<'a>> {
    use Part::{Plain, Underscored};
    let (namespace, name, below) = match from_right {
        [] => return Some(Place::Apex),
        [Plain("dns-version")] => return Some(Place::Version),
        [Plain("svc")] => return Some(Place::Services),
        [Plain("dns")] => return Some(Place::Servers),
        [Plain("dns"), Plain("ns")] => return Some(Place::Server),
        [Plain("svc"), Plain(namespace)] => return Some(Place::Namespace(namespace)),
        [Plain("svc"), Plain(namespace), Plain(name), below @ ..] => (namespace, name, below),
        _ => return None,
    };
    let service = ServiceName { namespace, name };
    match below {
        [] => Some(Place::Service(service)),
        [Plain(one)] => Some(Place::Below(service, one)),
        [Plain(right), Plain(left)] => Some(Place::TwoBelow(service, left, right)),
        [Plain(right), Plain(left), Plain(host)] => {
            Some(Place::ThreeBelow(service, host, ClusterName::Two(left, right)))
        }
        [Underscored(protocol), port @ ..] => of_ports(service, None, protocol, port),
        [Plain(one), Underscored(protocol), port @ ..] => {
            of_ports(service, Some(ClusterName::One(one)), protocol, port)
        }
        [Plain(right), Plain(left), Underscored(protocol), port @ ..] => {
            of_ports(service, Some(ClusterName::Two(left, right)), protocol, port)
        }
        _ => None,
    }
}

fn of_ports<'a>(
    service: ServiceName<'a>,
    cluster: Option<ClusterName<'a>>,
    protocol: &str,
    port: &[Part<'a>],
) -> Option<Place<'a>> {
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return None,
    };
    match port {
        [] => Some(Place::Protocol(service, cluster, protocol)),
        [Part::Underscored(name)] => Some(Place::Port(service, cluster, PortName { name, protocol })),
        _ => None,
    }
}

/// The name of a service, as a query has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ServiceName<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl<'a> From<&'a ServiceKey> for ServiceName<'a> {
    fn from(key: &'a ServiceKey) -> Self {
        Self { namespace: key.namespace.as_str(), name: key.name.as_str() }
    }
}

impl ServiceName<'_> {
    /// Of `<namespace>/<name>`.
    pub(super) fn hash(self) -> u64 {
        [b"/", self.name.as_bytes()].into_iter().fold(fnv1a(self.namespace.as_bytes()), fnv1a_more)
    }
}

/// The id of a cluster, as a query has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClusterName<'a> {
    /// Of one label.
    One(&'a str),
    /// Of two labels.
    Two(&'a str, &'a str),
}

impl ClusterName<'_> {
    pub(super) fn is(self, cluster: &ClusterId) -> bool {
        match self {
            Self::One(label) => cluster.as_str() == label,
            Self::Two(left, right) => cluster.as_str().split_once('.') == Some((left, right)),
        }
    }
}

/// The name of a port in SRV names: `_<name>._<protocol>`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PortName<'a> {
    pub(super) name: &'a str,
    pub(super) protocol: Protocol,
}

impl PortName<'_> {
    pub(super) fn is(self, port: &Port) -> bool {
        port.name.as_ref().map(Label::as_str) == Some(self.name) && port.protocol == self.protocol
    }
}

/// What a name stands for, by its shape alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place<'a> {
    /// Not in the zone.
    Elsewhere,
    /// `Z`
    Apex,
    /// `dns-version.Z`
    Version,
    /// `svc.Z`
    Services,
    /// `<ns>.svc.Z`
    Namespace(&'a str),
    /// `<svc>.<ns>.svc.Z`
    Service(ServiceName<'a>),
    /// `<label>.<svc>.<ns>.svc.Z`: a cluster whose id is one label, or the right half of one whose id is two.
    Below(ServiceName<'a>, &'a str),
    /// `<left>.<right>.<svc>.<ns>.svc.Z`: a cluster whose id is two labels, or a host of one whose id is one.
    TwoBelow(ServiceName<'a>, &'a str, &'a str),
    /// `<host>.<label>.<label>.<svc>.<ns>.svc.Z`: a host of a cluster whose id is two labels.
    ThreeBelow(ServiceName<'a>, &'a str, ClusterName<'a>),
    /// `_<protocol>.[<cluster>.]<svc>.<ns>.svc.Z`
    Protocol(ServiceName<'a>, Option<ClusterName<'a>>, Protocol),
    /// `_<port>._<protocol>.[<cluster>.]<svc>.<ns>.svc.Z`
    Port(ServiceName<'a>, Option<ClusterName<'a>>, PortName<'a>),
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

    /// The place of a name, written out.
    fn place(text: &str) -> String {
        format!("{:?}", Zone::default().place(&Name::from_ascii(text).unwrap(), &mut Room::default()))
    }

    fn is(place: Place<'_>) -> String {
        format!("{place:?}")
    }

    const WEB: ServiceName<'_> = ServiceName { namespace: "shop", name: "web" };

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
        assert_eq!(place("ClusterSet.LOCAL."), is(Place::Apex));
        assert_eq!(place("Svc.clusterset.local."), is(Place::Services));
        assert_eq!(place("shop.svc.clusterset.local."), is(Place::Namespace("shop")));
        assert_eq!(place("WEB.Shop.svc.clusterset.local."), is(Place::Service(WEB)));
        assert_eq!(place("east.web.shop.svc.clusterset.local."), is(Place::Below(WEB, "east")));
        let east_eu = ClusterName::Two("east", "eu");
        assert_eq!(place("db-0.east.web.shop.svc.clusterset.local."), is(Place::TwoBelow(WEB, "db-0", "east")));
        let three = is(Place::ThreeBelow(WEB, "db-0", east_eu));
        assert_eq!(place("db-0.east.eu.web.shop.svc.clusterset.local."), three);
        assert_eq!(place("_TCP.web.shop.svc.clusterset.local."), is(Place::Protocol(WEB, None, Protocol::Tcp)));
        let http = PortName { name: "http", protocol: Protocol::Tcp };
        assert_eq!(place("_http._tcp.web.shop.svc.clusterset.local."), is(Place::Port(WEB, None, http)));
        let of_east = is(Place::Port(WEB, Some(east_eu), http));
        assert_eq!(place("_http._tcp.east.eu.web.shop.svc.clusterset.local."), of_east);
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
            assert_eq!(place(&alloc::format!("{name}clusterset.local.")), is(Place::Unheard), "{name}");
        }
    }

    #[test]
    fn a_label_that_holds_a_dot_is_not_two_labels() {
        assert_eq!(place("web\\.shop.svc.clusterset.local."), is(Place::Unheard));
    }

    #[test]
    fn a_zone_is_cut_at_labels_and_not_at_letters() {
        assert_eq!(place("xclusterset.local."), is(Place::Elsewhere));
        assert_eq!(place("local."), is(Place::Elsewhere));
        assert_eq!(place("."), is(Place::Elsewhere));
    }
}
