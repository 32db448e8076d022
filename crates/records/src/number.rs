//! Exact decimal comparison of numbers of any length: 0.1 is one tenth, not a float.

use std::cmp::Ordering;

/// A decomposed JSON number: `0.digits` times ten to the power of `exponent`.
#[derive(Debug)]
struct Parts<'t> {
    negative: bool,
    whole: &'t [u8],
    fraction: &'t [u8],
    exponent: i64,
}

/// Compares two JSON numbers by their exact values.
pub(crate) fn compare(left: &[u8], right: &[u8]) -> Ordering {
    if left == right {
        return Ordering::Equal;
    }
    let (left, right) = (Parts::of(left), Parts::of(right));
    match (left.is_zero(), right.is_zero()) {
        (true, true) => return Ordering::Equal,
        (true, false) => {
            return if right.negative {
                Ordering::Greater
            } else {
                Ordering::Less
            };
        }
        (false, true) => {
            return if left.negative {
                Ordering::Less
            } else {
                Ordering::Greater
            };
        }
        (false, false) => {}
    }
    if left.negative != right.negative {
        return if left.negative {
            Ordering::Less
        } else {
            Ordering::Greater
        };
    }
    let magnitude = left
        .exponent
        .cmp(&right.exponent)
        .then_with(|| left.digits().cmp(right.digits()));
    if left.negative {
        magnitude.reverse()
    } else {
        magnitude
    }
}

/// Canonical text shared by all JSON numbers of the same value.
pub(crate) fn normal(text: &[u8]) -> Vec<u8> {
    let parts = Parts::of(text);
    if parts.is_zero() {
        return b"0".to_vec();
    }
    let sign = parts.negative.then_some(b'-');
    let mut normal: Vec<u8> = sign.into_iter().chain(parts.digits()).collect();
    normal.extend_from_slice(format!("e{}", parts.exponent).as_bytes());
    normal
}

/// Whether a JSON text is a number.
pub(crate) fn is_number(text: &[u8]) -> bool {
    matches!(text.first(), Some(b'-' | b'0'..=b'9'))
}

impl<'t> Parts<'t> {
    fn of(text: &'t [u8]) -> Self {
        let (negative, text) = match text.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (number, power) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&text[..at], power(&text[at + 1..])),
            None => (text, 0),
        };
        let (whole, fraction) = match number.iter().position(|byte| *byte == b'.') {
            Some(at) => (&number[..at], &number[at + 1..]),
            None => (number, &number[number.len()..]),
        };
        let zeros = |digits: &[u8]| digits.iter().take_while(|digit| **digit == b'0').count();
        let whole = &whole[zeros(whole)..];
        let (fraction, shift) = if whole.is_empty() {
            let zeros = zeros(fraction);
            (&fraction[zeros..], -length(zeros))
        } else {
            (fraction, length(whole.len()))
        };
        Self {
            negative,
            whole,
            fraction,
            exponent: power.saturating_add(shift),
        }
    }

    fn is_zero(&self) -> bool {
        self.digits().next().is_none()
    }

    /// Significant digits, without trailing zeros.
    fn digits(&self) -> impl Iterator<Item = u8> + '_ {
        let all = self.whole.len() + self.fraction.len();
        let trailing = |digits: &[u8]| digits.iter().rev().take_while(|digit| **digit == b'0').count();
        let mut zeros = trailing(self.fraction);
        if zeros == self.fraction.len() {
            zeros += trailing(self.whole);
        }
        self.whole.iter().chain(self.fraction).take(all - zeros).copied()
    }
}

fn length(digits: usize) -> i64 {
    i64::try_from(digits).unwrap_or(i64::MAX)
}

/// The exponent after `e`; saturates when it is too long to matter.
fn power(text: &[u8]) -> i64 {
    let negative = text.first() == Some(&b'-');
    let digits = text.iter().filter(|byte| byte.is_ascii_digit());
    let value = digits.fold(0_i64, |value, digit| {
        value
            .saturating_mul(10)
            .saturating_add(i64::from(digit.wrapping_sub(b'0')))
    });
    if negative { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_by_value_however_they_are_written() {
        use Ordering::{Equal, Greater, Less};
        for (left, right, expected) in [
            ("1", "1.0", Equal),
            ("1e2", "100", Equal),
            ("100", "0.1E+3", Equal),
            ("0.1", "1e-1", Equal),
            ("0", "-0.00e9", Equal),
            ("2", "10", Less),
            ("-2", "-10", Greater),
            ("-1", "0", Less),
            ("0.05", "0.1", Less),
            ("9007199254740993", "9007199254740992", Greater),
            ("0.10000000000000000000000000000000001", "0.1", Greater),
            ("1e99999999999999999999", "2", Greater),
            ("1e-99999999999999999999", "0", Greater),
            ("120", "12", Greater),
            ("0.12", "0.120", Equal),
        ] {
            assert_eq!(
                compare(left.as_bytes(), right.as_bytes()),
                expected,
                "{left} {right}"
            );
            assert_eq!(
                compare(right.as_bytes(), left.as_bytes()),
                expected.reverse(),
                "{right} {left}"
            );
            assert_eq!(
                normal(left.as_bytes()) == normal(right.as_bytes()),
                expected == Equal,
                "{left} {right}"
            );
        }
    }
}
