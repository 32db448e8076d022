//! Reads the log, up to the end that a state of the tree records.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use crate::{database::DatabaseWalk, error::StoreError, index::Definition, json, key::Key};

use super::{End, HEAD_BYTES, Kind, MAGIC, Summary, file_error, segment_path, segments};

/// One commit, as the log records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Position among all commits that changed something, counted from 1 without gaps.
    pub sequence: u64,
    /// Time of the commit in milliseconds since 1970 UTC, by the clock of the committing process.
    pub time_ms: u64,
    /// In the order in which they were applied.
    pub operations: Vec<Operation>,
}

/// One operation of a commit. Values are JSON text as it was passed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// [`crate::Transaction::set`], or the result of an increment.
    Set(Key, Vec<u8>),
    /// [`crate::Transaction::put`].
    Put(Key, Vec<u8>),
    /// [`crate::Transaction::lay_over`].
    LayOver(Key, Vec<u8>),
    /// [`crate::Transaction::kill`].
    Kill(Key),
    /// [`crate::Transaction::merge`]: target, source.
    Merge(Key, Key),
    /// [`crate::Transaction::expire`].
    Expire(Key, Option<u64>),
    /// [`crate::Transaction::define_index`].
    DefineIndex(Definition),
    /// [`crate::Transaction::drop_index`]: the parent of the index's records, and its name.
    DropIndex(Key, String),
}

/// One step of a walk whose change size is bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A change, in full.
    Change(Change),
    /// A change over the size limit, summarised.
    Summary(Summary),
}

impl Step {
    /// The change of a step that was to be read in full.
    fn whole(self) -> Change {
        match self {
            Self::Change(change) => change,
            Self::Summary(_) => unreachable!("no record is as long as that"),
        }
    }

    /// As [`Change::sequence`].
    pub fn sequence(&self) -> u64 {
        match self {
            Self::Change(change) => change.sequence,
            Self::Summary(summary) => summary.sequence,
        }
    }

    /// As [`Change::time_ms`].
    pub fn time_ms(&self) -> u64 {
        match self {
            Self::Change(change) => change.time_ms,
            Self::Summary(summary) => summary.time_ms,
        }
    }
}

/// Iterates over changes, oldest first.
#[derive(Debug)]
pub struct ChangeWalk(Walk);

#[derive(Debug)]
enum Walk {
    Files(FileWalk),
    Database(DatabaseWalk),
    /// The walk has ended with an error.
    Over(u64, u64),
}

impl ChangeWalk {
    /// Changes after `since`, up to `end`.
    pub(crate) fn new(store: &Path, end: End, since: u64) -> Result<Self, StoreError> {
        FileWalk::new(store, Some(end), since).map(|walk| Self(Walk::Files(walk)))
    }

    /// Changes after `since` of a log without its tree: `store` need contain only the folder `changes`. Runs to the
    /// last complete record. `None` if there is no log.
    pub fn of_log(store: &Path, since: u64) -> Result<Option<Self>, StoreError> {
        if segments(store)?.is_empty() {
            return Ok(None);
        }
        FileWalk::new(store, None, since).map(|walk| Some(Self(Walk::Files(walk))))
    }

    /// Sequence number of the last change returned; before the first, the one the walk started after.
    pub fn since(&self) -> u64 {
        match &self.0 {
            Walk::Files(walk) => walk.since,
            Walk::Database(walk) => walk.since(),
            Walk::Over(since, _) => *since,
        }
    }

    /// Bytes of the log read so far, including skipped changes.
    pub fn bytes_read(&self) -> u64 {
        match &self.0 {
            Walk::Files(walk) => walk.bytes_read,
            Walk::Database(walk) => walk.bytes_read(),
            Walk::Over(_, bytes) => *bytes,
        }
    }

    /// Returns the next change. A change that takes more than `bytes_max` in the log is never held in memory: it is
    /// returned as a summary that lists which of the `wanted` globals it touches.
    pub fn next_within(
        &mut self,
        bytes_max: u64,
        wanted: impl Fn(&str) -> bool,
    ) -> Option<Result<Step, StoreError>> {
        let outcome = match &mut self.0 {
            Walk::Files(walk) => walk.step(bytes_max, &wanted),
            Walk::Database(walk) => walk.step(bytes_max, &wanted),
            Walk::Over(..) => return None,
        };
        if outcome.is_err() {
            self.0 = Walk::Over(self.since(), self.bytes_read());
        }
        outcome.transpose()
    }

    /// Moves the end of the walk to a later one.
    pub(crate) fn extend(&mut self, end: End) -> Result<(), StoreError> {
        match &mut self.0 {
            Walk::Files(walk) => walk.extend(end),
            Walk::Database(walk) => {
                walk.extend(end.sequence);
                Ok(())
            }
            Walk::Over(..) => Ok(()),
        }
    }
}

