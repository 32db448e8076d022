//! Adds run-time limits to compiled expressions: the size of an expanded range, the total number of items in nested loops, the length of a
//! text or list that gets a name (and can then be used repeatedly), the amount of text in fuzzy comparisons, and a deadline for loops.
//!
//! An expression is compiled to a list of operations with relative jumps. An operation that could exceed a limit is replaced by a jump
//! behind the end of the code, where its operands are checked first; another jump leads back. The code keeps its length, so all other jumps
//! stay valid.

use std::sync::Arc;

use rust_decimal::Decimal;
use zen_expression::{
    compiler::{Compare, Jump, Opcode},
    functions::{FunctionKind, InternalFunction},
};

use super::{
    clock::{CLOCK, LATE},
    program::Fault,
    value::ITEMS_MAX,
};

/// Maximum length of a text or list that an expression gives a name to.
pub(super) const TEXT_MAX: usize = 1 << 16;
/// Maximum nesting of loops.
const LOOPS_MAX: usize = 3;
/// Maximum product of the lengths of two nested loops.
pub(super) const LOOPED_MAX: usize = 1_000_000;
/// Maximum product of the lengths of the texts that `fuzzyMatch` compares, in bytes. Its running time is proportional to this product.
pub(super) const LIKENED_MAX: usize = 4_000_000;

/// Invalid operations that make the machine fail with these numbers in its message. The number identifies the limit.
const RANGE_MARK: u32 = 4_000_000_001;
const TEXT_MARK: u32 = 4_000_000_002;
const LOOPS_MARK: u32 = 4_000_000_003;
const LIKENED_MARK: u32 = 4_000_000_004;
const LATE_MARK: u32 = 4_000_000_005;

/// Returns the same code with limit checks.
pub(super) fn guarded(code: &[Opcode]) -> Result<Arc<[Opcode]>, String> {
    let mut kept = code.to_vec();
    let mut behind = Vec::new();
    // The first operation behind the original code skips everything after it.
    let start = code.len() + 1;
    let mut loops = 0_usize;
    for (at, operation) in code.iter().enumerate() {
        let (before, after) = match operation {
            Opcode::Interval { .. } if !is_small(code, at) => (range_guard(), Vec::new()),
            Opcode::AssignedObjectStep => (named_guard(), Vec::new()),
            Opcode::CallFunction {
                kind: FunctionKind::Internal(InternalFunction::FuzzyMatch),
                arg_count: 2,
            } => (likened_guard(), Vec::new()),
            // Every iteration of a loop ends with this operation.
            Opcode::IncrementIt => (Vec::new(), late_guard()),
            Opcode::Begin => {
                loops += 1;
                if loops > LOOPS_MAX {
                    return Err(format!("more than {LOOPS_MAX} loops are within one another"));
                }
                if loops == 1 {
                    continue;
                }
                loop_guard()
            }
            Opcode::End => {
                loops = loops.saturating_sub(1);
                continue;
            }
            _ => continue,
        };
        kept[at] = Opcode::Jump(Jump::Forward, (start + behind.len() - (at + 1)) as u32);
        behind.extend(before);
        behind.push(operation.clone());
        behind.extend(after);
        behind.push(Opcode::Jump(Jump::Backward, (start + behind.len() - at) as u32));
    }
    if !behind.is_empty() {
        kept.push(Opcode::Jump(Jump::Forward, behind.len() as u32));
        kept.append(&mut behind);
    }
    Ok(kept.into())
}

/// Maps an error message of the machine to a fault.
pub(super) fn fault_of(text: &str) -> Fault {
    if text.contains(&RANGE_MARK.to_string()) {
        Fault::Range
    } else if text.contains(&LOOPS_MARK.to_string()) {
        Fault::Loops
    } else if text.contains(&TEXT_MARK.to_string()) {
        Fault::Text
    } else if text.contains(&LIKENED_MARK.to_string()) {
        Fault::Likened
    } else if text.contains(&LATE_MARK.to_string()) {
        Fault::Late
    } else {
        Fault::Failed(text.to_owned())
    }
}

/// Whether a range has few numbers, or is only used in a membership test.
fn is_small(code: &[Opcode], at: usize) -> bool {
    if matches!(code.get(at + 1), Some(Opcode::In)) {
        return true;
    }
    match code[..at] {
        [.., Opcode::PushNumber(left), Opcode::PushNumber(right)] => right
            .checked_sub(left)
            .is_some_and(|count| count < Decimal::from(ITEMS_MAX)),
        _ => false,
    }
}

fn number(number: usize) -> Opcode {
    Opcode::PushNumber(Decimal::from(number))
}

