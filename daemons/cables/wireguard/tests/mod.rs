//! Devices on a wire in memory.

mod laws;
mod rules;
mod trouble;
mod wire;
