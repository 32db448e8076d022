//! Copies of a whole store: `backup`, `restore`, `compact`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use forebay_store::{
    Compacted, Copied, Progress, StoreError,
    changes::{Change, ChangeWalk},
};

use crate::output;

use super::{
    StoreFailure,
    data::Data,
    progress::{Bar, megabytes},
    timestamp,
};

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

/// Make a store from a backup, from a log of changes, or from both, in a folder that is new or empty
#[derive(Debug, clap::Args)]
pub(super) struct Restore {
    /// The backup's folder. Example: forebay store restore /backup/monday --data data
    #[arg(value_name = "DIR", required_unless_present = "changes")]
    from: Option<PathBuf>,
    /// Apply what the log of changes in this store's folder holds beyond the backup; all of it where no backup is given. Example: forebay store restore /backup/monday --changes data --data new
    #[arg(long, value_name = "DIR")]
    changes: Option<PathBuf>,
    /// Only changes up to this moment, or with this number or a lower one. Example: forebay store restore /backup/monday --changes data --until 2026-11-22T08:30:00Z --data new
    #[arg(long, value_name = "WHEN", requires = "changes", value_parser = Until::read)]
    until: Option<Until>,
    #[command(flatten)]
    data: Data,
}

/// The last change to restore.
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
            .or_else(|| timestamp::milliseconds(text).map(Self::Moment))
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

/// Return unused space to the file system; no other process may have the store open
#[derive(Debug, clap::Args)]
pub(super) struct Compact {
    #[command(flatten)]
    data: Data,
}

/// Copy a store between a folder and a database, either way, while others read and write it
#[derive(Debug, clap::Args)]
#[allow(clippy::doc_markdown, reason = "the URLs are in the text of --help")]
pub(super) struct Copy {
    /// The store: its folder, or the URL of its database. Example: forebay store copy data postgres://app@db.example/app
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// A place without a store, or with an earlier copy of the same one, which is brought up to date. Example: forebay store copy postgres://app@db.example/app data
    #[arg(value_name = "TO")]
    to: PathBuf,
}

pub(super) fn copy(arguments: &Copy) -> anyhow::Result<()> {
    let [from, to] = [&arguments.from, &arguments.to].map(|place| Data::of(place.clone()));
    let (from, to) = (from.read()?, to.write_or_make_following()?);
    let mut bar = Bar::new("copy", "records", None);
    let copied = forebay_store::copy_store(&from, &to, &mut |copied| bar.at(copied.records, copied.bytes))?;
    let Copied {
        records,
        bytes,
        changes,
        sequence,
    } = copied;
    bar.end(records, bytes);
    output::complaint(&format!(
        "{}: {records} records ({}) and {changes} changes copied; it equals the original as of change {sequence}",
        to.path().display(),
        megabytes(bytes)
    ));
    Ok(())
}

pub(super) fn backup(arguments: &Backup) -> anyhow::Result<()> {
    must_be_empty(&arguments.to)?;
    let store = arguments.data.read()?;
    let bytes = shown("backup", |progress| {
        store.backup(&arguments.to, arguments.compact, progress)
    })?;
    output::complaint(&format!("{}: {}", arguments.to.display(), megabytes(bytes)));
    Ok(())
}

pub(super) fn restore(arguments: &Restore) -> anyhow::Result<()> {
    let folder = arguments.data.folder("backup to restore")?;
    must_be_empty(folder)?;
    let backup = match &arguments.from {
        Some(from) => {
            let backup = Data { folder: from.clone() };
            Some(backup.read()?)
        }
        None => None,
    };
    let since = match &backup {
        Some(backup) => backup.snapshot()?.sequence()?,
        None => 0,
    };
    let last = match &arguments.changes {
        Some(log) => must_reach(log, since, arguments.until)?,
        None => 0,
    };
    match &backup {
        Some(backup) => {
            shown("restore", |progress| backup.backup(folder, false, progress))?;
        }
        None => drop(arguments.data.write_or_make()?),
    }
    if let Some(log) = &arguments.changes {
        replay(&arguments.data, log, arguments.until, last)?;
    }
    let last = arguments.data.read()?.snapshot()?.sequence()?;
    output::complaint(&format!("{}: as of change {last}", folder.display()));
    Ok(())
}

pub(super) fn compact(arguments: &Compact) -> anyhow::Result<()> {
    let folder = arguments.data.folder("file to compact")?;
    let Compacted {
        before_bytes,
        after_bytes,
    } = shown("compact", |progress| forebay_store::compact(folder, progress))?;
    output::complaint(&if after_bytes < before_bytes {
        format!("{} -> {}", megabytes(before_bytes), megabytes(after_bytes))
    } else {
        format!("{} as before: there is nothing to gain", megabytes(before_bytes))
    });
    Ok(())
}

/// Copies while showing the progress.
fn shown<T>(
    what: &'static str,
    copying: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut bar = Bar::of_bytes(what);
    copying(&mut |progress| {
        bar.has_total(progress.bytes_max);
        bar.at(0, progress.written_bytes);
    })
}

/// Checks a log before anything is copied: it must exist, continue after the backup's last change, and reach `until`. Returns the last
/// committed change in it.
fn must_reach(log: &Path, backup: u64, until: Option<Until>) -> anyhow::Result<u64> {
    let no_log = || StoreFailure::NoLog {
        folder: log.to_owned(),
    };
    let original = Data {
        folder: log.to_owned(),
    };
    // Later entries of the log were never committed. A store that cannot be opened has lost this number.
    let committed = original
        .read()
        .and_then(|store| store.snapshot()?.sequence())
        .unwrap_or(u64::MAX);
    let mut walk = ChangeWalk::of_log(log, backup)?.ok_or_else(no_log)?;
    match until {
        Some(Until::Number(until)) => {
            if until < backup {
                return Err(StoreFailure::BeforeBackup { backup, until }.into());
            }
            // Summaries suffice: only the extent of the log matters.
            while walk.since() < until.min(committed) {
                if walk.next_within(0, |_| false).transpose()?.is_none() {
                    break;
                }
            }
            let last = walk.since().min(committed);
            if last < until {
                return Err(StoreFailure::LogEnds { last, until }.into());
            }
        }
        // The moment of the backup is that of its last change, which the log may have dropped since.
        Some(Until::Moment(until)) => {
            let before = backup.checked_sub(1).map(|since| ChangeWalk::of_log(log, since));
            if let Some(Ok(Some(mut walk))) = before
                && let Some(step) = walk.next_within(0, |_| false).transpose()?
                && step.sequence() == backup
                && step.time_ms() > until
            {
                return Err(StoreFailure::LaterBackup { backup }.into());
            }
        }
        None => {}
    }
    Ok(committed)
}

/// Applies the changes of a store's log beyond the restored state, up to the committed change `last`.
fn replay(restored: &Data, log: &Path, until: Option<Until>, last: u64) -> anyhow::Result<()> {
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

fn must_be_empty(folder: &Path) -> Result<(), StoreFailure> {
    match fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(StoreFailure::NotEmpty {
                folder: folder.to_owned(),
            }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(StoreFailure::File {
            what: "look into",
            path: folder.to_owned(),
            source,
        }),
    }
}
