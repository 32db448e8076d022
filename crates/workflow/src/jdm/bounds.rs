//! Bounds that compiled expressions have to keep: how many numbers a range may become when something goes over it, how many items loops within one another may go over, how long a text or a list may be that an
//! expression gives a name to, to use it again and again, how much text is compared for its likeness, and until when loops may turn.
//!
//! The code of an expression is a list of operations, whose jumps say how far they go. An operation that could make too much is replaced by a jump behind the end of the code, where its operands are looked at first;
//! from there a jump leads back. So all other jumps stay right.

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

/// Longest text, and longest list, that an expression gives a name to.
pub(super) const TEXT_MAX: usize = 1 << 16;
/// Loops within one another.
const LOOPS_MAX: usize = 3;
/// Most items of a loop, as often as the loop around it turns.
pub(super) const LOOPED_MAX: usize = 1_000_000;
/// Most bytes of text that `fuzzyMatch` compares, those of one side multiplied by those of the other: its time goes by that.
pub(super) const LIKENED_MAX: usize = 4_000_000;

/// Operations that fail with these numbers in their message are those that a bound has put there.
const RANGE_MARK: u32 = 4_000_000_001;
const TEXT_MARK: u32 = 4_000_000_002;
const LOOPS_MARK: u32 = 4_000_000_003;
const LIKENED_MARK: u32 = 4_000_000_004;
const LATE_MARK: u32 = 4_000_000_005;

/// The same code, within its bounds.
pub(super) fn guarded(code: &[Opcode]) -> Result<Arc<[Opcode]>, String> {
    let mut kept = code.to_vec();
    let mut behind = Vec::new();
    // The first operation behind the code leads over all that follow it.
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
            // Each loop ends its turns with this.
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

/// Why an expression failed, by what the machine says.
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

/// Whether a range is only asked whether something is in it, or has few numbers.
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

/// The machine cannot look at the same operand twice. So two of them become the one item of a list that is gone over: in each turn it can be had as often as it is asked for.
fn hold() -> [Opcode; 5] {
    [number(2), Opcode::Array, number(1), Opcode::Array, Opcode::Begin]
}

fn operand(which: usize) -> [Opcode; 3] {
    [Opcode::Pointer(0), number(which), Opcode::Fetch]
}

/// Puts the operands back.
fn release() -> impl Iterator<Item = Opcode> {
    operand(0).into_iter().chain(operand(1)).chain([Opcode::End])
}

fn call(function: InternalFunction) -> Opcode {
    Opcode::CallFunction {
        kind: FunctionKind::Internal(function),
        arg_count: 1,
    }
}

/// Whether an operand is of a type.
fn is_of(which: usize, name: &str) -> impl Iterator<Item = Opcode> {
    operand(which).into_iter().chain([
        call(InternalFunction::Type),
        Opcode::PushString(Arc::from(name)),
        Opcode::Equal,
    ])
}

/// Ranges of dates are never gone over.
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
    // One operation further than this is where the first jump leads too.
    guard.extend([
        Opcode::Jump(Jump::IfTrue, 1),
        Opcode::Pointer(RANGE_MARK),
        Opcode::Pop,
    ]);
    guard.extend(release());
    guard
}

/// Before a loop in another begins, the length of the one around it is put under its list; when it has begun, both lengths are known.
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

/// The first operand is a text, or a list of texts.
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
    // Here with true on the stack.
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
