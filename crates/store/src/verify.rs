//! Verifies everything that is stored and reports what differs from what was written.
//!
//! Of every record: its key is a valid path, the engine finds it again by that key, its checksum matches (it covers
//! key, kind and text), and its text is canonical. Of records together: they are in order, nothing is stored below a
//! packed subtree, and the children of an array are 0, 1, 2, ... without a gap. If the tree is sound: indexes have
//! exactly the entries that the records require, and expiry times are consistent in both tables.

use crate::{
    error::StoreError,
    index::{self, Catalogue},
    json,
    key::{Key, decode, subscript_length, within},
    read::{Read as _, each_record},
    transaction::Snapshot,
    tree::{Defined, Reader, Record},
};

/// Most problems that are described; all are counted.
pub const PROBLEMS_MAX: usize = 100;
/// Most bytes of an invalid key that are shown.
const KEY_BYTES_TOLD: usize = 48;

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records read.
    pub records: u64,
    /// Their size, including keys and checksums.
    pub bytes: u64,
    /// Globals that they belong to.
    pub globals: u64,
    /// Number of all problems found.
    pub problem_count: u64,
    /// Location and description of the first [`PROBLEMS_MAX`].
    pub problems: Vec<String>,
}

impl Report {
    fn problem(&mut self, place: &str, what: &str) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(format!("{place}: {what}"));
        }
    }
}

/// Reads one state of the store. `progress` is called for every record. Damage is reported in the result; an error
/// means that the store could not be read at all.
pub fn verify(snapshot: &mut Snapshot, progress: &mut dyn FnMut(&Report)) -> Result<Report, StoreError> {
    let mut walk = Walk::default();
    let nodes = snapshot.reader().tables.nodes;
    let read = each_record(snapshot, nodes, &[], |reader, (key, stored)| {
        walk.record(reader, key, stored);
        progress(&walk.report);
        Ok(true)
    });
    match read {
        // Pages after this one cannot be reached.
        Err(StoreError::Damaged { what } | StoreError::Engine { text: what, .. }) => {
            let place = format!("after {}", place(&walk.last));
            walk.report.problem(&place, &what);
        }
        read => read?,
    }
    walk.close_arrays(&[]);
    if walk.report.problem_count == 0 {
        walk.indexes(snapshot)?;
        walk.times(snapshot)?;
    }
    Ok(walk.report)
}

#[derive(Default)]
struct Walk {
    report: Report,
    /// Previous key.
    last: Vec<u8>,
    /// Key of the last packed subtree.
    pack: Option<Vec<u8>>,
    /// Arrays that contain the last key.
    arrays: Vec<Array>,
}

struct Array {
    key: Vec<u8>,
    /// Its last child, and the number of children so far.
    child: Vec<u8>,
    count: usize,
}

impl Walk {
    fn record(&mut self, reader: &Reader<'_>, key: &[u8], stored: &[u8]) {
        self.report.records += 1;
        self.report.bytes += (key.len() + stored.len()) as u64;
        let place = place(key);
        if !self.last.is_empty() && key <= self.last.as_slice() {
            let before = self::place(&self.last);
            self.report
                .problem(&place, &format!("it comes after {before}, which is out of order"));
        }
        if global_of(key) != global_of(&self.last) {
            self.report.globals += 1;
        }
        self.last = key.to_vec();
        match reader.transaction.get(reader.tables.nodes, key) {
            Ok(Some(again)) if again == stored => {}
            Ok(_) => self.report.problem(&place, "it cannot be found by its key"),
            Err(error) => self.report.problem(&place, &error.to_string()),
        }
        if Key::from_stored(key).is_none() {
            self.report.problem(&place, "its key is no path of a node");
            return;
        }
        self.close_arrays(key);
        self.child(key);
        if let Some(pack) = self.pack.take_if(|pack| within(key, pack)) {
            let pack = self::place(&pack);
            self.report.problem(
                &place,
                &format!("it lies below {pack}, which holds its subtree itself"),
            );
        }
        match Record::read(key, stored) {
            Ok(record) => self.content(key, &place, record),
            Err(_) => self.report.problem(
                &place,
                "what is stored is not what was written: the checksum does not fit",
            ),
        }
    }

