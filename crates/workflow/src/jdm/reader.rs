//! Typed access to members of JSON objects, with the location of each for error messages.

use serde_json::{Map, Value};

use crate::DefinitionError;

/// Maximum length of a wrong value in an error message, in characters.
const SHOWN_MAX: usize = 60;

/// A JSON object and its location.
#[derive(Clone, Debug)]
pub(super) struct Object<'v> {
    pub(super) at: String,
    members: &'v Map<String, Value>,
}

impl<'v> Object<'v> {
    /// `within` names the enclosing object, `at` is the object's own location.
    pub(super) fn new(within: &str, at: String, value: &'v Value) -> Result<Self, DefinitionError> {
        match value {
            Value::Object(members) => Ok(Self { at, members }),
            _ => Err(DefinitionError::Unexpected {
                at: within.to_owned(),
                member: at,
                found: shown(value),
                expected: "an object",
            }),
        }
    }

    pub(super) fn get(&self, member: &str) -> Option<&'v Value> {
        self.members.get(member).filter(|value| !value.is_null())
    }

    pub(super) fn unexpected(&self, member: &str, expected: &'static str) -> DefinitionError {
        DefinitionError::Unexpected {
            at: self.at.clone(),
            member: member.to_owned(),
            found: self
                .members
                .get(member)
                .map_or_else(|| "nothing".to_owned(), shown),
            expected,
        }
    }

    pub(super) fn missing(&self, member: &'static str) -> DefinitionError {
        let at = self.at.clone();
        DefinitionError::Missing { at, member }
    }

    /// A text; empty if the member is missing.
    pub(super) fn text(&self, member: &str) -> Result<&'v str, DefinitionError> {
        match self.get(member) {
            None => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(self.unexpected(member, "text")),
        }
    }

    /// A text, or `None` if it is missing or blank.
    pub(super) fn said(&self, member: &'static str) -> Result<Option<&'v str>, DefinitionError> {
        Ok(Some(self.text(member)?).filter(|text| !text.trim().is_empty()))
    }

    pub(super) fn needed(&self, member: &'static str) -> Result<&'v str, DefinitionError> {
        match self.get(member) {
            None => Err(self.missing(member)),
            Some(Value::String(text)) if !text.is_empty() => Ok(text),
            Some(_) => Err(self.unexpected(member, "text that is not empty")),
        }
    }

    pub(super) fn flag(&self, member: &'static str) -> Result<bool, DefinitionError> {
        match self.get(member) {
            None => Ok(false),
            Some(Value::Bool(is_set)) => Ok(*is_set),
            Some(_) => Err(self.unexpected(member, "true or false")),
        }
    }

    pub(super) fn object(&self, member: &'static str) -> Result<Object<'v>, DefinitionError> {
        let value = self.members.get(member).ok_or_else(|| self.missing(member))?;
        match value {
            Value::Object(members) => Ok(Object {
                at: format!("{}.{member}", self.at),
                members,
            }),
            _ => Err(self.unexpected(member, "an object")),
        }
    }

    pub(super) fn list<T>(
        &self,
        member: &'static str,
        max: usize,
        read: impl Fn(&Object<'v>) -> Result<T, DefinitionError>,
    ) -> Result<Vec<T>, DefinitionError> {
        let list = match self.members.get(member) {
            None => return Err(self.missing(member)),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(self.unexpected(member, "a list")),
        };
        if list.len() > max {
            return Err(DefinitionError::TooMany {
                what: member,
                found: list.len(),
                max,
            });
        }
        let place = |index| format!("{member}[{index}]");
        let items = list.iter().enumerate();
        items
            .map(|(index, value)| {
                let mut object = Object::new(&self.at, place(index), value)?;
                if self.at != DOCUMENT {
                    object.at = format!("{}.{}", self.at, object.at);
                }
                read(&object)
            })
            .collect()
    }
}

/// The location of objects that no other object contains.
pub(super) const DOCUMENT: &str = "the document";

/// A text for an error message, shortened.
pub(super) fn shortened(text: &str) -> String {
    crate::shortened(text, SHOWN_MAX)
}

fn shown(value: &Value) -> String {
    shortened(&value.to_string())
}
