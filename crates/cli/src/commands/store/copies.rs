//! Copies of a whole store: `backup`, `restore`, `compact`.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use rustix::{
    fs::{FlockOperation, fcntl_lock},
    io::Errno,
};

use forebay_store::{Store, StoreError, changes::Change};

use crate::output;

use super::{
    StoreFailure,
    data::Data,
    moment,
    progress::{Bar, megabytes},
};

/// The tree's file in a store's folder, and the file beside it on which its openers hold a lock.
const FILE: &str = "store.mdbx";
const LOCK_FILE: &str = "store.mdbx-lck";
/// How often the file that is being written is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What `stat` counts in (POSIX leaves it open; Linux has it so).
const BLOCK_BYTES: u64 = 512;
/// Where `compact` works, within the store's folder.
const WORKSHOP: &str = "compact.tmp";

/// Copy the store as of now into a new folder, while others read and write
#[derive(Debug, clap::Args)]
pub(super) struct Backup {
    /// The folder, new or empty. Example: forebay store backup /backup/monday
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// Leave out the space that is not in use. Example: forebay store backup /backup/monday --compact
    #[arg(long)]
    compact: bool,
    #[command(flatten)]
    data: Data,
}

/// Make a store from a backup, in a folder that is new or empty
#[derive(Debug, clap::Args)]
pub(super) struct Restore {
    /// The backup's folder. Example: forebay store restore /backup/monday --data data
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// Do again what the log of changes in this store's folder holds beyond the backup. Example: forebay store restore /backup/monday --changes data --data new
    #[arg(long, value_name = "DIR")]
    changes: Option<PathBuf>,
    /// Only changes up to this moment, or with this number or a lower one. Example: forebay store restore /backup/monday --changes data --until 2026-11-22T08:30:00Z --data new
    #[arg(long, value_name = "WHEN", requires = "changes", value_parser = Until::read)]
    until: Option<Until>,
    #[command(flatten)]
    data: Data,
}

/// The last change that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    Number(u64),
    /// Milliseconds since 1970 UTC.
    Moment(u64),
}

impl Until {
    fn read(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().map(Self::Number);
        number
            .or_else(|| moment::milliseconds(text).map(Self::Moment))
            .ok_or_else(|| {
                "expected a moment such as \"2026-11-22T08:30:00Z\", or the number of a change".into()
            })
    }

    fn admits(self, change: &Change) -> bool {
        match self {
            Self::Number(last) => change.sequence <= last,
            Self::Moment(last) => change.time_ms <= last,
        }
    }
}

/// Give the space that is not in use back to the system; nobody else may have the store open
#[derive(Debug, clap::Args)]
pub(super) struct Compact {
    #[command(flatten)]
    data: Data,
}

pub(super) fn backup(arguments: &Backup) -> anyhow::Result<()> {
    must_be_empty(&arguments.to)?;
    let store = arguments.data.read()?;
    copy("backup", &store, &arguments.to, arguments.compact)?;
    settle(&arguments.to)?;
    let bytes = size(&arguments.to.join(FILE))?;
    output::complaint(&format!("{}: {}", arguments.to.display(), megabytes(bytes)));
    Ok(())
}

pub(super) fn restore(arguments: &Restore) -> anyhow::Result<()> {
    let folder = &arguments.data.folder;
    must_be_empty(folder)?;
    let backup = Data {
        folder: arguments.from.clone(),
    };
    copy("restore", &backup.read()?, folder, false)?;
    settle(folder)?;
    if let Some(log) = &arguments.changes {
        replay(&arguments.data, log, arguments.until)?;
    }
    let last = arguments.data.read()?.snapshot()?.sequence()?;
    output::complaint(&format!("{}: as of change {last}", folder.display()));
    Ok(())
}

