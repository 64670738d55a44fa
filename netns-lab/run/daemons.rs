//! Daemons: processes of the program `tombolo` in their nodes' places, set up as an operator would by flags and files.
//!
//! A node has a folder that it keeps without power, `/run/disk`: kubeconfigs, the clusterset's secret, keys.

use super::chronicle::Chronicle;
use super::{Due, LabStage, broken};
use crate::keeper::is_alive;
use crate::lab::{DISK, Lab, OUTSIDE};
use crate::topology::PlaceName;
use core::time::Duration;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Instant;
use tombolo_cluster::API_PORT;
use tombolo_core::base::ClusterId;
use tombolo_core::model::CableDriver;
use tombolo_core::roles::Note;
use tombolo_scenarios::layout::{HostId, Layout, NodeLayout};
use tombolo_scenarios::{ApiRef, Daemon, Host, Place, StageError, What};

/// Daemons of a fresh lab begin within this.
const START_SPREAD: Duration = Duration::from_millis(200);
/// How long a process may take to be gone after it was killed.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// What all daemons are set up with.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) program: PathBuf,
    /// For what they say and record.
    pub(super) record: Option<PathBuf>,
    pub(super) cable: CableDriver,
    /// Which API is the broker's.
    pub(super) broker: ApiRef,
}

/// Number of a daemon's place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PostId(usize);

/// A daemon's place, and the daemon while it runs.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) host: HostId,
    pub(super) daemon: Daemon,
    place: Place,
    /// How often it was started.
    boot: u64,
    running: Option<Running>,
    /// It was asked to end, and is to start again, to leave.
    starts_to_leave: bool,
}

#[derive(Debug)]
struct Running {
    process: Pid,
    /// Whoever sees first that it has ended tells so.
    runs: Arc<AtomicBool>,
}

impl Post {
    fn runs(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.runs.load(Ordering::Relaxed))
    }
}

/// A line of what a daemon notes.
#[derive(Deserialize)]
struct Noted {
    at: u64,
    note: Note,
}

impl Setup {
    /// What a node finds on its disk.
    fn furnish(&self, layout: &Layout, node: &NodeLayout) -> Result<(), StageError> {
        let disk = Lab::disk(&PlaceName::Node(node.cluster.clone(), node.name.clone()));
        let own = ApiRef::Cluster(node.cluster.clone());
        for (file, api) in [("own-api", &own), ("broker-api", &self.broker)] {
            fs::write(disk.join(file), kubeconfig(address_of(layout, api)?)).map_err(broken)?;
        }
        fs::write(disk.join("psk"), "the secret of all clusters of the lab\n").map_err(broken)
    }

    /// What starts a daemon.
    fn command(&self, layout: &Layout, host: HostId, node: &NodeLayout, daemon: Daemon) -> Command {
        let disk = |name: &str| format!("/run/{DISK}/{name}");
        let address = layout.host(host).map_or(node.bridge, |host| host.address);
        let mut command = Command::new(&self.program);
        command.arg(daemon.name()).arg("--notes").arg(format!("--cluster-id={}", node.cluster));
        command.arg(format!("--kubeconfig={}", disk("own-api")));
        let on_a_node = matches!(daemon, Daemon::Gateway | Daemon::RouteAgent);
        if let Some((pods, services)) = layout.ranges(&node.cluster).filter(|_| on_a_node) {
            command.arg(format!("--node-name={}", node.name));
            command.arg(format!("--pod-cidrs={pods}")).arg(format!("--service-cidrs={services}"));
            command.arg(format!("--cable-driver={}", self.cable)).arg(format!("--state-dir={}", disk("state")));
        }
        match daemon {
            Daemon::Gateway => {
                command.arg(format!("--broker-kubeconfig={}", disk("broker-api")));
                command.arg(format!("--private-address={address}"));
                command.arg(format!("--public-address=dns:{OUTSIDE}"));
                command.arg(format!("--psk-file={}", disk("psk"))).arg("--cable-dir=/run/cables");
            }
            Daemon::Discovery => drop(command.arg(format!("--broker-kubeconfig={}", disk("broker-api")))),
            Daemon::Dns => drop(command.arg(format!("--dns-listen={address}:53,127.0.0.1:53"))),
            Daemon::RouteAgent => {}
        }
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    /// Where a daemon's words go, and where it records its steps.
    fn papers(&self, node: &NodeLayout, daemon: Daemon, boot: u64) -> (PathBuf, Option<PathBuf>) {
        let name = format!("{}-{}-{daemon}-{boot}", node.cluster, node.name);
        match &self.record {
            Some(folder) => (folder.join(format!("{name}.log")), Some(folder.join(format!("{name}.record")))),
            None => {
                let disk = Lab::disk(&PlaceName::Node(node.cluster.clone(), node.name.clone()));
                (disk.join(format!("{daemon}.log")), None)
            }
        }
    }
}

fn address_of(layout: &Layout, api: &ApiRef) -> Result<SocketAddr, StageError> {
    let host = layout.find(&Host::Api(api.clone())).and_then(|host| layout.host(host));
    let address: IpAddr = host.ok_or_else(|| StageError::Unknown(format!("API of {api}")))?.address;
    Ok(SocketAddr::new(address, API_PORT))
}

fn kubeconfig(api: SocketAddr) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{ "name": "it", "cluster": { "server": format!("http://{api}") } }],
        "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it" } }],
        "users": [{ "name": "it", "user": {} }],
    });
    config.to_string()
}

