//! Our table as nft lists it (JSON), read back into translations and filters.
//!
//! It is asked for where somebody else has touched the table, or when a daemon starts; then the table is written anew, so
//! what is not as our script writes it is passed over.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tombolo_core::base::Cidr;
use tombolo_core::model::Protocol;
use tombolo_core::network::constants::NFT_TABLE;
use tombolo_core::network::nft::Socket;
use tombolo_core::network::{Allowance, AllowanceId, LinkName, Translation, TranslationId};

/// What the table holds.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Table {
    /// Translations.
    pub(crate) translations: BTreeMap<TranslationId, Translation>,
    /// Filters.
    pub(crate) filters: BTreeMap<AllowanceId, Allowance>,
    /// Backends of flows that outlived their translation.
    pub(crate) outlived: BTreeSet<Socket>,
    /// Notes of ours, in the order of their writing.
    pub(crate) notes: Vec<String>,
}

/// A rule: its chain, its comment, its expressions.
struct Line<'a> {
    chain: &'a str,
    comment: Option<&'a str>,
    expressions: &'a [Value],
}

impl Table {
    /// Reads what `list table` says.
    pub(crate) fn read(listing: &Value) -> Self {
        let ours = || objects(listing).filter(|(_, object)| is_ours(object, "table"));
        let lines: Vec<_> = ours().filter(|(kind, _)| *kind == "rule").map(|(_, object)| Line::of(object)).collect();
        let sets = || ours().filter(|(kind, _)| ["set", "map"].contains(kind)).map(|(_, object)| object);
        let named = |prefix: &'static str| {
            sets().filter(move |set| text(set, "name").is_some_and(|name| name.starts_with(prefix))).flat_map(elements)
        };
        let mut table = Self::default();
        for element in named("services") {
            table.translations.extend(service(element, &lines));
        }
        table.translations.extend(lines.iter().filter_map(kept).map(|id| (id, Translation::KeepSource)));
        table.translations.extend(lines.iter().filter_map(untracked).map(|id| (id, Translation::Untracked)));
        table
            .translations
            .extend(lines.iter().filter_map(|line| clamped(line, &lines)).map(|id| (id, Translation::ClampMss)));
        table.filters.extend(lines.iter().filter_map(|line| filter(line, &lines)));
        let mirrored: BTreeSet<_> = named("mirrors").filter_map(|element| socket(element.get(0)?)).collect();
        table.outlived = named("backends").filter_map(socket).filter(|backend| !mirrored.contains(backend)).collect();
        let notes = lines.iter().filter(|line| line.chain == NOTES);
        table.notes = notes.filter_map(|line| line.comment).map(str::to_owned).collect();
        table
    }
}

/// The chain that no packet meets, whose comments are our notes.
pub(crate) const NOTES: &str = "notes";

/// The objects of a listing, each with its kind.
pub(super) fn objects(listing: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let list = listing.get("nftables").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    list.iter().filter_map(Value::as_object).flatten().map(|(kind, object)| (kind.as_str(), object))
}

/// Whether it is, or is part of, our table.
pub(super) fn is_ours(object: &Value, name: &str) -> bool {
    text(object, "family") == Some("inet") && text(object, name) == Some(NFT_TABLE)
}

fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key)?.as_str()
}

fn elements(set: &Value) -> impl Iterator<Item = &Value> {
    set.get("elem").and_then(Value::as_array).into_iter().flatten()
}

impl<'a> Line<'a> {
    fn of(object: &'a Value) -> Self {
        let expressions = object.get("expr").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        Self { chain: text(object, "chain").unwrap_or_default(), comment: text(object, "comment"), expressions }
    }

    /// What the field of this header is compared with, and under which mask.
    fn compared(&self, protocols: &[&str], field: &str) -> Option<(Option<&'a Value>, &'a Value)> {
        self.matches().find_map(|(left, right)| {
            let (left, mask) = match left.get("&") {
                Some(masked) => (masked.get(0)?, Some(masked.get(1)?)),
                None => (left, None),
            };
            let payload = left.get("payload")?;
            let of_protocol = protocols.contains(&text(payload, "protocol")?);
            (of_protocol && text(payload, "field")? == field).then_some((mask, right))
        })
    }

    /// The ranges that this field must lie in, if the line says so in one of our ways.
    fn within(&self, field: &str) -> Option<Vec<Cidr>> {
        if let Some((mask, right)) = self.compared(&IP, field) {
            return ranges(mask, right);
        }
        everything(self.meta("nfproto")?.as_str()?).map(|all| vec![all])
    }

