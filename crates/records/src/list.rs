//! The records of a kind, page by page in the order of their references.

use std::{ops::Bound, time::Instant};

use forebay_store::{Document, DocumentWalk, Key, Range, Read, StoreError, Subscript};

use crate::{RecordsError, ended::Ended, reference::Reference};

/// Bytes after which a page ends, whatever its size is.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Most records that a page passes over: all of them are walked, for an answer that has none of them.
const PASSED_OVER_MAX: u64 = 100_000;
/// Nodes of a record that are put together before the time is looked at.
const NODES_AT_A_TIME: usize = 64;

/// Which records of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The kind.
    pub kind: String,
    /// Only those behind this one.
    pub after: Option<Reference>,
    /// How many pages to pass over.
    pub page: u64,
    /// Records of a page.
    pub size: u64,
    /// Whether the records come as well, or their references only.
    pub full: bool,
}

/// The references of records among the children of a kind, from behind one on.
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
    /// Writes the page as a JSON array: references, or `{"id":11,"data":{...}}` of each. A page ends early when it has become long. Gives
    /// the last reference when there are records behind it.
    pub fn write(
        self,
        read: &impl Read,
        bytes_max: usize,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Reference>, RecordsError> {
        let mut page = self.begin(read, bytes_max, now_ms)?;
        while page.step(read, None, out)? {}
        Ok(page.next())
    }

    /// The page, to be written step by step.
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

/// A page of records on its way. All its steps must read one state of the store.
#[derive(Debug)]
pub struct Page {
    list: List,
    kind: Key,
    ended: Ended,
    /// Records that are still to be passed over.
    to_skip: u64,
    /// Longest document.
    bytes_max: usize,
    /// The record that was looked at last.
    at: Option<Reference>,
    /// Records of the page that have been written, and the last of them.
    count: u64,
    last: Option<Reference>,
    /// What is not written yet of the last record.
    document: Option<DocumentWalk>,
    written: usize,
    /// Whether there are records behind the page.
    is_cut: bool,
}

impl Page {
    /// Writes what is found by `until`, or all of it; false: the page is complete.
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
            if until.is_some_and(|until| Instant::now() >= until) {
                self.written += out.len() - start;
                return Ok(true);
            }
        }
    }

    /// The last reference, when there are records behind it.
    pub fn next(&self) -> Option<Reference> {
        self.last.filter(|_| self.is_cut)
    }

    /// Writes a record, or begins to, unless it is passed over or the page is full.
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
