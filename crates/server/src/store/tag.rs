//! Entity tags of documents, and conditional requests that use them (RFC 9110, 13).

use std::fmt;

use data_encoding::HEXLOWER;

use crate::conditions::{IF_MATCH, IF_NONE_MATCH, Tags, TagsError};

/// A document's entity tag: a hash of its canonical text, independent of when and how it was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u128);

/// Length of a tag including its quotes.
pub(crate) const TAG_BYTES: usize = 34;

impl Tag {
    pub(crate) fn of(document: &[u8]) -> Self {
        Self(forebay_store::digest(document))
    }

    /// The tag as a field value, including its quotes.
    pub(crate) fn text(self) -> [u8; TAG_BYTES] {
        let mut text = [b'"'; TAG_BYTES];
        HEXLOWER.encode_mut(&self.0.to_be_bytes(), &mut text[1..TAG_BYTES - 1]);
        text
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "\"{:032x}\"", self.0)
    }
}

/// The parsed value of `If-Match` or `If-None-Match`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Named {
    /// The field is absent.
    #[default]
    Nothing,
    /// `*`: any existing document.
    Anything,
    /// The listed tags, without those that can never match a document here.
    These(Vec<Tag>),
}

/// The current state of the node that a condition is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// A document whose tag was not needed.
    Something,
    Tagged(Tag),
}

/// The condition of a request on the current state of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// `If-Match`
    matches: Named,
    /// `If-None-Match`
    matches_not: Named,
}

impl Condition {
    /// Parses the values of `If-Match` and `If-None-Match`.
    pub(crate) fn of(matches: Option<&[u8]>, matches_not: Option<&[u8]>) -> Result<Self, TagsError> {
        Ok(Self {
            // Only a strong comparison proves that nothing was overwritten.
            matches: Named::read(IF_MATCH, matches, false)?,
            matches_not: Named::read(IF_NONE_MATCH, matches_not, true)?,
        })
    }

    /// Whether the request has no condition.
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the document's tag is needed to evaluate the condition.
    pub(crate) fn is_of_tags(&self) -> bool {
        let may_be = |named: &Named| matches!(named, Named::These(tags) if !tags.is_empty());
        may_be(&self.matches) || may_be(&self.matches_not)
    }

    /// Whether the condition holds.
    pub(crate) fn holds(&self, found: Found) -> bool {
        let names = |named: &Named| match (named, found) {
            (Named::Anything, found) => found != Found::Nothing,
            (Named::These(tags), Found::Tagged(found)) => tags.contains(&found),
            (Named::These(_) | Named::Nothing, _) => false,
        };
        (self.matches == Named::Nothing || names(&self.matches)) && !names(&self.matches_not)
    }
}

impl Named {
    /// Parses a list. Tags that were not issued by this store match no document.
    fn read(field: &'static str, list: Option<&[u8]>, weak: bool) -> Result<Self, TagsError> {
        Ok(match list.map(|list| Tags::read(field, list)).transpose()? {
            None => Self::Nothing,
            Some(Tags::Any) => Self::Anything,
            Some(Tags::These(list)) => Self::These(
                list.each()
                    .filter(|named| weak || !named.is_weak)
                    .filter_map(|named| parse(&named.quoted[1..named.quoted.len() - 1]))
                    .collect(),
            ),
        })
    }
}

fn parse(digits: &[u8]) -> Option<Tag> {
    let lower = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != TAG_BYTES - 2 || !digits.iter().all(lower) {
        return None;
    }
    let text = std::str::from_utf8(digits).ok()?;
    u128::from_str_radix(text, 16).ok().map(Tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_reads_back_as_it_is_written() {
        let tag = Tag::of(b"{\"a\":1}");
        let text = tag.text();
        assert_eq!(std::str::from_utf8(&text).unwrap(), tag.to_string());
        assert_eq!(parse(&text[1..33]), Some(tag));
        assert_ne!(tag, Tag::of(b"{\"a\":2}"));
    }

    fn condition(matches: Option<&str>, matches_not: Option<&str>) -> Condition {
        Condition::of(matches.map(str::as_bytes), matches_not.map(str::as_bytes)).unwrap()
    }

    #[test]
    fn conditions_hold_as_rfc_9110_says() {
        use Found::{Nothing, Something, Tagged};
        let (one, two) = (Tag::of(b"1"), Tag::of(b"2"));
        let both = format!("\"x\", {one}");
        let weak = format!("W/{one}");
        for (matches, matches_not, found, holds) in [
            (None, None, Nothing, true),
            (Some("*"), None, Something, true),
            (Some("*"), None, Tagged(one), true),
            (Some("*"), None, Nothing, false),
            (Some(both.as_str()), None, Tagged(one), true),
            (Some(both.as_str()), None, Tagged(two), false),
            (Some(both.as_str()), None, Nothing, false),
            (Some(weak.as_str()), None, Something, false),
            (None, Some("*"), Nothing, true),
            (None, Some("*"), Something, false),
            (None, Some(weak.as_str()), Tagged(one), false),
            (None, Some(both.as_str()), Tagged(two), true),
        ] {
            let condition = condition(matches, matches_not);
            assert_eq!(
                condition.holds(found),
                holds,
                "{matches:?} {matches_not:?} {found:?}"
            );
        }
        for (matches, matches_not, of_tags) in [
            (None, None, false),
            (Some("*"), None, false),
            (None, Some("*"), false),
            // These tags cannot match a document here.
            (Some(weak.as_str()), None, false),
            (None, Some("\"x\""), false),
            (Some("*"), Some(weak.as_str()), true),
            (Some(both.as_str()), None, true),
        ] {
            let condition = condition(matches, matches_not);
            assert_eq!(condition.is_of_tags(), of_tags, "{matches:?} {matches_not:?}");
        }
    }
}
