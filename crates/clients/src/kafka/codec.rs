//! Encoding of protocol values: big-endian numbers, length-prefixed texts.

#![allow(
    clippy::cast_possible_wrap,
    reason = "what is counted here is bounded by `queue_bytes_max`, which is 1 GiB at most"
)]

/// Output buffer. Lengths are those of bounded values.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn int8(&mut self, value: i8) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn int16(&mut self, value: i16) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn int32(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn int64(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        self.int16(text.len() as i16);
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.int32(bytes.len() as i32);
        self.0.extend_from_slice(bytes);
    }

    /// Writes a zigzag varint.
    pub(super) fn varint(&mut self, value: i64) {
        let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
        while rest >= 0x80 {
            self.0.push((rest as u8 & 0x7f) | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
    }

    /// Writes bytes with a varint length; `None` is null.
    pub(super) fn varbytes(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => {
                self.varint(bytes.len() as i64);
                self.0.extend_from_slice(bytes);
            }
            None => self.varint(-1),
        }
    }
}

/// The response ends too early or is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// The unread rest of a response.
#[derive(Debug)]
pub(super) struct Reader<'b>(pub(super) &'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, length: usize) -> Result<&'b [u8], Unreadable> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Unreadable)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        self.take(N)?.try_into().map_err(|_| Unreadable)
    }

    pub(super) fn int8(&mut self) -> Result<i8, Unreadable> {
        self.array().map(i8::from_be_bytes)
    }

    pub(super) fn int16(&mut self) -> Result<i16, Unreadable> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn int32(&mut self) -> Result<i32, Unreadable> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn int64(&mut self) -> Result<i64, Unreadable> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads a nullable text.
    pub(super) fn text(&mut self) -> Result<Option<&'b str>, Unreadable> {
        match usize::try_from(self.int16()?) {
            Ok(length) => std::str::from_utf8(self.take(length)?)
                .map(Some)
                .map_err(|_| Unreadable),
            Err(_) => Ok(None),
        }
    }

    /// Reads the count of a list whose elements take at least one byte each, so it cannot exceed the response. Null is an empty list.
    pub(super) fn list<T>(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, Unreadable> {
        let count = self.int32()?.max(0);
        let mut elements = Vec::new();
        for _ in 0..count {
            elements.push(each(self)?);
        }
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_few_bytes_are_those_of_the_protocol() {
        for (value, bytes) in [
            (0, vec![0]),
            (-1, vec![1]),
            (1, vec![2]),
            (63, vec![126]),
            (64, vec![128, 1]),
            (300, vec![216, 4]),
            (i64::MIN, vec![255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            let mut writer = Writer::default();
            writer.varint(value);
            assert_eq!(writer.0, bytes, "{value}");
        }
    }
}
