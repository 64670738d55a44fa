//! Submariner's discovery messages: the few proto3 fields they have, read and written by hand.
//!
//! ```text
//! Message   1 version (1 in requests, 0 in answers)   2 Request   3 Response   15 seal (ours, see [`super::seal`])
//! Request   1 number   2 sender   3 receiver   4 source used   5 destination used
//! Response  1 number   2 verdict  3 sender     4 receiver      5, 6, 7 what NAT changed: source, its port, destination
//!           8 source received
//! Details   1 cluster  2 cable name                  IpPort   1 address as text  2 port
//! ```
//! As proto3 has it: absent is zero, the last of equal fields counts (messages are merged), and fields of other numbers
//! or wire types are skipped. A message borrows from its datagram, so reading allocates nothing; each byte is looked at
//! as often as messages lie within each other, three times.

use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use serde::{Deserialize, Serialize};

/// The longest datagram that is looked at.
pub const DATAGRAM_MAX: usize = 2_048;
/// The version of requests.
pub const VERSION: u64 = 1;

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum WireError {
    /// Longer than [`DATAGRAM_MAX`].
    #[error("longer than {DATAGRAM_MAX} bytes")]
    TooLong,
    /// It ends within a field.
    #[error("it ends within a field")]
    Short,
    /// A number of more than 64 bits.
    #[error("a number of more than 64 bits")]
    Number,
    /// A field number 0 or a wire type that proto3 does not have.
    #[error("a field that proto3 does not have")]
    Field,
    /// A text that is not UTF-8.
    #[error("a text that is not UTF-8")]
    Text,
    /// Neither request nor answer.
    #[error("neither request nor answer")]
    Empty,
}

/// Who sends or is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Details<'a> {
    /// Cluster id.
    pub cluster: &'a str,
    /// Cable name.
    pub endpoint: &'a str,
}

/// An address and a port, as they were written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IpPort {
    /// The address, if the text is one.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u64,
}

impl From<SocketAddr> for IpPort {
    fn from(socket: SocketAddr) -> Self {
        Self { address: Some(socket.ip()), port: u64::from(socket.port()) }
    }
}

/// A question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Request<'a> {
    /// Its number.
    pub number: u64,
    /// Who asks.
    pub sender: Option<Details<'a>>,
    /// Who is asked.
    pub receiver: Option<Details<'a>>,
    /// From where it was sent.
    pub source: Option<IpPort>,
    /// To where it was sent.
    pub destination: Option<IpPort>,
}

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Response<'a> {
    /// Of the question.
    pub number: u64,
    /// What was found.
    pub verdict: Verdict,
    /// Who answers.
    pub sender: Option<Details<'a>>,
    /// Who asked.
    pub receiver: Option<Details<'a>>,
    /// The question came from another address than it was sent from.
    pub source_changed: bool,
    /// From another port.
    pub source_port_changed: bool,
    /// To another address than it was sent to.
    pub destination_changed: bool,
    /// From where the question came.
    pub received: Option<IpPort>,
}

/// What the asked one found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub enum Verdict {
    /// Nothing changed on the way.
    #[default]
    Ok,
    /// Something did.
    NatDetected,
    /// The question is for another cluster.
    UnknownCluster,
    /// The question is for another gateway of this cluster.
    UnknownEndpoint,
    /// Part of the question is missing.
    Malformed,
    /// A value that this version does not know.
    Other(u64),
}

impl Verdict {
    const fn number(self) -> u64 {
        match self {
            Self::Ok => 0,
            Self::NatDetected => 1,
            Self::UnknownCluster => 2,
            Self::UnknownEndpoint => 3,
            Self::Malformed => 4,
            Self::Other(number) => number,
        }
    }

    const fn of(number: u64) -> Self {
        match number {
            0 => Self::Ok,
            1 => Self::NatDetected,
            2 => Self::UnknownCluster,
            3 => Self::UnknownEndpoint,
            4 => Self::Malformed,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("nothing was changed"),
            Self::NatDetected => f.write_str("NAT is in between"),
            Self::UnknownCluster => f.write_str("here is another cluster"),
            Self::UnknownEndpoint => f.write_str("here is another gateway"),
            Self::Malformed => f.write_str("the request was malformed"),
            Self::Other(number) => write!(f, "verdict {number}"),
        }
    }
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// A question, and its version.
    Request(u64, Request<'a>),
    /// An answer.
    Response(Response<'a>),
}

impl<'a> Message<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// A [`WireError`] that says what is wrong with it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() > DATAGRAM_MAX {
            return Err(WireError::TooLong);
        }
        let (mut version, mut body) = (0, None);
        for field in Fields(bytes) {
            match (field?, body) {
                ((1, Value::Number(number)), _) => version = number,
                ((2, Value::Bytes(inner)), Some(Message::Request(_, mut before))) => {
                    before.merge(inner)?;
                    body = Some(Message::Request(0, before));
                }
                ((2, Value::Bytes(inner)), _) => {
                    let mut request = Request::default();
                    request.merge(inner)?;
                    body = Some(Message::Request(0, request));
                }
                ((3, Value::Bytes(inner)), Some(Message::Response(mut before))) => {
                    before.merge(inner)?;
                    body = Some(Message::Response(before));
                }
                ((3, Value::Bytes(inner)), _) => {
                    let mut response = Response::default();
                    response.merge(inner)?;
                    body = Some(Message::Response(response));
                }
                (_, _) => {}
            }
        }
        match body {
            Some(Message::Request(_, request)) => Ok(Message::Request(version, request)),
            Some(response @ Message::Response(_)) => Ok(response),
            None => Err(WireError::Empty),
        }
    }

    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        match self {
            Self::Request(version, request) => {
                put_number(&mut out, 1, *version);
                put_bytes(&mut out, 2, &request.encode());
            }
            Self::Response(response) => put_bytes(&mut out, 3, &response.encode()),
        }
        out
    }

    /// Who sends it.
    #[must_use]
    pub const fn sender(&self) -> Option<Details<'a>> {
        match self {
            Self::Request(_, request) => request.sender,
            Self::Response(response) => response.sender,
        }
    }
}

