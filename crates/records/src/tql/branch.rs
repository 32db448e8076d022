//! Parts of records: those that AT selects, and records with some of their parts replaced or removed.

use forebay_store::{StoreError, json};

use super::At;
use crate::{
    path::{Step, child},
    work::Work,
};

/// A part of a record, as a range of the record's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Branch {
    pub(super) fn of(self, record: &[u8]) -> &[u8] {
        &record[self.start..self.end]
    }
}

/// Callback for each part; returns false to stop.
type Found<'f> = &'f mut dyn FnMut(Branch) -> bool;

/// Passes the parts of a record that AT selects to `found`, in text order, until it returns false.
pub(super) fn each_branch(record: &[u8], at: &At, work: &Work, mut found: impl FnMut(Branch) -> bool) {
    match at {
        At::Path(path) => follow(record, 0, record.len(), &path.steps, work, &mut found),
        At::Everywhere => everywhere(record, 0, record.len(), work, &mut found),
    };
}

/// Offset of a slice in its text.
fn offset(whole: &[u8], part: &[u8]) -> usize {
    // Both are slices of one record: children of a text are borrowed from it.
    part.as_ptr().addr() - whole.as_ptr().addr()
}

fn follow(record: &[u8], start: usize, end: usize, steps: &[Step], work: &Work, found: Found<'_>) -> bool {
    let node = &record[start..end];
    let Some((step, rest)) = steps.split_first() else {
        return found(Branch { start, end });
    };
    let mut into = |child: &[u8]| {
        let start = offset(record, child);
        follow(record, start, start + child.len(), rest, work, found)
    };
    match step {
        Step::Name(name) => child(node, name, work).is_none_or(into),
        Step::Each if json::container(node) == Some(true) => {
            work.take(node.len()) && json::children(node).all(|child| into(child.text))
        }
        Step::Each => true,
    }
}

fn everywhere(record: &[u8], start: usize, end: usize, work: &Work, found: Found<'_>) -> bool {
    let node = &record[start..end];
    if json::container(node).is_none() {
        return true;
    }
    work.take(node.len())
        && found(Branch { start, end })
        && json::children(node).all(|child| {
            let start = offset(record, child.text);
            everywhere(record, start, start + child.text.len(), work, found)
        })
}

/// The record with parts replaced, or removed if there is no replacement. The parts must be in text order; a part
/// inside another is changed along with it. The result is canonical; `None` if nothing is left. Fails as soon as it
/// becomes longer than `bytes_max`, because a short text in many places makes a long one.
pub(super) fn edited(
    record: &[u8],
    parts: &[Branch],
    replacement: Option<&[u8]>,
    bytes_max: usize,
) -> Result<Option<Vec<u8>>, StoreError> {
    let mut edit = Edit {
        record,
        replacement,
        bytes_max,
        out: Vec::with_capacity(record.len().min(bytes_max)),
    };
    let is_left = edit.node(0, record.len(), parts)?;
    Ok(is_left.then_some(edit.out))
}

/// A record being edited.
struct Edit<'e> {
    record: &'e [u8],
    replacement: Option<&'e [u8]>,
    bytes_max: usize,
    out: Vec<u8>,
}

