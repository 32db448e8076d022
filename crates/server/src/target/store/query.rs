//! Query parameters that select a node's children.

use std::{fmt::Write, ops::Bound};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use forebay_store::{Range, Subscript, index::FIELDS_MAX};

use crate::{failure::Refusal, target::parameters::parameters};
use forebay_router::put_encoded;

/// Children in one response if the request does not say.
const LIMIT: usize = 100;
/// Most children in one response that is not streamed.
const LIMIT_MAX: usize = 10_000;

/// Most filters: one per field of an index, and one more for the other end of a range.
const FILTERS_MAX: usize = FIELDS_MAX + 1;
const KNOWN: &str = "there is no such parameter; there are from, to, prefix, where, index, after, limit, reverse, depth and keys";

/// The parameters, each at most once, except `where`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    /// Unparsed, in the order of the request.
    pub(super) filters: Vec<String>,
    pub(super) index: Option<String>,
    /// The index entry that the previous page ended with.
    pub(super) after: Option<Vec<u8>>,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) prefix: Option<String>,
    pub(super) limit: Option<usize>,
    pub(super) reverse: bool,
    pub(super) keys: bool,
    pub(super) depth: Option<usize>,
    names_children: bool,
}

/// Start of the next page.
#[derive(Clone, Copy, Debug)]
pub(super) enum NextPage<'a> {
    /// At this child.
    From(&'a Subscript),
    /// After an entry of an index.
    After { index: &'a str, entry: &'a [u8] },
}

impl Query {
    pub(super) fn read(query: &[u8]) -> Result<Self, Refusal> {
        let mut read = Self::default();
        if query.is_empty() {
            return Ok(read);
        }
        for parameter in parameters(query, "where") {
            let parameter = parameter?;
            let text = || parameter.value.clone().into_owned();
            let number = || {
                let number = parameter.number();
                number.ok_or_else(|| parameter.wrong("it is a whole number"))
            };
            match &*parameter.name {
                "where" => {
                    read.filters.push(text());
                    if read.filters.len() > FILTERS_MAX {
                        return Err(parameter.wrong("an index answers at most nine conditions"));
                    }
                }
                "from" => read.from = Some(text()),
                "to" => read.to = Some(text()),
                "prefix" => read.prefix = Some(text()),
                "limit" => {
                    read.limit = Some(number()?);
                    if read.limit == Some(0) {
                        return Err(parameter.wrong("it is at least 1"));
                    }
                }
                "reverse" => read.reverse = parameter.flag()?,
                "keys" => read.keys = parameter.flag()?,
                "depth" => read.depth = Some(number()?),
                "index" => read.index = Some(text()),
                "after" => {
                    let entry = HEXLOWER_PERMISSIVE
                        .decode(parameter.value.as_bytes())
                        .ok()
                        .ok_or_else(|| parameter.wrong("it is what the link to the next page has"))?;
                    read.after = Some(entry);
                }
                _ => return Err(parameter.wrong(KNOWN)),
            }
            read.names_children |= parameter.name != "depth";
        }
        let refused = |name: &str, what| Refusal::Query {
            name: name.to_owned(),
            what,
        };
        let ranged = [("from", &read.from), ("to", &read.to), ("prefix", &read.prefix)];
        if let Some((name, _)) = ranged.iter().find(|(_, given)| given.is_some())
            && read.is_of_index()
        {
            return Err(refused(
                name,
                "it is of children by their names; `where` and `index` find them by their values",
            ));
        }
        if read.after.is_some() && !read.is_of_index() {
            return Err(refused("after", "it goes with `where` or `index`"));
        }
        Ok(read)
    }

    /// Whether children are selected by value, through an index.
    pub(super) fn is_of_index(&self) -> bool {
        !self.filters.is_empty() || self.index.is_some()
    }

    /// Whether children are requested, rather than the node's own document.
    pub(super) fn is_of_children(&self) -> bool {
        self.names_children
    }

