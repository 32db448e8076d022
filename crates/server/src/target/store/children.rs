//! A node's children, by name or found by an index: one page as a JSON array, or all of them line by line as they are read.

use std::{ops::Bound, time::Instant};

use forebay_store::{
    ChildWalk, Document, DocumentWalk, Key, Range, Read, Snapshot, Subscript,
    index::{Place, QueryWalk, Step},
    json as text,
};

use super::{
    filter::Filter,
    json, put_lifetime,
    query::{NextPage, Query},
    search::Search,
};
use crate::{
    failure::Refusal,
    front::Head,
    reply::{Body, Reply},
    store::{PIECE_TIME, Pieces, StreamPermit, put_nodes},
    target::{
        body_stream::StoreBody,
        media_type::is_accepted,
        snapshot_read::{ReadOutcome, Reading},
    },
};

/// A page ends once it has this many bytes, whatever its limit.
const PAGE_BYTES: usize = 1 << 20;
/// Bytes of lines collected before they are sent.
const PIECE_BYTES: usize = 32 * 1024;
/// A page ends after this many index entries of records that it has already, so that the client gets a response before its deadline.
const REPEATED_MAX: usize = 10_000;
const LINES: &str = "application/x-ndjson";

/// Whether the client accepts JSON lines: its `Accept` names them.
pub(super) fn wants_lines(head: &Head) -> bool {
    is_accepted(head, LINES)
}

/// Which children, in which order, starting where.
#[derive(Debug)]
enum ChildSelection {
    Range(Range),
    Search(Box<Search>),
}

/// An iterator over the selected children.
enum Walk<'s> {
    Range(ChildWalk<'s>),
    /// An index search, with the index's name.
    Search(QueryWalk<'s>, String),
}

impl ChildSelection {
    /// `None`: no child can match.
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

    /// The index entry that the walk has reached; `None` without an index.
    fn entry(&self) -> Option<Vec<u8>> {
        match self {
            Self::Range(_) => None,
            Self::Search(walk, _) => walk.place().bytes().map(<[u8]>::to_vec),
        }
    }

    /// The query of the page after an index entry, or without an index from a child.
    fn next_page(&self, query: &Query, entry: Option<&[u8]>, child: Option<&Subscript>) -> Option<String> {
        let next = match (self, entry, child) {
            (Self::Search(_, index), Some(entry), _) => NextPage::After { index, entry },
            (_, _, Some(child)) => NextPage::From(child),
            _ => return None,
        };
        Some(query.next_page(next))
    }
}

/// The children that a query selects, in one snapshot of the store.
#[derive(Debug)]
pub(super) struct Children {
    snapshot: Snapshot,
    key: Key,
    query: Query,
    value_bytes_max: usize,
    /// The children still to be read; `None` while a piece is being written and after the last.
    wanted: Option<ChildSelection>,
    /// The unwritten rest of the last child's document.
    document: Option<DocumentWalk>,
    /// Children written so far.
    count: usize,
    repeated: usize,
    /// The index entry at which the last wanted child was reached, once there are as many as asked for.
    end: Option<Vec<u8>>,
}

/// How children are separated, and the limits of a page and of a piece.
struct Form {
    between: &'static [u8],
    behind: &'static [u8],
    count_max: usize,
    /// No further child is begun beyond this many bytes.
    bytes_max: usize,
    repeated_max: usize,
    /// Most bytes of a piece.
    piece_bytes: usize,
}

/// Why a piece of the children ended.
enum Ended {
    /// More children follow.
    Rest,
    /// That was the last child.
    Last,
    /// The page is full; the next page has this query, if there is one.
    Full(Option<String>),
}

impl Children {
    pub(super) fn new(
        snapshot: Snapshot,
        key: Key,
        query: Query,
        value_bytes_max: usize,
    ) -> Result<Self, Refusal> {
        Ok(Self {
            wanted: ChildSelection::of(&snapshot, &key, &query)?,
            snapshot,
            key,
            query,
            value_bytes_max,
            document: None,
            count: 0,
            repeated: 0,
            end: None,
        })
    }

    /// The response with one page of children.
    pub(super) fn page(self, ends: Option<u64>, head: &Head) -> Result<ReadOutcome, Refusal> {
        let page = Page {
            children: self,
            ends,
            next: None,
        };
        ReadOutcome::with(Box::new(page), head)
    }

    /// The response with all children, line by line.
    pub(super) fn lines(self, place: StreamPermit, is_remote: bool) -> Reply<'static> {
        let mut reply = Reply::new(200);
        reply.headers.to_mut().push_known("content-type", LINES);
        reply.headers.to_mut().push_known("vary", "accept");
        let lines = ChildLines {
            children: self,
            _place: place,
        };
        reply.body = Body::Stream(Box::new(StoreBody::new(lines, is_remote)));
        reply
    }

    /// Writes as many children, or as much of one, as a piece holds. `out` may already hold earlier ones.
    fn put_piece(&mut self, form: &Form, out: &mut Vec<u8>) -> Result<Ended, Refusal> {
        self.snapshot.forget_read();
        let until = Instant::now() + PIECE_TIME;
        let piece_end = out.len().saturating_add(form.piece_bytes);
        let Some(mut wanted) = self.wanted.take() else {
            return Ok(Ended::Last);
        };
        let mut walk = wanted.walk(&self.snapshot, &self.key)?;
        let mut last = None;
        loop {
            if let Some(document) = &mut self.document {
                if !put_nodes(document, &self.snapshot, piece_end, until, out)? {
                    self.document = None;
                    self.put_end(form, out);
                }
            } else {
                let full = self.count == form.count_max || out.len() > form.bytes_max;
                if full && self.end.is_none() {
                    self.end = walk.entry();
                }
                match walk.step()? {
                    Step::End => return Ok(Ended::Last),
                    Step::Record(child) if full => {
                        let next = walk.next_page(&self.query, self.end.as_deref(), Some(&child));
                        return Ok(Ended::Full(next));
                    }
                    Step::Record(child) => {
                        if self.count > 0 {
                            out.extend_from_slice(form.between);
                        }
                        self.count += 1;
                        self.document = self.put_child(&child, out)?;
                        if self.document.is_none() {
                            self.put_end(form, out);
                        }
                        last = Some(child);
                    }
                    Step::Repeated if self.repeated == form.repeated_max => {
                        let end = self.end.take().or_else(|| walk.entry());
                        return Ok(Ended::Full(walk.next_page(&self.query, end.as_deref(), None)));
                    }
                    Step::Repeated => self.repeated += 1,
                }
            }
            if out.len() >= piece_end || self.snapshot.has_read_much() || Instant::now() >= until {
                break;
            }
        }
        let place = match walk {
            Walk::Range(_) => None,
            Walk::Search(walk, _) => Some(walk.into_place()),
        };
        match (&mut wanted, place, last) {
            (ChildSelection::Search(search), Some(place), _) => search.place = place,
            (ChildSelection::Range(range), _, Some(last)) if range.reverse => {
                range.to = Bound::Excluded(last);
            }
            (ChildSelection::Range(range), _, Some(last)) => range.from = Bound::Excluded(last),
            (_, _, None) | (ChildSelection::Search(_), None, _) => {}
        }
        self.wanted = Some(wanted);
        Ok(Ended::Rest)
    }

    /// Writes one child: its name, or its name and document. Returns the rest of a document that is not complete yet.
    fn put_child(&self, child: &Subscript, out: &mut Vec<u8>) -> Result<Option<DocumentWalk>, Refusal> {
        let name = text::string(&child.text());
        if self.query.keys {
            out.extend_from_slice(&name);
            return Ok(None);
        }
        let mut key = self.key.clone();
        key.push_encoded(child)?;
        out.extend_from_slice(b"{\"key\":");
        out.extend_from_slice(&name);
        out.extend_from_slice(b",\"value\":");
        let depth = self.query.depth.unwrap_or(usize::MAX);
        Ok(
            match self.snapshot.document_walk(&key, depth, self.value_bytes_max)? {
                Some(Document::Nodes(walk)) => Some(walk),
                Some(Document::Text(text)) => {
                    out.extend_from_slice(&text);
                    None
                }
                None => {
                    out.extend_from_slice(b"null");
                    None
                }
            },
        )
    }

    /// Writes the end of a child.
    fn put_end(&self, form: &Form, out: &mut Vec<u8>) {
        if !self.query.keys {
            out.push(b'}');
        }
        out.extend_from_slice(form.behind);
    }
}

