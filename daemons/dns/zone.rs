//! The table that is answered from, and how it is changed.

use arc_swap::{ArcSwap, Guard};
use std::sync::Arc;
use tombolo_core::dns::Table;
use tombolo_shell::ZoneHand;

/// The hand that swaps the table. From then on every socket answers from the new one.
#[derive(Debug)]
pub struct Zone {
    current: Arc<ArcSwap<Table>>,
    /// Tables that may still be in use. To free a large one takes long, and no query shall have to.
    old: Vec<Arc<Table>>,
}

impl Zone {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Self { current: Arc::new(ArcSwap::new(table)), old: Vec::new() }
    }

    /// For one who answers.
    pub(crate) fn reader(&self) -> Reader {
        Reader(Arc::clone(&self.current))
    }
}

impl ZoneHand for Zone {
    fn swap(&mut self, table: Arc<Table>) {
        self.old.push(self.current.swap(table));
        self.old.retain(|table| Arc::strong_count(table) > 1);
    }
}

/// What answers are taken from.
#[derive(Clone, Debug)]
pub(crate) struct Reader(Arc<ArcSwap<Table>>);

impl Reader {
    /// The table of this moment. It takes no lock, and is to be kept for some answers and not for longer.
    pub(crate) fn table(&self) -> Guard<Arc<Table>> {
        self.0.load()
    }
}
