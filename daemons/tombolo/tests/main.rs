//! The daemons as processes, against API servers over TCP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "processes live in the time of the machine")]
#![allow(clippy::print_stdout, reason = "they say what they skip")]

mod bed;
mod gateways;
#[path = "../../linux/tests/lacking.rs"]
mod lacking;
mod lengths;
mod lines;
mod names;
mod place;
mod site;
