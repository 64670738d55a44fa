//! One namespace's network: observed, and made what it should be.

use crate::apply::Work;
use crate::cables::Cables;
use crate::error::{Error, Fault};
use crate::events::{self, Transactions};
use crate::flows;
use crate::links::{self, Links};
use crate::nft::{Nft, Table, delta};
use crate::notes::Notes;
use crate::socket::{Channel, Events};
use crate::{addresses, neighbours, normal, routes, rules, sysctls};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use tombolo_core::model::Protocol;
use tombolo_core::network::nft::Socket;
use tombolo_core::network::{Conntrack, LinkName, Network, Plan, Translation, TranslationId, Wanted, nft, plan};

/// How often it is looked whether all is as it should be, and what is not applied.
const PASSES: usize = 4;

/// The sockets of one namespace. It stays on the thread that opened it: nft and `/proc/sys` follow the thread.
pub struct Node {
    pub(crate) route: Channel,
    netfilter: Channel,
    route_events: Events,
    nft_events: Events,
    nft: Nft,
    pub(crate) cables: Box<dyn Cables>,
    written: Option<Written>,
    /// As last written: others may delete our table, and what is noted there can be found out no more.
    notes: Option<Notes>,
    /// Backends of flows that outlived their translation, as far as our table has to know them.
    outlived: BTreeSet<Socket>,
    /// Numbers of our links, as last seen.
    own_links: BTreeSet<u32>,
    transactions: Transactions,
    /// The kernel's count of all transactions of nft, when it was last looked at.
    generation: u32,
    /// How many items of ours were there after the last [`Self::reconcile`] that succeeded.
    items: usize,
}

/// What our table is, as long as nobody else touches it.
struct Written {
    /// The script that made it.
    script: String,
    /// What it holds.
    table: Table,
}

/// What was seen at one moment.
pub(crate) struct Observed {
    pub(crate) network: Network,
    pub(crate) links: Links,
    pub(crate) notes: Notes,
    /// Removes what is ours and is there once too often.
    surplus: Vec<RouteNetlinkMessage>,
}

impl Node {
    /// Opens all sockets in the namespace of the calling thread.
    ///
    /// # Errors
    /// [`Error::Open`] with what is missing.
    pub fn open(cables: Box<dyn Cables>) -> Result<Self, Error> {
        let open = |what| move |source| Error::Open { what, source };
        Ok(Self {
            route: Channel::open(NETLINK_ROUTE).map_err(open("rtnetlink"))?,
            netfilter: Channel::open(NETLINK_NETFILTER).map_err(open("nfnetlink"))?,
            route_events: Events::open(NETLINK_ROUTE, &events::ROUTE_GROUPS).map_err(open("rtnetlink's groups"))?,
            nft_events: Events::open(NETLINK_NETFILTER, &events::NFT_GROUPS).map_err(open("nfnetlink's groups"))?,
            nft: Nft::default(),
            cables,
            written: None,
            notes: None,
            outlived: BTreeSet::new(),
            own_links: BTreeSet::new(),
            transactions: Transactions::default(),
            generation: 0,
            items: 0,
        })
    }

    /// All that is ours here.
    ///
    /// # Errors
    /// [`Error::Unseen`] with what could not be read.
    pub fn observe(&mut self) -> Result<Network, Error> {
        self.look().map(|observed| observed.network)
    }

    /// Carries out the steps of a plan, in order. Each is done when the next begins; where one fails, those that need it
    /// are not taken.
    ///
    /// # Errors
    /// [`Error::Step`] with the first step that failed.
    pub fn apply(&mut self, plan: &Plan) -> Result<(), Error> {
        let observed = self.look()?;
        Work::new(self, observed, plan).carry_out(plan).error.map_or(Ok(()), Err)
    }

