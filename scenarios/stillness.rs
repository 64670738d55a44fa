//! What counts as movement: every plan step, and every write but those that only say "I am still here".

use crate::{ApiRef, Change, Fact, Place, What, trace};
use std::collections::BTreeMap;
use tombolo_core::model::{Key, Lease, Object};

/// Remembers objects, so that a renewal can be told from a change.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stillness {
    seen: BTreeMap<(Option<ApiRef>, Key), Object>,
}

impl Stillness {
    /// What the fact moves, in words; `None` if it moves nothing. Must be shown every fact, in order.
    pub fn stir(&mut self, fact: &Fact) -> Option<String> {
        match &fact.what {
            What::Applied { .. } => Some(trace::what(&fact.what)),
            What::Wrote { change, key, object, .. } => {
                let api = match &fact.place {
                    Place::Api(api) => Some(api.clone()),
                    Place::World | Place::Node(..) | Place::Daemon(..) => None,
                };
                let before = match change {
                    Change::Created | Change::Replaced => self.seen.insert((api, key.clone()), object.clone()),
                    Change::Deleted => self.seen.remove(&(api, key.clone())),
                };
                let alive = *change == Change::Replaced && before.is_some_and(|before| only_renewed(&before, object));
                (!alive).then(|| trace::what(&fact.what))
            }
            What::Act(_)
            | What::Power(_)
            | What::Process(_)
            | What::Told(_)
            | What::Table { .. }
            | What::Probed { .. } => None,
        }
    }
}

/// A Lease of the same holder in the same term, or a Gateway that says what it said before: its heartbeat is an
/// annotation that our model leaves to the kube hand.
fn only_renewed(before: &Object, now: &Object) -> bool {
    match (before, now) {
        (Object::Lease(before), Object::Lease(now)) => Lease { renewed: now.renewed, ..Lease::clone(before) } == **now,
        (Object::Gateway(before), Object::Gateway(now)) => before == now,
        _ => false,
    }
}
