//! Rows of an answer as they come: written at once, or kept until they can be sorted.

use std::{cmp::Ordering, collections::HashSet};

use super::{Sort, Statement};
use crate::{
    RecordsError,
    kind::text_of,
    number,
    operand::time_of,
    path::Path,
    reference::Reference,
    settings::{Detect, Settings},
    time::Time,
};

/// Where a row stands among others: first by what SORT says, then as the records came.
#[derive(Debug, PartialEq, Eq)]
enum SortKey {
    /// Nothing is there, or an object or array.
    None,
    Null,
    False,
    True,
    Number(Vec<u8>),
    Time(Time),
    Text(String),
}

impl SortKey {
    fn of(value: Option<&[u8]>, detect: Detect) -> Self {
        match value {
            None => Self::None,
            Some(b"null") => Self::Null,
            Some(b"false") => Self::False,
            Some(b"true") => Self::True,
            Some(value) => match (time_of(value, detect), text_of(value)) {
                (Some(time), _) => Self::Time(time),
                (None, None) if number::is_number(value) => Self::Number(value.to_vec()),
                (None, Some(text)) => Self::Text(text),
                (None, None) => Self::None,
            },
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::None => 0,
            Self::Null => 1,
            Self::False => 2,
            Self::True => 3,
            Self::Number(_) => 4,
            Self::Time(_) => 5,
            Self::Text(_) => 6,
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Number(text) => text.len(),
                Self::Text(text) => text.len(),
                _ => 0,
            }
    }
}

impl PartialOrd for SortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(left), Self::Number(right)) => number::compare(left, right),
            (Self::Time(left), Self::Time(right)) => left.cmp(right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

/// What the rows of an answer have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Further ones are wanted.
    Open,
    /// There are as many as were asked for.
    Complete,
    /// There may be no more of them.
    Cut(&'static str),
}

/// Collects rows.
#[derive(Debug)]
pub(super) struct Rows {
    /// Rows that are passed over.
    skip: u64,
    /// Rows that are wanted behind those.
    wanted: u64,
    /// Whether the statement has asked for no more than that, or can ask for what follows.
    asked: bool,
    answer_bytes_max: usize,
    /// What texts are for SORT.
    detect: Detect,
    /// Rows that have come.
    count: u64,
    /// Bytes of rows that were written.
    written: usize,
    first: bool,
    unique: HashSet<Vec<u8>>,
    unique_bytes: usize,
    sorted: Option<Vec<Kept>>,
    kept_bytes: usize,
}

#[derive(Debug)]
struct Kept {
    key: SortKey,
    place: Origin,
    unique: Option<Vec<u8>>,
    row: Vec<u8>,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.key.bytes() + self.row.len() + self.unique.as_ref().map_or(0, Vec::len) + size_of::<Self>()
    }
}

/// Where a row is from: the place of its kind in the plan, its record, and the part of that.
pub(super) type Origin = (usize, Reference, usize);

impl Rows {
    pub(super) fn new(statement: &Statement, settings: &Settings) -> Self {
        let page = statement.page.map_or(u64::MAX, |page| page.size);
        let limit = statement.limit.unwrap_or(u64::MAX).min(page);
        let skip = statement
            .page
            .map_or(0, |page| page.size.saturating_mul(page.number));
        Self {
            skip,
            wanted: limit.min(settings.rows_max),
            asked: limit <= settings.rows_max || statement.cursor.is_some(),
            answer_bytes_max: settings.answer_bytes_max,
            detect: settings.detect,
            count: 0,
            written: 0,
            first: true,
            unique: HashSet::new(),
            unique_bytes: 0,
            sorted: statement.sort.is_some().then(Vec::new),
            kept_bytes: 0,
        }
    }

    /// Whether nothing is written before all rows have come.
    pub(super) fn are_sorted(&self) -> bool {
        self.sorted.is_some()
    }

