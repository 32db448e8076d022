//! The log of changes in the database: the records of the embedded store's log, in rows.

use std::{
    collections::VecDeque,
    io::{self, Read},
    sync::Arc,
};

use super::{
    Database,
    sql::{bigint, number},
};
use crate::{
    changes::{ChangeRecord, Step},
    error::StoreError,
};

/// Records read with one statement, of those that are short.
const ROWS: u64 = 256;

/// Reads the log, oldest change first.
#[derive(Debug)]
pub(crate) struct DatabaseWalk {
    database: Arc<Database>,
    /// Last change to return.
    end: u64,
    /// The last change returned, or the one to start after.
    since: u64,
    /// Changes that follow: number, length, and the record if it is short.
    waiting: VecDeque<(u64, u64, Option<Vec<u8>>)>,
    bytes_read: u64,
}

impl DatabaseWalk {
    /// Changes after `since`, up to `end`.
    pub(crate) fn new(database: &Arc<Database>, end: u64, since: u64) -> Result<Self, StoreError> {
        let mut walk = Self {
            database: Arc::clone(database),
            end,
            since,
            waiting: VecDeque::new(),
            bytes_read: 0,
        };
        if since > end {
            return Err(walk.gone(end));
        }
        if since < end {
            walk.read_on()?;
        }
        Ok(walk)
    }

    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Moves the end to a later change.
    pub(crate) fn extend(&mut self, end: u64) {
        self.end = end;
    }

    fn gone(&self, oldest: u64) -> StoreError {
        StoreError::ChangesGone {
            since: self.since,
            oldest,
        }
    }

    fn read_on(&mut self) -> Result<(), StoreError> {
        let (since, end, limit) = (bigint(self.since), bigint(self.end), bigint(ROWS));
        let parameters: &[Option<&[u8]>] = &[Some(&since), Some(&end), Some(&limit)];
        let rows = self
            .database
            .run(&[(&self.database.statements.changes, parameters)])?;
        for row in rows.iter().flat_map(|rows| &rows.rows) {
            let record = row.text(2).map(<[u8]>::to_vec);
            self.waiting
                .push_back((number(row.text(0)), number(row.text(1)), record));
        }
        let first = self
            .waiting
            .front()
            .map_or(self.end + 1, |(sequence, ..)| *sequence);
        if first == self.since + 1 {
            return Ok(());
        }
        Err(self.gone(first))
    }

    pub(crate) fn step(
        &mut self,
        bytes_max: u64,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Option<Step>, StoreError> {
        if self.since >= self.end {
            return Ok(None);
        }
        if self.waiting.is_empty() {
            self.read_on()?;
        }
        let (sequence, bytes, record) = self
            .waiting
            .pop_front()
            .expect("reading on leaves some, or fails");
        if sequence != self.since + 1 {
            return Err(self.gone(sequence));
        }
        let mut reader: Box<dyn Read> = match record {
            Some(record) if record.len() as u64 == bytes => Box::new(io::Cursor::new(record)),
            _ => Box::new(Pieces {
                database: &self.database,
                sequence,
                part: 0,
                piece: io::Cursor::default(),
            }),
        };
        let read = ChangeRecord::read(&mut reader, bytes_max, wanted);
        drop(reader);
        let failure = match read {
            Ok(Some(ChangeRecord { step: Some(step), .. })) => {
                self.bytes_read += bytes;
                self.since = sequence;
                return Ok(Some(step));
            }
            Ok(_) => "is not what was written".to_owned(),
            // The reader of the pieces has wrapped the store's own error.
            Err(error) => match error.downcast::<StoreError>() {
                Ok(error) => return Err(error),
                Err(error) => format!("cannot be read: {error}"),
            },
        };
        // It may have been removed from the log since it was listed.
        self.waiting.clear();
        self.read_on()?;
        Err(StoreError::Damaged {
            what: format!("change {sequence} in the log {failure}"),
        })
    }
}

/// A record that takes several rows, or a long one.
struct Pieces<'d> {
    database: &'d Arc<Database>,
    sequence: u64,
    part: u32,
    piece: io::Cursor<Vec<u8>>,
}

impl Read for Pieces<'_> {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        let count = self.piece.read(place)?;
        if count > 0 || place.is_empty() {
            return Ok(count);
        }
        let (sequence, part) = (bigint(self.sequence), self.part.to_be_bytes());
        let parameters: &[Option<&[u8]>] = &[Some(&sequence), Some(&part)];
        let rows = self
            .database
            .run(&[(&self.database.statements.piece, parameters)])
            .map_err(io::Error::other)?;
        let piece = rows.first().and_then(|rows| rows.rows.first()?.text(0));
        let Some(piece) = piece else { return Ok(0) };
        self.piece = io::Cursor::new(piece.to_vec());
        self.part += 1;
        self.piece.read(place)
    }
}

impl Database {
    /// Removes the oldest changes, as far as the log is longer than `bytes_max`; returns whether there were any.
    pub(super) fn trim_log(&self, bytes_max: u64) -> Result<bool, StoreError> {
        let max = bigint(bytes_max);
        let rows = self.run(&[(&self.statements.trim, &[Some(&max)])])?;
        Ok(rows.iter().any(|rows| rows.affected > 0))
    }
}
