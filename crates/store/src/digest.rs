use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

/// A hash of a document's canonical text (`SipHash` 1-3, 128 bits, without a key): it says nothing of when or how the document was stored.
/// Two documents with the same one are the same, unless somebody has looked for a pair.
pub fn digest(document: &[u8]) -> u128 {
    let mut hasher = SipHasher13::new();
    hasher.write(document);
    hasher.finish128().as_u128()
}
