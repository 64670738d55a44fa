//! Tests of the network model, one behaviour each.

mod laws;
