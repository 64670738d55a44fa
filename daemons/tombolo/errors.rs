//! Why a daemon cannot start, or has to end.

use std::io;
use std::path::PathBuf;

/// What went wrong, in words for whoever runs the daemon.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that it was told of, or that it keeps.
    #[error("{path}: {source}", path = .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A kubeconfig, or the service account of the pod.
    #[error("how to reach {whose} API: {because}")]
    Access {
        /// Whose.
        whose: &'static str,
        /// What is wrong.
        because: String,
    },
    /// A client.
    #[error(transparent)]
    Client(#[from] tombolo_kube::RemoteError),
    /// A socket.
    #[error("{what}: {source}")]
    Socket {
        /// Which.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// Another process is at work.
    #[error("another {daemon} of cluster {cluster} runs on this node already ({path} is locked)", path = .path.display())]
    RunsAlready {
        /// Which daemon.
        daemon: &'static str,
        /// Of which cluster.
        cluster: String,
        /// The lock.
        path: PathBuf,
    },
    /// The keys of cables.
    #[error(transparent)]
    Keys(#[from] tombolo_cables::keys::KeyError),
    /// The kernel.
    #[error("the kernel: {0}")]
    Kernel(#[from] tombolo_linux::Error),
    /// DNS.
    #[error("DNS: {0}")]
    Dns(#[from] tombolo_dns::Error),
    /// A setting.
    #[error("--{flag}: {because}")]
    Setting {
        /// Which.
        flag: &'static str,
        /// What is wrong with it, and what to do.
        because: String,
    },
    /// A record.
    #[error("{path}: {because}", path = .path.display())]
    Record {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        because: String,
    },
    /// The system gives no chance.
    #[error("no random numbers: {0}")]
    Chance(getrandom::Error),
}
