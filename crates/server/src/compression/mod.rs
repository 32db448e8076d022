//! Compression of responses, after their target and before their protocol. Whether a response is compressed depends on its media type, on
//! what its client accepts, and on whether its length could betray a secret. The thread's budget limits how much is compressed.
//!
//! A body of up to [`STEP_BYTES`] in memory is compressed at once and has a length; anything else becomes a stream. The end of a
//! stream is written only after its source has ended, so a body that is cut off does not decode.

mod accept_encoding;
mod budget;
mod encoder;
mod stream;

use std::{
    borrow::Cow,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use bytes::Bytes;

pub(crate) use self::{
    accept_encoding::{AcceptEncoding, Coding},
    budget::{Budget, Counts, Skipped, Totals},
};
use self::{
    encoder::{Encoder, encode},
    stream::{CompressedStream, FileSource, MemorySource},
};
use crate::{
    conditions::{IF_NONE_MATCH, Tags},
    config::{self, Compress},
    front::Head,
    reply::{Body, HeaderLines, Reply},
    target::{BodyStream, Request, essence},
};

/// Most bytes that are compressed without giving other requests of the thread a turn: a fraction of a millisecond.
const STEP_BYTES: usize = 32 * 1024;

/// Media types that become shorter, beside those of text and those that end in `+json`, `+xml` and the like. Sorted.
const COMPRESSIBLE: [&str; 20] = [
    "application/ecmascript",
    "application/javascript",
    "application/json",
    "application/jsonl",
    "application/rtf",
    "application/sql",
    "application/toml",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-www-form-urlencoded",
    "application/xml",
    "application/yaml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/vnd.microsoft.icon",
    "image/x-icon",
    "model/obj",
];
const COMPRESSIBLE_SUFFIXES: [&str; 4] = ["+json", "+json-seq", "+xml", "+yaml"];

/// The body of a response that is sent more than once, in the codings in which it has been sent.
#[derive(Debug)]
pub(crate) struct EncodedBodies {
    /// In the order of [`Coding::ALL`].
    bodies: [OnceLock<Bytes>; Coding::COUNT],
    /// How much longer they may become: together as long as the body itself.
    room: AtomicUsize,
}

impl EncodedBodies {
    /// For a body of this length; `None` if it is always compressed anew, piece by piece.
    pub(crate) fn of(length: usize) -> Option<Self> {
        (length <= STEP_BYTES).then(|| Self {
            bodies: Default::default(),
            room: length.into(),
        })
    }

    fn get(&self, coding: Coding) -> Option<Bytes> {
        self.bodies[coding as usize].get().cloned()
    }

    fn set(&self, coding: Coding, encoded: &Bytes) {
        let take = |room: usize| room.checked_sub(encoded.len());
        if self.room.fetch_update(Relaxed, Relaxed, take).is_ok() {
            // Another thread may have been faster.
            let _ = self.bodies[coding as usize].set(encoded.clone());
        }
    }
}

/// How a route compresses its responses.
#[derive(Debug)]
pub(crate) struct Compression {
    /// Whether responses may contain a secret of one user beside text that the request chose.
    may_be_secret: bool,
    bytes_min: u64,
    cpu_share: f64,
    /// The body that is always the same, in the codings in which it is shorter.
    constant: Vec<(Coding, Vec<u8>)>,
}

impl Compression {
    /// `None`: the route compresses nothing.
    pub(crate) fn new(route: &config::Route, headers: &HeaderLines, server: &config::Server) -> Option<Self> {
        let of_route = Traits::of(headers);
        // The fields of the route are added later, so a tag among them could not be made weak.
        if route.compress == Compress::Off || of_route.is_fixed || of_route.etag.is_some() {
            return None;
        }
        let is_same_for_all = matches!(
            route.target,
            config::Target::Respond(_) | config::Target::Files(_) | config::Target::OpenApi
        );
        // A certificate identifies its client, whatever the request contains.
        let always_identifies = server.client_ca.is_some() || of_route.sets_cookie;
        let may_be_secret = route.compress == Compress::Public && !is_same_for_all;
        if may_be_secret && always_identifies {
            return None;
        }
        let constant = match &route.target {
            config::Target::Respond(respond) => encode_constant(respond),
            _ => Vec::new(),
        };
        Some(Self {
            may_be_secret,
            bytes_min: server.compress_bytes_min,
            cpu_share: server.compress_cpu_max,
            constant,
        })
    }

    /// Compresses a response if that is possible and allowed, and adjusts its headers.
    pub(crate) fn apply<'a>(&'a self, request: &Request<'_>, mut reply: Reply<'a>) -> Reply<'a> {
        let traits = Traits::of(&reply.headers);
        let is_unchanged = reply.status == 304;
        let has_type = is_unchanged || traits.is_compressible;
        if matches!(reply.status, 204 | 205) || traits.is_fixed || !has_type {
            return reply;
        }
        let has_vary = traits.varies;
        // A client that names the weak tag has the encoded response.
        let has_encoded = is_unchanged && traits.etag.is_some_and(|tag| names_weak_form(request.head, tag));
        let is_whole = !is_unchanged && !traits.is_part && reply.status != 206;
        let is_secret = self.may_be_secret && (traits.sets_cookie || has_credentials(request.head));
        let coding = if is_whole && !is_secret {
            self.coding(request.head, &reply)
        } else {
            None
        };
        let coding = coding.filter(|coding| self.encode(*coding, request, &mut reply));
        if has_encoded || coding.is_some() {
            reply.headers = Cow::Owned(encoded_headers(&reply.headers));
        }
        if let Some(coding) = coding {
            reply
                .headers
                .to_mut()
                .push_known("content-encoding", coding.name());
        }
        if !has_vary {
            reply.headers.to_mut().push_known("vary", "accept-encoding");
        }
        reply
    }

    /// The coding for a response, by what the client accepts and by the length of the body.
    fn coding(&self, head: &Head, reply: &Reply<'_>) -> Option<Coding> {
        // Without chunks, a body whose end is cut off looks whole.
        if head.is_http10 {
            return None;
        }
        let accepted = AcceptEncoding::parse(&head.list("accept-encoding")?);
        let coding = accepted.preferred(Coding::ALL).next()?;
        let is_head = head.method() == "HEAD";
        match reply.announced(is_head) {
            Some(0) => None,
            Some(length) if length < self.bytes_min && !accepted.refuses_identity() => None,
            // Nothing is known about the body that GET would have.
            None if is_head && !matches!(reply.body, Body::Stream(_)) => None,
            _ => Some(coding),
        }
    }

    /// Encodes the body. `false`: the body stays as it is.
    fn encode<'a>(&'a self, coding: Coding, request: &Request<'_>, reply: &mut Reply<'a>) -> bool {
        if let Body::Borrowed(_) = reply.body {
            let constant = self.constant.iter().find(|(known, _)| *known == coding);
            let Some((_, encoded)) = constant else {
                return false;
            };
            reply.body = Body::Borrowed(encoded);
            return true;
        }
        if request.head.method() == "HEAD" {
            // The length in the coding would be known only after compressing the body.
            (reply.body, reply.length) = (Body::Empty, None);
            return true;
        }
        if let Some(encoded) = reply.encoded.as_ref().and_then(|known| known.get(coding)) {
            reply.body = Body::Bytes(encoded);
            return true;
        }
        let thread = request.thread;
        let (budget, counts) = (&thread.compression, &thread.shared.compression);
        if budget.is_spent(self.cpu_share, Instant::now()) {
            counts.skip(Skipped::Cpu);
            return false;
        }
        if let Body::Bytes(bytes) = &reply.body
            && bytes.len() <= STEP_BYTES
        {
            let (encoded, cost) = budget.run(self.cpu_share, || encode(coding, bytes));
            let encoded = encoded.ok().filter(|encoded| encoded.len() < bytes.len());
            let length = encoded.as_ref().map_or(bytes.len(), Vec::len);
            counts.count(coding, bytes.len(), length, cost);
            let Some(encoded) = encoded else {
                return false;
            };
            let encoded = Bytes::from(encoded);
            if let Some(known) = &reply.encoded {
                known.set(coding, &encoded);
            }
            reply.body = Body::Bytes(encoded);
            return true;
        }
        let (Some(permit), Ok(encoder)) = (budget.acquire_stream(), Encoder::new(coding, None)) else {
            counts.skip(Skipped::Streams);
            return false;
        };
        let source: Box<dyn BodyStream + 'a> = match std::mem::replace(&mut reply.body, Body::Empty) {
            Body::Stream(stream) => stream,
            Body::File { file, offset, length } => Box::new(FileSource { file, offset, length }),
            Body::Bytes(bytes) => Box::new(MemorySource(bytes)),
            Body::Empty | Body::Borrowed(_) => return false,
        };
        let stream = CompressedStream::new(source, coding, encoder, permit, thread, self.cpu_share);
        reply.body = Body::Stream(Box::new(stream));
        true
    }
}

