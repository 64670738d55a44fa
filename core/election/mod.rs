//! (election)