    /// Most children in one response that is not streamed.
    pub(super) fn page(&self) -> usize {
        self.limit.unwrap_or(LIMIT).min(LIMIT_MAX)
    }

    /// The selected range of children. `None`: it is empty.
    pub(super) fn range(&self) -> Option<Range> {
        let mut from = self.from.as_deref().map(Subscript::new);
        let mut to = self
            .to
            .as_deref()
            .map_or(Bound::Unbounded, |to| Bound::Included(Subscript::new(to)));
        if let Some(prefix) = &self.prefix {
            from = from.max(Some(text_at_least(prefix)));
            if let Some(end) = successor(prefix).map(|end| text_at_least(&end)) {
                to = match to {
                    Bound::Included(to) if to < end => Bound::Included(to),
                    _ => Bound::Excluded(end),
                };
            }
        }
        let range = Range {
            from: from.map_or(Bound::Unbounded, Bound::Included),
            to,
            reverse: self.reverse,
        };
        let is_empty = match (&range.from, &range.to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from), Bound::Excluded(to)) => from >= to,
            _ => false,
        };
        (!is_empty).then_some(range)
    }

    /// The query string of the next page.
    pub(super) fn next_page(&self, next: NextPage<'_>) -> String {
        let (first, entry);
        let mut texts: Vec<(&str, Option<&str>)> = Vec::new();
        match next {
            NextPage::From(child) => {
                first = child.text();
                let (from, to) = if self.reverse {
                    (self.from.as_deref(), Some(first.as_str()))
                } else {
                    (Some(first.as_str()), self.to.as_deref())
                };
                texts.extend([("from", from), ("to", to), ("prefix", self.prefix.as_deref())]);
            }
            NextPage::After { index, entry: bytes } => {
                entry = HEXLOWER.encode(bytes);
                texts.extend(self.filters.iter().map(|text| ("where", Some(text.as_str()))));
                texts.extend([("index", Some(index)), ("after", Some(&entry))]);
            }
        }
        let mut out = String::from("?");
        let mut separator = "";
        for (name, text) in texts {
            let Some(text) = text else { continue };
            write!(out, "{separator}{name}=").expect("a String takes everything");
            put_encoded(text, &mut out);
            separator = "&";
        }
        let numbers = [("limit", self.limit), ("depth", self.depth)];
        for (name, number) in numbers {
            let Some(number) = number else { continue };
            write!(out, "{separator}{name}={number}").expect("a String takes everything");
            separator = "&";
        }
        for (name, flag) in [("reverse", self.reverse), ("keys", self.keys)] {
            if flag {
                write!(out, "{separator}{name}").expect("a String takes everything");
                separator = "&";
            }
        }
        out
    }
}

/// The smallest text subscript that begins with `text`. A subscript that looks like a number is not a text, so for those it is the next
/// longer text.
fn text_at_least(text: &str) -> Subscript {
    let subscript = Subscript::new(text);
    if subscript.is_number() {
        Subscript::new(&format!("{text}\0"))
    } else {
        subscript
    }
}

