//! Conditions for a correct response. Statuses are always checked; bodies only when a [`Check`] asks for them, so that a run without checks
//! neither keeps nor reads them.

use std::{
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::failure::Class;

/// Most bytes of a wrong body that an example shows.
const SHOWN_BYTES: usize = 120;

/// Conditions that every response must meet.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Accepted statuses: any of these ranges.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// Further conditions, all of which must hold.
    pub checks: Vec<Check>,
}

/// A condition on a response besides its status.
#[derive(Clone, Debug)]
pub enum Check {
    /// The body is these bytes.
    Equals(Vec<u8>),
    /// The body contains these bytes.
    Contains(Vec<u8>),
    /// The body is as long as that of the run's first response.
    LengthOfFirst(FirstLength),
}

/// Why a text is not a valid expectation.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{form}:` is no longer there; accepted are the whole body, and ~TEXT for a text that must be in it")]
pub struct ExpectError {
    form: String,
}

/// The length of the first response's body, shared by all threads of a run.
#[derive(Clone, Debug)]
pub struct FirstLength(Arc<AtomicU64>);

const UNKNOWN: u64 = u64::MAX;

impl Default for FirstLength {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(UNKNOWN)))
    }
}

impl FirstLength {
    /// The length of the first response, which is this one if there was none before it.
    fn or(&self, length: u64) -> u64 {
        let stored = self
            .0
            .compare_exchange(UNKNOWN, length, Ordering::Relaxed, Ordering::Relaxed);
        stored.map_or_else(|first| first, |_| length)
    }
}

impl Default for Expect {
    /// Accepts any success or redirection.
    fn default() -> Self {
        Self {
            statuses: vec![200..=399],
            checks: Vec::new(),
        }
    }
}

/// A response as the checks see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) status: u16,
    /// Length of the body, kept or not.
    pub(crate) body_bytes: u64,
    /// The body, if kept, up to a limit.
    pub(crate) body: &'a [u8],
}

impl Expect {
    /// Whether bodies must be kept for the checks.
    pub(crate) fn keeps(&self) -> bool {
        self.checks.iter().any(Check::keeps)
    }

    /// Whether anything but the status is checked.
    pub(crate) fn looks(&self) -> bool {
        !self.checks.is_empty()
    }

    pub(crate) fn accepts(&self, status: u16) -> bool {
        self.statuses.iter().any(|range| range.contains(&status))
    }

    /// Checks a response: its status first, then the rest, up to the first condition that fails, whose class and text it returns.
    pub(crate) fn check(&self, seen: &Seen<'_>) -> Result<(), (Class, String)> {
        if !self.accepts(seen.status) {
            return Err((Class::Status, format!("an answer has status {}", seen.status)));
        }
        let Some(mut text) = self.checks.iter().find_map(|check| check.against(seen)) else {
            return Ok(());
        };
        if !seen.body.is_empty() {
            let shown = &seen.body[..seen.body.len().min(SHOWN_BYTES)];
            text = format!("{text}; the body is `{}`", String::from_utf8_lossy(shown));
        }
        Err((Class::Mismatch, text))
    }
}

impl Check {
    /// Parses a condition on the body: `~TEXT` or `contains:TEXT` must be in it; it must equal any other text, and that of `equals:TEXT`.
    pub fn body(text: &str) -> Result<Self, ExpectError> {
        if let Some(part) = text.strip_prefix('~') {
            return Ok(Self::Contains(part.into()));
        }
        match text.split_once(':') {
            Some(("equals", rest)) => Ok(Self::Equals(rest.into())),
            Some(("contains", rest)) => Ok(Self::Contains(rest.into())),
            Some((form @ ("regex" | "length" | "sha256"), _)) => Err(ExpectError { form: form.into() }),
            _ => Ok(Self::Equals(text.into())),
        }
    }

    /// Whether the check needs the body itself, and not only its length.
    fn keeps(&self) -> bool {
        !matches!(self, Self::LengthOfFirst(_))
    }

    /// Says how a response violates the condition; `None` if it does not.
    fn against(&self, seen: &Seen<'_>) -> Option<String> {
        let found = seen.body_bytes;
        if self.keeps() && seen.body.len() as u64 != found {
            return Some(format!("the body has {found} bytes, more than are looked into"));
        }
        match self {
            Self::Equals(expected) => {
                (expected != seen.body).then(|| "the body is not the one expected".into())
            }
            Self::Contains(part) => {
                let missing = memchr::memmem::find(seen.body, part).is_none();
                missing.then(|| "the body does not contain what is expected".into())
            }
            Self::LengthOfFirst(first) => {
                let length = first.or(found);
                (length != found)
                    .then(|| format!("the body has {found} bytes, that of the first answer has {length}"))
            }
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
            body: body.as_bytes(),
        }
    }

    fn expect(check: Check) -> Expect {
        Expect {
            checks: vec![check],
            ..Expect::default()
        }
    }

    #[test]
    fn bodies_are_compared_in_every_way() {
        for (check, right, other) in [
            ("hello", "hello", "hello "),
            ("equals:regex:x", "regex:x", "x"),
            ("other:text", "other:text", "text"),
            ("contains:ell", "hello", "help"),
            ("~ell", "hello", "help"),
            ("equals:~", "~", ""),
        ] {
            let expect = expect(Check::body(check).unwrap());
            assert!(expect.keeps() && expect.check(&seen(right)).is_ok(), "{check:?}");
            assert!(expect.check(&seen(other)).is_err(), "{check:?}");
        }
        let error = Check::body("regex:^h").unwrap_err().to_string();
        assert!(error.starts_with("`regex:` is no longer there"), "{error}");
    }

    #[test]
    fn the_first_answer_sets_the_length_for_all() {
        let expect = expect(Check::LengthOfFirst(FirstLength::default()));
        assert!(expect.check(&seen("12345")).is_ok() && expect.check(&seen("54321")).is_ok());
        let wrong = expect.check(&seen("1")).unwrap_err().1;
        assert_eq!(
            wrong,
            "the body has 1 bytes, that of the first answer has 5; the body is `1`"
        );
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
        let (_, wrong) = expect(Check::body("~h").unwrap()).check(&cut).unwrap_err();
        assert!(wrong.contains("more than are looked into"), "{wrong}");
    }
}
