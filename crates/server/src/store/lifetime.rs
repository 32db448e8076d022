//! The lifetime of nodes: the `ttl` of a write.

use std::time::Duration;

pub(crate) use forebay_store::now_ms;

use crate::config::parse_duration;

/// Longest lifetime of a node: 100 years.
const MAX: Duration = Duration::from_hours(876_000);
/// The accepted values, for error messages.
pub(crate) const ACCEPTED: &str =
    "a ttl is a duration such as 300ms, 60s, 5m or 1h, from 1ms to 876000h, or none";

/// The lifetime requested by a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// The node expires after this time.
    For(Duration),
    /// The node never expires.
    Unlimited,
}

impl Lifetime {
    /// Parses `60s` or `none`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::Unlimited);
        }
        let lasts = parse_duration(text)?;
        (!lasts.is_zero() && lasts <= MAX).then_some(Self::For(lasts))
    }

    /// When a node written now expires, in milliseconds since the Unix epoch; `None` if never.
    pub(crate) fn end(self) -> Option<u64> {
        match self {
            Self::For(lasts) => Some(now_ms().saturating_add(lasts.as_millis() as u64)),
            Self::Unlimited => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_read() {
        for (text, expected) in [
            ("60s", Some(Lifetime::For(Duration::from_mins(1)))),
            ("1ms", Some(Lifetime::For(Duration::from_millis(1)))),
            ("876000h", Some(Lifetime::For(MAX))),
            ("none", Some(Lifetime::Unlimited)),
            ("0s", None),
            ("876001h", None),
            ("60", None),
            ("-1s", None),
            ("", None),
            ("99999999999999999999h", None),
        ] {
            assert_eq!(Lifetime::read(text), expected, "{text}");
        }
    }
}
