//! What travels between daemons and API servers: requests, answers and the batches of watches, as over TCP. A message
//! that is lost or finds the way cut is sent again until its time is over; those of one watch stay in order.

use super::api::{Answer, Ask};
use super::process::{Asked, Client, Phase, ProcessId, Running, Watch};
use super::{CoreSpeed, Event};
use crate::world::{HostId, Loss};
use core::time::Duration;
use tombolo_core::model::{Api, ApiError, Key, WatchEvent, Write};
use tombolo_core::roles::{Input, RequestId};
use tombolo_core::sync::{REQUEST_DEADLINE, WATCH_PAUSES};
use tombolo_scenarios::{ApiFault, ApiRef};

/// TCP's smallest retransmission timeout on Linux.
const RETRANSMIT: Duration = Duration::from_millis(200);
/// A server closes a connection on which nothing got through for so long.
const BATCH_MAX: Duration = Duration::from_secs(30);
/// What a request or a batch takes in a healthy server, at least and at most.
const SERVICE_TIME: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(4));
/// How long a watch stays open before the client asks again, at least and at most.
const WATCH_TIME: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(30));

/// A message under way.
#[derive(Debug)]
pub(super) struct Envelope {
    from: HostId,
    to: HostId,
    /// No more attempts after this.
    until: Duration,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Ask {
        client: Client,
        api: usize,
        space: Api,
        ask: Ask,
    },
    Answer {
        client: Client,
        api: usize,
        answer: Answer,
    },
    /// A deletion that the server puts off.
    Delayed {
        client: Client,
        api: usize,
        space: Api,
        ask: Ask,
    },
}

impl CoreSpeed {
    /// The run of a daemon, if it is still that one.
    pub(super) fn running(&mut self, client: Client) -> Option<&mut Running> {
        let process = self.processes.get_mut(client.process.0).filter(|process| process.boot == client.boot)?;
        process.running.as_mut()
    }

    /// The server that is `space` for a daemon.
    fn api_of(&self, id: ProcessId, space: Api) -> Option<usize> {
        let process = self.processes.get(id.0)?;
        let node = self.layout.host(process.host)?.node.as_ref()?;
        match space {
            Api::Local => self.find_api(&ApiRef::Cluster(node.cluster.clone())),
            Api::Broker => self.find_api(&self.settings.broker),
        }
    }

    fn is_held(&self, client: Client, watch: usize, session: u64, space: Api) -> bool {
        let server = self.api_of(client.process, space).and_then(|api| self.apis.get(api));
        server.is_some_and(|server| server.holds((client, watch, session)))
    }

    fn ask(&mut self, client: Client, space: Api, ask: Ask) {
        let Some(api) = self.api_of(client.process, space) else { return };
        let (Some(process), Some(server)) = (self.processes.get(client.process.0), self.apis.get(api)) else { return };
        let (from, to) = (process.host, server.host);
        let body = Body::Ask { client, api, space, ask };
        self.leave(Box::new(Envelope { from, to, until: self.now + REQUEST_DEADLINE, body }));
    }

    pub(super) fn read(&mut self, client: Client, id: RequestId, space: Api, key: Key) {
        self.expect_answer(client, id, Asked::Read);
        self.ask(client, space, Ask::Read(id, key));
    }

    pub(super) fn write(&mut self, client: Client, id: RequestId, space: Api, write: Write) {
        self.expect_answer(client, id, Asked::Write);
        self.ask(client, space, Ask::Write(id, write));
    }

    fn expect_answer(&mut self, client: Client, id: RequestId, asked: Asked) {
        if let Some(running) = self.running(client) {
            running.pending.insert(id, asked);
        }
        self.later(REQUEST_DEADLINE, Event::RequestDue(client, id));
    }

    /// No answer came in time.
    pub(super) fn request_due(&mut self, client: Client, id: RequestId) {
        let input = match self.running(client).and_then(|running| running.pending.remove(&id)) {
            Some(Asked::Read) => Input::Read(id, Err(ApiError::Unreachable)),
            Some(Asked::Write) => Input::Written(id, Err(ApiError::Unreachable)),
            None => return,
        };
        self.feed(client, input);
    }

