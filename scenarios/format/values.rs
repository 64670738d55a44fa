//! Single values: durations, windows, ports, shares, names.

use super::report::Report;
use super::tree::{Node, Word};
use super::words::{FLAGS, PROTOCOLS, SET, Words, meaning};
use super::wrong::{Wrong, any_of};
use crate::{Rate, Skew};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::borrow::Cow;
use tombolo_core::base::{Cidr, LabelError};
use tombolo_core::model::Protocol;

/// A clock that runs more wrong than this, in millionths, is a broken one.
const RATE_MAX: i32 = 100_000;
/// No scenario lasts longer.
const DURATION_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// A kind of value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Any text.
    Text,
    /// A name.
    Name,
    /// The name of a cluster.
    Cluster,
    /// The name of a node, as its definition has it.
    NodeSpec,
    /// Where the broker is.
    Broker,
    /// An API server.
    Api,
    /// A range of addresses.
    Range,
    /// A length of time.
    Duration,
    /// Two moments.
    Window,
    /// A port with its protocol.
    Port,
    /// A whole number.
    Count,
    /// A share of packets.
    Share,
    /// The longest packet of a link.
    Mtu,
    /// What a NAT box's mapping or filter depends on.
    NatKind,
    /// Which ports a NAT box gives.
    NatPorts,
    /// How far a wall clock is off.
    Skew,
    /// How much too fast a clock runs.
    Rate,
    /// Yes or no.
    Flag,
    /// The flag that can only be set.
    Set,
    /// A name or an address, and a port.
    Target,
    /// A DNS name.
    DnsName,
    /// A DNS response code.
    Rcode,
    /// How cables carry packets.
    Cable,
    /// A kind of flow.
    Flow,
    /// Something a world may lack.
    Ability,
    /// A daemon.
    Daemon,
    /// How an API behaves.
    ApiFault,
    /// A node.
    Node,
    /// One side of a cut.
    Side,
    /// A service in a cluster.
    Service,
    /// What `unchanged` watches.
    Watched,
}

impl Kind {
    /// How such a value is written.
    #[must_use]
    pub fn form(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Text => "a text",
            Self::Name => "a name",
            Self::Cluster => "the name of a cluster",
            Self::NodeSpec => "the name of a node, with a star if it may be a gateway",
            Self::Broker => "a member that is the broker too, or own",
            Self::Api => "a cluster, or broker",
            Self::Range => "a range such as 10.1.0.0/16 or fd00::/64",
            Self::Duration => "a number with a unit, up to 720h: 500ms, 20s, 1m30s, 2h",
            Self::Window => "two moments: 20s..60s",
            Self::Port => "a port from 1 to 65535 and a protocol: 80/tcp or 53/udp",
            Self::Count => "a whole number",
            Self::Share => "a share from 0% to 100%: 1% or 0.25%",
            Self::Mtu => "a number of bytes from 1280 to 9000",
            Self::Skew => "a duration, below zero if the clock is behind: 1h, -30s, 0s",
            Self::Rate => "a share of the true rate from -10% to 10%, below zero if the clock is slow: 0.1%, -2%, 0%",
            Self::Target => {
                "a name or an address, and a port: web.shop.svc.clusterset.local:80, 10.101.0.1:53/udp, [fd00::1]:80"
            }
            Self::DnsName => "a DNS name such as web.shop.svc.clusterset.local",
            Self::Flow => "new (a fresh flow for each probe) or held (one long flow)",
            Self::Node => {
                "cluster/node, cluster/active-gateway, cluster/gateway-to-<cluster>, cluster/last-powered-off or cluster/last-crashed"
            }
            Self::Side => "a node (west/gw-a), all nodes of a cluster (west), an API (west/api) or broker",
            Self::Service => "cluster/namespace/name, for example east/shop/web",
            Self::Watched => "cluster/active-gateway or cluster/path-to-<cluster>",
            Self::NatKind
            | Self::NatPorts
            | Self::Flag
            | Self::Set
            | Self::Rcode
            | Self::Cable
            | Self::Ability
            | Self::Daemon
            | Self::ApiFault => return Cow::Owned(any_of(&self.words())),
        })
    }

    /// What was probably meant by a text that may have a sign.
    fn signed_hint(self, text: &str) -> Option<String> {
        let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
        let unit = if self == Self::Rate { '%' } else { 's' };
        if !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()) {
            return Some(format!("did you mean {sign}{rest}{unit}?"));
        }
        let fine = |bare: &str| if unit == '%' { parse_rate(bare).is_some() } else { parse_skew(bare).is_some() };
        text.strip_prefix('+').filter(|bare| fine(bare)).map(|bare| format!("did you mean {bare}?"))
    }

    /// What was probably meant by `text`.
    pub(super) fn hint(self, text: &str) -> Option<String> {
        let number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let special = if number && self == Self::Duration {
            format!("did you mean {text}s?")
        } else if number && self == Self::Share {
            format!("did you mean {text}%?")
        } else if self == Self::Window && text.contains('-') && !text.contains("..") {
            format!("did you mean {}?", text.replacen('-', "..", 1))
        } else if self == Self::Target && !text.contains(':') {
            format!("did you mean {text}:80?")
        } else if self == Self::Cable && text == "ipsec" {
            "IPsec cables are not there yet".to_owned()
        } else if self == Self::Port && text.ends_with("/sctp") {
            "only tcp and udp are carried".to_owned()
        } else if matches!(self, Self::Skew | Self::Rate) {
            return self.signed_hint(text);
        } else {
            let near = super::nearest::nearest(text, self.words().into_iter())?;
            format!("did you mean {near}?")
        };
        Some(special)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Text => "text",
            Self::Name => "name",
            Self::Cluster => "name of a cluster",
            Self::NodeSpec => "name of a node",
            Self::Broker => "place of the broker",
            Self::Api => "API",
            Self::Range => "range",
            Self::Duration => "duration",
            Self::Window => "window of time",
            Self::Port => "port",
            Self::Count => "number",
            Self::Share => "share",
            Self::Mtu => "length of packets",
            Self::NatKind => "kind of NAT",
            Self::NatPorts => "way to give ports",
            Self::Skew => "error of a clock",
            Self::Rate => "error of a clock's rate",
            Self::Flag => "yes or no",
            Self::Set => "value for this key",
            Self::Target => "target",
            Self::DnsName => "DNS name",
            Self::Rcode => "DNS response code",
            Self::Cable => "cable",
            Self::Flow => "kind of flow",
            Self::Ability => "ability",
            Self::Daemon => "daemon",
            Self::ApiFault => "state of an API",
            Self::Node => "node",
            Self::Side => "side of a cut",
            Self::Service => "service",
            Self::Watched => "thing to watch",
        })
    }
}