impl Edit<'_> {
    fn put(&mut self, text: &[u8]) -> Result<(), StoreError> {
        let bytes = self.out.len() + text.len();
        if bytes > self.bytes_max {
            let max = self.bytes_max;
            return Err(StoreError::ValueTooLong { bytes, max });
        }
        self.out.extend_from_slice(text);
        Ok(())
    }

    /// Writes an edited node; false, with nothing written, if it is removed.
    fn node(&mut self, start: usize, end: usize, parts: &[Branch]) -> Result<bool, StoreError> {
        let first = parts.partition_point(|part| part.start < start);
        let last = parts.partition_point(|part| part.start < end);
        let inside = &parts[first..last];
        let node = &self.record[start..end];
        match inside.first() {
            None => {
                self.put(node)?;
                return Ok(true);
            }
            Some(first) if first.start == start && first.end == end => {
                self.put(self.replacement.unwrap_or_default())?;
                return Ok(self.replacement.is_some());
            }
            Some(_) => {}
        }
        let is_array = json::container(node) == Some(true);
        self.put(if is_array { b"[" } else { b"{" })?;
        let mut first = true;
        for child in json::children(node) {
            let before = self.out.len();
            if !first {
                self.put(b",")?;
            }
            if !is_array {
                self.put(&json::string(&child.name))?;
                self.put(b":")?;
            }
            let start = offset(self.record, child.text);
            if self.node(start, start + child.text.len(), inside)? {
                first = false;
            } else {
                self.out.truncate(before);
            }
        }
        self.put(if is_array { b"]" } else { b"}" })?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Path;

    fn at(path: &str) -> At {
        At::Path(Path::read(path).unwrap())
    }

    fn branches(record: &str, at: &At) -> Vec<Branch> {
        let mut found = Vec::new();
        each_branch(record.as_bytes(), at, &Work::on(0), |branch| {
            found.push(branch);
            true
        });
        found
    }

    fn shown(record: &str, at: &At) -> Vec<String> {
        let texts = branches(record, at).into_iter();
        let record = record.as_bytes();
        texts
            .map(|branch| String::from_utf8(branch.of(record).to_vec()).unwrap())
            .collect()
    }

    const RECORD: &str = r#"{"a":{"b":1},"lines":[{"n":1},{"n":2},[{"n":3}]],"x":"y"}"#;

    #[test]
    fn a_path_leads_to_parts_in_the_order_of_the_text() {
        assert_eq!(shown(RECORD, &at("a")), [r#"{"b":1}"#]);
        assert_eq!(
            shown(RECORD, &at("lines.*")),
            [r#"{"n":1}"#, r#"{"n":2}"#, r#"[{"n":3}]"#]
        );
        assert_eq!(shown(RECORD, &at("lines.*.n")), ["1", "2"]);
        assert_eq!(shown(RECORD, &at("lines.1.n")), ["2"]);
        assert_eq!(shown(RECORD, &at("nothing.*")), [""; 0]);
        assert_eq!(shown(RECORD, &At::Everywhere).len(), 7);
    }

    #[test]
    fn parts_are_replaced_or_removed_and_the_rest_stays() {
        let edited = |at: &At, replacement: Option<&str>| {
            let parts = branches(RECORD, at);
            let text = edited(RECORD.as_bytes(), &parts, replacement.map(str::as_bytes), 100);
            text.unwrap()
                .map_or_else(|| "nothing".to_owned(), |text| String::from_utf8(text).unwrap())
        };
        assert_eq!(
            edited(&at("a"), Some("7")),
            r#"{"a":7,"lines":[{"n":1},{"n":2},[{"n":3}]],"x":"y"}"#
        );
        assert_eq!(
            edited(&at("lines.*"), None),
            r#"{"a":{"b":1},"lines":[],"x":"y"}"#
        );
        assert_eq!(
            edited(&at("lines.0"), None),
            r#"{"a":{"b":1},"lines":[{"n":2},[{"n":3}]],"x":"y"}"#
        );
        assert_eq!(
            edited(&at("lines.*.n"), None),
            r#"{"a":{"b":1},"lines":[{},{},[{"n":3}]],"x":"y"}"#
        );
        assert_eq!(
            edited(&at("a.b"), Some("[]")),
            r#"{"a":{"b":[]},"lines":[{"n":1},{"n":2},[{"n":3}]],"x":"y"}"#
        );
        assert_eq!(edited(&At::Everywhere, Some("0")), "0");
        assert_eq!(edited(&At::Everywhere, None), "nothing");
    }

    #[test]
    fn a_record_that_becomes_too_long_is_refused_while_it_grows() {
        let record = format!("[{}0]", "0,".repeat(999));
        let parts = branches(&record, &at("*"));
        let edited = |max| edited(record.as_bytes(), &parts, Some(b"\"xx\""), max);
        assert_eq!(edited(5001).unwrap().unwrap().len(), 5001);
        let refused = edited(100).unwrap_err();
        assert!(
            matches!(
                refused,
                StoreError::ValueTooLong {
                    bytes: 101..=105,
                    max: 100
                }
            ),
            "{refused}"
        );
    }
}
