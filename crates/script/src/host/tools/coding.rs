//! Encodings of bytes as text: base64, base58, hex.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use data_encoding::{DecodeKind, HEXLOWER, HEXLOWER_PERMISSIVE};

use super::{
    BYTES_MAX,
    error::{ToolError, check_length},
};

/// Maximum number of bytes written in base58, because the cost grows with the square of the length. A base58 text may be half as long
/// again.
const BASE58_BYTES_MAX: usize = 16 << 10;
/// Maximum number of characters read as base58.
const BASE58_TEXT_MAX: usize = BASE58_BYTES_MAX * 3 / 2;
/// Maximum number of random bytes at a time.
const RANDOM_MAX: usize = 65_536;

/// The digits of base58: those of Bitcoin's addresses. The crate for it goes digit by digit, which takes twenty times as long for the longest text, and nothing interrupts a tool.
const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/// Number of base58 digits processed at a time: as many as fit in 32 bits.
const BASE58_GROUP: usize = 5;
/// The base of a group of digits.
const BASE58_GROUP_BASE: u64 = 58_u64.pow(BASE58_GROUP as u32);

/// An encoding of bytes as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Utf8,
    Base64,
    Base58,
    Hex,
}

impl fmt::Display for Scheme {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Utf8 => "utf8",
            Self::Base64 => "base64",
            Self::Base58 => "base58",
            Self::Hex => "hex",
        })
    }
}

impl Scheme {
    pub(super) fn named(name: &str) -> Result<Self, ToolError> {
        Ok(match name {
            "utf8" => Self::Utf8,
            "base64" => Self::Base64,
            "base58" => Self::Base58,
            "hex" => Self::Hex,
            _ => {
                return Err(ToolError::Scheme {
                    name: name.to_owned(),
                });
            }
        })
    }
}

/// Converts a text from one encoding to another. The result need not be valid text if the target is `utf8`.
pub(super) fn recode(from: Scheme, to: Scheme, content: &[u8]) -> Result<Vec<u8>, ToolError> {
    check_length("the text", content.len(), BYTES_MAX)?;
    let bytes = match from {
        Scheme::Utf8 => content.to_vec(),
        Scheme::Base64 => from_base64(content),
        Scheme::Base58 => from_base58(content)?,
        Scheme::Hex => from_hex(content)?,
    };
    Ok(match to {
        Scheme::Utf8 => bytes,
        Scheme::Base64 => to_base64(&bytes).into_bytes(),
        Scheme::Base58 => to_base58(&bytes)?,
        Scheme::Hex => HEXLOWER.encode(&bytes).into_bytes(),
    })
}

