//! Encodes messages, and splits received bytes into messages.

use bytes::{BufMut as _, BytesMut};
use postgres_protocol::message::{backend::Message, frontend};

use super::CancelKey;
use crate::error::PgError;

/// Longest message, in bytes: a value of 64 MiB with some others. Rejects longer rows, and arbitrary lengths from something that is not a PostgreSQL
/// server.
const MESSAGE_BYTES_MAX: usize = (64 << 20) + (64 << 10);

/// Header of a message: its type, and its length without the type.
const HEADER_BYTES: usize = 5;
/// Size of the buffer for one read.
const READ_BYTES: usize = 65_536;

/// Type and total length of the first message received, if it is complete.
pub(crate) fn head(received: &[u8]) -> Result<Option<(u8, usize)>, PgError> {
    let Some((&[kind, length @ ..], _)) = received.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(length) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(PgError::Protocol {
            reason: format!("a message of {length} bytes, more than {MESSAGE_BYTES_MAX}"),
        });
    }
    if length < HEADER_BYTES - 1 {
        return Err(PgError::Protocol {
            reason: format!("a message of {length} bytes, fewer than its length takes"),
        });
    }
    Ok(Some((kind, length + 1)).filter(|(_, bytes)| *bytes <= received.len()))
}

/// Body of the first message, given its total length.
pub(crate) fn body(received: &[u8], bytes: usize) -> &[u8] {
    &received[HEADER_BYTES..bytes]
}

/// Removes the next complete message.
pub(crate) fn next(received: &mut BytesMut) -> Result<Option<Message>, PgError> {
    match head(received)? {
        Some(_) => Message::parse(received).map_err(foreign),
        None => Ok(None),
    }
}

/// Reserves room for the next read, if little is left.
pub(crate) fn make_room(received: &mut BytesMut) {
    if received.capacity() - received.len() < READ_BYTES / 4 {
        received.reserve(READ_BYTES);
    }
}

/// Maps a parse error in received bytes, which parsers report as an I/O error.
#[allow(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(crate) fn foreign(error: std::io::Error) -> PgError {
    PgError::Protocol {
        reason: error.to_string(),
    }
}

/// An unsendable statement: it contains a zero byte, or is too long for a message.
fn unsendable(error: &std::io::Error) -> PgError {
    PgError::Unsendable {
        reason: error.to_string(),
    }
}

/// Writes all or nothing.
fn whole(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<(), PgError>,
) -> Result<(), PgError> {
    let from = out.len();
    let written = write(out);
    if written.is_err() {
        out.truncate(from);
    }
    written
}

/// Prepares a statement under a name, closing another one first if required.
pub(crate) fn write_prepare(
    name: &str,
    text: &str,
    closed: Option<&str>,
    out: &mut BytesMut,
) -> Result<(), PgError> {
    whole(out, |out| {
        let mut write = || {
            if let Some(closed) = closed {
                frontend::close(b'S', closed, out)?;
            }
            frontend::parse(name, text, [], out)?;
            frontend::describe(b'S', name, out)
        };
        write().map_err(|error| unsendable(&error))?;
        frontend::sync(out);
        Ok(())
    })
}

/// Form of all parameters and results of a statement (manual, 53.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Binary,
}

/// Runs a prepared statement to its end, with parameters as text; `None` is null.
pub(crate) fn write_run(name: &str, parameters: &[Option<&[u8]>], out: &mut BytesMut) -> Result<(), PgError> {
    write_run_as(Format::Text, name, parameters, out)
}

/// As [`write_run`], with parameters and results in this form.
pub(crate) fn write_run_as(
    format: Format,
    name: &str,
    parameters: &[Option<&[u8]>],
    out: &mut BytesMut,
) -> Result<(), PgError> {
    /// Execute of the unnamed portal without a row limit, and a Sync.
    const EXECUTE_AND_SYNC: [u8; 15] = *b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
    write_bind(format, name, parameters, out)?;
    out.extend_from_slice(&EXECUTE_AND_SYNC);
    Ok(())
}

/// Opens a prepared statement and requests its first rows, at most `rows_max`. [`write_fetch`] requests more,
/// [`write_end`] ends it.
pub(crate) fn write_open(
    name: &str,
    parameters: &[Option<&[u8]>],
    rows_max: u16,
    out: &mut BytesMut,
) -> Result<(), PgError> {
    whole(out, |out| {
        write_bind(Format::Text, name, parameters, out)?;
        write_fetch(rows_max, out)
    })
}

/// Requests up to `rows_max` more rows. Followed by a Flush, because a Sync would end the portal.
pub(crate) fn write_fetch(rows_max: u16, out: &mut BytesMut) -> Result<(), PgError> {
    frontend::execute("", i32::from(rows_max), out).map_err(|error| unsendable(&error))?;
    frontend::flush(out);
    Ok(())
}

