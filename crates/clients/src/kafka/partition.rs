//! Chooses the partition of a record.

/// Murmur2 as in Kafka's own producers (`org.apache.kafka.common.utils.Utils.murmur2`), so that equal keys go to the same partition whichever client sends them.
fn murmur2(key: &[u8]) -> u32 {
    const MIX: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c_u32 ^ key.len() as u32;
    let mut words = key.chunks_exact(4);
    for word in &mut words {
        let mut mixed = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(MIX);
        mixed ^= mixed >> 24;
        hash = hash.wrapping_mul(MIX) ^ mixed.wrapping_mul(MIX);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(MIX);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MIX);
    hash ^ (hash >> 15)
}

/// The partition of a key, out of `count` partitions (at least one).
pub(super) fn of_key(key: &[u8], partitions: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % partitions
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of Kafka's own test (`UtilsTest.testMurmur2`).
    #[test]
    fn keys_are_hashed_as_the_producers_of_kafka_hash_them() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }
}
