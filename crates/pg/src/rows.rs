//! Rows as the server has sent them.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::message::backend::DataRowBody;

pub use crate::protocol::Column;
use crate::{
    error::PgError,
    json::{Numbers, Value, bytes_of},
    protocol::foreign,
};

/// The OID of `bytea`.
const BYTEA: u32 = 17;

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
            ranges: body.ranges().collect().map_err(foreign)?,
        })
    }

    /// How many bytes its values have.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How many values it has.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Appends it as a JSON object, its members in the order of the columns.
    pub fn write_object(&self, columns: &[Column], numbers: Numbers, out: &mut Vec<u8>) {
        out.push(b'{');
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&column.json_key);
            column.writer.write(self.text(index), numbers, out);
        }
        out.push(b'}');
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

impl Rows {
    /// A server that sends rows of another length than it has said is none.
    pub(crate) fn new(columns: Arc<[Column]>, rows: Vec<Row>, affected: u64) -> Result<Self, PgError> {
        if let Some(row) = rows.iter().find(|row| row.len() != columns.len()) {
            return Err(PgError::Protocol {
                reason: format!("a row of {} values, not {}", row.len(), columns.len()),
            });
        }
        Ok(Self {
            columns,
            rows,
            affected,
        })
    }

    /// Appends a row as a JSON object, its members in the order of the columns.
    pub fn write_row(&self, row: &Row, numbers: Numbers, out: &mut Vec<u8>) {
        row.write_object(&self.columns, numbers, out);
    }

    /// Appends all rows as an array.
    pub fn write_all(&self, numbers: Numbers, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            self.write_row(row, numbers, out);
        }
        out.push(b']');
    }

    /// A value of a row, as a program has it.
    ///
    /// # Panics
    /// When the row has fewer values.
    pub fn value<'r>(&self, row: &'r Row, index: usize) -> Value<'r> {
        let (column, text) = (&self.columns[index], row.text(index));
        let bytes = text.filter(|_| column.oid == BYTEA).and_then(bytes_of);
        bytes.map_or_else(|| column.writer.value(text), Value::Bytes)
    }

    /// Appends the first value of a row; without a column it is null.
    pub fn write_value(&self, row: &Row, numbers: Numbers, out: &mut Vec<u8>) {
        match self.columns.first() {
            Some(column) => column.writer.write(row.text(0), numbers, out),
            None => out.extend_from_slice(b"null"),
        }
    }
}
