//! Parts of records: where AT leads, and what a record becomes when some of its parts are replaced or removed.

use forebay_store::json;

use super::At;
use crate::path::Step;

/// A part of a record by its place in the record's text.
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

/// The parts of a record to which AT leads, in the order of the text.
pub(super) fn branches(record: &[u8], at: &At) -> Vec<Branch> {
    let mut found = Vec::new();
    match at {
        At::Path(path) => follow(record, 0, record.len(), &path.steps, &mut found),
        At::Everywhere => everywhere(record, 0, record.len(), &mut found),
    }
    found
}

/// Where a text lies that is a part of another.
fn offset(whole: &[u8], part: &[u8]) -> usize {
    // Both are slices of one record: children of a text are borrowed from it.
    part.as_ptr().addr() - whole.as_ptr().addr()
}

fn follow(record: &[u8], start: usize, end: usize, steps: &[Step], found: &mut Vec<Branch>) {
    let node = &record[start..end];
    let Some((step, rest)) = steps.split_first() else {
        found.push(Branch { start, end });
        return;
    };
    match step {
        Step::Name(name) => {
            if let Some(child) = json::find(node, name) {
                let start = offset(record, child);
                follow(record, start, start + child.len(), rest, found);
            }
        }
        Step::Each if json::container(node) == Some(true) => {
            for child in json::children(node) {
                let start = offset(record, child.text);
                follow(record, start, start + child.text.len(), rest, found);
            }
        }
        Step::Each => {}
    }
}

fn everywhere(record: &[u8], start: usize, end: usize, found: &mut Vec<Branch>) {
    let node = &record[start..end];
    if json::container(node).is_none() {
        return;
    }
    found.push(Branch { start, end });
    for child in json::children(node) {
        let start = offset(record, child.text);
        everywhere(record, start, start + child.text.len(), found);
    }
}

/// The record with parts replaced, or removed where there is nothing to replace them with. The parts are in the order of the text; what
/// lies within another one goes with that. What comes out is canonical; `None` when nothing is left of it.
pub(super) fn edited(record: &[u8], parts: &[Branch], replacement: Option<&[u8]>) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(record.len());
    edit(record, 0, record.len(), parts, replacement, &mut out).then_some(out)
}

/// Writes a node as it becomes; false, with nothing written, when it is removed.
fn edit(
    record: &[u8],
    start: usize,
    end: usize,
    parts: &[Branch],
    replacement: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> bool {
    let inside: &[Branch] = {
        let first = parts.partition_point(|part| part.start < start);
        let last = parts.partition_point(|part| part.start < end);
        &parts[first..last]
    };
    let node = &record[start..end];
    match inside.first() {
        None => {
            out.extend_from_slice(node);
            return true;
        }
        Some(first) if first.start == start && first.end == end => {
            out.extend_from_slice(replacement.unwrap_or_default());
            return replacement.is_some();
        }
        Some(_) => {}
    }
    let is_array = json::container(node) == Some(true);
    out.push(if is_array { b'[' } else { b'{' });
    let mut first = true;
    for child in json::children(node) {
        let before = out.len();
        if !first {
            out.push(b',');
        }
        if !is_array {
            out.extend_from_slice(&json::string(&child.name));
            out.push(b':');
        }
        let start = offset(record, child.text);
        if edit(record, start, start + child.text.len(), inside, replacement, out) {
            first = false;
        } else {
            out.truncate(before);
        }
    }
    out.push(if is_array { b']' } else { b'}' });
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Path;

    fn at(path: &str) -> At {
        At::Path(Path::read(path).unwrap())
    }

    fn shown(record: &str, at: &At) -> Vec<String> {
        let record = record.as_bytes();
        let texts = branches(record, at).into_iter();
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
            let parts = branches(RECORD.as_bytes(), at);
            let text = edited(RECORD.as_bytes(), &parts, replacement.map(str::as_bytes));
            text.map_or_else(|| "nothing".to_owned(), |text| String::from_utf8(text).unwrap())
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
}
