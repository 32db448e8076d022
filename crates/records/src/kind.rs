//! Kinds: the global that a record belongs to.

use forebay_store::{Key, KeyError, Read, StoreError, Subscript, json};

use crate::{
    KINDS,
    error::{RecordsError, beginning},
    settings::Settings,
};

/// Rejects an invalid kind: one that cannot be the name of a global, or begins with `%` like the store's own globals.
pub fn check_kind(name: &str) -> Result<(), RecordsError> {
    let wrong = |reason: String| RecordsError::KindName {
        name: name.to_owned(),
        reason,
    };
    if name.starts_with('%') {
        return Err(wrong("a name that begins with `%` is no kind".to_owned()));
    }
    match Key::global(name) {
        Ok(_) => Ok(()),
        Err(
            error @ (KeyError::EmptyGlobal
            | KeyError::GlobalTooLong { .. }
            | KeyError::GlobalCharacter { .. }),
        ) => Err(wrong(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// The kind of a record given as canonical JSON: the value of its type key, or the default kind.
pub fn kind_of(record: &[u8], settings: &Settings) -> Result<String, RecordsError> {
    if json::container(record) != Some(false) {
        return Err(RecordsError::NotAnObject {
            found: beginning(record),
        });
    }
    let mut found = Some(record);
    for step in &settings.type_key {
        found = found.and_then(|text| json::find(text, step));
    }
    let Some(text) = found else {
        return Ok(settings.default_kind.clone());
    };
    let kind = text_of(text).ok_or_else(|| RecordsError::KindNotText {
        type_key: settings.type_key.join("."),
        found: beginning(text),
    })?;
    check_kind(&kind)?;
    Ok(kind)
}

/// Content of a string in canonical JSON.
pub(crate) fn text_of(text: &[u8]) -> Option<String> {
    let content = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let content = std::str::from_utf8(content).ok()?;
    Some(json::unescape(content).ok()?.into_owned())
}

/// Names of all kinds that ever had a record, in order.
pub fn kinds(read: &impl Read) -> Result<Vec<String>, StoreError> {
    let kinds = Key::global(KINDS)?;
    let walk = read.children(&kinds, forebay_store::Range::default())?;
    walk.map(|kind| kind.map(|kind: Subscript| kind.text())).collect()
}