/// Reports that `word` is no value of this kind.
pub(super) fn no<T>(word: &Word, kind: Kind, report: &mut Report) -> Option<T> {
    report.add(word.span.clone(), Wrong::Value { text: word.text.clone(), kind });
    None
}

/// The word at `node`, read by `parse`.
pub(super) fn value<T>(
    node: &Node,
    kind: Kind,
    parse: impl FnOnce(&str) -> Option<T>,
    report: &mut Report,
) -> Option<T> {
    let word = node.word(kind.form(), report)?;
    match parse(&word.text) {
        Some(value) => Some(value),
        None => no(word, kind, report),
    }
}

/// What the word at `node` stands for in the table of its kind.
pub(super) fn one_of<'w, T>(node: &Node, kind: Kind, table: &'w Words<T>, report: &mut Report) -> Option<&'w T> {
    value(node, kind, |text| meaning(table, text), report)
}

/// A duration.
pub(super) fn duration(node: &Node, report: &mut Report) -> Option<Duration> {
    value(node, Kind::Duration, parse_duration, report)
}

/// How far a wall clock is off.
pub(super) fn skew(node: &Node, report: &mut Report) -> Option<Skew> {
    value(node, Kind::Skew, parse_skew, report)
}

/// How much too fast a clock runs.
pub(super) fn rate(node: &Node, report: &mut Report) -> Option<Rate> {
    value(node, Kind::Rate, parse_rate, report)
}

/// `true` or `false`.
pub(super) fn flag(node: &Node, report: &mut Report) -> Option<bool> {
    one_of(node, Kind::Flag, FLAGS, report).copied()
}

/// `true`, for keys whose presence says all.
pub(super) fn set(node: &Node, report: &mut Report) -> Option<()> {
    one_of(node, Kind::Set, SET, report).copied()
}

/// A window; one that ends before it begins is reported.
pub(super) fn window(node: &Node, report: &mut Report) -> Option<(Duration, Duration)> {
    let parse = |text: &str| {
        let (from, to) = text.split_once("..")?;
        Some((parse_duration(from.trim())?, parse_duration(to.trim())?))
    };
    let (from, to) = value(node, Kind::Window, parse, report)?;
    if from >= to {
        report.add(node.span.clone(), Wrong::Backwards(from, to));
        return None;
    }
    Some((from, to))
}

/// A range of addresses.
pub(super) fn range(node: &Node, report: &mut Report) -> Option<Cidr> {
    let word = node.word(Kind::Range.form(), report)?;
    match word.text.parse() {
        Ok(range) => Some(range),
        Err(error) => {
            report.add(word.span.clone(), Wrong::Range { text: word.text.clone(), error });
            None
        }
    }
}

/// A name of some kind, from the part of `word` between these bytes.
pub(super) fn name<T: FromStr<Err = LabelError>>(
    word: &Word,
    part: (usize, usize),
    kind: &'static str,
    report: &mut Report,
) -> Option<T> {
    let text = word.text.get(part.0..part.1).unwrap_or_default();
    match text.parse() {
        Ok(name) => Some(name),
        Err(error) => {
            report.add(word.part(part.0, part.1), Wrong::Name { text: text.to_owned(), kind, error });
            None
        }
    }
}

