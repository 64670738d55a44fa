//! Connections to an API over TCP, as they suit daemons: small segments, and a death that is noticed.

use http::Uri;
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;

/// Longest segment, either way. Some link to a broker takes no more than 1,280 bytes, the least that any must, and tells
/// nobody: longer segments would be lost there for ever. What is left of it are 1,220 bytes (IPv6 and TCP take 60), as our
/// hellos have it.
const SEGMENT_MAX: u32 = 1_220;
/// A silent connection is asked whether it lives after this, and again after as long; see [`GIVEN_UP`].
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);
/// What is sent and not acknowledged for so long shows that the connection is dead: a watch would wait for its end, and
/// notice nothing after a cut.
const GIVEN_UP: Duration = Duration::from_secs(8);
/// Unanswered questions after which a silent connection is dead.
const QUESTIONS: u32 = 2;

/// Connects to the first address of a host that answers, within that time for all of them.
///
/// # Errors
/// The last address's.
pub(crate) async fn dial(uri: Uri, within: Duration) -> io::Result<TokioIo<TcpStream>> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, format!("{uri} names no host"));
    let host = uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']);
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
    let all: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    let each = within / u32::try_from(all.len().max(1)).unwrap_or(u32::MAX);
    let mut outcome = Err(io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")));
    for to in all {
        outcome = timeout(each, connect(to)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        if outcome.is_ok() {
            break;
        }
    }
    outcome.map(TokioIo::new)
}

async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    let options = SockRef::from(&socket);
    options.set_tcp_mss(SEGMENT_MAX)?;
    options.set_tcp_nodelay(true)?;
    let asks = TcpKeepalive::new().with_time(SIGN_OF_LIFE).with_interval(SIGN_OF_LIFE).with_retries(QUESTIONS);
    options.set_tcp_keepalive(&asks)?;
    #[cfg(target_os = "linux")]
    options.set_tcp_user_timeout(Some(GIVEN_UP))?;
    socket.connect(to).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn no_segment_is_longer_than_the_smallest_link_takes_either_way() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri: Uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let (dialled, accepted) = tokio::join!(dial(uri, Duration::from_secs(5)), listener.accept());
        let (ours, theirs) = (dialled.unwrap().into_inner(), accepted.unwrap().0);
        for (side, stream) in [("ours", &ours), ("theirs", &theirs)] {
            let longest = SockRef::from(stream).tcp_mss().unwrap();
            assert!(longest <= SEGMENT_MAX, "{side}: {longest}");
        }
    }

    #[tokio::test]
    async fn a_port_at_which_nobody_listens_and_a_host_without_address_are_told() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let of = |text: String| dial(text.parse().unwrap(), Duration::from_secs(5));
        let told = of(format!("http://{closed}/")).await.unwrap_err();
        assert_eq!(told.kind(), io::ErrorKind::ConnectionRefused);
        assert!(of("http://no-such-host.invalid/".into()).await.is_err());
    }
}