/// The smallest text greater than every text that begins with `prefix`; `None` if there is none.
fn successor(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Query {
        Query::read(query.as_bytes()).unwrap()
    }

    fn admits(query: &Query, name: &str) -> bool {
        let Some(range) = query.range() else { return false };
        let name = Subscript::new(name);
        let above = match range.from {
            Bound::Included(from) => name >= from,
            Bound::Excluded(from) => name > from,
            Bound::Unbounded => true,
        };
        let below = match range.to {
            Bound::Included(to) => name <= to,
            Bound::Excluded(to) => name < to,
            Bound::Unbounded => true,
        };
        above && below
    }

    #[test]
    fn a_prefix_is_of_texts_and_exact() {
        let names = [
            "",
            "0",
            "1",
            "8",
            "9",
            "10",
            "a",
            "ab",
            "abc",
            "ac",
            "b",
            "1a",
            "8x",
            "9x",
            "01",
            "\u{d7ff}x",
            "\u{e000}",
            "\u{10ffff}",
            "\u{10ffff}z",
        ];
        for prefix in ["", "a", "ab", "1", "8", "9", "0", "\u{d7ff}", "\u{10ffff}", "zz"] {
            let query = Query {
                prefix: Some(prefix.to_owned()),
                ..Query::default()
            };
            for name in names {
                let expected = name.starts_with(prefix) && !Subscript::new(name).is_number();
                assert_eq!(admits(&query, name), expected, "{prefix:?} {name:?}");
            }
        }
    }

    #[test]
    fn bounds_and_prefix_narrow_each_other() {
        let query = read("prefix=a&from=ab&to=ac");
        for (name, expected) in [
            ("a", false),
            ("ab", true),
            ("abz", true),
            ("ac", true),
            ("acx", false),
        ] {
            assert_eq!(admits(&query, name), expected, "{name}");
        }
        assert!(read("from=b&to=a").range().is_none());
        assert!(read("prefix=a&from=b").range().is_none());
    }

    #[test]
    fn the_next_page_asks_for_the_same_from_there_on() {
        let query = read("to=z+z&limit=2&depth=1&keys");
        assert_eq!(
            query.next_page(NextPage::From(&Subscript::new("b&c"))),
            "?from=b%26c&to=z%20z&limit=2&depth=1&keys"
        );
        let again = read(&query.next_page(NextPage::From(&Subscript::new("b&c")))[1..]);
        assert_eq!(again.from.as_deref(), Some("b&c"));
        let query = read("from=a&reverse&limit=2");
        assert_eq!(
            query.next_page(NextPage::From(&Subscript::new("5"))),
            "?from=a&to=5&limit=2&reverse"
        );
        let query = read("where=a%3E%3D%22%26%22&where=b%3D1&limit=2&keys");
        let next = NextPage::After {
            index: "by a",
            entry: &[0, 0xab, 0xff],
        };
        assert_eq!(
            query.next_page(next),
            "?where=a%3E%3D%22%26%22&where=b%3D1&index=by%20a&after=00abff&limit=2&keys"
        );
        let again = read(&query.next_page(next)[1..]);
        assert_eq!(
            (again.after.as_deref(), &again.filters),
            (Some(&[0, 0xab, 0xff][..]), &query.filters)
        );
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (query, message) in [
            ("limit=0", "query parameter \"limit\": it is at least 1"),
            ("limit=+1", "query parameter \"limit\": it is a whole number"),
            (
                "limit=99999999999999999999",
                "query parameter \"limit\": it is a whole number",
            ),
            (
                "keys=1",
                "query parameter \"keys\": it is `true`, `false` or without a value",
            ),
            ("keys&keys", "query parameter \"keys\": it is given twice"),
            (
                "from=%ff",
                "query parameter \"from\": it is not percent-encoded UTF-8",
            ),
            (
                "form=a",
                "query parameter \"form\": there is no such parameter; there are from, to, prefix, where, index, after, limit, reverse, depth and keys",
            ),
            (
                "where=a=1&to=b",
                "query parameter \"to\": it is of children by their names; `where` and `index` find them by their values",
            ),
            ("index=a&index=b", "query parameter \"index\": it is given twice"),
            (
                "after=00",
                "query parameter \"after\": it goes with `where` or `index`",
            ),
            (
                "index=a&after=0g",
                "query parameter \"after\": it is what the link to the next page has",
            ),
            (
                "where=a&where=a&where=a&where=a&where=a&where=a&where=a&where=a&where=a&where=a",
                "query parameter \"where\": an index answers at most nine conditions",
            ),
        ] {
            assert_eq!(Query::read(query.as_bytes()).unwrap_err().to_string(), message);
        }
    }
}
