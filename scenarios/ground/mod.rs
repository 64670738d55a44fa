//! The verbs of a timeline, the same in every world: what they mean for power, wires, daemons and APIs, and how it is
//! told what was done. What a world has to do by itself is its [`Ground`].
//!
//! | page | tells |
//! |---|---|
//! | [`Outsiders`] | which clusters are no members |
//! | [`Lifecycles`] | what a cluster thinks of its nodes, and what follows from that |

mod lifecycle;
mod outsiders;

pub use lifecycle::{Door, Judgement, Lifecycles, PROXY_LAG, PROXY_RETRY, RESLICE_TIME, second_slice};
pub use outsiders::Outsiders;

use crate::layout::{HostId, Layout, ServiceLayout};
use crate::{ApiFault, ApiRef, Daemon, Daemons, Fault, Host, Place, Rate, Rebuilt, Skew, StageError, wording};
use std::net::IpAddr;
use std::sync::Arc;
use tombolo_core::base::{ClusterId, NodeName};
use tombolo_core::model::ServiceKey;

/// A world on which the verbs act. Whatever it cannot do, it says by a [`StageError`].
#[allow(clippy::missing_errors_doc, reason = "said once, above")]
pub trait Ground {
    /// Who is where.
    fn layout(&self) -> Arc<Layout>;
    /// The daemons of a node, whether they run or not.
    fn daemons_of(&self, node: HostId) -> Vec<Daemon>;
    /// Whether a host has power.
    fn has_power(&self, host: HostId) -> bool;
    /// Takes the power from a node that has it, with all that runs there.
    fn switch_off(&mut self, node: HostId) -> Result<(), StageError>;
    /// Gives power to a node that has none; its daemons come up later.
    fn switch_on(&mut self, node: HostId) -> Result<(), StageError>;
    /// Kills a daemon; true if it ran.
    fn kill(&mut self, node: HostId, daemon: Daemon) -> bool;
    /// Starts a daemon, unless it runs.
    fn start(&mut self, node: HostId, daemon: Daemon) -> Result<(), StageError>;
    /// Who is no member.
    fn outsiders(&mut self) -> &mut Outsiders;
    /// Tells a daemon that its cluster leaves, if it runs.
    fn tell_to_leave(&mut self, node: HostId, daemon: Daemon) -> Result<(), StageError>;
    /// Addresses and identities of a cluster are others, none of whose nodes has power; its API has what the cluster has
    /// without us, and what it exports.
    fn relay(&mut self, cluster: &ClusterId, layout: Layout) -> Result<(), StageError>;
    /// Packets pass from the first host of each pair to the second again, or pass no longer.
    fn set_open(&mut self, ways: &[(HostId, HostId)], open: bool) -> Result<(), StageError>;
    /// Wires or power changed.
    fn listen_to_nodes(&mut self);
    /// The NAT box of a site forgets its mappings.
    fn forget_mappings(&mut self, site: u8) -> Result<(), StageError>;
    /// The NAT box of a site gets another outside address: this one.
    fn change_address(&mut self, site: u8) -> Result<IpAddr, StageError>;
    /// Lets an API behave like this.
    fn set_api_fault(&mut self, api: &ApiRef, fault: &ApiFault) -> Result<(), StageError>;
    /// Creates an export; false if it is there already.
    fn create_export(&mut self, cluster: &ClusterId, key: &ServiceKey) -> Result<bool, StageError>;
    /// Deletes an export; false if it is not there.
    fn delete_export(&mut self, cluster: &ClusterId, key: &ServiceKey) -> Result<bool, StageError>;
    /// What clusters think of their nodes.
    fn lifecycles(&mut self) -> &mut Lifecycles;
    /// The slices of these services of a cluster follow what it thinks of their pods, and each node's service translation
    /// after them.
    fn write_slices(&mut self, cluster: &ClusterId, which: &dyn Fn(&ServiceLayout) -> bool) -> Result<(), StageError>;
    /// [`resliced`] is to be called after [`RESLICE_TIME`].
    fn move_back_later(&mut self, cluster: &ClusterId, key: &ServiceKey);
    /// The wall clock of a node is off by this from now on.
    fn set_skew(&mut self, node: HostId, skew: Skew) -> Result<(), StageError>;
    /// All clocks of a node run at this rate from now on.
    fn set_rate(&mut self, node: HostId, rate: Rate) -> Result<(), StageError>;
}

