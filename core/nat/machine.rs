//! The machine of one gateway: datagrams in, datagrams and choices out.

use super::public::Public;
use super::tested::{Around, Tested, Wish};
use super::timing::REPORT;
use super::vocabulary::{Arrival, Choice, Config, Dialect, Ignored, Input, Me, Output, Reason, Remote, RemoteId, Seal};
use super::wire::{Details, IpPort, Message, Request, Response, VERSION, Verdict};
use crate::base::{Cidr, ClusterId, Instant, Machine, Rng};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::ToString;
use core::net::{IpAddr, SocketAddr};

/// NAT discovery of one gateway.
#[derive(Clone, PartialEq, Debug)]
pub struct Discovery {
    me: Me,
    rng: Rng,
    remotes: BTreeMap<RemoteId, Tested>,
    tunnelled: BTreeSet<Cidr>,
    public: Public,
    ignored: BTreeMap<Ignored, u64>,
    reported_at: Option<Instant>,
    unreported: u64,
    outputs: VecDeque<Output>,
}

/// A datagram as it came.
struct Datagram<'a> {
    from: SocketAddr,
    seal: &'a Seal,
    bytes: &'a [u8],
}

impl Discovery {
    /// A machine that knows nobody yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            me: config.me,
            rng: Rng::stream(config.seed, "nat"),
            remotes: BTreeMap::new(),
            tunnelled: BTreeSet::new(),
            public: Public::new(config.looks_up, config.boot),
            ignored: BTreeMap::new(),
            reported_at: None,
            unreported: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Where to dial `remote`, once that is known.
    #[must_use]
    pub fn choice(&self, remote: &RemoteId) -> Option<Choice> {
        self.remotes.get(remote)?.choice()
    }

    /// How many datagrams were no use, by reason.
    #[must_use]
    pub const fn ignored(&self) -> &BTreeMap<Ignored, u64> {
        &self.ignored
    }

