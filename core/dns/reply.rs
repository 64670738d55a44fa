//! The bytes of a reply.
//!
//! The question comes first, as it came; each name that follows ends as the question does, in the asker's own letters, and
//! points there. So no name is looked for among all that were written before, and none is put together to be written.

use super::answer::{Data, Query, Srv, Target};
use super::table::Table;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use hickory_proto::ProtoError;
use hickory_proto::op::{Edns, Header, HeaderCounts, Metadata};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{DNSClass, Name, RecordType};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder};

/// Size of a header (RFC 1035 4.1.1): the question begins behind it.
const HEADER_OCTETS: usize = 12;
/// Size of an OPT record without options: name 1, type 2, size 2, flags 4, length of data 2 (RFC 6891 6.1.2).
const OPT_OCTETS: u16 = 11;
/// Most replies are not larger.
const USUAL_OCTETS: usize = 512;
/// What is written from here on cannot be pointed to (RFC 1035 4.1.4).
const POINTERS_END: usize = 0x4000;
/// Labels that the name of a service has in the zone: `<svc>.<ns>.svc`.
const SERVICE_LABELS: usize = 3;
/// Version of the MCS DNS specification.
const SCHEMA: &str = "1.0.0";
/// How long the version may be cached, in seconds (the same specification).
const SCHEMA_TTL_S: u32 = 28_800;

/// A question, as it was read and as it came: name, type and class, without a pointer.
pub(super) struct Question<'a> {
    pub(super) query: Query,
    pub(super) class: DNSClass,
    pub(super) bytes: &'a [u8],
}

impl Question<'_> {
    /// The label before the last `rest`.
    fn label_before(&self, rest: usize) -> Option<&[u8]> {
        self.query.name.iter().rev().nth(rest)
    }

    /// How many labels of `name` it does not have, and how many of its own end that name.
    fn shared_with(&self, name: Relative<'_>) -> (usize, usize) {
        let (mut new, mut rest) = (name.labels().count(), name.rest);
        for label in name.labels().rev() {
            if self.label_before(rest) != Some(label.as_bytes()) {
                break;
            }
            (new, rest) = (new - 1, rest + 1);
        }
        (new, rest)
    }

    /// Where its last `rest` labels begin.
    fn begin_of(&self, rest: usize) -> usize {
        let labels = self.query.name.iter();
        let before = labels.len().saturating_sub(rest);
        labels.take(before).map(|label| label.len() + 1).sum()
    }

    /// Its last `rest` labels, with the root.
    fn last(&self, rest: usize) -> &[u8] {
        let end = self.bytes.len().saturating_sub(4);
        self.bytes.get(self.begin_of(rest)..end).unwrap_or_default()
    }
}

/// A name by what it has before the question's last `rest` labels: labels with dots between them.
#[derive(Clone, Copy, Default)]
struct Relative<'a> {
    host: Option<&'a str>,
    path: Option<&'a str>,
    rest: usize,
}

impl<'a> Relative<'a> {
    fn labels(self) -> impl DoubleEndedIterator<Item = &'a str> {
        self.host.into_iter().chain(self.path.into_iter().flat_map(|path| path.split('.')))
    }

    /// Its length, written in full.
    fn octets(self, question: &Question<'_>) -> usize {
        let front: usize = self.labels().map(|label| label.len() + 1).sum();
        front + question.last(self.rest).len()
    }
}

/// What a reply is made of.
pub(super) struct Reply<'a> {
    pub(super) metadata: Metadata,
    pub(super) question: Option<&'a Question<'a>>,
    pub(super) answers: &'a [Data],
    /// An empty answer says by whose authority.
    pub(super) soa: bool,
    pub(super) edns: Option<Edns>,
}

