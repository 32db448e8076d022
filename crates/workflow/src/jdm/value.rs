//! Values of expressions: conversion from and to JSON, assignment at paths, merging, and size limits.
//!
//! Nodes share parts of values. Functions here modify a value in place only if they hold the sole reference, and copy it otherwise.

use std::rc::Rc;

use rust_decimal::{
    Decimal,
    prelude::{FromPrimitive as _, ToPrimitive as _},
};
use serde_json::{Map, Number, Value};
use thiserror::Error;
use zen_expression::{
    Variable,
    variable::{RcCell, Symbol, VariableMap},
};

/// Maximum number of items in a list that a node loops over, and of numbers in a range that an expression expands.
pub const ITEMS_MAX: usize = 10_000;
/// Maximum nesting of values.
const DEPTH_MAX: usize = 128;
/// Maximum number of values within a value. Shared values count once for each occurrence.
const PARTS_MAX: usize = 1_000_000;
/// Maximum total size of the texts within a value.
const TEXT_MAX_BYTES: usize = 64 << 20;
/// Maximum number of members in a path.
const PATH_MAX: usize = 32;

/// The variable through which nodes read the results of others. Never a part of a result.
pub(super) const NODES: &str = "$nodes";

/// The size limit that a value exceeds.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Excess {
    /// It is nested too deeply.
    #[error("a value has more than {DEPTH_MAX} others within one another")]
    Depth,
    /// It contains too many values.
    #[error("a value has more than {PARTS_MAX} others in it")]
    Parts,
    /// It contains too much text.
    #[error("a value has more than {TEXT_MAX_BYTES} bytes of text in it")]
    Text,
    /// A number is outside the range of a 96-bit decimal.
    #[error("a number is beyond ±7.9e28")]
    Number,
}

/// Converts JSON to a value of expressions, without `$nodes`. Numbers become decimals of up to 28 places.
pub fn from_json(value: Value) -> Result<Variable, Excess> {
    read(value, DEPTH_MAX)
}