    /// What this property of the packet is compared with.
    fn meta(&self, key: &str) -> Option<&'a Value> {
        self.matches().find_map(|(left, right)| (text(left.get("meta")?, "key")? == key).then_some(right))
    }

    fn matches(&self) -> impl Iterator<Item = (&'a Value, &'a Value)> {
        let matches = self.expressions.iter().filter_map(|expression| expression.get("match"));
        matches.filter_map(|one| Some((one.get("left")?, one.get("right")?)))
    }

    fn statement(&self, name: &str) -> Option<&'a Value> {
        self.expressions.iter().find_map(|expression| expression.get(name))
    }

    fn link(&self) -> Option<LinkName> {
        self.meta("iifname")?.as_str().map(|name| LinkName(name.into()))
    }
}

const IP: [&str; 2] = ["ip", "ip6"];

/// All addresses of a family.
fn everything(family: &str) -> Option<Cidr> {
    match family {
        "ipv4" | "ip" => Cidr::holding(Ipv4Addr::UNSPECIFIED.into(), 0),
        "ipv6" | "ip6" => Cidr::holding(Ipv6Addr::UNSPECIFIED.into(), 0),
        _ => None,
    }
}

fn ranges(mask: Option<&Value>, value: &Value) -> Option<Vec<Cidr>> {
    if let Some(set) = value.get("set") {
        return set.as_array()?.iter().map(|one| range(mask, one)).collect();
    }
    range(mask, value).map(|one| vec![one])
}

fn range(mask: Option<&Value>, value: &Value) -> Option<Cidr> {
    if let Some(prefix) = value.get("prefix") {
        let length = u8::try_from(prefix.get("len")?.as_u64()?).ok()?;
        return Cidr::holding(text(prefix, "addr")?.parse().ok()?, length);
    }
    let address: IpAddr = value.as_str()?.parse().ok()?;
    let Some(mask) = mask else { return Some(Cidr::host(address)) };
    let ones = match mask.as_str()?.parse().ok()? {
        IpAddr::V4(mask) => u32::from(mask).leading_ones(),
        IpAddr::V6(mask) => u128::from(mask).leading_ones(),
    };
    Cidr::holding(address, u8::try_from(ones).ok()?)
}

fn protocol(value: &Value) -> Option<Protocol> {
    match value.as_str()? {
        "tcp" => Some(Protocol::Tcp),
        "udp" => Some(Protocol::Udp),
        _ => None,
    }
}

fn port(value: &Value) -> Option<u16> {
    u16::try_from(value.as_u64()?).ok()
}

/// `address . protocol . port`.
fn socket(value: &Value) -> Option<Socket> {
    let parts = value.get("concat")?;
    Some((parts.get(0)?.as_str()?.parse().ok()?, protocol(parts.get(1)?)?, port(parts.get(2)?)?))
}

/// `address . port`.
fn backend(value: &Value) -> Option<(IpAddr, u16)> {
    let parts = value.get("concat")?;
    Some((parts.get(0)?.as_str()?.parse().ok()?, port(parts.get(1)?)?))
}

/// An element of a map of services, and the chain that it leads to.
fn service(element: &Value, lines: &[Line<'_>]) -> Option<(TranslationId, Translation)> {
    let (address, protocol, port) = socket(element.get(0)?)?;
    let chain = text(element.get(1)?.get("goto")?, "target")?;
    let line = lines.iter().find(|line| line.chain == chain)?;
    let id = TranslationId::Service { address, protocol, port };
    if line.statement("drop").is_some() {
        return Some((id, Translation::Service { backends: Vec::new(), by_source: false }));
    }
    let map = line.statement("dnat")?.get("addr")?.get("map")?;
    let hashed = map.get("key")?.get("jhash")?.get("expr")?;
    let slots: BTreeMap<u64, _> = map
        .get("data")?
        .get("set")?
        .as_array()?
        .iter()
        .map(|slot| Some((slot.get(0)?.as_u64()?, backend(slot.get(1)?)?)))
        .collect::<Option<_>>()?;
    let backends = slots.into_values().collect();
    Some((id, Translation::Service { backends, by_source: hashed.get("payload").is_some() }))
}

fn kept(line: &Line<'_>) -> Option<TranslationId> {
    let translation = line.statement("snat")?;
    let to_itself = translation.get("addr")?.get("payload")?;
    if line.chain != "sources" || text(to_itself, "field")? != "saddr" {
        return None;
    }
    // A range of all addresses may not be listed at all.
    let all = everything(text(translation, "family")?)?;
    let one = |field| match line.compared(&IP, field) {
        Some((mask, value)) => range(mask, value),
        None => Some(all),
    };
    Some(TranslationId::KeepSource { from: one("saddr")?, to: one("daddr")? })
}

fn untracked(line: &Line<'_>) -> Option<TranslationId> {
    let to = line.comment?.strip_prefix("to ")?;
    (line.chain == "tracking")
        .then(|| line.link())
        .flatten()
        .map(|from| TranslationId::Untracked { from, to: LinkName(to.into()) })
}

/// A line that clamps what comes in by a link, if there is one that clamps what goes out.
fn clamped(line: &Line<'_>, lines: &[Line<'_>]) -> Option<TranslationId> {
    let by_route = |line: &Line<'_>| {
        line.chain == "clamp"
            && line.statement("mangle").is_some_and(|mangle| mangle.pointer("/value/rt/key") == Some(&"mtu".into()))
    };
    let link = line.link().filter(|_| by_route(line))?;
    let is_out = |line: &&Line<'_>| by_route(line) && line.meta("oifname").and_then(Value::as_str) == Some(&*link.0);
    lines.iter().find(is_out).is_some().then(|| TranslationId::ClampMss { link: link.clone() })
}

