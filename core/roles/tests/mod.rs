//! Tests of the composed machines: a small cluster whose APIs answer at once, and what its gateways do in it.

mod announcing;
mod cluster;
mod dialling;
mod joining;
mod laws;
mod leaving;
mod network;
mod scene;
