//! Configurations of custom nodes. Texts in them may be templates, such as `{{ amount * 2 }}`, which are evaluated for the node's input.

use serde_json::{Map, Value};
use zen_expression::{Scope, Variable};

use super::{
    program::{Compiler, Fault, Machine, Program},
    table::CellError,
    value::to_json,
};
use crate::object::shortened;

/// A configuration with its templates compiled.
#[derive(Clone, Debug)]
pub(super) enum Config {
    /// A value without templates.
    Plain(Value),
    Text(Box<[Part]>),
    List(Box<[Config]>),
    Object(Box<[(Box<str>, Config)]>),
}

/// A part of a template.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Text(Box<str>),
    Expression(Program),
}

impl Config {
    /// Compiles the templates of a configuration; `place` is its path in the node. A text that is no template stays as it is, with a warning
    /// if it has the brackets of one.
    pub(super) fn compile(
        written: &Value,
        place: &str,
        compiler: &mut Compiler,
        warnings: &mut Vec<CellError>,
    ) -> Self {
        match written {
            Value::String(text) => match parts(text.trim(), compiler) {
                Ok(Some(parts)) => Self::Text(parts),
                Ok(None) => Self::Plain(written.clone()),
                Err(reason) => {
                    warnings.push(CellError {
                        place: place.to_owned(),
                        text: shortened(text),
                        reason,
                    });
                    Self::Plain(written.clone())
                }
            },
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let items = items.map(|(index, item)| {
                    Self::compile(item, &format!("{place}[{index}]"), compiler, warnings)
                });
                let items: Box<[_]> = items.collect();
                if items.iter().all(Self::is_plain) {
                    Self::Plain(written.clone())
                } else {
                    Self::List(items)
                }
            }
            Value::Object(members) => {
                let members = members.iter().map(|(name, member)| {
                    let member = Self::compile(member, &format!("{place}.{name}"), compiler, warnings);
                    (name.as_str().into(), member)
                });
                let members: Box<[_]> = members.collect();
                let is_plain = members.iter().all(|(_, member)| member.is_plain());
                if is_plain {
                    Self::Plain(written.clone())
                } else {
                    Self::Object(members)
                }
            }
            _ => Self::Plain(written.clone()),
        }
    }

    fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Evaluates the templates. Fails with the text of the first expression that has no value.
    pub(super) fn evaluate(&self, scope: &Scope, machine: &mut Machine) -> Result<Value, (String, Fault)> {
        match self {
            Self::Plain(value) => Ok(value.clone()),
            Self::Text(parts) => {
                let mut value = |program: &Program| {
                    let value = machine.value(program, scope);
                    value.map_err(|fault| (shortened(&program.text), fault))
                };
                // An expression alone keeps the type of its value.
                if let [Part::Expression(program)] = &**parts {
                    return Ok(to_json(&value(program)?));
                }
                let mut text = String::new();
                for part in parts {
                    match part {
                        Part::Text(part) => text.push_str(part),
                        Part::Expression(program) => match value(program)? {
                            Variable::String(value) => text.push_str(value.as_str()),
                            value => text.push_str(&value.to_string()),
                        },
                    }
                }
                Ok(Value::String(text))
            }
            Self::List(items) => items.iter().map(|item| item.evaluate(scope, machine)).collect(),
            Self::Object(members) => {
                let members = members
                    .iter()
                    .map(|(name, member)| Ok((name.to_string(), member.evaluate(scope, machine)?)));
                Ok(Value::Object(members.collect::<Result<Map<_, _>, _>>()?))
            }
        }
    }
}

/// The parts of a template; `None` if the text has no brackets of one.
fn parts(text: &str, compiler: &mut Compiler) -> Result<Option<Box<[Part]>>, String> {
    if !text.contains("{{") {
        return Ok(None);
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{") {
        let (expression, after) = behind.split_once("}}").ok_or("`}}` is missing")?;
        if !before.is_empty() {
            parts.push(Part::Text(before.into()));
        }
        let program = compiler.standard(expression).map_err(|error| error.to_string())?;
        parts.push(Part::Expression(program));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.into()));
    }
    Ok(Some(parts.into()))
}
