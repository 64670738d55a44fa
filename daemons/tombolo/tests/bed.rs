//! API servers on ports of their own, daemons as processes on them, and what can be seen of both.

use crate::place::Place;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tombolo_apiserver::{ApiServer, Registry};
use tombolo_core::base::{ClusterId, Wall};
use tombolo_core::model::{Api, Object};
use tombolo_kube::Places;
use tombolo_kube::convert::{self, Writer};

pub const OWN: &str = "submariner-operator";
pub const BROKER: &str = "submariner-k8s-broker";

pub fn cluster(id: &str) -> ClusterId {
    ClusterId::new(id).unwrap()
}

/// The API server of a cluster, while the test runs.
pub struct Member {
    pub server: ApiServer,
}

/// A directory of the test's own.
pub struct Bed {
    directory: PathBuf,
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Bed {
    pub fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("tombolo-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Self { directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// An API server, and a kubeconfig that leads to it, by its name.
    pub fn api(&self, name: &str) -> Member {
        self.api_at(name, SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    pub fn api_at(&self, name: &str, at: SocketAddr) -> Member {
        let listener = TcpListener::bind(at).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let seed = name.bytes().map(u64::from).sum();
        let since = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let server = ApiServer::new(Registry::clusterset(), seed, move || Wall::default() + since());
        for namespace in [OWN, BROKER, "shop", "kube-system"] {
            server.create_namespace(namespace).unwrap();
        }
        let serving = server.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serving.clone().serve_connection(stream));
                }
            });
        });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{ "name": "it", "cluster": { "server": format!("http://{address}") } }],
            "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it" } }],
            "users": [{ "name": "it", "user": { "token": "open sesame" } }],
        });
        fs::write(self.path(name), config.to_string()).unwrap();
        Member { server }
    }

    /// Starts a daemon of `cluster`, with these flags besides.
    pub fn start(&self, daemon: &str, of: &str, flags: &[&str]) -> Daemon {
        let status = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let log = self.path(&format!("{daemon}-{of}-{}.log", status.port()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
        command.args([daemon, "--cluster-id", of, "--status-address", &status.to_string()]);
        command.arg("--kubeconfig").arg(self.path(of)).args(flags).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let written = fs::File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(written);
        Daemon { child: command.spawn().unwrap(), status, log, place: None }
    }
}

impl Member {
    /// Puts one of our objects there, as if somebody else wrote it.
    pub fn put(&self, api: Api, object: &Object) {
        let writer = Writer { cluster: cluster("them"), places: Places::default() };
        let mut value = convert::write(object, api, &writer).unwrap();
        let namespace = if api == Api::Local { OWN } else { BROKER };
        value["metadata"]["namespace"] = json!(namespace);
        // As a patch it would take labels away.
        if let Some(labels) = value["metadata"]["labels"].as_object_mut() {
            labels.retain(|_, label| !label.is_null());
        }
        self.server.put("them", value).unwrap();
    }

    pub fn put_json(&self, value: Value) {
        self.server.put("them", value).unwrap();
    }
}

/// A daemon's process; it ends with the test.
pub struct Daemon {
    child: Child,
    status: SocketAddr,
    log: PathBuf,
    /// Where it lives, if not here.
    pub place: Option<Place>,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            println!("{}:\n{}", self.log.display(), self.log());
        }
    }
}

impl Daemon {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// What it answers at a path of its status port: code and text.
    pub fn get(&self, path: &str) -> Option<(u16, String)> {
        let (status, path) = (self.status, path.to_owned());
        match &self.place {
            Some(place) => place.run(move || get(status, &path)),
            None => get(status, &path),
        }
    }

    pub fn is_ready(&self) -> bool {
        self.get("/readyz").is_some_and(|(code, _)| code == 200)
    }

    /// Asks it to end, as Kubernetes does.
    pub fn terminate(mut self) -> ExitStatus {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.pid()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        self.wait()
    }

    pub fn wait(&mut self) -> ExitStatus {
        let child = &mut self.child;
        until("the process ends", || child.try_wait().unwrap())
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// What is answered at a path of a status port: code and text.
pub fn get(status: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(status).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: it\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let code = answer.split(' ').nth(1)?.parse().ok()?;
    Some((code, answer.split_once("\r\n\r\n")?.1.to_owned()))
}

/// Waits for something, for a while.
pub fn until<T>(what: &str, mut it: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = it() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within 20 s");
        thread::sleep(Duration::from_millis(20));
    }
}
