//! The asking side, as small as probes need it.

use super::answer::{Query, RecordKind};
use super::name::NameError;
use super::wire::DATAGRAM_MAX;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use hickory_proto::op::{self, Edns, Message, MessageType, OpCode, ResponseCode};

/// Why a reply cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadReply {
    /// Not a DNS message.
    #[error("not a DNS message: {0}")]
    Malformed(String),
    /// A query.
    #[error("a query, not a reply")]
    Query,
}

/// What a reply says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The number of the query that it answers.
    pub id: u16,
    /// The response code, as `NOERROR`.
    pub rcode: String,
    /// Not all records fitted.
    pub truncated: bool,
    /// The addresses, in the order of the reply.
    pub addresses: Vec<IpAddr>,
}

/// The bytes of the query number `id` for the records of `name`.
///
/// # Errors
/// [`NameError::Name`].
pub fn question(id: u16, name: &str, kind: RecordKind) -> Result<Vec<u8>, NameError> {
    let Query { name: mut asked, kind } = Query::new(name, kind)?;
    asked.set_fqdn(true);
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(op::Query::query(asked, kind.into()));
    let mut edns = Edns::new();
    edns.set_max_payload(DATAGRAM_MAX);
    message.edns = Some(edns);
    message.to_vec().map_err(|error| NameError::Name { name: name.into(), because: error.to_string() })
}

/// Reads a reply.
///
/// # Errors
/// A [`BadReply`].
pub fn reading(reply: &[u8]) -> Result<Reading, BadReply> {
    let message = Message::from_vec(reply).map_err(|error| BadReply::Malformed(error.to_string()))?;
    if message.metadata.message_type == MessageType::Query {
        return Err(BadReply::Query);
    }
    Ok(Reading {
        id: message.metadata.id,
        rcode: mnemonic(message.metadata.response_code),
        truncated: message.metadata.truncation,
        addresses: message.answers.iter().filter_map(|record| record.data.ip_addr()).collect(),
    })
}

/// A response code as people write it (IANA, "DNS RCODEs").
pub(super) fn mnemonic(code: ResponseCode) -> String {
    match u16::from(code) {
        0 => "NOERROR".into(),
        1 => "FORMERR".into(),
        2 => "SERVFAIL".into(),
        3 => "NXDOMAIN".into(),
        4 => "NOTIMP".into(),
        5 => "REFUSED".into(),
        16 => "BADVERS".into(),
        other => format!("RCODE{other}"),
    }
}
