//! Histograms as text without loss: base64 of `HdrHistogram`'s compressed V2 form, as its logs and tools use it
//! (`encodeIntoCompressedByteBuffer` of its Java library). For `#[serde(with)]`.

use std::io::Read as _;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use flate2::read::ZlibDecoder;
use hdrhistogram::{
    Counter, Histogram,
    serialization::{Deserializer, Serializer as _, V2DeflateSerializer},
};
use serde::{Deserialize as _, Deserializer as Reads, Serializer as Writes, de::Error as _, ser::Error as _};

use crate::engine::{LATENCY_DIGITS, latencies, slice_latencies};

/// Bytes before the zlib stream: a cookie (`0x1c849314`) and the length.
const OUTER_HEAD: usize = 8;
/// Bytes at the start of the stream: a cookie, length, offset, digits, lowest and highest value, a ratio.
const INNER_HEAD: usize = 40;
/// Most bytes of one count.
const COUNT_BYTES_MAX: usize = 9;

/// Why a text is not a histogram of latencies.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum EncodedError {
    /// Not base64.
    #[error("a histogram is not in base64")]
    Base64,
    /// The content is malformed.
    #[error("a histogram is not one of HdrHistogram's compressed V2 form, or it is damaged")]
    Form,
    /// The range of values is not that of latencies.
    #[error("a histogram has other bounds than those of latencies")]
    Bounds,
}

/// Encodes a histogram as text.
pub(crate) fn encode<C: Counter>(histogram: &Histogram<C>) -> Result<String, EncodedError> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(|_| EncodedError::Form)?;
    Ok(BASE64_STANDARD.encode(bytes))
}

/// Decodes a histogram. The sizes it claims are checked before memory is allocated for it.
pub(crate) fn decode<C: Counter>(text: &str) -> Result<Histogram<C>, EncodedError> {
    let bytes = BASE64_STANDARD.decode(text).map_err(|_| EncodedError::Base64)?;
    let mut head = [0; INNER_HEAD];
    let stream = bytes.get(OUTER_HEAD..).ok_or(EncodedError::Form)?;
    ZlibDecoder::new(stream)
        .read_exact(&mut head)
        .map_err(|_| EncodedError::Form)?;
    let four = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let eight = |at: usize| u64::from(four(at)) << 32 | u64::from(four(at + 4));
    let (length, digits, low, high) = (four(4) as usize, four(12), eight(16), eight(24));
    let of_all = digits == u32::from(LATENCY_DIGITS);
    let known = if of_all { latencies() } else { slice_latencies() };
    if (u32::from(known.sigfig()), known.low(), known.high()) != (digits, low, high) {
        return Err(EncodedError::Bounds);
    }
    if length > known.distinct_values() * COUNT_BYTES_MAX {
        return Err(EncodedError::Form);
    }
    Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|_| EncodedError::Form)
}

/// Serializes a histogram.
pub(crate) fn serialize<C: Counter, W: Writes>(
    histogram: &Histogram<C>,
    writer: W,
) -> Result<W::Ok, W::Error> {
    writer.serialize_str(&encode(histogram).map_err(W::Error::custom)?)
}

/// Deserializes a histogram.
pub(crate) fn deserialize<'de, C: Counter, R: Reads<'de>>(reader: R) -> Result<Histogram<C>, R::Error> {
    decode(&String::deserialize(reader)?).map_err(R::Error::custom)
}

/// The same for an optional histogram.
pub(crate) mod optional {
    use super::{Counter, Histogram, Reads, Writes, decode, encode};
    use serde::{Deserialize as _, Serialize as _, de::Error as _, ser::Error as _};

    /// Serializes a histogram, or null.
    #[expect(clippy::ref_option, reason = "serde's derive calls it so")]
    pub(crate) fn serialize<C: Counter, W: Writes>(
        histogram: &Option<Histogram<C>>,
        writer: W,
    ) -> Result<W::Ok, W::Error> {
        let text = histogram.as_ref().map(encode).transpose();
        text.map_err(W::Error::custom)?.serialize(writer)
    }

    /// Deserializes a histogram, or null.
    pub(crate) fn deserialize<'de, C: Counter, R: Reads<'de>>(
        reader: R,
    ) -> Result<Option<Histogram<C>>, R::Error> {
        let text = Option::<String>::deserialize(reader)?;
        text.as_deref().map(decode).transpose().map_err(R::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_stays_itself_down_to_the_last_count() {
        let mut latency = latencies();
        assert_eq!(decode(&encode(&latency).unwrap()), Ok(latency.clone()));
        for at in 0..5_000_u64 {
            latency.record(at * at * 131).unwrap();
        }
        latency.record_n(77, u64::from(u32::MAX) * 9).unwrap();
        let text = encode(&latency).unwrap();
        assert!(text.starts_with("HISTFAA"), "as HdrHistogram's logs do: {text}");
        let again: Histogram<u64> = decode(&text).unwrap();
        assert_eq!(again, latency);
        assert_eq!(
            (again.min(), again.max(), again.len()),
            (latency.min(), latency.max(), latency.len())
        );
        let mut slice = slice_latencies::<u32>();
        slice.record_n(5_000_000, 9).unwrap();
        assert_eq!(decode(&encode(&slice).unwrap()), Ok(slice));
    }

    #[test]
    fn what_is_none_is_refused_before_room_is_made_for_it() {
        let encoded = |low, high, digits| {
            let mut histogram = Histogram::<u64>::new_with_bounds(low, high, digits).unwrap();
            histogram.record(low * 2).unwrap();
            encode(&histogram).unwrap()
        };
        for text in [
            encoded(1, u64::MAX / 4, 5),
            encoded(1, 3_600, 3),
            encoded(1, 3_600, 2),
        ] {
            assert_eq!(decode::<u64>(&text), Err(EncodedError::Bounds));
        }
        assert_eq!(decode::<u64>("HIST*"), Err(EncodedError::Base64));
        let whole = encode(&latencies()).unwrap();
        for text in ["", "AAAA", "HISTFAAAAAAA", &whole[..whole.len() / 8 * 4]] {
            assert_eq!(decode::<u64>(text), Err(EncodedError::Form), "{text}");
        }
    }
}
