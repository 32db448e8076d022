//! Copies of a store's file, made while others read and write.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    panic::resume_unwind,
    path::Path,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use crate::{
    error::StoreError,
    folder::{self, FILE_MODE, FOLDER_MODE},
    opening::FILE,
    store::Store,
};

/// How often the file that is being written is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What `stat` counts in (POSIX leaves it open; Linux has it so).
const BLOCK_BYTES: u64 = 512;

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that have been written.
    pub written_bytes: u64,
    /// Most bytes that there will be: the size of what is copied.
    pub bytes_max: u64,
}

impl Store {
    /// Writes a copy of the state as of now into a folder that has no store yet, while others go on; `compact` leaves unused space
    /// out. The log of changes is not copied. Tells a few times a second how far it is, and returns when the copy is on the disk, with
    /// its size in bytes.
    pub fn backup(
        &self,
        to: &Path,
        compact: bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<u64, StoreError> {
        folder::make(to)
            // The engine lets the group read what it copies, until that is done.
            .and_then(|()| fs::set_permissions(to, Permissions::from_mode(FOLDER_MODE)))
            .map_err(StoreError::file("make the folder", to))?;
        let file = to.join(FILE);
        let bytes_max = self.stats()?.file_bytes;
        let (ended, end) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let copying = scope.spawn(|| {
                // Whoever waits for the end sees that this side is gone.
                let _ended = ended;
                self.shared.disk.environment.copy(&file, compact)
            });
            // The engine says nothing meanwhile, so what there is of the file is looked at.
            while end.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                progress(Progress {
                    // What the system has not allocated yet is not written.
                    written_bytes: fs::metadata(&file).map_or(0, |about| about.blocks() * BLOCK_BYTES),
                    bytes_max,
                });
            }
            copying.join().unwrap_or_else(|panic| resume_unwind(panic))
        })?;
        let copy = File::open(&file).map_err(StoreError::file("open", &file))?;
        copy.set_permissions(Permissions::from_mode(FILE_MODE))
            .and_then(|()| copy.sync_all())
            .map_err(StoreError::file("keep to its owner", &file))?;
        folder::flush(to).map_err(StoreError::file("flush", to))?;
        size(&file)
    }
}

/// Bytes of a file.
pub(crate) fn size(file: &Path) -> Result<u64, StoreError> {
    fs::metadata(file)
        .map(|about| about.len())
        .map_err(StoreError::file("find", file))
}
