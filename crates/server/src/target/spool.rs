//! Buffers that keep a slow client from blocking a worker: responses that a worker sends faster than the client reads them, in memory and
//! beyond that in an unnamed temporary file, and the beginnings of request bodies.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;

use crate::config;

/// Bytes buffered for all requests together.
#[derive(Debug, Default)]
pub(crate) struct BufferUsage {
    memory: AtomicU64,
    files: AtomicU64,
}

impl BufferUsage {
    /// Bytes in memory, and bytes in files.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.memory.load(Relaxed), self.files.load(Relaxed))
    }
}

/// Limits on buffered bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// One response in memory.
    answer: u64,
    /// All responses in files.
    files: u64,
    /// One request's body.
    pub(super) body: u64,
    /// Everything in memory.
    memory: u64,
}

impl Bounds {
    pub(crate) fn of(server: &config::Server) -> Self {
        Self {
            answer: server.answer_buffer_max,
            files: server.answer_spool_max,
            body: server.body_buffer_max,
            memory: server.buffers_max,
        }
    }
}

/// A reservation of buffer space, released when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    kept: Arc<BufferUsage>,
    is_file: bool,
    bytes: u64,
}

impl Share {
    fn new(kept: &Arc<BufferUsage>, is_file: bool) -> Self {
        Self {
            kept: kept.clone(),
            is_file,
            bytes: 0,
        }
    }

    /// Reserves memory for a request's body. `None`: not enough is left.
    pub(super) fn for_body(kept: &Arc<BufferUsage>, bounds: &Bounds, bytes: u64) -> Option<Self> {
        let mut share = Self::new(kept, false);
        share.grow(bytes, bounds.memory).then_some(share)
    }

    fn count(&self) -> &AtomicU64 {
        if self.is_file {
            &self.kept.files
        } else {
            &self.kept.memory
        }
    }

    /// Reserves more, if all reservations together stay within `max`.
    fn grow(&mut self, bytes: u64, max: u64) -> bool {
        let grown = self.count().fetch_update(Relaxed, Relaxed, |all| {
            all.checked_add(bytes).filter(|all| *all <= max)
        });
        if grown.is_ok() {
            self.bytes += bytes;
        }
        grown.is_ok()
    }

    fn shrink(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.count().fetch_sub(bytes, Relaxed);
        self.bytes -= bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

/// A piece of a response's body.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) bytes: Bytes,
    pub(super) end: bool,
    /// The commit that must be on disk before the client gets this piece.
    pub(super) commit: u64,
}

/// The pieces of one response that its client has not taken yet, in order: those in memory, those in the file, then the tail.
#[derive(Debug)]
pub(super) struct Spool {
    bounds: Bounds,
    memory: Share,
    parts: VecDeque<Part>,
    file: Share,
    /// Pieces in a file, which follow those in memory.
    later: Option<Later>,
    /// Pieces in memory that follow those in the file.
    tail: VecDeque<Part>,
    /// No file can be written: further pieces have to wait at the worker.
    is_broken: bool,
}

#[derive(Debug)]
struct Later {
    file: File,
    read: u64,
    written: u64,
    parts: VecDeque<(usize, bool, u64)>,
}

impl Spool {
    /// `None`: responses are not buffered.
    pub(super) fn new(kept: &Arc<BufferUsage>, bounds: Bounds) -> Option<Self> {
        (bounds.answer > 0).then(|| Self {
            bounds,
            memory: Share::new(kept, false),
            parts: VecDeque::new(),
            file: Share::new(kept, true),
            later: None,
            tail: VecDeque::new(),
            is_broken: false,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.later.is_none() && self.tail.is_empty()
    }

    /// Whether the worker may send more than it has been granted so far.
    pub(super) fn has_room(&self) -> bool {
        let (memory, _) = self.memory.kept.bytes();
        let in_memory =
            self.later.is_none() && self.memory.bytes < self.bounds.answer && memory < self.bounds.memory;
        self.tail.is_empty() && (in_memory || self.may_use_file())
    }

    /// Appends a piece. If neither memory nor files have room for it, it is kept in memory regardless: that is at most one worker's window.
    pub(super) fn push(&mut self, part: Part) {
        let bytes = part.bytes.len() as u64;
        if self.tail.is_empty() && self.later.is_none() && self.fits_memory(bytes) {
            self.parts.push_back(part);
            return;
        }
        if self.tail.is_empty() && self.may_use_file() {
            match self.write(&part) {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(
                        target: "forebay::front", cause = %error,
                        "an answer cannot be kept in a temporary file: its worker waits for the client"
                    );
                    self.is_broken = true;
                }
            }
        }
        self.memory.grow(bytes, u64::MAX);
        self.tail.push_back(part);
    }

    fn fits_memory(&mut self, bytes: u64) -> bool {
        self.memory.bytes + bytes <= self.bounds.answer && self.memory.grow(bytes, self.bounds.memory)
    }

    fn may_use_file(&self) -> bool {
        !self.is_broken && self.file.kept.bytes().1 < self.bounds.files
    }

    fn write(&mut self, part: &Part) -> io::Result<()> {
        if self.later.is_none() {
            self.later = Some(Later {
                file: tempfile::tempfile()?,
                read: 0,
                written: 0,
                parts: VecDeque::new(),
            });
        }
        let later = self.later.as_mut().expect("it has just been made");
        later.file.write_all_at(&part.bytes, later.written)?;
        later.written += part.bytes.len() as u64;
        later.parts.push_back((part.bytes.len(), part.end, part.commit));
        self.file.grow(part.bytes.len() as u64, u64::MAX);
        Ok(())
    }

    /// Removes the first piece.
    pub(super) fn pop(&mut self) -> io::Result<Option<Part>> {
        if let Some(part) = self.parts.pop_front() {
            self.memory.shrink(part.bytes.len() as u64);
            return Ok(Some(part));
        }
        let Some(later) = &mut self.later else {
            let part = self.tail.pop_front();
            if let Some(part) = &part {
                self.memory.shrink(part.bytes.len() as u64);
            }
            return Ok(part);
        };
        let part = later.next()?;
        if let Some(part) = &part {
            self.file.shrink(part.bytes.len() as u64);
        }
        if later.parts.is_empty() {
            self.later = None;
        }
        Ok(part)
    }
}

impl Later {
    fn next(&mut self) -> io::Result<Option<Part>> {
        let Some((length, end, commit)) = self.parts.pop_front() else {
            return Ok(None);
        };
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, self.read)?;
        self.read += length as u64;
        Ok(Some(Part {
            bytes: bytes.into(),
            end,
            commit,
        }))
    }
}
