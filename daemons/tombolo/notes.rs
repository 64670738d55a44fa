//! Notes of what this daemon did, for the lab (`--notes`): one JSON object a line on standard output.
//!
//! `{"at": NANOSECONDS, "note": …}`. The time is that of the machine's monotonic clock, which is the same in all its
//! namespaces; a note is [`tombolo_core::roles::Note`].

use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::io::{Stdout, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tombolo_core::roles::Note;

/// Where notes go. Clones are the same.
#[derive(Clone, Debug)]
pub struct Notes(Arc<Mutex<Option<Stdout>>>);

#[derive(Serialize)]
struct Line<'a> {
    at: u64,
    note: &'a Note,
}

impl Default for Notes {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(std::io::stdout()))))
    }
}

impl Notes {
    /// Writes one down. Once nobody reads, no more are written.
    pub fn write(&self, note: &Note) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(output) = place.as_mut() else { return };
        let text = serde_json::to_string(&Line { at: now_ns(), note }).map_err(std::io::Error::from);
        if text.and_then(|text| writeln!(output, "{text}")).and_then(|()| output.flush()).is_err() {
            *place = None;
        }
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(std::time::Duration::from).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
