//! What is sent, and how what comes is cut into messages.

use bytes::{BufMut as _, BytesMut};
use postgres_protocol::message::{backend::Message, frontend};

use super::CancelKey;
use crate::error::PgError;

/// One message's bytes: more than a row of 64 MiB is refused, and with it whatever a server that is none claims to send.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Before a message's body: what it is, and its length without that.
const HEADER_BYTES: usize = 5;
/// Room for one read.
const READ_BYTES: usize = 65_536;

/// What stands first among what has come: the kind of a message that is whole, and the bytes that it takes.
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

/// The body of a message of so many bytes that stands first.
pub(crate) fn body(received: &[u8], bytes: usize) -> &[u8] {
    &received[HEADER_BYTES..bytes]
}

/// Takes the next message that is whole.
pub(crate) fn next(received: &mut BytesMut) -> Result<Option<Message>, PgError> {
    match head(received)? {
        Some(_) => Message::parse(received).map_err(foreign),
        None => Ok(None),
    }
}

/// Makes room for what comes next, where there is little left.
pub(crate) fn make_room(received: &mut BytesMut) {
    if received.capacity() - received.len() < READ_BYTES / 4 {
        received.reserve(READ_BYTES);
    }
}

/// An error in what the server has sent, which readers of messages report as one of input.
#[allow(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(crate) fn foreign(error: std::io::Error) -> PgError {
    PgError::Protocol {
        reason: error.to_string(),
    }
}

/// A statement that cannot be sent: it has a zero byte, or is too long for a message.
fn unsendable(error: &std::io::Error) -> PgError {
    PgError::Unsendable {
        reason: error.to_string(),
    }
}

/// Writes all of it or nothing.
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

/// Has a statement prepared under a name, after another has been closed.
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

/// Has a prepared statement run to its end, with parameters as text; `None` is null.
pub(crate) fn write_run(name: &str, parameters: &[Option<&[u8]>], out: &mut BytesMut) -> Result<(), PgError> {
    /// To the end of the portal without a name, and a Sync.
    const EXECUTE_AND_SYNC: [u8; 15] = *b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
    write_bind(name, parameters, out)?;
    out.extend_from_slice(&EXECUTE_AND_SYNC);
    Ok(())
}

/// Has a prepared statement give its first rows, at most so many; [`write_fetch`] asks for more, [`write_end`] is its end.
pub(crate) fn write_open(
    name: &str,
    parameters: &[Option<&[u8]>],
    rows_max: u16,
    out: &mut BytesMut,
) -> Result<(), PgError> {
    whole(out, |out| {
        write_bind(name, parameters, out)?;
        write_fetch(rows_max, out)
    })
}

/// Asks for so many rows more. A flush has them sent: a Sync would end the portal.
pub(crate) fn write_fetch(rows_max: u16, out: &mut BytesMut) -> Result<(), PgError> {
    frontend::execute("", i32::from(rows_max), out).map_err(|error| unsendable(&error))?;
    frontend::flush(out);
    Ok(())
}

/// Ends a statement that gives rows in parts, whether or not it has given all: within a transaction a Sync alone leaves the portal open.
pub(crate) fn write_end(out: &mut BytesMut) -> Result<(), PgError> {
    frontend::close(b'P', "", out).map_err(|error| unsendable(&error))?;
    frontend::sync(out);
    Ok(())
}

/// Has a prepared statement copy; [`write_end`] is its end. Until then nothing but what is copied may follow.
pub(crate) fn write_copy(name: &str, out: &mut BytesMut) -> Result<(), PgError> {
    whole(out, |out| {
        write_bind(name, &[], out)?;
        write_fetch(0, out)
    })
}

/// Bytes that are copied.
pub(crate) fn write_copy_bytes(bytes: &[u8], out: &mut BytesMut) -> Result<(), PgError> {
    let message = frontend::CopyData::new(bytes).map_err(|error| unsendable(&error))?;
    message.write(out);
    Ok(())
}

/// There are no more.
pub(crate) fn write_copy_done(out: &mut BytesMut) {
    frontend::copy_done(out);
}

/// There are no more, and those that have come are not wanted.
pub(crate) fn write_copy_fail(out: &mut BytesMut) -> Result<(), PgError> {
    frontend::copy_fail("given up", out).map_err(|error| unsendable(&error))
}

/// Binds parameters to a prepared statement, as the portal without a name. Written by hand, as it is written for every statement that is run: all of it or nothing.
fn write_bind(name: &str, parameters: &[Option<&[u8]>], out: &mut BytesMut) -> Result<(), PgError> {
    const NULL: i32 = -1;
    let too_large = || PgError::Unsendable {
        reason: "value too large to transmit".into(),
    };
    let values = parameters.iter().map(|value| 4 + value.map_or(0, <[u8]>::len));
    // The length itself, the portal's name, the statement's, the number of formats, of parameters, of formats of the result.
    let length = 4 + 1 + (name.len() + 1) + 2 + 2 + values.sum::<usize>() + 2;
    let length = i32::try_from(length).map_err(|_| too_large())?;
    let count = u16::try_from(parameters.len()).map_err(|_| too_large())?;
    out.reserve(1 + length as usize);
    out.put_u8(b'B');
    out.put_i32(length);
    out.put_u8(0);
    out.put_slice(name.as_bytes());
    out.put_u8(0);
    out.put_u16(0);
    out.put_u16(count);
    for value in parameters {
        match value {
            Some(text) => {
                // The sum of all is none too many.
                out.put_u32(text.len() as u32);
                out.put_slice(text);
            }
            None => out.put_i32(NULL),
        }
    }
    out.put_u16(0);
    Ok(())
}

/// Asks the server, on a connection made for it, to cancel what another one does.
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
        ) {
            let mut expected = BytesMut::from(&b"before"[..]);
            let serialize = |value: &Option<Vec<u8>>, out: &mut BytesMut| match value {
                Some(text) => {
                    out.extend_from_slice(text);
                    Ok(IsNull::No)
                }
                None => Ok(IsNull::Yes),
            };
            let bound = frontend::bind("", &name, [], &parameters, serialize, [], &mut expected);
            prop_assert!(bound.is_ok());
            frontend::execute("", 0, &mut expected).unwrap();
            frontend::sync(&mut expected);
            let parameters: Vec<_> = parameters.iter().map(Option::as_deref).collect();
            let mut out = BytesMut::from(&b"before"[..]);
            write_run(&name, &parameters, &mut out).unwrap();
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