    /// A message is about to leave its host.
    pub(super) fn leave(&mut self, envelope: Box<Envelope>) {
        if self.is_from_a_dead_server(&envelope.body) {
            return;
        }
        match self.fabric.passage(envelope.from, envelope.to) {
            Ok(delay) => self.left(envelope, delay),
            Err(Loss::Cut(_) | Loss::Chance(_)) if self.now + RETRANSMIT <= envelope.until => {
                self.later(RETRANSMIT, Event::Leave(envelope));
            }
            Err(_) => self.connection_lost(&envelope.body),
        }
    }

    fn is_from_a_dead_server(&self, body: &Body) -> bool {
        match body {
            // The end of a watch is told by the host of the dead process: it closes its connections.
            Body::Answer { answer: Answer::Ended { .. }, .. } => false,
            Body::Answer { api, .. } => self.is_down(*api),
            Body::Ask { .. } | Body::Delayed { .. } => false,
        }
    }

    pub(super) fn is_down(&self, api: usize) -> bool {
        self.apis.get(api).is_none_or(|api| api.fault == ApiFault::Down)
    }

    fn left(&mut self, envelope: Box<Envelope>, delay: Duration) {
        let mut at = self.now + delay;
        let mut next = None;
        if let Body::Answer { client, api, answer: Answer::Watched { watch, session, .. } } = &envelope.body {
            let connection = (*client, *watch, *session);
            if let Some(server) = self.apis.get_mut(*api) {
                at = server.in_order(connection, at);
                next = server.batch_left(connection).map(|answer| (*client, *api, answer));
            }
        }
        self.later(at - self.now, Event::Arrive(envelope));
        if let Some((client, api, answer)) = next {
            self.answer(client, api, answer);
        }
    }

    /// Nothing gets through any more: the server closes the watch.
    fn connection_lost(&mut self, body: &Body) {
        if let Body::Answer { client, api, answer: Answer::Watched { watch, session, .. } } = body
            && let Some(server) = self.apis.get_mut(*api)
        {
            server.hang_up((*client, *watch, *session));
        }
    }

    /// Sends an answer as soon as the server has it.
    fn answer(&mut self, client: Client, api: usize, answer: Answer) {
        let (Some(process), Some(server)) = (self.processes.get(client.process.0), self.apis.get(api)) else { return };
        let slow = match server.fault {
            ApiFault::Slow(by) => by,
            ApiFault::Healthy
            | ApiFault::SlowDeletes(_)
            | ApiFault::Erroring
            | ApiFault::Down
            | ApiFault::RestartedEmpty
            | ApiFault::BackedUp
            | ApiFault::Restored
            | ApiFault::HistoryExpired => Duration::ZERO,
        };
        let (from, to) = (server.host, process.host);
        let delay = self.chance.duration(SERVICE_TIME.0, SERVICE_TIME.1) + slow;
        let until = self.now + delay + BATCH_MAX;
        let body = Body::Answer { client, api, answer };
        self.later(delay, Event::Leave(Box::new(Envelope { from, to, until, body })));
    }

    /// Lets out what an API has to tell those who watch.
    pub(super) fn send_batches(&mut self, api: usize) {
        let batches = self.apis.get_mut(api).map(super::ApiServer::batches).unwrap_or_default();
        self.answer_all(api, batches);
    }

    pub(super) fn answer_all(&mut self, api: usize, answers: Vec<(Client, Answer)>) {
        for (client, answer) in answers {
            self.answer(client, api, answer);
        }
    }

    /// A message is there.
    pub(super) fn arrive(&mut self, envelope: Envelope) {
        let Envelope { from, to, until, body } = envelope;
        match body {
            Body::Ask { client, api, space, ask } => {
                let put_off = self.apis.get(api).and_then(|api| api.puts_off(&ask));
                if let Some(by) = put_off {
                    let body = Body::Delayed { client, api, space, ask };
                    self.later(by, Event::Arrive(Box::new(Envelope { from, to, until, body })));
                } else {
                    self.serve(client, api, space, ask);
                }
            }
            Body::Delayed { client, api, space, ask } => self.serve(client, api, space, ask),
            Body::Answer { client, api, answer } => self.answered(client, api, answer),
        }
    }

    fn serve(&mut self, client: Client, api: usize, space: Api, ask: Ask) {
        if self.is_down(api) {
            return;
        }
        let Some(server) = self.apis.get_mut(api) else { return };
        let (answer, accepted) = server.serve(client, space, ask);
        self.accepted(api, space, self.daemon_place(client.process), accepted);
        self.answer(client, api, answer);
    }

