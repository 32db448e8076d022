//! A node's children, by their names or as an index finds them: a page of them as one JSON array, or all of them line by line as they
//! are read.

use std::ops::Bound;

use forebay_store::{
    ChildWalk, Key, Range, Read, Snapshot, Subscript,
    index::{Place, QueryWalk, Step},
    json as text,
};

use super::{
    filter::Filter,
    json,
    query::{NextPage, Query},
    search::Search,
};
use crate::{
    failure::Refusal,
    front::Head,
    reply::{Body, Reply},
    store::{Pieces, StreamPlace},
};

/// Bytes of a page after which it ends, whatever its limit is.
const PAGE_BYTES: usize = 1 << 20;
/// Longest document that is put together node by node, which takes an I/O thread much longer than a whole one.
const PRUNED_BYTES_MAX: usize = 1 << 20;
/// Bytes of lines that are put together before they are sent.
const PIECE_BYTES: usize = 32 * 1024;
/// Entries of records that have come already, after which a page or a piece ends: so no answer keeps an I/O thread for long.
const REPEATED_MAX: usize = 10_000;
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

/// Which children, in which order, and from where on.
#[derive(Debug)]
enum Wanted {
    Range(Range),
    Search(Box<Search>),
}

/// A walk over them.
enum Walk<'s> {
    Range(ChildWalk<'s>),
    /// With the index's name.
    Search(QueryWalk<'s>, String),
}

impl Wanted {
    /// `None`: there can be none.
    fn of(snapshot: &Snapshot, key: &Key, query: &Query) -> Result<Option<Self>, Refusal> {
        if !query.is_of_index() {
            if !snapshot.defined(key)?.exists() {
                return Err(Refusal::NoSuchNode);
            }
            return Ok(query.range().map(Self::Range));
        }
        let filters: Result<Vec<_>, _> = query.filters.iter().map(|text| Filter::read(text)).collect();
        let place = match &query.after {
            None => Some(Place::default()),
            Some(entry) => Place::from_bytes(entry),
        };
        let Some(place) = place else {
            return Err(Refusal::Query {
                name: "after".to_owned(),
                what: "it is longer than any entry of an index",
            });
        };
        let index = query.index.as_deref();
        let search = Search::plan(snapshot, key, &filters?, index, query.reverse, place)?;
        Ok(Some(Self::Search(Box::new(search))))
    }

    fn walk<'s>(&mut self, snapshot: &'s Snapshot, key: &Key) -> Result<Walk<'s>, Refusal> {
        Ok(match self {
            Self::Range(range) => Walk::Range(snapshot.children(key, range.clone())?),
            Self::Search(search) => Walk::Search(search.walk(snapshot)?, search.index.clone()),
        })
    }
}

impl Walk<'_> {
    fn step(&mut self) -> Result<Step, Refusal> {
        Ok(match self {
            Self::Range(walk) => walk.next().transpose()?.map_or(Step::End, Step::Record),
            Self::Search(walk, _) => walk.step()?,
        })
    }

    /// The entry that the walk has come to, where there are entries.
    fn entry(&self) -> Option<Vec<u8>> {
        match self {
            Self::Range(_) => None,
            Self::Search(walk, _) => walk.place().bytes().map(<[u8]>::to_vec),
        }
    }

    /// The page that begins behind an entry, or where there are none with a child.
    fn next_page(&self, query: &Query, entry: Option<&[u8]>, child: Option<&Subscript>) -> Option<String> {
        let next = match (self, entry, child) {
            (Self::Search(_, index), Some(entry), _) => NextPage::After { index, entry },
            (_, _, Some(child)) => NextPage::From(child),
            _ => return None,
        };
        Some(query.next_page(next))
    }
}

