//! Rows as received from the server.

use std::{num::NonZero, sync::Arc};

use bytes::{Buf as _, Bytes, BytesMut};
use smallvec::SmallVec;

pub use crate::protocol::Column;
use crate::{
    error::PgError,
    json::{Numbers, Value, bytes_of},
    protocol::body,
};

/// OID of `bytea`.
const BYTEA: u32 = 17;

/// A longer row stays in the buffer it was read into; shorter ones are copied, so that the buffer can be reused.
const COPIED_BYTES_MAX: usize = 4096;

/// A row: the text of each value, `None` for null.
#[derive(Clone, Debug)]
pub struct Row {
    bytes: Bytes,
    values: SmallVec<[Place; 4]>,
}

/// Position of a value in the row's bytes.
#[derive(Clone, Copy, Debug)]
struct Place {
    from: u32,
    /// End of the value; `None` for null.
    to: Option<NonZero<u32>>,
}

impl Row {
    /// Removes a row from the received bytes, whose first message it is, `message_bytes` long.
    pub(crate) fn take(received: &mut BytesMut, message_bytes: usize) -> Result<Self, PgError> {
        let values = places(body(received, message_bytes)).ok_or_else(|| PgError::Protocol {
            reason: "a row that is longer or shorter than it says".into(),
        })?;
        let bytes = if message_bytes > COPIED_BYTES_MAX {
            let mut message = received.split_to(message_bytes).freeze();
            message.split_off(message_bytes - body(&message, message_bytes).len())
        } else {
            let bytes = Bytes::copy_from_slice(body(received, message_bytes));
            received.advance(message_bytes);
            bytes
        };
        Ok(Self { bytes, values })
    }

    /// Total length of its values, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether the row has no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Appends the row as a JSON object, with members in the order of the columns.
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
    /// If the row has fewer values.
    pub fn text(&self, index: usize) -> Option<&[u8]> {
        let Place { from, to } = self.values[index];
        to.map(|to| &self.bytes[from as usize..to.get() as usize])
    }
}

/// Positions of the values of a row in its message (manual, "DataRow"): their number, and for each its length, negative
/// for null, and its text.
fn places(body: &[u8]) -> Option<SmallVec<[Place; 4]>> {
    let (count, mut rest) = body.split_first_chunk()?;
    let mut places = SmallVec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk()?;
        rest = after;
        let from = (body.len() - rest.len()) as u32;
        let to = match u32::try_from(i32::from_be_bytes(*length)) {
            Err(_) => None,
            Ok(length) => {
                rest = rest.get(length as usize..)?;
                NonZero::new(from + length)
            }
        };
        places.push(Place { from, to });
    }
    rest.is_empty().then_some(places)
}

/// A complete result.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Columns of the result.
    pub columns: Arc<[Column]>,
    /// In the order returned by the server.
    pub rows: Vec<Row>,
    /// Number of rows changed or returned.
    pub affected: u64,
}

impl Rows {
    /// Fails if a row has another number of values than there are columns, which violates the protocol.
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

    /// Appends a row as a JSON object, with members in the order of the columns.
    pub fn write_row(&self, row: &Row, numbers: Numbers, out: &mut Vec<u8>) {
        row.write_object(&self.columns, numbers, out);
    }

    /// Appends all rows as a JSON array.
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

    /// A value of a row, converted for a program.
    ///
    /// # Panics
    /// If the row has fewer values.
    pub fn value<'r>(&self, row: &'r Row, index: usize) -> Value<'r> {
        let (column, text) = (&self.columns[index], row.text(index));
        let bytes = text.filter(|_| column.oid == BYTEA).and_then(bytes_of);
        bytes.map_or_else(|| column.writer.value(text), Value::Bytes)
    }

    /// Appends the first value of a row; null if there are no columns.
    pub fn write_value(&self, row: &Row, numbers: Numbers, out: &mut Vec<u8>) {
        match self.columns.first() {
            Some(column) => column.writer.write(row.text(0), numbers, out),
            None => out.extend_from_slice(b"null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with a row of these values, followed by the beginning of another message.
    fn message(values: &[Option<&[u8]>]) -> (BytesMut, usize) {
        let mut body = (values.len() as u16).to_be_bytes().to_vec();
        for value in values {
            let length = value.map_or(u32::MAX, |text| text.len() as u32);
            body.extend_from_slice(&length.to_be_bytes());
            body.extend_from_slice(value.unwrap_or_default());
        }
        let mut received = BytesMut::from(&b"D"[..]);
        received.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        received.extend_from_slice(&body);
        let bytes = received.len();
        received.extend_from_slice(b"Z\0\0");
        (received, bytes)
    }

    #[test]
    fn a_row_has_its_values_whether_it_is_copied_or_stays_where_it_is() {
        let long = vec![b'x'; COPIED_BYTES_MAX];
        for last in [&b""[..], b"y", &long] {
            let values = [Some(&b"1"[..]), None, Some(b""), Some(b"\xc3\xa9"), Some(last)];
            let (mut received, bytes) = message(&values);
            let row = Row::take(&mut received, bytes).unwrap();
            assert_eq!(&received[..], b"Z\0\0");
            let texts: Vec<_> = (0..row.len()).map(|index| row.text(index)).collect();
            assert_eq!(texts, values);
        }
    }

    #[test]
    fn a_row_whose_lengths_are_not_those_of_its_message_is_refused() {
        let (whole, bytes) = message(&[Some(b"abc"), None]);
        for changed in 5..=10 {
            let mut received = whole.clone();
            received[changed] ^= 0x41;
            let taken = Row::take(&mut received, bytes);
            assert!(
                matches!(taken, Err(PgError::Protocol { .. })),
                "{changed}: {taken:?}"
            );
        }
    }
}
