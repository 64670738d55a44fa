//! `tombolo`: the daemons as processes.
//!
//! ```text
//!   flags, environment, file ──> settings ──> Blueprint ──> machine ─┐
//!   kubeconfig, service account ──> clients ──> kube hand ───────────┤
//!   kernel, hellos, probes, DNS sockets ──────> other hands ─────────┼─> the shell's loop ──> Vitals ──> /metrics
//!   SIGTERM ──> Input::Stop;  --leave ──> Input::Leave ──────────────┘                   └──> --record FILE
//! ```
//! A process is thin: what is decided is core's, what is done are the hands'. Here they are put together, and taken apart
//! again so that the data path stays: a daemon that ends, however it does, takes nothing out of the kernel.

#![allow(clippy::disallowed_types, reason = "it stands on the clock of the machine, outside of any simulation")]

mod apis;
mod daemon;
mod datagrams;
mod errors;
mod file;
mod hands;
mod hellos;
mod lock;
mod machines;
mod notes;
mod probing;
mod public;
mod records;
mod settings;
mod status;
mod vitals;

use clap::Parser;
use settings::{Cli, Command, Common, LogFormat};
use std::process::ExitCode;
use tokio::task::LocalSet;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let line = match file::with_file(std::env::args_os().collect(), |name| std::env::var_os(name)) {
        Ok(line) => line,
        Err(error) => return failed(&error),
    };
    let command = Cli::parse_from(line).command;
    if let Command::Replay(settings) = &command {
        return match records::live_again(settings) {
            Ok(said) => {
                say(&said);
                ExitCode::SUCCESS
            }
            Err(error) => failed(&error),
        };
    }
    if let Command::Cable(arguments) = &command {
        return match tombolo_cables::command::carry_out(arguments, &["cable"]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(error.as_ref()),
        };
    }
    if let Some(Err(error)) = command.common().map(log) {
        return failed(&error);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    match LocalSet::new().block_on(&runtime, daemon::live(command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn log(common: &Common) -> Result<(), errors::Error> {
    let wrong = |error: tracing_subscriber::filter::ParseError| errors::Error::Setting {
        flag: "log",
        because: format!("{:?}: {error}: as in info, or tombolo=debug,kube=warn", common.log),
    };
    let filter = EnvFilter::try_new(&common.log).map_err(wrong)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match common.log_format {
        LogFormat::Text => lines.with_target(false).init(),
        LogFormat::Json => lines.json().init(),
    }
    Ok(())
}

#[allow(clippy::print_stderr, reason = "a program says why it ends")]
fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

#[allow(clippy::print_stdout, reason = "a program says what came of it")]
fn say(text: &str) {
    println!("{text}");
}
