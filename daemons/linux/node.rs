//! One namespace's network: observed, and made what it should be.

use crate::apply::Work;
use crate::cables::Cables;
use crate::error::{Error, Fault};
use crate::events;
use crate::flows;
use crate::links::{self, Links};
use crate::nft::{Nft, Table};
use crate::notes::Notes;
use crate::socket::{Channel, Events};
use crate::{addresses, neighbours, normal, routes, rules, sysctls};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use tombolo_core::network::nft::Socket;
use tombolo_core::network::{Conntrack, Network, Plan, Translation, TranslationId, Wanted, nft, plan};

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
}

/// The script that made our table, and how the table was listed then.
struct Written {
    script: String,
    listed: Option<Vec<String>>,
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
            self.forget_events()?;
            let observed = self.look()?;
            let next = plan(&wanted, &observed.network);
            if next.is_empty() {
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
        let unseen = |error| Error::Unseen { what: "what the kernel tells", fault: Fault::Io(error) };
        let own_links = &self.own_links;
        let routes = self.route_events.drain(|header, payload| events::concerns_route(header, payload, own_links));
        let tables = self.nft_events.drain(events::concerns_nft);
        Ok(routes.map_err(unseen)? | tables.map_err(unseen)?)
    }

    /// What was told up to now is what the next look sees.
    fn forget_events(&mut self) -> Result<(), Error> {
        self.touched().map(|_| ())
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

    /// Our table. One that is not as we wrote it will be written again.
    fn table(&mut self) -> Result<Table, Error> {
        let listed = self.nft.list().map_err(|fault| Error::Unseen { what: "our nft table", fault })?;
        let is_there = listed.is_some();
        let table = listed.unwrap_or_default();
        match &mut self.written {
            Some(written) => match &written.listed {
                None => written.listed = Some(table.content.clone()),
                Some(listed) if *listed == table.content => {}
                Some(_) => self.written = None,
            },
            None => self.outlived.extend(&table.outlived),
        }
        if self.written.is_none() && !is_there {
            let script = nft::script(&Network::default(), &BTreeSet::new());
            self.written = Some(Written { script, listed: Some(Vec::new()) });
        }
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
        let script = format!("{}{notes}", nft::script(network, &self.outlived));
        if self.written.as_ref().is_some_and(|written| written.script == script) {
            return Ok(true);
        }
        self.nft.run(&script)?;
        self.written = Some(Written { script, listed: None });
        self.notes = Some(notes.clone());
        Ok(false)
    }

    /// Whether our table is known to be as this process wrote it.
    pub(crate) const fn has_written(&self) -> bool {
        self.written.is_some()
    }

    /// Finds the backends that flows still go to though `after` does not translate to them; `before` may have.
    pub(crate) fn find_outlived(&mut self, before: &Network, after: &Network) -> Result<(), Fault> {
        self.outlived = self.flows(before, after)?.outlived(after);
        Ok(())
    }

    /// Deletes the flows that `after` no longer serves; `before` may have.
    pub(crate) fn delete_orphans(&mut self, before: &Network, after: &Network) -> Result<(), Fault> {
        let orphans = self.flows(before, after)?.orphans(after);
        orphans.iter().try_for_each(|flow| flows::delete(&mut self.netfilter, flow))
    }

    /// The flows of services that are or were ours. Those of others' services are others' business.
    fn flows(&mut self, before: &Network, after: &Network) -> Result<Conntrack, Fault> {
        let ours: BTreeSet<Socket> = services(before).chain(services(after)).map(|(socket, _)| socket).collect();
        if ours.is_empty() && self.outlived.is_empty() {
            return Ok(Conntrack::new());
        }
        let outlived = &self.outlived;
        flows::read(&mut self.netfilter, |original, reply| {
            ours.contains(&(original.destination, original.protocol, original.destination_port))
                || outlived.contains(&(reply.source, reply.protocol, reply.source_port))
        })
    }
}

/// The exported services of a network.
pub(crate) fn services(network: &Network) -> impl Iterator<Item = (Socket, &Translation)> {
    network.translations.iter().filter_map(|(id, translation)| match id {
        TranslationId::Service { address, protocol, port } => Some(((*address, *protocol, *port), translation)),
        TranslationId::KeepSource { .. } | TranslationId::Untracked { .. } | TranslationId::Masquerade { .. } => None,
    })
}

pub(crate) fn step(step: &str, fault: Fault) -> Error {
    Error::Step { step: step.to_owned(), fault }
}
