//! A topology for people: one line a thing.

use super::{Inside, Topology};
use core::fmt;

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, inside) in &self.places {
            writeln!(f, "{name}")?;
            describe(inside, f)?;
            for port in self.ports.iter().filter(|port| port.at == *name) {
                writeln!(f, "  port {:<6} to {}", port.name, port.to)?;
            }
            if let Some(nat) = self.nat(name) {
                let ports = if nat.behaviour.keeps_ports { ", ports kept" } else { "" };
                let (mapping, filtering) = (nat.behaviour.mapping, nat.behaviour.filtering);
                writeln!(f, "  nat box: {mapping} mapping, {filtering} filtering{ports}")?;
            }
        }
        for link in &self.links {
            let [a, b] = &link.routers;
            let spec = link.spec;
            write!(f, "{a} -- {b}: {:?}", spec.latency)?;
            if !spec.jitter.is_zero() {
                write!(f, " and up to {:?}", spec.jitter)?;
            }
            if spec.loss_millionths > 0 {
                write!(f, ", loses {} in a million", spec.loss_millionths)?;
            }
            writeln!(f, ", takes {} bytes", spec.mtu)?;
        }
        Ok(())
    }
}

fn describe(inside: &Inside, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(bridge) = inside.bridge {
        writeln!(f, "  bridge {bridge}")?;
    }
    for (link, address, length) in &inside.addresses {
        writeln!(f, "  address {address}/{length} on {link}")?;
    }
    for route in &inside.routes {
        write!(f, "  route {} on {}", route.to, route.link)?;
        match route.via {
            Some(via) => writeln!(f, " via {via}")?,
            None => writeln!(f)?,
        }
    }
    for (port, protocol) in &inside.listens {
        writeln!(f, "  listens on {port}/{protocol}")?;
    }
    Ok(())
}
