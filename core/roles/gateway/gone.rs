//! Cards that nobody keeps any more: their nodes are no gateways, and no daemon is left there to take them away.

use super::{Gateway, nodes};
use crate::base::Instant;
use crate::model::{Api, Key, Kind, Object, Version};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

/// How long a card shows no sign of life before it goes, as Submariner has it.
pub(super) const GONE: Duration = Duration::from_secs(15);

/// A card, as it was last written: a daemon that lives writes a sign of life every 5 s.
pub(super) type Silent = (Key, Version);

impl Gateway {
    /// Takes away the cards of nodes that have not been gateways for [`GONE`], and were not written meanwhile. That is the
    /// lease holder's to do. A node that is only silent keeps its card: it may be cut off from here and live.
    pub(super) fn remove_cards_of_the_gone(&mut self, now: Instant) {
        let all_seen = self.index.all_synced(Api::Local, &[Kind::Node, Kind::Gateway]);
        let silent = if self.term.is_some() && all_seen { self.cards_without_a_gateway() } else { BTreeSet::new() };
        let others: Vec<Silent> = self.gone.all().filter(|known| !silent.contains(*known)).cloned().collect();
        others.iter().for_each(|known| self.gone.clear(known));
        for card in silent {
            self.gone.note(&card, now);
            if self.gone.lasted(&card) {
                self.writer.want(Api::Local, &card.0, None, &self.index);
            }
        }
    }

    fn cards_without_a_gateway(&self) -> BTreeSet<Silent> {
        let gateways: BTreeSet<_> =
            nodes(&self.index).into_values().filter(|node| node.gateway).map(|node| node.name.clone()).collect();
        let own = &self.node.config().node;
        let is_one = |object: &Object| matches!(object, Object::Gateway(card) if card.node == *own || gateways.contains(&card.node));
        let cards = self.index.objects(Api::Local, Kind::Gateway).filter(|(_, object)| !is_one(object));
        cards.filter_map(|(key, _)| Some((key.into(), self.index.shown(Api::Local, key)?.1.clone()))).collect()
    }
}
