//! `tombolo-sim`: plays scenarios in the simulated world. See `--help`.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
