//! The command line: what was asked, carried out, and told to a person or a program.

mod args;
mod bench;
mod corpus;
mod doublecheck;
mod fuzz;
mod list;
mod output;
mod run;

use args::{Args, Command};
use clap::Parser as _;
use std::process::ExitCode;

/// How a command ended. The numbers are documented in `--help`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Ending {
    /// Everything held.
    Held,
    /// Something did not hold, or two runs of one seed differed.
    Failed,
    /// Nothing was found out: a scenario cannot be read or simulated.
    Unusable,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(match ending {
            Ending::Held => 0,
            Ending::Failed => 1,
            Ending::Unusable => 2,
        })
    }
}

/// Reads the command line and obeys.
pub fn main() -> ExitCode {
    match Args::try_parse().map_or_else(|told| tell(&told), obey) {
        Ok(ending) => ending.into(),
        Err(error) => {
            output::complain(&format!("{error:#}"));
            Ending::Unusable.into()
        }
    }
}

fn obey(args: Args) -> anyhow::Result<Ending> {
    match args.command {
        Command::Run(asked) => run::run(&asked),
        Command::List { directory } => list::list(&directory),
        Command::Doublecheck(asked) => doublecheck::doublecheck(&asked),
        Command::Fuzz(asked) => fuzz::fuzz(&asked),
        Command::Schema => {
            output::say(tombolo_scenarios::format::schema().trim_end())?;
            Ok(Ending::Held)
        }
        Command::Bench { seconds, seed } => bench::bench(seconds, seed),
    }
}

/// The help, the version, or what is wrong with the command line.
fn tell(told: &clap::Error) -> anyhow::Result<Ending> {
    output::written(told.print())?;
    Ok(if told.use_stderr() { Ending::Unusable } else { Ending::Held })
}
