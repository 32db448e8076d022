//! Histograms of latencies as pairs of a value and its count, without loss. For `#[serde(with)]`.

use hdrhistogram::{Counter, Histogram};
use serde::{Deserialize, Deserializer as Reads, Serialize, Serializer as Writes, de::Error as _};

use crate::engine::LATENCY_MAX_NS;

/// A histogram as it is saved.
#[derive(Serialize, Deserialize)]
struct Encoded {
    /// Decimal digits to which values are recorded: three for a whole run, two for its parts.
    digits: u8,
    counts: Vec<(u64, u64)>,
}

/// Why what is saved is not a histogram of latencies.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
enum EncodedError {
    /// The digits are not those of latencies.
    #[error("a histogram records to {digits} digits; those of latencies have 2 or 3")]
    Digits { digits: u8 },
    /// A value or a count is out of range.
    #[error("a histogram has {count} times {value} ns, which is out of its range")]
    Range { value: u64, count: u64 },
}

fn encode<C: Counter>(histogram: &Histogram<C>) -> Encoded {
    let counts = histogram.iter_recorded();
    Encoded {
        digits: histogram.sigfig(),
        counts: counts
            .map(|one| (one.value_iterated_to(), one.count_at_value().as_u64()))
            .collect(),
    }
}

fn decode<C: Counter>(Encoded { digits, counts }: Encoded) -> Result<Histogram<C>, EncodedError> {
    let low = match digits {
        2 => 1_000,
        3 => 1,
        _ => return Err(EncodedError::Digits { digits }),
    };
    let mut histogram =
        Histogram::new_with_bounds(low, LATENCY_MAX_NS, digits).expect("the bounds are valid");
    for (value, count) in counts {
        let recorded = C::from_u64(count).map(|count| histogram.record_n(value, count));
        if !matches!(recorded, Some(Ok(()))) {
            return Err(EncodedError::Range { value, count });
        }
    }
    Ok(histogram)
}

/// Serializes a histogram.
pub fn serialize<C: Counter, W: Writes>(histogram: &Histogram<C>, writer: W) -> Result<W::Ok, W::Error> {
    encode(histogram).serialize(writer)
}

/// Deserializes a histogram.
pub fn deserialize<'de, C: Counter, R: Reads<'de>>(reader: R) -> Result<Histogram<C>, R::Error> {
    decode(Encoded::deserialize(reader)?).map_err(R::Error::custom)
}

/// The same for an optional histogram.
pub mod optional {
    use super::{Counter, Encoded, Histogram, Reads, Writes, decode, encode};
    use serde::{Deserialize as _, Serialize as _, de::Error as _};

    /// Serializes a histogram, or null.
    pub fn serialize<C: Counter, W: Writes>(
        histogram: &Option<Histogram<C>>,
        writer: W,
    ) -> Result<W::Ok, W::Error> {
        histogram.as_ref().map(encode).serialize(writer)
    }

    /// Deserializes a histogram, or null.
    pub fn deserialize<'de, C: Counter, R: Reads<'de>>(reader: R) -> Result<Option<Histogram<C>>, R::Error> {
        let encoded = Option::<Encoded>::deserialize(reader)?;
        encoded.map(decode).transpose().map_err(R::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{latencies, slice_latencies};

    #[test]
    fn a_histogram_stays_itself_down_to_the_last_count() {
        let mut latency = latencies();
        assert_eq!(decode(encode(&latency)), Ok(latency.clone()));
        for at in 0..5_000_u64 {
            latency.record(at * at * 131).unwrap();
        }
        latency.record_n(77, u64::from(u32::MAX) * 9).unwrap();
        let again: Histogram<u64> = decode(encode(&latency)).unwrap();
        assert_eq!(again, latency);
        assert_eq!((again.min(), again.max()), (latency.min(), latency.max()));
        let mut slice = slice_latencies::<u32>();
        slice.record_n(5_000_000, 9).unwrap();
        assert_eq!(decode(encode(&slice)), Ok(slice));
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let of = |digits, counts| decode::<u32>(Encoded { digits, counts });
        assert_eq!(of(5, vec![]), Err(EncodedError::Digits { digits: 5 }));
        for (value, count) in [(u64::MAX, 1), (1, u64::MAX)] {
            assert_eq!(
                of(2, vec![(value, count)]),
                Err(EncodedError::Range { value, count })
            );
        }
    }
}
