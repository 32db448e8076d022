//! Parameters of statements: from the path, else the query, else the members of a JSON body.

use std::{borrow::Cow, collections::BTreeMap};

use forebay_pg::Takes;
use serde_json::value::RawValue;

use crate::{
    failure::Refusal,
    target::{Request, media_type::is_body, parameters::parameters},
};

/// A request's value for a parameter.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    /// From the path or the query.
    Text(Cow<'a, str>),
    /// A member of the body, unparsed.
    Json(&'a RawValue),
    Null,
}

impl<'a> Value<'a> {
    /// Whether its text depends on the parameter's type.
    pub(super) fn depends(&self) -> bool {
        matches!(self, Self::Json(json) if json.get().starts_with(['[', '"']))
    }

    /// Text for a parameter; `None` is null. While the type is unknown, JSON is passed as a plain value.
    pub(super) fn text(&self, name: &str, takes: Option<Takes>) -> Result<Option<Cow<'a, str>>, Refusal> {
        let json = match self {
            Self::Null => return Ok(None),
            Self::Text(text) => return Ok(Some(text.clone())),
            Self::Json(json) => json.get(),
        };
        let refused = |error: serde_json::Error| wrong(name, &error.to_string());
        match (takes, json.as_bytes().first()) {
            (_, Some(b'n')) => Ok(None),
            (Some(Takes::Array), Some(b'[')) => {
                let mut text = String::with_capacity(json.len());
                write_array(json, &mut text).map_err(refused)?;
                Ok(Some(text.into()))
            }
            (Some(Takes::Json), _) => Ok(Some(json.into())),
            (_, Some(b'"')) => Ok(Some(Cow::Owned(serde_json::from_str(json).map_err(refused)?))),
            _ => Ok(Some(json.into())),
        }
    }
}

/// Writes a JSON array as one of PostgreSQL's (manual, 8.15.6): nested arrays are its dimensions, objects are JSON.
fn write_array(json: &str, out: &mut String) -> Result<(), serde_json::Error> {
    let elements: Vec<&RawValue> = serde_json::from_str(json)?;
    out.push('{');
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        match element.get().as_bytes().first() {
            Some(b'[') => write_array(element.get(), out)?,
            Some(b'n') => out.push_str("NULL"),
            Some(b'"') => write_element(&serde_json::from_str::<String>(element.get())?, out),
            _ => write_element(element.get(), out),
        }
    }
    out.push('}');
    Ok(())
}

fn write_element(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        if matches!(letter, '"' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out.push('"');
}

/// The values that the path has, else the query.
pub(super) fn named<'a>(
    names: &[String],
    request: &'a Request<'_>,
) -> Result<Vec<Option<Value<'a>>>, Refusal> {
    let mut values: Vec<Option<Value<'a>>> = names
        .iter()
        .map(|name| {
            let found = request.params.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| Value::Text(Cow::Borrowed(&**value)))
        })
        .collect();
    if values.iter().all(Option::is_some) {
        return Ok(values);
    }
    for parameter in parameters(request.head.query(), "") {
        let parameter = parameter?;
        let at = names.iter().position(|name| *name == parameter.name);
        if let Some(value) = at.map(|at| &mut values[at])
            && value.is_none()
        {
            *value = Some(Value::Text(parameter.value));
        }
    }
    Ok(values)
}

/// Fills in missing values from the members of a JSON object.
pub(super) fn fill<'a>(
    values: &mut [Option<Value<'a>>],
    names: &[String],
    request: &Request<'_>,
    text: &'a [u8],
) -> Result<(), Refusal> {
    if text.is_empty() {
        return Ok(());
    }
    if !is_body(request.head, "application/json") {
        return Err(Refusal::MediaType {
            accepted: "application/json",
        });
    }
    let members: BTreeMap<Cow<'_, str>, &'a RawValue> =
        serde_json::from_slice(text).map_err(|error| Refusal::ParameterBody {
            what: error.to_string(),
        })?;
    for (name, value) in names.iter().zip(values) {
        if value.is_none() {
            *value = members.get(name.as_str()).map(|member| Value::Json(member));
        }
    }
    Ok(())
}

pub(super) fn wrong(name: &str, what: &str) -> Refusal {
    Refusal::Parameter {
        name: name.to_owned(),
        what: what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_becomes_the_text_that_a_parameter_takes() {
        let (text, json, array) = (Some(Takes::Text), Some(Takes::Json), Some(Takes::Array));
        for (written, takes, becomes) in [
            ("null", json, None),
            ("7", text, Some("7")),
            (r#""a\u00e9""#, text, Some("aé")),
            (r#""a""#, json, Some(r#""a""#)),
            (r#"{"a": 1}"#, text, Some(r#"{"a": 1}"#)),
            ("[1, 2]", json, Some("[1, 2]")),
            ("[1, 2]", None, Some("[1, 2]")),
            ("[]", array, Some("{}")),
            (
                r#"["a b", null, "null", "", "q\"\\", true, 1.50]"#,
                array,
                Some(r#"{"a b",NULL,"null","","q\"\\","true","1.50"}"#),
            ),
            (
                r#"[[1, 2], [3, {"a": "b"}]]"#,
                array,
                Some(r#"{{"1","2"},{"3","{\"a\": \"b\"}"}}"#),
            ),
            (r#""{a,b}""#, array, Some("{a,b}")),
        ] {
            let raw: &RawValue = serde_json::from_str(written).unwrap();
            let got = Value::Json(raw).text("it", takes).unwrap();
            assert_eq!(got.as_deref(), becomes, "{written} {takes:?}");
        }
    }
}
