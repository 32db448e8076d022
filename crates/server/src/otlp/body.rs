//! The parts that the bodies of all three signals share in OTLP's JSON: the resource, scopes, attributes, and 64-bit integers.

use std::{
    borrow::Cow,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Serialize, Serializer};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The resource of a body: this server.
#[derive(Serialize)]
pub(crate) struct Resource<'a> {
    attributes: [Attribute<'a>; 5],
}

impl<'a> Resource<'a> {
    pub(crate) fn new(service: &'a str) -> Self {
        Self {
            attributes: [
                text("service.name", service),
                number("process.pid", u64::from(std::process::id())),
                text("telemetry.sdk.name", "forebay"),
                text("telemetry.sdk.language", "rust"),
                text("telemetry.sdk.version", VERSION),
            ],
        }
    }
}

/// The instrumentation scope.
#[derive(Serialize)]
pub(crate) struct Scope<'a> {
    pub(crate) name: &'a str,
    version: &'static str,
}

impl<'a> Scope<'a> {
    pub(crate) const fn new(name: &'a str) -> Self {
        Self {
            name,
            version: VERSION,
        }
    }

    /// The server as a whole.
    pub(crate) const fn server() -> Self {
        Self::new("forebay")
    }
}

/// A 64-bit integer, which OTLP JSON writes as a string.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal<T>(pub(crate) T);

impl<T: std::fmt::Display> Serialize for Decimal<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[derive(Serialize)]
pub(crate) struct Attribute<'a> {
    key: Cow<'a, str>,
    value: Value<'a>,
}

#[derive(Serialize)]
pub(crate) enum Value<'a> {
    #[serde(rename = "stringValue")]
    String(Cow<'a, str>),
    #[serde(rename = "boolValue")]
    Bool(bool),
    #[serde(rename = "intValue")]
    Int(Decimal<i64>),
    #[serde(rename = "doubleValue")]
    Double(f64),
    #[serde(rename = "arrayValue")]
    Array(List<Value<'a>>),
    #[serde(rename = "kvlistValue")]
    Map(List<Attribute<'a>>),
}

#[derive(Serialize)]
pub(crate) struct List<T> {
    values: Vec<T>,
}

impl Value<'_> {
    /// `None` is JSON's null.
    pub(crate) fn of(json: serde_json::Value) -> Option<Self> {
        Some(match json {
            serde_json::Value::Null => return None,
            serde_json::Value::Bool(flag) => Self::Bool(flag),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(integer) => Self::Int(Decimal(integer)),
                None => Self::Double(number.as_f64().unwrap_or(f64::MAX)),
            },
            serde_json::Value::String(text) => Self::String(text.into()),
            serde_json::Value::Array(values) => Self::Array(List {
                values: values.into_iter().filter_map(Self::of).collect(),
            }),
            serde_json::Value::Object(members) => Self::Map(List {
                values: members
                    .into_iter()
                    .filter_map(|(key, value)| attribute(key, value))
                    .collect(),
            }),
        })
    }
}

/// An attribute of any JSON; none for null.
pub(crate) fn attribute<'a>(key: String, value: serde_json::Value) -> Option<Attribute<'a>> {
    Value::of(value).map(|value| Attribute {
        key: key.into(),
        value,
    })
}

pub(crate) fn text<'a>(key: &'a str, value: impl Into<Cow<'a, str>>) -> Attribute<'a> {
    Attribute {
        key: key.into(),
        value: Value::String(value.into()),
    }
}

pub(crate) fn number(key: &str, value: u64) -> Attribute<'_> {
    Attribute {
        key: key.into(),
        value: Value::Int(Decimal(i64::try_from(value).unwrap_or(i64::MAX))),
    }
}

/// Nanoseconds since 1970.
pub(crate) fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn encoded(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("texts and numbers are JSON")
}
