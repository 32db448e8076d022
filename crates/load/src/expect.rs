//! What an answer must be to count as right.

use std::ops::RangeInclusive;

use crate::failure::Class;

/// What is expected of every answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expect {
    /// Statuses; any of these ranges.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// What its body must be.
    pub body: Option<Body>,
}

/// What a body must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// These bytes.
    Equals(Vec<u8>),
    /// These bytes somewhere in it.
    Contains(Vec<u8>),
    /// So many bytes.
    Length(u64),
    /// A JSON value equal to this one, however it is written.
    Json(serde_json::Value),
}

impl Default for Expect {
    /// Any success or redirection.
    fn default() -> Self {
        Self {
            statuses: vec![200..=399],
            body: None,
        }
    }
}

/// Why an answer is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unexpected {
    pub(crate) class: Class,
    pub(crate) text: String,
}

impl Expect {
    /// Whether bodies must be kept for it.
    pub(crate) fn looks_into_bodies(&self) -> bool {
        self.body.is_some()
    }

    pub(crate) fn accepts(&self, status: u16) -> bool {
        self.statuses.iter().any(|range| range.contains(&status))
    }

    /// Checks the body of an answer whose status is right.
    pub(crate) fn check_body(&self, body: &[u8]) -> Result<(), Unexpected> {
        let wrong = |what: String| {
            let shown = String::from_utf8_lossy(&body[..body.len().min(120)]);
            Err(Unexpected {
                class: Class::Mismatch,
                text: format!("{what}; the body is `{shown}`"),
            })
        };
        match &self.body {
            Some(Body::Equals(expected)) if expected != body => {
                wrong("the body is not the one expected".into())
            }
            Some(Body::Contains(part)) if memchr::memmem::find(body, part).is_none() => {
                wrong("the body does not contain what is expected".into())
            }
            Some(Body::Length(length)) if *length != body.len() as u64 => wrong(format!(
                "the body has {} bytes, {length} are expected",
                body.len()
            )),
            Some(Body::Json(expected)) => match serde_json::from_slice::<serde_json::Value>(body) {
                Ok(found) if found == *expected => Ok(()),
                Ok(_) => wrong("the body is another JSON value than expected".into()),
                Err(error) => wrong(format!("the body is not JSON ({error})")),
            },
            _ => Ok(()),
        }
    }
}
