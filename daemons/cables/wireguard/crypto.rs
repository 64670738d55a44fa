//! The few operations that WireGuard is made of, by the names that its paper gives them.

use blake2::digest::{Digest, KeyInit, Mac, consts::U16};
use blake2::{Blake2s256, Blake2sMac};
use chacha20poly1305::{XChaCha20Poly1305, XNonce, aead::Aead, aead::Payload};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use std::fmt;
use tombolo_core::model::CableKey;
use x25519_dalek::{PublicKey, StaticSecret};

/// Bytes of a key, a hash, a point.
pub const KEY: usize = 32;
/// Bytes by which sealing makes something longer.
pub const TAG: usize = 16;
/// Bytes of a MAC and of a cookie.
pub const MAC: usize = 16;
/// Bytes of a hash's block.
const BLOCK: usize = 64;

/// A private key. It shows itself to nobody.
#[derive(Clone)]
pub struct Secret(StaticSecret);

impl Secret {
    /// From 32 random bytes, or from a stored key.
    #[must_use]
    pub fn new(bytes: [u8; KEY]) -> Self {
        Self(StaticSecret::from(bytes))
    }

    /// Its bytes, to be kept in a file.
    #[must_use]
    pub fn bytes(&self) -> [u8; KEY] {
        self.0.to_bytes()
    }

    /// The public key that belongs to it.
    #[must_use]
    pub fn public(&self) -> CableKey {
        CableKey(PublicKey::from(&self.0).to_bytes())
    }

    /// DH; `None` where the other's key is one with which all secrets give zero.
    pub(super) fn agree(&self, other: &CableKey) -> Option<[u8; KEY]> {
        let shared = self.0.diffie_hellman(&PublicKey::from(other.0));
        shared.was_contributory().then(|| shared.to_bytes())
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bytes() == other.0.to_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// HASH of these, one after the other.
pub fn hash(parts: &[&[u8]]) -> [u8; KEY] {
    let mut state = Blake2s256::new();
    parts.iter().for_each(|part| state.update(part));
    state.finalize().into()
}

/// MAC; `None` if the key is longer than a key can be.
pub fn mac(key: &[u8], message: &[u8]) -> Option<[u8; MAC]> {
    let mut state = <Blake2sMac<U16> as KeyInit>::new_from_slice(key).ok()?;
    state.update(message);
    Some(state.finalize().into_bytes().into())
}

/// Whether they are equal, in a time that does not tell where they differ.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

fn hmac(key: &[u8; KEY], parts: &[&[u8]]) -> [u8; KEY] {
    let padded = |with: u8| {
        let mut block = [with; BLOCK];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let (inner, outer) = (padded(0x36), padded(0x5c));
    let mut state = Blake2s256::new();
    state.update(inner);
    parts.iter().for_each(|part| state.update(part));
    hash(&[&outer, &state.finalize()])
}

/// KDF₃; whoever needs fewer leaves the rest.
pub fn kdf(key: &[u8; KEY], input: &[u8]) -> [[u8; KEY]; 3] {
    let root = hmac(key, &[input]);
    let first = hmac(&root, &[&[1]]);
    let second = hmac(&root, &[&first, &[2]]);
    let third = hmac(&root, &[&second, &[3]]);
    [first, second, third]
}

/// A key as the cipher wants it.
pub fn cipher(key: &[u8; KEY]) -> Option<LessSafeKey> {
    UnboundKey::new(&CHACHA20_POLY1305, key).ok().map(LessSafeKey::new)
}

/// The nonce of a counter.
pub fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    let [_, _, _, _, low @ ..] = &mut bytes;
    low.copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// AEAD with counter 0: each key of a handshake seals once.
pub fn seal(key: &[u8; KEY], plain: &[u8], beside: &[u8]) -> Option<Vec<u8>> {
    let mut sealed = plain.to_vec();
    cipher(key)?.seal_in_place_append_tag(nonce(0), Aad::from(beside), &mut sealed).ok()?;
    Some(sealed)
}

/// The way back; `None` if it was not sealed so.
pub fn open(key: &[u8; KEY], sealed: &[u8], beside: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = sealed.to_vec();
    let length = cipher(key)?.open_in_place(nonce(0), Aad::from(beside), &mut bytes).ok()?.len();
    bytes.truncate(length);
    Some(bytes)
}

/// XAEAD, for cookies: its nonce is random.
pub fn seal_cookie(key: &[u8; KEY], nonce: &[u8; 24], cookie: &[u8; MAC], beside: &[u8]) -> Option<Vec<u8>> {
    let payload = Payload { msg: cookie, aad: beside };
    XChaCha20Poly1305::new(&(*key).into()).encrypt(&XNonce::from(*nonce), payload).ok()
}

/// The way back.
pub fn open_cookie(key: &[u8; KEY], nonce: &[u8; 24], sealed: &[u8], beside: &[u8]) -> Option<[u8; MAC]> {
    let payload = Payload { msg: sealed, aad: beside };
    XChaCha20Poly1305::new(&(*key).into()).decrypt(&XNonce::from(*nonce), payload).ok()?.try_into().ok()
}

/// Chance for secrets: a hash chain from a seed that the operating system gave. Each draw replaces the state, so that
/// who sees it learns nothing of earlier draws; [`Self::stir`] sees to later ones.
#[derive(Clone, PartialEq)]
pub struct Chance([u8; KEY]);

impl Chance {
    /// From 32 bytes that nobody else knows.
    #[must_use]
    pub const fn new(seed: [u8; KEY]) -> Self {
        Self(seed)
    }

    /// Takes in fresh bytes.
    pub fn stir(&mut self, fresh: &[u8; KEY]) {
        self.0 = hash(&[&self.0, fresh, b"stir"]);
    }

    /// 32 random bytes.
    pub fn draw(&mut self) -> [u8; KEY] {
        let drawn = hash(&[&self.0, b"draw"]);
        self.0 = hash(&[&self.0, b"next"]);
        drawn
    }

    /// A random number.
    pub fn number(&mut self) -> u32 {
        let [a, b, c, d, ..] = self.draw();
        u32::from_le_bytes([a, b, c, d])
    }

    /// 24 random bytes.
    pub fn wide_nonce(&mut self) -> [u8; 24] {
        let mut nonce = [0; 24];
        nonce.iter_mut().zip(self.draw()).for_each(|(to, from)| *to = from);
        nonce
    }
}

impl fmt::Debug for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chance")
    }
}
