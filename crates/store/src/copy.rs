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

/// How often the size of the file being written is polled.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Unit of `st_blocks` in `stat` (unspecified by POSIX; 512 on Linux).
const BLOCK_BYTES: u64 = 512;

/// Progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes written so far.
    pub written_bytes: u64,
    /// Upper bound of the bytes to write: the size of the source.
    pub bytes_max: u64,
}

impl Store {
    /// Writes a copy of the current state into a folder that has no store yet, while others keep working; `compact`
    /// leaves out unused space. The change log is not copied. Reports progress a few times a second. Returns the size
    /// of the copy in bytes once it is on the disk.
    pub fn backup(
        &self,
        to: &Path,
        compact: bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<u64, StoreError> {
        let disk = self
            .shared
            .disk()
            .ok_or(StoreError::InDatabase { what: "backup" })?;
        folder::make(to)
            // The engine makes the copy readable by the group, so the folder protects it until the mode is set below.
            .and_then(|()| fs::set_permissions(to, Permissions::from_mode(FOLDER_MODE)))
            .map_err(StoreError::file("make the folder", to))?;
        let file = to.join(FILE);
        let bytes_max = self.stats()?.file_bytes;
        let (ended, end) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let copying = scope.spawn(|| {
                // Dropping the sender tells the waiting side that the copy has ended.
                let _ended = ended;
                disk.environment.copy(&file, compact)
            });
            // The engine reports no progress, so the file's size is polled.
            while end.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                progress(Progress {
                    // Blocks that are not allocated have not been written yet.
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

/// Size of a file in bytes.
pub(crate) fn size(file: &Path) -> Result<u64, StoreError> {
    fs::metadata(file)
        .map(|about| about.len())
        .map_err(StoreError::file("find", file))
}