    fn content(&mut self, key: &[u8], place: &str, record: Record<'_>) {
        let array = record.is_array();
        if array {
            self.arrays.push(Array {
                key: key.to_vec(),
                child: Vec::new(),
                count: 0,
            });
        }
        let Some(text) = record.text() else {
            if !array {
                self.report.problem(place, "its record says nothing");
            }
            return;
        };
        match json::canonical(text) {
            Ok(canonical) if canonical == text => {}
            Ok(_) => self.report.problem(place, "its text is not in canonical form"),
            Err(error) => self.report.problem(place, &error.to_string()),
        }
        if record.pack().is_some() {
            self.pack = Some(key.to_vec());
            if array {
                self.report.problem(
                    place,
                    "it holds its subtree itself and is an array of stored elements",
                );
            }
        }
    }

    fn indexes(&mut self, snapshot: &mut Snapshot) -> Result<(), StoreError> {
        let reader = snapshot.reader();
        let catalogue = match Catalogue::read(reader.transaction, reader.tables) {
            Err(StoreError::Damaged { what }) => {
                self.report.problem("the store", &what);
                return Ok(());
            }
            outcome => outcome?,
        };
        for index in &catalogue.indexes {
            match index::verify(snapshot, index) {
                Err(StoreError::Damaged { what } | StoreError::Index { reason: what, .. }) => {
                    let place = index.definition.records.to_string();
                    self.report.problem(&place, &what);
                }
                outcome => drop(outcome?),
            }
        }
        Ok(())
    }

    /// Checks that every expiring node exists and is listed under its time, and nothing else is listed.
    fn times(&mut self, snapshot: &mut Snapshot) -> Result<(), StoreError> {
        let tables = snapshot.reader().tables;
        let mut count = 0_u64;
        each_record(snapshot, tables.expiry, &[], |reader, (key, at)| {
            count += 1;
            let place = place(key);
            let there = Key::from_stored(key)
                .map(|key| reader.defined(&key))
                .transpose()?;
            if !there.is_some_and(Defined::exists) {
                self.report
                    .problem(&place, "a time is kept for it, but there is no such node");
            }
            let due = reader.transaction.get(tables.due, &[at, key].concat())?;
            if due.is_none() {
                self.report
                    .problem(&place, "it is to end at a time, and is not found by that time");
            }
            Ok::<_, StoreError>(true)
        })?;
        let mut due = 0;
        each_record(snapshot, tables.due, &[], |_, _| {
            due += 1;
            Ok::<_, StoreError>(true)
        })?;
        if due != count {
            let what = format!("{count} nodes are to end at a time, and {due} are found by their times");
            self.report.problem("the store", &what);
        }
        Ok(())
    }

    /// Closes the arrays that do not contain a key; all of them for an empty key.
    fn close_arrays(&mut self, key: &[u8]) {
        while let Some(array) = self.arrays.pop_if(|array| !within(key, &array.key)) {
            if array.count == 0 {
                self.report.problem(
                    &place(&array.key),
                    "it is an array of stored elements and has none",
                );
            }
        }
    }

    /// Checks that a key belongs to each array's last element or begins the next one.
    fn child(&mut self, key: &[u8]) {
        for array in &mut self.arrays {
            let rest = &key[array.key.len()..];
            let child = &rest[..subscript_length(rest)];
            if child == array.child {
                continue;
            }
            let expected = array.count.to_string();
            if decode(child) != expected {
                let what = format!(
                    "its child {:?} stands where an array has {expected}",
                    decode(child)
                );
                self.report.problem(&place(&array.key), &what);
            }
            array.child = child.to_vec();
            array.count += 1;
        }
    }
}

/// Printable form of a key, whatever its bytes.
fn place(key: &[u8]) -> String {
    match Key::from_stored(key) {
        Some(key) => key.to_string(),
        None if key.is_empty() => "the beginning".into(),
        None => {
            let told = &key[..key.len().min(KEY_BYTES_TOLD)];
            let dots = if told.len() < key.len() { "..." } else { "" };
            format!("the key {}{dots}", told.escape_ascii())
        }
    }
}

fn global_of(key: &[u8]) -> &[u8] {
    &key[..memchr::memchr(0, key).unwrap_or(key.len())]
}
