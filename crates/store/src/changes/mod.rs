//! The change log: the operations of every commit, in files next to the tree.
//!
//! It is what makes a commit durable ([`crate::durability`]), feeds followers of the store ([`crate::Store::changes`])
//! and rolls a backup forward to a point in time ([`crate::Store::replay`]).
//!
//! ```text
//! changes/SEQUENCE.log   a segment, named by the first commit in it, 20 digits
//! segment = "FBCHG001", then records
//! record  = length of the body 4 | CRC-32C of the body 4 | body
//! body    = sequence number 8 | milliseconds since 1970 8 | operations
//! operation = kind 1 | length of the path 2 | path | length of the content 4 | content     (all numbers little-endian)
//! ```
//!
//! **How log and tree stay consistent.** A record is written before its commit, at the end of the log that the tree
//! itself records; the commit moves that end. Complete records after the end are replayed when the store is opened
//! ([`crate::recovery`]), because a power cut sets the tree back. A checkpoint flushes the log before the tree. If a
//! power cut still leaves the log shorter than the tree says, the log starts again in a new segment, and readers of the
//! missing changes get an error.

mod read;
mod summary;
mod write;

use std::path::{Path, PathBuf};

pub use read::{Change, ChangeWalk, Operation, Step};
pub(crate) use read::{ChangeRecord, FileWalk};
pub use summary::Summary;
pub(crate) use write::{Journal, JournalMark, Log, Segment};

use crate::{engine, error::StoreError, sys};

pub(crate) const FOLDER: &str = "changes";
const MAGIC: &[u8; 8] = b"FBCHG001";
/// A new segment is started once the current one is longer than this.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Length and checksum that precede each body.
const HEAD_BYTES: usize = 8;

/// End of the log, as recorded in the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// Sequence number of the last commit in the log.
    pub(crate) sequence: u64,
    /// First sequence number of the segment being written, which names it.
    pub(crate) segment: u64,
    /// Length of that segment, in bytes.
    pub(crate) offset: u64,
}

impl From<[u64; 3]> for End {
    fn from([sequence, segment, offset]: [u64; 3]) -> Self {
        Self {
            sequence,
            segment,
            offset,
        }
    }
}

impl End {
    /// The end of the log recorded in one state of the tree.
    pub(crate) fn of(state: &sys::Transaction) -> Result<Self, StoreError> {
        state.marks().map(Self::from)
    }

    /// The same, for a state in whatever engine. In a database only the sequence number counts.
    pub(crate) fn of_any(state: &engine::Transaction) -> Result<Self, StoreError> {
        state.marks().map(Self::from)
    }

    /// Records this end in the state that the transaction commits.
    pub(crate) fn put(self, work: &mut sys::Transaction) -> Result<(), StoreError> {
        work.set_marks([self.sequence, self.segment, self.offset])
    }
}

/// Kind of an operation, as encoded in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Set = 1,
    Put = 2,
    LayOver = 3,
    Kill = 4,
    Merge = 5,
    Expire = 6,
    Define = 7,
    DropIndex = 8,
}

fn segment_path(store: &Path, first: u64) -> PathBuf {
    store.join(FOLDER).join(format!("{first:020}.log"))
}

/// First sequence numbers of all segments, ascending.
fn segments(store: &Path) -> Result<Vec<u64>, StoreError> {
    let folder = store.join(FOLDER);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(file_error("list", &folder, source)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry
            .map_err(|source| file_error("list", &folder, source))?
            .file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_suffix(".log")?.parse::<u64>().ok());
        found.extend(number);
    }
    found.sort_unstable();
    Ok(found)
}

/// Sequence numbers of the first and last complete change of a log; `None` if there is no log. The tree need not exist.
pub(crate) fn extent(store: &Path) -> Result<Option<(u64, u64)>, StoreError> {
    let segments = segments(store)?;
    for segment in segments.iter().rev() {
        let mut walk = FileWalk::new(store, None, segment.saturating_sub(1))?;
        while walk.step(0, &|_| false)?.is_some() {}
        if walk.since() >= *segment {
            return Ok(Some((segments[0], walk.since())));
        }
    }
    Ok(None)
}

fn file_error(what: &'static str, path: &Path, source: std::io::Error) -> StoreError {
    if matches!(
        source.kind(),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
    ) {
        return StoreError::Full {
            reason: "no space is left on the disk for the log of changes",
        };
    }
    StoreError::File {
        what,
        path: path.into(),
        source,
    }
}
