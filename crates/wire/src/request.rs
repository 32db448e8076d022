//! The payload of REQUEST: PROTOCOL.md section 4.

use crate::{WireError, frame::u32_at, put_pair};

/// Bytes of the fixed part in front of a REQUEST's parts.
pub const REQUEST_TABLE_BYTES: usize = 36;
/// Where the length of `id` is in the table.
const ID_LENGTH_AT: usize = 32;
/// Set in the length of `id`: an identity follows it.
const HAS_IDENTITY: u32 = 1 << 31;

/// Bytes of a [`Connection`].
pub const CONNECTION_BYTES: usize = 4;

/// The client's connection, as the end of a REQUEST payload with the flag [`CONNECTION`](crate::flag::CONNECTION) tells of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The client's port; 0 if it is not known.
    pub port: u16,
    /// Whether the client speaks TLS.
    pub is_tls: bool,
}

impl Connection {
    /// The bytes to append to a payload.
    pub const fn to_bytes(self) -> [u8; CONNECTION_BYTES] {
        let [low, high] = self.port.to_le_bytes();
        [low, high, self.is_tls as u8, 0]
    }
}

/// The parts of a REQUEST payload to encode. `params` and `headers` are iterators, so callers need not collect pairs first.
#[derive(Debug)]
pub struct RequestParts<'a, P, H> {
    /// Milliseconds left until the deadline, 0 for none; see [`set_remaining_ms`].
    pub remaining_ms: u32,
    /// The method's name.
    pub method: &'a [u8],
    /// The path as received.
    pub path: &'a [u8],
    /// The query as received, without `?`.
    pub query: &'a [u8],
    /// The pattern of the route.
    pub route: &'a [u8],
    /// Decoded path parameters.
    pub params: P,
    /// Header fields with lower-case names.
    pub headers: H,
    /// The client's address.
    pub peer: &'a [u8],
    /// The request's id, whether or not it is among the headers.
    pub id: &'a [u8],
    /// The identity of the client as JSON; empty without authentication.
    pub identity: &'a [u8],
    /// The body's first bytes.
    pub body: &'a [u8],
}

impl<'a, P, H> RequestParts<'a, P, H>
where
    P: Iterator<Item = (&'a [u8], &'a [u8])>,
    H: Iterator<Item = (&'a [u8], &'a [u8])>,
{
    /// Appends the payload to `out`.
    pub fn put(self, out: &mut Vec<u8>) {
        let table = out.len();
        out.extend_from_slice(&[0; REQUEST_TABLE_BYTES]);
        out[table..table + 4].copy_from_slice(&self.remaining_ms.to_le_bytes());
        let mut field = table + 4;
        let mut close = |out: &mut Vec<u8>, start: usize| {
            let length = (out.len() - start) as u32;
            out[field..field + 4].copy_from_slice(&length.to_le_bytes());
            field += 4;
        };
        for part in [self.method, self.path, self.query, self.route] {
            let start = out.len();
            out.extend_from_slice(part);
            close(out, start);
        }
        let start = out.len();
        self.params.for_each(|(name, value)| put_pair(out, name, value));
        close(out, start);
        let start = out.len();
        self.headers.for_each(|(name, value)| put_pair(out, name, value));
        close(out, start);
        for part in [self.peer, self.id] {
            let start = out.len();
            out.extend_from_slice(part);
            close(out, start);
        }
        if !self.identity.is_empty() {
            out[table + REQUEST_TABLE_BYTES - 1] |= (HAS_IDENTITY >> 24) as u8;
            out.extend_from_slice(&(self.identity.len() as u32).to_le_bytes());
            out.extend_from_slice(self.identity);
        }
        out.extend_from_slice(self.body);
    }
}

/// Sets the remaining time in a payload made by [`RequestParts::put`]. A job may wait between encoding and sending.
pub fn set_remaining_ms(payload: &mut [u8], remaining_ms: u32) {
    payload[..4].copy_from_slice(&remaining_ms.to_le_bytes());
}

/// A payload made by [`RequestParts::put`] without its identity, for a worker that does not know of identities; `None` if it has none.
pub fn without_identity(payload: &[u8]) -> Option<Vec<u8>> {
    let view = RequestView::decode(payload)
        .ok()
        .filter(|view| !view.identity.is_empty())?;
    let body_at = payload.len() - view.body.len();
    let mut plain = payload[..body_at - view.identity.len() - 4].to_vec();
    plain[REQUEST_TABLE_BYTES - 1] &= !((HAS_IDENTITY >> 24) as u8);
    plain.extend_from_slice(view.body);
    Some(plain)
}

/// A decoded REQUEST payload; every part borrows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of RequestParts")]
pub struct RequestView<'a> {
    pub remaining_ms: u32,
    pub method: &'a [u8],
    pub path: &'a [u8],
    pub query: &'a [u8],
    pub route: &'a [u8],
    /// A pair block, read by [`Pairs`](crate::Pairs).
    pub params: &'a [u8],
    /// A pair block, read by [`Pairs`](crate::Pairs).
    pub headers: &'a [u8],
    pub peer: &'a [u8],
    pub id: &'a [u8],
    pub identity: &'a [u8],
    pub body: &'a [u8],
}

impl<'a> RequestView<'a> {
    /// Reads a payload.
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        let truncated = |needed: u64| WireError::Truncated {
            kind: "REQUEST",
            needed,
            present: payload.len(),
        };
        let Some((table, mut rest)) = payload.split_at_checked(REQUEST_TABLE_BYTES) else {
            return Err(truncated(REQUEST_TABLE_BYTES as u64));
        };
        let has_identity = u32_at(table, ID_LENGTH_AT) & HAS_IDENTITY != 0;
        let length = |at| match at {
            ID_LENGTH_AT => u32_at(table, at) & !HAS_IDENTITY,
            at => u32_at(table, at),
        };
        let lengths: u64 = (4..REQUEST_TABLE_BYTES)
            .step_by(4)
            .map(|at| u64::from(length(at)))
            .sum();
        if lengths > rest.len() as u64 {
            return Err(truncated(REQUEST_TABLE_BYTES as u64 + lengths));
        }
        let mut field = 0;
        let mut part = || {
            field += 4;
            let (part, after) = rest.split_at(length(field) as usize);
            rest = after;
            part
        };
        let (method, path, query, route) = (part(), part(), part(), part());
        let (params, headers, peer, id) = (part(), part(), part(), part());
        let mut identity = &[][..];
        if has_identity {
            let before = (REQUEST_TABLE_BYTES as u64) + lengths + 4;
            let (length, after) = rest.split_at_checked(4).ok_or(truncated(before))?;
            let length = u32_at(length, 0);
            let split = after.split_at_checked(length as usize);
            (identity, rest) = split.ok_or(truncated(before + u64::from(length)))?;
        }
        let remaining_ms = u32_at(table, 0);
        Ok(Self {
            remaining_ms,
            method,
            path,
            query,
            route,
            params,
            headers,
            peer,
            id,
            identity,
            body: rest,
        })
    }
}
