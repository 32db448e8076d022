//! Ensures that only one server leads a store, by locking a file in the store's folder. The lock is released when the process ends, however
//! it ends.

use std::{
    fs::{DirBuilder, File},
    io::{self, Read, Seek, Write},
    os::fd::{AsFd as _, BorrowedFd},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use rustix::fs::{FlockOperation, flock};

use super::StoreOpenError;

const FILE: &str = "server.lock";
/// Longest content that is read as a process id.
const PID_BYTES_MAX: u64 = 16;

/// The held lock. Its file contains our process id, for the error message of another server.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// A lock shared with the predecessor, whose id the file still has.
    pub(super) const fn shared(file: File) -> Self {
        Self { file }
    }

    /// The open file; duplicates of it hold the lock as well.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Writes our process id.
    pub(super) fn sign(&self) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()))
    }

    pub(super) fn take(folder: &Path) -> Result<Self, StoreOpenError> {
        let path = folder.join(FILE);
        let failed = |source| StoreOpenError::Lock {
            path: path.clone(),
            source,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                // A server that has just taken the lock may not have written its process id yet.
                let read = file.take(PID_BYTES_MAX).read_to_string(&mut text);
                return Err(StoreOpenError::Led {
                    path: folder.into(),
                    pid: read.ok().and_then(|_| text.trim().parse().ok()),
                });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let lock = Self { file };
        lock.sign().map_err(failed)?;
        Ok(lock)
    }
}
