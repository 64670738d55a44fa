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
    gone: bool,
    blackhole: bool,
}

impl<'a> RouteStep<'a> {
    /// What tells it from other routes of the node.
    pub(crate) fn id(&self) -> (Cidr, &'a str) {
        (self.to, self.table)
    }

    /// Whether packets find their way after this step.
    pub(crate) fn leads_there(&self) -> bool {
        !self.gone && !self.blackhole
    }
}

/// The step, if it is about a route.
pub(crate) fn route_step(step: &str) -> Option<RouteStep<'_>> {
    let mut words = step.split_whitespace();
    let gone = match words.next()? {
        "-" => true,
        "+" | "~" => false,
        _ => return None,
    };
    let blackhole = match words.next()? {
        "route" => false,
        "blackhole" => true,
        _ => return None,
    };
    let to = words.next()?.parse().ok()?;
    let mut rest = words.take_while(|word| *word != "because");
    let table = if rest.any(|word| word == "table") { rest.next()? } else { "main" };
    // What was a blackhole led nowhere before it went.
    (!(gone && blackhole)).then_some(RouteStep { to, table, gone, blackhole })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(step: &str) -> Option<(String, &str, bool)> {
        route_step(step).map(|step| (step.to.to_string(), step.table, step.leads_there()))
    }

    #[test]
    fn steps_about_routes_are_read() {
        let line = "+ route 10.2.0.0/16 via inet6 fd74::4 dev vx-tombolo table 7403      because of the table in use";
        assert_eq!(read(line), Some(("10.2.0.0/16".into(), "7403", true)));
        assert_eq!(read("- route 10.2.0.0/16 dev tb-cable-1"), Some(("10.2.0.0/16".into(), "main", false)));
        assert_eq!(read("~ blackhole 10.2.0.0/16 table 7401"), Some(("10.2.0.0/16".into(), "7401", false)));
        assert_eq!(read("- blackhole 10.2.0.0/16 table 7401"), None);
        assert_eq!(read("+ rule 7430 lookup 7403"), None);
    }
}
