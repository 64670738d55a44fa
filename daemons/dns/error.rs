//! What keeps the server from starting.

use crate::counts::Transport;
use nix::errno::Errno;
use std::io;
use std::net::SocketAddr;

/// Why it does not serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address cannot be listened on.
    #[error("cannot listen on {transport} {at}: {}; {}", because(*.errno), advice(*.errno, *.at))]
    Listen {
        /// For what.
        transport: Transport,
        /// The address and port.
        at: SocketAddr,
        /// What the kernel says.
        errno: Errno,
    },
    /// No address to listen on was given.
    #[error("no address to listen on was given")]
    Nowhere,
    /// The machine has no thread, pipe or the like left.
    #[error("cannot start serving: no {what} to be had: {source}")]
    Start {
        /// What is lacking.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

fn because(errno: Errno) -> &'static str {
    errno.desc()
}

/// What to do about it.
fn advice(errno: Errno, at: SocketAddr) -> String {
    let port = at.port();
    if errno == Errno::EADDRINUSE {
        let many = if at.ip().is_unspecified() { " on one of this host's addresses" } else { "" };
        format!(
            "another program has port {port}{many}, `ss -lnptu 'sport = :{port}'` names it: stop it, or listen on another \
             address or port"
        )
    } else if errno == Errno::EACCES {
        format!("ports below 1024 need root or CAP_NET_BIND_SERVICE, and this is port {port}")
    } else if errno == Errno::EADDRNOTAVAIL {
        format!("no interface of this host has {}: listen on one of those that `ip address` shows", at.ip())
    } else if errno == Errno::EAFNOSUPPORT {
        String::from("this host has no addresses of that family: leave this one out")
    } else {
        String::from("nothing is served")
    }
}