    /// Takes a row of a node, which `write` makes.
    pub(super) fn add(
        &mut self,
        statement: &Statement,
        from: Origin,
        values: impl Fn(&Path) -> Option<Vec<u8>>,
        write: impl FnOnce(&mut Vec<u8>),
        out: &mut Vec<u8>,
    ) -> Result<Fate, RecordsError> {
        let unique = statement.unique.as_ref().map(|path| match values(path) {
            Some(value) if number::is_number(&value) => number::normal(&value),
            value => value.unwrap_or_default(),
        });
        if let (Some(kept), Some(Sort { path, .. })) = (&mut self.sorted, &statement.sort) {
            let mut row = Vec::new();
            write(&mut row);
            let row = Kept {
                key: SortKey::of(values(path).as_deref(), self.detect),
                place: from,
                unique,
                row,
            };
            self.kept_bytes += row.bytes();
            kept.push(row);
            return self.prune(statement);
        }
        if let Some(value) = unique {
            if self.unique.contains(&value) {
                return Ok(Fate::Open);
            }
            self.unique_bytes += value.len() + size_of::<Vec<u8>>();
            if self.unique_bytes > self.answer_bytes_max {
                return Err(self.too_long());
            }
            self.unique.insert(value);
        }
        self.count += 1;
        if self.count <= self.skip {
            return Ok(Fate::Open);
        }
        let at = self.count - self.skip;
        if at > self.wanted {
            return Ok(if self.asked {
                Fate::Complete
            } else {
                Fate::Cut("rows_max")
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
            return Ok(Fate::Cut("answer_bytes_max"));
        }
        self.first = false;
        self.written += length;
        Ok(if self.asked && at == self.wanted {
            Fate::Complete
        } else {
            Fate::Open
        })
    }

    /// Whether nothing was asked for.
    pub(super) fn is_complete(&self) -> bool {
        self.wanted == 0 && self.asked
    }

    fn too_long(&self) -> RecordsError {
        RecordsError::AnswerBytesMax {
            max: self.answer_bytes_max,
        }
    }

    fn order(statement: &Statement) -> impl Fn(&Kept, &Kept) -> Ordering {
        let reverse = statement.sort.as_ref().is_some_and(|sort| sort.reverse);
        move |left: &Kept, right: &Kept| {
            let keys = left.key.cmp(&right.key);
            let keys = if reverse { keys.reverse() } else { keys };
            keys.then_with(|| left.place.cmp(&right.place))
        }
    }

    /// Forgets rows that cannot be among those wanted, now and then.
    fn prune(&mut self, statement: &Statement) -> Result<Fate, RecordsError> {
        let wanted = self.skip.saturating_add(self.wanted).saturating_add(1);
        let too_long = self.kept_bytes > self.answer_bytes_max;
        let Some(kept) = &mut self.sorted else {
            return Ok(Fate::Open);
        };
        let many = kept.len() as u64 > wanted.saturating_mul(2).saturating_add(64);
        if many || too_long {
            sort(kept, Self::order(statement));
            kept.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
            self.kept_bytes = kept.iter().map(Kept::bytes).sum();
            // What is left of many must be much less, or the next row would be sorted for itself.
            if self.kept_bytes > self.answer_bytes_max / 2 && too_long {
                return Err(self.too_long());
            }
        }
        Ok(Fate::Open)
    }

    /// Writes what was kept.
    pub(super) fn finish(&mut self, statement: &Statement, out: &mut Vec<u8>) -> Fate {
        let Some(mut kept) = self.sorted.take() else {
            return Fate::Complete;
        };
        sort(&mut kept, Self::order(statement));
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX);
        for (at, kept) in kept.into_iter().skip(skip).enumerate() {
            if at as u64 == self.wanted {
                return if self.asked {
                    Fate::Complete
                } else {
                    Fate::Cut("rows_max")
                };
            }
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&kept.row);
        }
        Fate::Complete
    }
}

/// Sorts rows, and leaves of those with the same unique value the first.
fn sort(kept: &mut Vec<Kept>, order: impl Fn(&Kept, &Kept) -> Ordering) {
    kept.sort_unstable_by(order);
    let mut seen = HashSet::new();
    kept.retain_mut(|row| match &row.unique {
        None => true,
        Some(value) => seen.insert(value.clone()),
    });
}
