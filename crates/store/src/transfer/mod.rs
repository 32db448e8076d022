//! Subtrees as lines of text: NDJSON, and the ZWR extract of `YottaDB` and GT.M.
//!
//! Both directions stream. [`export`] reads one snapshot and keeps no more than a document of
//! [`ExportOptions::document_bytes_max`] in memory; [`import`] reads as many lines as one transaction takes, and then
//! writes them, so that no transaction is open while the import waits for input.
//!
//! An export does not depend on the physical layout of the store: two stores with equal content export equal bytes.

mod error;
mod import;
mod item;
mod ndjson;
mod zwr;

use std::io::Write;

pub use error::{LineError, TransferError};
pub use import::{ImportOptions, import};
pub use zwr::reference;

use crate::{error::StoreError, key::Key, read::Read};

use item::Content;

/// Format of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line: `{"path":["Person","data",1],"document":{"firstName":"Rob"}}`. Exact, including expiry
    /// times and indexes.
    #[default]
    Ndjson,
    /// `^Person("data",1,"firstName")="Rob"`, as `MUPIP EXTRACT -FORMAT=ZWR` writes and `MUPIP LOAD` reads. Without
    /// expiry times and indexes.
    Zwr,
}

/// Options of an export.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// Format of the lines.
    pub format: Format,
    /// NDJSON: a subtree whose document is at most this long is one line; 0 writes one line per node with a value.
    pub document_bytes_max: usize,
    /// ZWR: write values that M lacks as an M program expects them, instead of marking them so that an import can
    /// restore them.
    pub lossy: bool,
    /// ZWR: date for the second line. GT.M writes it as `22-NOV-2026  01:57:07`.
    pub date: String,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            format: Format::default(),
            document_bytes_max: 2048,
            lossy: false,
            date: "01-JAN-1970  00:00:00".into(),
        }
    }
}

/// Progress of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Lines written or read.
    pub lines: u64,
    /// Bytes written or read.
    pub bytes: u64,
    /// Import: lines whose effect is in the store.
    pub committed_lines: u64,
}

/// Writes subtrees as lines; without `roots`, all globals followed by the indexes. `progress` is called after every
/// line.
pub fn export(
    read: &mut impl Read,
    roots: &[Key],
    options: &ExportOptions,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Progress, TransferError> {
    let mut so_far = Progress::default();
    let mut line = Vec::new();
    let mut put = |line: &mut Vec<u8>| {
        if line.is_empty() {
            return Ok(());
        }
        out.write_all(line).map_err(TransferError::Write)?;
        so_far.lines += 1;
        so_far.bytes += line.len() as u64;
        line.clear();
        progress(&so_far);
        Ok::<_, TransferError>(())
    };
    let document_bytes_max = match options.format {
        Format::Ndjson => options.document_bytes_max,
        Format::Zwr => {
            for head in zwr::head(&options.date) {
                line.extend_from_slice(head.as_bytes());
                put(&mut line)?;
            }
            0
        }
    };
    let mut subtree = |read: &mut _, root: &Key| {
        let mut emit = |key: &Key, content: Content<'_>| {
            match options.format {
                Format::Ndjson => ndjson::write(key, &content, &mut line),
                Format::Zwr => zwr::write(key, &content, options.lossy, &mut line)?,
            }
            put(&mut line)
        };
        item::walk(read, root, document_bytes_max, &mut emit)?;
        // After the nodes themselves, because writing a node clears its expiry time.
        item::times(read, root, &mut emit)
    };
    for root in roots {
        subtree(read, root)?;
    }
    if roots.is_empty() {
        let mut last = String::new();
        while let Some(global) = next_global(read, &last)? {
            subtree(read, &Key::global(&global)?)?;
            last = global;
        }
        for index in read.indexes()? {
            if options.format == Format::Ndjson {
                ndjson::write(
                    &index.records.clone(),
                    &Content::Index(Box::new(index)),
                    &mut line,
                );
                put(&mut line)?;
            }
        }
    }
    out.flush().map_err(TransferError::Write)?;
    Ok(so_far)
}

/// The first global after another one, or after an empty name.
fn next_global(read: &impl Read, last: &str) -> Result<Option<String>, StoreError> {
    let mut globals = read.globals(last)?;
    globals
        .find(|found| !found.as_ref().is_ok_and(|name| name == last))
        .transpose()
}