/// Copies a store's file, and shows how far it is. The engine does the copying and says nothing meanwhile, so what there is of
/// the new file is looked at.
fn copy(what: &'static str, store: &Store, to: &Path, compact: bool) -> Result<(), StoreError> {
    let mut bar = Bar::of_bytes(what, store.stats()?.file_bytes);
    let (ended, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let copying = scope.spawn(move || {
            // Whoever waits for the end sees that this side is gone.
            let _ended = ended;
            store.backup(to, compact)
        });
        let file = to.join(FILE);
        while end.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            // What the system has not allocated yet is not written.
            let written = fs::metadata(&file).map_or(0, |about| about.blocks() * BLOCK_BYTES);
            bar.at(0, written);
        }
        copying.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Does again what a store's log holds beyond the restored state.
fn replay(restored: &Data, log: &Path, until: Option<Until>) -> anyhow::Result<()> {
    let original = Data {
        folder: log.to_owned(),
    };
    // What stands in the log beyond this has never been committed. A store that cannot be opened any more has lost that knowledge.
    let last = original
        .read()
        .and_then(|store| store.snapshot()?.sequence())
        .unwrap_or(u64::MAX);
    let store = restored.write()?;
    let since = store.snapshot()?.sequence()?;
    let end = match until {
        Some(Until::Number(number)) => Some(number.min(last)),
        Some(Until::Moment(_)) => None,
        None => Some(last),
    };
    let total = end
        .filter(|end| *end < u64::MAX)
        .map(|end| end.saturating_sub(since));
    let mut bar = Bar::of_count("restore", "changes", total);
    let count = store.replay(log, |change| {
        bar.at(change.sequence.saturating_sub(since), 0);
        change.sequence <= last && until.is_none_or(|until| until.admits(change))
    })?;
    drop(bar);
    output::complaint(&format!(
        "{}: {count} changes done again",
        restored.folder.display()
    ));
    Ok(())
}

pub(super) fn compact(arguments: &Compact) -> anyhow::Result<()> {
    let absent = || StoreError::Absent {
        path: arguments.data.folder.clone(),
    };
    let folder = arguments.data.folder.canonicalize().map_err(|_| absent())?;
    let file = folder.join(FILE);
    if !file.is_file() {
        return Err(absent().into());
    }
    let before = size(&file)?;
    let _alone = lock(&folder)?;
    // The store is opened under a second name. So the lock file beside its first name stays ours alone: whoever opens the store
    // meanwhile waits there, and then finds that the file it has opened is no longer the store's.
    let workshop = folder.join(WORKSHOP);
    clear(&workshop)?;
    let made = workshop.join("made");
    fs::create_dir(&workshop).map_err(failed("make", &workshop))?;
    let again = workshop.join(FILE);
    fs::hard_link(&file, &again).map_err(failed("link", &again))?;
    let copied = Data {
        folder: workshop.clone(),
    }
    .read()
    .and_then(|store| copy("compact", &store, &made, true));
    if let Err(error) = copied {
        clear(&workshop)?;
        return Err(error.into());
    }
    let compacted = made.join(FILE);
    let after = size(&compacted)?;
    // Before the old file is replaced: whoever has opened it knows by the names it has left whether it is still the store's.
    fs::remove_file(&again).map_err(failed("remove", &again))?;
    if after < before {
        settle(&made)?;
        fs::rename(&compacted, &file).map_err(failed("replace", &file))?;
        settle(&folder)?;
    }
    clear(&workshop)?;
    output::complaint(&if after < before {
        format!("{} -> {}", megabytes(before), megabytes(after))
    } else {
        format!("{} as before: there is nothing to gain", megabytes(before))
    });
    Ok(())
}

/// Holds the lock file of a store that nobody has open.
fn lock(folder: &Path) -> Result<File, StoreFailure> {
    let path = folder.join(LOCK_FILE);
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(failed("open", &path))?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::AGAIN | Errno::ACCESS) => Err(StoreFailure::InUse {
            holders: holders(&path),
            folder: folder.to_owned(),
        }),
        Err(error) => Err(failed("lock", &path)(error.into())),
    }
}

/// The processes that have a file open, as far as this user may know.
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

fn must_be_empty(folder: &Path) -> Result<(), StoreFailure> {
    match fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(StoreFailure::NotEmpty {
                folder: folder.to_owned(),
            }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("look into", folder)(error)),
    }
}

fn clear(folder: &Path) -> Result<(), StoreFailure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", folder)(error)),
        _ => Ok(()),
    }
}

/// Leaves the file to its owner alone, as the store does, and makes the names in its folder last over a power cut.
fn settle(folder: &Path) -> Result<(), StoreFailure> {
    let file = folder.join(FILE);
    fs::set_permissions(&file, Permissions::from_mode(0o600)).map_err(failed("keep to its owner", &file))?;
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(failed("flush", folder))
}

fn size(file: &Path) -> Result<u64, StoreFailure> {
    fs::metadata(file)
        .map(|about| about.len())
        .map_err(failed("find", file))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreFailure {
    let path = path.to_owned();
    move |source| StoreFailure::File { what, path, source }
}
