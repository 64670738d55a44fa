//! A netlink socket that asks and waits for the answer. It belongs to the namespace in which it was opened, for good.

use crate::error::{Fault, Refusal};
use netlink_packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer,
    NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable, Nla, NlaBuffer,
    NlasIterator, Parseable,
};
use netlink_sys::{Socket, SocketAddr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// The kernel fills at most 32 KiB at a time.
const BUFFER_BYTES: usize = 64 * 1024;
/// How often a listing that changed under our hands is asked for again.
const DUMPS: usize = 5;
/// Message types (`linux/netlink.h`).
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Attribute of an extended acknowledgement: a text.
const ACK_WORDS: u16 = 1;

/// A socket for requests, each of which is answered before the next.
pub struct Channel {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Channel {
    /// Opens one in the namespace of the calling thread.
    ///
    /// # Errors
    /// Why there is none.
    pub fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_cap_ack(true)?;
        socket.set_ext_ack(true)?;
        // Filters in requests for listings count (Linux 4.20); without it more is listed, and looked through here.
        let _ = socket.set_netlink_get_strict_chk(true);
        Ok(Self { socket, sequence: 0, buffer: vec![0; BUFFER_BYTES] })
    }

    /// Asks for one thing to be done.
    ///
    /// # Errors
    /// The kernel's no.
    pub fn request<M>(&mut self, message: M, flags: u16) -> Result<(), Fault>
    where
        M: NetlinkSerializable,
    {
        self.send(message, flags | NLM_F_REQUEST | NLM_F_ACK)?;
        self.answers(|_, _| {}).map(|_| ())
    }

    /// Asks for one thing. What cannot be parsed is left out.
    ///
    /// # Errors
    /// The kernel's no.
    pub fn get<M>(&mut self, message: M) -> Result<Vec<M>, Fault>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        self.send(message, NLM_F_REQUEST | NLM_F_ACK)?;
        let mut got = Vec::new();
        self.answers(|header, payload| got.extend(M::deserialize(header, payload)))?;
        Ok(got)
    }

    /// Asks for a listing. What cannot be parsed is left out: it is not ours.
    ///
    /// # Errors
    /// The kernel's no, or a listing that is never whole.
    pub fn dump<M>(&mut self, message: &M) -> Result<Vec<M>, Fault>
    where
        M: NetlinkSerializable + NetlinkDeserializable + Clone,
    {
        for _ in 0..DUMPS {
            self.send(message.clone(), NLM_F_REQUEST | NLM_F_DUMP)?;
            let mut listed = Vec::new();
            let torn = self.answers(|header, payload| listed.extend(M::deserialize(header, payload)))?;
            if !torn {
                return Ok(listed);
            }
        }
        Err(io::Error::from(io::ErrorKind::ResourceBusy).into())
    }

    fn send<M: NetlinkSerializable>(&mut self, message: M, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        (header.flags, header.sequence_number) = (flags, self.sequence);
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(|_| ())
    }

    /// Gives each answer to the last request to `take`, until the last. Tells whether the listing is torn: something
    /// changed while it was made.
    fn answers(&mut self, mut take: impl FnMut(&NetlinkHeader, &[u8])) -> Result<bool, Fault> {
        let mut torn = false;
        loop {
            let length = receive(&self.socket, &mut self.buffer)?;
            for (header, payload) in Messages(self.buffer.get(..length).unwrap_or_default()) {
                if header.sequence_number != self.sequence {
                    continue;
                }
                torn |= header.flags & NLM_F_DUMP_INTR != 0;
                match header.message_type {
                    ERROR | DONE => {
                        return match refusal(&header, payload) {
                            Some(refusal) => Err(refusal.into()),
                            None => Ok(torn),
                        };
                    }
                    _ => take(&header, payload),
                }
            }
        }
    }
}

