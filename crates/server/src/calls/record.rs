//! Access to one record by reference and kind, for controllers without a store of their own. A single call does what a store in the same
//! process would do in a transaction.

use std::{borrow::Cow, sync::Arc, time::Instant};

use forebay_records::{RecordsError, Reference, check_kind, place_in_kind};
use forebay_store::{Document, Read as _};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::tql::Tql;
use crate::{
    config::StoreMode,
    failure::Refusal,
    store::{Condition, DocumentPieces, Grants, RecordChange, RecordOperation, Tag, Work, lifetime},
};

/// The answer without a record.
const NONE: &[u8] = b"{\"code\":0,\"results\":[]}";
/// The prefix of such a call's body; no statement begins with it.
const START: &[u8] = b"{\"record\":";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordCall<'c> {
    record: u64,
    #[serde(borrow)]
    kind: Cow<'c, str>,
    /// In the format of `If-Match`.
    #[serde(borrow, rename = "match")]
    matches: Option<Cow<'c, str>>,
    /// In the format of `If-None-Match`.
    #[serde(borrow, rename = "none_match")]
    matches_not: Option<Cow<'c, str>>,
    #[serde(borrow)]
    update: Option<&'c RawValue>,
    #[serde(borrow)]
    patch: Option<&'c RawValue>,
    #[serde(default, deserialize_with = "is_there")]
    delete: bool,
}

/// `"delete": null` means that the member is present.
fn is_there<'de, D: serde::Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    <()>::deserialize(value).map(|()| true)
}

impl<'c> RecordCall<'c> {
    /// Parses a call; `None` if the body is something else.
    pub(super) fn read(body: &'c [u8]) -> Option<Result<Self, Refusal>> {
        body.starts_with(START).then(|| {
            serde_json::from_slice(body).map_err(|error| Refusal::BadCall {
                what: error.to_string(),
            })
        })
    }

    /// The requested change; `None` for a read.
    fn change(&self) -> Result<Option<RecordChange>, Refusal> {
        let reference = Reference(self.record);
        let text = |json: &RawValue| json.get().as_bytes().to_vec();
        match (self.update, self.patch, self.delete) {
            (None, None, false) => Ok(None),
            (Some(json), None, false) => Ok(Some(RecordChange::Replace(reference.into(), text(json)))),
            (None, Some(json), false) => Ok(Some(RecordChange::Patch(reference.into(), text(json)))),
            (None, None, true) => Ok(Some(RecordChange::Delete(reference.into()))),
            _ => Err(Refusal::BadCall {
                what: "it has more than one of `update`, `patch` and `delete`".to_owned(),
            }),
        }
    }
}

impl Tql {
    pub(super) async fn record(&self, call: &RecordCall<'_>, deadline: Instant) -> Result<Vec<u8>, Refusal> {
        if self.mode == StoreMode::None {
            return Err(Refusal::NoStoreHere);
        }
        let Some(change) = call.change()? else {
            return self.read_record(call, deadline).await;
        };
        if self.mode != StoreMode::ReadWrite {
            return Err(forebay_store::StoreError::ReadOnly.into());
        }
        let (member, bytes) = match &change {
            RecordChange::Replace(_, text) | RecordChange::Patch(_, text) => ("updated", text.len()),
            _ => ("deleted", 0),
        };
        let condition = |list: &Option<Cow<'_, str>>| list.as_deref().map(str::as_bytes).map(<[u8]>::to_vec);
        let (matches, matches_not) = (condition(&call.matches), condition(&call.matches_not));
        let operation = RecordOperation {
            kind: Some(call.kind.to_string()),
            condition: Condition::of(matches.as_deref(), matches_not.as_deref())?,
            document_bytes_max: self.store.store().value_bytes_max(),
            change,
            settings: Arc::clone(&self.settings),
            // Limits the change to this kind, so that it cannot move the record to another one.
            grants: Grants::only(&call.kind),
        };
        self.done(Work::Record(operation), bytes, deadline).await?;
        Ok(format!("{{\"code\":0,\"{member}\":[{}]}}", call.record).into_bytes())
    }

    async fn read_record(&self, call: &RecordCall<'_>, deadline: Instant) -> Result<Vec<u8>, Refusal> {
        check_kind(&call.kind)?;
        if self.store.is_remote() {
            let (this, kind, reference) = (self.clone(), call.kind.to_string(), Reference(call.record));
            let read = move || {
                this.store.store().read(|reader| {
                    let place = place_in_kind(reader, &kind, reference, lifetime::now_ms());
                    let Some(key) = place.map_err(RecordsError::from)? else {
                        return Ok(None);
                    };
                    let document = reader.document_within(&key, reader.value_bytes_max())?;
                    Ok::<_, Refusal>(document.map(Cow::into_owned))
                })
            };
            let record = self.store.off_thread(deadline, read).await?;
            return record.map_or_else(|| Ok(NONE.to_vec()), |record| self.found(&record));
        }
        let snapshot = self.store.store().snapshot()?;
        let (reference, bytes_max) = (Reference(call.record), snapshot.value_bytes_max());
        let place = place_in_kind(&snapshot, &call.kind, reference, lifetime::now_ms());
        let document = match place.map_err(RecordsError::from)? {
            Some(key) => snapshot.document_walk(&key, usize::MAX, bytes_max)?,
            None => None,
        };
        let record = match document {
            None => return Ok(NONE.to_vec()),
            Some(Document::Text(text)) => text.into_owned(),
            Some(Document::Nodes(walk)) => {
                let pieces = DocumentPieces { snapshot, walk };
                self.collected(pieces, self.answer_bytes_max + 1, deadline)
                    .await?
            }
        };
        self.found(&record)
    }

    /// The answer with a record.
    fn found(&self, record: &[u8]) -> Result<Vec<u8>, Refusal> {
        if record.len() > self.answer_bytes_max {
            return Err(self.too_large());
        }
        let tag = Tag::of(record).to_string();
        let tag = tag.trim_matches('"');
        let mut answer = format!("{{\"code\":0,\"tag\":\"{tag}\",\"results\":[").into_bytes();
        answer.extend_from_slice(record);
        answer.extend_from_slice(b"]}");
        Ok(answer)
    }
}
