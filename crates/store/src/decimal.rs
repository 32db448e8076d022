//! Exact decimal addition of JSON numbers: 0.1 + 0.2 is 0.3.

/// Most digits of a sum, before and after the decimal point together.
pub(crate) const DIGITS_MAX: usize = 36;

/// `mantissa` times ten to the power of `exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    mantissa: i128,
    exponent: i32,
}

/// Adds two JSON numbers; `None` when either is not a number, or the sum has more than [`DIGITS_MAX`] digits.
pub(crate) fn add(left: &str, right: &str) -> Option<String> {
    let (left, right) = (read(left)?, read(right)?);
    let exponent = left.exponent.min(right.exponent);
    let sum = scale(left, exponent)?.checked_add(scale(right, exponent)?)?;
    write(sum, exponent)
}

/// Whether a canonical JSON text is a number.
pub(crate) fn is_number(text: &str) -> bool {
    matches!(text.as_bytes().first(), Some(b'-' | b'0'..=b'9'))
}

fn scale(number: Decimal, exponent: i32) -> Option<i128> {
    let power = u32::try_from(number.exponent - exponent).ok()?;
    number.mantissa.checked_mul(10_i128.checked_pow(power)?)
}

fn read(text: &str) -> Option<Decimal> {
    let (number, power) = match text.split_once(['e', 'E']) {
        Some((number, power)) => (number, power.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let mut mantissa: i128 = digits.parse().ok()?;
    let mut exponent = power.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    if mantissa == 0 {
        exponent = 0;
    }
    while exponent < 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    (exponent.unsigned_abs() as usize <= DIGITS_MAX).then_some(Decimal { mantissa, exponent })
}

fn write(mut mantissa: i128, mut exponent: i32) -> Option<String> {
    if mantissa == 0 {
        return Some("0".into());
    }
    while exponent < 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    let mut digits = mantissa.unsigned_abs().to_string();
    if exponent >= 0 {
        digits.extend(std::iter::repeat_n('0', exponent.unsigned_abs() as usize));
    } else {
        let after = exponent.unsigned_abs() as usize;
        if digits.len() <= after {
            digits.insert_str(0, &"0".repeat(after - digits.len() + 1));
        }
        digits.insert(digits.len() - after, '.');
    }
    let sign = if mantissa < 0 { "-" } else { "" };
    (digits.len() <= DIGITS_MAX + 1).then(|| format!("{sign}{digits}"))
}

#[cfg(test)]
mod tests {
    use super::add;

    #[test]
    fn sums_are_exact() {
        for (left, right, sum) in [
            ("0.1", "0.2", "0.3"),
            ("1", "-1", "0"),
            ("-0", "0", "0"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("1e3", "1", "1001"),
            ("1.50", "0.5", "2"),
            ("-0.05", "0.04", "-0.01"),
            ("1E-3", "1", "1.001"),
        ] {
            assert_eq!(add(left, right).as_deref(), Some(sum), "{left} + {right}");
        }
    }

    #[test]
    fn what_has_too_many_digits_is_refused() {
        for (left, right) in [("1e300", "1"), ("1e-40", "1"), ("1e36", "1e-30"), ("x", "1")] {
            assert_eq!(add(left, right), None, "{left} + {right}");
        }
    }
}
