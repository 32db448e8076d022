//! Conditional requests (RFC 9110, 13) as shared by all targets with entity tags: lists of tags, and the outcome for requests that read.

use std::iter;

/// The two field names as shown in errors.
pub(crate) const IF_MATCH: &str = "If-Match";
pub(crate) const IF_NONE_MATCH: &str = "If-None-Match";

/// Most tags in one list; each must be compared with the current tag.
const TAGS_MAX: usize = 64;

/// A list of entity tags could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagsError {
    /// The value is neither `*` nor a list of entity tags.
    #[error("{field} is `*` or a list of entity tags, each between quotes, with commas between them")]
    Malformed {
        /// The header field.
        field: &'static str,
    },
    /// The list is too long.
    #[error("{field} names more than {max} entity tags")]
    TooMany {
        /// The header field.
        field: &'static str,
        /// Most tags that a list may have.
        max: usize,
    },
}

/// The value of `If-Match` or `If-None-Match`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tags<'l> {
    /// `*`: any current representation.
    Any,
    These(List<'l>),
}

/// A list that was validated when it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<'l>(&'l [u8]);

/// One entity tag of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named<'l> {
    pub(crate) is_weak: bool,
    /// The opaque tag including its quotes.
    pub(crate) quoted: &'l [u8],
}

impl<'l> Tags<'l> {
    /// Reads a field's value, or the values of several fields of this name joined by commas.
    pub(crate) fn read(field: &'static str, value: &'l [u8]) -> Result<Self, TagsError> {
        if value.trim_ascii() == b"*" {
            return Ok(Self::Any);
        }
        let mut rest = value;
        let mut count = 0;
        while let Some(named) = next(&mut rest) {
            named.map_err(|NoTag| TagsError::Malformed { field })?;
            count += 1;
            if count > TAGS_MAX {
                return Err(TagsError::TooMany { field, max: TAGS_MAX });
            }
        }
        if count == 0 {
            return Err(TagsError::Malformed { field });
        }
        Ok(Self::These(List(value)))
    }

    fn name(self, tag: &[u8], comparison: Comparison) -> bool {
        match self {
            Self::Any => true,
            Self::These(list) => list
                .each()
                .any(|named| named.quoted == tag && (comparison == Comparison::Weak || !named.is_weak)),
        }
    }
}

impl<'l> List<'l> {
    pub(crate) fn each(self) -> impl Iterator<Item = Named<'l>> {
        let mut rest = self.0;
        iter::from_fn(move || next(&mut rest)?.ok())
    }
}

/// An element of a list that is not an entity tag.
struct NoTag;

/// Takes the next tag off a list. Empty elements are skipped (RFC 9110, 5.6.1.2).
fn next<'l>(rest: &mut &'l [u8]) -> Option<Result<Named<'l>, NoTag>> {
    while let Some((b',' | b' ' | b'\t', others)) = rest.split_first() {
        *rest = others;
    }
    if rest.is_empty() {
        return None;
    }
    Some(tag(rest).ok_or(NoTag))
}

fn tag<'l>(rest: &mut &'l [u8]) -> Option<Named<'l>> {
    let (is_weak, opaque) = match rest.strip_prefix(b"W/") {
        Some(opaque) => (true, opaque),
        None => (false, *rest),
    };
    let length = opaque
        .strip_prefix(b"\"")?
        .iter()
        .position(|&byte| byte == b'"')?;
    let (quoted, after) = opaque.split_at(length + 2);
    let is_allowed = |byte: &u8| !byte.is_ascii_control() && *byte != b' ';
    let ends = matches!(after.trim_ascii_start().first(), None | Some(b','));
    *rest = after;
    (ends && quoted.iter().all(is_allowed)).then_some(Named { is_weak, quoted })
}

/// The comparison functions of RFC 9110, 8.8.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    /// Two tags match only if neither is weak.
    Strong,
    /// Two tags match whether or not they are weak.
    Weak,
}

/// The outcome of the conditions of a request that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The conditions hold, or there are none.
    Holds,
    /// The client already has the current representation: 304.
    Known,
    /// `If-Match` names another representation: 412.
    Fails,
}

/// Evaluates the conditions of a GET or HEAD in the order of RFC 9110, 13.2.2. `matches` is the value of `If-Match`, `matches_not` that of
/// `If-None-Match`.
pub(crate) fn judge(
    matches: Option<&[u8]>,
    matches_not: Option<&[u8]>,
    tag: &[u8],
) -> Result<Verdict, TagsError> {
    let matches = matches.map(|list| Tags::read(IF_MATCH, list)).transpose()?;
    let matches_not = matches_not
        .map(|list| Tags::read(IF_NONE_MATCH, list))
        .transpose()?;
    Ok(match (matches, matches_not) {
        (Some(tags), _) if !tags.name(tag, Comparison::Strong) => Verdict::Fails,
        (_, Some(tags)) if tags.name(tag, Comparison::Weak) => Verdict::Known,
        _ => Verdict::Holds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_request_is_judged_as_rfc_9110_says() {
        use Verdict::{Fails, Holds, Known};
        for (matches, matches_not, verdict) in [
            (None, None, Holds),
            (Some("\"a\""), None, Holds),
            (Some("*"), None, Holds),
            (Some("\"b\" , \"a\""), None, Holds),
            (Some("W/\"a\""), None, Fails),
            (Some("\"b\""), None, Fails),
            (Some("\"b,\", ,\t\"a\","), None, Holds),
            (Some("\"b,\",\"c\""), None, Fails),
            (None, Some("\"a\""), Known),
            (None, Some("W/\"a\""), Known),
            (None, Some("*"), Known),
            (None, Some("\"b\",\"c\""), Holds),
            (Some("\"a\""), Some("\"a\""), Known),
            (Some("\"b\""), Some("\"a\""), Fails),
        ] {
            let judged = judge(
                matches.map(str::as_bytes),
                matches_not.map(str::as_bytes),
                b"\"a\"",
            );
            assert_eq!(judged, Ok(verdict), "{matches:?} {matches_not:?}");
        }
    }

    #[test]
    fn a_list_of_tags_is_read_whole_or_refused() {
        let many = vec!["\"a\""; TAGS_MAX].join(",");
        for (list, count) in [
            ("*", Ok(None)),
            (" * ", Ok(None)),
            ("\"a\"", Ok(Some(1))),
            ("W/\"a\",\"\", \"b c\"", Err(false)),
            ("W/\"a\",\"\", \"b,c\",", Ok(Some(3))),
            (&many, Ok(Some(TAGS_MAX))),
            (&format!("{many}, \"b\""), Err(true)),
            ("", Err(false)),
            (" ,", Err(false)),
            ("a", Err(false)),
            ("\"", Err(false)),
            ("\"a", Err(false)),
            ("\"a\" \"b\"", Err(false)),
            ("\"a\", *", Err(false)),
            ("w/\"a\"", Err(false)),
            ("W/", Err(false)),
            ("\"a\"b", Err(false)),
            ("\"a\u{1}\"", Err(false)),
        ] {
            let read = Tags::read(IF_MATCH, list.as_bytes()).map(|tags| match tags {
                Tags::Any => None,
                Tags::These(list) => Some(list.each().count()),
            });
            let read = read.map_err(|error| matches!(error, TagsError::TooMany { .. }));
            assert_eq!(read, count, "{list}");
        }
    }
}