/// A line of the chain of filters, and the chains that it leads to.
fn filter(line: &Line<'_>, lines: &[Line<'_>]) -> Option<(AllowanceId, Allowance)> {
    let target = text(line.statement("jump")?, "target").filter(|_| line.chain == "filters")?;
    let outer = || {
        let (_, value) = line.compared(&["udp"], "dport")?;
        port(value).map(|port| AllowanceId::Outer { port })
    };
    let id = line.link().map(AllowanceId::Inner).or_else(outer)?;
    let from = choice(target, "saddr", lines)?;
    let to = choice(&format!("{target}-to"), "daddr", lines).unwrap_or_default();
    Some((id, Allowance { from, to }))
}

/// The ranges that a chain has a verdict for. Without the drop at its end it would let all pass: then it is none.
fn choice(chain: &str, field: &str, lines: &[Line<'_>]) -> Option<BTreeSet<Cidr>> {
    let inside = || lines.iter().filter(|line| line.chain == chain);
    inside().next_back().filter(|line| line.statement("drop").is_some() && line.expressions.len() == 1)?;
    let ranges = inside().filter(|line| line.statement("drop").is_none()).map(|line| line.within(field));
    Some(ranges.collect::<Option<Vec<_>>>()?.concat().into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(chain: &str, expressions: Value) -> Value {
        json!({"rule": {"family": "inet", "table": NFT_TABLE, "chain": chain, "expr": expressions}})
    }

    fn saddr(right: &Value) -> Value {
        json!({"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": right}})
    }

    fn filtered(rules: &[Value]) -> Option<Allowance> {
        let jump = json!([
            {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "vx-tombolo"}},
            {"jump": {"target": "from-vx-tombolo"}}
        ]);
        let rules = rules.iter().map(|expressions| rule("from-vx-tombolo", expressions.clone()));
        let listing: Vec<_> = rules.chain([rule("filters", jump)]).collect();
        let table = Table::read(&json!({"nftables": listing}));
        table.filters.get(&AllowanceId::Inner(LinkName("vx-tombolo".into()))).cloned()
    }

    #[test]
    fn ranges_are_read_in_each_way_that_nft_lists_them() {
        let masked = json!({"match": {
            "op": "==",
            "left": {"&": [{"payload": {"protocol": "ip", "field": "saddr"}}, "255.255.0.0"]},
            "right": {"set": ["10.1.0.0", "10.2.0.0"]}
        }});
        let all = json!({"match": {"op": "==", "left": {"meta": {"key": "nfproto"}}, "right": "ipv6"}});
        let rules =
            [masked, saddr(&json!({"prefix": {"addr": "10.3.0.0", "len": 24}})), saddr(&json!("10.4.0.1")), all];
        let mut rules: Vec<_> = rules.into_iter().map(|one| json!([one, {"return": null}])).collect();
        rules.push(json!([{"drop": null}]));
        let from =
            ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/24", "10.4.0.1/32", "::/0"].map(|text| text.parse().unwrap());
        assert_eq!(filtered(&rules), Some(Allowance { from: from.into(), to: [].into() }));
    }

    #[test]
    fn a_filter_that_does_not_drop_or_says_something_odd_is_none() {
        let passes = json!([saddr(&json!("10.4.0.1")), {"return": null}]);
        let (drop, odd) = (json!([{"drop": null}]), json!([{"accept": null}]));
        assert!(filtered(&[passes.clone(), drop.clone()]).is_some());
        assert_eq!(filtered(std::slice::from_ref(&passes)), None);
        assert_eq!(filtered(&[drop.clone(), passes.clone()]), None);
        assert_eq!(filtered(&[passes, odd, drop]), None);
    }

    #[test]
    fn tables_of_others_and_rubbish_give_nothing() {
        let drop = |table: &str| {
            json!({"nftables": [{"rule": {
                "family": "inet", "table": table, "chain": NOTES, "comment": "x", "expr": [{"drop": null}]
            }}]})
        };
        assert_eq!(Table::read(&drop(NFT_TABLE)).notes, ["x"]);
        for listing in [drop("theirs"), json!("rubbish"), json!({"nftables": [7, {"rule": 7}]})] {
            assert_eq!(Table::read(&listing), Table::default());
        }
    }
}
