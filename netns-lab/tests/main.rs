//! Labs on a real kernel, by the program that people use. Each test is in a network namespace of its own, so that labs of
//! several tests do not see each other.
//!
//! Without root or what labs need, it says SKIPPED and why; so it does where `LABS=later` is in the environment.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "namespaces are of threads; packets take time")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails may panic")]
#![allow(clippy::print_stdout, reason = "it says what it skips, and what it measured")]

mod bed;
mod bench;
mod endings;
mod nat;
mod packets;
mod scenarios;

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if std::env::var_os("LABS").is_some_and(|labs| labs == "later") {
        println!("SKIPPED: labs, now (ci/lab)");
        return ExitCode::SUCCESS;
    }
    if let Some(lacking) = tombolo_lab::abilities::lacking() {
        println!("SKIPPED: labs ({lacking})");
        return ExitCode::SUCCESS;
    }
    let trial = |(name, test): (&'static str, fn())| {
        Trial::test(name, move || {
            test();
            Ok::<_, Failed>(())
        })
    };
    let mut tests = [packets::TESTS, nat::TESTS, endings::TESTS].concat();
    match scenarios::lacking() {
        Some(lacking) => println!("SKIPPED: scenarios played ({lacking})"),
        None => tests.extend([scenarios::TESTS, bench::TESTS].concat()),
    }
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code()
}

/// A test and its name.
type Test = (&'static str, fn());
