//! Expressions of WHERE and FILTER: conditions on nodes.

use std::{fmt, ops::Bound};

use regex_lite::{Regex, RegexBuilder};

use crate::{
    kind::text_of,
    number::is_number,
    operand::{Operand, time_of},
    path::Path,
    settings::Detect,
    work::Work,
};

/// Bytes of a text that REGEX examines: matching time grows with the text.
const MATCHED_BYTES_MAX: usize = 64 << 10;
/// Smallest and largest memory limit of a compiled pattern, in bytes.
const PATTERN_BYTES_MIN: usize = 512;
const PATTERN_BYTES_MAX: usize = 64 << 10;
/// Pattern memory for which matching one byte of text takes about as long as skipping a byte of JSON.
const STATE_BYTES: usize = 4;
/// Work counted for a comparison with a value, in addition to the digits of a number.
const COMPARISON_WORK: usize = 16;

/// A condition on a node.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Not(Box<Expression>),
    /// The path leads to a value.
    Has(Path),
    /// The pattern matches somewhere in a text at the path that is not taken for a time.
    Matches(Path, Pattern),
    /// The comparison holds for a value at the path.
    Is(Path, Comparison),
}

/// A compiled REGEX pattern.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    regex: Regex,
    /// Which texts are times, which are not matched.
    detect: Detect,
    /// Work counted for each byte of text: the engine may have to visit all states of the pattern.
    weight: usize,
}

impl Pattern {
    /// Compiles a pattern, with the smallest memory limit that suffices.
    pub(crate) fn new(text: &str, detect: Detect) -> Result<Self, regex_lite::Error> {
        let mut bytes = PATTERN_BYTES_MIN;
        loop {
            match RegexBuilder::new(text).size_limit(bytes).build() {
                Ok(regex) => {
                    let weight = bytes / STATE_BYTES;
                    return Ok(Self {
                        regex,
                        detect,
                        weight,
                    });
                }
                Err(error) if bytes == PATTERN_BYTES_MAX => return Err(error),
                Err(_) => bytes *= 2,
            }
        }
    }

    fn matches(&self, value: &[u8], work: &Work) -> bool {
        let Some(text) = text_of(value).filter(|_| time_of(value, self.detect).is_none()) else {
            return false;
        };
        let text = &text[..text.floor_char_boundary(MATCHED_BYTES_MAX)];
        work.take((text.len() + 2) * self.weight) && self.regex.is_match(text)
    }
}

/// A condition on a value.
#[derive(Debug, Clone)]
pub(crate) enum Comparison {
    /// Equal to any of these.
    One(Vec<Operand>),
    /// Within these bounds, both numbers or both times.
    Between(Bound<Operand>, Bound<Operand>),
}

impl Comparison {
    fn holds(&self, value: &[u8], work: &Work) -> bool {
        let operands = match self {
            Self::One(operands) => operands.len(),
            Self::Between(..) => 2,
        };
        let digits = if is_number(value) { value.len() } else { 0 };
        if !work.take(operands.saturating_mul(COMPARISON_WORK + digits)) {
            return false;
        }
        match self {
            Self::One(operands) => operands.iter().any(|operand| operand.equals(value)),
            Self::Between(from, to) => {
                let from = match from {
                    Bound::Included(from) => from.order_of(value).is_some_and(std::cmp::Ordering::is_ge),
                    Bound::Excluded(from) => from.order_of(value).is_some_and(std::cmp::Ordering::is_gt),
                    Bound::Unbounded => true,
                };
                from && match to {
                    Bound::Included(to) => to.order_of(value).is_some_and(std::cmp::Ordering::is_le),
                    Bound::Excluded(to) => to.order_of(value).is_some_and(std::cmp::Ordering::is_lt),
                    Bound::Unbounded => true,
                }
            }
        }
    }
}

impl Expression {
    /// Whether a node satisfies the expression; `root` is the record that contains it. Both are canonical JSON. The
    /// result is meaningless once the work is spent.
    pub(crate) fn holds(&self, node: &[u8], root: &[u8], work: &Work) -> bool {
        let start = |path: &Path| if path.from_root { root } else { node };
        match self {
            Self::And(all) => all.iter().all(|one| one.holds(node, root, work)),
            Self::Or(any) => any.iter().any(|one| one.holds(node, root, work)),
            Self::Not(expression) => !expression.holds(node, root, work),
            Self::Has(path) => path.any(start(path), work, |_| true),
            Self::Matches(path, pattern) => path.any(start(path), work, |value| pattern.matches(value, work)),
            Self::Is(path, comparison) => path.any(start(path), work, |value| comparison.holds(value, work)),
        }
    }

    /// The conditions that must all hold for the whole to hold.
    pub(crate) fn conjuncts(&self) -> Vec<&Expression> {
        match self {
            Self::And(all) => all.iter().flat_map(Self::conjuncts).collect(),
            _ => vec![self],
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |out: &mut fmt::Formatter<'_>, name: &str, all: &[Expression]| {
            write!(out, "{name}(")?;
            for (at, one) in all.iter().enumerate() {
                write!(out, "{}{one}", if at == 0 { "" } else { " " })?;
            }
            out.write_str(")")
        };
        match self {
            Self::And(each) => all(out, "AND", each),
            Self::Or(each) => all(out, "OR", each),
            Self::Not(one) => write!(out, "NOT({one})"),
            Self::Has(path) => write!(out, "HAS({path})"),
            Self::Matches(path, pattern) => write!(out, "REGEX({path} {:?})", pattern.regex.as_str()),
            Self::Is(path, Comparison::One(operands)) => match &operands[..] {
                [one] => write!(out, "EQ({path} {one})"),
                several => {
                    write!(out, "IN({path}")?;
                    for operand in several {
                        write!(out, " {operand}")?;
                    }
                    out.write_str(")")
                }
            },
            Self::Is(path, Comparison::Between(from, to)) => match (from, to) {
                (Bound::Included(from), Bound::Unbounded) => write!(out, "GTE({path} {from})"),
                (Bound::Excluded(from), Bound::Unbounded) => write!(out, "GT({path} {from})"),
                (Bound::Unbounded, Bound::Included(to)) => write!(out, "LTE({path} {to})"),
                (Bound::Unbounded, Bound::Excluded(to)) => write!(out, "LT({path} {to})"),
                (Bound::Unbounded, Bound::Unbounded) => write!(out, "HAS({path})"),
                (
                    Bound::Included(least) | Bound::Excluded(least),
                    Bound::Included(most) | Bound::Excluded(most),
                ) => {
                    let included = |bound: &Bound<Operand>| matches!(bound, Bound::Included(_));
                    write!(
                        out,
                        "BETWEEN({path} {least} {most} {} {})",
                        included(from),
                        included(to)
                    )
                }
            },
        }
    }
}
