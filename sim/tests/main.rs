//! The corpus, each scenario as its own test by name and speed, a hunt by chance, and the command line as a user meets it.
//!
//! `cargo test -p tombolo-sim gateway` plays what has "gateway" in its name.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap in a test is a failed test")]

mod command_line;
mod corpus;
mod fuzz;

use libtest_mimic::Arguments;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = command_line::trials();
    trials.extend(corpus::trials());
    trials.extend(fuzz::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}
