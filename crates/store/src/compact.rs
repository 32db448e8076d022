//! Returns unused space of a store's file to the file system.
//!
//! A copy without that space is made in a folder inside the store's, and then replaces the file in one step. A process
//! killed at any point leaves either the old file or the new one, complete and consistent with the change log, which is
//! not touched. It may also leave the folder, which the next compaction removes.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::symlink,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::{
    changes,
    copy::{Progress, size},
    error::StoreError,
    folder as folders,
    locks::{Hold, open_file, try_hold},
    opening::{FILE, Options},
    store::Store,
};

/// The engine's lock file, locked by every process that opens a store, and the byte of it that marks exclusive use.
const LOCK_FILE: &str = "store.mdbx-lck";
const ALONE: u64 = 0;
/// How long to wait for others to close the store: a thread finishing its last work, or a forked child process that has
/// not yet executed its program.
const PATIENCE: Duration = Duration::from_millis(500);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(5);
/// Temporary folder for the copy, inside the store's folder.
const WORKSHOP: &str = "compact.tmp";

/// Result of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Size of the file before, in bytes.
    pub before_bytes: u64,
    /// Size of the file after, in bytes: the same when there was nothing to gain.
    pub after_bytes: u64,
}

/// Makes the file of a store as small as possible. Reports progress a few times a second, and needs free disk space for
/// the new file. Processes that open the store meanwhile wait. It may be interrupted at any point, even by a power cut.
///
/// # Errors
///
/// [`StoreError::InUse`] when any process has the store open, this one included.
pub fn compact(path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Compacted, StoreError> {
    let absent = || StoreError::Absent { path: path.into() };
    let folder = path.canonicalize().map_err(|_| absent())?;
    let file = folder.join(FILE);
    if !file.is_file() {
        return Err(absent());
    }
    let _alone = hold_alone(&folder)?;
    let workshop = folder.join(WORKSHOP);
    clear(&workshop)?;
    let outcome = replace(&folder, &file, &workshop, progress);
    // The original failure takes precedence over a failure to clean up.
    let cleared = clear(&workshop);
    let compacted = outcome?;
    cleared?;
    Ok(compacted)
}

fn replace(
    folder: &Path,
    file: &Path,
    workshop: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Compacted, StoreError> {
    // The store is opened under a second name, so the lock file next to the first one stays exclusively ours. Processes
    // that open the store meanwhile wait on it, and then find that the file they opened has been replaced.
    folders::make(workshop).map_err(StoreError::file("make", workshop))?;
    let again = workshop.join(FILE);
    fs::hard_link(file, &again).map_err(StoreError::file("link", &again))?;
    if folder.join(changes::FOLDER).exists() {
        // Opening a store after a power cut replays the log beyond the tree, so the log must be reachable from here.
        let log = workshop.join(changes::FOLDER);
        symlink(Path::new("..").join(changes::FOLDER), &log).map_err(StoreError::file("link", &log))?;
    }
    let follower = Options {
        create: false,
        lead: false,
        ..Options::default()
    };
    let store = Store::open(workshop, &follower)?;
    let before_bytes = size(file)?;
    let made = workshop.join("made");
    let after_bytes = store.backup(&made, true, progress)?;
    drop(store);
    // Removed before the old file is replaced: an opener tells from the number of links whether its file is still the
    // store's.
    fs::remove_file(&again).map_err(StoreError::file("remove", &again))?;
    if after_bytes >= before_bytes {
        return Ok(Compacted {
            before_bytes,
            after_bytes: before_bytes,
        });
    }
    fs::rename(made.join(FILE), file).map_err(StoreError::file("replace", file))?;
    folders::flush(folder).map_err(StoreError::file("flush", folder))?;
    Ok(Compacted {
        before_bytes,
        after_bytes,
    })
}

/// Locks the lock file of a store that no process has open.
fn hold_alone(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join(LOCK_FILE);
    let file = open_file(&path)?;
    let end = Instant::now() + PATIENCE;
    while !try_hold(&file, ALONE, Some(Hold::Exclusive)).map_err(StoreError::file("lock", &path))? {
        if Instant::now() >= end {
            return Err(StoreError::InUse {
                path: folder.into(),
                holders: holders(&path),
            });
        }
        thread::sleep(PAUSE);
    }
    Ok(file)
}

/// The other processes that have a file open, as far as this user may see them.
fn holders(file: &Path) -> Vec<u32> {
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = process.file_name().to_string_lossy().parse::<u32>();
        let Ok(pid) = pid else { continue };
        let open = fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        let holds = open
            .filter_map(|open| fs::read_link(open.path()).ok())
            .any(|open| open == file);
        if holds && pid != std::process::id() {
            found.push(pid);
        }
    }
    found.sort_unstable();
    found
}

fn clear(folder: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::file("remove", folder)(error))
        }
        _ => Ok(()),
    }
}
