//! A node's children: a page of them as one JSON array, or all of them line by line as they are read.

use std::ops::Bound;

use forebay_store::{Key, Range, Read, Snapshot, Subscript, json as text};

use super::{json, query::Query};
use crate::{
    failure::Refusal,
    front::Head,
    reply::{Body, Reply},
};

/// Bytes of a page after which it ends, whatever its limit is.
const PAGE_BYTES: usize = 1 << 20;
/// Longest document that is put together node by node, which takes an I/O thread much longer than a whole one.
const PRUNED_BYTES_MAX: usize = 1 << 20;
/// Bytes of lines that are put together before they are sent.
const PIECE_BYTES: usize = 32 * 1024;
const LINES: &str = "application/x-ndjson";

/// Whether the client takes lines: its `Accept` names them.
pub(super) fn wants_lines(head: &Head) -> bool {
    let Some(accept) = head.list("accept") else {
        return false;
    };
    let mut types = accept.split(|&byte| byte == b',');
    types.any(|kind| {
        let kind = kind.split(|&byte| byte == b';').next().unwrap_or_default();
        kind.trim_ascii().eq_ignore_ascii_case(LINES.as_bytes())
    })
}

/// Answers with the children that a query asks for.
pub(super) fn reply(
    snapshot: Snapshot,
    key: Key,
    query: Query,
    lines: bool,
    value_bytes_max: usize,
) -> Result<Reply<'static>, Refusal> {
    if !snapshot.defined(&key)?.exists() {
        return Err(Refusal::NoSuchNode);
    }
    let range = query.range();
    if lines {
        let mut reply = Reply::new(200);
        reply.headers.to_mut().push_known("content-type", LINES);
        reply.headers.to_mut().push_known("vary", "accept");
        reply.body = Body::Lines(Box::new(ChildStream {
            snapshot,
            key,
            range,
            query,
            sent: 0,
            value_bytes_max,
        }));
        return Ok(reply);
    }
    let mut out = vec![b'['];
    let (mut count, mut next) = (0, None);
    if let Some(range) = range {
        for child in snapshot.children(&key, range)? {
            let child = child?;
            if count == query.page() || out.len() > PAGE_BYTES {
                next = Some(child);
                break;
            }
            if count > 0 {
                out.push(b',');
            }
            put_child(&snapshot, &key, &child, &query, value_bytes_max, &mut out)?;
            count += 1;
        }
    }
    out.push(b']');
    let mut reply = json(200, out);
    let headers = reply.headers.to_mut();
    headers.push_known("vary", "accept");
    if let Some(next) = next {
        headers.push_known("link", &format!("<{}>; rel=\"next\"", query.next_page(&next)));
    }
    Ok(reply)
}

/// Writes one child: its name, or with its document.
fn put_child(
    snapshot: &Snapshot,
    parent: &Key,
    child: &Subscript,
    query: &Query,
    value_bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let name = text::string(&child.text());
    if query.keys {
        out.extend_from_slice(&name);
        return Ok(());
    }
    let mut key = parent.clone();
    key.push_encoded(child)?;
    out.extend_from_slice(b"{\"key\":");
    out.extend_from_slice(&name);
    out.extend_from_slice(b",\"value\":");
    put_document(snapshot, &key, query.depth, value_bytes_max, out)?;
    out.push(b'}');
    Ok(())
}

/// Writes a node's document, which is there; containers deeper than `depth` are written empty. `bytes_max` is for whole ones.
pub(super) fn put_document(
    snapshot: &Snapshot,
    key: &Key,
    depth: Option<usize>,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let Some(depth) = depth else {
        let document = snapshot.document_within(key, bytes_max)?;
        out.extend_from_slice(document.as_deref().unwrap_or(b"null"));
        return Ok(());
    };
    let end = out.len() + PRUNED_BYTES_MAX;
    put_pruned(snapshot, key, depth, end, out)
}

/// At most about `end` bytes long.
fn put_pruned(
    snapshot: &Snapshot,
    key: &Key,
    depth: usize,
    end: usize,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    if !snapshot.defined(key)?.children {
        out.extend_from_slice(snapshot.get(key)?.unwrap_or(b"null"));
        return Ok(());
    }
    let array = snapshot.is_array(key)?;
    out.push(if array { b'[' } else { b'{' });
    let mut first = true;
    let children = (depth > 0)
        .then(|| snapshot.children(key, Range::default()))
        .transpose()?;
    for child in children.into_iter().flatten() {
        let child = child?;
        if out.len() > end {
            return Err(Refusal::Query {
                name: "depth".to_owned(),
                what: "the answer would have more than a mebibyte; `limit` gives it in pages",
            });
        }
        if !first {
            out.push(b',');
        }
        first = false;
        if !array {
            out.extend_from_slice(&text::string(&child.text()));
            out.push(b':');
        }
        let mut key = key.clone();
        key.push_encoded(&child)?;
        put_pruned(snapshot, &key, depth - 1, end, out)?;
    }
    out.push(if array { b']' } else { b'}' });
    Ok(())
}

/// Children line by line, read as they are sent. All are of one state of the store, which can be read from for `reader_age_max`.
#[derive(Debug)]
pub(crate) struct ChildStream {
    snapshot: Snapshot,
    key: Key,
    /// What is still to come.
    range: Option<Range>,
    query: Query,
    sent: usize,
    value_bytes_max: usize,
}

impl ChildStream {
    /// Writes the next lines; false: there are no further ones.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        let Some(range) = self.range.take() else {
            return Ok(false);
        };
        let start = out.len();
        let limit = self.query.limit.unwrap_or(usize::MAX);
        let mut last = None;
        for child in self.snapshot.children(&self.key, range.clone())? {
            let child = child?;
            if self.sent == limit {
                let next = self.query.next_page(&child);
                out.extend_from_slice(b"{\"next\":");
                out.extend_from_slice(&text::string(&next));
                out.extend_from_slice(b"}\n");
                return Ok(false);
            }
            put_child(
                &self.snapshot,
                &self.key,
                &child,
                &self.query,
                self.value_bytes_max,
                out,
            )?;
            out.push(b'\n');
            self.sent += 1;
            if out.len() - start >= PIECE_BYTES {
                last = Some(child);
                break;
            }
        }
        let Some(last) = last else { return Ok(false) };
        self.range = Some(if range.reverse {
            Range {
                to: Bound::Excluded(last),
                ..range
            }
        } else {
            Range {
                from: Bound::Excluded(last),
                ..range
            }
        });
        Ok(true)
    }
}
