//! Cables on a real kernel, in network namespaces of their own, which end with the threads that are in them.
//!
//! Without root, or without ip, ping or `/dev/net/tun`, it says SKIPPED and why.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "namespaces are of threads; packets take time")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails may panic")]
#![allow(clippy::print_stdout, reason = "it says what it skips")]

#[path = "../../linux/tests/bed.rs"]
#[allow(dead_code, reason = "the tests of the kernel's network use the rest")]
mod bed;
mod contender;
mod interop;
#[path = "../../linux/tests/lacking.rs"]
mod lacking;
mod plain;
mod processes;
mod site;
mod traffic;
mod tunnels;

use lacking::runs;
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if let Some(lacking) = lacking() {
        println!("SKIPPED: cables on the kernel ({lacking})");
        return ExitCode::SUCCESS;
    }
    let mut tests = tunnels::TESTS.to_vec();
    if runs("nft") {
        tests.extend([processes::TESTS, plain::TESTS].concat());
    } else {
        println!("SKIPPED: cables as part of a node's network (no nft)");
    }
    tests.extend(interop::tests());
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

/// What is missing here, if anything is.
fn lacking() -> Option<String> {
    let lacking = lacking::lacking(&["ip", "ping"]);
    lacking.or_else(|| (!Path::new("/dev/net/tun").exists()).then(|| "no /dev/net/tun".into()))
}
