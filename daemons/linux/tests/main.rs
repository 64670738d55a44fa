//! A real kernel: each test in network namespaces of its own, which end with the threads that are in them. So nothing is
//! left behind, however a test ends, and nothing of the machine's own network is touched.
//!
//! Without root, or without nft or ip, it says SKIPPED and why.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "namespaces are of threads; packets take time")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails may panic")]
#![allow(clippy::print_stdout, reason = "it says what it skips")]

extern crate alloc;

use tombolo_core::{base, model, network};

mod agree;
mod bed;
#[path = "../../../core/network/tests/clusters.rs"]
#[allow(dead_code, reason = "the core's own tests use the rest")]
mod clusters;
mod drawn;
mod flows;
mod foreign;
mod hand;
#[allow(dead_code, reason = "tests of other crates use the rest")]
mod lacking;
mod networks;
mod packets;
mod rig;
mod round_trip;
mod site;
mod wire;

use lacking::lacking;
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if let Some(lacking) = lacking(&["nft", "ip", "ping"]) {
        println!("SKIPPED: tests on the kernel ({lacking})");
        return ExitCode::SUCCESS;
    }
    let mut tests = [round_trip::TESTS, foreign::TESTS, flows::TESTS, packets::TESTS, hand::TESTS].concat();
    if Path::new("/dev/net/tun").exists() {
        tests.extend(agree::TESTS);
    } else {
        println!("SKIPPED: packets through model and kernel (no /dev/net/tun)");
    }
    let trial = |(name, test): (&'static str, fn())| {
        Trial::test(name, move || {
            test();
            Ok::<_, Failed>(())
        })
    };
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code()
}

/// A test and its name.
type Test = (&'static str, fn());
