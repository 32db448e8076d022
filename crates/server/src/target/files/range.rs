//! The `Range` header (RFC 9110, 14.2).

/// The requested part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    /// The whole file: no usable range, because of several ranges, another unit or a syntax error.
    Whole,
    /// First and last byte, both included.
    Part { first: u64, last: u64 },
    /// A range outside the file.
    Unsatisfiable,
}

/// Parses the header for a file of `size` bytes.
pub(crate) fn parse(header: &str, size: u64) -> Range {
    let Some((unit, ranges)) = header.split_once('=') else {
        return Range::Whole;
    };
    let Some((first, last)) = ranges.trim().split_once('-') else {
        return Range::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Range::Whole;
    }
    match (number(first), number(last)) {
        (Number::None, Number::Some(suffix)) => part(size.saturating_sub(suffix), u64::MAX, size),
        (Number::Some(first), Number::None) => part(first, u64::MAX, size),
        (Number::Some(first), Number::Some(last)) if first <= last => part(first, last, size),
        _ => Range::Whole,
    }
}

fn part(first: u64, last: u64, size: u64) -> Range {
    if first >= size {
        Range::Unsatisfiable
    } else {
        Range::Part {
            first,
            last: last.min(size - 1),
        }
    }
}

enum Number {
    None,
    Some(u64),
    Unreadable,
}

/// Digits; a number too large for a `u64` is an offset beyond the end of any file.
fn number(text: &str) -> Number {
    match text {
        "" => Number::None,
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => {
            Number::Some(digits.parse().unwrap_or(u64::MAX))
        }
        _ => Number::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_cut_to_the_file_and_anything_else_is_the_whole() {
        let part = |first, last| Range::Part { first, last };
        for (header, size, range) in [
            ("bytes=0-0", 10, part(0, 0)),
            ("bytes=2-5", 10, part(2, 5)),
            ("Bytes = 2-5", 10, part(2, 5)),
            ("bytes=2-", 10, part(2, 9)),
            ("bytes=2-99999999999999999999", 10, part(2, 9)),
            ("bytes=-3", 10, part(7, 9)),
            ("bytes=-30", 10, part(0, 9)),
            ("bytes=10-", 10, Range::Unsatisfiable),
            ("bytes=99999999999999999999-", 10, Range::Unsatisfiable),
            ("bytes=-0", 10, Range::Unsatisfiable),
            ("bytes=0-", 0, Range::Unsatisfiable),
            ("bytes=-1", 0, Range::Unsatisfiable),
            ("bytes=5-2", 10, Range::Whole),
            ("bytes=0-1,3-4", 10, Range::Whole),
            ("bytes=-", 10, Range::Whole),
            ("bytes=a-b", 10, Range::Whole),
            ("bytes=+1-2", 10, Range::Whole),
            ("bytes=--1", 10, Range::Whole),
            ("lines=1-2", 10, Range::Whole),
            ("bytes", 10, Range::Whole),
            ("", 10, Range::Whole),
        ] {
            assert_eq!(parse(header, size), range, "{header} of {size}");
        }
    }
}
