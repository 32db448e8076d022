//! Rows as the server has sent them.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::message::backend::DataRowBody;

use crate::error::PgError;
pub use crate::protocol::Column;

/// A row: the text of each value, `None` for null.
#[derive(Clone, Debug)]
pub struct Row {
    bytes: Bytes,
    ranges: Vec<Option<Range<usize>>>,
}

impl Row {
    pub(crate) fn new(body: &DataRowBody) -> Result<Self, PgError> {
        Ok(Self {
            bytes: body.buffer_bytes().clone(),
            ranges: body.ranges().collect()?,
        })
    }

    /// How many values it has.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// A value's text, as the server writes it; `None` for null.
    ///
    /// # Panics
    /// When the row has fewer values.
    pub fn text(&self, index: usize) -> Option<&[u8]> {
        self.ranges[index].clone().map(|range| &self.bytes[range])
    }
}

/// A whole result.
#[derive(Clone, Debug)]
pub struct Rows {
    /// What each value of a row is.
    pub columns: Arc<[Column]>,
    /// In the server's order.
    pub rows: Vec<Row>,
    /// Rows that the statement changed, or gave.
    pub affected: u64,
}
