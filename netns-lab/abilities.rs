//! What this machine can do of what labs need.

use nix::sched::{CloneFlags, unshare};
use std::io;
use std::path::Path;
use std::process::Command;
use std::thread::Builder;
use tombolo_linux::Place;
use tun_rs::{DeviceBuilder, Layer};

/// Something that a lab, or a part of one, needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What it is.
    pub what: &'static str,
    /// What cannot be done without it.
    pub serves: &'static str,
    /// Why it is lacking, if it is.
    pub lacking: Option<String>,
    /// No lab comes up without it.
    pub needed: bool,
}

/// One thing to try, in a namespace made for it.
struct Trial {
    what: &'static str,
    serves: &'static str,
    needed: bool,
    attempt: fn() -> Result<(), String>,
}

const TRIALS: [Trial; 8] = [
    Trial { what: "root", serves: "everything", needed: true, attempt: root },
    Trial { what: "network namespaces", serves: "everything", needed: true, attempt: namespaces },
    Trial { what: "process and mount namespaces", serves: "everything", needed: true, attempt: processes },
    Trial { what: "veth and bridges", serves: "nodes and pods", needed: true, attempt: bridges },
    Trial { what: "/dev/net/tun", serves: "links between sites", needed: true, attempt: tap },
    Trial { what: "nft with address translation", serves: "services, NAT boxes", needed: true, attempt: translation },
    Trial { what: "nft at a link's own hooks", serves: "cuts between hosts", needed: true, attempt: hooks },
    Trial {
        what: "bridges that show packets to nft",
        serves: "services whose pod is the client's neighbour",
        needed: false,
        attempt: shown,
    },
];

/// Tries everything.
#[must_use]
pub fn check() -> Vec<Finding> {
    let found = |trial: &Trial| Finding {
        what: trial.what,
        serves: trial.serves,
        lacking: (trial.attempt)().err(),
        needed: trial.needed,
    };
    TRIALS.iter().map(found).collect()
}

/// Why no lab can come up here, if none can.
#[must_use]
pub fn lacking() -> Option<String> {
    let lacking =
        |finding: Finding| finding.lacking.filter(|_| finding.needed).map(|why| format!("{}: {why}", finding.what));
    check().into_iter().find_map(lacking)
}

fn root() -> Result<(), String> {
    if nix::unistd::geteuid().is_root() { Ok(()) } else { Err("not root".into()) }
}

fn namespaces() -> Result<(), String> {
    Place::new().map(drop).map_err(|error| error.to_string())
}

fn processes() -> Result<(), String> {
    // In a thread of its own, which ends.
    let work = || unshare(CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS);
    let thread = Builder::new().spawn(work).map_err(|error| error.to_string())?;
    thread.join().map_err(|_| "a thread failed".to_owned())?.map_err(|errno| errno.to_string())
}

fn bridges() -> Result<(), String> {
    // Whoever has it not has no such kind of link either.
    inside(|| crate::messages::try_out().map_err(|error| error.to_string()))
}

fn tap() -> Result<(), String> {
    if !Path::new("/dev/net/tun").exists() {
        return Err("it is not there".into());
    }
    inside(|| {
        DeviceBuilder::new().name("tap").layer(Layer::L2).build_sync().map(drop).map_err(|error| error.to_string())
    })
}

fn translation() -> Result<(), String> {
    version()?;
    inside(|| {
        script(
            "table ip t { chain c { type nat hook prerouting priority -100; ip daddr 192.0.2.1 dnat to numgen random mod 2 map { 0 : 192.0.2.2, 1 : 192.0.2.3 }; }; chain d { type nat hook postrouting priority 100; masquerade fully-random; }; }",
        )
    })
}

fn hooks() -> Result<(), String> {
    version()?;
    inside(|| {
        script(
            "table netdev t { chain c { type filter hook egress device \"lo\" priority 0; ether saddr set 02:00:00:00:00:01; }; chain d { type filter hook ingress device \"lo\" priority 0; meta mark set 1; }; }",
        )
    })
}

fn shown() -> Result<(), String> {
    inside(|| {
        let key = "/proc/sys/net/bridge/bridge-nf-call-iptables";
        if Path::new(key).exists() { Ok(()) } else { Err("no br_netfilter".into()) }
    })
}

fn version() -> Result<(), String> {
    match Command::new("nft").arg("-V").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("nft -V: {}", output.status)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err("nft is not installed".into()),
        Err(error) => Err(format!("nft: {error}")),
    }
}

fn script(text: &'static str) -> Result<(), String> {
    crate::scripts::nft(text).map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
}

fn inside(attempt: impl FnOnce() -> Result<(), String> + Send + 'static) -> Result<(), String> {
    let place = Place::new().map_err(|error| error.to_string())?;
    place.run(attempt).map_err(|error| error.to_string())?
}
