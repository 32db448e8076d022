//! Paths in statements, which address values in a node.
//!
//! ```text
//! path = [ "$root." | "$." ] step *( "." step )
//! step = "*" | name | a JSON string             `*` stands for every element of an array
//! name = characters other than . and "
//! ```
//!
//! Array elements are named by their index: `lines.0.price`.

use std::fmt;

use forebay_store::json;

use crate::work::Work;

/// Most steps of a path: documents are not nested deeper.
const STEPS_MAX: usize = json::DEPTH_MAX;
/// Work counted for an array element in addition to its length.
const ELEMENT_WORK: usize = 16;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Name(String),
    /// Every element of an array.
    Each,
}

/// A path relative to a node or to the record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Path {
    /// Whether it begins at the record, even if the statement is about a part of it.
    pub(crate) from_root: bool,
    pub(crate) steps: Vec<Step>,
}

impl Path {
    /// Parses a whole text; the error has the offset and what is accepted there.
    pub(crate) fn read(text: &str) -> Result<Self, (usize, &'static str)> {
        let is_root = |length| {
            text.get(..length)
                .is_some_and(|start| start.eq_ignore_ascii_case("$root."))
        };
        let (from_root, mut at) = if is_root("$root.".len()) {
            (true, "$root.".len())
        } else if text.starts_with("$.") {
            (false, 2)
        } else {
            (false, 0)
        };
        let mut steps = Vec::new();
        loop {
            let rest = &text[at..];
            let (step, length) = if rest.starts_with('"') {
                let length = string_length(rest).ok_or((at, "a quoted name ends with `\"`"))?;
                let name = json::unescape(&rest[1..length - 1]);
                let name = name.map_err(|_| (at, "a quoted name is a JSON string"))?;
                (Step::Name(name.into_owned()), length)
            } else {
                let length = rest.find(['.', '"']).unwrap_or(rest.len());
                let step = match &rest[..length] {
                    "" => return Err((at, "expected a name (an empty one is written `\"\"`)")),
                    "*" => Step::Each,
                    name => Step::Name(name.to_owned()),
                };
                (step, length)
            };
            steps.push(step);
            if steps.len() > STEPS_MAX {
                return Err((at, "a path has at most 200 steps"));
            }
            at += length;
            match text[at..].chars().next() {
                None => return Ok(Self { from_root, steps }),
                Some('.') => at += 1,
                Some(_) => return Err((at, "expected `.` or the end of the path")),
            }
        }
    }

    /// Whether a step can match several values.
    pub(crate) fn is_many(&self) -> bool {
        self.steps.contains(&Step::Each)
    }

    /// Whether `wanted` holds for any value at the path.
    pub(crate) fn any<'t>(
        &self,
        node: &'t [u8],
        work: &Work,
        mut wanted: impl FnMut(&'t [u8]) -> bool,
    ) -> bool {
        any(node, &self.steps, work, &mut wanted)
    }

    /// The value at a path without `*`.
    pub(crate) fn find<'t>(&self, node: &'t [u8], work: &Work) -> Option<&'t [u8]> {
        let mut found = None;
        self.any(node, work, |value| {
            found = Some(value);
            true
        });
        found
    }
}

/// The child of a node, if there is enough work left to find it.
pub(crate) fn child<'t>(node: &'t [u8], name: &str, work: &Work) -> Option<&'t [u8]> {
    let found = json::find(node, name);
    let passed = match found {
        // The child is a slice of the node.
        Some(child) => child.as_ptr().addr() - node.as_ptr().addr() + child.len(),
        None => node.len(),
    };
    let is_left = work.take(passed);
    found.filter(|_| is_left)
}

fn any<'t>(node: &'t [u8], steps: &[Step], work: &Work, wanted: &mut dyn FnMut(&'t [u8]) -> bool) -> bool {
    let mut node = node;
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Name(name) => match child(node, name, work) {
                Some(found) => node = found,
                None => return false,
            },
            Step::Each => {
                let rest = &steps[at + 1..];
                return json::container(node) == Some(true)
                    && json::children(node).any(|child| {
                        // Once no work is left, the walk over the other elements ends too.
                        !work.take(child.text.len() + ELEMENT_WORK) || any(child.text, rest, work, wanted)
                    });
            }
        }
    }
    wanted(node)
}

/// Length in bytes of the string at the beginning of a text, including its quotes.
fn string_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Each => out.write_str("*"),
            Self::Name(name) => {
                let plain = |character: char| character.is_alphanumeric() || "_-@".contains(character);
                if !name.is_empty() && name.chars().all(plain) {
                    out.write_str(name)
                } else {
                    out.write_str(&String::from_utf8_lossy(&json::string(name)))
                }
            }
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.from_root { "$root." } else { "" })?;
        for (at, step) in self.steps.iter().enumerate() {
            out.write_str(if at == 0 { "" } else { "." })?;
            fmt::Display::fmt(step, out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_back_as_it_is_written() {
        for (text, written) in [
            ("a", "a"),
            ("a.b.0", "a.b.0"),
            ("tags.*", "tags.*"),
            ("$root.kind", "$root.kind"),
            ("$ROOT.kind", "$root.kind"),
            ("$.kind", "kind"),
            ("\"a.b\".\"*\".c", "\"a.b\".\"*\".c"),
            ("\"\"", "\"\""),
            ("zip code", "\"zip code\""),
        ] {
            let path = Path::read(text).unwrap();
            assert_eq!(path.to_string(), written, "{text}");
            assert_eq!(Path::read(written).unwrap(), path);
        }
        for (text, at) in [
            ("", 0),
            ("a.", 2),
            (".a", 0),
            ("a..b", 2),
            ("\"a", 0),
            ("\"a\"b", 3),
            ("a\"b\"", 1),
            ("\"\\", 0),
        ] {
            assert_eq!(Path::read(text).unwrap_err().0, at, "{text}");
        }
    }
}