/// Carries out a fault, and says what was done.
///
/// # Errors
/// See [`StageError`].
pub fn act<G: Ground>(ground: &mut G, fault: &Fault) -> Result<String, StageError> {
    match fault {
        Fault::PowerOff(cluster, node) => power_off(ground, cluster, node),
        Fault::PowerOn(cluster, node) => power_on(ground, cluster, node),
        Fault::Crash(cluster, node, daemons) => crash(ground, cluster, node, *daemons),
        Fault::Start(cluster, node, daemons) => start(ground, cluster, node, *daemons),
        Fault::Cut { from, to, one_way } => cut(ground, from, to, *one_way),
        Fault::Heal { from, to } => heal(ground, from, to),
        Fault::Api(api, fault) => {
            ground.set_api_fault(api, fault)?;
            Ok(format!("the API of {api} {}", manner(fault)))
        }
        Fault::Export(cluster, key) => {
            let new = ground.create_export(cluster, key)?;
            Ok(format!("{cluster} {} {key}", if new { "exports" } else { "exported already" }))
        }
        Fault::Unexport(cluster, key) => {
            let gone = ground.delete_export(cluster, key)?;
            Ok(format!("{cluster} {} {key}", if gone { "no longer exports" } else { "did not export" }))
        }
        Fault::Unready(cluster, key) => ready(ground, cluster, key, false),
        Fault::Ready(cluster, key) => ready(ground, cluster, key, true),
        Fault::Reslice(cluster, key) => {
            let already = if reslice(ground, cluster, key)? { "" } else { " already" };
            Ok(format!("pods of {key} in {cluster} move between slices{already}"))
        }
        Fault::NatRemap(cluster) => {
            let site = site_with_nat(ground, cluster)?;
            ground.forget_mappings(site)?;
            Ok(format!("the NAT box of {cluster} forgot its mappings"))
        }
        Fault::ChangeAddress(cluster) => {
            let site = site_with_nat(ground, cluster)?;
            let address = ground.change_address(site)?;
            Ok(format!("the NAT box of {cluster} is now {address}"))
        }
        Fault::Join(cluster) => join(ground, cluster),
        Fault::Leave(cluster) => leave(ground, cluster),
        Fault::Rebuild(rebuilt) => rebuild(ground, rebuilt),
        Fault::ClockSkew(cluster, node, skew) => {
            let host = find_node(&ground.layout(), cluster, node)?;
            ground.set_skew(host, *skew)?;
            Ok(format!("the wall clock of {cluster}/{node} is {}", wording::skew(*skew)))
        }
        Fault::ClockRate(cluster, node, rate) => {
            let host = find_node(&ground.layout(), cluster, node)?;
            ground.set_rate(host, *rate)?;
            Ok(format!("the clocks of {cluster}/{node} run {}", wording::rate(*rate)))
        }
    }
}

fn join<G: Ground>(ground: &mut G, cluster: &ClusterId) -> Result<String, StageError> {
    let layout = ground.layout();
    if !ground.outsiders().join(cluster) {
        return Ok(format!("{cluster} had joined already"));
    }
    for (host, daemon) in powered_daemons(ground, &layout, cluster) {
        // One that has not yet left is replaced.
        ground.kill(host, daemon);
        ground.start(host, daemon)?;
    }
    Ok(format!("{cluster} joins"))
}

fn leave<G: Ground>(ground: &mut G, cluster: &ClusterId) -> Result<String, StageError> {
    let layout = ground.layout();
    if !ground.outsiders().leave(cluster) {
        return Ok(format!("{cluster} was no member"));
    }
    for (host, daemon) in powered_daemons(ground, &layout, cluster) {
        ground.tell_to_leave(host, daemon)?;
    }
    Ok(format!("{cluster} leaves"))
}

fn powered_daemons<G: Ground>(ground: &G, layout: &Layout, cluster: &ClusterId) -> Vec<(HostId, Daemon)> {
    let powered = layout.nodes_of(cluster).map(|(host, _)| host).filter(|host| ground.has_power(*host));
    powered.flat_map(|host| ground.daemons_of(host).into_iter().map(move |daemon| (host, daemon))).collect()
}