impl<'a> Request<'a> {
    fn merge(&mut self, bytes: &'a [u8]) -> Result<(), WireError> {
        for field in Fields(bytes) {
            match field? {
                (1, Value::Number(number)) => self.number = number,
                (2, Value::Bytes(inner)) => self.sender.get_or_insert_default().merge(inner)?,
                (3, Value::Bytes(inner)) => self.receiver.get_or_insert_default().merge(inner)?,
                (4, Value::Bytes(inner)) => self.source.get_or_insert_default().merge(inner)?,
                (5, Value::Bytes(inner)) => self.destination.get_or_insert_default().merge(inner)?,
                (_, _) => {}
            }
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        put_number(&mut out, 1, self.number);
        put_details(&mut out, 2, self.sender);
        put_details(&mut out, 3, self.receiver);
        put_ip_port(&mut out, 4, self.source);
        put_ip_port(&mut out, 5, self.destination);
        out
    }
}

impl<'a> Response<'a> {
    fn merge(&mut self, bytes: &'a [u8]) -> Result<(), WireError> {
        for field in Fields(bytes) {
            match field? {
                (1, Value::Number(number)) => self.number = number,
                (2, Value::Number(number)) => self.verdict = Verdict::of(number),
                (3, Value::Bytes(inner)) => self.sender.get_or_insert_default().merge(inner)?,
                (4, Value::Bytes(inner)) => self.receiver.get_or_insert_default().merge(inner)?,
                (5, Value::Number(flag)) => self.source_changed = flag != 0,
                (6, Value::Number(flag)) => self.source_port_changed = flag != 0,
                (7, Value::Number(flag)) => self.destination_changed = flag != 0,
                (8, Value::Bytes(inner)) => self.received.get_or_insert_default().merge(inner)?,
                (_, _) => {}
            }
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        put_number(&mut out, 1, self.number);
        put_number(&mut out, 2, self.verdict.number());
        put_details(&mut out, 3, self.sender);
        put_details(&mut out, 4, self.receiver);
        put_number(&mut out, 5, u64::from(self.source_changed));
        put_number(&mut out, 6, u64::from(self.source_port_changed));
        put_number(&mut out, 7, u64::from(self.destination_changed));
        put_ip_port(&mut out, 8, self.received);
        out
    }
}

impl<'a> Details<'a> {
    fn merge(&mut self, bytes: &'a [u8]) -> Result<(), WireError> {
        for field in Fields(bytes) {
            match field? {
                (1, Value::Bytes(inner)) => self.cluster = text(inner)?,
                (2, Value::Bytes(inner)) => self.endpoint = text(inner)?,
                (_, _) => {}
            }
        }
        Ok(())
    }
}

impl IpPort {
    fn merge(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        for field in Fields(bytes) {
            match field? {
                (1, Value::Bytes(inner)) => self.address = text(inner)?.parse().ok(),
                (2, Value::Number(number)) => self.port = number,
                (_, _) => {}
            }
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> Result<&str, WireError> {
    core::str::from_utf8(bytes).map_err(|_| WireError::Text)
}

/// What a field holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a fixed length, which none of ours has.
    Fixed,
}

/// The fields of a message, with their numbers. Ends after the first that is wrong.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u64, Value<'a>), WireError> {
        let key = self.number()?;
        if key >> 3 == 0 {
            return Err(WireError::Field);
        }
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(self.number()?).map_err(|_| WireError::Short)?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(WireError::Field),
        };
        Ok((key >> 3, value))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Seven bits a byte, the lowest first; the highest bit says that another byte follows.
    fn number(&mut self) -> Result<u64, WireError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(WireError::Short)?;
            self.0 = rest;
            if shift == 63 && *byte > 1 {
                return Err(WireError::Number);
            }
            number |= u64::from(*byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(number);
            }
        }
        Err(WireError::Number)
    }
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        let [low, ..] = number.to_le_bytes();
        out.push(low | 0x80);
        number >>= 7;
    }
    let [low, ..] = number.to_le_bytes();
    out.push(low);
}

fn put_number(out: &mut Vec<u8>, field: u64, number: u64) {
    if number != 0 {
        put_varint(out, field << 3);
        put_varint(out, number);
    }
}

pub(super) fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(bytes);
}

fn put_text(out: &mut Vec<u8>, field: u64, text: &str) {
    if !text.is_empty() {
        put_bytes(out, field, text.as_bytes());
    }
}

fn put_details(out: &mut Vec<u8>, field: u64, details: Option<Details<'_>>) {
    let Some(details) = details else { return };
    let mut inner = Vec::with_capacity(96);
    put_text(&mut inner, 1, details.cluster);
    put_text(&mut inner, 2, details.endpoint);
    put_bytes(out, field, &inner);
}

fn put_ip_port(out: &mut Vec<u8>, field: u64, pair: Option<IpPort>) {
    let Some(pair) = pair else { return };
    let mut inner = Vec::with_capacity(48);
    if let Some(address) = pair.address {
        put_text(&mut inner, 1, &alloc::string::ToString::to_string(&address));
    }
    put_number(&mut inner, 2, pair.port);
    put_bytes(out, field, &inner);
}
