//! Address ranges.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// A range of IPv4 or IPv6 addresses whose host bits are zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "IpNet", into = "IpNet")]
pub struct Cidr(IpNet);

/// Why a text is no [`Cidr`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CidrError {
    /// Not of the form address/length.
    #[error("not a range of the form 10.1.0.0/16 or fd00::/64")]
    Syntax,
    /// Some bits behind the prefix are set.
    #[error("bits behind the prefix are set; did you mean {meant}?")]
    HostBits {
        /// The range that the address lies in.
        meant: Cidr,
    },
}

impl Cidr {
    /// The range of `len` bits in which `address` lies; the host bits are cut. `None` if `len` is too long.
    #[must_use]
    pub fn holding(address: IpAddr, len: u8) -> Option<Self> {
        IpNet::new(address, len).ok().map(|net| Self(net.trunc()))
    }

    /// The range that holds `address` alone.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        Self(IpNet::from(address))
    }

    /// First address.
    #[must_use]
    pub fn network(&self) -> IpAddr {
        self.0.network()
    }

    /// Last address.
    #[must_use]
    pub fn last(&self) -> IpAddr {
        self.0.broadcast()
    }

    /// Length of the prefix in bits.
    #[must_use]
    pub fn prefix_len(&self) -> u8 {
        self.0.prefix_len()
    }

    /// Whether `address` lies in it. Never across families.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Whether all of `other` lies in it. Never across families.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.0.contains(&other.0)
    }

    /// Whether an address lies in both. Symmetric.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// Whether it is an IPv4 range.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        matches!(self.0, IpNet::V4(_))
    }

    /// The `index`-th address, counted from the network address. `None` past the end.
    #[must_use]
    pub fn nth(&self, index: u128) -> Option<IpAddr> {
        match self.network() {
            IpAddr::V4(first) => {
                let offset = u32::try_from(index).ok()?;
                let bits = u32::from(first).checked_add(offset)?;
                Some(IpAddr::from(bits.to_be_bytes())).filter(|a| self.contains(*a))
            }
            IpAddr::V6(first) => {
                let bits = u128::from(first).checked_add(index)?;
                Some(IpAddr::from(bits.to_be_bytes())).filter(|a| self.contains(*a))
            }
        }
    }

    /// The `index`-th sub-range of `len` bits. `None` past the end, or if `len` is shorter than its own.
    #[must_use]
    pub fn subrange(&self, len: u8, index: u32) -> Option<Self> {
        let width = if self.is_ipv4() { 32 } else { 128 };
        if len < self.prefix_len() || len > width {
            return None;
        }
        let offset = u128::from(index).checked_mul(1u128.checked_shl(u32::from(width - len))?)?;
        Self::holding(self.nth(offset)?, len)
    }
}

impl TryFrom<IpNet> for Cidr {
    type Error = CidrError;
    fn try_from(net: IpNet) -> Result<Self, CidrError> {
        let meant = Self(net.trunc());
        if meant.0 == net { Ok(meant) } else { Err(CidrError::HostBits { meant }) }
    }
}

impl From<Cidr> for IpNet {
    fn from(cidr: Cidr) -> Self {
        cidr.0
    }
}

impl FromStr for Cidr {
    type Err = CidrError;
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, length) = text.split_once('/').ok_or(CidrError::Syntax)?;
        // Not as ipnet does, which reads 010.1.0.0 as 10.1.0.0: others read it as 8.1.0.0.
        let address: IpAddr = address.parse().map_err(|_| CidrError::Syntax)?;
        let is_plain = length.bytes().all(|byte| byte.is_ascii_digit()) && (length == "0" || !length.starts_with('0'));
        let length: u8 = length.parse().ok().filter(|_| is_plain).ok_or(CidrError::Syntax)?;
        IpNet::new(address, length).map_err(|_| CidrError::Syntax)?.try_into()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn host_bits_are_refused_with_the_range_that_was_meant() {
        assert_eq!(
            "10.1.2.3/16".parse::<Cidr>().unwrap_err().to_string(),
            "bits behind the prefix are set; did you mean 10.1.0.0/16?"
        );
    }

    #[test]
    fn leading_zeros_and_signs_are_refused() {
        for text in
            ["010.1.0.0/16", "10.1.0.0/016", "10.1.0.0/+16", "10.1.0.0/", "10.1.0.0", "10.1.0.0/33", "/16", "10.1/16"]
        {
            assert_eq!(text.parse::<Cidr>(), Err(CidrError::Syntax), "{text}");
        }
        assert_eq!(["0.0.0.0/0", "::/0"].map(|text| cidr(text).to_string()), ["0.0.0.0/0", "::/0"]);
    }

    #[test]
    fn overlap_is_symmetric_and_never_across_families() {
        assert!(cidr("10.0.0.0/8").overlaps(&cidr("10.1.0.0/16")));
        assert!(cidr("10.1.0.0/16").overlaps(&cidr("10.0.0.0/8")));
        assert!(!cidr("10.1.0.0/16").overlaps(&cidr("10.2.0.0/16")));
        assert!(!cidr("0.0.0.0/0").overlaps(&cidr("fd00::/8")));
    }

    #[test]
    fn nth_and_subrange_stop_at_the_end() {
        assert_eq!(cidr("10.1.0.0/16").nth(258).unwrap().to_string(), "10.1.1.2");
        assert_eq!(cidr("10.1.0.0/30").nth(4), None);
        assert_eq!(cidr("255.255.255.252/30").nth(4), None);
        assert_eq!(cidr("10.1.0.0/16").subrange(24, 3), Some(cidr("10.1.3.0/24")));
        assert_eq!(cidr("10.1.0.0/16").subrange(24, 256), None);
        assert_eq!(cidr("10.1.0.0/16").subrange(8, 0), None);
        assert_eq!(cidr("fd00::/48").subrange(64, 1), Some(cidr("fd00:0:0:1::/64")));
    }
}