/// Units, longest first: a duration names each at most once and in this order.
pub(super) const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// `1m30s`, `1.5s`, `500ms`.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total_ns: u64 = 0;
    let mut units = UNITS.iter();
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(number_end);
        let unit_end = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        let (_, unit_ns) = units.find(|(name, _)| *name == unit)?;
        total_ns = total_ns.checked_add(decimal(number, *unit_ns)?)?;
        rest = behind;
    }
    let total = Duration::from_nanos(total_ns);
    (!text.is_empty() && total <= DURATION_MAX).then_some(total)
}

/// `number` times `one`, exact: `1.5` of 1,000 is 1,500. `None` where it is no decimal number or leaves a rest.
fn decimal(number: &str, one: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.len() <= 15 && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let scale = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let parts = whole.parse::<u128>().ok()? * scale + fraction.parse::<u128>().ok()?;
    let product = parts.checked_mul(u128::from(one))?;
    if product % scale != 0 {
        return None;
    }
    u64::try_from(product / scale).ok()
}

/// `1%`, `0.25%`, as packets in a million.
pub(super) fn parse_share(text: &str) -> Option<u32> {
    let millionths = decimal(text.strip_suffix('%')?.trim_end(), 10_000)?;
    u32::try_from(millionths).ok().filter(|millionths| *millionths <= 1_000_000)
}

/// Bytes. Every link carries 1,280 (RFC 8200); what ends below would not even carry a hello.
pub(super) const MTU: core::ops::RangeInclusive<u16> = 1_280..=9_000;

/// Bytes, within [`MTU`].
pub(super) fn parse_mtu(text: &str) -> Option<u16> {
    text.parse().ok().filter(|mtu| MTU.contains(mtu))
}

/// `1h`, `-30s`.
pub(super) fn parse_skew(text: &str) -> Option<Skew> {
    match text.strip_prefix('-') {
        Some(behind) => parse_duration(behind).map(Skew::Behind),
        None => parse_duration(text).map(Skew::Ahead),
    }
}

/// `0.1%`, `-2%`.
pub(super) fn parse_rate(text: &str) -> Option<Rate> {
    let (sign, share) = text.strip_prefix('-').map_or((1, text), |share| (-1, share));
    let millionths = i32::try_from(parse_share(share)?).ok()?;
    (millionths <= RATE_MAX).then_some(Rate(sign * millionths))
}

/// `80/tcp`; without a protocol, TCP.
pub(super) fn parse_port(text: &str) -> Option<(u16, Protocol)> {
    let (port, protocol) = match text.split_once('/') {
        Some((port, protocol)) => (port, *meaning(PROTOCOLS, protocol)?),
        None => (text, Protocol::Tcp),
    };
    let plain = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let port = port.parse::<u16>().ok().filter(|port| plain && *port != 0)?;
    Some((port, protocol))
}

/// A DNS name, in lower case and without its final dot.
pub(super) fn parse_dns_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let fine = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
    };
    (name.len() <= 253 && name.split('.').all(fine)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact_and_units_go_from_long_to_short() {
        assert_eq!(parse_duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(parse_duration("1.5s"), Some(Duration::from_millis(1_500)));
        assert_eq!(parse_duration("0s"), Some(Duration::ZERO));
        assert_eq!(parse_duration("720h"), Some(DURATION_MAX));
        for wrong in
            ["", "20", "s", "20 s", "-1s", "1s1m", "1s1s", "1..5s", "0.5ns", "721h", "20S", "9999999999999999s"]
        {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn shares_are_exact_and_end_at_all_packets() {
        assert_eq!(parse_share("1%"), Some(10_000));
        assert_eq!(parse_share("0.25%"), Some(2_500));
        assert_eq!(parse_share("100%"), Some(1_000_000));
        for wrong in ["1", "101%", "-1%", "%", "0.00001%"] {
            assert_eq!(parse_share(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn errors_of_clocks_have_a_sign_only_below_zero() {
        assert_eq!(parse_skew("1h"), Some(Skew::Ahead(Duration::from_secs(3_600))));
        assert_eq!(parse_skew("-30s"), Some(Skew::Behind(Duration::from_secs(30))));
        assert_eq!(parse_rate("0.1%"), Some(Rate(1_000)));
        assert_eq!(parse_rate("-10%"), Some(Rate(-100_000)));
        for wrong in ["--1s", "+1h", "-", "1", "5%"] {
            assert_eq!(parse_skew(wrong), None, "{wrong}");
        }
        for wrong in ["--1%", "+1%", "-", "1", "10.0001%", "-11%", "1s"] {
            assert_eq!(parse_rate(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ports_are_tcp_unless_said_and_never_zero() {
        assert_eq!(parse_port("80"), Some((80, Protocol::Tcp)));
        assert_eq!(parse_port("53/udp"), Some((53, Protocol::Udp)));
        for wrong in ["0/tcp", "65536", "80/sctp", "80/", "/tcp", "+80"] {
            assert_eq!(parse_port(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_lose_their_final_dot_and_their_case() {
        assert_eq!(parse_dns_name("Web.shop.svc.clusterset.local."), Some("web.shop.svc.clusterset.local".to_owned()));
        for wrong in ["", ".", "a..b", "a b", "a:80"] {
            assert_eq!(parse_dns_name(wrong), None, "{wrong}");
        }
    }
}