impl From<DatabaseWalk> for ChangeWalk {
    fn from(walk: DatabaseWalk) -> Self {
        Self(Walk::Database(walk))
    }
}

/// Iterates over the changes in the files of a log.
#[derive(Debug)]
pub(crate) struct FileWalk {
    store: PathBuf,
    /// End of the log; without it, the walk runs to the last complete record.
    end: Option<End>,
    /// Sequence number of the last change to skip, or of the last one returned.
    since: u64,
    /// Segments still to be read, the next one last.
    segments: Vec<u64>,
    current: Option<(u64, BufReader<File>, u64)>,
    bytes_read: u64,
}

impl FileWalk {
    /// Changes after `since`, up to `end`; without an end, up to the last complete record.
    pub(crate) fn new(store: &Path, end: Option<End>, since: u64) -> Result<Self, StoreError> {
        let mut segments = segments(store)?;
        let last = end.map_or(u64::MAX, |end| end.sequence);
        segments.retain(|first| *first <= last);
        if since > last {
            return Err(StoreError::ChangesGone { since, oldest: last });
        }
        let first = segments
            .iter()
            .rposition(|first| *first <= since.saturating_add(1));
        match first {
            Some(first) => drop(segments.drain(..first)),
            None if since == last || end.is_none() && segments.is_empty() => segments.clear(),
            None => {
                let oldest = segments.first().copied().unwrap_or(last.saturating_add(1));
                return Err(StoreError::ChangesGone { since, oldest });
            }
        }
        segments.reverse();
        Ok(Self {
            store: store.into(),
            end,
            since,
            segments,
            current: None,
            bytes_read: 0,
        })
    }

