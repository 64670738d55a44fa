//! Claims, overlap and pools.

mod claims;
mod overlaps;
mod pools;

use crate::base::{Cidr, ClusterId};
use crate::model::Ranges;
use alloc::vec::Vec;

fn cluster(name: &str) -> ClusterId {
    ClusterId::new(name).unwrap()
}

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn cidrs(texts: &[&str]) -> Vec<Cidr> {
    texts.iter().map(|text| cidr(text)).collect()
}

/// Pods and services.
fn ranges(pods: &[&str], services: &[&str]) -> Ranges {
    Ranges { pods: cidrs(pods), services: cidrs(services), ..Ranges::default() }
}
