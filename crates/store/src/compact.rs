//! Gives the space of a store's file that is not in use back to the system.
//!
//! A copy without that space is made in a folder within the store's and then takes the file's place in one step. So whoever is killed
//! at any point leaves the old file or the new one, either of them whole and in step with the log of changes, which stays as it is; and
//! perhaps the folder, which the next compaction removes.

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

/// The file on which the engine has all who open a store hold a lock, and the byte of it that whoever is alone holds.
const LOCK_FILE: &str = "store.mdbx-lck";
const ALONE: u64 = 0;
/// How long others may still have the store open: a thread that ends its last work, a child process that is yet to begin its program.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// Where the work is done, within the store's folder.
const WORKSHOP: &str = "compact.tmp";

/// What a compaction has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Size of the file before, in bytes.
    pub before_bytes: u64,
    /// Its size now: the same when there was nothing to gain.
    pub after_bytes: u64,
}

/// Makes the file of the store in a folder as small as it can be, and tells a few times a second how far that is. Needs as much room on the
/// disk as the new file. Nobody may have the store open, not this process either: that is [`StoreError::InUse`]. Who opens it meanwhile
/// waits. It can be cut short at any point, also by a power cut.
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
    // What has failed is told rather than what it left.
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
    // The store is opened under a second name. So the lock file beside its first name stays ours alone: whoever opens the store
    // meanwhile waits there, and then finds that the file it has opened is no longer the store's.
    folders::make(workshop).map_err(StoreError::file("make", workshop))?;
    let again = workshop.join(FILE);
    fs::hard_link(file, &again).map_err(StoreError::file("link", &again))?;
    if folder.join(changes::FOLDER).exists() {
        // Who opens a store after a power cut does again what its log holds beyond the tree, and has to find it.
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
    // Before the old file is replaced: whoever has opened it knows by the names it has left whether it is still the store's.
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

/// Holds the lock file of a store that nobody has open.
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

/// The other processes that have a file open, as far as this user may know.
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
