//! Writes the log: a transaction collects its operations and writes them when it commits.

use std::{
    fs::{self, File, OpenOptions},
    io::ErrorKind,
    os::unix::fs::{FileExt, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use crate::{clock, error::StoreError, folder, key::Key, sys::Environment};

use super::read::whole_bytes;
use super::{End, FOLDER, HEAD_BYTES, Kind, MAGIC, SEGMENT_BYTES, file_error, segment_path, segments};

/// Follows the last record, so that remains of an earlier, longer record are not read as the next one.
const TERMINATOR: &[u8] = &[0; HEAD_BYTES];
/// Bytes of a record before its operations: the head, the sequence number and the time.
const BEFORE_OPERATIONS: usize = HEAD_BYTES + 16;
/// Zeros written after a record that ends at the end of the file: preallocates the file.
const AHEAD_BYTES: usize = 64 << 10;
/// Most that one transaction may write, in bytes of paths and values. All of it stays in memory until the commit,
/// except merged copies.
const TRANSACTION_BYTES_MAX: usize = 1 << 30;

/// The log's files, as one process has them open.
#[derive(Debug)]
pub(crate) struct Log {
    store: PathBuf,
    /// Size limit of the earlier segments, where this process drops old ones.
    bytes_max: u64,
    drops: bool,
    /// The segment used last. Shared by committing and flushing threads.
    current: Mutex<Option<Segment>>,
    /// First sequence number of the last segment at the time old segments were last dropped.
    dropped_before: AtomicU64,
}

/// An open segment file of the log.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// Sequence number of the first commit in it.
    first: u64,
    path: PathBuf,
    file: Arc<File>,
}

/// The end of the log, ready for the next record.
#[derive(Debug)]
pub(crate) struct Tail<'l> {
    segment: MappedMutexGuard<'l, Segment>,
    end: End,
    /// Length of the segment's file.
    bytes: u64,
}

/// The operations of a transaction so far, encoded as the body of a record.
#[derive(Debug)]
pub(crate) struct Journal {
    record: Vec<u8>,
    /// Bytes of paths and values that were written but are not in the record.
    copied: usize,
}

/// A position in a journal to roll back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalMark {
    record: usize,
    copied: usize,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self {
            record: Vec::new(),
            copied: 0,
        }
    }

    /// Bytes of paths and values written so far.
    pub(crate) fn bytes(&self) -> usize {
        self.record.len().saturating_add(self.copied)
    }

    /// Whether the transaction has reached the limit of what it may write.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes() > TRANSACTION_BYTES_MAX
    }

    /// Bytes of paths and values the transaction may still write.
    pub(crate) fn room(&self) -> usize {
        TRANSACTION_BYTES_MAX.saturating_sub(self.bytes())
    }

    /// Counts bytes that an operation has written but that its record does not contain.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.copied = self.copied.saturating_add(bytes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.record.is_empty()
    }

    /// The current position.
    pub(crate) fn mark(&self) -> JournalMark {
        JournalMark {
            record: self.record.len(),
            copied: self.copied,
        }
    }

    /// Discards everything added after a mark.
    pub(crate) fn go_back(&mut self, mark: JournalMark) {
        self.record.truncate(mark.record);
        self.copied = mark.copied;
    }

    pub(crate) fn add(&mut self, kind: Kind, key: &Key, content: &[u8]) {
        if self.record.is_empty() {
            self.record.resize(BEFORE_OPERATIONS, 0);
        }
        let path = key.as_bytes();
        self.record.push(kind as u8);
        let length = u16::try_from(path.len()).expect("paths are short");
        self.record.extend_from_slice(&length.to_le_bytes());
        self.record.extend_from_slice(path);
        let length = u32::try_from(content.len()).expect("values are checked against their limit");
        self.record.extend_from_slice(&length.to_le_bytes());
        self.record.extend_from_slice(content);
    }

    /// The complete record of the commit with that sequence number.
    pub(crate) fn record(&mut self, sequence: u64) -> &[u8] {
        self.seal(sequence, &[])
    }

    /// Completes the record of the commit with that sequence number and returns its bytes.
    fn seal(&mut self, sequence: u64, terminator: &[u8]) -> &[u8] {
        let (head, body) = self.record.split_at_mut(HEAD_BYTES);
        body[..8].copy_from_slice(&sequence.to_le_bytes());
        body[8..16].copy_from_slice(&clock::now_ms().to_le_bytes());
        let length = u32::try_from(body.len()).expect("a transaction that is full takes no more");
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[4..].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
        self.record.extend_from_slice(terminator);
        &self.record
    }
}

