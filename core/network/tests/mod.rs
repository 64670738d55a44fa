//! Tests of the network model, one behaviour each.

mod clusters;
mod laws;
mod paths;
mod plans;
mod services;
mod tracking;
