//! From the inside to the outside: read, seal, send.

use super::Shared;
use super::inside::{Batch, Message};
use super::outside::{LUMP_MAX, Lump};
use super::ready::{Wish, wait};
use crate::wireguard::{Carry, Input, Way, addresses, length};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use tombolo_core::base::Machine;

/// Messages of a batch that go to one address inside, and what becomes of them.
struct Run {
    messages: Range<usize>,
    way: Arc<Way>,
    first: u64,
    to: SocketAddr,
}

/// Carries packets until the link is gone, or the tunnel is to end.
pub fn carry(shared: &Shared) -> io::Result<()> {
    let mut batch = Batch::new();
    loop {
        wait(&[(shared.inside.as_fd(), Wish::Read), (shared.end.as_fd(), Wish::Read)], None)?;
        if shared.is_ending() {
            return Ok(());
        }
        batch.clear();
        let mtu = shared.mtu();
        while batch.has_room() {
            match shared.inside.read(&mut batch, mtu) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let runs = decide(shared, &batch);
        for run in &runs {
            seal(run, &mut batch);
        }
        send(shared, &runs, &mut batch);
    }
}

/// Where a packet goes, if it is one.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    length(packet).filter(|length| *length == packet.len())?;
    addresses(packet).map(|(_, to)| to)
}

/// Asks the device, once for all packets that are here.
fn decide(shared: &Shared, batch: &Batch) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut at = 0;
    let now = shared.clock.now();
    let mut device = shared.device();
    while let Some(message) = batch.messages.get(at) {
        let Some(to) = destination(batch.packet(message)) else {
            at += 1;
            continue;
        };
        let rest = batch.messages.get(at..).unwrap_or_default();
        let count = rest.iter().take_while(|message| destination(batch.packet(message)) == Some(to)).count().max(1);
        let messages = at..at + count;
        at += count;
        let run = batch.messages.get(messages.clone()).unwrap_or_default();
        let bytes: usize = run.iter().map(|message| message.length).sum();
        let (count, bytes) = (u64::try_from(count).unwrap_or(0), u64::try_from(bytes).unwrap_or(0));
        match device.carry(to, count, bytes, now) {
            Carry::Now { way, first, to } => runs.push(Run { messages, way, first, to }),
            Carry::Later => {
                for message in run {
                    device.handle(Input::Packet(batch.packet(message).to_vec()), now);
                }
            }
            Carry::Nowhere => {}
        }
    }
    shared.carry_out(device);
    runs
}

fn seal(run: &Run, batch: &mut Batch) {
    for (counter, at) in (run.first..).zip(run.messages.clone()) {
        let Some(Message { start, length, .. }) = batch.messages.get(at).copied() else { continue };
        // It is as long as it has to be.
        run.way.seal(counter, batch.bytes(start, length)).unwrap_or_default();
    }
}

/// Sends what is sealed, as many at a time as go together.
fn send(shared: &Shared, runs: &[Run], batch: &mut Batch) {
    let Some(outside) = shared.outside() else { return };
    let together = outside.together();
    let mut pending: Option<(SocketAddr, usize, usize, usize)> = None;
    let flush = |batch: &mut Batch, pending: Option<(SocketAddr, usize, usize, usize)>| {
        if let Some((to, size, start, end)) = pending {
            outside.send(Lump { to, bytes: batch.bytes(start, end - start), size });
        }
    };
    for run in runs {
        for at in run.messages.clone() {
            let Some(Message { start, length, .. }) = batch.messages.get(at).copied() else { continue };
            pending = match pending {
                // All before are of one size, and this one is no longer: it may be the last.
                Some((to, size, from, end))
                    if to == run.to
                        && end == start
                        && (end - from).is_multiple_of(size)
                        && length <= size
                        && (end - from) / size < together
                        && start + length - from <= LUMP_MAX =>
                {
                    Some((to, size, from, start + length))
                }
                other => {
                    flush(batch, other);
                    Some((run.to, length, start, start + length))
                }
            };
        }
    }
    flush(batch, pending);
}