/// One page of children as a JSON array.
#[derive(Debug)]
struct Page {
    children: Children,
    /// When the node expires, in milliseconds since 1970 UTC.
    ends: Option<u64>,
    next: Option<String>,
}

impl Pieces for Page {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        let form = Form {
            between: b",",
            behind: b"",
            count_max: self.children.query.page(),
            bytes_max: PAGE_BYTES,
            repeated_max: REPEATED_MAX,
            piece_bytes: usize::MAX,
        };
        if out.is_empty() {
            out.push(b'[');
        }
        match self.children.put_piece(&form, out)? {
            Ended::Rest => return Ok(true),
            Ended::Last => {}
            Ended::Full(next) => self.next = next,
        }
        out.push(b']');
        Ok(false)
    }
}

impl Reading for Page {
    fn reply(&mut self, _: &Head, text: Vec<u8>) -> Result<Reply<'static>, Refusal> {
        let mut reply = json(200, text);
        let headers = reply.headers.to_mut();
        headers.push_known("vary", "accept");
        if let Some(next) = &self.next {
            headers.push_known("link", &format!("<{next}>; rel=\"next\""));
        }
        put_lifetime(self.ends, headers);
        Ok(reply)
    }
}

/// Children line by line, read as they are sent, all from one snapshot, which may stay open for `reader_age_max`.
#[derive(Debug)]
struct ChildLines {
    children: Children,
    _place: StreamPermit,
}

impl Pieces for ChildLines {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        let form = Form {
            between: b"",
            behind: b"\n",
            count_max: self.children.query.limit.unwrap_or(usize::MAX),
            bytes_max: usize::MAX,
            repeated_max: usize::MAX,
            piece_bytes: PIECE_BYTES,
        };
        match self.children.put_piece(&form, out)? {
            Ended::Rest => return Ok(true),
            Ended::Last => {}
            Ended::Full(next) => {
                out.extend_from_slice(b"{\"next\":");
                out.extend_from_slice(&text::string(&next.unwrap_or_default()));
                out.extend_from_slice(b"}\n");
            }
        }
        Ok(false)
    }
}
