//! Segments of one TCP flow that follow each other go to the kernel as one packet, which it takes as from a card that
//! has put them together. A packet costs it as much as 60 kB do.
//!
//! The kernel does not verify the checksum of such a packet: it is verified here, before.

use super::inside::NEEDS_CHECKSUM;
use tun_rs::{
    VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6, VIRTIO_NET_HDR_LEN, VirtioNetHdr, checksum, checksum_no_fold,
};

/// Longest packet that the kernel takes.
const LONGEST: usize = 65_535;
/// So many flows are put together at a time.
const OPEN_MAX: usize = 8;
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

/// Packets for the kernel, each behind its virtio header.
#[derive(Default)]
pub struct Coalescer {
    items: Vec<Item>,
    /// How many of `items` are in use; the rest are kept for their room.
    used: usize,
}

#[derive(Default)]
struct Item {
    bytes: Vec<u8>,
    /// What may be appended to it.
    flow: Option<Flow>,
}

#[derive(Clone, Copy)]
struct Flow {
    /// Bytes of the IP header, and with the TCP header.
    heads: (usize, usize),
    next: u32,
    segment: usize,
    count: usize,
}

/// A TCP segment: where its parts are.
struct Segment {
    is_v4: bool,
    ip: usize,
    heads: usize,
    number: u32,
    flags: u8,
}

impl Segment {
    /// Reads one that has nothing special about it.
    fn read(packet: &[u8]) -> Option<Self> {
        let is_v4 = packet.first()? >> 4 == 4;
        let ip = if is_v4 {
            let plain = *packet.first()? == 0x45 && *packet.get(6)? & 0x3f == 0 && *packet.get(7)? == 0;
            (plain && *packet.get(9)? == 6).then_some(20)?
        } else {
            (*packet.get(6)? == 6).then_some(40)?
        };
        let tcp = packet.get(ip..)?;
        let head = usize::from(tcp.get(12)? >> 4) * 4;
        let number = u32::from_be_bytes(*tcp.get(4..)?.first_chunk()?);
        (head >= 20 && tcp.len() >= head).then_some(())?;
        Some(Self { is_v4, ip, heads: ip + head, number, flags: *tcp.get(13)? })
    }

    /// Whether more may follow it, or it may follow.
    fn carries(&self, packet: &[u8]) -> bool {
        self.flags & !PSH == ACK && packet.len() > self.heads
    }

    /// The sum of the header that TCP adds to its own.
    fn pseudo(&self, packet: &[u8], length: usize) -> u16 {
        let addresses = packet.get(if self.is_v4 { 12..20 } else { 8..40 }).unwrap_or_default();
        let length = u32::try_from(length).unwrap_or(0).to_be_bytes();
        sum(&[addresses, &[0, 6], &length])
    }

    fn is_sound(&self, packet: &[u8]) -> bool {
        let Some(tcp) = packet.get(self.ip..) else { return false };
        let ip_is_sound = !self.is_v4 || packet.get(..20).is_some_and(|head| sum(&[head]) == 0xffff);
        ip_is_sound && sum(&[&self.pseudo(packet, tcp.len()).to_be_bytes(), tcp]) == 0xffff
    }

    /// Whether the ports and addresses are the same.
    fn same_flow(&self, a: &[u8], b: &[u8]) -> bool {
        let addresses = if self.is_v4 { 12..24 } else { 8..44 };
        a.get(addresses.clone()) == b.get(addresses)
    }

    /// Whether all is the same that segments of one flow have in common.
    fn same_heads(&self, a: &[u8], b: &[u8]) -> bool {
        let at = |from: usize, to: usize| a.get(from..to) == b.get(from..to);
        let same_ip = if self.is_v4 { at(0, 2) && at(6, 10) } else { at(0, 4) && at(6, 8) };
        let tcp = self.ip;
        same_ip && at(tcp + 8, tcp + 13) && at(tcp + 20, self.heads)
    }
}

/// The Internet checksum (RFC 1071) of these, without the last complement. All but the last are of even length.
fn sum(parts: &[&[u8]]) -> u16 {
    checksum(&[], parts.iter().fold(0, |sum, part| checksum_no_fold(part, sum)))
}

impl Coalescer {
    /// Takes a packet in.
    pub fn put(&mut self, packet: &[u8]) {
        let segment = Segment::read(packet);
        if let Some(segment) = &segment
            && self.append(segment, packet)
        {
            return;
        }
        let flow = segment.filter(|segment| segment.carries(packet) && segment.is_sound(packet)).map(|segment| {
            let length = packet.len() - segment.heads;
            let next = segment.number.wrapping_add(u32::try_from(length).unwrap_or(0));
            Flow { heads: (segment.ip, segment.heads), next, segment: length, count: 1 }
        });
        let is_last = packet.get(flow.map_or(0, |flow| flow.heads.0) + 13).is_some_and(|flags| flags & PSH != 0);
        if self.used == self.items.len() {
            self.items.push(Item::default());
        }
        let Some(item) = self.items.get_mut(self.used) else { return };
        self.used += 1;
        item.flow = flow.filter(|_| !is_last);
        item.bytes.clear();
        item.bytes.resize(VIRTIO_NET_HDR_LEN, 0);
        item.bytes.extend_from_slice(packet);
    }

