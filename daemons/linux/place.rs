//! A network namespace with a thread that lives in it: for whoever makes nodes out of namespaces.
//!
//! The namespace has no name, and no file holds it: it ends with its thread and the processes in it, so however a program
//! ends, nothing of it is left.

use crate::error::Fault;
use crate::links;
use crate::socket::Channel;
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};

/// What a place's thread is given to do.
type Job = Box<dyn FnOnce() + Send>;
/// The number of a namespace's loopback link.
const LOOPBACK: u32 = 1;

/// A fresh network namespace, its loopback up. It ends with this, unless processes are still in it.
pub struct Place {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    thread_number: i32,
}

impl Place {
    /// Makes one.
    ///
    /// # Errors
    /// Why there is none: it takes root, and a kernel with namespaces.
    pub fn new() -> Result<Self, Fault> {
        let (jobs, given) = mpsc::channel::<Job>();
        let (tell, told) = mpsc::channel();
        let live = move || {
            let opened = open();
            let is_there = opened.is_ok();
            // Whoever made it waits for this.
            let _ = tell.send(opened);
            if is_there {
                given.iter().for_each(|job| job());
            }
        };
        let thread = Builder::new().name("place".into()).spawn(live)?;
        let thread_number = told.recv().map_err(|_| gone())??;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), thread_number })
    }

    /// The number of its thread, as this program's own namespace of processes counts.
    #[must_use]
    pub const fn thread_number(&self) -> i32 {
        self.thread_number
    }

    /// Does something inside, and waits for it. Its panic is the caller's.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let (tell, told) = mpsc::channel();
        let job = Box::new(move || drop(tell.send(catch_unwind(AssertUnwindSafe(job)))));
        self.jobs.as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())?;
        told.recv().map_err(|_| gone())?.map_or_else(|panic| resume_unwind(panic), Ok)
    }

    /// The namespace as a file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn namespace(&self) -> io::Result<OwnedFd> {
        self.run(|| File::open("/proc/thread-self/ns/net").map(OwnedFd::from))?
    }

    /// Does something on another thread inside, meanwhile.
    ///
    /// # Errors
    /// There is no such thread.
    pub fn beside<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<io::Result<T>>> {
        let namespace = self.namespace()?;
        Builder::new().name("beside".into()).spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            Ok(job())
        })
    }
}

fn open() -> Result<i32, Fault> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(io::Error::from)?;
    Channel::open(NETLINK_ROUTE)?.request(links::raise(LOOPBACK), 0)?;
    Ok(nix::unistd::gettid().as_raw())
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the thread of this namespace has ended")
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.jobs.take());
        // A panic of a job was its caller's.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