pub(super) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes base64 as leniently as rules expect: accepts both alphabets, skips all other characters, stops at the first `=`, and drops a
/// last digit that does not complete a byte.
pub(super) fn from_base64(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0_u32, 0);
    for &character in text {
        let digit = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => break,
            _ => continue,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

fn from_hex(text: &[u8]) -> Result<Vec<u8>, ToolError> {
    let decoded = HEXLOWER_PERMISSIVE.decode(text);
    decoded.map_err(|error| match error.kind {
        DecodeKind::Length => ToolError::OddHex { length: text.len() },
        _ => wrong_character(Scheme::Hex, text, error.position),
    })
}

fn to_base58(bytes: &[u8]) -> Result<Vec<u8>, ToolError> {
    check_length("what becomes base58", bytes.len(), BASE58_BYTES_MAX)?;
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    // The number in groups of five digits, least significant first.
    let mut groups: Vec<u32> = Vec::new();
    for chunk in aligned(&bytes[zeros..], 4) {
        let word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        multiply_add::<BASE58_GROUP_BASE>(&mut groups, 1 << 32, word);
    }
    let mut digits = Vec::with_capacity(zeros + groups.len() * BASE58_GROUP);
    for mut group in groups {
        for _ in 0..BASE58_GROUP {
            digits.push(BASE58[(group % 58) as usize]);
            group /= 58;
        }
    }
    while digits.last() == Some(&BASE58[0]) {
        digits.pop();
    }
    digits.extend(std::iter::repeat_n(BASE58[0], zeros));
    digits.reverse();
    Ok(digits)
}

fn from_base58(text: &[u8]) -> Result<Vec<u8>, ToolError> {
    check_length("a text in base58", text.len(), BASE58_TEXT_MAX)?;
    let digits = digits(text)?;
    let zeros = digits.iter().take_while(|&&digit| digit == 0).count();
    // The number in words, least significant first.
    let mut words: Vec<u32> = Vec::new();
    for chunk in aligned(&digits[zeros..], BASE58_GROUP) {
        let group = chunk
            .iter()
            .fold(0, |group, digit| group * 58 + u64::from(*digit));
        multiply_add::<{ 1 << 32 }>(&mut words, BASE58_GROUP_BASE, group);
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes.extend(std::iter::repeat_n(0, zeros));
    bytes.reverse();
    Ok(bytes)
}

/// Multiplies a number by a factor and adds another, both at most 2^32. The number is in a base of at most 2^32, least significant digit
/// first.
fn multiply_add<const BASE: u64>(number: &mut Vec<u32>, factor: u64, addend: u64) {
    let mut carry = addend;
    for part in number.iter_mut() {
        let sum = u64::from(*part) * factor + carry;
        *part = (sum % BASE) as u32;
        carry = sum / BASE;
    }
    // If the number is zero, the addend may exceed the base.
    while carry > 0 {
        number.push((carry % BASE) as u32);
        carry /= BASE;
    }
}

/// Splits into pieces of one length; only the first may be shorter.
fn aligned(bytes: &[u8], length: usize) -> impl Iterator<Item = &[u8]> {
    let (head, rest) = bytes.split_at(bytes.len() % length);
    std::iter::once(head).chain(rest.chunks_exact(length))
}

/// The digits of a text in base58.
fn digits(text: &[u8]) -> Result<Vec<u8>, ToolError> {
    let digits = text.iter().enumerate().map(|(at, byte)| {
        let digit = BASE58.iter().position(|known| known == byte);
        digit
            .map(|digit| digit as u8)
            .ok_or_else(|| wrong_character(Scheme::Base58, text, at))
    });
    digits.collect()
}

/// The character at this byte is none of the scheme's.
fn wrong_character(scheme: Scheme, text: &[u8], at: usize) -> ToolError {
    let (before, rest) = text.split_at(at);
    ToolError::Character {
        scheme,
        character: String::from_utf8_lossy(rest).chars().next().unwrap_or_default(),
        at: String::from_utf8_lossy(before).chars().count(),
    }
}

/// Random bytes in base64; `length` counts bytes.
pub(super) fn random_base64(length: usize) -> Result<String, ToolError> {
    check_length("what is random", length, RANDOM_MAX)?;
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes)?;
    Ok(to_base64(&bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(from: Scheme, to: Scheme, content: &str) -> String {
        match recode(from, to, content.as_bytes()) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn texts_are_written_as_elsewhere() {
        let plain = "1234567890abcdef";
        for (scheme, written) in [
            (Scheme::Base64, "MTIzNDU2Nzg5MGFiY2RlZg=="),
            (Scheme::Base58, "75M7MfQsC4p2rUNe7dDjXK"),
            (Scheme::Hex, "31323334353637383930616263646566"),
        ] {
            assert_eq!(text(Scheme::Utf8, scheme, plain), written);
            assert_eq!(text(scheme, Scheme::Utf8, written), plain);
            assert_eq!(text(Scheme::Utf8, scheme, ""), "");
            assert_eq!(text(scheme, Scheme::Utf8, ""), "");
        }
        assert_eq!(text(Scheme::Hex, Scheme::Base58, "0000287fb4cd"), "11233QC4");
        assert_eq!(text(Scheme::Base58, Scheme::Hex, "11233QC4"), "0000287fb4cd");
        assert_eq!(text(Scheme::Hex, Scheme::Base64, "FBff"), "+/8=");
        assert_eq!(text(Scheme::Base64, Scheme::Hex, "+/8"), "fbff");
        assert_eq!(text(Scheme::Utf8, Scheme::Hex, "é"), "c3a9");
    }

    #[test]
    fn base64_is_read_leniently() {
        for (written, bytes) in [
            ("-_8=", "fbff"),
            (" +/\n8\u{e9}=AAAA", "fbff"),
            ("A", ""),
            ("AAAAB", "000000"),
            // A text that is not valid base64, as rules pass it: the valid part is read.
            ("75M7MfQsC4p2rUNe7dDjXK", "ef933b31f42c0b8a76ad435eedd0e35c"),
        ] {
            assert_eq!(text(Scheme::Base64, Scheme::Hex, written), bytes, "{written}");
        }
    }

    #[test]
    fn what_is_no_digit_is_named() {
        for (scheme, written, error) in [
            (
                Scheme::Hex,
                "0g",
                "error: hex has no character 'g', which stands at 1",
            ),
            (
                Scheme::Hex,
                "abc",
                "error: text in hex has an even number of digits, and this one has 3",
            ),
            (
                Scheme::Base58,
                "2é0",
                "error: base58 has no character 'é', which stands at 1",
            ),
            (
                Scheme::Base58,
                "0",
                "error: base58 has no character '0', which stands at 0",
            ),
        ] {
            assert_eq!(text(scheme, Scheme::Utf8, written), error);
        }
        assert!(matches!(Scheme::named("base32"), Err(ToolError::Scheme { .. })));
    }

    #[test]
    fn lengths_are_bounded() {
        let long = vec![b'1'; BYTES_MAX + 1];
        for from in [Scheme::Utf8, Scheme::Base64, Scheme::Hex] {
            assert!(matches!(
                recode(from, Scheme::Utf8, &long),
                Err(ToolError::TooLong { max: BYTES_MAX, .. })
            ));
        }
        let base58 = recode(Scheme::Utf8, Scheme::Base58, &long[..=BASE58_BYTES_MAX]);
        assert!(matches!(
            base58,
            Err(ToolError::TooLong {
                max: BASE58_BYTES_MAX,
                ..
            })
        ));
        let base58 = recode(Scheme::Base58, Scheme::Utf8, &long[..=BASE58_TEXT_MAX]);
        assert!(matches!(
            base58,
            Err(ToolError::TooLong {
                max: BASE58_TEXT_MAX,
                ..
            })
        ));
        assert!(matches!(
            random_base64(RANDOM_MAX + 1),
            Err(ToolError::TooLong { max: RANDOM_MAX, .. })
        ));
        assert_ne!(random_base64(32).unwrap(), random_base64(32).unwrap());
    }

    proptest! {
        #[test]
        fn bytes_come_back(bytes in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..80)) {
            let written = to_base58(&bytes).unwrap();
            prop_assert_eq!(from_base58(&written).unwrap(), bytes.clone());
            prop_assert_eq!(from_hex(HEXLOWER.encode(&bytes).as_bytes()).unwrap(), bytes.clone());
            prop_assert_eq!(from_base64(to_base64(&bytes).as_bytes()), bytes);
        }

        #[test]
        fn no_text_is_too_strange(text in prop::collection::vec(any::<u8>(), 0..80)) {
            for from in [Scheme::Utf8, Scheme::Base64, Scheme::Base58, Scheme::Hex] {
                let _ = recode(from, Scheme::Hex, &text);
            }
        }
    }
}
