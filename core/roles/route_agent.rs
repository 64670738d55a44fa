//! The route agent: on every node that may not be a gateway. It follows the path that gateways chose and gives its node
//! the network that leads there (R44–R48). It writes nothing to any API.

use super::node_side::{NodeConfig, NodeSide};
use super::{Input, Output, Role};
use crate::base::{Instant, Machine};
use crate::model::{Api, Kind};
use crate::sync::Index;

/// The machine of `tombolo route-agent`.
#[derive(Clone, PartialEq, Debug)]
pub struct RouteAgent {
    index: Index,
    node: NodeSide,
}

impl RouteAgent {
    /// A route agent that has just started.
    #[must_use]
    pub fn new(config: NodeConfig) -> Self {
        Self { index: Index::default(), node: NodeSide::new(config) }
    }

    fn refresh(&mut self) {
        self.node.network(&self.index, None, &Default::default());
    }
}

/// Why the route agent wakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteAgentWake {
    /// A hello is due, or a neighbour has been silent.
    Paths,
}

impl Machine for RouteAgent {
    type Input = Input;
    type Output = Output;
    type Reason = RouteAgentWake;

    fn handle(&mut self, input: Input, now: Instant) {
        match input {
            Input::Watched(api, event) => {
                if !self.index.watched(api, event).is_empty() {
                    self.node.membership(&self.index, now);
                    self.refresh();
                }
            }
            Input::Hello { via, from, bytes } => {
                if self.node.hello(via, from, bytes, now) {
                    self.refresh();
                }
            }
            Input::Applied(Err(because)) => self.node.apply_failed(&because),
            Input::Applied(Ok(())) | Input::Wall(_) | Input::Read(..) | Input::Written(..) | Input::Stop => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.node.poll_output()
    }

    fn poll_timeout(&self) -> Option<(Instant, RouteAgentWake)> {
        self.node.poll_timeout().map(|at| (at, RouteAgentWake::Paths))
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.node.handle_timeout(now) {
            self.refresh();
        }
    }
}

impl Role for RouteAgent {
    fn watches(&self) -> &'static [(Api, Kind)] {
        &[(Api::Local, Kind::Node), (Api::Local, Kind::Cluster), (Api::Local, Kind::Candidates)]
    }
}
