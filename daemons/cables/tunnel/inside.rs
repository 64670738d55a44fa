//! The TUN link: packets of up to 64 kB come out of it, and go into it, one system call each.

use crate::wireguard::{HEADER, OVERHEAD, sealed};
use nix::errno::Errno;
use nix::unistd::{read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use tun_rs::{
    DeviceBuilder, Layer, SyncDevice, VIRTIO_NET_HDR_GSO_UDP_L4, VIRTIO_NET_HDR_LEN, VirtioNetHdr, checksum, gso_split,
};

/// `VIRTIO_NET_HDR_GSO_NONE`: it is one packet.
const ONE: u8 = 0;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: its checksum is still to be computed, over the header of which the sum is there.
pub const NEEDS_CHECKSUM: u8 = 1;
/// Bytes of what one call gives, at most.
const READ_MAX: usize = VIRTIO_NET_HDR_LEN + 65_535;
/// What a link of WireGuard has if nobody says otherwise: it fits into 1500 bytes, behind IPv6.
const MTU: u16 = 1420;
/// Packets that wait in the kernel for us.
const QUEUE: u32 = 1000;
/// Bytes of TUN's `IFNAMSIZ`, without the last zero.
const NAME_MAX: usize = 15;

/// A TUN link. It is gone with this.
pub struct Inside(SyncDevice);

/// Data messages that are still to be sealed, one behind the other, each with room for its head and its tag.
pub struct Batch {
    bytes: Vec<u8>,
    /// Where each begins, and how long the packet in it is.
    pub messages: Vec<Message>,
    filled: usize,
    raw: Vec<u8>,
    sizes: Vec<usize>,
}

/// One of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Where it begins.
    pub start: usize,
    /// How long it is, sealed.
    pub length: usize,
    /// How long the packet in it is.
    pub packet: usize,
}

impl Inside {
    /// Makes the link; it is down.
    ///
    /// # Errors
    /// Why there is none.
    pub fn make(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("'{name}' is no name for a link")));
        }
        let build = DeviceBuilder::new().name(name).mtu(MTU).layer(Layer::L3).with(|builder| {
            builder.offload(true).tx_queue_len(QUEUE);
        });
        let device = build.enable(false).build_sync()?;
        device.set_nonblocking(true)?;
        Ok(Self(device))
    }

    /// Largest packet that the link takes.
    ///
    /// # Errors
    /// If the link is gone.
    pub fn mtu(&self) -> io::Result<u16> {
        self.0.mtu()
    }

    /// Reads once, and puts the packets behind what the batch has.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing to read; anything else if the link is gone.
    pub fn read(&self, batch: &mut Batch, mtu: usize) -> io::Result<()> {
        batch.raw.resize(READ_MAX, 0);
        let mut raw = std::mem::take(&mut batch.raw);
        let count = loop {
            match read(self.0.as_fd(), &mut raw) {
                Err(Errno::EINTR) => {}
                other => break other,
            }
        };
        let took = count.map(|count| {
            let packet = raw.get_mut(..count).unwrap_or_default();
            // What cannot be understood is dropped, as a router does.
            let _ = batch.take(packet, mtu);
        });
        batch.raw = raw;
        took.map_err(io::Error::from)
    }

    /// Writes one packet, behind its virtio header. What the kernel does not take is dropped.
    ///
    /// # Errors
    /// If the link is gone.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        loop {
            match write(self.0.as_fd(), packet) {
                Err(Errno::EINTR) => {}
                Err(Errno::EBADFD) => return Err(Errno::EBADFD.into()),
                Ok(_) | Err(_) => return Ok(()),
            }
        }
    }
}

impl AsFd for Inside {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Batch {
    /// An empty one.
    pub fn new() -> Self {
        let bytes = vec![0; 4 * READ_MAX];
        Self { bytes, messages: Vec::new(), filled: 0, raw: Vec::new(), sizes: Vec::new() }
    }

    /// Whether another read surely fits.
    pub fn has_room(&self) -> bool {
        // A packet of 64 kB in segments of 536 bytes is half as long again, sealed.
        self.filled + 2 * READ_MAX < self.bytes.len()
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.messages.clear();
        self.filled = 0;
    }