/// A socket on which the kernel tells what changes.
pub(crate) struct Events {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Events {
    /// Listens to these groups.
    pub(crate) fn open(protocol: isize, groups: &[u32]) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        groups.iter().try_for_each(|group| socket.add_membership(*group))?;
        socket.set_non_blocking(true)?;
        Ok(Self { socket, buffer: vec![0; BUFFER_BYTES] })
    }

    /// Gives all that is there to `hear`. Tells whether some was lost, for want of room.
    pub(crate) fn drain(&mut self, mut hear: impl FnMut(&NetlinkHeader, &[u8])) -> io::Result<bool> {
        let mut lost = false;
        loop {
            match receive(&self.socket, &mut self.buffer) {
                Ok(length) => {
                    let messages = Messages(self.buffer.get(..length).unwrap_or_default());
                    messages.for_each(|(header, payload)| hear(&header, payload));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(lost),
                Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ENOBUFS as i32) => lost = true,
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.recv(&mut &mut *buffer, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The messages in one datagram.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (NetlinkHeader, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.0;
        let message = NetlinkBuffer::new_checked(bytes).ok()?;
        let header = NetlinkHeader::parse(&message).ok()?;
        let length = usize::try_from(message.length()).ok()?;
        self.0 = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((header, message.payload()))
    }
}

/// What an acknowledgement says, if it is a no.
fn refusal(header: &NetlinkHeader, payload: &[u8]) -> Option<Refusal> {
    let code = i32::from_ne_bytes(payload.get(..4)?.try_into().ok()?);
    if code == 0 {
        return None;
    }
    // Behind the code of an error comes the header of the request; the request itself is left out, as we asked.
    let skipped = if header.message_type == ERROR { 20 } else { 4 };
    let words = (header.flags & NLM_F_ACK_TLVS != 0).then(|| payload.get(skipped..)).flatten().and_then(words);
    Some(Refusal { error: io::Error::from_raw_os_error(code.wrapping_neg()), words })
}

fn words(attributes: &[u8]) -> Option<String> {
    let words = attributes_of(attributes).find(|nla| nla.kind() == ACK_WORDS)?;
    let mut text = vec![0; words.value_len()];
    words.emit_value(&mut text);
    Some(String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned())
}

/// The attributes there, as far as they are well formed.
pub(crate) fn attributes_of(bytes: &[u8]) -> impl Iterator<Item = DefaultNla> {
    let well_formed = NlasIterator::new(bytes).map_while(Result::ok);
    well_formed.filter_map(|nla: NlaBuffer<&[u8]>| DefaultNla::parse(&nla).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(message_type: u16, flags: u16) -> NetlinkHeader {
        let mut header = NetlinkHeader::default();
        (header.message_type, header.flags) = (message_type, flags);
        header
    }

    #[test]
    fn a_refusal_tells_the_error_and_the_kernel_s_own_words() {
        let mut payload = (-22i32).to_ne_bytes().to_vec();
        payload.extend([0; 16]);
        payload.extend([12, 0, 1, 0]);
        payload.extend(b"no good\0");
        let refusal = refusal(&header(ERROR, NLM_F_ACK_TLVS), &payload).unwrap();
        assert!(refusal.is(nix::errno::Errno::EINVAL));
        assert_eq!(refusal.to_string(), "Invalid argument (os error 22) (no good)");
    }

    #[test]
    fn an_acknowledgement_of_zero_is_a_yes() {
        assert!(refusal(&header(ERROR, 0), &[0; 20]).is_none());
        assert!(refusal(&header(DONE, 0), &[0; 4]).is_none());
    }

    #[test]
    fn a_datagram_cut_short_gives_the_whole_messages_in_it() {
        let mut bytes = Vec::new();
        for kind in [16u16, 17] {
            bytes.extend(20u32.to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend([7; 4]);
        }
        let kinds = |bytes| Messages(bytes).map(|(header, _)| header.message_type).collect::<Vec<_>>();
        assert_eq!(kinds(&bytes[..]), [16, 17]);
        assert_eq!(kinds(&bytes[..38]), [16]);
        assert_eq!(kinds(&bytes[..3]), Vec::<u16>::new());
    }
}
