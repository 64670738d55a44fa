//! Messages: from the bytes of a query to the bytes of the reply (RFC 1035 and those named below).
//!
//! What is not worth a reply gets none; what cannot be understood gets a header that says so. Work is bounded by the
//! length of the request: nothing is allocated by counts that it claims.

use super::answer::{Answer, Data, Picks, Query, RecordKind, Target, answer};
use super::table::Table;
use crate::base::ClusterId;
use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::IpAddr;
use hickory_proto::ProtoError;
use hickory_proto::op::{
    self, Edns, Header, HeaderCounts, Message, MessageType, Metadata, OpCode, ResponseCode, emit_message_parts,
};
use hickory_proto::rr::rdata::{A, AAAA, NS, SOA, SRV, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, BinEncoder, DecodeError};

/// Largest reply in a datagram to a client that names no size (RFC 1035 4.2.1).
const DATAGRAM_MIN: u16 = 512;
/// Largest reply in any datagram: fits every path without being cut (RFC 9715).
pub(super) const DATAGRAM_MAX: u16 = 1232;
/// Size of an OPT record without options: name 1, type 2, size 2, flags 4, length of data 2 (RFC 6891 6.1.2).
const OPT_OCTETS: u16 = 11;
/// Version of the MCS DNS specification.
const SCHEMA: &str = "1.0.0";
/// How long the version may be cached, in seconds (the same specification).
const SCHEMA_TTL_S: u32 = 28_800;

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
    let mut reply = Message::response(header.metadata.id, header.metadata.op_code);
    reply.metadata = Metadata::response_from_request(&header.metadata);
    reply.metadata.checking_disabled = false; // RFC 4035 3.1.6: authoritative answers clear it

    let limit = match understand(&header, &mut decoder) {
        Ok((question, edns)) => {
            let limit = limit(edns.as_ref().map(Edns::max_payload));
            fill(&mut reply, table, question, edns.as_ref(), picks).ok()?;
            limit
        }
        Err(NotUnderstood { code, question }) => {
            reply.metadata.response_code = code;
            reply.queries.extend(question);
            DATAGRAM_MIN
        }
    };
    encode(reply, limit).ok()
}

/// Why a request gets no answer, and its question if that much could be read.
struct NotUnderstood {
    code: ResponseCode,
    question: Option<op::Query>,
}

/// Reads what comes after the header.
fn understand(header: &Header, decoder: &mut BinDecoder<'_>) -> Result<(op::Query, Option<Edns>), NotUnderstood> {
    if header.metadata.op_code != OpCode::Query {
        return Err(NotUnderstood { code: ResponseCode::NotImp, question: None });
    }
    let malformed = |question| NotUnderstood { code: ResponseCode::FormErr, question };
    // Exactly one question (RFC 9619).
    let question = Some(header.counts.queries).filter(|count| *count == 1).and_then(|_| question(decoder));
    let question = question.ok_or_else(|| malformed(None))?;
    // A few more things that have no place in a question: the pseudo-types.
    if matches!(question.query_type, RecordType::OPT | RecordType::TSIG) {
        return Err(malformed(Some(question)));
    }
    match edns(header, decoder) {
        Ok(edns) => Ok((question, edns)),
        Err(_) => Err(malformed(Some(question))),
    }
}

