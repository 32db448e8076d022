//! Values taken out of answers, for later steps.

use serde_json::Value;

use crate::expect::{JsonPath, Seen};

use super::VARIABLE_BYTES_MAX;

#[derive(Clone, Debug)]
pub(super) struct Extract {
    pub(super) variable: usize,
    pub(super) name: String,
    pub(super) from: Place,
    /// Takes its first group, or all of its match.
    pub(super) pattern: Option<regex_lite::Regex>,
    /// What is taken when there is nothing.
    pub(super) default: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub(super) enum Place {
    Body,
    Json(JsonPath),
    Field(String),
}

impl Extract {
    /// The value in an answer, or why there is none.
    pub(super) fn find(&self, seen: &Seen<'_>) -> Result<Vec<u8>, String> {
        let found = match &self.from {
            Place::Body => Ok(Some(seen.body.to_vec())),
            Place::Field(name) => Ok(seen.field(name).map(<[u8]>::to_vec)),
            Place::Json(path) => seen.json().map(|value| {
                path.find(&value).map(|found| match found {
                    Value::String(text) => text.clone().into_bytes(),
                    other => other.to_string().into_bytes(),
                })
            }),
        };
        let value = match (found, &self.default) {
            (Ok(Some(value)), _) => self.matched(value).or_else(|| self.default.clone()),
            (Ok(None) | Err(_), Some(default)) => Some(default.clone()),
            (Ok(None), None) => None,
            (Err(what), None) => return Err(format!("cannot extract `{}`: {what}", self.name)),
        };
        match value {
            Some(value) if value.len() <= VARIABLE_BYTES_MAX => Ok(value),
            Some(value) => Err(format!(
                "cannot extract `{}`: it has {} bytes, at most {VARIABLE_BYTES_MAX} are kept",
                self.name,
                value.len()
            )),
            None => Err(format!("cannot extract `{}`: {}", self.name, self.missing())),
        }
    }

    fn matched(&self, value: Vec<u8>) -> Option<Vec<u8>> {
        let Some(pattern) = &self.pattern else {
            return Some(value);
        };
        let text = String::from_utf8_lossy(&value);
        let captures = pattern.captures(&text)?;
        let found = captures.get(1).or_else(|| captures.get(0))?;
        Some(found.as_str().as_bytes().to_vec())
    }

    fn missing(&self) -> String {
        let place = match &self.from {
            Place::Body => "the body".to_owned(),
            Place::Json(path) => format!("{path} of the body"),
            Place::Field(name) => format!("header `{name}`"),
        };
        match &self.pattern {
            Some(pattern) => format!("{place} does not match `{pattern}`, or is not there"),
            None => format!("{place} is not there"),
        }
    }
}