impl Reply<'_> {
    /// Its bytes, `limit` at most. What does not fit is left out in whole records: additional ones silently, and if that
    /// is not enough, answers, with TC to say that there are more (RFC 2181 9).
    pub(super) fn encode(mut self, table: &Table, limit: u16) -> Result<Vec<u8>, ProtoError> {
        let mut bytes = Vec::with_capacity(USUAL_OCTETS);
        let mut encoder = BinEncoder::new(&mut bytes);
        // The OPT comes last, and room is kept for it.
        encoder.set_max_size(if self.edns.is_some() { limit.saturating_sub(OPT_OCTETS) } else { limit });
        let header = encoder.place::<Header>()?;
        let mut counts = HeaderCounts::default();
        if let Some(question) = self.question {
            encoder.emit_vec(question.bytes)?;
            counts.queries = 1;
            let mut pen = Pen { encoder: &mut encoder, table, question, server_at: 0, targets: BTreeMap::new() };
            self.metadata.truncation = !pen.sections(self.answers, self.soa, &mut counts)?;
        }
        if let Some(mut edns) = self.edns {
            encoder.set_max_size(limit);
            edns.set_rcode_high(self.metadata.response_code.high());
            edns.emit(&mut encoder)?;
            counts.additionals += 1;
        }
        header.replace(&mut encoder, Header { metadata: self.metadata, counts })?;
        Ok(bytes)
    }
}

/// What writes the records of a reply.
struct Pen<'a, 'b, 'c> {
    encoder: &'b mut BinEncoder<'c>,
    table: &'a Table,
    question: &'a Question<'a>,
    /// Where the name of the server was written.
    server_at: usize,
    /// The targets of SRV records, with where each was written first, and the addresses that it has.
    targets: BTreeMap<&'a Target, (usize, &'a [IpAddr])>,
}

impl<'a> Pen<'a, '_, '_> {
    /// Writes what fits, and says whether that is all but additional records.
    fn sections(&mut self, answers: &'a [Data], soa: bool, counts: &mut HeaderCounts) -> Result<bool, ProtoError> {
        let asked = Relative { rest: self.question.query.name.iter().len(), ..Relative::default() };
        for data in answers {
            if !self.whole(|pen| pen.record(|pen| pen.name(asked), data))? {
                return Ok(false);
            }
            counts.answers += 1;
            if let Data::Srv(srv) = data {
                self.remember(srv);
            }
        }
        if soa {
            let zone = self.zone();
            if !self.whole(|pen| pen.record(|pen| pen.name(zone), &Data::Soa))? {
                return Ok(false);
            }
            counts.authorities += 1;
        }
        if answers == [Data::Ns] {
            self.addresses_of(self.server(), self.server_at, self.table.servers(), counts)?;
        }
        for (target, (at, addresses)) in core::mem::take(&mut self.targets) {
            if !self.addresses_of(target_name(self.table, target), at, addresses, counts)? {
                break;
            }
        }
        Ok(true)
    }

    /// Adds as many of the addresses of `name` as fit, and says whether that is all. It was written at `at`.
    fn addresses_of(
        &mut self,
        name: Relative<'_>,
        at: usize,
        addresses: &[IpAddr],
        counts: &mut HeaderCounts,
    ) -> Result<bool, ProtoError> {
        for address in addresses {
            if !self.whole(|pen| pen.record(|pen| pen.name_again(name, at), &Data::Address(*address)))? {
                return Ok(false);
            }
            counts.additionals += 1;
        }
        Ok(true)
    }

