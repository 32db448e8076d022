//! What an answer must be to count as right. Statuses are always looked at; fields and bodies only when a [`Check`] asks for them, so
//! that a run without checks neither keeps nor reads them.

mod check;
mod json_path;

use std::ops::RangeInclusive;

use serde_json::Value;

pub use self::{
    check::{Check, FirstLength},
    json_path::{JsonPath, JsonPathError},
};
use crate::failure::Class;

/// What is expected of every answer.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Statuses; any of these ranges.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// What else it must be: all of these.
    pub checks: Vec<Check>,
}

/// Why a text says nothing that can be expected.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ExpectError {
    /// Not a regular expression.
    #[error("`{text}` is not a regular expression: {what}")]
    Pattern {
        /// What was given.
        text: String,
        /// What is wrong.
        what: String,
    },
    /// Not a length.
    #[error("`{text}` is not a length; accepted is a number of bytes, such as length:12")]
    Length {
        /// What was given.
        text: String,
    },
    /// Not a SHA-256.
    #[error("`{text}` is not a SHA-256; accepted are 64 hexadecimal digits, as sha256sum prints them")]
    Hash {
        /// What was given.
        text: String,
    },
    /// Neither JSON nor a path with a value.
    #[error(
        "`{text}` is not JSON ({what}); accepted are a JSON value, and a path such as $.user.name, alone or with =VALUE"
    )]
    Json {
        /// What was given.
        text: String,
        /// What is wrong.
        what: String,
    },
    /// A malformed path.
    #[error(transparent)]
    Path(#[from] JsonPathError),
    /// Not the name of a field.
    #[error("`{text}` is not a header; accepted are `name` and `name: value`")]
    Field {
        /// What was given.
        text: String,
    },
}

impl Default for Expect {
    /// Any success or redirection.
    fn default() -> Self {
        Self {
            statuses: vec![200..=399],
            checks: Vec::new(),
        }
    }
}

/// An answer as it is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) status: u16,
    /// Bytes of its body, kept or not.
    pub(crate) body_bytes: u64,
    /// The head with its status line, if kept.
    pub(crate) head: &'a [u8],
    /// The body, if kept, up to a limit.
    pub(crate) body: &'a [u8],
}

impl<'a> Seen<'a> {
    /// The values of all fields with a name.
    pub(crate) fn fields<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.head
            .split(|&byte| byte == b'\n')
            .skip(1)
            .filter_map(move |line| {
                let colon = memchr::memchr(b':', line)?;
                let is_it = line[..colon].eq_ignore_ascii_case(name.as_bytes());
                is_it.then(|| line[colon + 1..].trim_ascii())
            })
    }

    /// The first of them.
    pub(crate) fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.fields(name).next()
    }

    pub(crate) fn json(&self) -> Result<Value, String> {
        serde_json::from_slice(self.body).map_err(|error| format!("the body is not JSON ({error})"))
    }
}

/// Why an answer is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unexpected {
    pub(crate) class: Class,
    pub(crate) text: String,
}

impl Unexpected {
    /// An answer that is wrong in another way than by its status.
    pub(crate) fn mismatch(what: &str, seen: &Seen<'_>) -> Self {
        let shown = String::from_utf8_lossy(&seen.body[..seen.body.len().min(SHOWN_BYTES)]);
        let shown = if seen.body.is_empty() {
            String::new()
        } else {
            format!("; the body is `{shown}`")
        };
        Self {
            class: Class::Mismatch,
            text: format!("{what}{shown}"),
        }
    }
}

/// How much of a wrong body an example shows.
const SHOWN_BYTES: usize = 120;

impl Expect {
    /// Whether heads and bodies must be kept for it.
    pub(crate) fn keeps(&self) -> bool {
        self.checks.iter().any(Check::keeps)
    }

    /// Whether there is more to look at than statuses.
    pub(crate) fn looks(&self) -> bool {
        !self.checks.is_empty()
    }

    pub(crate) fn accepts(&self, status: u16) -> bool {
        self.statuses.iter().any(|range| range.contains(&status))
    }