    /// Appends a segment to those before it. Where that cannot be, nothing is appended to its flow any more: order is kept.
    fn append(&mut self, segment: &Segment, packet: &[u8]) -> bool {
        let used = self.items.get_mut(..self.used).unwrap_or_default();
        let open = used.iter_mut().rev().filter(|item| item.flow.is_some()).take(OPEN_MAX);
        for item in open {
            let Some(head) = item.bytes.get(VIRTIO_NET_HDR_LEN..) else { continue };
            let Some(flow) = &mut item.flow else { continue };
            let same_family = (head.first().unwrap_or(&0) >> 4 == 4) == segment.is_v4;
            if !same_family || !segment.same_flow(head, packet) {
                continue;
            }
            let length = packet.len().saturating_sub(segment.heads);
            let fits = flow.heads == (segment.ip, segment.heads)
                && segment.carries(packet)
                && flow.next == segment.number
                && length <= flow.segment
                && head.len() + length <= LONGEST
                && segment.same_heads(head, packet)
                && segment.is_sound(packet);
            if !fits {
                finish(item);
                return false;
            }
            flow.count += 1;
            flow.next = flow.next.wrapping_add(u32::try_from(length).unwrap_or(0));
            let is_last = length < flow.segment || segment.flags & PSH != 0;
            item.bytes.extend_from_slice(packet.get(segment.heads..).unwrap_or_default());
            let place = VIRTIO_NET_HDR_LEN + segment.ip + 13;
            if let Some(flags) = item.bytes.get_mut(place) {
                *flags |= segment.flags & PSH;
            }
            if is_last {
                finish(item);
            }
            return true;
        }
        false
    }

    /// What the kernel is to get, each with its virtio header. Then it is empty.
    pub fn finish(&mut self) -> impl Iterator<Item = &[u8]> {
        let used = std::mem::take(&mut self.used);
        let items = self.items.get_mut(..used).unwrap_or_default();
        items.iter_mut().for_each(finish);
        items.iter().map(|item| item.bytes.as_slice())
    }
}