    fn answered(&mut self, client: Client, api: usize, answer: Answer) {
        let Some(running) = self.running(client) else {
            // Nobody is at that end any more.
            if let (Answer::Watched { watch, session, .. }, Some(server)) = (answer, self.apis.get_mut(api)) {
                server.hang_up((client, watch, session));
            }
            return;
        };
        match answer {
            Answer::Read(id, result) => {
                if running.pending.remove(&id).is_some() {
                    self.feed(client, Input::Read(id, result));
                }
            }
            Answer::Written(id, result) => {
                if running.pending.remove(&id).is_some() {
                    self.feed(client, Input::Written(id, result));
                }
            }
            Answer::Watched { watch, session, events, revision } => {
                let lifetime = self.chance.duration(WATCH_TIME.0, WATCH_TIME.1);
                let due = self.now + lifetime;
                let Some(known) = self.watch_of(client, watch, session) else { return };
                known.revision = Some(revision);
                known.failures = 0;
                if known.phase == Phase::Asking {
                    known.phase = Phase::Open;
                    known.due = due;
                    self.later(lifetime, Event::WatchDue(client, watch));
                }
                self.watched(client, watch, events);
            }
            Answer::Ended { watch, session } => {
                if self.watch_of(client, watch, session).is_some() {
                    self.watch_failed(client, watch);
                }
            }
        }
    }

    fn watched(&mut self, client: Client, watch: usize, events: Vec<WatchEvent>) {
        let Some(api) = self.running(client).and_then(|running| running.watches.get(watch)).map(|watch| watch.api)
        else {
            return;
        };
        for event in events {
            self.feed(client, Input::Watched(api, event));
        }
    }

    fn watch_of(&mut self, client: Client, watch: usize, session: u64) -> Option<&mut Watch> {
        let known = self.running(client)?.watches.get_mut(watch)?;
        (known.session == session && known.phase != Phase::Waiting).then_some(known)
    }

    /// Opens a watch, or opens it again where it was.
    pub(super) fn connect(&mut self, client: Client, watch: usize) {
        let due = self.now + REQUEST_DEADLINE;
        let Some(known) = self.running(client).and_then(|running| running.watches.get_mut(watch)) else { return };
        known.session += 1;
        known.phase = Phase::Asking;
        known.due = due;
        let (space, kind, session, from) = (known.api, known.kind, known.session, known.revision);
        self.later(REQUEST_DEADLINE, Event::WatchDue(client, watch));
        self.ask(client, space, Ask::Watch { watch, session, kind, from });
    }

    /// A watch that was broken off begins anew with a listing: the API may have come back with an old store, whose versions
    /// were those of other objects before.
    fn watch_failed(&mut self, client: Client, watch: usize) {
        let now = self.now;
        let Some(known) = self.running(client).and_then(|running| running.watches.get_mut(watch)) else { return };
        // What may still come over the old connection is for nobody.
        known.session += 1;
        known.phase = Phase::Waiting;
        let (api, kind, followed) = (known.api, known.kind, known.revision.take().is_some());
        let failures = known.failures;
        known.failures += 1;
        let wait = self.chance.pause(WATCH_PAUSES, failures);
        if let Some(known) = self.running(client).and_then(|running| running.watches.get_mut(watch)) {
            known.due = now + wait;
        }
        self.later(wait, Event::WatchDue(client, watch));
        if followed {
            self.feed(client, Input::Watched(api, WatchEvent::Lost(kind)));
        }
    }

    /// A phase of a watch is over, unless another one has begun.
    pub(super) fn watch_due(&mut self, client: Client, watch: usize) {
        let now = self.now;
        let Some(known) = self.running(client).and_then(|running| running.watches.get(watch)) else { return };
        if known.due != now {
            return;
        }
        let (space, session, phase) = (known.api, known.session, known.phase);
        match phase {
            Phase::Waiting => self.connect(client, watch),
            // Its time is over, and it goes on from there; unless the server knows nothing of it any more.
            Phase::Open if self.is_held(client, watch, session, space) => self.connect(client, watch),
            Phase::Open | Phase::Asking => self.watch_failed(client, watch),
        }
    }
}