/// A body that is always the same, in the codings in which it is shorter.
fn encode_constant(respond: &config::Respond) -> Vec<(Coding, Vec<u8>)> {
    let content_type = respond.content_type.as_deref().unwrap_or_default();
    if !is_compressible(content_type.as_bytes()) {
        return Vec::new();
    }
    let codings = Coding::ALL.into_iter();
    codings
        .filter_map(|coding| Some((coding, encode(coding, &respond.body).ok()?)))
        .filter(|(_, encoded)| encoded.len() < respond.body.len())
        .collect()
}

/// Whether the request identifies its user by a field that browsers add by themselves, even if a page of another site makes the request.
fn has_credentials(head: &Head) -> bool {
    head.fields()
        .any(|(name, _)| matches!(name, b"cookie" | b"authorization"))
}

/// Whether `If-None-Match` names the weak form of a tag.
fn names_weak_form(head: &Head, tag: &[u8]) -> bool {
    let list = head.list("if-none-match").unwrap_or_default();
    match Tags::read(IF_NONE_MATCH, &list) {
        Ok(Tags::These(tags)) => tags.each().any(|named| named.is_weak && named.quoted == tag),
        Ok(Tags::Any) | Err(_) => false,
    }
}

/// The fields of a response as they are once it is encoded: its tag is weak (RFC 9110, 8.8.3.3), and there are no ranges of it.
fn encoded_headers(headers: &HeaderLines) -> HeaderLines {
    let mut lines = HeaderLines::default();
    for (name, value) in headers.fields() {
        match name {
            b"accept-ranges" => {}
            b"etag" if value.starts_with(b"\"") => lines.put(name, &[b"W/", value].concat()),
            _ => lines.put(name, value),
        }
    }
    lines
}

