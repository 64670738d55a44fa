//! A device at work: a TUN link on one side, a UDP socket on the other, and one thread for each way.
//!
//! ```text
//!  TUN ──> outbound: read 64 kB, cut, seal, send in lumps ─────────────> UDP
//!                        │ decisions ┌────────┐
//!                        └──────────>│ Device │<── clock: deadlines
//!                        ┌──────────>└────────┘
//!  TUN <── inbound: write 64 kB, join, open, receive in lumps <───────── UDP
//! ```
//!
//! More threads for one way would reorder packets, and TCP would take that for loss. The device is locked for decisions,
//! once a batch; nobody seals or opens under the lock.

mod clock;
mod coalesce;
mod inbound;
mod inside;
mod outbound;
mod outside;
mod ready;

pub use clock::Clock;
pub use ready::{Bell, Wish, wait};

use crate::wireguard::{Change, Device, Input, Output};
use inside::Inside;
use outside::{Lump, Outside};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{Builder, JoinHandle};
use tombolo_core::base::Machine;

/// What the threads have in common.
pub struct Shared {
    device: Mutex<Device>,
    clock: Clock,
    inside: Inside,
    outside: RwLock<Option<Arc<Outside>>>,
    mtu: AtomicUsize,
    mark: AtomicU32,
    ending: AtomicBool,
    /// Rings when the threads are to end, and goes on ringing.
    end: Bell,
    /// Rings when there is another socket.
    rebound: Bell,
    /// Rings when a deadline may be nearer than it was.
    sooner: Bell,
}

/// A tunnel. Its link is gone with it.
pub struct Tunnel {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Shared {
    fn device(&self) -> MutexGuard<'_, Device> {
        // A thread that panicked has left the device as it was between two changes.
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outside(&self) -> Option<Arc<Outside>> {
        self.outside.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn mtu(&self) -> usize {
        self.mtu.load(Ordering::Relaxed)
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Does what the device wants done, without its lock.
    fn carry_out(&self, mut device: MutexGuard<'_, Device>) {
        let outputs = tombolo_core::base::drain(&mut *device);
        drop(device);
        if outputs.is_empty() {
            return;
        }
        let outside = self.outside();
        for output in outputs {
            match (output, &outside) {
                (Output::Datagram { to, bytes }, Some(outside)) => {
                    outside.send(Lump { to, bytes: &bytes, size: bytes.len() });
                }
                // Nothing is bound yet: it is lost.
                (Output::Datagram { .. }, None) => {}
                (Output::Packet(packet), _) => {
                    let header = [0; tun_rs::VIRTIO_NET_HDR_LEN];
                    // A link that is gone is noticed by the thread that reads it.
                    let _ = self.inside.write(&[&header[..], &packet].concat());
                }
            }
        }
        self.sooner.ring();
    }
}

impl Tunnel {
    /// Makes the link, which is down, and starts the threads. Nothing is bound yet.
    ///
    /// # Errors
    /// Why there is none.
    pub fn start(name: &str) -> io::Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let clock = Clock::start();
        let inside = Inside::make(name)?;
        let mtu = inside.mtu()?;
        let mut device = Device::new(seed, clock.wall());
        device.handle(Input::Change(Change::Mtu(mtu)), clock.now());
        let shared = Arc::new(Shared {
            device: Mutex::new(device),
            clock,
            inside,
            outside: RwLock::new(None),
            mtu: AtomicUsize::new(mtu.into()),
            mark: AtomicU32::new(0),
            ending: AtomicBool::new(false),
            end: Bell::new()?,
            rebound: Bell::new()?,
            sooner: Bell::new()?,
        });
        let tunnel = Self { shared, threads: Mutex::default() };
        tunnel.spawn("outbound", outbound::carry)?;
        tunnel.spawn("inbound", inbound::carry)?;
        tunnel.spawn("clock", clock::keep)?;
        Ok(tunnel)
    }

    fn spawn(&self, name: &str, work: fn(&Shared) -> io::Result<()>) -> io::Result<()> {
        let shared = self.shared.clone();
        let thread = Builder::new().name(name.into()).spawn(move || {
            // Each ends when the link is gone, and then so do the others.
            let _ = work(&shared);
            shared.ending.store(true, Ordering::Relaxed);
            shared.end.ring();
        })?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Binds to another port; 0 takes any. Sessions go on.
    ///
    /// # Errors
    /// Why it stays where it is.
    pub fn bind(&self, port: u16) -> io::Result<()> {
        if self.port() == Some(port) {
            return Ok(());
        }
        let outside = Outside::bind(port, self.shared.mark.load(Ordering::Relaxed))?;
        *self.shared.outside.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(outside));
        self.shared.rebound.ring();
        Ok(())
    }

    /// Marks what it sends outside, for policy rules; 0 = not.
    ///
    /// # Errors
    /// Why the socket cannot.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        self.shared.mark.store(mark, Ordering::Relaxed);
        self.shared.outside().map_or(Ok(()), |outside| outside.set_mark(mark))
    }

    /// How it marks what it sends.
    #[must_use]
    pub fn mark(&self) -> u32 {
        self.shared.mark.load(Ordering::Relaxed)
    }

    /// The port that it is bound to.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.shared.outside().and_then(|outside| outside.port().ok())
    }

    /// Sets the device up otherwise.
    pub fn change(&self, changes: Vec<Change>) {
        let now = self.shared.clock.now();
        let mut device = self.shared.device();
        changes.into_iter().for_each(|change| device.handle(Input::Change(change), now));
        self.shared.carry_out(device);
    }

    /// Looks at the device.
    pub fn look<T>(&self, look: impl FnOnce(&Device) -> T) -> T {
        look(&self.shared.device())
    }

    /// The clock of the device.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Largest packet that it takes.
    #[must_use]
    pub fn mtu(&self) -> usize {
        self.shared.mtu()
    }

    /// Whether it has ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.is_ending()
    }

    /// Can be read once the tunnel has ended by itself: somebody has taken its link away.
    #[must_use]
    pub fn ended(&self) -> &Bell {
        &self.shared.end
    }
}

impl Tunnel {
    /// Ends the threads and frees the port. The link goes with the last one that holds this.
    pub fn stop(&self) {
        self.shared.ending.store(true, Ordering::Relaxed);
        self.shared.end.ring();
        for thread in std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner)) {
            // One that panicked has said so.
            let _ = thread.join();
        }
        *self.shared.outside.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.stop();
    }
}