    /// The bytes of a message, or of several that lie behind each other.
    pub fn bytes(&mut self, start: usize, length: usize) -> &mut [u8] {
        self.bytes.get_mut(start..).and_then(|rest| rest.get_mut(..length)).unwrap_or_default()
    }

    /// The packet in a message that is not sealed yet.
    pub fn packet(&self, message: &Message) -> &[u8] {
        let start = message.start + HEADER;
        self.bytes.get(start..start + message.packet).unwrap_or_default()
    }

    /// Takes in what was read: a packet, or many in one.
    fn take(&mut self, raw: &mut [u8], mtu: usize) -> io::Result<()> {
        let mut header = VirtioNetHdr::decode(raw)?;
        let packet = raw.get_mut(VIRTIO_NET_HDR_LEN..).unwrap_or_default();
        if header.gso_type == ONE {
            if header.flags & NEEDS_CHECKSUM != 0 {
                complete(packet, header.csum_start.into(), header.csum_offset.into());
            }
            let length = sealed(packet.len(), mtu);
            let place = self.bytes.get_mut(self.filled..).and_then(|rest| rest.get_mut(..length)).ok_or_else(full)?;
            place.fill_packet(packet);
            self.messages.push(Message { start: self.filled, length, packet: packet.len() });
            self.filled += length;
            return Ok(());
        }
        // The kernel's own number is that of the whole first packet where it forwards (as wireguard-go has found).
        let transport = usize::from(header.csum_start);
        let head = if header.gso_type == VIRTIO_NET_HDR_GSO_UDP_L4 {
            8
        } else {
            u16::from(packet.get(transport + 12).copied().unwrap_or(0) >> 4) * 4
        };
        header.hdr_len = header.csum_start.saturating_add(head);
        let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
        let size = usize::from(header.hdr_len) + usize::from(header.gso_size);
        let stride = sealed(size, mtu);
        let free = self.bytes.get_mut(self.filled..).unwrap_or_default();
        let mut places: Vec<&mut [u8]> = free.chunks_exact_mut(stride).take(128).collect();
        self.sizes.resize(places.len(), 0);
        let count = gso_split(packet, header, &mut places, &mut self.sizes, HEADER, is_v6)?;
        for size in self.sizes.iter().take(count) {
            let length = sealed(*size, mtu);
            let start = self.filled;
            self.messages.push(Message { start, length, packet: *size });
            let padding = self.bytes.get_mut(start + HEADER + size..start + length - (OVERHEAD - HEADER));
            padding.unwrap_or_default().fill(0);
            self.filled += length;
        }
        Ok(())
    }
}

/// Completes a checksum: its field holds the sum of what else belongs to it.
fn complete(packet: &mut [u8], start: usize, offset: usize) {
    let Some(field) = packet.get_mut(start..).and_then(|from| from.get_mut(offset..)?.first_chunk_mut::<2>()) else {
        return;
    };
    let initial = u64::from(u16::from_be_bytes(std::mem::take(field)));
    let sum = !checksum(packet.get(start..).unwrap_or_default(), initial);
    // UDP's zero means that there is none.
    let sum = if sum == 0 && offset == 6 { u16::MAX } else { sum };
    if let Some(field) = packet.get_mut(start + offset..).and_then(<[u8]>::first_chunk_mut) {
        *field = sum.to_be_bytes();
    }
}

fn full() -> io::Error {
    io::ErrorKind::OutOfMemory.into()
}

/// A place for a message.
trait Place {
    /// Puts a packet where it belongs, and zeros behind it.
    fn fill_packet(&mut self, packet: &[u8]);
}

impl Place for [u8] {
    fn fill_packet(&mut self, packet: &[u8]) {
        let Some(rest) = self.get_mut(HEADER..) else { return };
        if let Some((place, padding)) = rest.split_at_mut_checked(packet.len()) {
            place.copy_from_slice(packet);
            padding.fill(0);
        }
    }
}
