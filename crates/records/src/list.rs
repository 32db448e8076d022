//! Lists the records of a kind page by page, in the order of their references.

use std::{ops::Bound, time::Instant};

use forebay_store::{Document, DocumentWalk, Key, Range, Read, StoreError, Subscript};

use crate::{RecordsError, expired::Ended, reference::Reference};

/// A page ends once it has this many bytes, whatever its size.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Most records that a page may skip: they all have to be walked.
const PASSED_OVER_MAX: u64 = 100_000;
/// Nodes of a record assembled between two looks at the clock.
const NODES_AT_A_TIME: usize = 64;

/// A page request for the records of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The kind to list.
    pub kind: String,
    /// Only records after this one.
    pub after: Option<Reference>,
    /// Number of pages to skip.
    pub page: u64,
    /// Records per page.
    pub size: u64,
    /// Whether to return whole records rather than references.
    pub full: bool,
}

/// References of the records among the children of a kind, after the given one.
pub(crate) fn references<'r, R: Read>(
    read: &'r R,
    kind: &Key,
    after: Option<Reference>,
) -> Result<impl Iterator<Item = Result<Reference, StoreError>> + use<'r, R>, StoreError> {
    let from = after.map_or(Bound::Unbounded, |after| {
        Bound::Excluded(Subscript::new(&after.to_string()))
    });
    // All numbers sort before the first text.
    let to = Bound::Excluded(Subscript::new(""));
    let range = Range {
        from,
        to,
        reverse: false,
    };
    let walk = read.children(kind, range)?;
    Ok(walk.filter_map(|child| match child {
        Ok(child) => Reference::from_decimal(&child.text()).map(Ok),
        Err(error) => Some(Err(error)),
    }))
}

impl List {
    /// Starts a page, which is written step by step as a JSON array: references, or `{"id":11,"data":{...}}` for each
    /// record. A page ends early when it becomes long.
    pub fn begin(self, read: &impl Read, bytes_max: usize, now_ms: u64) -> Result<Page, RecordsError> {
        let skipped = self.page.saturating_mul(self.size);
        if skipped > PASSED_OVER_MAX {
            return Err(RecordsError::PageMax {
                page: self.page,
                size: self.size,
                max: PASSED_OVER_MAX,
            });
        }
        Ok(Page {
            kind: Key::global(&self.kind)?,
            ended: Ended::by(now_ms, read)?,
            to_skip: skipped,
            bytes_max,
            at: self.after,
            count: 0,
            last: None,
            document: None,
            written: 0,
            is_cut: false,
            list: self,
        })
    }
}

/// A page in progress. All its steps must read the same state of the store.
#[derive(Debug)]
pub struct Page {
    list: List,
    kind: Key,
    ended: Ended,
    /// Records still to be skipped.
    to_skip: u64,
    /// Longest document, in bytes.
    bytes_max: usize,
    /// Record examined last.
    at: Option<Reference>,
    /// Number of records written, and the last of them.
    count: u64,
    last: Option<Reference>,
    /// Unwritten rest of the last record.
    document: Option<DocumentWalk>,
    written: usize,
    /// Whether more records follow the page.
    is_cut: bool,
}

impl Page {
    /// Continues until the page is complete, `until` has passed, or [`Read::has_read_much`]; `false` once it is
    /// complete.
    pub fn step(
        &mut self,
        read: &impl Read,
        until: Option<Instant>,
        out: &mut Vec<u8>,
    ) -> Result<bool, RecordsError> {
        let start = out.len();
        if self.written == 0 {
            out.push(b'[');
        }
        let mut references = references(read, &self.kind, self.at)?;
        loop {
            if let Some(document) = &mut self.document {
                if !document.step(read, NODES_AT_A_TIME, out)? {
                    self.document = None;
                    out.push(b'}');
                }
            } else {
                let found = references.next().transpose()?;
                let is_long = self.written + out.len() - start > PAGE_BYTES_MAX;
                if let Some(reference) = found {
                    self.look_at(reference, is_long, read, out)?;
                }
                if found.is_none() || self.is_cut {
                    out.push(b']');
                    return Ok(false);
                }
            }
            if read.has_read_much() || until.is_some_and(|until| Instant::now() >= until) {
                self.written += out.len() - start;
                return Ok(true);
            }
        }
    }

    /// The last reference, if more records follow.
    pub fn next(&self) -> Option<Reference> {
        self.last.filter(|_| self.is_cut)
    }

    /// Writes or begins to write a record, unless it is skipped or the page is full.
    fn look_at(
        &mut self,
        reference: Reference,
        is_long: bool,
        read: &impl Read,
        out: &mut Vec<u8>,
    ) -> Result<(), RecordsError> {
        self.at = Some(reference);
        let mut key = self.kind.clone();
        reference.push_to(&mut key)?;
        if self.ended.has(&key, read)? {
            return Ok(());
        }
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return Ok(());
        }
        self.is_cut = is_long || self.count == self.list.size;
        if self.is_cut {
            return Ok(());
        }
        if self.count > 0 {
            out.push(b',');
        }
        self.count += 1;
        self.last = Some(reference);
        if !self.list.full {
            out.extend_from_slice(reference.to_string().as_bytes());
            return Ok(());
        }
        out.extend_from_slice(format!("{{\"id\":{reference},\"data\":").as_bytes());
        match read.document_walk(&key, usize::MAX, self.bytes_max)? {
            Some(Document::Nodes(walk)) => {
                self.document = Some(walk);
                return Ok(());
            }
            Some(Document::Text(text)) => out.extend_from_slice(&text),
            None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
        Ok(())
    }
}