    /// The complete records after an end of the log.
    pub(crate) fn behind(store: &Path, end: End) -> Result<Self, StoreError> {
        let mut segments = segments(store)?;
        segments.retain(|first| *first > end.segment);
        segments.reverse();
        let path = segment_path(store, end.segment);
        let current = match File::open(&path) {
            Ok(mut file) => {
                let sought = file.seek(SeekFrom::Start(end.offset));
                sought.map_err(|source| file_error("read", &path, source))?;
                Some((end.segment, buffered(file), end.offset))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(file_error("open", &path, source)),
        };
        Ok(Self {
            store: store.into(),
            end: None,
            since: end.sequence,
            segments,
            current,
            bytes_read: 0,
        })
    }

    /// Sequence number of the last change returned; before the first, the one the walk started after.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// The end of the log right after the last change returned; `None` before the first.
    pub(crate) fn place(&self) -> Option<End> {
        let (segment, _, at) = self.current.as_ref()?;
        Some(End {
            sequence: self.since,
            segment: *segment,
            offset: *at,
        })
    }

    /// The next change, in full.
    pub(crate) fn next_change(&mut self) -> Result<Option<Change>, StoreError> {
        Ok(self.step(u64::MAX, &|_| true)?.map(Step::whole))
    }

    /// Moves the end of the walk to a later one.
    fn extend(&mut self, end: End) -> Result<(), StoreError> {
        self.end = Some(end);
        if let Some((segment, file, at)) = &mut self.current {
            // Bytes that were read ahead may have been overwritten since.
            file.seek(SeekFrom::Start(*at))
                .map_err(|source| file_error("read", &segment_path(&self.store, *segment), source))?;
        }
        Ok(())
    }

    pub(super) fn step(
        &mut self,
        bytes_max: u64,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Option<Step>, StoreError> {
        loop {
            if self.end.is_some_and(|end| self.since >= end.sequence) {
                return Ok(None);
            }
            if self.current.is_none() {
                match (self.segments.pop(), self.end) {
                    (Some(segment), end) => match (open(&self.store, segment), end) {
                        (Ok(opened), _) => self.current = Some(opened),
                        // The segment was dropped for its age after this walk started.
                        (Err(StoreError::File { source, .. }), Some(end))
                            if source.kind() == io::ErrorKind::NotFound =>
                        {
                            return Err(self.gap(end.sequence + 1));
                        }
                        (Err(error), _) => return Err(error),
                    },
                    (None, None) => return Ok(None),
                    // A segment that was started after this walk.
                    (None, Some(end)) => match open(&self.store, self.since + 1) {
                        Ok(opened) => self.current = Some(opened),
                        Err(StoreError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                            return Err(self.gap(end.sequence + 1));
                        }
                        Err(error) => return Err(error),
                    },
                }
            }
            let (segment, file, at) = self.current.as_mut().expect("a segment has just been opened");
            let ends_here = self.end.filter(|end| end.segment == *segment);
            if let Some(end) = ends_here.filter(|end| *at >= end.offset) {
                return Err(self.gap(end.sequence + 1));
            }
            let path = segment_path(&self.store, *segment);
            let failed = |source| file_error("read", &path, source);
            let Some(ChangeRecord { bytes, step }) =
                ChangeRecord::read(file, bytes_max, wanted).map_err(failed)?
            else {
                if let Some(end) = ends_here {
                    return Err(self.gap(end.sequence + 1));
                }
                // End of the segment, or a record that was written before a crash and never committed.
                self.current = None;
                continue;
            };
            *at += bytes;
            self.bytes_read += bytes;
            let step = step.ok_or_else(|| StoreError::Damaged {
                what: format!(
                    "the log of changes, {}: the record that ends at byte {at} is whole, and no change that this program knows",
                    path.display()
                ),
            })?;
            let sequence = step.sequence();
            if sequence <= self.since {
                continue;
            }
            if sequence != self.since + 1 {
                return Err(self.gap(sequence));
            }
            self.since = sequence;
            return Ok(Some(step));
        }
    }

    fn gap(&self, oldest: u64) -> StoreError {
        StoreError::ChangesGone {
            since: self.since,
            oldest,
        }
    }
}

impl Iterator for ChangeWalk {
    type Item = Result<Change, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.next_within(u64::MAX, |_| true)?;
        Some(step.map(Step::whole))
    }
}

/// A complete record of the log.
pub(crate) struct ChangeRecord {
    /// Length of the record in the log, in bytes.
    bytes: u64,
    /// Its content; `None` if this program does not understand it.
    pub(crate) step: Option<Step>,
}

impl ChangeRecord {
    /// Reads the next record; `None` if it is incomplete. One longer than `bytes_max` is summarised.
    pub(crate) fn read(
        file: &mut impl Read,
        bytes_max: u64,
        wanted: &dyn Fn(&str) -> bool,
    ) -> io::Result<Option<Self>> {
        let Some((length, sum)) = head(file)? else {
            return Ok(None);
        };
        let step = if length > bytes_max {
            Summary::read(file, length, sum, wanted)?.map(|summary| Some(Step::Summary(summary)))
        } else {
            body(file, length, sum)?.map(|body| decode(&body).map(Step::Change))
        };
        Ok(step.map(|step| Self {
            bytes: HEAD_BYTES as u64 + length,
            step,
        }))
    }
}

fn open(store: &Path, segment: u64) -> Result<(u64, BufReader<File>, u64), StoreError> {
    let path = segment_path(store, segment);
    let mut file = File::open(&path).map_err(|source| file_error("open", &path, source))?;
    let mut magic = [0; MAGIC.len()];
    let read = filled(&mut file, &mut magic).map_err(|source| file_error("read", &path, source))?;
    // A segment whose first bytes never reached the disk is empty.
    if read && magic != [0; MAGIC.len()] && magic != *MAGIC {
        return Err(StoreError::Damaged {
            what: format!("{} does not begin as a log of changes does", path.display()),
        });
    }
    let at = MAGIC.len() as u64;
    file.seek(SeekFrom::Start(at))
        .map_err(|source| file_error("read", &path, source))?;
    Ok((segment, buffered(file), at))
}

fn buffered(file: File) -> BufReader<File> {
    BufReader::with_capacity(256 << 10, file)
}

/// Number of bytes, up to the end at most, for which the last segment is intact.
pub(super) fn whole_bytes(path: &Path, end: End) -> Result<u64, StoreError> {
    let file = File::open(path).map_err(|source| file_error("open", path, source))?;
    let mut file = buffered(file);
    let failed = |source| file_error("read", path, source);
    let mut magic = [0; MAGIC.len()];
    if !filled(&mut file, &mut magic).map_err(failed)? || magic != *MAGIC {
        return Ok(0);
    }
    let mut whole = MAGIC.len() as u64;
    while whole < end.offset {
        let Some((length, sum)) = head(&mut file).map_err(failed)? else {
            break;
        };
        if body(&mut file, length, sum).map_err(failed)?.is_none() {
            break;
        }
        whole += HEAD_BYTES as u64 + length;
    }
    Ok(whole.min(end.offset))
}

/// Reads the length and checksum that precede the next record's body.
fn head(file: &mut impl Read) -> io::Result<Option<(u64, u32)>> {
    let mut head = [0; HEAD_BYTES];
    if !filled(file, &mut head)? {
        return Ok(None);
    }
    let [a, b, c, d, sum @ ..] = head;
    let length = u32::from_le_bytes([a, b, c, d]);
    Ok(Some((length.into(), u32::from_le_bytes(sum))))
}

/// Reads the body; `None` if it is incomplete or its checksum does not match.
fn body(file: &mut impl Read, length: u64, sum: u32) -> io::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    file.take(length).read_to_end(&mut body)?;
    let whole = body.len() as u64 == length && length >= 16 && crc32c::crc32c(&body) == sum;
    Ok(whole.then_some(body))
}

