//! What the hands of NAT discovery do alike at both speeds: they seal and open, and somebody outside tells a host its
//! public address.
//!
//! The lookup stands for a service on the internet (STUN, or one of Submariner's list) that every host with power
//! reaches: no fault of a timeline cuts it off.

use super::Layout;
use core::time::Duration;
use tombolo_core::base::ClusterId;
use tombolo_core::nat::Seal;
use tombolo_core::nat::seal::{SealKey, open, seal};

/// What a lookup takes, at least and at most.
pub(crate) const LOOKUP_TIME: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(60));

/// The key that two clusters share, as the agreement of their keys would give it.
fn key(one: &ClusterId, other: &ClusterId) -> SealKey {
    let (first, second) = if one <= other { (one, other) } else { (other, one) };
    SealKey::from_shared(format!("{first} {second}").as_bytes())
}

/// What leaves: with the seal for that cluster, if it is to bear one.
pub(crate) fn sealed(own: &ClusterId, receiver: Option<&ClusterId>, bytes: Vec<u8>) -> Vec<u8> {
    match receiver {
        Some(receiver) => seal(&key(own, receiver), bytes),
        None => bytes,
    }
}

/// Whose seal a datagram bears that has come to `own`.
pub(crate) fn opened(layout: &Layout, own: &ClusterId, bytes: &[u8]) -> Seal {
    open(bytes, |sender| layout.ranges(sender).is_some().then(|| key(own, sender)))
}
