//! One daemon of a kind on a node: a gateway takes the lease of an earlier process on its node at once, which must have
//! ended by then (ARCHITECTURE.md).

use crate::errors::Error;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use tombolo_core::base::ClusterId;

/// Held for as long as the process lives; the kernel lets go of it however that ends.
#[derive(Debug)]
pub struct Lock {
    _held: Flock<File>,
}

impl Lock {
    /// Takes it.
    ///
    /// # Errors
    /// If another process has it, or the directory cannot be used.
    pub fn take(directory: &Path, daemon: &'static str, cluster: &ClusterId) -> Result<Self, Error> {
        let failed = |source| Error::File { path: directory.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let path = directory.join(format!("{daemon}.lock"));
        let mut options = OpenOptions::new();
        let opened = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(|source| Error::File { path: path.clone(), source })?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(held) => Ok(Self { _held: held }),
            Err((_, Errno::EWOULDBLOCK)) => Err(Error::RunsAlready { daemon, cluster: cluster.to_string(), path }),
            Err((_, errno)) => Err(Error::File { path, source: errno.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn one_has_it_at_a_time() {
        let directory = std::env::temp_dir().join(format!("tombolo-lock-{}", std::process::id()));
        let cluster = ClusterId::new("west").unwrap();
        let take = || Lock::take(&directory, "gateway", &cluster);
        let first = take().unwrap();
        let second = take().unwrap_err().to_string();
        assert!(second.starts_with("another gateway of cluster west runs on this node already ("), "{second}");
        drop(first);
        assert!(take().is_ok());
        std::fs::remove_dir_all(directory).unwrap();
    }
}
