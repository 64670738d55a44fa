//! `tombolo-lab`: see `--help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tombolo_lab::cli::main()
}
