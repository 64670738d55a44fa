//! Tests of the network model, one behaviour each.

mod any_packet;
mod clusters;
mod drawn;
mod laws;
mod lengths;
mod paths;
mod plans;
mod services;
mod tracking;