impl LabStage {
    /// Gives each daemon its node, and starts all that are to run.
    pub(super) fn place_daemons(&mut self) -> Result<(), StageError> {
        let layout = Arc::clone(&self.layout);
        for (host, node) in layout.nodes() {
            self.setup.furnish(&layout, node)?;
            let network = if node.gateway { Daemon::Gateway } else { Daemon::RouteAgent };
            let singletons = layout.home_of_singletons(&node.cluster) == Some(host);
            let once = if singletons { [Daemon::Discovery, Daemon::Dns].as_slice() } else { &[] };
            for daemon in core::iter::once(network).chain(once.iter().copied()) {
                let place = Place::Daemon(node.cluster.clone(), node.name.clone(), daemon);
                self.posts.push(Post { host, daemon, place, boot: 0, running: None, starts_to_leave: false });
                let id = PostId(self.posts.len() - 1);
                let at = self.chance.duration(Duration::ZERO, START_SPREAD);
                self.later(at, Due::Start(id, 1));
            }
        }
        Ok(())
    }

    /// The nodes of a cluster have lost their disks.
    pub(super) fn replace_disks(&self, cluster: &ClusterId) -> Result<(), StageError> {
        for (_, node) in self.layout.nodes_of(cluster) {
            let disk = Lab::disk(&PlaceName::Node(node.cluster.clone(), node.name.clone()));
            fs::remove_dir_all(disk.join("state")).or_else(passed_if_missing).map_err(broken)?;
            self.setup.furnish(&self.layout, node)?;
        }
        Ok(())
    }

    /// A daemon's process is due to start, if nothing happened to its host meanwhile.
    pub(super) fn start_due(&mut self, id: PostId, power_up: u64) -> Result<(), StageError> {
        let Some(host) = self.posts.get(id.0).map(|post| post.host) else { return Ok(()) };
        let apart = self.outsiders.stands_apart(&self.layout, host);
        if self.power_ups.get(&host) == Some(&power_up) && self.is_up(host) && !apart {
            self.start_daemon(id)?;
        }
        Ok(())
    }

    /// Starts a daemon afresh, unless it runs.
    pub(super) fn start_daemon(&mut self, id: PostId) -> Result<(), StageError> {
        let layout = Arc::clone(&self.layout);
        let Some(post) = self.posts.get_mut(id.0).filter(|post| !post.runs()) else { return Ok(()) };
        post.boot += 1;
        post.starts_to_leave = false;
        let (host, daemon, boot, place) = (post.host, post.daemon, post.boot, post.place.clone());
        let Some(node) = layout.host(host).and_then(|host| host.node.as_ref()) else { return Ok(()) };
        let (words, record) = self.setup.papers(node, daemon, boot);
        let mut command = self.setup.command(&layout, host, node, daemon);
        command.stderr(File::create(&words).map_err(broken)?);
        if let Some(record) = record {
            command.arg(format!("--record={}", record.display()));
        }
        if self.outsiders.leaves(&node.cluster) {
            command.arg("--leave");
        }
        let name = PlaceName::Node(node.cluster.clone(), node.name.clone());
        let started = self.desk().lab().place(&name).map_err(broken)?.run(move || command.spawn()).map_err(broken)?;
        let unstarted = |error: io::Error| broken(error).to_string() + " (" + &self.setup.program.display().to_string();
        let mut child = started.map_err(|error| StageError::Broken(unstarted(error) + ")"))?;
        let process = Pid::from_raw(i32::try_from(child.id()).unwrap_or_default());
        let runs = Arc::new(AtomicBool::new(true));
        self.chronicle.tell(place.clone(), What::Process(true));
        if let Some(output) = child.stdout.take() {
            let reader = Reader { chronicle: self.chronicle.clone(), place, runs: Arc::clone(&runs), words };
            Builder::new().name("notes".into()).spawn(move || reader.read(output)).map_err(broken)?;
        }
        // Nobody waits for it: what has ended is reaped with all others.
        if let Some(post) = self.posts.get_mut(id.0) {
            post.running = Some(Running { process, runs });
        }
        Ok(())
    }

