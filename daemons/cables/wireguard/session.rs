//! One session: its keys, and what they seal and open.

use super::crypto::{KEY, TAG, cipher, nonce};
use super::handshake::Keys;
use super::message::{Data, HEADER, OVERHEAD};
use super::window::Window;
use ring::aead::{Aad, LessSafeKey};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tombolo_core::base::Instant;

/// A session that is as old carries nothing more.
pub const REJECT_AFTER: Duration = Duration::from_secs(180);
/// Nor one that has sealed as much.
pub const REJECT_AFTER_MESSAGES: u64 = u64::MAX - (1 << 13);

/// One way of a session: what its key seals or opens. Threads hold it while the device decides on.
#[derive(Clone)]
pub struct Way {
    key: LessSafeKey,
    bytes: [u8; KEY],
    /// The receiver's number of the session.
    pub receiver: u32,
}

impl PartialEq for Way {
    fn eq(&self, other: &Self) -> bool {
        (self.bytes, self.receiver) == (other.bytes, other.receiver)
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Way({:08x})", self.receiver)
    }
}

impl Way {
    fn new(bytes: [u8; KEY], receiver: u32) -> Option<Arc<Self>> {
        Some(Arc::new(Self { key: cipher(&bytes)?, bytes, receiver }))
    }

    /// Seals in place: `message` has 16 bytes for the head, what it carries, and 16 bytes for the tag. `None` if it is
    /// shorter than that.
    pub fn seal(&self, counter: u64, message: &mut [u8]) -> Option<()> {
        let end = message.len().checked_sub(TAG)?;
        let (rest, tag) = message.split_at_mut_checked(end)?;
        let (head, plain) = rest.split_at_mut_checked(HEADER)?;
        head.copy_from_slice(&Data { receiver: self.receiver, counter }.bytes());
        let sealed = self.key.seal_in_place_separate_tag(nonce(counter), Aad::empty(), plain).ok()?;
        tag.copy_from_slice(sealed.as_ref());
        Some(())
    }

    /// Opens in place, and gives what was carried.
    pub fn open<'a>(&self, counter: u64, message: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let sealed = message.get_mut(HEADER..)?;
        self.key.open_in_place(nonce(counter), Aad::empty(), sealed).ok()
    }
}

/// A session.
#[derive(Clone, PartialEq, Debug)]
pub struct Session {
    /// Our number of it.
    pub number: u32,
    /// What we seal with.
    pub sending: Arc<Way>,
    /// What we open with.
    pub receiving: Arc<Way>,
    /// The next counter to seal with.
    pub counter: u64,
    /// What came.
    pub window: Window,
    /// When it was agreed on.
    pub born: Instant,
    /// Whether we asked for it. Then it is ours to renew it.
    pub asked: bool,
}

impl Session {
    /// A fresh one.
    pub fn new(keys: &Keys, ours: u32, theirs: u32, asked: bool, now: Instant) -> Option<Self> {
        let sending = Way::new(keys.sending, theirs)?;
        let receiving = Way::new(keys.receiving, ours)?;
        Some(Self { number: ours, sending, receiving, counter: 0, window: Window::default(), born: now, asked })
    }

    /// How old it is.
    pub fn age(&self, now: Instant) -> Duration {
        now.since(self.born)
    }

    /// Whether it carries anything still.
    pub fn lives(&self, now: Instant) -> bool {
        self.age(now) < REJECT_AFTER && self.counter < REJECT_AFTER_MESSAGES
    }

    /// Takes the counters of so many messages.
    pub fn reserve(&mut self, count: u64) -> u64 {
        let first = self.counter;
        self.counter = first.saturating_add(count);
        first
    }
}

/// Bytes that a packet takes in a data message: a multiple of 16, unless that is more than the tunnel's MTU.
#[must_use]
pub fn padded(length: usize, mtu: usize) -> usize {
    length.next_multiple_of(16).min(mtu.max(length))
}

/// Bytes of the data message for a packet.
#[must_use]
pub fn sealed(length: usize, mtu: usize) -> usize {
    padded(length, mtu) + OVERHEAD
}
