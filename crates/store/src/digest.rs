use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

/// Hash of a document's canonical text (`SipHash` 1-3, 128 bits, no key). It does not depend on when or how the
/// document was stored. Documents with equal hashes are equal, unless someone has searched for a collision.
pub fn digest(document: &[u8]) -> u128 {
    let mut hasher = SipHasher13::new();
    hasher.write(document);
    hasher.finish128().as_u128()
}
