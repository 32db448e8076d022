//! The store as a target: documents, their children and changes to them, over HTTP.
//!
//! Reads run on the I/O thread, from a snapshot: they never wait for a writer, and long ones run in pieces. Writes are handed to the writer
//! of [`crate::store`], and the response waits for it.

mod batch;
pub(super) mod body;
mod children;
mod feed;
mod filter;
mod query;
mod search;
pub(super) mod write;

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use forebay_store::{Key, Read, Snapshot};

use self::{children::Children, query::Query};
use super::{
    End, Request,
    access::Rules,
    snapshot_read::{ReadOutcome, off_thread, only_reads, read, read_remote},
    websocket::refused_handshake,
};
use crate::{
    conditions::{self, Verdict},
    config::{self, PathKind, print_duration},
    failure::Refusal,
    front::{Client, Head},
    reply::{Body, HeaderLines, Reply},
    store::{OpenStore, Tag, lifetime, path},
};

/// Initial capacity for the header fields of a typical response.
const FIELDS_BYTES: usize = 128;
/// 10000-01-01, the first time that an HTTP date, whose year has four digits, cannot express.
const DATES_END_MS: u64 = 253_402_300_800_000;

/// The store target of one route.
#[derive(Clone, Debug)]
pub(crate) struct StoreTarget {
    kind: PathKind,
    open: Arc<OpenStore>,
    rules: Arc<Rules>,
    value_bytes_max: usize,
}

impl StoreTarget {
    pub(crate) fn new(open: &Arc<OpenStore>, config: &config::Store, rules: &Arc<Rules>) -> Self {
        Self {
            kind: PathKind::Own,
            open: Arc::clone(open),
            rules: Arc::clone(rules),
            value_bytes_max: usize::try_from(config.value_bytes_max).unwrap_or(usize::MAX),
        }
    }

    /// The same target for another path of the route.
    pub(crate) fn at(&self, kind: PathKind) -> Self {
        Self { kind, ..self.clone() }
    }

    /// Answers a request: a read mostly at once, from a snapshot; a write once the writer has done it.
    pub(crate) async fn answer(
        &self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'static>, End> {
        if self.kind == PathKind::Changes && request.head.wants_websocket {
            if let Some(reply) = refused_handshake(request.head)? {
                return Ok(reply);
            }
            if request.head.upgrade().is_some() {
                let log = Box::pin(self.log(request, client)).await?;
                let reply = feed::socket(&self.open, request, log, self.rules.readable(request.head)?)?;
                client.begin_tunnel();
                return Ok(reply);
            }
        }
        if self.kind == PathKind::Changes && only_reads(request.head) {
            let readable = self.rules.readable(request.head)?;
            let log = Box::pin(self.log(request, client)).await?;
            return Ok(feed::reply(&self.open, request, log, readable)?);
        }
        if only_reads(request.head) && self.open.is_remote() {
            // Boxed, so that it takes no room in the futures of all other requests.
            return Box::pin(self.read_remote(request, client)).await;
        }
        if only_reads(request.head) {
            return read(&self.open, request, client, || self.read(request)).await;
        }
        client.before_waiting().await?;
        self.write(request, client).await
    }

    /// Whether its connections may go over to WebSocket: the feed of changes does.
    pub(crate) fn takes_upgrades(&self) -> bool {
        self.kind == PathKind::Changes
    }

    /// Where a feed of changes begins.
    async fn log(&self, request: &Request<'_>, client: &mut dyn Client) -> Result<feed::Log, End> {
        let store = self.open.store().clone();
        if !self.open.is_remote() {
            return Ok(feed::begin(&store, request.head)?);
        }
        off_thread(&self.open, request, client, move |head| feed::begin(&store, head)).await
    }

    /// Answers a read-only request from a store in a database.
    async fn read_remote(
        &self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'static>, End> {
        if self.kind != PathKind::Own {
            return Err(self.refuse_method().into());
        }
        let (target, rest) = (self.clone(), rest(request).to_owned());
        if !children::wants_lines(request.head) {
            let begin = move |head: &Head| target.read_at(head, &rest);
            return read_remote(&self.open, request, client, begin).await;
        }
        let place = self.open.stream()?;
        let begin = move |head: &Head| target.children_at(head, &rest);
        let (children, ends) = off_thread(&self.open, request, client, begin).await?;
        let mut reply = children.lines(place, true);
        put_lifetime(ends, reply.headers.to_mut());
        Ok(reply)
    }

    /// The children that a request for lines asks for, and when their parent expires.
    fn children_at(&self, head: &Head, rest: &str) -> Result<(Children, Option<u64>), Refusal> {
        let key = path::key(rest)?;
        self.rules.check_read(key.global_name(), head)?;
        let query = Query::read(head.query())?;
        let snapshot = self.open.store().snapshot()?;
        let ends = ends(&snapshot, &key)?;
        Ok((Children::new(snapshot, key, query, self.value_bytes_max)?, ends))
    }

    /// Begins a read-only request.
    fn read(&self, request: &Request<'_>) -> Result<ReadOutcome, Refusal> {
        let head = request.head;
        match self.kind {
            PathKind::Own => self.read_at(head, rest(request)),
            PathKind::Changes | PathKind::Batch | PathKind::Job => Err(self.refuse_method()),
        }
    }

