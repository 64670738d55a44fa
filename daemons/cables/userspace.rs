//! WireGuard in processes of ours, one a cable.

use crate::client::Client;
use crate::driver::{Driver, PeerStatus, Status};
use crate::keys::Keys;
use crate::uapi::{PeerState, Setup, State};
use crate::wireguard::{Change, PeerChange};
use nix::net::if_::if_nametoindex;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tombolo_core::base::Wall;
use tombolo_core::model::CableDriver;
use tombolo_core::network::constants::CABLE_LINK_PREFIX;
use tombolo_core::network::{Link, LinkKind, LinkName, Peer, PeerId};
use tombolo_linux::Cables;

/// How often a peer hears something at least, in seconds: boxes that translate addresses forget after 30 s.
const KEEP_OPEN_SECS: u16 = 25;
/// A link and a port go this long after their process, at most.
const LINGER: Duration = Duration::from_secs(2);

/// How processes are started, and where they and their keys are found.
#[derive(Clone, Debug)]
pub struct Userspace {
    /// The command that starts one: a program and its first arguments. The link's name and `--directory` follow.
    pub command: Vec<OsString>,
    /// Where their sockets are.
    pub directory: PathBuf,
    /// The node's keys.
    pub keys: Keys,
}

impl Userspace {
    fn client(&self, name: &LinkName) -> Client {
        Client::of(&self.directory, &name.0)
    }

    fn start(&self, name: &LinkName) -> Result<(), String> {
        let (program, first) = self.command.split_first().ok_or("no command starts a cable")?;
        let mut command = Command::new(program);
        command.args(first).arg(&*name.0).arg("--directory").arg(&self.directory).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{}: {}", program.display(), said.trim()))
    }

    fn set_up(&self, name: &LinkName, link: &Link) -> Result<(), String> {
        let LinkKind::Cable { port, key, .. } = &link.kind else { return Err(format!("{name} is no cable")) };
        let secret = self.keys.secret(key).map_err(|error| error.to_string())?;
        let secret = secret.ok_or_else(|| format!("the private key of {key} is not here"))?;
        let client = self.client(name);
        let state = client.state().map_err(said)?.unwrap_or_default();
        // A key that is the same set anew would end all sessions.
        let is_new = state.secret.is_none_or(|old| old.public() != *key);
        let changes = if is_new { vec![Change::Secret(Some(secret))] } else { Vec::new() };
        let setup = Setup { port: Some(*port), mark: None, changes };
        let began = Instant::now();
        loop {
            match client.set(setup.clone()) {
                Err(error) if error.kind() == ErrorKind::AddrInUse && began.elapsed() < LINGER => pause(),
                outcome => return outcome.map_err(|error| format!("port {port}: {error}")),
            }
        }
    }

    fn states(&self) -> Result<Vec<(LinkName, State)>, String> {
        let mut states = Vec::new();
        let all = Client::all(&self.directory).map_err(said)?;
        // Others may have cables of their own there.
        for (link, client) in all.into_iter().filter(|(link, _)| link.starts_with(CABLE_LINK_PREFIX)) {
            let state = client.state().map_err(|error| format!("{link}: {error}"))?;
            states.extend(state.map(|state| (LinkName(link.into()), state)));
        }
        Ok(states)
    }
}

fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

fn said(error: std::io::Error) -> String {
    error.to_string()
}

impl Cables for Userspace {
    fn make(&mut self, name: &LinkName, link: &Link) -> Result<(), String> {
        // One whose link is gone is at its end.
        self.remove(name)?;
        self.start(name)?;
        self.set_up(name, link)
    }

    fn made(&mut self, name: &LinkName) -> bool {
        self.client(name).lives()
    }

    fn change(&mut self, name: &LinkName, link: &Link) -> Result<(), String> {
        self.set_up(name, link)
    }

    fn remove(&mut self, name: &LinkName) -> Result<(), String> {
        self.client(name).end().map_err(said)?;
        let began = Instant::now();
        while if_nametoindex(&*name.0).is_ok() && began.elapsed() < LINGER {
            pause();
        }
        Ok(())
    }

    fn peers(&mut self) -> Result<BTreeMap<PeerId, Peer>, String> {
        let states = self.states()?;
        let peers = states.into_iter().flat_map(|(link, state)| {
            state.peers.into_iter().map(move |peer| {
                let nowhere = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
                let id = PeerId { link: link.clone(), key: peer.key };
                (id, Peer { endpoint: peer.endpoint.unwrap_or(nowhere), allowed: peer.ranges })
            })
        });
        Ok(peers.collect())
    }

    fn put_peer(&mut self, id: &PeerId, peer: &Peer) -> Result<(), String> {
        let change = PeerChange {
            endpoint: Some(peer.endpoint),
            keep_open_secs: Some(KEEP_OPEN_SECS),
            replace_ranges: true,
            ranges: peer.allowed.clone(),
            ..PeerChange::of(id.key)
        };
        let setup = Setup { changes: vec![Change::Peer(change)], ..Setup::default() };
        self.client(&id.link).set(setup).map_err(said)
    }

    fn remove_peer(&mut self, id: &PeerId) -> Result<(), String> {
        let client = self.client(&id.link);
        if !client.lives() {
            return Ok(());
        }
        client.set(Setup { changes: vec![Change::Remove(id.key)], ..Setup::default() }).map_err(said)
    }
}

impl Driver for Userspace {
    fn kind(&self) -> CableDriver {
        CableDriver::Wireguard
    }

    fn status(&mut self) -> Result<Vec<Status>, String> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let status = |(link, state): (LinkName, State)| Status {
            link,
            driver: "wireguard in user space",
            is_encrypted: true,
            mtu: state.mtu,
            peers: state.peers.into_iter().map(|peer| status(peer, since)).collect(),
        };
        Ok(self.states()?.into_iter().map(status).collect())
    }
}

fn status(peer: PeerState, now: Duration) -> PeerStatus {
    let age = |at: Wall| now.saturating_sub(Duration::from_micros(at.unix_micros()));
    PeerStatus {
        key: peer.key,
        endpoint: peer.endpoint,
        handshake_age: peer.handshake.map(age),
        round_trip: peer.round_trip,
        sent_bytes: Some(peer.sent),
        received_bytes: Some(peer.received),
    }
}
