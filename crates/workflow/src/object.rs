//! Typed access to members of JSON objects, with the location of each for error messages.

use std::{cell::RefCell, collections::BTreeSet, ops::RangeInclusive};

use serde_json::{Map, Value};

use crate::DefinitionError;

/// Maximum length of a wrong value in an error message, in characters.
const SHOWN_MAX: usize = 60;

/// A JSON object and its location. A member that is null counts as missing.
pub(crate) struct Object<'v> {
    pub(crate) at: String,
    pub(crate) members: &'v Map<String, Value>,
    /// The members that were looked for.
    known: RefCell<BTreeSet<&'static str>>,
}

impl<'v> Object<'v> {
    /// `within` names the enclosing object, `at` is the object's own location.
    pub(crate) fn new(within: &str, at: String, value: &'v Value) -> Result<Self, DefinitionError> {
        match value {
            Value::Object(members) => Ok(Self {
                at,
                members,
                known: RefCell::default(),
            }),
            _ => Err(DefinitionError::Unexpected {
                at: within.to_owned(),
                member: at,
                found: shown(value),
                expected: "an object",
            }),
        }
    }

    pub(crate) fn get(&self, member: &'static str) -> Option<&'v Value> {
        self.known.borrow_mut().insert(member);
        self.members.get(member).filter(|value| !value.is_null())
    }

    /// A warning if there are members that were not looked for.
    pub(crate) fn ignored(&self, id: &str, kind: &str) -> Option<String> {
        let known = self.known.borrow();
        let ignored: Vec<_> = self
            .members
            .keys()
            .filter(|member| !known.contains(&***member))
            .map(|member| format!("`{member}`"))
            .collect();
        let accepted: Vec<_> = known.iter().copied().collect();
        (!ignored.is_empty()).then(|| {
            let (ignored, accepted) = (ignored.join(", "), accepted.join(", "));
            format!("node `{id}` ({kind}): {ignored} without effect: there are {accepted}")
        })
    }

    pub(crate) fn unexpected(&self, member: &str, expected: &'static str) -> DefinitionError {
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

    pub(crate) fn missing(&self, member: &'static str) -> DefinitionError {
        let at = self.at.clone();
        DefinitionError::Missing { at, member }
    }

    pub(crate) fn text(&self, member: &'static str) -> Result<Option<&'v str>, DefinitionError> {
        match self.get(member) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.unexpected(member, "text")),
        }
    }

    /// A text, or `None` if it is missing or blank.
    pub(crate) fn filled(&self, member: &'static str) -> Result<Option<&'v str>, DefinitionError> {
        Ok(self.text(member)?.filter(|text| !text.trim().is_empty()))
    }

    pub(crate) fn needed(&self, member: &'static str) -> Result<&'v str, DefinitionError> {
        match self.get(member) {
            None => Err(self.missing(member)),
            Some(Value::String(text)) if !text.is_empty() => Ok(text),
            Some(_) => Err(self.unexpected(member, "text that is not empty")),
        }
    }

    pub(crate) fn flag(&self, member: &'static str) -> Result<bool, DefinitionError> {
        match self.get(member) {
            None => Ok(false),
            Some(Value::Bool(is_set)) => Ok(*is_set),
            Some(_) => Err(self.unexpected(member, "true or false")),
        }
    }

    pub(crate) fn object(&self, member: &'static str) -> Result<Self, DefinitionError> {
        match self.get(member) {
            None if !self.members.contains_key(member) => Err(self.missing(member)),
            Some(value @ Value::Object(_)) => Self::new(&self.at, format!("{}.{member}", self.at), value),
            _ => Err(self.unexpected(member, "an object")),
        }
    }

    /// A list of objects, of which there may be so many.
    pub(crate) fn list<T>(
        &self,
        member: &'static str,
        count: RangeInclusive<usize>,
        read: impl Fn(&Self) -> Result<T, DefinitionError>,
    ) -> Result<Vec<T>, DefinitionError> {
        let list = match self.get(member) {
            None => return Err(self.missing(member)),
            Some(Value::Array(list)) if list.len() >= *count.start() => list,
            Some(_) if *count.start() > 0 => return Err(self.unexpected(member, "a list that is not empty")),
            Some(_) => return Err(self.unexpected(member, "a list")),
        };
        if list.len() > *count.end() {
            return Err(DefinitionError::TooMany {
                what: member,
                found: list.len(),
                max: *count.end(),
            });
        }
        let items = list.iter().enumerate().map(|(index, value)| {
            let mut object = Self::new(&self.at, format!("{member}[{index}]"), value)?;
            // The whole document has no place.
            if !self.at.starts_with("the ") {
                object.at = format!("{}.{}", self.at, object.at);
            }
            read(&object)
        });
        items.collect()
    }
}

/// Parses a document, which may be a part of a larger one.
pub(crate) fn parse(text: &[u8]) -> Result<Value, DefinitionError> {
    serde_json::from_slice(text).map_err(|error| {
        let reason = error.to_string();
        DefinitionError::Json {
            line: error.line(),
            column: error.column(),
            // The error has the position in fields of its own.
            reason: reason
                .rsplit_once(" at line ")
                .map_or(&*reason, |(start, _)| start)
                .to_owned(),
        }
    })
}

/// A text for an error message, shortened.
pub(crate) fn shortened(text: &str) -> String {
    crate::shortened(text, SHOWN_MAX)
}

/// A value for an error message, shortened.
pub(crate) fn shown(value: &Value) -> String {
    shortened(&value.to_string())
}
