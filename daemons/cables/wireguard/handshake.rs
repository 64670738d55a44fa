//! `Noise_IKpsk2`: how two that know each other's public keys come to keys for one session.
//!
//! The initiator keeps [`Asked`] between the two messages. The responder keeps nothing: it reads the first message and
//! writes the second in one go. So a peer that is asked while it asks itself answers, and loses nothing of its own.

use super::crypto::{KEY, Secret, hash, kdf, open, seal};
use super::message::{Initiation, Response, STAMP};
use tombolo_core::model::CableKey;

const CONSTRUCTION: &[u8] = b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const IDENTIFIER: &[u8] = b"WireGuard v1 zx2c4 Jason@zx2c4.com";

/// The keys of a session, one for each way.
#[derive(Clone, PartialEq)]
pub struct Keys {
    /// For what is sent.
    pub sending: [u8; KEY],
    /// For what is received.
    pub receiving: [u8; KEY],
}

/// What both have said so far.
#[derive(Clone, PartialEq)]
struct Transcript {
    chain: [u8; KEY],
    hash: [u8; KEY],
}

impl Transcript {
    fn begin(responder: &CableKey) -> Self {
        let chain = hash(&[CONSTRUCTION]);
        let identified = hash(&[&chain, IDENTIFIER]);
        Self { chain, hash: hash(&[&identified, &responder.0]) }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.hash = hash(&[&self.hash, bytes]);
    }

    fn mix(&mut self, input: &[u8]) -> [[u8; KEY]; 3] {
        let keys = kdf(&self.chain, input);
        let [chain, ..] = keys;
        self.chain = chain;
        keys
    }

    fn ephemeral(&mut self, key: &CableKey) {
        self.hear(&key.0);
        self.mix(&key.0);
    }

    fn seal<const N: usize>(&mut self, key: &[u8; KEY], plain: &[u8]) -> Option<[u8; N]> {
        let sealed = <[u8; N]>::try_from(seal(key, plain, &self.hash)?).ok()?;
        self.hear(&sealed);
        Some(sealed)
    }

    fn open(&mut self, key: &[u8; KEY], sealed: &[u8]) -> Option<Vec<u8>> {
        let plain = open(key, sealed, &self.hash)?;
        self.hear(sealed);
        Some(plain)
    }

    /// The responder's part, as both compute it.
    fn answer(&mut self, ephemeral: &CableKey, agreed: [[u8; KEY]; 2], shared: &[u8; KEY]) -> [u8; KEY] {
        self.ephemeral(ephemeral);
        for agreed in agreed {
            self.mix(&agreed);
        }
        let [_, tau, key] = self.mix(shared);
        self.hear(&tau);
        key
    }

    fn end(&self) -> [[u8; KEY]; 2] {
        let [first, second, _] = kdf(&self.chain, &[]);
        [first, second]
    }
}

/// What the initiator keeps until it is answered.
#[derive(Clone, PartialEq)]
pub struct Asked {
    transcript: Transcript,
    ephemeral: Secret,
}

/// Asks `responder` for a session. `None` if there can be none with its key.
pub fn ask(
    own: &Secret,
    responder: &CableKey,
    sender: u32,
    ephemeral: Secret,
    stamp: [u8; STAMP],
) -> Option<(Initiation, Asked)> {
    let mut transcript = Transcript::begin(responder);
    let public = ephemeral.public();
    transcript.ephemeral(&public);
    let [_, key, _] = transcript.mix(&ephemeral.agree(responder)?);
    let identity = transcript.seal(&key, &own.public().0)?;
    let [_, key, _] = transcript.mix(&own.agree(responder)?);
    let stamp = transcript.seal(&key, &stamp)?;
    Some((Initiation { sender, ephemeral: public.0, identity, stamp }, Asked { transcript, ephemeral }))
}

/// An initiation of which the sender is known, and nothing is proved yet.
pub struct Heard {
    /// Who says to have sent it.
    pub from: CableKey,
    transcript: Transcript,
    ephemeral: CableKey,
    stamp: Vec<u8>,
}

/// Reads who sent an initiation.
pub fn hear(own: &Secret, message: &Initiation) -> Option<Heard> {
    let mut transcript = Transcript::begin(&own.public());
    let ephemeral = CableKey(message.ephemeral);
    transcript.ephemeral(&ephemeral);
    let [_, key, _] = transcript.mix(&own.agree(&ephemeral)?);
    let from = CableKey(transcript.open(&key, &message.identity)?.try_into().ok()?);
    Some(Heard { from, transcript, ephemeral, stamp: message.stamp.to_vec() })
}

/// An initiation that its sender has proved to have sent.
pub struct Proved {
    /// When it was sent, by the sender's clock.
    pub stamp: [u8; STAMP],
    from: CableKey,
    transcript: Transcript,
    ephemeral: CableKey,
}

impl Heard {
    /// Whether it is from who it says.
    pub fn prove(mut self, own: &Secret) -> Option<Proved> {
        let [_, key, _] = self.transcript.mix(&own.agree(&self.from)?);
        let stamp = self.transcript.open(&key, &self.stamp)?.try_into().ok()?;
        Some(Proved { stamp, from: self.from, transcript: self.transcript, ephemeral: self.ephemeral })
    }
}

impl Proved {
    /// Grants the session.
    pub fn grant(mut self, sender: u32, receiver: u32, own: &Secret, shared: &[u8; KEY]) -> Option<(Response, Keys)> {
        let agreed = [own.agree(&self.ephemeral)?, own.agree(&self.from)?];
        let public = own.public();
        let key = self.transcript.answer(&public, agreed, shared);
        let nothing = self.transcript.seal(&key, &[])?;
        let [receiving, sending] = self.transcript.end();
        Some((Response { sender, receiver, ephemeral: public.0, nothing }, Keys { sending, receiving }))
    }
}

impl Asked {
    /// The session that was granted; `None` if this is no answer to what was asked.
    pub fn granted(&self, own: &Secret, message: &Response, shared: &[u8; KEY]) -> Option<Keys> {
        let mut transcript = self.transcript.clone();
        let ephemeral = CableKey(message.ephemeral);
        let agreed = [self.ephemeral.agree(&ephemeral)?, own.agree(&ephemeral)?];
        let key = transcript.answer(&ephemeral, agreed, shared);
        transcript.open(&key, &message.nothing)?;
        let [sending, receiving] = transcript.end();
        Some(Keys { sending, receiving })
    }
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asked")
    }
}
