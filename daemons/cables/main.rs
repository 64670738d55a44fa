//! `tombolo-cable LINK`: starts a cable's process, and returns when it can be spoken to.

use clap::Parser;
use tombolo_cables::command::{Arguments, carry_out};

/// A cable of userspace WireGuard. It speaks as `wg` does.
#[derive(Debug, Parser)]
#[command(version)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

fn main() -> anyhow::Result<()> {
    carry_out(&Line::parse().arguments, &[])
}
