//! The keeper's own work.

use super::{Desk, Played, Reply, Stay, address};
use crate::lab::Lab;
use crate::topology::Topology;
use crate::{bench, run, scripts};
use anyhow::{Context as _, Result, anyhow, bail};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tombolo_scenarios::layout::Layout;

/// How long what has ended stays in lists of processes.
const REAP: Duration = Duration::from_millis(500);

/// Is a lab, until it has to end. `say` is given a line with how it came up; of one that plays or measures, another with
/// what came of it.
///
/// # Errors
/// Why it cannot come up.
pub fn keep(file: &Path, (name, seed): (&str, u64), stay: Stay, mut say: impl FnMut(&str) -> Result<()>) -> Result<()> {
    let began = Instant::now();
    if stay != Stay::UntilEnded {
        // Beside the pipe below, which says the same to one that listens.
        set_pdeathsig(Signal::SIGKILL)?;
    }
    if stay != Stay::WithStarter {
        nix::unistd::setsid().ok();
    }
    if std::process::id() != 1 {
        bail!("only `up` starts this");
    }
    let listener = UnixListener::bind_addr(&address(name)?)
        .map_err(|error| anyhow!("a lab '{name}' is up already: take another --name, or end it ({error})"))?;
    let scenario = read(file)?;
    let layout = Arc::new(Layout::of(&scenario)?);
    let outer = own_files()?;
    let mut topology = Topology::of(&scenario, &layout);
    if matches!(stay, Stay::Measuring(_)) {
        topology.links.iter_mut().for_each(|link| link.is_plain = true);
    }
    let lab = Lab::build(topology, seed)?;
    let (places, links) = (lab.places.len(), lab.topology.ports.len() + lab.topology.links.len());
    let desk = Arc::new(Mutex::new(Desk::of(lab, layout, outer)?));
    let own = Arc::clone(&desk);
    Builder::new().name("words".into()).spawn(move || listen(&listener, &own))?;
    let mut eager = matches!(stay, Stay::Playing(_) | Stay::Measuring(_)).then(Eager::default);
    Builder::new().name("reaper".into()).spawn(move || {
        loop {
            if let Some(eager) = &mut eager {
                eager.go_first();
            }
            std::thread::sleep(REAP);
            scripts::reap();
        }
    })?;
    say(&format!("up {places} namespaces and {links} links in {} ms", began.elapsed().as_millis()))?;
    match stay {
        Stay::WithStarter => drop(std::io::stdin().read_to_end(&mut Vec::new())),
        Stay::UntilEnded => loop {
            std::thread::park();
        },
        Stay::Playing(play) => {
            end_with_starter()?;
            let run = run::play(&scenario, &desk, &play)?;
            say(&serde_json::to_string(&Played::of(&scenario, run)?)?)?;
        }
        Stay::Measuring(asked) => {
            end_with_starter()?;
            say(&serde_json::to_string(&bench::bench(&scenario, &desk, &asked)?)?)?;
        }
    }
    Ok(())
}

/// While it works, it ends when whoever started it does.
fn end_with_starter() -> Result<()> {
    let wait = || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    };
    Ok(Builder::new().name("starter".into()).spawn(wait).map(drop)?)
}

/// Sessions of the lab that go before all others of the machine, where its kernel shares time by sessions: what is measured
/// is to be the daemons', not that of others at work.
#[derive(Default)]
struct Eager(BTreeSet<i32>);

impl Eager {
    /// Sees to new processes: each cable is a session of its own.
    fn go_first(&mut self) {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let all: BTreeSet<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        for process in all.difference(&self.0) {
            // A kernel without, and who has ended meanwhile.
            let _ = std::fs::write(format!("/proc/{process}/autogroup"), "-15");
        }
        self.0 = all;
    }
}

/// The scenario in a file.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(file: &Path) -> Result<tombolo_scenarios::Scenario> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    tombolo_scenarios::parse(&file.display().to_string(), &text).map_err(|errors| anyhow!("{errors}"))
}

/// Mounts of its own, that nobody else sees: `/proc` shows the lab's processes, and `/run` is for its files. Gives `/proc` as it was: there the lab's
/// threads have the numbers by which others find them.
fn own_files() -> Result<OwnedFd> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    let outer = File::open("/proc")?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), None::<&str>).context("/proc")?;
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), Some("mode=755")).context("/run")?;
    Ok(outer.into())
}

fn listen(listener: &UnixListener, desk: &Arc<Mutex<Desk>>) {
    for stream in listener.incoming().flatten() {
        let is_root = getsockopt(&stream, PeerCredentials).is_ok_and(|peer| peer.uid() == 0);
        if !is_root {
            continue;
        }
        let desk = desk.clone();
        let work = move || {
            // Whoever hangs up is not told anything.
            let _ = converse(&stream, &desk);
        };
        // No thread for it: it is hung up on.
        let _ = Builder::new().name("words".into()).spawn(work);
    }
}

fn converse(stream: &UnixStream, desk: &Mutex<Desk>) -> Result<()> {
    for line in BufReader::new(stream).lines() {
        let answer = |request| desk.lock().unwrap_or_else(PoisonError::into_inner).answer(request);
        let reply = serde_json::from_str(&line?).map_err(Into::into).and_then(answer);
        let reply = reply.unwrap_or_else(|error| Reply::No(format!("{error:#}")));
        let mut stream = stream;
        stream.write_all(format!("{}\n", serde_json::to_string(&reply)?).as_bytes())?;
    }
    Ok(())
}
