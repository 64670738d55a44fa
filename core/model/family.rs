//! Address families.

use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// Address family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Of an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// A set of address families.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Family>", into = "Vec<Family>")]
pub struct Families {
    v4: bool,
    v6: bool,
}

impl IntoIterator for Families {
    type Item = Family;
    type IntoIter = core::iter::Flatten<core::array::IntoIter<Option<Family>, 2>>;
    fn into_iter(self) -> Self::IntoIter {
        [self.v4.then_some(Family::V4), self.v6.then_some(Family::V6)].into_iter().flatten()
    }
}

impl FromIterator<Family> for Families {
    fn from_iter<I: IntoIterator<Item = Family>>(all: I) -> Self {
        all.into_iter().fold(Self::default(), |set, family| match family {
            Family::V4 => Self { v4: true, ..set },
            Family::V6 => Self { v6: true, ..set },
        })
    }
}

impl<const N: usize> From<[Family; N]> for Families {
    fn from(all: [Family; N]) -> Self {
        all.into_iter().collect()
    }
}

impl From<Vec<Family>> for Families {
    fn from(all: Vec<Family>) -> Self {
        all.into_iter().collect()
    }
}

impl From<Families> for Vec<Family> {
    fn from(families: Families) -> Self {
        families.into_iter().collect()
    }
}

impl fmt::Debug for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(*self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn a_set_of_families_has_each_once_in_order_and_is_written_as_a_list() {
        let both: Families = [Family::V6, Family::V4, Family::V6].into();
        assert_eq!(Vec::from(both), [Family::V4, Family::V6]);
        assert_eq!(Vec::from(Families::from([Family::V6])), [Family::V6]);
        assert_eq!(Families::from(Vec::new()), Families::default());
        assert_eq!(format!("{both:?}"), "{V4, V6}");
    }
}