/// Answers with the children that a query asks for; line by line where it has a place for that.
pub(super) fn reply(
    snapshot: Snapshot,
    key: Key,
    query: Query,
    lines: Option<StreamPlace>,
    value_bytes_max: usize,
) -> Result<Reply<'static>, Refusal> {
    let mut wanted = Wanted::of(&snapshot, &key, &query)?;
    if let Some(place) = lines {
        let mut reply = Reply::new(200);
        reply.headers.to_mut().push_known("content-type", LINES);
        reply.headers.to_mut().push_known("vary", "accept");
        reply.body = Body::Lines(Box::new(ChildStream {
            snapshot,
            key,
            wanted,
            query,
            sent: 0,
            value_bytes_max,
            _place: place,
        }));
        return Ok(reply);
    }
    let mut out = vec![b'['];
    let mut next = None;
    if let Some(wanted) = &mut wanted {
        let mut walk = wanted.walk(&snapshot, &key)?;
        let (mut count, mut repeated) = (0, 0);
        let mut end = None;
        next = loop {
            let full = count == query.page() || out.len() > PAGE_BYTES;
            if full && end.is_none() {
                end = walk.entry();
            }
            match walk.step()? {
                Step::End => break None,
                Step::Record(child) if full => break walk.next_page(&query, end.as_deref(), Some(&child)),
                Step::Record(child) => {
                    if count > 0 {
                        out.push(b',');
                    }
                    put_child(&snapshot, &key, &child, &query, value_bytes_max, &mut out)?;
                    count += 1;
                }
                Step::Repeated if repeated == REPEATED_MAX => {
                    let end = end.or_else(|| walk.entry());
                    break walk.next_page(&query, end.as_deref(), None);
                }
                Step::Repeated => repeated += 1,
            }
        };
    }
    out.push(b']');
    let mut reply = json(200, out);
    let headers = reply.headers.to_mut();
    headers.push_known("vary", "accept");
    if let Some(next) = next {
        headers.push_known("link", &format!("<{next}>; rel=\"next\""));
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
struct ChildStream {
    snapshot: Snapshot,
    key: Key,
    /// What is still to come.
    wanted: Option<Wanted>,
    query: Query,
    sent: usize,
    value_bytes_max: usize,
    _place: StreamPlace,
}

impl Pieces for ChildStream {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        let Some(mut wanted) = self.wanted.take() else {
            return Ok(false);
        };
        let start = out.len();
        let limit = self.query.limit.unwrap_or(usize::MAX);
        let mut walk = wanted.walk(&self.snapshot, &self.key)?;
        let (mut repeated, mut end, mut last) = (0, None, None);
        while out.len() - start < PIECE_BYTES && repeated < REPEATED_MAX {
            if self.sent == limit && end.is_none() {
                end = walk.entry();
            }
            match walk.step()? {
                Step::End => return Ok(false),
                Step::Repeated => repeated += 1,
                Step::Record(child) if self.sent == limit => {
                    let next = walk.next_page(&self.query, end.as_deref(), Some(&child));
                    out.extend_from_slice(b"{\"next\":");
                    out.extend_from_slice(&text::string(&next.unwrap_or_default()));
                    out.extend_from_slice(b"}\n");
                    return Ok(false);
                }
                Step::Record(child) => {
                    let (snapshot, key) = (&self.snapshot, &self.key);
                    put_child(snapshot, key, &child, &self.query, self.value_bytes_max, out)?;
                    out.push(b'\n');
                    self.sent += 1;
                    last = Some(child);
                }
            }
        }
        let place = match walk {
            Walk::Range(_) => None,
            Walk::Search(walk, _) => Some(walk.into_place()),
        };
        match (&mut wanted, place, last) {
            (Wanted::Search(search), Some(place), _) => search.place = place,
            (Wanted::Range(range), _, Some(last)) if range.reverse => range.to = Bound::Excluded(last),
            (Wanted::Range(range), _, Some(last)) => range.from = Bound::Excluded(last),
            (_, _, None) | (Wanted::Search(_), None, _) => {}
        }
        self.wanted = Some(wanted);
        Ok(true)
    }
}
