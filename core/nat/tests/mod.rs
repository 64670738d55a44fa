//! Discovery's own tests.
//!
//! | file | holds |
//! |---|---|
//! | `alone` | one machine: the behaviours that `spec/submariner.md` 17 names, and the faults of its 18 |
//! | `pair` | two machines with NAT boxes between them, of all kinds |
//! | `garbage` | bytes: round trips, any datagram, the kept corpus of bad ones |
//! | `laws` | the six laws of machines |

mod alone;
mod garbage;
mod laws;
mod pair;

use super::seal::SealKey;
use super::{Config, Dialect, Me, Remote, RemoteId};
use crate::base::{ClusterId, Instant};
use alloc::format;
use core::net::IpAddr;
use core::time::Duration;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn cluster(name: &str) -> ClusterId {
    ClusterId::new(name).unwrap()
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What all members of the tests' clusterset share.
fn key() -> SealKey {
    SealKey::from_shared(b"known to two clusters alone")
}

fn id(name: &str) -> RemoteId {
    RemoteId { cluster: cluster(name), endpoint: format!("submariner-cable-{name}") }
}

fn me(name: &str, private: &str) -> Me {
    let RemoteId { cluster, endpoint } = id(name);
    Me { cluster, endpoint, private: ip(private), port: 4490 }
}

fn config(me: Me) -> Config {
    Config { me, looks_up: false, seed: 7, boot: Instant::ZERO }
}

/// A plain peer with both addresses.
fn east() -> Remote {
    Remote {
        private: Some(ip("10.2.0.1")),
        public: Some(ip("203.0.113.2")),
        discovery_port: Some(4490),
        cable_port: 4500,
        nat_enabled: true,
        load_balancer: false,
        dialect: Dialect::Plain,
    }
}
