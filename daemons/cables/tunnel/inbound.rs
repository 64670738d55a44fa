//! From the outside to the inside: receive, open, write.

use super::Shared;
use super::coalesce::Coalescer;
use super::outside::plain;
use super::ready::{Wish, wait};
use crate::wireguard::{Data, HEADER, Input, Opened, Way, addresses, length};
use quinn_udp::RecvMeta;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use tombolo_core::base::Machine;

/// How many lumps are taken at a time. More are no faster: each may hold 64 datagrams, and all are to stay in the cache.
const ROOMS: usize = 8;
const ROOM: usize = 65_536;

/// Messages of one session from one place.
struct Run {
    number: u32,
    from: SocketAddr,
    opened: Vec<Opened>,
    /// Where the packets are: in which room, from where to where.
    places: Vec<(usize, Range<usize>)>,
}

/// Carries packets until the link is gone, or the tunnel is to end.
pub fn carry(shared: &Shared) -> io::Result<()> {
    let mut rooms = vec![vec![0; ROOM]; ROOMS];
    let mut metas = [RecvMeta::default(); ROOMS];
    let mut opener = Opener { way: None, runs: Vec::new(), packets: Coalescer::default() };
    loop {
        let outside = shared.outside();
        let mut wishes = vec![(shared.end.as_fd(), Wish::Read), (shared.rebound.as_fd(), Wish::Read)];
        wishes.extend(outside.as_ref().map(|outside| (outside.as_fd(), Wish::Read)));
        wait(&wishes, None)?;
        if shared.is_ending() {
            return Ok(());
        }
        shared.rebound.hush();
        let Some(outside) = outside else { continue };
        let mut slices: Vec<IoSliceMut<'_>> = rooms.iter_mut().map(|room| IoSliceMut::new(room)).collect();
        let count = match outside.receive(&mut slices, &mut metas) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            // An ICMP error of what was sent before; the next call gives what has come.
            Err(_) => continue,
        };
        for (index, meta) in metas.iter().take(count).enumerate() {
            let Some(room) = rooms.get_mut(index) else { continue };
            let from = plain(meta.addr);
            let stride = meta.stride.max(1);
            let mut start = 0;
            while start < meta.len {
                let end = (start + stride).min(meta.len);
                opener.take(shared, room, index, start..end, from);
                start = end;
            }
        }
        opener.settle(shared, &rooms);
        for packet in opener.packets.finish() {
            shared.inside.write(packet)?;
        }
    }
}

struct Opener {
    /// What opened the last message: it opens most likely the next.
    way: Option<(u32, Arc<Way>)>,
    /// What was opened, and is not decided on yet.
    runs: Vec<Run>,
    packets: Coalescer,
}

impl Opener {
    /// Takes a datagram in.
    fn take(&mut self, shared: &Shared, room: &mut [u8], index: usize, range: Range<usize>, from: SocketAddr) {
        let start = range.start;
        let Some(datagram) = room.get_mut(range) else { return };
        let Some(head) = Data::read(datagram) else {
            let now = shared.clock.now();
            let mut device = shared.device();
            device.handle(Input::Datagram { from, bytes: datagram.to_vec() }, now);
            shared.carry_out(device);
            return;
        };
        let Some(way) = self.way(shared, head.receiver) else { return };
        let bytes = u64::try_from(datagram.len()).unwrap_or(0);
        let Some(packet) = way.open(head.counter, datagram) else { return };
        let real = length(packet);
        let source = real.and_then(|_| addresses(packet)).map(|(source, _)| source);
        if source.is_none() && !packet.is_empty() {
            return;
        }
        let start = start + HEADER;
        let opened = Opened { counter: head.counter, bytes, source, passes: false };
        let place = (index, start..start + real.unwrap_or(0));
        match self.runs.last_mut() {
            Some(run) if (run.number, run.from) == (head.receiver, from) => {
                run.opened.push(opened);
                run.places.push(place);
            }
            Some(_) | None => {
                self.runs.push(Run { number: head.receiver, from, opened: vec![opened], places: vec![place] });
            }
        }
    }

    /// Asks the device, once for all that was opened, and takes what may pass.
    fn settle(&mut self, shared: &Shared, rooms: &[Vec<u8>]) {
        if self.runs.is_empty() {
            return;
        }
        let now = shared.clock.now();
        let mut device = shared.device();
        for run in &mut self.runs {
            device.opened(run.number, run.from, &mut run.opened, now);
        }
        shared.carry_out(device);
        for run in self.runs.drain(..) {
            for (_, (index, range)) in run.opened.iter().zip(run.places).filter(|(opened, _)| opened.passes) {
                let packet = rooms.get(index).and_then(|room| room.get(range));
                packet.into_iter().for_each(|packet| self.packets.put(packet));
            }
        }
    }

    fn way(&mut self, shared: &Shared, number: u32) -> Option<Arc<Way>> {
        if let Some((last, way)) = &self.way
            && *last == number
        {
            return Some(way.clone());
        }
        let way = shared.device().way(number, shared.clock.now())?;
        self.way = Some((number, way.clone()));
        Some(way)
    }
}
