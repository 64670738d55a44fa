//! The command line: what was asked, carried out, and told.

mod args;
mod bench;
mod output;
mod run;
mod spread;

use crate::keeper::{self, Keeper, Quality, Reply, Request, Stay, Whereabouts};
use crate::run::Play;
use crate::topology::Topology;
use crate::{abilities, capture, enter, pods};
use anyhow::{Context as _, Result, anyhow, bail};
use args::{Args, Change, Command, Pair};
use clap::Parser as _;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tombolo_scenarios::layout::Layout;

/// Where scenarios are looked for by name.
const DIRECTORY: &str = "scenarios";

/// Reads the command line and obeys.
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(told) => {
            // It may be the help, which nobody need read to its end.
            let _ = told.print();
            return ExitCode::from(if told.use_stderr() { 2 } else { 0 });
        }
    };
    obey(args.command).unwrap_or_else(|error| {
        output::complain(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}

fn obey(command: Command) -> Result<ExitCode> {
    match command {
        Command::Up { file, name, seed, detach } => up(&find_file(&file)?, name, seed, detach)?,
        Command::Down { name, all } => down(name, all)?,
        Command::List => keeper::list()?.iter().try_for_each(|name| output::say(name))?,
        Command::Places { lab } => output::say(&output::places(&places(&mut find(lab.name)?)?))?,
        Command::Shell { place, lab, program } => return shell(lab.name, &place, program),
        Command::Call { place, number, lab, port, timeout } => {
            enter::enter(&whereabouts(&mut find(lab.name)?, &place)?)?;
            let answer = pods::call::call(number, Duration::from_millis(timeout), port);
            let answer = answer.with_context(|| format!("{place} calls {number}"))?;
            output::say(&format!("{} saw {}", answer.name, answer.seen))?;
        }
        Command::Capture { place, link, lab, output, seconds, frames } => {
            let file = write_to(&output)?;
            enter::enter(&whereabouts(&mut find(lab.name)?, &place)?)?;
            let count = capture::capture(&link, file, seconds.map(Duration::from_secs), frames)?;
            output::note(&format!("{count} frames"));
        }
        Command::Cut { pair } => cut(pair, true)?,
        Command::Heal { pair } => cut(pair, false)?,
        Command::Link { from, to, lab, change, one_way } => {
            let mut keeper = find(lab.name)?;
            match from.zip(to) {
                Some(ends) => change_link(&mut keeper, &ends, &change, one_way)?,
                None => output::say(&output::links(&links(&mut keeper)?))?,
            }
        }
        Command::Ready { pod, not, lab } => drop(find(lab.name)?.ask(&Request::Ready { pod, ready: !not })?),
        Command::Remap { router, lab } => drop(find(lab.name)?.ask(&Request::Remap { router })?),
        Command::Move { router, lab } => {
            if let Reply::Outside(address) = find(lab.name)?.ask(&Request::Move { router })? {
                output::say(&address.to_string())?;
            }
        }
        Command::Answer { port, name } => {
            let port = pods::answer::listen(port)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            tokio::task::LocalSet::new().block_on(&runtime, pods::answer::answer(vec![port], name));
        }
        Command::Plan { file } => {
            let scenario = keeper::read(&find_file(&file)?)?;
            output::say(&Topology::of(&scenario, &Layout::of(&scenario)?).to_string())?;
        }
        Command::Check => return check(),
        Command::Run(asked) => return run::run(&asked),
        Command::Soak(asked) => return run::soak(asked),
        Command::Bench(asked) => bench::bench(&asked)?,
        Command::Keep { file, name, seed, stay, play, record, bench } => {
            let stay = match (play, bench) {
                (_, Some(bench)) => Stay::Measuring(serde_json::from_str(&bench)?),
                (Some(program), None) => Stay::Playing(Play { seed, program, record }),
                (None, None) if stay => Stay::UntilEnded,
                (None, None) => Stay::WithStarter,
            };
            keeper::keep(&file, (&name, seed), stay, output::say)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn up(file: &Path, name: Option<String>, seed: u64, detach: bool) -> Result<()> {
    run::lab_comes_up()?;
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = name.or(stem).context("the lab needs a --name")?;
    let stay = if detach { Stay::UntilEnded } else { Stay::WithStarter };
    let keeping = keeper::start(&std::path::absolute(file)?, &name, seed, &stay)?;
    output::say(&format!("lab {name} is up: {}", keeping.said))?;
    if detach {
        return output::say(&format!(
            "tombolo-lab places --lab {name} lists its places, tombolo-lab down {name} ends it"
        ));
    }
    output::say(&output::places(&places(&mut Keeper::find(&name)?)?))?;
    output::say("Ctrl-C ends it")?;
    Ok(keeping.wait()?)
}

fn down(name: Option<String>, all: bool) -> Result<()> {
    let up = keeper::list()?;
    let names = match name {
        Some(name) => up.into_iter().filter(|other| *other == name).collect(),
        None if all || up.len() < 2 => up,
        None => bail!("{} are up: say which, or --all", up.join(", ")),
    };
    if names.is_empty() {
        return output::say("no such lab is up");
    }
    for name in names {
        match Keeper::find(&name).and_then(Keeper::end) {
            // It ended meanwhile.
            Ok(()) | Err(keeper::Error::NotUp(_)) => output::say(&format!("lab {name} is down"))?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn find(name: Option<String>) -> Result<Keeper> {
    let name = match name {
        Some(name) => name,
        None => match keeper::list()?.as_slice() {
            [] => bail!("no lab is up"),
            [name] => name.clone(),
            names => bail!("{} are up: say which, with --lab", names.join(", ")),
        },
    };
    Ok(Keeper::find(&name)?)
}

fn places(keeper: &mut Keeper) -> Result<Vec<Whereabouts>> {
    let Reply::Places(places) = keeper.ask(&Request::Places)? else { bail!("asked for places, told otherwise") };
    Ok(places)
}

fn whereabouts(keeper: &mut Keeper, place: &str) -> Result<Whereabouts> {
    let found = places(keeper)?.into_iter().find(|whereabouts| whereabouts.name == place);
    found.ok_or_else(|| anyhow!("there is no place {place}: tombolo-lab places lists them"))
}

fn shell(lab: Option<String>, place: &str, program: Vec<String>) -> Result<ExitCode> {
    let mut keeper = find(lab)?;
    let whereabouts = whereabouts(&mut keeper, place)?;
    let shell = || vec![std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into())];
    let program = if program.is_empty() { shell() } else { program };
    let (program, arguments) = program.split_first().context("no program")?;
    let status = enter::run(&whereabouts, keeper.process(), program, arguments)?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

fn cut(pair: Pair, closed: bool) -> Result<()> {
    let mut keeper = find(pair.lab.name)?;
    let (from, to) = (pair.from, pair.to);
    keeper.ask(&Request::Cut { from: from.clone(), to: to.clone(), closed })?;
    if !pair.one_way {
        keeper.ask(&Request::Cut { from: to, to: from, closed })?;
    }
    Ok(())
}

fn links(keeper: &mut Keeper) -> Result<Vec<keeper::Site>> {
    let Reply::Links(links) = keeper.ask(&Request::Links)? else { bail!("asked for links, told otherwise") };
    Ok(links)
}

fn change_link(keeper: &mut Keeper, (from, to): &(String, String), change: &Change, one_way: bool) -> Result<()> {
    let known = links(keeper)?;
    let ways = [(from, to), (to, from)];
    for (from, to) in ways.into_iter().take(if one_way { 1 } else { 2 }) {
        let way = known.iter().find(|way| way.from == *from && way.to == *to);
        let before = way.ok_or_else(|| anyhow!("there is no link from {from} to {to}"))?.quality;
        let quality = Quality {
            latency: change.latency.unwrap_or(before.latency),
            jitter: change.jitter.unwrap_or(before.jitter),
            loss_millionths: change.loss.unwrap_or(before.loss_millionths),
            reorder_millionths: change.reorder.unwrap_or(before.reorder_millionths),
            mtu: change.mtu.unwrap_or(before.mtu),
            cut: (before.cut || change.cut) && !change.heal,
        };
        keeper.ask(&Request::SetLink { from: from.clone(), to: to.clone(), quality })?;
    }
    Ok(())
}

fn check() -> Result<ExitCode> {
    let findings = abilities::check();
    output::say(&output::findings(&findings))?;
    let lacks = findings.iter().any(|finding| finding.needed && finding.lacking.is_some());
    Ok(if lacks { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A file as it was named, or a scenario by its name.
fn find_file(named: &Path) -> Result<PathBuf> {
    let with_end = PathBuf::from(format!("{}.yaml", named.display()));
    let candidates = [named.to_owned(), with_end.clone(), Path::new(DIRECTORY).join(with_end)];
    let found = candidates.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| anyhow!("there is no scenario {}, here or in {DIRECTORY}/", named.display()))
}

fn write_to(path: &Path) -> Result<Box<dyn io::Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    Ok(Box::new(File::create(path).with_context(|| path.display().to_string())?))
}
