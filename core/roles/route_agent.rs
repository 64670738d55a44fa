//! The route agent: on every node that may not be a gateway. It follows the path that gateways chose and gives its node
//! the network that leads there (R44–R48). It writes nothing to any API.

use super::node_side::{NodeConfig, NodeSide};
use super::{Event, Input, Output, Role};
use crate::base::{Instant, Machine};
use crate::model::{Api, Kind, WatchEvent};
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

    fn refresh(&mut self, now: Instant) {
        if self.node.believe_absences(&mut self.index, now) {
            self.node.membership(&self.index, now);
        }
        self.node.network(&self.index, None, &Default::default(), now);
    }
}

/// Why the route agent wakes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RouteAgentWake {
    /// A hello is due, or a neighbour has been silent.
    Paths,
    /// What the API does not show any more may be gone for good.
    Absence,
}

impl Machine for RouteAgent {
    type Input = Input;
    type Output = Output;
    type Reason = RouteAgentWake;

    fn handle(&mut self, input: Input, now: Instant) {
        match input {
            Input::Watched(api, event) => {
                let listed = matches!(event, WatchEvent::Synced(_));
                let touched = self.index.watched(api, event, now);
                if listed || !touched.is_empty() {
                    self.node.hear_out(&mut self.index, api, &touched, now);
                    self.node.membership(&self.index, now);
                    self.refresh(now);
                }
            }
            Input::Hello { via, from, bytes } => {
                if self.node.hello(via, from, bytes, now) {
                    self.refresh(now);
                }
            }
            Input::Applied(result) => {
                if self.node.applied(&result) {
                    self.node.tell(Event::Left);
                }
            }
            Input::Leave => self.node.leave(),
            Input::Wall(_)
            | Input::Read(..)
            | Input::Written(..)
            | Input::Probe { .. }
            | Input::LookedUp(_)
            | Input::Stop => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.node.poll_output()
    }

    fn poll_timeout(&self) -> Option<(Instant, RouteAgentWake)> {
        let paths = self.node.poll_timeout().map(|at| (at, RouteAgentWake::Paths));
        let absence = self.index.poll_timeout().map(|at| (at, RouteAgentWake::Absence));
        [paths, absence].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        let absent = self.index.poll_timeout().is_some_and(|at| at <= now);
        if self.node.handle_timeout(now) || absent {
            self.refresh(now);
        }
    }
}

impl Role for RouteAgent {
    fn watches(&self) -> &'static [(Api, Kind)] {
        &[(Api::Local, Kind::Node), (Api::Local, Kind::Cluster), (Api::Local, Kind::Candidates)]
    }
}
