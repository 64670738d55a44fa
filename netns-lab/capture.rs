//! What passes on a link, as a pcap file.

use anyhow::{Context as _, Result, bail};
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use std::io::Write;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longest frame: what the kernel joins before it leaves is longer than a link takes.
const FRAME_MAX: usize = 65_600;
/// How often it is looked whether it is time to stop.
const GLANCE_US: i64 = 100_000;

/// Writes what passes on the link, both ways, in the namespace of the calling thread, for as long or as many frames as
/// that; gives how many frames there were.
///
/// # Errors
/// There is no such link, or the file cannot be written.
pub fn capture(link: &str, mut to: impl Write, time: Option<Duration>, frames: Option<usize>) -> Result<usize> {
    let number = if_nametoindex(link).with_context(|| format!("there is no link {link}"))?;
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(0, GLANCE_US))?;
    to.write_all(&header())?;
    to.flush()?;
    let (began, mut count, mut bytes) = (Instant::now(), 0, vec![0; FRAME_MAX]);
    while frames.is_none_or(|frames| count < frames) && time.is_none_or(|time| began.elapsed() < time) {
        let (length, from) = match recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut bytes) {
            Ok(got) => got,
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            Err(errno) => bail!("listening to {link}: {errno}"),
        };
        // The socket hears all links of the namespace.
        if from.is_none_or(|from| u32::try_from(from.ifindex()) != Ok(number)) {
            continue;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        to.write_all(&record(now, bytes.get(..length).unwrap_or_default()))?;
        to.flush()?;
        count += 1;
    }
    Ok(count)
}

/// Of a file of frames of Ethernet whose times are in microseconds.
fn header() -> Vec<u8> {
    let words: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, u32::try_from(FRAME_MAX).unwrap_or(u32::MAX), 1];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn record(at: Duration, frame: &[u8]) -> Vec<u8> {
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let words = [u32::try_from(at.as_secs()).unwrap_or(u32::MAX), at.subsec_micros(), length, length];
    words.iter().flat_map(|word| word.to_le_bytes()).chain(frame.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_begins_as_libpcap_has_it() {
        assert_eq!(header().len(), 24);
        assert_eq!(header()[..8], [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]);
        let record = record(Duration::from_micros(3_000_004), &[7, 8]);
        assert_eq!(record, [3, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 7, 8]);
    }
}