    fn read_at(&self, head: &Head, rest: &str) -> Result<ReadOutcome, Refusal> {
        let key = path::key(rest)?;
        self.rules.check_read(key.global_name(), head)?;
        let query = Query::read(head.query())?;
        let lines = children::wants_lines(head)
            .then(|| self.open.stream())
            .transpose()?;
        let snapshot = self.open.store().snapshot()?;
        let ends = ends(&snapshot, &key)?;
        let bytes_max = self.value_bytes_max;
        if let Some(place) = lines {
            let mut reply = Children::new(snapshot, key, query, bytes_max)?.lines(place, false);
            put_lifetime(ends, reply.headers.to_mut());
            return Ok(ReadOutcome::Answered(reply));
        }
        if query.is_of_children() {
            return Children::new(snapshot, key, query, bytes_max)?.page(ends, head);
        }
        let (is_whole, depth) = (query.depth.is_none(), query.depth.unwrap_or(usize::MAX));
        let reply = move |head: &Head, document: Cow<'_, [u8]>| {
            let mut reply = if is_whole {
                document_reply(head, document, "vary: accept\r\n")?
            } else {
                json(200, document.into_owned())
            };
            put_lifetime(ends, reply.headers.to_mut());
            Ok(reply)
        };
        let begun = ReadOutcome::document(snapshot, &key, depth, bytes_max, head, reply)?;
        begun.ok_or(Refusal::NoSuchNode)
    }

    /// Handles every request that is not a read.
    async fn write(&self, request: &Request<'_>, client: &mut dyn Client) -> Result<Reply<'static>, End> {
        let method = request.head.method();
        match (self.kind, method) {
            (_, "OPTIONS") => {
                let mut reply = Reply::new(204);
                reply.headers.to_mut().push_known("allow", self.methods());
                Ok(reply)
            }
            (PathKind::Own, "PUT" | "PATCH" | "POST" | "DELETE") => {
                self.write_node(request, rest(request), client).await
            }
            (PathKind::Batch, "POST") => self.write_batch(request, client).await,
            _ => Err(self.refuse_method().into()),
        }
    }

    fn methods(&self) -> &'static str {
        match self.kind {
            PathKind::Own => "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT",
            PathKind::Batch | PathKind::Job => "OPTIONS, POST",
            PathKind::Changes => "GET, HEAD, OPTIONS",
        }
    }

    fn refuse_method(&self) -> Refusal {
        Refusal::MethodNotAllowed {
            allow: self.methods().into(),
        }
    }

    /// Parses a node's path and checks that this request may write there.
    fn writable(&self, rest: &str, head: &Head) -> Result<Key, Refusal> {
        let key = path::key(rest)?;
        self.rules.check_write(key.global_name(), head)?;
        Ok(key)
    }
}

/// The part of the path below the route.
fn rest<'r>(request: &Request<'r>) -> &'r str {
    request
        .rest
        .expect("the path of a route to the store ends with `*`")
}

/// Adds how long a node still lives, in the syntax of `ttl`, and when it expires (RFC 8594), if it does.
fn put_lifetime(ends_ms: Option<u64>, headers: &mut HeaderLines) {
    let Some(ends_ms) = ends_ms else { return };
    let left = Duration::from_millis(ends_ms.saturating_sub(lifetime::now_ms()));
    headers.push_known("forebay-ttl", &print_duration(left));
    if ends_ms < DATES_END_MS {
        let end = UNIX_EPOCH + Duration::from_millis(ends_ms);
        headers.push_known("sunset", &httpdate::fmt_http_date(end));
    }
}

/// A document as it is stored, or 304 if the client has it; `fields` are sent with both.
pub(super) fn document_reply(
    head: &Head,
    document: Cow<'_, [u8]>,
    fields: &'static str,
) -> Result<Reply<'static>, Refusal> {
    let tag = Tag::of(&document).text();
    let (matches, matches_not) = (head.list("if-match"), head.list("if-none-match"));
    let known = match conditions::judge(matches.as_deref(), matches_not.as_deref(), &tag)? {
        Verdict::Fails => return Err(Refusal::Precondition),
        verdict => verdict == Verdict::Known,
    };
    let mut headers = HeaderLines::of_known(FIELDS_BYTES, fields);
    if !known {
        headers.push_known("content-type", "application/json");
    }
    headers.push_known("etag", std::str::from_utf8(&tag).unwrap_or_default());
    let body = match document {
        _ if known => Body::Empty,
        Cow::Borrowed(text) => Body::Bytes(bytes::Bytes::copy_from_slice(text)),
        Cow::Owned(text) => Body::Bytes(text.into()),
    };
    Ok(Reply {
        status: if known { 304 } else { 200 },
        headers: Cow::Owned(headers),
        body,
        length: None,
        encoded: None,
    })
}

/// When a node expires. One that has expired is removed within a second, and not served meanwhile.
fn ends(snapshot: &Snapshot, key: &Key) -> Result<Option<u64>, Refusal> {
    let ends = snapshot.ends(key)?;
    if ends.is_some_and(|ends| ends <= lifetime::now_ms()) {
        return Err(Refusal::NoSuchNode);
    }
    Ok(ends)
}

/// A JSON response.
pub(super) fn json(status: u16, text: Vec<u8>) -> Reply<'static> {
    let mut reply = Reply::new(status);
    reply
        .headers
        .to_mut()
        .push_known("content-type", "application/json");
    reply.body = Body::Bytes(text.into());
    reply
}
