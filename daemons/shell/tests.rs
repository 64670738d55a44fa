//! The loop with hands that only remember, on paused time.

use crate::{
    Hands, Inbox, Journal, KernelHand, KubeHand, NatHand, NetHand, Record, RecordError, Recorder, WallClock, ZoneHand,
    inbox, replay, run,
};
use core::time::Duration;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::{Instant as TokioInstant, sleep};
use tombolo_core::base::{ClusterId, Instant, Machine, Wall};
use tombolo_core::dns::Table;
use tombolo_core::model::{Api, ApiError, Key, Kind, Write};
use tombolo_core::network::Wanted;
use tombolo_core::roles::{Event, Input, Output, RequestId, Role, Via};

/// Reads every two seconds, and tells what came of it.
#[derive(Clone, PartialEq, Debug, Default)]
struct Reader {
    next: Option<Instant>,
    asked: u64,
    outbox: Vec<Output>,
}

impl Reader {
    fn say(&mut self, text: String) {
        self.outbox.push(Output::Event(Event::Ignored { because: text }));
    }
}

impl Machine for Reader {
    type Input = Input;
    type Output = Output;
    type Reason = ();

    fn handle(&mut self, input: Input, now: Instant) {
        match input {
            Input::Wall(_) if self.next.is_none() => self.next = Some(now + Duration::from_secs(2)),
            Input::Read(id, ref result) => self.say(format!("{now} answer {} {result:?}", id.0)),
            Input::Wall(_) => {}
            Input::Watched(..)
            | Input::Written(..)
            | Input::Hello { .. }
            | Input::Probe { .. }
            | Input::LookedUp(_)
            | Input::Applied(_)
            | Input::Stop
            | Input::Leave => {
                self.say(format!("{now} {input:?}"));
            }
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        if self.outbox.is_empty() { None } else { Some(self.outbox.remove(0)) }
    }

    fn poll_timeout(&self) -> Option<(Instant, ())> {
        self.next.map(|at| (at, ()))
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.next.is_some_and(|at| at <= now) {
            self.next = Some(now + Duration::from_secs(2));
            self.say(format!("{now} asks"));
            let key = Key::new(Kind::Lease, "", "x");
            self.outbox.push(Output::Read(RequestId(self.asked), Api::Local, key));
            self.asked += 1;
        }
    }
}

impl Role for Reader {
    fn watches(&self) -> &'static [(Api, Kind)] {
        &[(Api::Local, Kind::Node)]
    }
}

/// Hands that remember; reads are answered after a second.
#[derive(Clone)]
struct Memory {
    said: Rc<RefCell<Vec<String>>>,
    inbox: Inbox,
}

impl KubeHand for Memory {
    fn watch(&mut self, watches: &'static [(Api, Kind)]) {
        self.said.borrow_mut().push(format!("watches {watches:?}"));
    }
    fn read(&mut self, id: RequestId, _: Api, _: Key) {
        let inbox = self.inbox.clone();
        tokio::task::spawn_local(async move {
            sleep(Duration::from_secs(1)).await;
            inbox.put(Input::Read(id, Err(ApiError::Unreachable)));
        });
    }
    fn write(&mut self, _: RequestId, _: Api, _: Write) {}
}

impl NetHand for Memory {
    fn send(&mut self, _: Via, _: IpAddr, _: Vec<u8>) {}
}

impl NatHand for Memory {
    fn probe(&mut self, _: SocketAddr, _: Option<ClusterId>, _: Vec<u8>) {}
    fn look_up(&mut self) {}
}

impl KernelHand for Memory {
    fn apply(&mut self, _: Arc<Wanted>) {}
}

impl ZoneHand for Memory {
    fn swap(&mut self, _: Arc<Table>) {}
}

impl Journal for Memory {
    fn tell(&mut self, event: Event) {
        self.said.borrow_mut().push(event.to_string());
    }
}

impl WallClock for Memory {
    fn now(&self) -> Wall {
        Wall::from_unix_secs(1)
    }
}

fn hands(memory: &Memory) -> Hands {
    Hands {
        kube: Box::new(memory.clone()),
        net: Box::new(memory.clone()),
        nat: Box::new(memory.clone()),
        kernel: Box::new(memory.clone()),
        zone: Box::new(memory.clone()),
        journal: Box::new(memory.clone()),
        wall: Box::new(memory.clone()),
    }
}

/// Runs the reader for so long; gives what was said, and its record.
fn play(time: Duration, during: impl AsyncFnOnce(Inbox)) -> (Vec<String>, Vec<u8>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let tape = Tape::default();
    let said = Rc::new(RefCell::new(vec![]));
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (inbox, inputs) = inbox();
        let memory = Memory { said: said.clone(), inbox: inbox.clone() };
        let began = TokioInstant::now();
        let daemon = run(Reader::default(), hands(&memory), inputs, Some(Box::new(Recorder::new(tape.clone()))));
        tokio::select! {
            biased;
            _ = daemon => {}
            () = async {
                during(inbox).await;
                sleep(time.saturating_sub(TokioInstant::now() - began)).await;
            } => {}
        }
    });
    let said = said.borrow().clone();
    let tape = tape.0.borrow().clone();
    (said, tape)
}

#[derive(Clone, Default)]
struct Tape(Rc<RefCell<Vec<u8>>>);

impl std::io::Write for Tape {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn watches_open_first_then_timers_and_answers_alternate() {
    let (said, _) = play(Duration::from_millis(5_500), async |_| {});
    assert_eq!(
        said,
        [
            "watches [(Local, Node)]",
            "ignored: 2.000000s asks",
            "ignored: 3.000000s answer 0 Err(Unreachable)",
            "ignored: 4.000000s asks",
            "ignored: 5.000000s answer 1 Err(Unreachable)",
        ]
    );
}

#[test]
fn a_timer_that_is_due_goes_before_an_input_of_the_same_moment() {
    let (said, _) = play(Duration::from_millis(2_500), async |inbox: Inbox| {
        sleep(Duration::from_secs(2)).await;
        inbox.put(Input::Stop);
    });
    assert_eq!(said[1..], ["ignored: 2.000000s asks", "ignored: 2.000000s Stop"]);
}

#[test]
fn a_record_is_lived_again_to_the_last_line() {
    let (_, record) = play(Duration::from_secs(9), async |_| {});
    let lines = record.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(replay(&mut Reader::default(), record.as_slice(), None).unwrap(), lines);
    assert_eq!(replay(&mut Reader::default(), record.as_slice(), Some(3)).unwrap(), 3);
}

#[test]
fn a_record_that_the_machine_would_not_live_is_told_with_its_line() {
    let (_, record) = play(Duration::from_secs(9), async |_| {});
    let mut other = Reader { asked: 7, ..Reader::default() };
    let error = replay(&mut other, record.as_slice(), None).unwrap_err();
    assert!(matches!(error, RecordError::Differs { .. }), "{error}");
    let error = replay(&mut Reader::default(), b"{}\n".as_slice(), None).unwrap_err();
    assert!(error.to_string().starts_with("line 1 is no step of a record"), "{error}");
}

#[test]
fn a_recorder_that_cannot_write_falls_silent() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("full"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut recorder = Recorder::new(Full);
    recorder.step(Instant::ZERO, &crate::Step::Wake, &[]);
    assert!(!recorder.is_whole());
}
