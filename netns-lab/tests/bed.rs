//! A machine to have labs on: a namespace with a few things of others, which no lab may touch.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tombolo_linux::Place;

/// The program.
pub const LAB: &str = env!("CARGO_BIN_EXE_tombolo-lab");

/// Two clusters that hold the three kinds of things there are.
pub const TWO: &str = "\
scenario: two clusters
about: For tests.
clusters:
  west: { pods: 10.1.0.0/16, services: 10.101.0.0/16, nodes: [gw-a*, worker] }
  east: { pods: 10.2.0.0/16, services: 10.102.0.0/16, nodes: [gw-a*, worker] }
broker: east
cable: wireguard
links: { default: { latency: 5ms } }
workloads:
  - { service: web, namespace: shop, cluster: east, pods: 2, ports: [80/tcp, 53/udp], exported: true }
expect:
  - { by: 60s, settled: true }
";

/// The machine. Its labs end with it.
pub struct Machine {
    place: Place,
    folder: PathBuf,
}

impl Machine {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tombolo-lab-test-{}-{number}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let machine = Self { place: Place::new().unwrap(), folder };
        machine.sh("ip link add br0 type bridge; ip link set br0 addrgenmode none; ip link set br0 up; ip address add 172.16.1.1/24 dev br0
             ip rule add from 10.1.0.0/16 table 77; ip route add 10.2.0.0/16 dev br0 table 77
             nft add table ip lab-services; nft add chain ip lab-services mine");
        machine
    }

    /// Runs commands there; they must succeed.
    pub fn sh(&self, script: &str) -> String {
        let output = self.output("sh", &["-ec", script]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn output(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(arguments);
        self.place.run(move || command.output()).unwrap().unwrap()
    }

    /// What the program says, if it succeeds; else what it complains of.
    pub fn lab(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.output(LAB, arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// How the program ends, and what it says.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.output(LAB, arguments)
    }

    /// Starts the program, and does not wait.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(LAB);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.place.run(move || command.spawn()).unwrap().unwrap()
    }

    /// A scenario as a file.
    pub fn file(&self, name: &str, scenario: &str) -> String {
        let path = self.folder.join(format!("{name}.yaml"));
        fs::write(&path, scenario).unwrap();
        path.to_string_lossy().into_owned()
    }

    /// Builds a lab of that name; gives what was said.
    pub fn up(&self, name: &str, scenario: &str) -> String {
        let file = self.file(name, scenario);
        self.lab(&["up", &file, "--detach"]).unwrap()
    }

    /// Whether somebody answers pings.
    pub fn pings(&self, from: &str, to: &str) -> bool {
        self.lab(&["shell", from, "--", "ping", "-n", "-q", "-c", "2", "-i", "0.1", "-W", "1", to]).is_ok()
    }

    /// Who answers a call.
    pub fn call(&self, from: &str, number: &str) -> Result<String, String> {
        let said = self.lab(&["call", from, number, "--timeout", "1000"])?;
        Ok(said.split(' ').next().unwrap_or_default().to_owned())
    }

    /// All that a program could see of the machine, in text.
    pub fn snapshot(&self) -> String {
        // Timers of a bridge run.
        self.sh("ip -details -oneline link | sed 's/timer *[0-9.]*//g'; ip -oneline address; ip rule; ip -6 rule; bridge fdb
            ip route show table all; ip -6 route show table all; nft list ruleset
            cat /proc/sys/net/ipv4/ip_forward; ls /run; ls /run/netns 2>/dev/null || true; cat /proc/self/mounts
            cat /proc/net/unix | grep -c tombolo-lab/ || true")
    }

    /// Waits until the machine is as it was at this snapshot.
    pub fn is_as(&self, before: &str) {
        let mut now = String::new();
        let is_so = || {
            now = self.snapshot();
            now == before
        };
        if !within_patience(is_so) {
            let only = |of: &str, in_: &str| {
                of.lines().filter(|line| !in_.lines().any(|other| other == *line)).collect::<Vec<_>>().join("\n")
            };
            panic!("gone:\n{}\nleft:\n{}", only(before, &now), only(&now, before));
        }
    }

    /// The numbers of all processes of the labs here.
    pub fn processes(&self) -> Vec<i32> {
        let mark = self.folder.to_string_lossy().into_owned();
        let numbers = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let ours = |process: &i32| {
            let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&mark)
        };
        numbers.filter(ours).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let down = self.lab(&["down", "--all"]);
        fs::remove_dir_all(&self.folder).unwrap();
        if !std::thread::panicking() {
            down.unwrap();
        }
    }
}

/// Waits until it is so.
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(within_patience(is_so), "not so after 10 s: {what}");
}

fn within_patience(mut is_so: impl FnMut() -> bool) -> bool {
    let patience = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        if Instant::now() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
