//! The ground floor: time, chance, names, address ranges, a versioned store, and the law every machine obeys.

mod cidr;
mod few;
pub mod hash;
mod id;
mod lasting;
#[cfg(any(test, feature = "laws"))]
pub mod laws;
mod machine;
mod rng;
mod store;
mod time;
mod timers;

pub use cidr::{Cidr, CidrError};
pub use few::{Few, FewBy};
pub use id::{ClusterId, Epoch, Label, LabelError, NodeName, Slot, SlotError, is_label};
pub use lasting::Lasting;
pub use machine::{Machine, drain};
pub use rng::Rng;
pub use smol_str::SmolStr;
pub use store::{Change, Event, HistoryError, Page, Range, Revision, Snapshot, Store, StoreError, Versioned};
pub use time::{Instant, Wall};
pub use timers::Timers;
