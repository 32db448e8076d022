//! `POST /store:batch`: several operations in one transaction.

use std::borrow::Cow;

use forebay_store::Key;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::body;
use crate::{
    failure::Refusal,
    store::{Change, Condition, Done, Lifetime, Operation, lifetime, path},
};

/// Most operations in one batch.
const OPERATIONS_MAX: usize = 10_000;

/// An operation as the client writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'b> {
    op: Op,
    #[serde(borrow)]
    path: WrittenPath<'b>,
    #[serde(borrow, default, deserialize_with = "given")]
    value: Option<&'b RawValue>,
    #[serde(borrow)]
    if_match: Option<Cow<'b, str>>,
    #[serde(borrow)]
    if_none_match: Option<Cow<'b, str>>,
    #[serde(borrow)]
    ttl: Option<Cow<'b, str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    Put,
    Patch,
    Delete,
    Append,
}

/// A node: its path as in a URL, or the global and each subscript as an element of a list.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum WrittenPath<'b> {
    Encoded(#[serde(borrow)] Cow<'b, str>),
    Parts(Vec<String>),
}

/// Tells a member that is `null` from one that is missing.
fn given<'b, D: Deserializer<'b>>(value: D) -> Result<Option<&'b RawValue>, D::Error> {
    Deserialize::deserialize(value).map(Some)
}

/// Parses a batch.
pub(super) fn read(text: &[u8], value_bytes_max: usize) -> Result<Vec<Operation>, Refusal> {
    let unreadable = |error: &serde_json::Error| Refusal::Batch {
        what: error.to_string(),
    };
    let written: Vec<Written<'_>> = serde_json::from_slice(text).map_err(|error| unreadable(&error))?;
    if written.len() > OPERATIONS_MAX {
        return Err(Refusal::Batch {
            what: format!("it has {} operations (at most {OPERATIONS_MAX})", written.len()),
        });
    }
    let operations = written.into_iter().enumerate();
    operations
        .map(|(at, written)| operation(at, &written, value_bytes_max).map_err(|refusal| refusal.in_batch(at)))
        .collect()
}

fn operation(at: usize, written: &Written<'_>, value_bytes_max: usize) -> Result<Operation, Refusal> {
    let wrong = |what: &str| Refusal::Batch {
        what: what.to_owned(),
    };
    let value = match (written.op, written.value) {
        (Op::Delete, None) => Vec::new(),
        (Op::Delete, Some(_)) => return Err(wrong("`delete` has no value")),
        (_, None) => return Err(wrong("the value is missing")),
        (_, Some(value)) => body::canonical(value.get().as_bytes(), value_bytes_max)?,
    };
    let lifetime = match (written.op, written.ttl.as_deref()) {
        (_, None) => None,
        (Op::Delete, Some(_)) => return Err(wrong("`delete` has no ttl")),
        (_, Some(text)) => Some(Lifetime::read(text).ok_or_else(|| wrong(lifetime::ACCEPTED))?),
    };
    let key = match &written.path {
        WrittenPath::Encoded(path) => path::key(path.strip_prefix('/').unwrap_or(path))?,
        WrittenPath::Parts(parts) => {
            let (global, subscripts) = parts.split_first().ok_or_else(|| wrong("the path is empty"))?;
            let mut key = Key::global(global)?;
            for subscript in subscripts {
                key.push(subscript)?;
            }
            key
        }
    };
    Ok(Operation {
        at: Some(at),
        key,
        condition: Condition::of(
            written.if_match.as_deref().map(str::as_bytes),
            written.if_none_match.as_deref().map(str::as_bytes),
        )?,
        document_bytes_max: value_bytes_max,
        change: match written.op {
            Op::Put => Change::Put(value),
            Op::Patch => Change::Patch(value),
            Op::Delete => Change::Delete,
            Op::Append => Change::Append(value),
        },
        lifetime,
    })
}

/// The response: one result per operation.
pub(super) fn results(all: &[Done]) -> Vec<u8> {
    let result = |done: &Done| match done {
        Done::Created => "{\"done\":\"created\"}".to_owned(),
        Done::Changed => "{\"done\":\"changed\"}".to_owned(),
        Done::Deleted => "{\"done\":\"deleted\"}".to_owned(),
        Done::Recorded(_) | Done::Answered(_) | Done::Job(_) => {
            unreachable!("it is a change of a node")
        }
        Done::Appended(id) => format!("{{\"done\":\"appended\",\"id\":{id}}}"),
    };
    let results: Vec<String> = all.iter().map(result).collect();
    format!("[{}]", results.join(",")).into_bytes()
}
