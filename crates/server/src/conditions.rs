//! Conditional requests (RFC 9110, 13), as far as all targets with entity tags share them: what a list of tags names, and what becomes
//! of a request that reads.

/// How tags are compared (RFC 9110, 8.8.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    /// A weak tag is never the same.
    Strong,
    /// Weak tags are compared as strong ones.
    Weak,
}

/// What becomes of a request that would be answered with a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The conditions on tags hold, or there are none.
    Holds,
    /// The client has it already: 304.
    Known,
    /// The client demands another one: 412.
    Fails,
}

/// Judges a GET or HEAD, in the order of RFC 9110, 13.2.2. `matches` is what `If-Match` says, `matches_not` what `If-None-Match` does.
pub(crate) fn judge(matches: Option<&[u8]>, matches_not: Option<&[u8]>, tag: &[u8]) -> Verdict {
    if matches.is_some_and(|list| !names(list, tag, Comparison::Strong)) {
        return Verdict::Fails;
    }
    match matches_not {
        Some(list) if names(list, tag, Comparison::Weak) => Verdict::Known,
        _ => Verdict::Holds,
    }
}

/// Whether a list names this tag. No tag of ours holds a comma.
fn names(list: &[u8], tag: &[u8], comparison: Comparison) -> bool {
    list.split(|&byte| byte == b',')
        .map(<[u8]>::trim_ascii)
        .any(|named| match named.strip_prefix(b"W/") {
            Some(weak) => comparison == Comparison::Weak && weak == tag,
            None => named == b"*" || named == tag,
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
            (Some(""), None, Fails),
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
            assert_eq!(judged, verdict, "{matches:?} {matches_not:?}");
        }
    }
}
