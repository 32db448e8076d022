//! Rows of an answer: written at once, or kept until they can be sorted.

use std::{collections::HashSet, time::Instant};

use super::{
    Sort, Statement,
    execution::Budget,
    sorted::{Origin, Rank, Sorted},
};
use crate::{
    RecordsError, number,
    path::Path,
    settings::{Detect, Settings},
};

/// State of an answer's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultState {
    /// More rows are wanted.
    Open,
    /// As many as were requested.
    Complete,
    /// Cut off by the named limit.
    Cut(&'static str),
}

/// Collects the rows of an answer.
#[derive(Debug)]
pub(super) struct Rows {
    /// Rows to skip.
    skip: u64,
    /// Rows wanted after those.
    wanted: u64,
    /// Whether `wanted` is the statement's own limit, or its cursor can fetch more.
    asked: bool,
    answer_bytes_max: usize,
    /// Which texts SORT takes for times.
    detect: Detect,
    /// Rows added so far.
    count: u64,
    /// Bytes of rows written so far.
    written: usize,
    first: bool,
    unique: HashSet<Vec<u8>>,
    unique_bytes: usize,
    sorted: Option<Sorted>,
}

impl Rows {
    pub(super) fn new(statement: &Statement, settings: &Settings) -> Self {
        let page = statement.page.map_or(u64::MAX, |page| page.size);
        let limit = statement.limit.unwrap_or(u64::MAX).min(page);
        let skip = statement
            .page
            .map_or(0, |page| page.size.saturating_mul(page.number));
        let wanted = limit.min(settings.rows_max);
        // One more, to know whether there are more.
        let sorted_max = skip.saturating_add(wanted).saturating_add(1);
        Self {
            skip,
            wanted,
            asked: limit <= settings.rows_max || statement.cursor.is_some(),
            answer_bytes_max: settings.answer_bytes_max,
            detect: settings.detect,
            count: 0,
            written: 0,
            first: true,
            unique: HashSet::new(),
            unique_bytes: 0,
            sorted: statement.sort.is_some().then(|| Sorted::new(sorted_max)),
        }
    }

    /// Whether nothing is written until all rows have been added.
    pub(super) fn are_sorted(&self) -> bool {
        self.sorted.is_some()
    }

    /// Adds the row of a node, which `write` produces.
    pub(super) fn add(
        &mut self,
        statement: &Statement,
        from: Origin,
        values: impl Fn(&Path) -> Option<Vec<u8>>,
        write: impl FnOnce(&mut Vec<u8>),
        out: &mut Vec<u8>,
    ) -> Result<ResultState, RecordsError> {
        let unique = statement.unique.as_ref().map(|path| match values(path) {
            Some(value) if number::is_number(&value) => number::normal(&value),
            value => value.unwrap_or_default(),
        });
        if let (Some(sorted), Some(Sort { path, reverse })) = (&mut self.sorted, &statement.sort) {
            let rank = Rank::new(values(path).as_deref(), self.detect, *reverse, from);
            sorted.add(rank, unique, write);
            if sorted.bytes() > self.answer_bytes_max {
                return Err(self.too_long());
            }
            return Ok(ResultState::Open);
        }
        if let Some(value) = unique {
            if self.unique.contains(&value) {
                return Ok(ResultState::Open);
            }
            self.unique_bytes += value.len() + size_of::<Vec<u8>>();
            if self.unique_bytes > self.answer_bytes_max {
                return Err(self.too_long());
            }
            self.unique.insert(value);
        }
        self.count += 1;
        if self.count <= self.skip {
            return Ok(ResultState::Open);
        }
        let at = self.count - self.skip;
        if at > self.wanted {
            return Ok(if self.asked {
                ResultState::Complete
            } else {
                ResultState::Cut("rows_max")
            });
        }
        let before = out.len();
        if !self.first {
            out.push(b',');
        }
        write(out);
        let length = out.len() - before;
        if self.written + length > self.answer_bytes_max {
            out.truncate(before);
            if self.first {
                return Err(self.too_long());
            }
            return Ok(ResultState::Cut("answer_bytes_max"));
        }
        self.first = false;
        self.written += length;
        Ok(if self.asked && at == self.wanted {
            ResultState::Complete
        } else {
            ResultState::Open
        })
    }

    /// Whether no rows were requested.
    pub(super) fn is_complete(&self) -> bool {
        self.wanted == 0 && self.asked
    }

    fn too_long(&self) -> RecordsError {
        RecordsError::AnswerBytesMax {
            max: self.answer_bytes_max,
        }
    }

    /// Writes or skips some of the sorted rows; `None` while there are more.
    pub(super) fn write_sorted(&mut self, budget: Budget, out: &mut Vec<u8>) -> Option<ResultState> {
        let Some(sorted) = &mut self.sorted else {
            return Some(ResultState::Complete);
        };
        let start = out.len();
        while let Some(row) = sorted.next() {
            self.count += 1;
            let at = self.count.saturating_sub(self.skip);
            if at > self.wanted {
                return Some(if self.asked {
                    ResultState::Complete
                } else {
                    ResultState::Cut("rows_max")
                });
            }
            if at > 1 {
                out.push(b',');
            }
            if at > 0 {
                out.extend_from_slice(&row);
            }
            let is_late = |until| Instant::now() >= until;
            if out.len() - start >= budget.bytes || budget.until.is_some_and(is_late) {
                return None;
            }
        }
        Some(ResultState::Complete)
    }
}
