//! The parts that the bodies of all three signals share in OTLP's JSON: the resource, scopes, attributes, and 64-bit integers.

use std::{
    borrow::Cow,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Serialize, Serializer};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The scope of what the server as a whole reports.
pub(crate) const SERVER: &str = "forebay";

/// An object with one member.
struct OneMember<T>(&'static str, T);

impl<T: Serialize> Serialize for OneMember<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(self.0, &self.1)])
    }
}

/// The data of one resource: this server.
#[derive(Serialize)]
struct OfResource<'a, T> {
    resource: Resource<'a>,
    #[serde(flatten)]
    scopes: OneMember<T>,
}

#[derive(Serialize)]
struct Resource<'a> {
    attributes: [Attribute<'a>; 5],
}

/// The records of one instrumentation scope.
#[derive(Serialize)]
struct OfScope<'a, T> {
    scope: Scope<'a>,
    #[serde(flatten)]
    records: OneMember<T>,
}

#[derive(Serialize)]
struct Scope<'a> {
    name: &'a str,
    version: &'static str,
}

/// A body with a signal's records by their scopes. The names are those of its arrays: of resources, of their scopes, of a scope's records.
pub(crate) fn encode<'a, R: Serialize + 'a>(
    [resources, scopes, records]: [&'static str; 3],
    service: &str,
    by_scope: impl IntoIterator<Item = (&'a str, &'a [R])>,
) -> Vec<u8> {
    let of_scope = |(name, list)| OfScope {
        scope: Scope {
            name,
            version: VERSION,
        },
        records: OneMember(records, list),
    };
    let by_scope: Vec<_> = by_scope.into_iter().map(of_scope).collect();
    let attributes = [
        text("service.name", service),
        number("process.pid", u64::from(std::process::id())),
        text("telemetry.sdk.name", "forebay"),
        text("telemetry.sdk.language", "rust"),
        text("telemetry.sdk.version", VERSION),
    ];
    let of_resource = OfResource {
        resource: Resource { attributes },
        scopes: OneMember(scopes, by_scope),
    };
    serde_json::to_vec(&OneMember(resources, [of_resource])).expect("texts and numbers are JSON")
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
