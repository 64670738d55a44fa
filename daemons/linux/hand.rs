//! The kernel hand of a daemon: a thread that lives in one namespace, carries out what is wanted there, and puts back what
//! others spoil.

use crate::cables::Cables;
use crate::error::Error;
use crate::node::Node;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use tombolo_core::network::{Plan, Wanted};
use tombolo_core::roles::Input;
use tombolo_shell::{Inbox, KernelHand};

/// How long others' edits are let come to rest before they are looked at.
const REST: Duration = Duration::from_millis(100);
/// How often it is looked without a hint: not all that may be spoilt is told (`nf_conntrack_tcp_loose`).
const ROUND: Duration = Duration::from_secs(60);
/// The same network, once it could not be applied, is tried again after this long.
const AGAIN: Duration = Duration::from_secs(1);

/// Where the hand works.
#[derive(Debug)]
pub enum Namespace {
    /// In that of the thread that starts it.
    Here,
    /// In this one (`/run/netns/…`, `/proc/…/ns/net`).
    Of(OwnedFd),
}

/// What the hand did.
#[derive(Debug)]
pub enum Deed {
    /// What was wanted is so; these steps were taken.
    Applied(Plan, usize),
    /// Others had changed what is ours; these steps put it back.
    PutBack(Plan, usize),
    /// It could not.
    Failed(Error),
}

/// A [`KernelHand`] on a thread of its own. What it has applied stays when it is dropped.
pub struct Hand {
    shared: Arc<Mutex<Order>>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is to do next.
#[derive(Default)]
struct Order {
    wanted: Option<Arc<Wanted>>,
    end: bool,
}

impl Hand {
    /// Starts it. What comes of each network is an input in the inbox; `tell` hears more of it.
    ///
    /// # Errors
    /// [`Error::Open`] if the thread, the namespace or the sockets cannot be had.
    pub fn start(
        namespace: Namespace,
        cables: Box<dyn Cables>,
        inbox: Inbox,
        tell: Box<dyn FnMut(Deed) + Send>,
    ) -> Result<Self, Error> {
        let open = |what| move |source| Error::Open { what, source };
        let shared = Arc::new(Mutex::new(Order::default()));
        let (wake, woken) = UnixStream::pair().map_err(open("a pair of sockets"))?;
        for end in [&wake, &woken] {
            end.set_nonblocking(true).map_err(open("a pair of sockets"))?;
        }
        let (began, begins) = mpsc::channel();
        let order = shared.clone();
        let thread = Builder::new().name("kernel".into()).spawn(move || {
            let opened = enter(&namespace).and_then(|()| Node::open(cables));
            let (node, outcome) = match opened {
                Ok(node) => (Some(node), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // It waits for this, below.
            let _ = began.send(outcome);
            if let Some(node) = node {
                Worker { node, order, woken, inbox, tell, last: None, failed: None, look_at: None }.run();
            }
        });
        let thread = thread.map_err(open("a thread"))?;
        let ended = || Error::Open { what: "a thread", source: io::ErrorKind::BrokenPipe.into() };
        begins.recv().map_err(|_| ended())??;
        Ok(Self { shared, wake, thread: Some(thread) })
    }

    fn order(&mut self, change: impl FnOnce(&mut Order)) {
        change(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner));
        // Full means that it will wake anyway.
        let _ = self.wake.write(&[0]);
    }
}

impl KernelHand for Hand {
    fn apply(&mut self, wanted: Arc<Wanted>) {
        self.order(|order| order.wanted = Some(wanted));
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.order(|order| order.end = true);
        // It fails only if the thread panicked, which was told by then.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn enter(namespace: &Namespace) -> Result<(), Error> {
    match namespace {
        Namespace::Here => Ok(()),
        Namespace::Of(file) => setns(file.as_fd(), CloneFlags::CLONE_NEWNET)
            .map_err(|errno| Error::Open { what: "the namespace", source: errno.into() }),
    }
}

/// The thread's own.
struct Worker {
    node: Node,
    order: Arc<Mutex<Order>>,
    woken: UnixStream,
    inbox: Inbox,
    tell: Box<dyn FnMut(Deed) + Send>,
    last: Option<Arc<Wanted>>,
    /// When `last` could not be applied.
    failed: Option<Instant>,
    /// When to look whether all is as it was left.
    look_at: Option<Instant>,
}

impl Worker {
    fn run(mut self) {
        loop {
            let (next, end) = self.next();
            if end {
                return;
            }
            match next {
                Some(wanted) if !self.has_just_failed(&wanted) => {
                    self.last = Some(wanted);
                    self.carry_out();
                }
                Some(wanted) => {
                    // Put back, unless a newer one came meanwhile.
                    let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
                    order.wanted.get_or_insert(wanted);
                    drop(order);
                    self.wait(true);
                }
                None if self.look_at.is_some_and(|at| at <= Instant::now()) => self.put_back(),
                None => self.wait(false),
            }
        }
    }

    fn next(&mut self) -> (Option<Arc<Wanted>>, bool) {
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        (order.wanted.take(), order.end)
    }

    /// The machine asks for the same again at once when it could not be had.
    fn has_just_failed(&self, wanted: &Arc<Wanted>) -> bool {
        let same = self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, wanted) || **last == **wanted);
        same && self.failed.is_some_and(|at| at.elapsed() < AGAIN)
    }

    fn carry_out(&mut self) {
        let Some(wanted) = self.last.clone() else { return };
        let outcome = self.node.reconcile(&wanted);
        self.failed = outcome.is_err().then(Instant::now);
        self.look_at = Some(Instant::now() + ROUND);
        self.inbox.put(Input::Applied(outcome.as_ref().map(|_| ()).map_err(ToString::to_string)));
        let items = self.node.items();
        (self.tell)(outcome.map_or_else(Deed::Failed, |plan| Deed::Applied(plan, items)));
    }

    fn put_back(&mut self) {
        self.look_at = Some(Instant::now() + ROUND);
        let Some(wanted) = self.last.clone() else { return };
        match self.node.reconcile(&wanted) {
            Ok(plan) if plan.is_empty() => {}
            Ok(plan) => (self.tell)(Deed::PutBack(plan, self.node.items())),
            Err(error) => {
                self.look_at = Some(Instant::now() + AGAIN);
                (self.tell)(Deed::Failed(error));
            }
        }
    }

    /// Until there is something to do. With `busy`, for a while only, and whatever the kernel tells.
    fn wait(&mut self, busy: bool) {
        let now = Instant::now();
        let due = if busy { self.failed.map(|at| at + AGAIN) } else { self.look_at };
        let timeout = due.map_or(ROUND, |at| at.saturating_duration_since(now)) + Duration::from_millis(1);
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let [routes, tables] = self.node.watched();
        let streams = [self.woken.as_fd(), routes, tables];
        let mut waiting = streams.map(|stream| PollFd::new(stream, PollFlags::POLLIN));
        let count = if busy { 1 } else { waiting.len() };
        // An interruption is one more turn.
        let _ = poll(waiting.get_mut(..count).unwrap_or_default(), timeout);
        let mut drained = [0; 64];
        while matches!(self.woken.read(&mut drained), Ok(1..)) {}
        match self.node.touched() {
            Ok(false) => {}
            Ok(true) => {
                let soon = Instant::now() + REST;
                self.look_at = Some(self.look_at.map_or(soon, |at| at.min(soon)));
            }
            Err(error) => (self.tell)(Deed::Failed(error)),
        }
    }
}
