//! How a server can misbehave.

use std::time::Duration;

/// How a watch learns that its revision is forgotten. Real servers do either.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Gone {
    /// `200 OK`, then an `ERROR` event that carries a `Status` with code 410.
    #[default]
    InStream,
    /// `410 Gone`.
    AsHttp,
}

/// The faults in force. The default is a healthy server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Each answer and each watch event comes this much later. Writes are carried out at once: a client that gives up
    /// waiting cannot know.
    pub slow: Duration,
    /// Each deletion is carried out (and its preconditions are checked) this much later, whether or not the client
    /// still waits.
    pub slow_deletes: Duration,
    /// Each request gets a 500, and open watches end.
    pub erroring: bool,
    /// Requests are taken and never answered, and open watches say nothing.
    pub silent: bool,
    /// Watches are refused with a 403, as to a client that may only list.
    pub refuses_watches: bool,
    /// How expiry is told to a watch that begins.
    pub gone: Gone,
}