fn read(value: Value, depth: usize) -> Result<Variable, Excess> {
    let inner = || depth.checked_sub(1).ok_or(Excess::Depth);
    Ok(match value {
        Value::Null => Variable::Null,
        Value::Bool(is_true) => Variable::Bool(is_true),
        Value::Number(number) => Variable::Number(decimal(&number).ok_or(Excess::Number)?),
        Value::String(text) => Variable::String(Symbol::from(text)),
        Value::Array(items) => {
            let depth = inner()?;
            let items = items.into_iter().map(|item| read(item, depth));
            Variable::from_array(items.collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let depth = inner()?;
            let mut map = VariableMap::with_capacity(members.len());
            for (name, value) in members.into_iter().filter(|(name, _)| name != NODES) {
                map.insert(Symbol::from(name), read(value, depth)?);
            }
            Variable::from_object(map)
        }
    })
}

fn decimal(number: &Number) -> Option<Decimal> {
    if let Some(number) = number.as_u64() {
        return Some(Decimal::from(number));
    }
    match number.as_i64() {
        Some(number) => Some(Decimal::from(number)),
        None => Decimal::from_f64(number.as_f64()?),
    }
}

/// Converts a value of expressions to JSON, without `$nodes`. Dates and ranges become text.
pub fn to_json(value: &Variable) -> Value {
    match value {
        Variable::Null => Value::Null,
        Variable::Bool(is_true) => Value::Bool(*is_true),
        Variable::Number(number) => number_of(number),
        Variable::String(text) => Value::String(text.as_str().to_owned()),
        Variable::Array(items) => Value::Array(items.borrow().iter().map(to_json).collect()),
        Variable::Object(members) => {
            let members = members.borrow();
            let members = members.iter().filter(|(name, _)| name.as_str() != NODES);
            let members = members.map(|(name, value)| (name.as_str().to_owned(), to_json(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Variable::Dynamic(other) => Value::String(other.to_string()),
    }
}

fn number_of(number: &Decimal) -> Value {
    if number.is_integer() {
        if let Some(number) = number.to_i64() {
            return number.into();
        }
        if let Some(number) = number.to_u64() {
            return number.into();
        }
    }
    // Every decimal can be approximated by a 64-bit float.
    number.to_string().parse::<f64>().unwrap_or_default().into()
}

/// Checks a value against the size limits.
pub(super) fn measure(value: &Variable) -> Result<(), Excess> {
    let mut left = Left {
        parts: PARTS_MAX,
        text: TEXT_MAX_BYTES,
    };
    left.take(value, DEPTH_MAX)
}

/// The remaining allowance.
struct Left {
    parts: usize,
    text: usize,
}

impl Left {
    fn take(&mut self, value: &Variable, depth: usize) -> Result<(), Excess> {
        self.parts = self.parts.checked_sub(1).ok_or(Excess::Parts)?;
        match value {
            Variable::String(text) => self.take_text(text.as_str()),
            Variable::Array(items) => {
                let depth = depth.checked_sub(1).ok_or(Excess::Depth)?;
                items.borrow().iter().try_for_each(|item| self.take(item, depth))
            }
            Variable::Object(members) => {
                let depth = depth.checked_sub(1).ok_or(Excess::Depth)?;
                members.borrow().iter().try_for_each(|(name, value)| {
                    self.take_text(name.as_str())?;
                    self.take(value, depth)
                })
            }
            Variable::Null | Variable::Bool(_) | Variable::Number(_) | Variable::Dynamic(_) => Ok(()),
        }
    }

    fn take_text(&mut self, text: &str) -> Result<(), Excess> {
        self.text = self.text.checked_sub(text.len()).ok_or(Excess::Text)?;
        Ok(())
    }
}

/// A path of nested members.
#[derive(Clone, Debug)]
pub(super) struct Path(Box<[Box<str>]>);

impl Path {
    /// Parses a path with dots between its members; fails if it has too many.
    pub(super) fn of(text: &str) -> Result<Self, String> {
        let path: Box<[Box<str>]> = text.split('.').map(Box::from).collect();
        if path.len() > PATH_MAX {
            return Err(format!("it has {} members, at most {PATH_MAX}", path.len()));
        }
        Ok(Self(path))
    }

    /// Assigns a value. Does nothing if a value without members is in the way.
    pub(super) fn lay(&self, object: &RcCell<VariableMap>, value: Variable) {
        lay(object, &self.0, value);
    }
}

fn lay(object: &RcCell<VariableMap>, path: &[Box<str>], value: Variable) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        object.borrow_mut().insert(Symbol::from(&**name), value);
        return;
    }
    let there = object.borrow().get_str(name).cloned();
    let inner = match there {
        None => RcCell::default(),
        // The only references are the object's and `there`, so it can be modified in place.
        Some(Variable::Object(inner)) if Rc::strong_count(&inner) == 2 => return lay(&inner, rest, value),
        Some(Variable::Object(inner)) => copied(&inner),
        Some(_) => return,
    };
    lay(&inner, rest, value);
    let inner = Variable::Object(inner);
    object.borrow_mut().insert(Symbol::from(&**name), inner);
}

/// A new object with the same members.
pub(super) fn copied(object: &RcCell<VariableMap>) -> RcCell<VariableMap> {
    let members = object.borrow().clone();
    RcCell::new(members.into())
}

/// Merges `over` into `under`: members of objects are merged recursively, a null member is removed, a list or an object replaces anything
/// else, and any other value is ignored.
pub(super) fn merged(under: Variable, over: &Variable) -> Variable {
    match (under, over) {
        (Variable::Object(under), Variable::Object(over)) => Variable::Object(merged_members(under, over)),
        (_, Variable::Array(_) | Variable::Object(_)) => over.clone(),
        (under, _) => under,
    }
}

fn merged_members(under: RcCell<VariableMap>, over: &RcCell<VariableMap>) -> RcCell<VariableMap> {
    if Rc::ptr_eq(&under, over) {
        return under;
    }
    let merged = if Rc::strong_count(&under) == 1 {
        under
    } else {
        copied(&under)
    };
    let mut members = merged.borrow_mut();
    for (name, value) in over.borrow().iter() {
        if matches!(value, Variable::Null) {
            members.remove(name);
            continue;
        }
        let there = match value {
            Variable::Object(_) => members.get(name).cloned(),
            _ => None,
        };
        let value = match (there, value) {
            (Some(Variable::Object(inner)), Variable::Object(value)) => {
                Variable::Object(merged_members(inner, value))
            }
            _ => value.clone(),
        };
        members.insert(name.clone(), value);
    }
    drop(members);
    merged
}