    /// Applies `step` to each remote that `which` names.
    fn each(&mut self, now: Instant, mut step: impl FnMut(&RemoteId, &mut Tested, &mut Around<'_>)) {
        let mut around = Around { asks: self.me.port != 0, tunnelled: &self.tunnelled, rng: &mut self.rng, now };
        for (id, tested) in &mut self.remotes {
            step(id, tested, &mut around);
        }
    }

    fn set_remotes(&mut self, mut remotes: BTreeMap<RemoteId, Remote>, now: Instant) {
        remotes.retain(|id, _| id.cluster != self.me.cluster);
        self.remotes.retain(|id, _| remotes.contains_key(id));
        self.each(now, |id, tested, around| {
            if let Some(remote) = remotes.remove(id) {
                tested.set(remote, around);
            }
        });
        let mut around = Around { asks: self.me.port != 0, tunnelled: &self.tunnelled, rng: &mut self.rng, now };
        for (id, remote) in remotes {
            self.remotes.insert(id, Tested::new(remote, &mut around));
        }
    }

    // ── What arrives ──

    fn receive(&mut self, arrival: Arrival, datagram: &Datagram<'_>, now: Instant) -> Result<(), Ignored> {
        if arrival == Arrival::Tunnel {
            return Err(Ignored::Tunnel);
        }
        if self.tunnelled.iter().any(|range| range.contains(datagram.from.ip())) {
            return Err(Ignored::Tunnelled);
        }
        match Message::decode(datagram.bytes).map_err(Ignored::Unreadable)? {
            Message::Request(VERSION, request) => self.respond(&request, datagram),
            Message::Request(_, _) => Err(Ignored::Version),
            Message::Response(response) => self.hear(&response, datagram, now),
        }
    }

    /// Whether the sender is who it says, and how it speaks.
    fn authenticate(&self, cluster: &ClusterId, seal: &Seal) -> Result<Dialect, Ignored> {
        match seal {
            Seal::By(sealer) if sealer == cluster => return Ok(Dialect::Sealed),
            Seal::By(_) | Seal::Broken => return Err(Ignored::BadSeal),
            Seal::None => {}
        }
        let mut known = self.remotes.iter().filter(|(id, _)| id.cluster == *cluster).peekable();
        known.peek().ok_or(Ignored::Stranger)?;
        let plain = known.all(|(_, tested)| tested.remote().dialect == Dialect::Plain);
        if plain { Ok(Dialect::Plain) } else { Err(Ignored::Unsealed) }
    }

    /// Answers a question. Nobody is answered who is in no record.
    fn respond(&mut self, request: &Request<'_>, datagram: &Datagram<'_>) -> Result<(), Ignored> {
        let from = datagram.from;
        let sender = request.sender.ok_or(Ignored::Incomplete)?;
        let cluster = ClusterId::new(sender.cluster).map_err(|_| Ignored::Stranger)?;
        let dialect = self.authenticate(&cluster, datagram.seal)?;
        let mut response = Response {
            number: request.number,
            sender: Some(details(&self.me)),
            receiver: Some(sender),
            received: Some(from.into()),
            ..Response::default()
        };
        response.verdict = match (request.receiver, request.source, request.destination) {
            (Some(receiver), _, _) if receiver.cluster != self.me.cluster.as_str() => Verdict::UnknownCluster,
            (Some(receiver), _, _) if receiver.endpoint != self.me.endpoint => Verdict::UnknownEndpoint,
            (Some(_), Some(source), Some(destination)) => {
                response.source_changed = source.address.is_some_and(|address| address != from.ip());
                response.source_port_changed = source.port != u64::from(from.port());
                response.destination_changed = destination.address != Some(self.me.private);
                let changed = response.source_changed || response.source_port_changed || response.destination_changed;
                if changed { Verdict::NatDetected } else { Verdict::Ok }
            }
            (_, _, _) => Verdict::Malformed,
        };
        let bytes = Message::Response(response).encode();
        let sealed = (dialect == Dialect::Sealed).then_some(cluster);
        self.outputs.push_back(Output::Send { to: from, sealed, bytes });
        Ok(())
    }

    /// Takes an answer.
    fn hear(&mut self, response: &Response<'_>, datagram: &Datagram<'_>, now: Instant) -> Result<(), Ignored> {
        let (Some(sender), Some(receiver), Some(received)) = (response.sender, response.receiver, response.received)
        else {
            return Err(Ignored::Incomplete);
        };
        let cluster = ClusterId::new(sender.cluster).map_err(|_| Ignored::Stranger)?;
        let dialect = self.authenticate(&cluster, datagram.seal)?;
        if receiver != details(&self.me) {
            return Err(Ignored::NotForUs);
        }
        let nat = match response.verdict {
            Verdict::Ok => false,
            Verdict::NatDetected => true,
            refusal @ (Verdict::UnknownCluster | Verdict::UnknownEndpoint | Verdict::Malformed | Verdict::Other(_)) => {
                return Err(Ignored::Refused(refusal));
            }
        };
        let id = RemoteId { cluster, endpoint: sender.endpoint.to_string() };
        let mut around = Around { asks: self.me.port != 0, tunnelled: &self.tunnelled, rng: &mut self.rng, now };
        let tested = self.remotes.get_mut(&id).ok_or(Ignored::Stranger)?;
        tested.answer(response.number, datagram.from.ip(), nat, &mut around)?;
        let seen = received.address.filter(|address| *address != self.me.private && dialect == Dialect::Sealed);
        if let Some(address) = seen {
            self.public.seen(address, now);
        }
        Ok(())
    }

    /// Counts it, and tells at most one a second.
    fn ignore(&mut self, from: SocketAddr, why: Ignored, now: Instant) {
        let count = self.ignored.entry(why).or_default();
        *count = count.saturating_add(1);
        if self.reported_at.is_some_and(|last| now < last + REPORT) {
            self.unreported = self.unreported.saturating_add(1);
            return;
        }
        self.reported_at = Some(now);
        let more = core::mem::take(&mut self.unreported);
        self.outputs.push_back(Output::Ignored { from, why, more });
    }

    // ── What follows ──

    fn settle(&mut self, now: Instant) {
        let mut wishes = VecDeque::new();
        self.each(now, |id, tested, around| {
            if tested.wake().is_some_and(|(at, _)| at <= now) {
                tested.settle(around);
            }
            wishes.extend(tested.take_wishes().into_iter().map(|wish| (id.clone(), wish)));
        });
        for (id, wish) in wishes {
            let output = self.grant(id, wish);
            self.outputs.push_back(output);
        }
        if self.public.settle(&mut self.rng, now) {
            self.outputs.push_back(Output::LookUp);
        }
    }

    fn grant(&self, remote: RemoteId, wish: Wish) -> Output {
        match wish {
            Wish::Ask { to, number } => {
                let source = SocketAddr::new(self.me.private, self.me.port);
                let request = Request {
                    number,
                    sender: Some(details(&self.me)),
                    receiver: Some(Details { cluster: remote.cluster.as_str(), endpoint: &remote.endpoint }),
                    source: Some(IpPort::from(source)),
                    destination: Some(IpPort::from(to)),
                };
                let bytes = Message::Request(VERSION, request).encode();
                let seals = self.remotes.get(&remote).is_some_and(|known| known.remote().dialect == Dialect::Sealed);
                Output::Send { to, sealed: seals.then_some(remote.cluster), bytes }
            }
            Wish::Choose(choice) => Output::Chosen { remote, choice },
            Wish::Unanswered => Output::Unanswered { remote },
        }
    }
}

fn details(me: &Me) -> Details<'_> {
    Details { cluster: me.cluster.as_str(), endpoint: &me.endpoint }
}

impl Machine for Discovery {
    type Input = Input;
    type Output = Output;
    type Reason = Reason;

    fn handle(&mut self, input: Input, now: Instant) {
        match input {
            Input::Me(me) => {
                if me != self.me {
                    self.me = me;
                    self.each(now, |_, tested, around| tested.adjust(around));
                }
            }
            Input::Remotes(remotes) => self.set_remotes(remotes, now),
            Input::Tunnelled(ranges) => {
                if ranges != self.tunnelled {
                    self.tunnelled = ranges;
                    self.each(now, |_, tested, around| tested.adjust(around));
                }
            }
            Input::Doubt(remote) => {
                self.public.doubt(now);
                self.each(now, |id, tested, around| {
                    if *id == remote {
                        tested.doubt(around);
                    }
                });
            }
            Input::Datagram { arrival, from, seal, bytes } => {
                let datagram = Datagram { from, seal: &seal, bytes: &bytes };
                if let Err(why) = self.receive(arrival, &datagram, now) {
                    self.ignore(from, why, now);
                }
            }
            Input::LookedUp(result) => {
                let known: Result<Option<IpAddr>, ()> = result.map_err(|_| ());
                if let Some(address) = self.public.looked_up(known, &mut self.rng, now) {
                    self.outputs.push_back(Output::Public(address));
                }
            }
        }
        self.settle(now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        let remotes = self.remotes.values().filter_map(Tested::wake);
        remotes.chain(self.public.wake().map(|at| (at, Reason::LookUp))).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.settle(now);
    }
}
