//! Encodes records as an uncompressed record batch (format 2).

#![allow(
    clippy::cast_possible_wrap,
    reason = "what is counted here is bounded by `queue_bytes_max`, which is 1 GiB at most"
)]

use super::codec::Writer;

/// A record to publish.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) key: Option<String>,
    /// `None` is a tombstone: compaction removes the key.
    pub(super) value: Option<String>,
    pub(super) headers: Vec<(String, String)>,
}

impl Record {
    /// The bytes that it counts for against `queue_bytes_max`.
    pub(super) fn length(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len() + 10);
        length(&self.key) + length(&self.value) + headers.sum::<usize>()
    }

    fn write(&self, at: usize) -> Vec<u8> {
        let mut body = Writer::default();
        body.int8(0);
        body.varint(0);
        body.varint(at as i64);
        body.varbytes(self.key.as_deref().map(str::as_bytes));
        body.varbytes(self.value.as_deref().map(str::as_bytes));
        body.varint(self.headers.len() as i64);
        for (name, value) in &self.headers {
            body.varbytes(Some(name.as_bytes()));
            body.varbytes(Some(value.as_bytes()));
        }
        body.0
    }
}

/// Encodes a batch with this creation time, in milliseconds since 1970.
pub(super) fn write(records: &[&Record], now_ms: i64) -> Vec<u8> {
    let mut rest = Writer::default();
    // Attributes: no compression, timestamps set by the producer.
    rest.int16(0);
    rest.int32(records.len() as i32 - 1);
    rest.int64(now_ms);
    rest.int64(now_ms);
    // Neither transactional nor idempotent: no producer id, epoch or sequence.
    rest.int64(-1);
    rest.int16(-1);
    rest.int32(-1);
    rest.int32(records.len() as i32);
    for (at, record) in records.iter().enumerate() {
        rest.varbytes(Some(&record.write(at)));
    }
    let mut batch = Writer::default();
    batch.int64(0);
    // Length of the leader's epoch, the format, the checksum, and the rest.
    batch.int32((4 + 1 + 4 + rest.0.len()) as i32);
    batch.int32(-1);
    batch.int8(2);
    batch.int32(crc32c::crc32c(&rest.0).cast_signed());
    batch.0.extend_from_slice(&rest.0);
    batch.0
}
