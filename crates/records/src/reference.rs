//! References: numbers that identify records permanently.

use std::fmt;

use forebay_store::{Key, KeyError};

use crate::DIRECTORY;

/// Digits of a reference in URLs.
const HEX_DIGITS: usize = 16;
/// Largest reference ever assigned: all up to it sort as numbers.
pub(crate) const REFERENCE_MAX: u64 = 999_999_999_999_999_999;

/// A record's reference. Decimal in answers, 16 hexadecimal digits in URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference(pub u64);

impl Reference {
    /// Parses the URL form: 16 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.len() == HEX_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = digits.then(|| u64::from_str_radix(text, 16).ok())?;
        value.map(Self)
    }

    /// Parses a decimal number without sign and leading zeros.
    pub fn from_decimal(text: &str) -> Option<Self> {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        plain.then(|| text.parse().ok()).flatten().map(Self)
    }

    /// Parses either form: exactly 16 digits, or digits after `0x`, are hexadecimal.
    pub fn from_text(text: &str) -> Option<Self> {
        if let Some(digits) = text.strip_prefix("0x") {
            let hex = (1..=HEX_DIGITS).contains(&digits.len())
                && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            return hex
                .then(|| u64::from_str_radix(digits, 16).ok())
                .flatten()
                .map(Self);
        }
        Self::from_hex(text).or_else(|| Self::from_decimal(text))
    }

    /// Formats the URL form.
    pub fn hex(self) -> String {
        format!("{:016x}", self.0)
    }

    /// Path of the record in a kind.
    pub(crate) fn key(self, kind: &str) -> Result<Key, KeyError> {
        let mut key = Key::global(kind)?;
        self.push_to(&mut key)?;
        Ok(key)
    }

    /// Path of the directory entry.
    pub(crate) fn entry(self) -> Result<Key, KeyError> {
        self.key(DIRECTORY)
    }

    pub(crate) fn push_to(self, key: &mut Key) -> Result<(), KeyError> {
        key.push(&self.0.to_string())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, out)
    }
}

#[cfg(test)]
mod tests {
    use super::Reference;

    #[test]
    fn a_reference_is_read_as_decimal_or_as_sixteen_hexadecimal_digits() {
        for (text, expected) in [
            ("11", Some(11)),
            ("0", Some(0)),
            ("000000000000000b", Some(11)),
            ("000000000000000B", Some(11)),
            ("0000000000000011", Some(17)),
            ("0xb", Some(11)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("011", None),
            ("b", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("0x", None),
        ] {
            assert_eq!(
                Reference::from_text(text).map(|reference| reference.0),
                expected,
                "{text}"
            );
        }
        assert_eq!(Reference(11).hex(), "000000000000000b");
    }
}
