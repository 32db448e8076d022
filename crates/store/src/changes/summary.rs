//! Summaries of log records that are too long for a follower: the globals they touch, without the values.

use std::{
    collections::BTreeSet,
    io::{self, Read},
};

use super::{Kind, read::filled};
use crate::key::Key;

/// Longest path to read from a record; the store has no longer ones.
const PATH_BYTES_MAX: u64 = 4096;

/// Summary of a change that is too long to be read into memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// As [`super::Change::sequence`].
    pub sequence: u64,
    /// As [`super::Change::time_ms`].
    pub time_ms: u64,
    /// The globals it changed, among those that were requested.
    pub globals: BTreeSet<String>,
}

impl Summary {
    /// Streams through the body of a record and keeps only the names of globals; `None` if the record is incomplete.
    pub(super) fn read(
        file: &mut impl Read,
        length: u64,
        sum: u32,
        wanted: &dyn Fn(&str) -> bool,
    ) -> io::Result<Option<Self>> {
        let mut body = Body {
            rest: file.take(length),
            sum: 0,
        };
        let summary = body.summary(wanted)?;
        Ok(summary.filter(|_| body.rest.limit() == 0 && body.sum == sum))
    }
}

/// The unread rest of a body, and the checksum of the bytes read so far.
struct Body<R> {
    rest: io::Take<R>,
    sum: u32,
}

impl<R: Read> Read for Body<R> {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        let count = self.rest.read(place)?;
        self.sum = crc32c::crc32c_append(self.sum, &place[..count]);
        Ok(count)
    }
}

impl<R: Read> Body<R> {
    /// `None` when the body ends early or is malformed. Nothing returned is reliable until the checksum has been
    /// verified.
    fn summary(&mut self, wanted: &dyn Fn(&str) -> bool) -> io::Result<Option<Summary>> {
        let (Some(sequence), Some(time)) = (self.array()?, self.array()?) else {
            return Ok(None);
        };
        let mut globals = BTreeSet::new();
        while self.rest.limit() > 0 {
            let (Some([kind]), Some(length)) = (self.array()?, self.array()?) else {
                return Ok(None);
            };
            let Some(to) = self.path(u16::from_le_bytes(length).into())? else {
                return Ok(None);
            };
            let Some(length) = self.array()? else {
                return Ok(None);
            };
            let length = u64::from(u32::from_le_bytes(length));
            let mut is_wanted = wanted(to.global_name());
            if kind == Kind::Merge as u8 {
                let Some(from) = self.path(length)? else {
                    return Ok(None);
                };
                is_wanted &= wanted(from.global_name());
            } else if io::copy(&mut self.take(length), &mut io::sink())? < length {
                return Ok(None);
            }
            if is_wanted && !globals.contains(to.global_name()) {
                globals.insert(to.global_name().to_owned());
            }
        }
        Ok(Some(Summary {
            sequence: u64::from_le_bytes(sequence),
            time_ms: u64::from_le_bytes(time),
            globals,
        }))
    }

    fn array<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        Ok(filled(self, &mut bytes)?.then_some(bytes))
    }

    fn path(&mut self, length: u64) -> io::Result<Option<Key>> {
        if length > PATH_BYTES_MAX {
            return Ok(None);
        }
        let mut bytes = vec![0; length as usize];
        Ok(filled(self, &mut bytes)?.then(|| Key::from_encoded(&bytes)))
    }
}