    /// Looks at an answer: first at its status, then at the rest, up to the first that is wrong.
    pub(crate) fn check(&self, seen: &Seen<'_>) -> Result<(), Unexpected> {
        if !self.accepts(seen.status) {
            return Err(Unexpected {
                class: Class::Status,
                text: format!("an answer has status {}", seen.status),
            });
        }
        match self.checks.iter().find_map(|check| check.against(seen)) {
            None => Ok(()),
            Some(what) => Err(Unexpected::mismatch(&what, seen)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(body: &str) -> Seen<'_> {
        Seen {
            status: 200,
            body_bytes: body.len() as u64,
            head: b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-A: 1\r\nx-a:2 \r\n\r\n",
            body: body.as_bytes(),
        }
    }

    fn wrong(check: &Check, body: &str) -> Option<String> {
        let expect = Expect {
            checks: vec![check.clone()],
            ..Expect::default()
        };
        expect.check(&seen(body)).err().map(|unexpected| unexpected.text)
    }

    #[test]
    fn bodies_are_compared_in_every_way() {
        let hello = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        for (check, right, other) in [
            ("hello", "hello", "hello "),
            ("equals:regex:x", "regex:x", "x"),
            ("other:text", "other:text", "text"),
            ("contains:ell", "hello", "help"),
            ("~ell", "hello", "help"),
            ("equals:~", "~", ""),
            ("regex:^h.*o$", "hello", "hell"),
            ("length:5", "hello", "hell"),
            (hello, "hello", "hell"),
        ] {
            let check = Check::body(check).unwrap();
            assert_eq!(wrong(&check, right), None, "{check:?}");
            assert!(wrong(&check, other).is_some(), "{check:?}");
        }
    }

    #[test]
    fn json_is_compared_by_what_it_says() {
        for (check, right, other) in [
            (r#"{"a": 1, "b": [2]}"#, r#"{"b":[2.0],"a":1}"#, r#"{"a":1}"#),
            ("$.a", r#"{"a":null}"#, r#"{"b":1}"#),
            ("$.a.b=2", r#"{"a":{"b":2}}"#, r#"{"a":{"b":3}}"#),
            ("$.name=Ann", r#"{"name":"Ann"}"#, "not json"),
            ("$['a=b'] = \"x=y\"", r#"{"a=b":"x=y"}"#, r#"{"a=b":"x"}"#),
        ] {
            let check = Check::json(check).unwrap();
            assert_eq!(wrong(&check, right), None, "{check:?}");
            assert!(wrong(&check, other).is_some(), "{check:?}");
        }
    }

    #[test]
    fn fields_are_compared_whatever_their_case() {
        for (check, is_right) in [
            ("content-type", true),
            ("X-A: 2", true),
            ("x-a:1", true),
            ("x-a: 3", false),
            ("x-b", false),
            ("x-b: 1", false),
        ] {
            assert_eq!(
                wrong(&Check::field(check).unwrap(), "").is_none(),
                is_right,
                "{check}"
            );
        }
    }

    #[test]
    fn the_first_answer_sets_the_length_for_all() {
        let first = FirstLength::default();
        let check = Check::LengthOfFirst(first.clone());
        assert_eq!(first.get(), None);
        assert_eq!(wrong(&check, "12345"), None);
        assert_eq!((wrong(&check, "54321"), first.get()), (None, Some(5)));
        assert!(
            wrong(&check, "1")
                .unwrap()
                .contains("the body has 1 bytes, that of the first answer has 5")
        );
        let expect = Expect {
            checks: vec![check],
            ..Expect::default()
        };
        assert!(
            expect.looks() && !expect.keeps(),
            "lengths are counted without keeping bodies"
        );
    }

    #[test]
    fn a_body_longer_than_is_kept_is_never_taken_for_right() {
        let cut = Seen {
            body_bytes: 1 << 30,
            ..seen("hello")
        };
        let expect = Expect {
            checks: vec![Check::body("contains:h").unwrap()],
            ..Expect::default()
        };
        assert!(
            expect
                .check(&cut)
                .unwrap_err()
                .text
                .contains("more than are looked into")
        );
    }

    #[test]
    fn what_says_nothing_is_refused_with_what_is_accepted() {
        for (error, says) in [
            (Check::body("regex:(").unwrap_err(), "is not a regular expression"),
            (
                Check::body("length:x").unwrap_err(),
                "accepted is a number of bytes",
            ),
            (
                Check::body("sha256:12").unwrap_err(),
                "accepted are 64 hexadecimal digits",
            ),
            (
                Check::json("{").unwrap_err(),
                "accepted are a JSON value, and a path",
            ),
            (Check::json("$.=1").unwrap_err(), "no name behind the dot"),
            (
                Check::field("").unwrap_err(),
                "accepted are `name` and `name: value`",
            ),
            (
                Check::field("a b: c").unwrap_err(),
                "accepted are `name` and `name: value`",
            ),
        ] {
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
