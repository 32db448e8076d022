//! Expressions of WHERE and FILTER: what a node must be like.

use std::{fmt, ops::Bound};

use regex_lite::Regex;

use crate::{
    kind::text_of,
    operand::{Operand, time_of},
    path::Path,
};

/// Bytes of a text that REGEX looks at: what a pattern takes grows with the text.
const MATCHED_BYTES_MAX: usize = 64 << 10;

/// What a node must be like.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Not(Box<Expression>),
    /// There is something at the path.
    Has(Path),
    /// A text at the path that is no time matches somewhere.
    Matches(Path, Regex),
    /// A value at the path is as the comparison says.
    Is(Path, Comparison),
}

/// What a value must be like.
#[derive(Debug, Clone)]
pub(crate) enum Comparison {
    /// Equal to one of these.
    One(Vec<Operand>),
    /// Between these, both numbers or both times.
    Between(Bound<Operand>, Bound<Operand>),
}

impl Comparison {
    pub(crate) fn holds(&self, value: &[u8]) -> bool {
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
    /// Whether a node is so; `root` is the record that it is a part of. Both are canonical JSON.
    pub(crate) fn holds(&self, node: &[u8], root: &[u8]) -> bool {
        let start = |path: &Path| if path.from_root { root } else { node };
        match self {
            Self::And(all) => all.iter().all(|one| one.holds(node, root)),
            Self::Or(any) => any.iter().any(|one| one.holds(node, root)),
            Self::Not(expression) => !expression.holds(node, root),
            Self::Has(path) => path.any(start(path), |_| true),
            Self::Matches(path, regex) => path.any(start(path), |value| {
                time_of(value).is_none() && text_of(value).is_some_and(|text| matches(regex, &text))
            }),
            Self::Is(path, comparison) => path.any(start(path), |value| comparison.holds(value)),
        }
    }

    /// What must hold, each by itself, for the whole to hold.
    pub(crate) fn conjuncts(&self) -> Vec<&Expression> {
        match self {
            Self::And(all) => all.iter().flat_map(Self::conjuncts).collect(),
            _ => vec![self],
        }
    }
}

fn matches(regex: &Regex, text: &str) -> bool {
    regex.is_match(&text[..text.floor_char_boundary(MATCHED_BYTES_MAX)])
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
            Self::Matches(path, regex) => write!(out, "REGEX({path} {:?})", regex.as_str()),
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