/// Properties of a response that decide about compression, read from its header fields.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is what one header field says")]
struct Traits<'h> {
    is_compressible: bool,
    /// It is encoded already, must not be, or has a digest of its bytes.
    is_fixed: bool,
    is_part: bool,
    sets_cookie: bool,
    /// `Vary` names Accept-Encoding already.
    varies: bool,
    etag: Option<&'h [u8]>,
}

impl<'h> Traits<'h> {
    fn of(headers: &'h HeaderLines) -> Self {
        let mut traits = Self::default();
        for (name, value) in headers.fields() {
            match name {
                b"content-type" => traits.is_compressible = is_compressible(value),
                b"content-encoding" | b"content-digest" | b"repr-digest" | b"digest" | b"content-md5" => {
                    traits.is_fixed = true;
                }
                b"cache-control" => traits.is_fixed |= lists(value, b"no-transform"),
                b"content-range" => traits.is_part = true,
                b"set-cookie" => traits.sets_cookie = true,
                b"vary" => traits.varies |= lists(value, b"accept-encoding") || lists(value, b"*"),
                b"etag" => traits.etag = Some(value),
                _ => {}
            }
        }
        traits
    }
}

/// Whether a list has this element, in any case.
fn lists(list: &[u8], element: &[u8]) -> bool {
    let mut elements = list.split(|&byte| byte == b',');
    elements.any(|listed| listed.trim_ascii().eq_ignore_ascii_case(element))
}

/// Whether bodies of this Content-Type become shorter.
fn is_compressible(content_type: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(essence(content_type)) else {
        return false;
    };
    let name = name.to_ascii_lowercase();
    name.starts_with("text/")
        || COMPRESSIBLE.binary_search(&&*name).is_ok()
        || COMPRESSIBLE_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_compressible_and_pictures_are_not() {
        assert!(COMPRESSIBLE.is_sorted());
        for (content_type, expected) in [
            ("text/html; charset=utf-8", true),
            ("TEXT/Plain", true),
            ("text/event-stream", true),
            ("application/json", true),
            ("application/problem+json; x=y", true),
            ("image/svg+xml", true),
            ("application/wasm", true),
            ("font/ttf", true),
            ("font/woff2", false),
            ("image/png", false),
            ("application/octet-stream", false),
            ("application/zip", false),
            ("application/x; a=+json", false),
            ("", false),
        ] {
            assert_eq!(
                is_compressible(content_type.as_bytes()),
                expected,
                "{content_type}"
            );
        }
    }
}
