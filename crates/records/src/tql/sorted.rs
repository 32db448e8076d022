//! Keeps as many rows as can be wanted, in the order of SORT.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{kind::text_of, number, operand::time_of, reference::Reference, settings::Detect, time::Time};

/// Sort key of a row.
#[derive(Debug, PartialEq, Eq)]
enum SortKey {
    /// No value, or an object or array.
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

/// Origin of a row: index of its kind in the plan, its record, and the part of the record.
pub(super) type Origin = (usize, Reference, usize);

/// Position of a row: first by the sort key, then by origin.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rank {
    key: SortKey,
    reverse: bool,
    origin: Origin,
}

impl Rank {
    /// For a row with that sort value.
    pub(super) fn new(value: Option<&[u8]>, detect: Detect, reverse: bool, origin: Origin) -> Self {
        Self {
            key: SortKey::of(value, detect),
            reverse,
            origin,
        }
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = self.key.cmp(&other.key);
        let keys = if self.reverse { keys.reverse() } else { keys };
        keys.then_with(|| self.origin.cmp(&other.origin))
    }
}

/// The first rows in sort order. Each is inserted as it arrives, so no final sort is needed.
#[derive(Debug)]
pub(super) struct Sorted {
    rows: BTreeMap<Arc<Rank>, Row>,
    /// For each unique value, the row that has it.
    unique: HashMap<Vec<u8>, Arc<Rank>>,
    /// Most rows.
    max: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Row {
    unique: Option<Vec<u8>>,
    text: Vec<u8>,
}

impl Row {
    fn bytes(&self, rank: &Rank) -> usize {
        let unique = self.unique.as_ref().map_or(0, |value| 2 * value.len());
        size_of::<(Rank, Row)>() + rank.key.bytes() + unique + self.text.len()
    }
}

impl Sorted {
    pub(super) fn new(max: u64) -> Self {
        Self {
            rows: BTreeMap::new(),
            unique: HashMap::new(),
            max,
            bytes: 0,
        }
    }

    /// Approximate memory of the rows, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a row, which `write` produces, unless enough rows precede it. Of rows with the same unique value the first
    /// one stays.
    pub(super) fn add(&mut self, rank: Rank, unique: Option<Vec<u8>>, write: impl FnOnce(&mut Vec<u8>)) {
        let is_full = self.rows.len() as u64 >= self.max;
        if is_full && self.rows.last_key_value().is_none_or(|(last, _)| **last < rank) {
            return;
        }
        if let Some(known) = unique.as_ref().and_then(|value| self.unique.get(value)) {
            if **known < rank {
                return;
            }
            let known = Arc::clone(known);
            self.remove(&known);
        }
        let mut text = Vec::new();
        write(&mut text);
        let (rank, row) = (Arc::new(rank), Row { unique, text });
        self.bytes += row.bytes(&rank);
        if let Some(value) = &row.unique {
            self.unique.insert(value.clone(), Arc::clone(&rank));
        }
        self.rows.insert(rank, row);
        if self.rows.len() as u64 > self.max
            && let Some((last, _)) = self.rows.last_key_value()
        {
            let last = Arc::clone(last);
            self.remove(&last);
        }
    }

    fn remove(&mut self, rank: &Rank) {
        if let Some(row) = self.rows.remove(rank) {
            self.bytes -= row.bytes(rank);
            if let Some(value) = row.unique {
                self.unique.remove(&value);
            }
        }
    }

    /// Takes the next row, once all have been added.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        self.rows.pop_first().map(|(_, row)| row.text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// A row as it arrives: its sort key and its unique value.
    type Come = (u32, Option<u32>);

    fn ranked(key: u32, reverse: bool, reference: usize) -> Rank {
        let detect = crate::Settings::default().detect;
        let origin = (0, Reference(reference as u64), 0);
        Rank::new(Some(key.to_string().as_bytes()), detect, reverse, origin)
    }

    /// Expected result, by sorting all rows.
    fn expected(come: &[Come], reverse: bool, max: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..come.len()).collect();
        all.sort_by_key(|at| {
            if reverse {
                u32::MAX - come[*at].0
            } else {
                come[*at].0
            }
        });
        let mut seen = HashSet::new();
        all.retain(|at| come[*at].1.is_none_or(|value| seen.insert(value)));
        all.truncate(max);
        all
    }

    proptest::proptest! {
        #[test]
        fn the_first_rows_are_kept_in_their_order(
            come in proptest::collection::vec((0..9_u32, proptest::option::of(0..5_u32)), 0..40),
            reverse in proptest::bool::ANY,
            max in 0..12_usize,
        ) {
            let mut sorted = Sorted::new(max as u64);
            for (at, (key, unique)) in come.iter().enumerate() {
                let unique = unique.map(|value| value.to_string().into_bytes());
                sorted.add(ranked(*key, reverse, at), unique, |out| out.extend(at.to_string().bytes()));
            }
            let mut found = Vec::new();
            while let Some(text) = sorted.next() {
                found.push(String::from_utf8(text).unwrap().parse::<usize>().unwrap());
            }
            proptest::prop_assert_eq!(found, expected(&come, reverse, max));
        }
    }

    #[test]
    fn what_is_left_out_takes_no_memory() {
        let mut sorted = Sorted::new(10);
        let mut most = 0;
        for at in 0..10_000 {
            let key = (at * 7919 % 10_000) as u32;
            sorted.add(ranked(key, false, at), Some(vec![at as u8; 8]), |out| {
                out.extend_from_slice(&[b'x'; 100]);
            });
            most = most.max(sorted.bytes());
        }
        assert!(most < 10 * 1000, "{most}");
        assert!(sorted.unique.len() <= 10, "{}", sorted.unique.len());
        for (value, rank) in std::mem::take(&mut sorted.unique) {
            sorted.unique.insert(value, rank.clone());
            sorted.remove(&rank);
        }
        assert_eq!((sorted.bytes(), sorted.rows.len()), (0, 0));
    }
}
