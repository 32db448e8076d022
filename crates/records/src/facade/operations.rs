//! The operations of records, shared by all language bindings, in addition to those of
//! `forebay_store::facade::operations`: each operation here is one call there. Arguments and results are text or
//! numbers.

use forebay_store::facade::{
    Session,
    operations::{Call, Outcome, Refused},
};

use super::{Change, FacadeError, Records};
use crate::{List, Reference};

impl From<FacadeError> for Refused {
    fn from(error: FacadeError) -> Self {
        match error {
            FacadeError::Session(error) => error.into(),
            FacadeError::Records(_) => Self {
                code: error.code(),
                message: error.to_string(),
            },
        }
    }
}

forebay_store::operations! {
    (&mut Session, &Records);
    c"tql" 1 Tql tql
    c"recordCreate" 1 Create create
    c"recordRead" 2 Read read
    c"recordWrite" 4 Write write
    c"recordKind" 1 Kind kind
    c"recordList" 5 List list
    c"recordTagged" 2 Tagged tagged
}

/// `tql(statement)`: the answer as JSON text.
fn tql<C: Call>(call: &C, (session, records): (&mut Session, &Records)) -> Outcome<C> {
    let statement = call.text(0)?.unwrap_or_default();
    let answer = records.tql(session, &statement).map_err(Refused::from)?;
    call.string(&utf8(answer)).map(Some)
}

/// `recordCreate(document)`: the new reference in decimal.
fn create<C: Call>(call: &C, (session, records): (&mut Session, &Records)) -> Outcome<C> {
    let document = call.text(0)?.unwrap_or_default();
    let reference = records.create(session, &document).map_err(Refused::from)?;
    call.string(&reference.to_string()).map(Some)
}

/// `recordRead(reference, kind)`: the record as JSON text.
fn read<C: Call>(call: &C, (session, records): (&mut Session, &Records)) -> Outcome<C> {
    let kind = optional(call, 1)?;
    let Some(reference) = reference(call, 0)? else {
        return Ok(None);
    };
    let record = records
        .read(session, kind.as_deref(), reference)
        .map_err(Refused::from)?;
    record.map(|text| call.string(&utf8(text))).transpose()
}

/// `recordWrite(change, reference, kind, document)`: 0 replaces, 1 patches, 2 removes; returns whether the record
/// exists.
fn write<C: Call>(call: &C, (session, records): (&mut Session, &Records)) -> Outcome<C> {
    let change = match call.integer(0)? {
        0 => Change::Replace,
        1 => Change::Patch,
        _ => Change::Delete,
    };
    let (kind, document) = (optional(call, 2)?, call.text(3)?.unwrap_or_default());
    let Some(reference) = reference(call, 1)? else {
        return call.boolean(false).map(Some);
    };
    let existed = records
        .write(session, change, kind.as_deref(), reference, &document)
        .map_err(Refused::from)?;
    call.boolean(existed).map(Some)
}

/// `recordKind(reference)`
fn kind<C: Call>(call: &C, (session, records): (&mut Session, &Records)) -> Outcome<C> {
    let Some(reference) = reference(call, 0)? else {
        return Ok(None);
    };
    let kind = records.kind(session, reference).map_err(Refused::from)?;
    kind.map(|kind| call.string(&kind)).transpose()
}

/// `recordList(kind, after, page, size, full)`: the page as JSON text; `after` is a reference or omitted, `full` is 1
/// or 0.
fn list<C: Call>(call: &C, (session, records): (&mut Session, &Records)) -> Outcome<C> {
    let list = List {
        kind: optional(call, 0)?.unwrap_or_default(),
        after: reference(call, 1)?,
        page: call.number(2)?.max(0.0) as u64,
        size: call.number(3)?.max(0.0) as u64,
        full: call.integer(4)? != 0,
    };
    let text = records.list(session, &list).map_err(Refused::from)?;
    call.string(&utf8(text)).map(Some)
}

/// `recordTagged(reference, kind)`: the record's entity tag, as in the server's own responses, followed by its JSON
/// text.
fn tagged<C: Call>(call: &C, (session, records): (&mut Session, &Records)) -> Outcome<C> {
    let kind = optional(call, 1)?;
    let Some(reference) = reference(call, 0)? else {
        return Ok(None);
    };
    let record = records
        .read(session, kind.as_deref(), reference)
        .map_err(Refused::from)?;
    let tagged = |text: &[u8]| format!("{}{}", entity_tag(text), utf8(text));
    record.map(|text| call.string(&tagged(text))).transpose()
}

/// The entity tag of a record's text, with its quotes: 34 characters, as in the server's own responses.
pub fn entity_tag(text: &[u8]) -> String {
    format!("\"{:032x}\"", forebay_store::digest(text))
}

fn optional<C: Call>(call: &C, index: usize) -> Result<Option<String>, C::Error> {
    let text = call.text(index)?;
    Ok(text.map(|text| utf8(&text)))
}

/// Parses a decimal reference; an invalid one refers to no record.
fn reference<C: Call>(call: &C, index: usize) -> Result<Option<Reference>, C::Error> {
    Ok(optional(call, index)?.and_then(|text| Reference::from_decimal(&text)))
}

/// Other languages pass well-formed Unicode here.
fn utf8(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