/// Fills `place` completely; `false` if the file ends first.
pub(super) fn filled(file: &mut impl Read, place: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(place) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn decode(body: &[u8]) -> Option<Change> {
    let (sequence, rest) = body.split_first_chunk::<8>()?;
    let (time, mut rest) = rest.split_first_chunk::<8>()?;
    let mut operations = Vec::new();
    while let Some((kind, after)) = rest.split_first() {
        let (length, after) = after.split_first_chunk::<2>()?;
        let (path, after) = after.split_at_checked(u16::from_le_bytes(*length).into())?;
        let (length, after) = after.split_first_chunk::<4>()?;
        let (content, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = after;
        let key = Key::from_stored(path)?;
        operations.push(match *kind {
            kind if kind == Kind::Set as u8 => Operation::Set(key, content.to_vec()),
            kind if kind == Kind::Put as u8 => Operation::Put(key, content.to_vec()),
            kind if kind == Kind::LayOver as u8 => Operation::LayOver(key, content.to_vec()),
            kind if kind == Kind::Kill as u8 => Operation::Kill(key),
            kind if kind == Kind::Merge as u8 => Operation::Merge(key, Key::from_stored(content)?),
            kind if kind == Kind::Expire as u8 => {
                Operation::Expire(key, content.try_into().ok().map(u64::from_le_bytes))
            }
            kind if kind == Kind::Define as u8 => {
                Operation::DefineIndex(Definition::from_json(content).ok()?)
            }
            kind if kind == Kind::DropIndex as u8 => {
                Operation::DropIndex(key, String::from_utf8(content.to_vec()).ok()?)
            }
            _ => return None,
        });
    }
    Some(Change {
        sequence: u64::from_le_bytes(*sequence),
        time_ms: u64::from_le_bytes(*time),
        operations,
    })
}

impl Change {
    /// As one JSON object on one line:
    /// `{"sequence":1,"time_ms":..,"operations":[{"op":"set","path":["G","a"],"value":1}]}`.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = format!(
            "{{\"sequence\":{},\"time_ms\":{},\"operations\":[",
            self.sequence, self.time_ms
        )
        .into_bytes();
        for (index, operation) in self.operations.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            let (name, key) = match operation {
                Operation::Set(key, _) => ("set", key),
                Operation::Put(key, _) => ("put", key),
                Operation::LayOver(key, _) => ("lay_over", key),
                Operation::Kill(key) => ("kill", key),
                Operation::Merge(key, _) => ("merge", key),
                Operation::Expire(key, _) => ("expire", key),
                Operation::DefineIndex(definition) => ("define_index", &definition.records),
                Operation::DropIndex(key, _) => ("drop_index", key),
            };
            out.extend_from_slice(format!("{{\"op\":\"{name}\",\"path\":").as_bytes());
            write_path(key, &mut out);
            match operation {
                Operation::Set(_, text) | Operation::Put(_, text) | Operation::LayOver(_, text) => {
                    out.extend_from_slice(b",\"value\":");
                    // The text was validated as JSON when it was written; the canonical form has no line breaks.
                    out.extend_from_slice(&json::canonical(text).unwrap_or_else(|_| b"null".to_vec()));
                }
                Operation::Merge(_, from) => {
                    out.extend_from_slice(b",\"from\":");
                    write_path(from, &mut out);
                }
                Operation::Expire(_, at) => {
                    let at = at.map_or("null".into(), |at| at.to_string());
                    out.extend_from_slice(format!(",\"at_ms\":{at}").as_bytes());
                }
                Operation::DefineIndex(definition) => {
                    out.extend_from_slice(b",\"index\":");
                    out.extend_from_slice(&definition.to_json());
                }
                Operation::DropIndex(_, name) => {
                    out.extend_from_slice(b",\"index\":");
                    json::write_string(name, &mut out);
                }
                Operation::Kill(_) => {}
            }
            out.push(b'}');
        }
        out.extend_from_slice(b"]}");
        out
    }
}

/// A path as a JSON array: the name of its global, then its subscripts as strings.
fn write_path(key: &Key, out: &mut Vec<u8>) {
    out.push(b'[');
    json::write_string(key.global_name(), out);
    for text in key.texts() {
        out.push(b',');
        json::write_string(&text, out);
    }
    out.push(b']');
}
