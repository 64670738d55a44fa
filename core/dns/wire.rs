//! Messages: from the bytes of a query to the bytes of the reply (RFC 1035 and those named below).
//!
//! What is not worth a reply gets none; what cannot be understood gets a header that says so. Work is bounded by the
//! length of the request: nothing is allocated by counts that it claims.

use super::answer::{Answer, Picks, Query, RecordKind, answer};
use super::reply::{Question, Reply, can_be_said};
use super::table::Table;
use alloc::vec::Vec;
use hickory_proto::op::{self, Edns, Header, HeaderCounts, Message, MessageType, Metadata, OpCode, ResponseCode};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{DNSClass, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, DecodeError};

/// Largest reply in a datagram to a client that names no size (RFC 1035 4.2.1).
const DATAGRAM_MIN: u16 = 512;
/// The option that tells more of an error than the response code does (RFC 8914).
const EXTENDED_ERROR: u16 = 15;
/// Largest reply in any datagram: fits every path without being cut (RFC 9715).
pub(super) const DATAGRAM_MAX: u16 = 1232;

/// The reply to `request`, which came in a datagram. `None`: not worth a reply.
#[must_use]
pub fn respond(table: &Table, request: &[u8], picks: &mut Picks) -> Option<Vec<u8>> {
    reply(table, request, picks, |client| client.map_or(DATAGRAM_MIN, |size| size.clamp(DATAGRAM_MIN, DATAGRAM_MAX)))
}

/// The reply to `request`, which came on a stream (without its two octets of length, both ways). `None`: not worth a
/// reply.
#[must_use]
pub fn respond_on_stream(table: &Table, request: &[u8], picks: &mut Picks) -> Option<Vec<u8>> {
    reply(table, request, picks, |_| u16::MAX)
}

fn reply(table: &Table, request: &[u8], picks: &mut Picks, limit: impl Fn(Option<u16>) -> u16) -> Option<Vec<u8>> {
    // Too short for a header: nobody to talk to. A response: two servers that answer those would never stop.
    let mut decoder = BinDecoder::new(request);
    let header = Header::read(&mut decoder).ok()?;
    if header.metadata.message_type == MessageType::Response {
        return None;
    }
    let mut metadata = Metadata::response_from_request(&header.metadata);
    metadata.checking_disabled = false; // RFC 4035 3.1.6: authoritative answers clear it

    match understand(&header, &mut decoder) {
        Ok((question, edns)) => {
            let limit = limit(edns.as_ref().map(Edns::max_payload));
            answered(table, &question, edns.as_ref(), picks, metadata, limit)
        }
        Err(NotUnderstood { code, question }) => {
            metadata.response_code = code;
            let reply = Reply { metadata, question: question.as_ref(), answers: &[], soa: false, edns: None };
            reply.encode(table, DATAGRAM_MIN).ok()
        }
    }
}

/// Why a request gets no answer, and its question if that much could be read.
struct NotUnderstood<'a> {
    code: ResponseCode,
    question: Option<Question<'a>>,
}

/// Reads what comes after the header.
fn understand<'a>(
    header: &Header,
    decoder: &mut BinDecoder<'a>,
) -> Result<(Question<'a>, Option<Edns>), NotUnderstood<'a>> {
    if header.metadata.op_code != OpCode::Query {
        return Err(NotUnderstood { code: ResponseCode::NotImp, question: None });
    }
    let malformed = |question| NotUnderstood { code: ResponseCode::FormErr, question };
    // Exactly one question (RFC 9619).
    let question = Some(header.counts.queries).filter(|count| *count == 1).and_then(|_| question(decoder));
    let question = question.ok_or_else(|| malformed(None))?;
    // A few more things that have no place in a question: the pseudo-types.
    if [RecordType::OPT, RecordType::TSIG].map(RecordKind::from).contains(&question.query.kind) {
        return Err(malformed(Some(question)));
    }
    match edns(header, decoder) {
        Ok(edns) => Ok((question, edns)),
        Err(_) => Err(malformed(Some(question))),
    }
}

/// The first question, if it is well formed. It has nothing to point back to, so a compression pointer in it is an
/// error.
fn question<'a>(decoder: &mut BinDecoder<'a>) -> Option<Question<'a>> {
    let begin = decoder.index();
    let op::Query { name, query_type, query_class, .. } = op::Query::read(decoder).ok()?;
    let plain = name.iter().map(|label| label.len() + 1).sum::<usize>() + 1;
    let bytes = decoder.slice_from(begin).ok()?;
    let query = Query { name, kind: query_type.into() };
    (bytes.len() == plain + 4).then_some(Question { query, class: query_class, bytes })
}

/// The OPT among the records that follow the question, all of which must be well formed.
fn edns(header: &Header, decoder: &mut BinDecoder<'_>) -> Result<Option<Edns>, DecodeError> {
    let HeaderCounts { answers, authorities, additionals, queries: _ } = header.counts;
    let mut read = |count: u16, additional| {
        Message::read_records(decoder, count.into(), additional, header.metadata.op_code).map(|(_, edns, _)| edns)
    };
    read(answers, false)?;
    read(authorities, false)?;
    read(additionals, true)
}

/// The reply with the answer to `question`.
fn answered(
    table: &Table,
    question: &Question<'_>,
    edns: Option<&Edns>,
    picks: &mut Picks,
    mut metadata: Metadata,
    limit: u16,
) -> Option<Vec<u8>> {
    let is_newer = edns.is_some_and(|theirs| theirs.version() > 0);
    let is_ours = question.class == DNSClass::IN && !is_newer;
    let said = if is_ours { answer(table, &question.query, picks) } else { Answer::Refused };
    metadata.response_code = match said {
        Answer::Refused if is_newer => ResponseCode::BADVERS,
        Answer::Records(_) | Answer::NoData => ResponseCode::NoError,
        Answer::NoSuchName => ResponseCode::NXDomain,
        Answer::NotReady => ResponseCode::ServFail,
        Answer::Refused => ResponseCode::Refused,
    };
    metadata.authoritative = matches!(said, Answer::Records(_) | Answer::NoData | Answer::NoSuchName);
    let mut answers = if let Answer::Records(records) = said { records } else { Vec::new() };
    answers.retain(|data| can_be_said(table, question, data));
    // An OPT exactly when there was one (RFC 6891 7); DO is copied (RFC 3225).
    let edns = edns.map(|theirs| {
        let mut ours = Edns::new();
        ours.set_max_payload(DATAGRAM_MAX).set_dnssec_ok(theirs.flags().dnssec_ok);
        if let Some(more) = more_of_error(metadata.response_code, question.query.kind) {
            // Such a reply has no records that it might take the room from.
            ours.options_mut().insert(EdnsOption::Unknown(EXTENDED_ERROR, more.to_be_bytes().into()));
        }
        ours
    });
    let soa = metadata.authoritative && answers.is_empty();
    Reply { metadata, question: Some(question), answers: &answers, soa, edns }.encode(table, limit).ok()
}

/// Why it is an error, in the numbers of RFC 8914.
fn more_of_error(code: ResponseCode, asked: RecordKind) -> Option<u16> {
    const NOT_READY: u16 = 14;
    const PROHIBITED: u16 = 18;
    const NOT_AUTHORITATIVE: u16 = 20;
    if code == ResponseCode::ServFail {
        Some(NOT_READY)
    } else if code == ResponseCode::Refused {
        Some(if asked == RecordKind::Transfer { PROHIBITED } else { NOT_AUTHORITATIVE })
    } else {
        None
    }
}
