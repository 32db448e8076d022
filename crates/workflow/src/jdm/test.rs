//! Tests of table cells that can be decided without running an expression.

use std::sync::Arc;

use rust_decimal::Decimal;
use zen_expression::{
    Variable,
    compiler::{Compare, Jump, Opcode},
    lexer::Bracket,
};

use super::program::DOLLAR;

/// Maximum number of joined tests in a cell.
const JOINED_MAX: usize = 64;

/// A literal in a cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Literal {
    Text(Arc<str>),
    Number(Decimal),
    Bool(bool),
}

/// A condition on a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    Is(Literal),
    Compares(Compare, Decimal),
    /// The value is between two numbers. Each bound may be inclusive or exclusive.
    Between {
        left: Decimal,
        is_left_in: bool,
        right: Decimal,
        is_right_in: bool,
    },
    Any(Vec<Test>),
    All(Vec<Test>),
}

impl Test {
    /// Extracts the test from the code of a unary expression, if it is simple enough.
    pub(super) fn of(code: &[Opcode]) -> Option<Self> {
        let (first, length) = Self::simple(code)?;
        let mut rest = &code[length..];
        let joint = match rest.first() {
            None => return Some(first),
            Some(Opcode::Jump(joint @ (Jump::IfTrue | Jump::IfFalse), _)) => *joint,
            Some(_) => return None,
        };
        // Tests joined by the same operator throughout. A jump then only skips tests that can no longer change the result.
        let mut tests = vec![first];
        while let Some((jump, after)) = rest.split_first() {
            let Opcode::Jump(found, _) = jump else { return None };
            let (Opcode::Pop, after) = after.split_first()? else {
                return None;
            };
            if *found != joint || tests.len() == JOINED_MAX {
                return None;
            }
            let (test, length) = Self::simple(after)?;
            tests.push(test);
            rest = &after[length..];
        }
        Some(if joint == Jump::IfTrue {
            Self::Any(tests)
        } else {
            Self::All(tests)
        })
    }

    fn simple(code: &[Opcode]) -> Option<(Self, usize)> {
        match code {
            [Opcode::FetchEnv(name), rest @ ..] if **name == *DOLLAR => match rest {
                [Opcode::PushString(text), Opcode::Equal, ..] => {
                    Some((Self::Is(Literal::Text(Arc::clone(text))), 3))
                }
                [Opcode::PushNumber(number), Opcode::Equal, ..] => {
                    Some((Self::Is(Literal::Number(*number)), 3))
                }
                [Opcode::PushBool(is_true), Opcode::Equal, ..] => {
                    Some((Self::Is(Literal::Bool(*is_true)), 3))
                }
                [Opcode::PushNumber(number), Opcode::Compare(compare), ..] => {
                    Some((Self::Compares(*compare, *number), 3))
                }
                [
                    Opcode::PushNumber(left),
                    Opcode::PushNumber(right),
                    Opcode::Interval {
                        left_bracket,
                        right_bracket,
                    },
                    Opcode::In,
                    ..,
                ] => {
                    let is_left_in = match left_bracket {
                        Bracket::LeftSquareBracket => true,
                        Bracket::LeftParenthesis => false,
                        _ => return None,
                    };
                    let is_right_in = match right_bracket {
                        Bracket::RightSquareBracket => true,
                        Bracket::RightParenthesis => false,
                        _ => return None,
                    };
                    let between = Self::Between {
                        left: *left,
                        is_left_in,
                        right: *right,
                        is_right_in,
                    };
                    Some((between, 5))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The literals that satisfy the test, if nothing else does.
    pub(super) fn literals(&self) -> Option<Vec<&Literal>> {
        match self {
            Self::Is(literal) => Some(vec![literal]),
            Self::Any(tests) => tests
                .iter()
                .map(|test| match test {
                    Self::Is(literal) => Some(literal),
                    _ => None,
                })
                .collect(),
            _ => None,
        }
    }

    /// Decides the test. `None` if the expression itself has to decide, as for dates.
    pub(super) fn decide(&self, value: &Variable) -> Option<bool> {
        match (self, value) {
            (_, Variable::Dynamic(_)) => None,
            (Self::Is(literal), value) => Some(match (literal, value) {
                (Literal::Text(text), Variable::String(value)) => **text == *value.as_str(),
                (Literal::Number(number), Variable::Number(value)) => number == value,
                (Literal::Bool(is_true), Variable::Bool(value)) => is_true == value,
                _ => false,
            }),
            (Self::Compares(compare, number), Variable::Number(value)) => Some(match compare {
                Compare::More => value > number,
                Compare::MoreOrEqual => value >= number,
                Compare::Less => value < number,
                Compare::LessOrEqual => value <= number,
            }),
            (
                Self::Between {
                    left,
                    is_left_in,
                    right,
                    is_right_in,
                },
                Variable::Number(value),
            ) => Some(
                (left < value || (*is_left_in && left == value))
                    && (value < right || (*is_right_in && value == right)),
            ),
            (Self::Any(tests), value) => {
                for test in tests {
                    if test.decide(value)? {
                        return Some(true);
                    }
                }
                Some(false)
            }
            (Self::All(tests), value) => {
                for test in tests {
                    if !test.decide(value)? {
                        return Some(false);
                    }
                }
                Some(true)
            }
            (Self::Compares(..) | Self::Between { .. }, _) => None,
        }
    }
}
