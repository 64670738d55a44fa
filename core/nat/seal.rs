//! The MAC that messages between us carry: field 15 of the message, the last of the datagram.
//!
//! The tag is HMAC-SHA256 (RFC 2104) over all bytes before the field, cut to 16 bytes. A message names its sender, its
//! receiver and whether it asks or answers, so one key for both directions is enough: what is sent back to its sender
//! names a sender with whom that one shares no key. Only hands hold keys; the machine says whom to seal for, and is told
//! whose seal was found.

use super::vocabulary::Seal;
use super::wire::{Fields, Message, Value, put_bytes};
use crate::base::ClusterId;
use alloc::vec::Vec;
use core::fmt;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

const FIELD: u64 = 15;
const TAG: usize = 16;
/// Field number, length and tag.
const TRAILER: usize = 2 + TAG;
/// Keeps this use of a shared secret apart from all others.
const PURPOSE: &[u8] = b"tombolo nat discovery 1";

/// The key that two clusters share.
#[derive(Clone, PartialEq, Eq)]
pub struct SealKey([u8; 32]);

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(…)")
    }
}

impl SealKey {
    /// From what the two clusters alone know, such as the agreement of their keys.
    #[must_use]
    pub fn from_shared(secret: &[u8]) -> Self {
        Self(Sha256::new().chain_update(PURPOSE).chain_update(secret).finalize().into())
    }
}

fn tag(key: &SealKey, bytes: &[u8]) -> [u8; TAG] {
    // HMAC fills a short key with zeros; a whole block cannot have a wrong length.
    let mut block = [0; 64];
    block.iter_mut().zip(key.0).for_each(|(to, from)| *to = from);
    let whole: [u8; 32] = Hmac::<Sha256>::new(&block.into()).chain_update(bytes).finalize().into_bytes().into();
    let mut tag = [0; TAG];
    tag.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
    tag
}

/// Adds the seal.
#[must_use]
pub fn seal(key: &SealKey, mut bytes: Vec<u8>) -> Vec<u8> {
    let tag = tag(key, &bytes);
    put_bytes(&mut bytes, FIELD, &tag);
    bytes
}

/// Whose seal a datagram bears. `key_of` gives the key shared with a cluster, for as long as it is a member.
#[must_use]
pub fn open(datagram: &[u8], key_of: impl FnOnce(&ClusterId) -> Option<SealKey>) -> Seal {
    if !Fields(datagram).any(|field| matches!(field, Ok((FIELD, _)))) {
        return Seal::None;
    }
    let last = Fields(datagram).last();
    let Some(Ok((FIELD, Value::Bytes(found)))) = last else { return Seal::Broken };
    let Some((sealed, _)) = datagram.split_at_checked(datagram.len().saturating_sub(TRAILER)) else {
        return Seal::Broken;
    };
    let sender = Message::decode(datagram).ok().and_then(|message| ClusterId::new(message.sender()?.cluster).ok());
    let Some((sender, key)) = sender.and_then(|sender| key_of(&sender).map(|key| (sender, key))) else {
        return Seal::Broken;
    };
    let wanted = tag(&key, sealed);
    // Every byte is compared, so that the time taken does not tell how many were right.
    let differ = found.iter().zip(wanted).fold(found.len() ^ TAG, |differ, (a, b)| differ | usize::from(a ^ b));
    if differ == 0 { Seal::By(sender) } else { Seal::Broken }
}
