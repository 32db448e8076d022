//! What is sent, and how what comes is cut into messages.

use bytes::BytesMut;
use postgres_protocol::{
    IsNull,
    message::{
        backend::{Header, Message},
        frontend,
    },
};

use super::CancelKey;
use crate::error::PgError;

/// One message's bytes: more than a row of 64 MiB is refused, and with it whatever a server that is none claims to send.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Takes the next message that is whole.
pub(crate) fn next(received: &mut BytesMut) -> Result<Option<Message>, PgError> {
    let Some(header) = Header::parse(received).map_err(foreign)? else {
        return Ok(None);
    };
    let length = usize::try_from(header.len()).unwrap_or(usize::MAX);
    if length > MESSAGE_BYTES_MAX {
        return Err(PgError::Protocol {
            reason: format!("a message of {length} bytes, more than {MESSAGE_BYTES_MAX}"),
        });
    }
    Message::parse(received).map_err(foreign)
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
pub(crate) fn write_run<'p>(
    name: &str,
    parameters: impl IntoIterator<Item = Option<&'p [u8]>>,
    out: &mut BytesMut,
) -> Result<(), PgError> {
    whole(out, |out| {
        write_bind(name, parameters, out)?;
        frontend::execute("", 0, out).map_err(|error| unsendable(&error))?;
        frontend::sync(out);
        Ok(())
    })
}

/// Has a prepared statement give its first rows, at most so many; [`write_fetch`] asks for more, [`write_end`] is its end.
pub(crate) fn write_open<'p>(
    name: &str,
    parameters: impl IntoIterator<Item = Option<&'p [u8]>>,
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
        write_bind(name, [], out)?;
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

fn write_bind<'p>(
    name: &str,
    parameters: impl IntoIterator<Item = Option<&'p [u8]>>,
    out: &mut BytesMut,
) -> Result<(), PgError> {
    frontend::bind(
        "",
        name,
        [],
        parameters,
        |parameter, out| {
            let Some(text) = parameter else {
                return Ok(IsNull::Yes);
            };
            out.extend_from_slice(text);
            Ok(IsNull::No)
        },
        [],
        out,
    )
    .map_err(|error| match error {
        frontend::BindError::Conversion(error) => PgError::Unsendable {
            reason: error.to_string(),
        },
        frontend::BindError::Serialization(error) => unsendable(&error),
    })
}

/// Asks the server, on a connection made for it, to cancel what another one does.
pub(crate) fn write_cancel(key: CancelKey, out: &mut BytesMut) {
    frontend::cancel_request(key.process_id, key.secret_key, out);
}