    /// Kills a daemon, and waits until it is gone. What it left in the kernel stays; true if it ran.
    pub(super) fn kill_daemon(&mut self, id: PostId) -> bool {
        self.end_daemon(id, None)
    }

    /// The same. `at` is when it ended, if not when it was gone.
    pub(super) fn end_daemon(&mut self, id: PostId, at: Option<Duration>) -> bool {
        let Some(post) = self.posts.get_mut(id.0) else { return false };
        post.starts_to_leave = false;
        let Some(running) = post.running.take() else { return false };
        if !running.runs.swap(false, Ordering::Relaxed) {
            return false;
        }
        let _ = kill(running.process, Signal::SIGKILL);
        let since = Instant::now();
        while is_alive(running.process.as_raw()) && since.elapsed() < GONE_WITHIN {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.chronicle.tell_at(at.unwrap_or_else(|| self.chronicle.now()), post.place.clone(), What::Process(false));
        true
    }

    /// Asks a daemon to end, so that it starts again with the wish to leave.
    pub(super) fn restart_to_leave(&mut self, id: PostId) {
        if let Some(post) = self.posts.get_mut(id.0).filter(|post| post.runs()) {
            post.starts_to_leave = true;
            let _ = post.running.as_ref().map(|running| kill(running.process, Signal::SIGTERM));
        }
    }

    /// Starts those that have ended for that.
    pub(super) fn start_leaving(&mut self) -> Result<(), StageError> {
        let ended = |post: &Post| post.starts_to_leave && !post.runs();
        let due: Vec<PostId> =
            self.posts.iter().enumerate().filter(|(_, post)| ended(post)).map(|(index, _)| PostId(index)).collect();
        due.into_iter().try_for_each(|id| self.start_daemon(id))
    }

    /// The daemons of a host.
    pub(super) fn posts_of(&self, host: HostId) -> Vec<PostId> {
        let all = self.posts.iter().enumerate().filter(|(_, post)| post.host == host);
        all.map(|(index, _)| PostId(index)).collect()
    }

    /// A daemon of a host.
    pub(super) fn post_of(&self, host: HostId, daemon: Daemon) -> Option<PostId> {
        self.posts.iter().position(|post| post.host == host && post.daemon == daemon).map(PostId)
    }
}

fn passed_if_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Reads what a daemon notes, until it ends.
struct Reader {
    chronicle: Chronicle,
    place: Place,
    runs: Arc<AtomicBool>,
    words: PathBuf,
}

impl Reader {
    fn read(self, output: ChildStdout) {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            match serde_json::from_str::<Noted>(&line) {
                Ok(Noted { at, note }) => self.tell(Duration::from_nanos(at), note),
                Err(error) => self.chronicle.broke(format!("{} notes what is no note: {error}: {line}", self.place)),
            }
        }
        if self.runs.swap(false, Ordering::Relaxed) {
            self.chronicle.tell(self.place.clone(), What::Process(false));
            if let Some(why) = last_error(&self.words) {
                self.chronicle.broke(format!("{} ended by itself: {why}", self.place));
            }
        }
    }

    fn tell(&self, at: Duration, note: Note) {
        let place = match (&note, &self.place) {
            (Note::Applied { .. }, Place::Daemon(cluster, node, _)) => Place::Node(cluster.clone(), node.clone()),
            (Note::Applied { .. } | Note::Told(_) | Note::Table { .. }, place) => place.clone(),
        };
        self.chronicle.tell_of(at, place, What::from(note));
    }
}

/// Why a program ended, if it says so in its last words.
fn last_error(words: &Path) -> Option<String> {
    let words = fs::read_to_string(words).ok()?;
    let last = words.lines().rfind(|line| !line.trim().is_empty())?;
    let panicked = words.lines().find(|line| line.contains(" panicked at "));
    panicked.or_else(|| last.strip_prefix("error: ")).map(ToOwned::to_owned)
}
