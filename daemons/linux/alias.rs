//! Which links are ours: their alias says so, and what the kernel does not know of a cable.

use data_encoding::HEXLOWER;
use std::fmt;
use tombolo_core::base::Slot;
use tombolo_core::model::{CableDriver, CableKey};
use tombolo_core::network::LinkKind;

/// First word of all aliases of ours.
const OURS: &str = "tombolo";

/// The alias of a link of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Alias {
    /// Our overlay; the rest is what the kernel knows of a VXLAN device.
    Overlay,
    /// A cable device, whatever it is to the kernel.
    Cable {
        /// How it carries packets.
        driver: CableDriver,
        /// Rank of the remote candidates.
        rank: Slot,
        /// Own UDP port.
        port: u16,
        /// Own public key.
        key: CableKey,
    },
}

impl Alias {
    /// That of a link of this kind; `None` if such links are never ours.
    pub(crate) const fn of(kind: &LinkKind) -> Option<Self> {
        match kind {
            LinkKind::Overlay { .. } => Some(Self::Overlay),
            LinkKind::Cable { driver, rank, port, key } => {
                Some(Self::Cable { driver: *driver, rank: *rank, port: *port, key: *key })
            }
            LinkKind::Uplink | LinkKind::Pods => None,
        }
    }

    /// Reads one; `None` if it is not ours.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut next = || words.next();
        if next()? != OURS {
            return None;
        }
        match next()? {
            "overlay" => Some(Self::Overlay),
            "cable" => {
                let name = next()?;
                let drivers = [CableDriver::Wireguard, CableDriver::Vxlan, CableDriver::Ipsec];
                let driver = drivers.into_iter().find(|driver| driver.to_string() == name)?;
                let mut value = |label| if next()? == label { next() } else { None };
                let rank = Slot::try_from(value("rank")?.parse::<u8>().ok()?).ok()?;
                let port = value("port")?.parse().ok()?;
                let key = HEXLOWER.decode(value("key")?.as_bytes()).ok()?;
                Some(Self::Cable { driver, rank, port, key: CableKey(key.try_into().ok()?) })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlay => write!(f, "{OURS} overlay"),
            Self::Cable { driver, rank, port, key } => {
                write!(f, "{OURS} cable {driver} rank {rank} port {port} key {}", HEXLOWER.encode(&key.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_alias_is_read_as_it_was_written(rank in 1u8..=4, port: u16, key: [u8; 32], overlay: bool) {
            let rank = Slot::try_from(rank).unwrap();
            let cable = Alias::Cable { driver: CableDriver::Wireguard, rank, port, key: CableKey(key) };
            let alias = if overlay { Alias::Overlay } else { cable };
            let text = alias.to_string();
            prop_assert!(text.len() < 256, "longer than the kernel keeps");
            prop_assert_eq!(Alias::parse(&text), Some(alias));
        }

        #[test]
        fn what_others_wrote_is_not_ours(text in ".{0,80}") {
            prop_assume!(!text.starts_with("tombolo overlay"));
            prop_assert_eq!(Alias::parse(&text), None);
        }
    }
}