impl Segment {
    fn new(first: u64, path: PathBuf, file: File) -> Self {
        Self {
            first,
            path,
            file: Arc::new(file),
        }
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        let found = self.file.metadata();
        found
            .map(|found| found.len())
            .map_err(|source| file_error("look at", &self.path, source))
    }

    /// Writes a record into a file that is `bytes` long. When the file ends there, zeros follow: flushing a file that
    /// does not grow is cheaper.
    fn write(&self, offset: u64, record: &[u8], bytes: u64) -> Result<(), StoreError> {
        let failed = |source| file_error("write", &self.path, source);
        let end = offset + record.len() as u64;
        if end > bytes {
            self.preallocate(end)?;
        }
        self.file.write_all_at(record, offset).map_err(failed)
    }

    /// Writes zeros for the next records.
    fn preallocate(&self, offset: u64) -> Result<(), StoreError> {
        const ZEROS: &[u8; AHEAD_BYTES] = &[0; AHEAD_BYTES];
        self.file
            .write_all_at(ZEROS, offset)
            .map_err(|source| file_error("write", &self.path, source))
    }

    /// Whether there is anything but zeros where a record would begin.
    fn has_record(&self, offset: u64) -> Result<bool, StoreError> {
        let mut head = [0; HEAD_BYTES];
        match self.file.read_exact_at(&mut head, offset) {
            Ok(()) => Ok(head != *TERMINATOR),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(source) => Err(file_error("read", &self.path, source)),
        }
    }

    /// Flushes the segment to the disk.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.file
            .sync_data()
            .map_err(|source| file_error("flush", &self.path, source))
    }
}

impl Tail<'_> {
    /// Writes the record of a commit and returns the new end. If it fails, any part of the record may be in the log.
    pub(crate) fn append(self, journal: &mut Journal) -> Result<End, StoreError> {
        let sequence = self.end.sequence + 1;
        let record = journal.seal(sequence, TERMINATOR);
        self.segment.write(self.end.offset, record, self.bytes)?;
        Ok(End {
            sequence,
            segment: self.end.segment,
            offset: self.end.offset + (record.len() - TERMINATOR.len()) as u64,
        })
    }
}

impl Log {
    pub(crate) fn new(store: &Path, bytes_max: u64, drops: bool) -> Self {
        Self {
            store: store.into(),
            bytes_max,
            drops,
            current: Mutex::new(None),
            dropped_before: AtomicU64::new(0),
        }
    }

