//! Gives the parts that a scenario names to nodes and hosts: each reference in a verb or a probe is looked up at the
//! moment it is needed.

use crate::whereabouts::{LookupError, Whereabouts};
use crate::{Fact, Fault, Host, NodeRef, Scenario, Side, Verb};
use tombolo_core::base::{ClusterId, NodeName};

/// Why a part could not be given.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CastingError {
    /// A reference by role has nobody behind it.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The source of a probe has no power.
    #[error("{0}/{1} is powered off")]
    PoweredOff(ClusterId, NodeName),
}

/// A cut as it was written and as it was carried out.
#[derive(Clone, PartialEq, Debug)]
struct Cut {
    sides: (Side, Side),
    hosts: (Vec<Host>, Vec<Host>),
}

/// See the module.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Casting<'a> {
    scenario: &'a Scenario,
    whereabouts: Whereabouts,
    cuts: Vec<Cut>,
}

impl<'a> Casting<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        Self { scenario, whereabouts: Whereabouts::default(), cuts: Vec::new() }
    }

    pub(crate) fn watch(&mut self, fact: &Fact) {
        self.whereabouts.watch(fact);
    }

    /// The node that a probe leaves from.
    pub(crate) fn source(&self, from: &NodeRef) -> Result<(ClusterId, NodeName), CastingError> {
        let (cluster, node) = self.node(from)?;
        if self.whereabouts.is_off(&cluster, &node) {
            return Err(CastingError::PoweredOff(cluster, node));
        }
        Ok((cluster, node))
    }

    /// The verb with every reference looked up.
    pub(crate) fn fault(&self, verb: &Verb) -> Result<Fault, CastingError> {
        Ok(match verb {
            Verb::PowerOff(at) => self.node(at).map(|(cluster, node)| Fault::PowerOff(cluster, node))?,
            Verb::PowerOn(at) => self.node(at).map(|(cluster, node)| Fault::PowerOn(cluster, node))?,
            Verb::Crash(at, daemons) => self.node(at).map(|(cluster, node)| Fault::Crash(cluster, node, *daemons))?,
            Verb::Start(at, daemons) => self.node(at).map(|(cluster, node)| Fault::Start(cluster, node, *daemons))?,
            Verb::Cut { from, to, one_way } => {
                Fault::Cut { from: self.hosts(from)?, to: self.hosts(to)?, one_way: *one_way }
            }
            Verb::Heal { from, to } => self.heal(from, to)?,
            Verb::Api(api, fault) => Fault::Api(api.clone(), fault.clone()),
            Verb::Export(cluster, service) => Fault::Export(cluster.clone(), service.clone()),
            Verb::Unexport(cluster, service) => Fault::Unexport(cluster.clone(), service.clone()),
            Verb::ClockSkew(at, skew) => self.node(at).map(|(cluster, node)| Fault::ClockSkew(cluster, node, *skew))?,
            Verb::NatRemap(cluster) => Fault::NatRemap(cluster.clone()),
            Verb::ChangeAddress(cluster) => Fault::ChangeAddress(cluster.clone()),
            Verb::Join(cluster) => Fault::Join(cluster.clone()),
            Verb::Leave(cluster) => Fault::Leave(cluster.clone()),
            Verb::Rebuild(rebuilt) => Fault::Rebuild(rebuilt.clone()),
            Verb::ClockRate(at, rate) => self.node(at).map(|(cluster, node)| Fault::ClockRate(cluster, node, *rate))?,
            Verb::Unready(cluster, service) => Fault::Unready(cluster.clone(), service.clone()),
            Verb::Ready(cluster, service) => Fault::Ready(cluster.clone(), service.clone()),
            Verb::Reslice(cluster, service) => Fault::Reslice(cluster.clone(), service.clone()),
        })
    }

    /// The verb was carried out.
    pub(crate) fn done(&mut self, verb: &Verb, fault: &Fault) {
        match (verb, fault) {
            (Verb::Cut { from, to, .. }, Fault::Cut { from: senders, to: receivers, .. }) => {
                self.cuts.push(Cut { sides: (from.clone(), to.clone()), hosts: (senders.clone(), receivers.clone()) })
            }
            (Verb::Heal { from, to }, _) => self.cuts.retain(|cut| !cut.is_between(from, to)),
            (_, Fault::Crash(cluster, node, _)) => self.whereabouts.crashed(cluster, node),
            _ => {}
        }
    }

    /// "Heal west/active-gateway and east" after "cut west/active-gateway and east" means the hosts that were cut, though
    /// by now another node may be the active gateway.
    fn heal(&self, from: &Side, to: &Side) -> Result<Fault, CastingError> {
        let mut healed = (Vec::new(), Vec::new());
        for cut in self.cuts.iter().filter(|cut| cut.is_between(from, to)) {
            healed.0.extend(cut.hosts.0.iter().cloned());
            healed.1.extend(cut.hosts.1.iter().cloned());
        }
        if healed.0.is_empty() {
            healed = (self.hosts(from)?, self.hosts(to)?);
        }
        for hosts in [&mut healed.0, &mut healed.1] {
            hosts.sort();
            hosts.dedup();
        }
        Ok(Fault::Heal { from: healed.0, to: healed.1 })
    }

    fn hosts(&self, side: &Side) -> Result<Vec<Host>, CastingError> {
        Ok(match side {
            Side::Node(at) => self.node(at).map(|(cluster, node)| vec![Host::Node(cluster, node)])?,
            Side::Cluster(cluster) => {
                let nodes = self.scenario.clusters.get(cluster).into_iter().flat_map(|c| &c.nodes);
                nodes.map(|node| Host::Node(cluster.clone(), node.name.clone())).collect()
            }
            Side::Api(api) => vec![Host::Api(api.clone())],
        })
    }

    fn node(&self, at: &NodeRef) -> Result<(ClusterId, NodeName), CastingError> {
        Ok((at.cluster.clone(), self.whereabouts.look_up(at)?))
    }
}

impl Cut {
    fn is_between(&self, from: &Side, to: &Side) -> bool {
        let (a, b) = (&self.sides.0, &self.sides.1);
        (a == from && b == to) || (a == to && b == from)
    }
}
