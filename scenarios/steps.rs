//! Reads routes out of the steps of an applied plan, which facts carry as the lines that a user sees:
//! `+ route 10.2.0.0/16 via … dev … table 7403   because …`, with `+` for new, `~` for changed and `-` for gone.

use tombolo_core::base::Cidr;

/// A step of a plan that is about a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RouteStep<'a> {
    /// Destination.
    pub(crate) to: Cidr,
    /// Its routing table.
    pub(crate) table: &'a str,
    /// What comes of it.
    pub(crate) does: RouteDoes,
}

/// What a step does to the way to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RouteDoes {
    /// Packets find their way after it.
    Leads,
    /// They found it before, and do so no longer.
    Withdraws,
    /// They find it no longer, if they ever did: a kernel that has just booted is given its blackholes first.
    Blocks,
}

impl<'a> RouteStep<'a> {
    /// What tells it from other routes of the node.
    pub(crate) fn id(&self) -> (Cidr, &'a str) {
        (self.to, self.table)
    }
}

/// The step, if it is about a route.
pub(crate) fn route_step(step: &str) -> Option<RouteStep<'_>> {
    let mut words = step.split_whitespace();
    let (sign, kind) = (words.next()?, words.next()?);
    let does = match (sign, kind) {
        ("+" | "~", "route") => RouteDoes::Leads,
        ("-", "route") | ("~", "blackhole") => RouteDoes::Withdraws,
        ("+", "blackhole") => RouteDoes::Blocks,
        // What was a blackhole led nowhere before it went.
        _ => return None,
    };
    let to = words.next()?.parse().ok()?;
    let mut rest = words.take_while(|word| *word != "because");
    let table = if rest.any(|word| word == "table") { rest.next()? } else { "main" };
    Some(RouteStep { to, table, does })
}

#[cfg(test)]
mod tests {
    use super::RouteDoes::{Blocks, Leads, Withdraws};
    use super::*;

    fn read(step: &str) -> Option<(String, &str, RouteDoes)> {
        route_step(step).map(|step| (step.to.to_string(), step.table, step.does))
    }

    #[test]
    fn steps_about_routes_are_read() {
        let line = "+ route 10.2.0.0/16 via inet6 fd74::4 dev vx-tombolo table 7403      because of the table in use";
        assert_eq!(read(line), Some(("10.2.0.0/16".into(), "7403", Leads)));
        assert_eq!(read("- route 10.2.0.0/16 dev tb-cable-1"), Some(("10.2.0.0/16".into(), "main", Withdraws)));
        assert_eq!(read("~ blackhole 10.2.0.0/16 table 7401"), Some(("10.2.0.0/16".into(), "7401", Withdraws)));
        assert_eq!(read("+ blackhole 10.2.0.0/16 table 7401"), Some(("10.2.0.0/16".into(), "7401", Blocks)));
        assert_eq!(read("- blackhole 10.2.0.0/16 table 7401"), None);
        assert_eq!(read("+ rule 7430 lookup 7403"), None);
    }
}