/// The machine cannot read the same operand twice. Two operands are therefore wrapped as the only item of a list and a loop is opened over
/// it: inside the loop, the item can be read any number of times.
fn hold() -> [Opcode; 5] {
    [number(2), Opcode::Array, number(1), Opcode::Array, Opcode::Begin]
}

fn operand(which: usize) -> [Opcode; 3] {
    [Opcode::Pointer(0), number(which), Opcode::Fetch]
}

/// Pushes the operands back and closes the loop.
fn release() -> impl Iterator<Item = Opcode> {
    operand(0).into_iter().chain(operand(1)).chain([Opcode::End])
}

fn call(function: InternalFunction) -> Opcode {
    Opcode::CallFunction {
        kind: FunctionKind::Internal(function),
        arg_count: 1,
    }
}

/// Tests the type of an operand.
fn is_of(which: usize, name: &str) -> impl Iterator<Item = Opcode> {
    operand(which).into_iter().chain([
        call(InternalFunction::Type),
        Opcode::PushString(Arc::from(name)),
        Opcode::Equal,
    ])
}

/// Only ranges of numbers are checked: ranges of dates are never expanded.
fn range_guard() -> Vec<Opcode> {
    let mut guard = Vec::from(hold());
    guard.extend(is_of(0, "number"));
    guard.extend([Opcode::Not, Opcode::Jump(Jump::IfTrue, 12), Opcode::Pop]);
    guard.extend(operand(1));
    guard.extend(operand(0));
    guard.extend([
        Opcode::Subtract,
        number(ITEMS_MAX),
        Opcode::Compare(Compare::Less),
    ]);
    // The first jump leads to the last of these operations too.
    guard.extend([
        Opcode::Jump(Jump::IfTrue, 1),
        Opcode::Pointer(RANGE_MARK),
        Opcode::Pop,
    ]);
    guard.extend(release());
    guard
}

/// Before a nested loop begins, the length of the outer loop is pushed below the inner list. Once the loop has begun, both lengths are
/// known.
fn loop_guard() -> (Vec<Opcode>, Vec<Opcode>) {
    let mut before = vec![Opcode::GetLen];
    before.extend(hold());
    before.extend(operand(1));
    before.extend(operand(0));
    before.push(Opcode::End);
    let after = vec![
        Opcode::GetLen,
        Opcode::Multiply,
        number(LOOPED_MAX),
        Opcode::Compare(Compare::LessOrEqual),
        Opcode::Jump(Jump::IfTrue, 1),
        Opcode::Pointer(LOOPS_MARK),
        Opcode::Pop,
    ];
    (before, after)
}

/// The first operand is a text or a list of texts.
fn likened_guard() -> Vec<Opcode> {
    let mut guard = Vec::from(hold());
    guard.extend(is_of(1, "string"));
    guard.extend([Opcode::Jump(Jump::IfFalse, 20), Opcode::Pop]);
    let nothing = || Opcode::PushString(Arc::from(""));
    guard.push(nothing());
    guard.extend(operand(0));
    guard.extend([
        number(2),
        Opcode::Array,
        Opcode::Flatten,
        nothing(),
        Opcode::Join,
        call(InternalFunction::Len),
    ]);
    guard.extend(operand(1));
    guard.extend([
        call(InternalFunction::Len),
        Opcode::Multiply,
        number(LIKENED_MAX),
        Opcode::Compare(Compare::LessOrEqual),
        Opcode::Jump(Jump::IfTrue, 1),
        Opcode::Pointer(LIKENED_MARK),
    ]);
    // The first jump leads here too.
    guard.push(Opcode::Pop);
    guard.extend(release());
    guard
}

fn late_guard() -> Vec<Opcode> {
    vec![
        Opcode::FetchEnv(Arc::from(CLOCK)),
        call(InternalFunction::Type),
        Opcode::PushString(Arc::from(LATE)),
        Opcode::Equal,
        Opcode::Jump(Jump::IfFalse, 1),
        Opcode::Pointer(LATE_MARK),
        Opcode::Pop,
    ]
}

fn named_guard() -> Vec<Opcode> {
    let mut guard = Vec::from(hold());
    guard.extend(is_of(1, "string"));
    guard.extend([Opcode::Jump(Jump::IfTrue, 8), Opcode::Pop]);
    guard.extend(is_of(1, "array"));
    guard.push(Opcode::Jump(Jump::IfFalse, 9));
    // Reached with true on the stack.
    guard.push(Opcode::Pop);
    guard.extend(operand(1));
    guard.extend([
        call(InternalFunction::Len),
        number(TEXT_MAX),
        Opcode::Compare(Compare::LessOrEqual),
        Opcode::Jump(Jump::IfTrue, 1),
        Opcode::Pointer(TEXT_MARK),
    ]);
    guard.push(Opcode::Pop);
    guard.extend(release());
    guard
}