    /// Opens the end of the log, starting a new segment if necessary. Only the holder of the write lock may call it.
    pub(crate) fn tail(&self, mut end: End, environment: &Environment) -> Result<Tail<'_>, StoreError> {
        let mut current = self.current.lock();
        if current
            .as_ref()
            .is_none_or(|segment| segment.first != end.segment)
        {
            // No other process commits now, so later segments belong to no tree.
            self.drop_beyond(end)?;
            *current = self.open(end)?;
        }
        if let Some(segment) = &*current
            && end.offset > SEGMENT_BYTES
        {
            // The next flush goes to another file, so this one is flushed first.
            environment.flushing(|| segment.flush())?;
            *current = None;
        }
        let mut bytes = current.as_ref().map_or(Ok(0), Segment::bytes)?;
        if bytes < end.offset || current.is_none() {
            self.drop_beyond(end)?;
            end.segment = end.sequence + 1;
            *current = Some(self.begin(end.segment)?);
            bytes = MAGIC.len() as u64;
            end.offset = bytes;
        }
        Ok(Tail {
            segment: MutexGuard::map(current, |current| {
                current.as_mut().expect("a segment has just been opened")
            }),
            end,
            bytes,
        })
    }

    fn begin(&self, sequence: u64) -> Result<Segment, StoreError> {
        let folder = self.store.join(FOLDER);
        folder::make(&folder).map_err(|source| file_error("make", &folder, source))?;
        let path = segment_path(&self.store, sequence);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(folder::FILE_MODE)
            .open(&path);
        let file = file.map_err(|source| file_error("make", &path, source))?;
        file.write_all_at(MAGIC, 0)
            .map_err(|source| file_error("write", &path, source))?;
        // The file's name must be on the disk before its contents count.
        folder::flush(&folder).map_err(|source| file_error("flush", &folder, source))?;
        Ok(Segment::new(sequence, path, file))
    }

    /// Removes segments of a history that the tree does not have: started before a power cut, or left over from another
    /// tree.
    fn drop_beyond(&self, end: End) -> Result<(), StoreError> {
        let mut beyond = segments(&self.store)?;
        beyond.retain(|first| *first > end.segment);
        if beyond.is_empty() {
            return Ok(());
        }
        for first in beyond {
            remove(&segment_path(&self.store, first))?;
        }
        // Otherwise they could come back after a power cut, when a record beyond the end counts.
        let folder = self.store.join(FOLDER);
        folder::flush(&folder).map_err(|source| file_error("flush", &folder, source))
    }

    /// Fails if the log has no room for another record. Invalidates everything beyond the end.
    pub(crate) fn check_room(&self, end: End) -> Result<(), StoreError> {
        self.segment(end)?
            .map_or(Ok(()), |segment| segment.preallocate(end.offset))
    }

    /// Closes the segment used last. After a failed commit another process may recreate it.
    pub(crate) fn let_go(&self) {
        *self.current.lock() = None;
    }

    /// Whether anything beyond the end would be taken for a record after a power cut.
    pub(crate) fn has_beyond(&self, end: End) -> Result<bool, StoreError> {
        if segments(&self.store)?
            .last()
            .is_some_and(|last| *last > end.segment)
        {
            return Ok(true);
        }
        match self.segment(end)? {
            Some(segment) => segment.has_record(end.offset),
            None => Ok(false),
        }
    }

    /// Invalidates everything beyond the end. The caller must flush the returned segment.
    pub(crate) fn forget_beyond(&self, end: End) -> Result<Option<Segment>, StoreError> {
        self.drop_beyond(end)?;
        let Some(segment) = self.segment(end)? else {
            return Ok(None);
        };
        let written = segment.file.write_all_at(TERMINATOR, end.offset);
        // Overwriting takes space where the file system copies, or part of the record was not allocated; cutting does
        // not.
        written
            .or_else(|_| segment.file.set_len(end.offset))
            .map_err(|source| file_error("cut", &segment.path, source))?;
        Ok(Some(segment))
    }

    /// Removes everything beyond the end, so that no record of a lost history can ever follow a future one. If the last
    /// segment is damaged before its end, it is truncated there: commits then continue in a new segment, and readers of
    /// the missing changes get an error. The caller must flush the returned segment.
    pub(crate) fn cut(&self, end: End) -> Result<Option<Segment>, StoreError> {
        self.drop_beyond(end)?;
        let Some(segment) = self.segment(end)? else {
            return Ok(None);
        };
        let kept = whole_bytes(&segment.path, end)?;
        if kept == segment.bytes()? {
            return Ok(None);
        }
        let cut = segment.file.set_len(kept);
        cut.map_err(|source| file_error("cut", &segment.path, source))?;
        Ok(Some(segment))
    }

    /// Removes the oldest segments that exceed the size limit. Segments from `end` on are kept: they are needed after a
    /// power cut, when the tree on the disk is as of that point.
    pub(crate) fn drop_oldest(&self, end: End) -> Result<(), StoreError> {
        if !self.drops || self.dropped_before.swap(end.segment, Relaxed) == end.segment {
            return Ok(());
        }
        let mut segments = segments(&self.store)?;
        segments.retain(|first| *first < end.segment);
        let mut kept = 0;
        for segment in segments.into_iter().rev() {
            let path = segment_path(&self.store, segment);
            kept += fs::metadata(&path).map_or(0, |found| found.len());
            if kept > self.bytes_max {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// The segment at the end of the log; `None` if it was dropped already or never existed, as in a store restored
    /// from a backup.
    pub(crate) fn segment(&self, end: End) -> Result<Option<Segment>, StoreError> {
        if let Some(segment) = &*self.current.lock()
            && segment.first == end.segment
        {
            return Ok(Some(segment.clone()));
        }
        self.open(end)
    }

    fn open(&self, end: End) -> Result<Option<Segment>, StoreError> {
        if end.segment == 0 {
            return Ok(None);
        }
        let path = segment_path(&self.store, end.segment);
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => Ok(Some(Segment::new(end.segment, path, file))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(file_error("open", &path, source)),
        }
    }
}

/// Removes a file; not an error if it does not exist.
fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(file_error("remove", path, source)),
        _ => Ok(()),
    }
}