/// The first question, if it is well formed. It has nothing to point back to, so a compression pointer in it is an
/// error; and without one, its encoding in the reply is the same, byte for byte.
fn question(decoder: &mut BinDecoder<'_>) -> Option<op::Query> {
    let begin = decoder.index();
    let question = op::Query::read(decoder).ok()?;
    let plain = question.name.iter().map(|label| label.len() + 1).sum::<usize>() + 1;
    (decoder.index() - begin == plain + 4).then_some(question)
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

/// Puts the answer to `question` into `reply`.
fn fill(
    reply: &mut Message,
    table: &Table,
    question: op::Query,
    edns: Option<&Edns>,
    picks: &mut Picks,
) -> Result<(), ProtoError> {
    // An OPT exactly when there was one (RFC 6891 7); DO is copied (RFC 3225).
    reply.edns = edns.map(|theirs| {
        let mut ours = Edns::new();
        ours.set_max_payload(DATAGRAM_MAX).set_dnssec_ok(theirs.flags().dnssec_ok);
        ours
    });
    let query = Query { name: question.name.clone(), kind: RecordKind::from(question.query_type) };
    let class = question.query_class;
    reply.queries.push(question);

    let said = if edns.is_some_and(|theirs| theirs.version() > 0) {
        reply.metadata.response_code = ResponseCode::BADVERS;
        return Ok(());
    } else if class == DNSClass::IN {
        answer(table, &query, picks)
    } else {
        Answer::Refused
    };
    reply.metadata.response_code = match said {
        Answer::Records(_) | Answer::NoData => ResponseCode::NoError,
        Answer::NoSuchName => ResponseCode::NXDomain,
        Answer::NotReady => ResponseCode::ServFail,
        Answer::Refused => ResponseCode::Refused,
    };
    match said {
        Answer::Records(records) => {
            reply.metadata.authoritative = true;
            // A host name of a pod can make the name of a target too long to exist: that record is left out.
            reply.answers = records.iter().filter_map(|data| record(table, &query.name, data).ok()).collect();
            reply.additionals = additionals(table, &query.name, &records);
        }
        Answer::NoData | Answer::NoSuchName => reply.metadata.authoritative = true,
        Answer::NotReady | Answer::Refused => return Ok(()),
    }
    if reply.answers.is_empty() {
        // The asker's own letters, so that it compresses into the question.
        let zone = query.name.trim_to(table.zone().labels().len());
        reply.authorities.push(record(table, &zone, &Data::Soa)?);
    }
    Ok(())
}

fn record(table: &Table, owner: &Name, data: &Data) -> Result<Record, ProtoError> {
    let (ttl_s, data) = match data {
        Data::Address(IpAddr::V4(address)) => (table.ttl_s(), RData::A(A(*address))),
        Data::Address(IpAddr::V6(address)) => (table.ttl_s(), RData::AAAA(AAAA(*address))),
        Data::Srv(srv) => {
            let target = target_name(table, owner, &srv.target)?;
            (table.ttl_s(), RData::SRV(SRV::new(0, srv.weight, srv.port, target)))
        }
        Data::Version => (SCHEMA_TTL_S, RData::TXT(TXT::new([SCHEMA.to_string()].into()))),
        Data::Soa => (table.negative_ttl_s(), RData::SOA(soa(table, owner)?)),
        Data::Ns => (table.ttl_s(), RData::NS(NS(server(owner)?))),
    };
    Ok(Record::from_rdata(owner.clone(), ttl_s, data))
}

/// The name that `target` stands for, of the service whose name `asked` is below or is, in the asker's own letters.
fn target_name(table: &Table, asked: &Name, target: &Target) -> Result<Name, ProtoError> {
    // <svc>.<ns>.svc, and the zone.
    let service = asked.trim_to(table.zone().labels().len() + 3);
    let of_cluster = |cluster: &ClusterId| {
        cluster.as_str().rsplit('.').try_fold(service.clone(), |name, label| name.prepend_label(label))
    };
    match target {
        Target::Service => Ok(service),
        Target::Cluster(cluster) => of_cluster(cluster),
        Target::Host(host, cluster) => of_cluster(cluster)?.prepend_label(host.as_str()),
    }
}

/// The addresses that the targets of SRV records have, each target once.
fn additionals(table: &Table, asked: &Name, records: &[Data]) -> Vec<Record> {
    let mut targets: BTreeMap<&Target, &[IpAddr]> = BTreeMap::new();
    for data in records {
        if let Data::Srv(srv) = data {
            targets.entry(&srv.target).or_insert(&srv.addresses);
        }
    }
    let of_target = |(target, addresses): (&Target, &[IpAddr])| {
        let name = target_name(table, asked, target).ok()?;
        let of_name = |address: &IpAddr| record(table, &name, &Data::Address(*address)).ok();
        Some(addresses.iter().filter_map(of_name).collect::<Vec<_>>())
    };
    targets.into_iter().filter_map(of_target).flatten().collect()
}

/// The name of the server: nobody needs to reach it by that.
fn server(zone: &Name) -> Result<Name, ProtoError> {
    zone.prepend_label("dns")?.prepend_label("ns")
}

/// Refresh, retry and expire are for secondaries, which there are none of; the values are CoreDNS's.
fn soa(table: &Table, zone: &Name) -> Result<SOA, ProtoError> {
    let mail = zone.prepend_label("hostmaster")?;
    Ok(SOA::new(server(zone)?, mail, table.serial(), 7_200, 1_800, 86_400, table.negative_ttl_s()))
}

/// Encodes within `limit` octets. What does not fit is left out in whole records: additional ones silently, and if that is
/// not enough, answers, with TC to say that there are more (RFC 2181 9).
fn encode(mut reply: Message, limit: u16) -> Result<Vec<u8>, ProtoError> {
    let (bytes, counts, complete) = encode_some(&reply, limit)?;
    if complete {
        return Ok(bytes);
    }
    // The OPT comes last and would be the first to be dropped, so it is left out of the trial and room is kept for it.
    let edns = reply.edns.take();
    let room = if edns.is_some() { limit.saturating_sub(OPT_OCTETS) } else { limit };
    let counts = if edns.is_some() { encode_some(&reply, room)?.1 } else { counts };
    let (answers, authorities) = (usize::from(counts.answers), usize::from(counts.authorities));
    reply.metadata.truncation = answers < reply.answers.len() || authorities < reply.authorities.len();
    reply.answers.truncate(answers);
    reply.authorities.truncate(authorities);
    let additionals = if reply.metadata.truncation { 0 } else { counts.additionals.into() };
    reply.additionals.truncate(additionals);
    reply.edns = edns;
    reply.to_vec()
}

/// Encodes what fits into `limit` octets, and says whether that is all.
fn encode_some(reply: &Message, limit: u16) -> Result<(Vec<u8>, HeaderCounts, bool), ProtoError> {
    let mut bytes = Vec::with_capacity(DATAGRAM_MIN.into());
    let mut encoder = BinEncoder::new(&mut bytes);
    encoder.set_max_size(limit);
    let header = emit_message_parts(
        &reply.metadata,
        &mut reply.queries.iter(),
        &mut reply.answers.iter(),
        &mut reply.authorities.iter(),
        &mut reply.additionals.iter(),
        reply.edns.as_ref(),
        None,
        &mut encoder,
    )?;
    Ok((bytes, header.counts, !header.metadata.truncation))
}
