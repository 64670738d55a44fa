//! The node's private keys: one for each remote rank, in files that only root may read, as `wg genkey` writes them. They
//! stay when the node restarts, so that a cable comes up without asking anybody.

use crate::wireguard::{KEY, Secret};
use data_encoding::BASE64;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tombolo_core::base::Slot;
use tombolo_core::model::CableKey;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file, or its directory, cannot be used.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others than root can read it: it may be known.
    #[error("{path} can be read by others (mode {mode:o}): remove it, and a new key is made", path = .path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It holds no key.
    #[error("{path} holds no key", path = .path.display())]
    Garbage {
        /// Which.
        path: PathBuf,
    },
}

/// Where the keys are.
#[derive(Clone, Debug)]
pub struct Keys {
    directory: PathBuf,
}

impl Keys {
    /// In this directory.
    #[must_use]
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// The public keys of all ranks, in order. Those that are not there are made.
    ///
    /// # Errors
    /// The first that cannot be had.
    pub fn public(&self) -> Result<Vec<CableKey>, KeyError> {
        let key = |rank| self.read(rank)?.map_or_else(|| self.make(rank), Ok).map(|secret| secret.public());
        Slot::all().into_iter().map(key).collect()
    }

    /// The private key that belongs to a public one, if it is here.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn secret(&self, public: &CableKey) -> Result<Option<Secret>, KeyError> {
        for rank in Slot::all() {
            let secret = self.read(rank)?;
            if let Some(secret) = secret.filter(|secret| secret.public() == *public) {
                return Ok(Some(secret));
            }
        }
        Ok(None)
    }

    fn path(&self, rank: Slot) -> PathBuf {
        self.directory.join(format!("cable-{rank}.key"))
    }

    fn read(&self, rank: Slot) -> Result<Option<Secret>, KeyError> {
        let path = self.path(rank);
        let (text, mode) = match fs::read_to_string(&path).and_then(|text| Ok((text, fs::metadata(&path)?.mode()))) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(KeyError::Io { path, source }),
        };
        if mode & 0o077 != 0 {
            return Err(KeyError::Open { path, mode: mode & 0o777 });
        }
        let bytes = BASE64.decode(text.trim().as_bytes()).ok().and_then(|bytes| <[u8; KEY]>::try_from(bytes).ok());
        bytes.map(|bytes| Some(Secret::new(bytes))).ok_or(KeyError::Garbage { path })
    }

    /// Makes one. It is whole on the disk before it has its name.
    fn make(&self, rank: Slot) -> Result<Secret, KeyError> {
        let path = self.path(rank);
        self.write(&path).map_err(|source| KeyError::Io { path, source })
    }

    fn write(&self, path: &Path) -> io::Result<Secret> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let mut bytes = [0; KEY];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        // As Curve25519 uses it, and `wg` shows it.
        let [first, .., last] = &mut bytes;
        *first &= 248;
        *last = (*last & 127) | 64;
        let fresh = path.with_extension("new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(format!("{}\n", BASE64.encode(&bytes)).as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        File::open(&self.directory)?.sync_all()?;
        Ok(Secret::new(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A directory that is gone with this.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tombolo-keys-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn keys_are_made_once_and_for_root_alone() {
        let scratch = Scratch::new("once");
        let keys = Keys::at(&scratch.0);
        let public = keys.public().unwrap();
        assert_eq!(public.len(), Slot::all().len());
        assert_eq!(keys.public().unwrap(), public);
        for (rank, key) in Slot::all().into_iter().zip(&public) {
            assert_eq!(keys.secret(key).unwrap().unwrap().public(), *key);
            assert_eq!(fs::metadata(keys.path(rank)).unwrap().mode() & 0o777, 0o600);
        }
        assert_eq!(keys.secret(&CableKey([1; 32])).unwrap(), None);
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), public.len());
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let scratch = Scratch::new("open");
        let keys = Keys::at(&scratch.0);
        keys.public().unwrap();
        let path = keys.path(Slot::all()[0]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(keys.public(), Err(KeyError::Open { mode: 0o640, .. })));
    }

    #[test]
    fn a_file_without_a_key_is_named() {
        let scratch = Scratch::new("garbage");
        let keys = Keys::at(&scratch.0);
        keys.public().unwrap();
        let path = keys.path(Slot::all()[0]);
        fs::write(&path, "no key\n").unwrap();
        let said = keys.public().unwrap_err().to_string();
        assert_eq!(said, format!("{} holds no key", path.display()));
    }
}
