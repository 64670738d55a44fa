//! The four messages of the protocol, as they travel: <https://www.wireguard.com/protocol/>. All numbers are little-endian.

use super::crypto::{KEY, MAC, TAG};

/// Bytes of a handshake initiation.
pub const INITIATION: usize = 148;
/// Bytes of a handshake response.
pub const RESPONSE: usize = 92;
/// Bytes of a cookie reply.
pub const COOKIE_REPLY: usize = 64;
/// Bytes before what a data message carries.
pub const HEADER: usize = 16;
/// Bytes by which a data message is longer than what it carries.
pub const OVERHEAD: usize = HEADER + TAG;
/// Bytes of a TAI64N time stamp.
pub const STAMP: usize = 12;

/// A message by its kind; only its form has been looked at.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// Asks for a session.
    Initiation(Initiation),
    /// Grants it.
    Response(Response),
    /// Asks to prove the source address.
    CookieReply(CookieReply),
    /// Carries a packet.
    Data(Data),
}

/// Asks for a session.
#[derive(Clone, PartialEq, Debug)]
pub struct Initiation {
    /// The sender's number for the session.
    pub sender: u32,
    /// Its key for this handshake.
    pub ephemeral: [u8; KEY],
    /// Who it is, sealed.
    pub identity: [u8; KEY + TAG],
    /// When it asked, sealed.
    pub stamp: [u8; STAMP + TAG],
}

/// Grants a session.
#[derive(Clone, PartialEq, Debug)]
pub struct Response {
    /// The sender's number for the session.
    pub sender: u32,
    /// The number of who asked.
    pub receiver: u32,
    /// The sender's key for this handshake.
    pub ephemeral: [u8; KEY],
    /// Nothing, sealed.
    pub nothing: [u8; TAG],
}

/// Asks to prove the source address, by a MAC under this cookie.
#[derive(Clone, PartialEq, Debug)]
pub struct CookieReply {
    /// The number of who asked.
    pub receiver: u32,
    /// For the cookie's seal.
    pub nonce: [u8; 24],
    /// The cookie, sealed.
    pub cookie: [u8; MAC + TAG],
}

/// Head of a message that carries a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// The receiver's number for the session.
    pub receiver: u32,
    /// Never the same twice in a session.
    pub counter: u64,
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

impl Message {
    /// Reads one; `None` if it has not the form of any.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let rest = &mut { bytes };
        let kind = u32::from_le_bytes(take(rest)?);
        Some(match (kind, bytes.len()) {
            (1, INITIATION) => Self::Initiation(Initiation {
                sender: u32::from_le_bytes(take(rest)?),
                ephemeral: take(rest)?,
                identity: take(rest)?,
                stamp: take(rest)?,
            }),
            (2, RESPONSE) => Self::Response(Response {
                sender: u32::from_le_bytes(take(rest)?),
                receiver: u32::from_le_bytes(take(rest)?),
                ephemeral: take(rest)?,
                nothing: take(rest)?,
            }),
            (3, COOKIE_REPLY) => Self::CookieReply(CookieReply {
                receiver: u32::from_le_bytes(take(rest)?),
                nonce: take(rest)?,
                cookie: take(rest)?,
            }),
            (4, OVERHEAD..) => Self::Data(Data::read(bytes)?),
            _ => return None,
        })
    }
}

impl Initiation {
    /// As bytes; the MACs are still to come.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let head = [1_u32.to_le_bytes(), self.sender.to_le_bytes()].concat();
        [&head[..], &self.ephemeral, &self.identity, &self.stamp].concat()
    }
}

impl Response {
    /// As bytes; the MACs are still to come.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let head = [2_u32.to_le_bytes(), self.sender.to_le_bytes(), self.receiver.to_le_bytes()].concat();
        [&head[..], &self.ephemeral, &self.nothing].concat()
    }
}

impl CookieReply {
    /// As bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let head = [3_u32.to_le_bytes(), self.receiver.to_le_bytes()].concat();
        [&head[..], &self.nonce, &self.cookie].concat()
    }
}

impl Data {
    /// Reads the head of a data message; `None` if it is none.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let rest = &mut { bytes };
        let kind = u32::from_le_bytes(take(rest)?);
        (kind == 4 && bytes.len() >= OVERHEAD).then_some(())?;
        Some(Self { receiver: u32::from_le_bytes(take(rest)?), counter: u64::from_le_bytes(take(rest)?) })
    }

    /// As bytes.
    #[must_use]
    pub fn bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let fields = 4_u32.to_le_bytes().into_iter().chain(self.receiver.to_le_bytes());
        bytes.iter_mut().zip(fields.chain(self.counter.to_le_bytes())).for_each(|(to, from)| *to = from);
        bytes
    }
}