fn rebuild<G: Ground>(ground: &mut G, rebuilt: &Rebuilt) -> Result<String, StageError> {
    let cluster = &rebuilt.cluster;
    if !ground.outsiders().rebuild(cluster) {
        return Err(StageError::Unknown(format!("cluster {cluster} that is no member")));
    }
    let before = ground.layout();
    let layout = before.rebuilt(rebuilt).map_err(|error| StageError::Lacking(error.to_string()))?;
    let nodes: Vec<HostId> = before.nodes_of(cluster).map(|(host, _)| host).collect();
    let powered: Vec<HostId> = nodes.into_iter().filter(|host| ground.has_power(*host)).collect();
    powered.iter().try_for_each(|host| ground.switch_off(*host))?;
    ground.relay(cluster, layout)?;
    powered.iter().try_for_each(|host| ground.switch_on(*host))?;
    ground.listen_to_nodes();
    Ok(wording::rebuilt(rebuilt))
}

fn no_box(cluster: &ClusterId) -> StageError {
    StageError::Unknown(format!("NAT box of {cluster}"))
}

/// The site of a cluster behind a NAT box.
fn site_with_nat<G: Ground>(ground: &G, cluster: &ClusterId) -> Result<u8, StageError> {
    let layout = ground.layout();
    let site =
        layout.site_of(cluster).filter(|site| layout.nats().get(usize::from(*site)).is_some_and(Option::is_some));
    site.ok_or_else(|| no_box(cluster))
}

fn ready<G: Ground>(ground: &mut G, cluster: &ClusterId, key: &ServiceKey, ready: bool) -> Result<String, StageError> {
    let new = ground.lifecycles().set_ready(cluster, key, ready);
    if new {
        ground.write_slices(cluster, &|service| service.key == *key)?;
    }
    let already = if new { "" } else { " already" };
    Ok(format!("the pods of {key} in {cluster} are {}{already}", if ready { "ready" } else { "not ready" }))
}

/// Lets pods of a service move to another slice, and some time later back; false if they do already.
fn reslice<G: Ground>(ground: &mut G, cluster: &ClusterId, key: &ServiceKey) -> Result<bool, StageError> {
    let new = ground.lifecycles().set_moving(cluster, key, true);
    if new {
        ground.write_slices(cluster, &|service| service.key == *key)?;
        ground.move_back_later(cluster, key);
    }
    Ok(new)
}

/// Pods that moved to another slice are back.
///
/// # Errors
/// See [`StageError`].
pub fn resliced<G: Ground>(ground: &mut G, cluster: &ClusterId, key: &ServiceKey) -> Result<(), StageError> {
    ground.lifecycles().set_moving(cluster, key, false);
    ground.write_slices(cluster, &|service| service.key == *key)
}

/// The grace or recovery time of a node is over: the slices follow, if nothing changed since.
///
/// # Errors
/// See [`StageError`].
pub fn judge<G: Ground>(ground: &mut G, judgement: Judgement) -> Result<(), StageError> {
    let host = judgement.node;
    if !ground.lifecycles().judge(judgement) {
        return Ok(());
    }
    let layout = ground.layout();
    let Some(node) = layout.host(host).and_then(|host| host.node.as_ref()) else { return Ok(()) };
    ground.write_slices(&node.cluster, &|service| service.pods.iter().any(|pod| pod.node == host))
}

/// The place of a host.
#[must_use]
pub fn place(layout: &Layout, host: HostId) -> Place {
    match layout.host(host).map(|host| &host.host) {
        Some(Host::Node(cluster, node)) => Place::Node(cluster.clone(), node.clone()),
        Some(Host::Api(api)) => Place::Api(api.clone()),
        None => Place::World,
    }
}

/// The number of a node, for those who know its name.
///
/// # Errors
/// [`StageError::Unknown`].
pub fn find_node(layout: &Layout, cluster: &ClusterId, node: &NodeName) -> Result<HostId, StageError> {
    layout.find_node(cluster, node).ok_or_else(|| StageError::Unknown(format!("node {cluster}/{node}")))
}

fn power_off<G: Ground>(ground: &mut G, cluster: &ClusterId, node: &NodeName) -> Result<String, StageError> {
    let host = find_node(&ground.layout(), cluster, node)?;
    if !ground.has_power(host) {
        return Ok(format!("{cluster}/{node} had no power already"));
    }
    ground.switch_off(host)?;
    ground.listen_to_nodes();
    // Nobody moves them to another node.
    let once = ground.daemons_of(host).into_iter().filter(|daemon| matches!(daemon, Daemon::Discovery | Daemon::Dns));
    let once: Vec<String> = once.map(|daemon| daemon.to_string()).collect();
    let with_it = if once.is_empty() { String::new() } else { format!(", and with it {}", once.join(" and ")) };
    Ok(format!("{cluster}/{node} lost power{with_it}"))
}

