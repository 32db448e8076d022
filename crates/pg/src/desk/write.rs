//! Outcomes as JSON.

use super::DeskError;
use crate::{
    PgError, Rows,
    json::{Numbers, write_string},
};

/// `{"rows":[...],"count":1}`
pub(super) fn rows(rows: &Rows, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"rows\":");
    rows.write_all(Numbers::Doubles, out);
    out.extend_from_slice(b",\"count\":");
    out.extend_from_slice(itoa::Buffer::new().format(rows.affected).as_bytes());
    out.push(b'}');
}

/// `{"error":{...}}`
pub(super) fn error(error: &DeskError, out: &mut Vec<u8>) {
    if let DeskError::Pg { database, error } = error {
        return pg_error(error, database, out);
    }
    out.extend_from_slice(b"{\"error\":{\"message\":");
    write_string(error.to_string().as_bytes(), out);
    out.extend_from_slice(b",\"code\":");
    write_string(error.code().as_bytes(), out);
    out.extend_from_slice(b"}}");
}

/// The same of what a database said; members as the SDK's `SqlError` has them.
pub(super) fn pg_error(error: &PgError, database: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"error\":{\"message\":");
    match error {
        PgError::Server(error) => write_string(error.message.as_bytes(), out),
        error => write_string(format!("database `{database}`: {error}").as_bytes(), out),
    }
    let mut member = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            out.extend_from_slice(format!(",\"{name}\":").as_bytes());
            write_string(value.as_bytes(), out);
        }
    };
    member("code", Some(error.code().as_str()));
    if let PgError::Server(error) = error {
        member("detail", error.detail.as_deref());
        member("hint", error.hint.as_deref());
        member("constraint", error.constraint.as_deref());
        let position = error.position.map(|position| position.to_string());
        member("position", position.as_deref());
    }
    out.extend_from_slice(b"}}");
}
