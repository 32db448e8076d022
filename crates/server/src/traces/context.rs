//! The trace context of a request: the header `traceparent` of W3C Trace Context.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::front::Head;

/// Length of a version 00 value.
const BYTES: usize = 55;
/// Longest `tracestate` that is passed on, following the recommendation.
const STATE_BYTES_MAX: usize = 512;

/// The id of a trace across systems; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceId(pub(super) u128);

/// The id of one span of a trace; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanId(pub(super) u64);

/// The caller's span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    pub(crate) is_sampled: bool,
}

impl fmt::Display for TraceId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

impl Serialize for TraceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for SpanId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Caller {
    /// `None` if the header is missing or malformed.
    pub(crate) fn of(head: &Head) -> Option<Self> {
        let mut lines = head.fields().filter(|(name, _)| *name == b"traceparent");
        let (_, first) = lines.next()?;
        // Two headers would mean two parents.
        if lines.next().is_some() {
            return None;
        }
        Self::read(first)
    }

    fn read(text: &[u8]) -> Option<Self> {
        // Later versions may append more after another dash.
        let has_end = match text.get(..3)? {
            b"00-" => text.len() == BYTES,
            _ => matches!(text.get(BYTES), None | Some(b'-')),
        };
        let dashes_stand = [2, 35, 52].iter().all(|at| text.get(*at) == Some(&b'-'));
        let version = hexadecimal(text.get(..2)?)?;
        if !has_end || !dashes_stand || version == 0xff {
            return None;
        }
        let trace = hexadecimal(text.get(3..35)?)?;
        let span = hexadecimal(text.get(36..52)?)?;
        let flags = hexadecimal(text.get(53..BYTES)?)?;
        (trace != 0 && span != 0).then_some(Self {
            trace: TraceId(trace),
            span: SpanId(span as u64),
            is_sampled: flags & 1 == 1,
        })
    }
}

/// Parses at most 32 hexadecimal digits, which must be in lower case.
fn hexadecimal(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

/// The valid `tracestate` of the request, which carries data of other systems; empty if there is none.
pub(super) fn state(head: &Head) -> String {
    let state = head.list("tracestate").unwrap_or_default();
    if state.len() > STATE_BYTES_MAX || !state.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return String::new();
    }
    String::from_utf8_lossy(&state).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_is_read_with_its_flag() {
        let caller = Caller::read(RIGHT.as_bytes()).unwrap();
        assert_eq!(caller.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(caller.span.to_string(), "b7ad6b7169203331");
        assert!(caller.is_sampled);
        let unsampled = RIGHT.replace("-01", "-fe");
        assert!(!Caller::read(unsampled.as_bytes()).unwrap().is_sampled);
    }

    #[test]
    fn a_later_version_may_say_more_and_version_00_may_not() {
        let later = RIGHT.replace("00-0a", "cc-0a");
        for (text, is_read) in [
            (later.clone(), true),
            (format!("{later}-what"), true),
            (format!("{later}what"), false),
            (format!("{RIGHT}-what"), false),
        ] {
            assert_eq!(Caller::read(text.as_bytes()).is_some(), is_read, "{text}");
        }
    }

    #[test]
    fn what_is_no_parent_is_none() {
        for text in [
            String::new(),
            "00".to_owned(),
            RIGHT.to_uppercase(),
            RIGHT[..54].to_owned(),
            RIGHT.replace("00-0a", "ff-0a"),
            RIGHT.replace('-', "_"),
            RIGHT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            RIGHT.replace("b7ad6b7169203331", &"0".repeat(16)),
            RIGHT.replace("b7ad6b7169203331", "b7ad6b716920333g"),
        ] {
            assert_eq!(Caller::read(text.as_bytes()), None, "{text}");
        }
    }
}