    /// What `write` writes, or nothing if it does not fit. Whether it did.
    fn whole(&mut self, write: impl FnOnce(&mut Self) -> Result<(), ProtoError>) -> Result<bool, ProtoError> {
        let begin = self.encoder.offset();
        match write(self) {
            Ok(()) => Ok(true),
            Err(ProtoError::MaxBufferSizeExceeded(_)) => {
                self.encoder.set_offset(begin);
                self.encoder.trim();
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn record(
        &mut self,
        owner: impl FnOnce(&mut Self) -> Result<(), ProtoError>,
        data: &Data,
    ) -> Result<(), ProtoError> {
        let ttl_s = self.table.ttl_s();
        let (kind, ttl_s) = match data {
            Data::Address(IpAddr::V4(_)) => (RecordType::A, ttl_s),
            Data::Address(IpAddr::V6(_)) => (RecordType::AAAA, ttl_s),
            Data::Srv(_) => (RecordType::SRV, ttl_s),
            Data::Ns => (RecordType::NS, ttl_s),
            Data::Soa => (RecordType::SOA, self.table.negative_ttl_s()),
            Data::Version => (RecordType::TXT, SCHEMA_TTL_S),
        };
        owner(self)?;
        kind.emit(self.encoder)?;
        DNSClass::IN.emit(self.encoder)?;
        self.encoder.emit_u32(ttl_s)?;
        let octets = self.encoder.place::<u16>()?;
        self.data(data)?;
        let written = self.encoder.len_since_place(&octets);
        octets.replace(self.encoder, u16::try_from(written).unwrap_or(u16::MAX))
    }

    fn data(&mut self, data: &Data) -> Result<(), ProtoError> {
        match data {
            Data::Address(IpAddr::V4(address)) => A(*address).emit(self.encoder),
            Data::Address(IpAddr::V6(address)) => AAAA(*address).emit(self.encoder),
            Data::Srv(srv) => self.srv(srv),
            Data::Version => self.encoder.emit_character_data(SCHEMA),
            Data::Ns => {
                self.server_at = self.encoder.offset();
                self.name(self.server())
            }
            Data::Soa => self.soa(),
        }
    }

    fn srv(&mut self, srv: &Srv) -> Result<(), ProtoError> {
        for number in [0, srv.weight, srv.port] {
            self.encoder.emit_u16(number)?;
        }
        self.name_in_full(target_name(self.table, &srv.target))
    }

    /// Takes note of the target of `srv`, which is what was written last.
    fn remember(&mut self, srv: &'a Srv) {
        let octets = target_name(self.table, &srv.target).octets(self.question);
        let at = self.encoder.offset().saturating_sub(octets);
        self.targets.entry(&srv.target).or_insert((at, &srv.addresses));
    }

    /// Refresh, retry and expire are for secondaries, which there are none of; the values are CoreDNS's.
    fn soa(&mut self) -> Result<(), ProtoError> {
        self.name(self.server())?;
        self.name(Relative { path: Some("hostmaster"), ..self.zone() })?;
        for number in [self.table.serial(), 7_200, 1_800, 86_400, self.table.negative_ttl_s()] {
            self.encoder.emit_u32(number)?;
        }
        Ok(())
    }

    fn zone(&self) -> Relative<'static> {
        Relative { rest: self.table.zone().labels().len(), ..Relative::default() }
    }

    /// The name of the server.
    fn server(&self) -> Relative<'static> {
        Relative { path: Some("ns.dns"), ..self.zone() }
    }

    /// `name`, as little of it as is not in the question.
    fn name(&mut self, name: Relative<'_>) -> Result<(), ProtoError> {
        let (new, rest) = self.question.shared_with(name);
        for label in name.labels().take(new) {
            self.encoder.emit_character_data(label)?;
        }
        self.point_to(HEADER_OCTETS + self.question.begin_of(rest))
    }

    /// `name`, which was written at `at` already.
    fn name_again(&mut self, name: Relative<'_>, at: usize) -> Result<(), ProtoError> {
        let is_in_question = self.question.shared_with(name).0 == 0;
        if is_in_question || at >= POINTERS_END { self.name(name) } else { self.point_to(at) }
    }

    /// Targets of SRV records are not compressed (RFC 2782).
    fn name_in_full(&mut self, name: Relative<'_>) -> Result<(), ProtoError> {
        for label in name.labels() {
            self.encoder.emit_character_data(label)?;
        }
        self.encoder.emit_vec(self.question.last(name.rest))
    }

    fn point_to(&mut self, at: usize) -> Result<(), ProtoError> {
        self.encoder.emit_u16(u16::try_from(at).unwrap_or_default() | 0xc000)
    }
}

/// The name that `target` stands for, of the service whose name is asked for or is above that.
fn target_name<'a>(table: &Table, target: &'a Target) -> Relative<'a> {
    let service = Relative { rest: table.zone().labels().len() + SERVICE_LABELS, ..Relative::default() };
    match target {
        Target::Service => service,
        Target::Cluster(cluster) => Relative { path: Some(cluster.as_str()), ..service },
        Target::Host(host, cluster) => Relative { host: Some(host.as_str()), path: Some(cluster.as_str()), ..service },
    }
}

/// Whether `data` can be said: the host name of a pod can make the name of a target too long to exist.
pub(super) fn can_be_said(table: &Table, question: &Question<'_>, data: &Data) -> bool {
    let Data::Srv(srv) = data else { return true };
    target_name(table, &srv.target).octets(question) <= Name::MAX_LENGTH
}
