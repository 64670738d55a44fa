//! Names in the zone, read from right to left.

use crate::base::{ClusterId, Label, LabelError};
use crate::model::ServiceKey;
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
        // Five labels at most have a meaning: more cannot name anything, so they need not be looked at.
        let labels: Vec<&[u8]> = labels.take(6).collect();
        let Some(labels) = labels.into_iter().map(parse).collect::<Option<Vec<Label>>>() else {
            return Place::Unheard;
        };
        inside(&labels)
    }
}

/// A label as the names of services, namespaces and clusters have it; nothing else occurs in the zone.
fn parse(label: &[u8]) -> Option<Label> {
    let text = core::str::from_utf8(label).ok()?;
    Label::new(&text.to_ascii_lowercase()).ok()
}

fn inside(from_right: &[Label]) -> Place {
    let Some((first, rest)) = from_right.split_first() else { return Place::Apex };
    match (first.as_str(), rest) {
        ("dns-version", []) => Place::Version,
        ("svc", []) => Place::Services,
        ("svc", [namespace]) => Place::Namespace(namespace.clone()),
        ("svc", [namespace, name, below @ ..]) => {
            let service = ServiceKey { namespace: namespace.clone(), name: name.clone() };
            match below {
                [] => Place::Service(service),
                [one] => Place::Below(service, one.clone()),
                [right, left] => match ClusterId::new(&format!("{left}.{right}")) {
                    Ok(cluster) => Place::Cluster(service, cluster),
                    Err(_) => Place::Unheard,
                },
                _ => Place::Unheard,
            }
        }
        _ => Place::Unheard,
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
    /// `<label>.<label>.<svc>.<ns>.svc.Z`: a cluster whose id is two labels.
    Cluster(ServiceKey, ClusterId),
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
        assert_eq!(
            place("east.eu.web.shop.svc.clusterset.local."),
            Place::Cluster(web(), ClusterId::new("east.eu").unwrap())
        );
    }

    #[test]
    fn other_shapes_cannot_exist() {
        for name in ["pod.", "web.shop.pod.", "a.b.c.web.shop.svc.", "_http._tcp.web.shop.svc.", "x.dns-version."] {
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
