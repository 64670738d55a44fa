//! Hands that every daemon has, and those that say that one lacks.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;
use tombolo_core::base::{ClusterId, Wall};
use tombolo_core::dns::Table;
use tombolo_core::network::Wanted;
use tombolo_core::roles::{Event, Via};
use tombolo_linux::Deed;
use tombolo_shell::{Journal, KernelHand, NatHand, NetHand, WallClock, ZoneHand};
use tracing::{debug, info, warn};

/// Events become lines of the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Log;

impl Log {
    /// Tells an event.
    pub fn event(event: &Event) {
        match event {
            Event::Refused { .. } | Event::Contested { .. } | Event::PathDead { .. } | Event::Unanswered { .. } => {
                warn!("{event}");
            }
            Event::Ignored { .. } => warn!("{event}"),
            Event::Elected(_)
            | Event::StoodDown { .. }
            | Event::Left
            | Event::PathChosen { .. }
            | Event::Dials { .. }
            | Event::Public(_) => info!("{event}"),
        }
    }

    /// Tells what was done to the node's network.
    pub fn deed(deed: Deed) {
        match deed {
            Deed::Applied(plan) if plan.is_empty() => {}
            Deed::Applied(plan) => {
                info!(steps = plan.steps().len(), "network changed");
                debug!("{plan}");
            }
            Deed::PutBack(plan) => warn!("others changed what is ours; it is put back: {plan}"),
            Deed::Failed(error) => warn!("the network is not what it should be: {error}"),
        }
    }
}

impl Journal for Log {
    fn tell(&mut self, event: Event) {
        Self::event(&event);
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemWall;

impl SystemWall {
    /// What it reads.
    #[must_use]
    pub fn read() -> Wall {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Wall::default() + since
    }
}

impl WallClock for SystemWall {
    fn now(&self) -> Wall {
        Self::read()
    }
}

/// For what a daemon has no hand for: its machine should not have asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lacking;

impl Lacking {
    fn tell(what: &str) {
        warn!("this daemon has no hand for {what}");
    }
}

impl NetHand for Lacking {
    fn send(&mut self, _: Via, to: IpAddr, _: Vec<u8>) {
        Self::tell(&format!("a hello to {to}"));
    }
}

impl NatHand for Lacking {
    fn probe(&mut self, to: SocketAddr, _: Option<ClusterId>, _: Vec<u8>) {
        Self::tell(&format!("a question to {to}"));
    }

    fn look_up(&mut self) {
        Self::tell("looking up its address");
    }
}

impl KernelHand for Lacking {
    fn apply(&mut self, _: Arc<Wanted>) {
        Self::tell("the node's network");
    }
}

impl ZoneHand for Lacking {
    fn swap(&mut self, _: Arc<Table>) {
        Self::tell("DNS");
    }
}