/// Makes one packet of the segments, if there are several. Nothing is appended to it any more.
fn finish(item: &mut Item) {
    let Some(flow) = item.flow.take().filter(|flow| flow.count > 1) else { return };
    let (ip, heads) = flow.heads;
    let Some((virtio, packet)) = item.bytes.split_at_mut_checked(VIRTIO_NET_HDR_LEN) else { return };
    let Some(segment) = Segment::read(packet) else { return };
    let whole = packet.len();
    let pseudo = segment.pseudo(packet, whole - ip);
    let mut put = |at: usize, value: u16| {
        if let Some(field) = packet.get_mut(at..at + 2) {
            field.copy_from_slice(&value.to_be_bytes());
        }
    };
    put(ip + 16, pseudo);
    if segment.is_v4 {
        put(2, u16::try_from(whole).unwrap_or(u16::MAX));
        put(10, 0);
        let head = packet.get(..ip).map_or(0, |head| sum(&[head]));
        if let Some(field) = packet.get_mut(10..12) {
            field.copy_from_slice(&(!head).to_be_bytes());
        }
    } else {
        put(4, u16::try_from(whole - ip).unwrap_or(u16::MAX));
    }
    let number = |value: usize| u16::try_from(value).unwrap_or(u16::MAX);
    let header = VirtioNetHdr {
        flags: NEEDS_CHECKSUM,
        gso_type: if segment.is_v4 { VIRTIO_NET_HDR_GSO_TCPV4 } else { VIRTIO_NET_HDR_GSO_TCPV6 },
        hdr_len: number(heads),
        gso_size: number(flow.segment),
        csum_start: number(ip),
        csum_offset: 16,
    };
    // It fails only if there is no room for it.
    let _ = header.encode(virtio);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use tun_rs::gso_split;

    /// A segment of a flow, with right checksums.
    fn segment(is_v4: bool, flow: u8, number: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let tcp_length = 32 + payload.len();
        let mut packet = if is_v4 {
            let [high, low] = u16::try_from(20 + tcp_length).unwrap().to_be_bytes();
            vec![0x45, 0, high, low, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, flow, 10, 2, 0, 1]
        } else {
            let [high, low] = u16::try_from(tcp_length).unwrap().to_be_bytes();
            [&[0x60, 0, 0, 0, high, low, 6, 64][..], &[flow; 16], &[9; 16]].concat()
        };
        let ip = packet.len();
        packet.extend([0, 80, 0, 81]);
        packet.extend(number.to_be_bytes());
        packet.extend([0, 0, 0, 9, 8 << 4, flags, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        packet.extend(payload);
        let read = Segment::read(&packet).unwrap();
        let sum_of = |packet: &[u8]| !sum(&[&read.pseudo(packet, tcp_length).to_be_bytes(), &packet[ip..]]);
        let right = sum_of(&packet).to_be_bytes();
        packet[ip + 16..ip + 18].copy_from_slice(&right);
        if is_v4 {
            let right = (!sum(&[&packet[..20]])).to_be_bytes();
            packet[10..12].copy_from_slice(&right);
        }
        packet
    }

    /// As the kernel would cut it, for a card that cannot.
    fn cut(item: &[u8]) -> Vec<Vec<u8>> {
        let header = VirtioNetHdr::decode(item).unwrap();
        let mut packet = item[VIRTIO_NET_HDR_LEN..].to_vec();
        if header.gso_type == 0 {
            return vec![packet];
        }
        let (mut places, mut sizes) = (vec![vec![0; 2000]; 128], vec![0; 128]);
        let is_v6 = packet[0] >> 4 == 6;
        let count = gso_split(&mut packet, header, &mut places, &mut sizes, 0, is_v6).unwrap();
        places.iter().zip(sizes).take(count).map(|(place, size)| place[..size].to_vec()).collect()
    }

    /// A packet without what the kernel writes anew in each segment: its number in the IP header, and the sum of that.
    fn plain(mut packet: Vec<u8>) -> Vec<u8> {
        if packet[0] == 0x45 {
            packet[4..6].fill(0);
            packet[10..12].fill(0);
        }
        packet
    }

    proptest! {
        #[test]
        fn each_flow_comes_out_as_it_went_in(
            steps in proptest::collection::vec((0_u8..4, 0_usize..12, 0_u8..20, any::<u8>()), 1..120),
        ) {
            let (mut coalescer, mut numbers) = (Coalescer::default(), BTreeMap::<u8, u32>::new());
            let (mut went, mut came) = (BTreeMap::<u8, Vec<_>>::new(), BTreeMap::<u8, Vec<_>>::new());
            for (flow, size, kind, fill) in steps {
                let number = numbers.entry(flow).or_insert(u32::MAX - 4000);
                let length = if size < 8 { 1000 } else { size * 100 };
                let (flags, length) = match kind {
                    0 => (ACK, 0),
                    1 => (ACK | 1, length),
                    2 | 3 => (ACK | PSH, length),
                    _ => (ACK, length),
                };
                let mut packet = segment(flow < 2, flow, *number, flags, &vec![fill; length]);
                match kind {
                    // Spoilt on its way to the one who sealed it.
                    4 => *packet.last_mut().unwrap() ^= 1,
                    // Something is missing before the next.
                    5 => *number = number.wrapping_add(700),
                    _ => {}
                }
                *number = number.wrapping_add(u32::try_from(length).unwrap());
                went.entry(flow).or_default().push(plain(packet.clone()));
                coalescer.put(&packet);
            }
            for item in coalescer.finish() {
                for packet in cut(item) {
                    let flow = if packet[0] == 0x45 { packet[15] } else { packet[8] };
                    came.entry(flow).or_default().push(plain(packet));
                }
            }
            prop_assert!(came == went);
        }

        #[test]
        fn garbage_comes_out_as_it_went_in(packets in proptest::collection::vec(
            (prop_oneof![Just(0x45_u8), Just(0x60), any::<u8>()], proptest::collection::vec(any::<u8>(), 1..80)), 1..20,
        )) {
            let mut coalescer = Coalescer::default();
            let packets: Vec<Vec<u8>> = packets.into_iter().map(|(first, mut packet)| {
                packet[0] = first;
                packet
            }).collect();
            packets.iter().for_each(|packet| coalescer.put(packet));
            let came: Vec<Vec<u8>> = coalescer.finish().map(|item| item[VIRTIO_NET_HDR_LEN..].to_vec()).collect();
            prop_assert_eq!(came, packets);
        }
    }

    #[test]
    fn segments_that_follow_each_other_become_one() {
        let mut coalescer = Coalescer::default();
        let segments: Vec<_> = (0..40).map(|index| segment(true, 1, index * 1000, ACK, &[7; 1000])).collect();
        segments.iter().for_each(|segment| coalescer.put(segment));
        assert_eq!(coalescer.finish().count(), 1);
        // And what is longer than a packet can be, two.
        (0..100).for_each(|index| coalescer.put(&segment(false, 1, index * 1000, ACK, &[7; 1000])));
        assert_eq!(coalescer.finish().count(), 2);
    }
}
