//! (sync)