fn power_on<G: Ground>(ground: &mut G, cluster: &ClusterId, node: &NodeName) -> Result<String, StageError> {
    let host = find_node(&ground.layout(), cluster, node)?;
    if ground.has_power(host) {
        return Ok(format!("{cluster}/{node} had power already"));
    }
    ground.switch_on(host)?;
    ground.listen_to_nodes();
    Ok(format!("{cluster}/{node} has power"))
}

fn named<G: Ground>(ground: &G, host: HostId, daemons: Daemons) -> Result<Vec<Daemon>, StageError> {
    let there = ground.daemons_of(host);
    match daemons {
        Daemons::All => Ok(there),
        Daemons::One(daemon) if there.contains(&daemon) => Ok(vec![daemon]),
        Daemons::One(daemon) => Err(StageError::Unknown(format!("{daemon} on {}", place(&ground.layout(), host)))),
    }
}

fn crash<G: Ground>(
    ground: &mut G,
    cluster: &ClusterId,
    node: &NodeName,
    daemons: Daemons,
) -> Result<String, StageError> {
    let host = find_node(&ground.layout(), cluster, node)?;
    let mut killed = Vec::new();
    for daemon in named(ground, host, daemons)? {
        if ground.kill(host, daemon) {
            killed.push(daemon.name());
        }
    }
    Ok(if killed.is_empty() {
        format!("nothing ran on {cluster}/{node}")
    } else {
        format!("{cluster}/{node}: {} crashed", killed.join(", "))
    })
}

fn start<G: Ground>(
    ground: &mut G,
    cluster: &ClusterId,
    node: &NodeName,
    daemons: Daemons,
) -> Result<String, StageError> {
    let host = find_node(&ground.layout(), cluster, node)?;
    if !ground.has_power(host) {
        return Ok(format!("{cluster}/{node} has no power"));
    }
    let daemons = named(ground, host, daemons)?;
    let count = daemons.len();
    for daemon in daemons {
        ground.start(host, daemon)?;
    }
    Ok(format!("{cluster}/{node}: {count} daemon{} started", if count == 1 { "" } else { "s" }))
}

fn find_hosts(layout: &Layout, hosts: &[Host]) -> Result<Vec<HostId>, StageError> {
    let find = |host: &Host| layout.find(host).ok_or_else(|| StageError::Unknown(host.to_string()));
    hosts.iter().map(find).collect()
}

fn cut<G: Ground>(ground: &mut G, from: &[Host], to: &[Host], one_way: bool) -> Result<String, StageError> {
    let layout = ground.layout();
    let (senders, receivers) = (find_hosts(&layout, from)?, find_hosts(&layout, to)?);
    let mut ways: Vec<(HostId, HostId)> = pairs(&senders, &receivers).collect();
    if !one_way {
        ways.extend(pairs(&receivers, &senders));
    }
    ground.set_open(&ways, false)?;
    ground.listen_to_nodes();
    let arrow = if one_way { "to" } else { "and" };
    Ok(format!("cut between {} {arrow} {}", names(from), names(to)))
}

fn heal<G: Ground>(ground: &mut G, from: &[Host], to: &[Host]) -> Result<String, StageError> {
    let layout = ground.layout();
    let (ones, others) = (find_hosts(&layout, from)?, find_hosts(&layout, to)?);
    let ways: Vec<(HostId, HostId)> = pairs(&ones, &others).chain(pairs(&others, &ones)).collect();
    ground.set_open(&ways, true)?;
    ground.listen_to_nodes();
    Ok(format!("healed between {} and {}", names(from), names(to)))
}

fn manner(fault: &ApiFault) -> String {
    match fault {
        ApiFault::Healthy => "is healthy".into(),
        ApiFault::Slow(by) => format!("answers {by:?} late"),
        ApiFault::SlowDeletes(by) => format!("deletes {by:?} late"),
        ApiFault::Erroring => "answers every request with an error".into(),
        ApiFault::Down => "is down".into(),
        ApiFault::RestartedEmpty => "restarted with nothing of ours".into(),
        ApiFault::BackedUp => "is backed up".into(),
        ApiFault::Restored => "restarted with what its backup has of ours".into(),
        ApiFault::HistoryExpired => "has forgotten its history".into(),
    }
}

fn pairs<'a>(ones: &'a [HostId], others: &'a [HostId]) -> impl Iterator<Item = (HostId, HostId)> + 'a {
    ones.iter().flat_map(move |one| others.iter().map(move |other| (*one, *other))).filter(|(one, other)| one != other)
}

fn names(hosts: &[Host]) -> String {
    let names: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    names.join(", ")
}
