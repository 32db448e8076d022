//! Results as JSON.

use data_encoding::HEXLOWER;

use super::SqlSessionError;
use crate::{
    PgError, Rows,
    json::{Numbers, write_string},
};

/// Outcomes of statements, each as [`rows`] or [`pg_error`].
pub(super) fn outcomes(outcomes: &[Result<Rows, PgError>], source: &str) -> Vec<u8> {
    let mut out = vec![b'['];
    for (index, outcome) in outcomes.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match outcome {
            Ok(rows) => {
                out.push(b'{');
                members(rows, &mut out);
                out.push(b'}');
            }
            Err(error) => pg_error(error, source, &mut out),
        }
    }
    out.push(b']');
    out
}

/// `"rows":[...],"count":1`, and if there are `bytea` columns their names, as `"bytea":["name"]`: their values are text
/// in the database's notation, which does not show the type.
pub(super) fn members(rows: &Rows, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"rows\":");
    rows.write_all(Numbers::Doubles, out);
    out.extend_from_slice(b",\"count\":");
    out.extend_from_slice(itoa::Buffer::new().format(rows.affected).as_bytes());
    let mut follows = false;
    for (index, column) in rows.columns.iter().enumerate() {
        // Of columns with the same name only the last one is visible.
        let is_hidden = || {
            rows.columns[index + 1..]
                .iter()
                .any(|other| other.name == column.name)
        };
        if column.is_bytes() && !is_hidden() {
            out.extend_from_slice(if follows { b"," } else { b",\"bytea\":[" });
            write_string(column.name.as_bytes(), out);
            follows = true;
        }
    }
    if follows {
        out.push(b']');
    }
}

/// Bytes in the database's notation for `bytea`: `"\\x00ff"`.
pub(super) fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"\\\\x");
    let start = out.len();
    out.resize(start + HEXLOWER.encode_len(bytes.len()), 0);
    HEXLOWER.encode_mut(bytes, &mut out[start..]);
    out.push(b'"');
}

/// `{"error":{...}}`
pub(super) fn error(error: &SqlSessionError, out: &mut Vec<u8>) {
    if let SqlSessionError::Pg { database, error } = error {
        return pg_error(error, database, out);
    }
    out.extend_from_slice(b"{\"error\":{\"message\":");
    write_string(error.to_string().as_bytes(), out);
    out.extend_from_slice(b",\"code\":");
    write_string(error.code().as_bytes(), out);
    out.extend_from_slice(b"}}");
}

/// Appends an error of a database as `{"error":{...}}`, with the members of the SDK's `SqlError`.
pub fn pg_error(error: &PgError, database: &str, out: &mut Vec<u8>) {
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
    member("database", Some(database));
    if let PgError::Server(error) = error {
        member("detail", error.detail.as_deref());
        member("hint", error.hint.as_deref());
        member("constraint", error.constraint.as_deref());
        let position = error.position.map(|position| position.to_string());
        member("position", position.as_deref());
    }
    out.extend_from_slice(b"}}");
}