    /// Makes the network what it should be, and looks whether it is. Gives the steps that were taken.
    ///
    /// # Errors
    /// What failed; [`Error::Unsettled`] if nothing did and something is still not as it should be.
    pub fn reconcile(&mut self, wanted: &Wanted) -> Result<Plan, Error> {
        let wanted = normal::wanted(wanted);
        let (mut taken, mut failed) = (None, None);
        for _ in 0..PASSES {
            // What was told up to now is what this look sees.
            self.touched()?;
            let observed = self.look()?;
            let next = plan(&wanted, &observed.network);
            if next.is_empty() {
                if taken.is_none() {
                    self.forget_outlived(&observed.network)?;
                }
                self.items = observed.network.entries().count();
                if self.settle(observed)? {
                    return Ok(taken.unwrap_or(next));
                }
                continue;
            }
            let outcome = Work::new(self, observed, &next).carry_out(&next);
            taken.get_or_insert(next);
            // What failed may have waited for what was still to be done.
            failed = outcome.error;
            if outcome.done == 0 {
                break;
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let left = plan(&wanted, &self.look()?.network).lines().into_iter().next();
        Err(Error::Unsettled { left: left.unwrap_or_else(|| "what is there once too often comes back".into()) })
    }

    /// How many items of ours (links, routes, rules, …) there are since [`Self::reconcile`] succeeded last.
    #[must_use]
    pub const fn items(&self) -> usize {
        self.items
    }

    /// Gives the node back as it was before anything of ours was there.
    ///
    /// # Errors
    /// As [`Self::reconcile`].
    pub fn uninstall(&mut self) -> Result<Plan, Error> {
        self.reconcile(&Wanted::default())
    }

    /// Descriptors that can be read when the kernel has something to tell.
    #[must_use]
    pub fn watched(&self) -> [BorrowedFd<'_>; 2] {
        use std::os::fd::AsFd;
        [self.route_events.as_fd(), self.nft_events.as_fd()]
    }

    /// Takes what the kernel told meanwhile; whether something that may be ours was touched.
    ///
    /// # Errors
    /// [`Error::Unseen`] if a socket failed.
    pub fn touched(&mut self) -> Result<bool, Error> {
        let unseen = |fault| Error::Unseen { what: "what the kernel tells", fault };
        let (own_links, mut concerned) = (&self.own_links, false);
        let lost = self.route_events.drain(|header, payload| {
            concerned |= events::concerns_route(header, payload, own_links);
        });
        let lost = lost.map_err(|error| unseen(error.into()))?;
        Ok(self.hear_of_table(0).map_err(unseen)? | lost | concerned)
    }

    /// Whether others have touched our table, where we did so this often ourselves. If so, nothing is known of it any more.
    fn hear_of_table(&mut self, own: u32) -> Result<bool, Fault> {
        let heard = &mut self.transactions;
        let lost = self.nft_events.drain(|header, payload| heard.hear(header, payload))?;
        let count = heard.take();
        let generation = events::generation(&mut self.netfilter)?;
        // A large transaction of our own is more than the socket holds; the kernel's count of all transactions is exact.
        let alone = generation == self.generation.wrapping_add(own);
        self.generation = generation;
        let others = !alone && (lost || count > own);
        if others {
            self.written = None;
        }
        Ok(others)
    }

    pub(crate) fn look(&mut self) -> Result<Observed, Error> {
        let links = self.links()?;
        let (addresses, mut surplus) = addresses::read(&self.listing("addresses", &addresses::list())?, &links);
        let mut listing = Vec::new();
        for list in neighbours::lists() {
            listing.extend(self.listing("neighbours", &list)?);
        }
        let (neighbours, more) = neighbours::read(&listing, &links);
        surplus.extend(more);
        let mut listing = self.listing("routes", &routes::list(AddressFamily::Inet))?;
        listing.extend(self.listing("routes", &routes::list(AddressFamily::Inet6))?);
        let (routes, more) = routes::read(&listing, &links);
        surplus.extend(more);
        let (rules, more) = rules::read(&self.listing("rules", &rules::list())?);
        surplus.extend(more);

        let table = self.table()?;
        let notes = self.notes.clone().unwrap_or_else(|| Notes::read(&table.notes));
        let mut network =
            Network { links: links.network(), addresses, neighbours, routes, rules, ..Network::default() };
        (network.translations, network.filters) = (table.translations, table.filters);
        for key in notes.keys() {
            let value = sysctls::read(key).map_err(|fault| Error::Unseen { what: "kernel parameters", fault })?;
            network.sysctls.extend(value.map(|value| (key.clone(), value)));
        }
        let peers = self.cables.peers();
        network.peers = peers.map_err(|why| Error::Unseen { what: "peers", fault: Fault::Cable(why) })?;
        Ok(Observed { network, links, notes, surplus })
    }

    pub(crate) fn links(&mut self) -> Result<Links, Error> {
        let links = Links::read(&self.listing("links", &links::list())?);
        self.own_links = links.numbers_of_ours().collect();
        Ok(links)
    }

    fn listing(
        &mut self,
        what: &'static str,
        request: &RouteNetlinkMessage,
    ) -> Result<Vec<RouteNetlinkMessage>, Error> {
        self.route.dump(request).map_err(|fault| Error::Unseen { what, fault })
    }

    /// Our table. Where it is known, nobody is asked: a listing takes as long as the table is.
    fn table(&mut self) -> Result<Table, Error> {
        let unseen = |fault| Error::Unseen { what: "our nft table", fault };
        self.hear_of_table(0).map_err(unseen)?;
        if let Some(written) = &self.written {
            return Ok(written.table.clone());
        }
        let Some(table) = self.nft.list().map_err(unseen)? else {
            let script = nft::script(&Network::default(), &BTreeSet::new());
            self.written = Some(Written { script, table: Table::default() });
            return Ok(Table::default());
        };
        self.outlived.extend(&table.outlived);
        Ok(table)
    }

    /// Where no step is left: our table as the network wants it, and nothing there twice. Whether it was so already.
    fn settle(&mut self, observed: Observed) -> Result<bool, Error> {
        let Observed { network, notes, surplus, .. } = observed;
        let was_written = self.write(&network, &notes).map_err(|fault| step("our nft table", fault))?;
        let was_clean = surplus.is_empty();
        for message in surplus {
            let gone = crate::apply::removed(self.route.request(message, 0));
            gone.map_err(|fault| step("remove what is there once too often", fault))?;
        }
        Ok(was_written && was_clean)
    }

    /// Sees to it that our table is what this network wants, in one transaction. Whether it was so already.
    pub(crate) fn write(&mut self, network: &Network, notes: &Notes) -> Result<bool, Fault> {
        self.hear_of_table(0)?;
        let script = format!("{}{notes}", nft::script(network, &self.outlived));
        if self.written.as_ref().is_some_and(|written| written.script == script) {
            return Ok(true);
        }
        let delta = self.written.take().and_then(|written| delta(&written.script, &script));
        if delta.is_none_or(|delta| self.nft.run(&delta).is_err()) {
            self.nft.run(&script)?;
        }
        let (translations, filters) = (network.translations.clone(), network.filters.clone());
        let table = Table { translations, filters, outlived: self.outlived.clone(), notes: Vec::new() };
        self.written = Some(Written { script, table });
        self.notes = Some(notes.clone());
        self.hear_of_table(1)?;
        Ok(false)
    }

    /// Takes note of the backends that flows may still go to though `after` does not translate to them; `before` did. To
    /// ask the kernel takes longer than all the rest: it looks through all flows.
    pub(crate) fn outlive(&mut self, before: &Network, after: &Network) {
        self.outlived.extend(lost(before, after, Protocol::Tcp));
    }

    /// Forgets those to which no flow goes any more.
    fn forget_outlived(&mut self, network: &Network) -> Result<(), Error> {
        if !self.outlived.is_empty() {
            let flows = self.flows(network, network);
            let (flows, whole) = flows.map_err(|fault| Error::Unseen { what: "tracked flows", fault })?;
            self.outlived = flows.outlived(&whole);
        }
        Ok(())
    }

    /// Deletes the flows that `after` no longer serves; `before` did.
    pub(crate) fn delete_orphans(&mut self, before: &Network, after: &Network) -> Result<(), Fault> {
        if lost(before, after, Protocol::Udp).is_empty() {
            return Ok(());
        }
        let (flows, whole) = self.flows(before, after)?;
        let orphans = flows.orphans(&whole);
        orphans.iter().try_for_each(|flow| flows::delete(&mut self.netfilter, flow))
    }

    /// The flows of services that are or were ours; those of others' services are others' business. And `after` with all
    /// addresses of the node: what left under one of them was the host's masquerade.
    fn flows(&mut self, before: &Network, after: &Network) -> Result<(Conntrack, Network), Fault> {
        let ours: BTreeSet<Socket> = services(before).chain(services(after)).map(|(service, _)| service).collect();
        let outlived = &self.outlived;
        let mut whole = after.clone();
        let anywhere = LinkName("".into());
        let addresses = self.route.dump(&addresses::list())?;
        whole.addresses.extend(addresses::all(&addresses).map(|address| ((anywhere.clone(), address), 0)));
        let flows = flows::read(&mut self.netfilter, |original, reply| {
            let is = |of: &BTreeSet<Socket>, address, port| of.contains(&(address, original.protocol, port));
            is(&ours, original.destination, original.destination_port)
                || is(&ours, reply.destination, reply.destination_port)
                || is(outlived, reply.source, reply.source_port)
                || is(outlived, original.source, original.source_port)
        })?;
        Ok((flows, whole))
    }
}

/// The exported services of a network.
fn services(network: &Network) -> impl Iterator<Item = (Socket, &[(IpAddr, u16)])> {
    network.translations.iter().filter_map(|(id, translation)| match (id, translation) {
        (TranslationId::Service { address, protocol, port }, Translation::Service { backends, .. }) => {
            Some(((*address, *protocol, *port), backends.as_slice()))
        }
        (_, _) => None,
    })
}

/// The backends of one protocol that a service has in `before` and lacks in `after`.
fn lost(before: &Network, after: &Network, of: Protocol) -> BTreeSet<Socket> {
    let after: BTreeMap<_, _> = services(after).collect();
    let mut lost = BTreeSet::new();
    for (service @ (_, protocol, _), backends) in services(before).filter(|((_, protocol, _), _)| *protocol == of) {
        let kept = after.get(&service).copied().unwrap_or_default();
        if backends != kept {
            let gone = backends.iter().filter(|backend| !kept.contains(backend));
            lost.extend(gone.map(|(address, port)| (*address, protocol, *port)));
        }
    }
    lost
}

pub(crate) fn step(step: &str, fault: Fault) -> Error {
    Error::Step { step: step.to_owned(), fault }
}
