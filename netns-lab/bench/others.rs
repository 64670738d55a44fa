//! What Tombolo is measured beside, set up by hand in clusters of its own: the same nodes and the same way, from a worker
//! over its gateway to the other's gateway and worker.

use super::{GATEWAY, Kind, WORKER};
use crate::keeper::Desk;
use crate::scripts;
use crate::topology::PlaceName;
use anyhow::{Context as _, Result};
use std::net::IpAddr;
use tombolo_core::base::{Cidr, ClusterId, NodeName};
use tombolo_scenarios::ApiRef;
use tombolo_scenarios::layout::{UPLINK, router};

/// The link of a cable.
const CABLE: &str = "cable";
/// Where they hear each other.
const PORT: u16 = 51_820;
/// What WireGuard leaves of 1500 bytes, as everybody has it.
const MTU: u16 = 1420;

/// One of the two clusters.
struct Side {
    cluster: ClusterId,
    site: u8,
    pods: Cidr,
    gateway: IpAddr,
}

impl Side {
    fn of(desk: &Desk, cluster: &ClusterId) -> Option<Self> {
        let layout = desk.layout();
        let (pods, _) = layout.ranges(cluster)?;
        let site = layout.site_of(cluster)?;
        let gateway = layout.find_node(cluster, &NodeName::new(GATEWAY).ok()?)?;
        Some(Self { cluster: cluster.clone(), site, pods, gateway: layout.host(gateway)?.address })
    }

    fn node(&self, name: &str) -> Result<PlaceName> {
        Ok(PlaceName::Node(self.cluster.clone(), NodeName::new(name)?))
    }
}

/// Leads the pods of two clusters to each other.
pub(super) fn join(desk: &Desk, clusters: &[ClusterId; 2], kind: &Kind) -> Result<()> {
    let found = clusters.each_ref().map(|cluster| Side::of(desk, cluster).with_context(|| format!("no {cluster}")));
    let [a, b] = found;
    let sides = [a?, b?];
    let keys = match kind {
        Kind::Cable(_) => Some([key()?, key()?]),
        Kind::Nothing | Kind::Tombolo => None,
    };
    for (at, (own, other)) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])].into_iter().enumerate() {
        run(desk, &own.node(WORKER)?, format!("ip route add {} via {} dev {UPLINK}", other.pods, own.gateway))?;
        match (kind, &keys) {
            (Kind::Cable(program), Some(keys)) => {
                let [secret, public] = [keys.get(at).map(|key| &key.0), keys.get(1 - at).map(|key| &key.1)];
                let (secret, public) = secret.zip(public).context("two keys")?;
                let script = format!(
                    "{} {CABLE} </dev/null >/dev/null 2>&1
                     umask 077; printf %s '{secret}' >/run/{CABLE}.key
                     wg set {CABLE} listen-port {PORT} private-key /run/{CABLE}.key peer '{public}' allowed-ips {} \
                     endpoint {}:{PORT}
                     ip link set {CABLE} mtu {MTU} up; ip route add {} dev {CABLE}",
                    program.display(),
                    other.pods,
                    other.gateway,
                    other.pods
                );
                run(desk, &own.node(GATEWAY)?, script).with_context(|| {
                    format!("{} makes no link that wg can set up, as wireguard-go does", program.display())
                })?;
            }
            _ => {
                let to = format!("ip route add {} via {} dev {UPLINK}", other.pods, router(own.site));
                run(desk, &own.node(GATEWAY)?, to)?;
                let script = format!(
                    "ip route add {} via {} dev to-{} onlink; ip route add {} via {} dev {}",
                    other.pods,
                    router(other.site),
                    other.site,
                    own.pods,
                    own.gateway,
                    crate::topology::SITE,
                );
                run(desk, &PlaceName::Router(ApiRef::Cluster(own.cluster.clone())), script)?;
            }
        }
    }
    Ok(())
}

/// A secret and its public key.
fn key() -> Result<(String, String)> {
    let said = scripts::sh("secret=$(wg genkey); echo $secret; echo $secret | wg pubkey")?;
    let (secret, public) = said.split_once('\n').context("wg gave no key")?;
    Ok((secret.to_owned(), public.to_owned()))
}

fn run(desk: &Desk, at: &PlaceName, script: String) -> Result<()> {
    desk.lab().place(at)?.run(move || scripts::sh(&script))?.map(drop).with_context(|| at.to_string())
}