/// Ends a statement read in parts, finished or not: in a transaction a Sync alone would leave the portal open.
pub(crate) fn write_end(out: &mut BytesMut) -> Result<(), PgError> {
    frontend::close(b'P', "", out).map_err(|error| unsendable(&error))?;
    frontend::sync(out);
    Ok(())
}

/// Runs a prepared COPY statement; [`write_end`] ends it. Until then only its data may follow.
pub(crate) fn write_copy(name: &str, out: &mut BytesMut) -> Result<(), PgError> {
    whole(out, |out| {
        write_bind(Format::Text, name, &[], out)?;
        write_fetch(0, out)
    })
}

/// Some of the data of a COPY.
pub(crate) fn write_copy_bytes(bytes: &[u8], out: &mut BytesMut) -> Result<(), PgError> {
    let message = frontend::CopyData::new(bytes).map_err(|error| unsendable(&error))?;
    message.write(out);
    Ok(())
}

/// End of the data.
pub(crate) fn write_copy_done(out: &mut BytesMut) {
    frontend::copy_done(out);
}

/// Aborts the data, so that the server discards it.
pub(crate) fn write_copy_fail(out: &mut BytesMut) -> Result<(), PgError> {
    frontend::copy_fail("given up", out).map_err(|error| unsendable(&error))
}

/// Binds parameters to a prepared statement, as the unnamed portal. Written by hand for speed, because every run needs
/// it: all or nothing.
fn write_bind(
    format: Format,
    name: &str,
    parameters: &[Option<&[u8]>],
    out: &mut BytesMut,
) -> Result<(), PgError> {
    const NULL: i32 = -1;
    /// Number of formats, and the one for all values: text, if there is none.
    const BINARY: &[u8] = &[0, 1, 0, 1];
    let format = match format {
        Format::Text => &[0, 0],
        Format::Binary => BINARY,
    };
    let too_large = || PgError::Unsendable {
        reason: "value too large to transmit".into(),
    };
    let values = parameters.iter().map(|value| 4 + value.map_or(0, <[u8]>::len));
    // The length itself, the names of portal and statement, the counts of parameter formats, of parameters, and of
    // result formats.
    let length = 4 + 1 + (name.len() + 1) + format.len() + 2 + values.sum::<usize>() + format.len();
    let length = i32::try_from(length).map_err(|_| too_large())?;
    let count = u16::try_from(parameters.len()).map_err(|_| too_large())?;
    out.reserve(1 + length as usize);
    out.put_u8(b'B');
    out.put_i32(length);
    out.put_u8(0);
    out.put_slice(name.as_bytes());
    out.put_u8(0);
    out.put_slice(format);
    out.put_u16(count);
    for value in parameters {
        match value {
            Some(text) => {
                // Fits, because the sum of all lengths does.
                out.put_u32(text.len() as u32);
                out.put_slice(text);
            }
            None => out.put_i32(NULL),
        }
    }
    out.put_slice(format);
    Ok(())
}

/// A cancellation request, for a connection of its own.
pub(crate) fn write_cancel(key: CancelKey, out: &mut BytesMut) {
    frontend::cancel_request(key.process_id, key.secret_key, out);
}

#[cfg(test)]
mod tests {
    use postgres_protocol::IsNull;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_statement_is_run_with_the_bytes_of_the_library(
            name in "[a-z0-9]{0,9}",
            parameters in proptest::collection::vec(proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)), 0..5),
            is_binary: bool,
        ) {
            let (format, formats) = if is_binary { (Format::Binary, vec![1]) } else { (Format::Text, vec![]) };
            let mut expected = BytesMut::from(&b"before"[..]);
            let serialize = |value: &Option<Vec<u8>>, out: &mut BytesMut| match value {
                Some(text) => {
                    out.extend_from_slice(text);
                    Ok(IsNull::No)
                }
                None => Ok(IsNull::Yes),
            };
            let bound = frontend::bind("", &name, formats.clone(), &parameters, serialize, formats, &mut expected);
            prop_assert!(bound.is_ok());
            frontend::execute("", 0, &mut expected).unwrap();
            frontend::sync(&mut expected);
            let parameters: Vec<_> = parameters.iter().map(Option::as_deref).collect();
            let mut out = BytesMut::from(&b"before"[..]);
            write_run_as(format, &name, &parameters, &mut out).unwrap();
            prop_assert_eq!(out, expected);
        }
    }

    #[test]
    fn more_parameters_than_a_message_may_have_are_refused_and_leave_nothing() {
        let mut out = BytesMut::new();
        let refused = write_run("s1", &vec![None; 65_536], &mut out);
        assert!(matches!(refused, Err(PgError::Unsendable { .. })), "{refused:?}");
        assert!(out.is_empty());
        assert!(write_run("s1", &vec![None; 65_535], &mut out).is_ok());
    }
}
