//! The public keys of a token issuer: a JSON Web Key Set (RFC 7517).

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;

/// Most keys of a set.
const KEYS_MAX: usize = 256;

/// A key set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeySetError {
    /// It is not a key set.
    #[error("it is not a JSON Web Key Set: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It has too many keys.
    #[error("it has {found} keys, at most {KEYS_MAX} are accepted")]
    TooMany {
        /// Their number.
        found: usize,
    },
    /// None of its keys verifies signatures.
    #[error("none of its {found} keys is a public key for signatures (RSA, P-256, P-384 or Ed25519)")]
    Useless {
        /// Their number.
        found: usize,
    },
}

/// The usable keys of a set.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    public: DecodingKey,
}

#[derive(Deserialize)]
struct Written {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a set. Keys that are not for signatures, or of an unknown type, are left out, as RFC 7517, 5 asks for.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, KeySetError> {
        let written: Written = serde_json::from_slice(text)?;
        let found = written.keys.len();
        if found > KEYS_MAX {
            return Err(KeySetError::TooMany { found });
        }
        let keys: Vec<Key> = written.keys.into_iter().filter_map(key).collect();
        if keys.is_empty() {
            return Err(KeySetError::Useless { found });
        }
        Ok(Self { keys })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys by which a token may have been signed: those with its key id, or the only one if it names none.
    pub(crate) fn candidates(&self, id: Option<&str>, algorithm: Algorithm) -> Vec<&DecodingKey> {
        let is_fit =
            |key: &&Key| key.algorithms.contains(&algorithm) && (id.is_none() || key.id.as_deref() == id);
        let keys: Vec<&DecodingKey> = self.keys.iter().filter(is_fit).map(|key| &key.public).collect();
        if id.is_none() && keys.len() > 1 {
            Vec::new()
        } else {
            keys
        }
    }
}

fn key(written: Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(written).ok()?;
    let is_for_signatures = matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature));
    let operations = jwk.common.key_operations.as_ref();
    if !is_for_signatures || operations.is_some_and(|operations| !operations.contains(&KeyOperations::Verify))
    {
        return None;
    }
    let mut algorithms = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => vec![
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ],
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => vec![Algorithm::ES256],
            EllipticCurve::P384 => vec![Algorithm::ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            vec![Algorithm::EdDSA]
        }
        // A shared secret has no place in a published set.
        _ => return None,
    };
    if let Some(only) = jwk.common.key_algorithm {
        let only = Algorithm::try_from(only).ok()?;
        algorithms.retain(|algorithm| *algorithm == only);
    }
    Some(Key {
        public: DecodingKey::from_jwk(&jwk).ok()?,
        id: jwk.common.key_id,
        algorithms,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_public_keys_for_signatures_are_taken() {
        let set = json!({ "keys": [
            { "kty": "oct", "kid": "secret", "k": "AAAA", "alg": "HS256" },
            { "kty": "RSA", "kid": "enc", "use": "enc", "n": "AQAB", "e": "AQAB" },
            { "kty": "RSA", "kid": "wrap", "key_ops": ["wrapKey"], "n": "AQAB", "e": "AQAB" },
            { "kty": "RSA", "kid": "ps", "alg": "PS256", "n": "AQAB", "e": "AQAB" },
            { "kty": "EC", "kid": "k1", "crv": "secp256k1", "x": "AA", "y": "AA" },
            { "kty": "EC", "kid": "p256", "use": "sig", "crv": "P-256", "x": "AA", "y": "AA" },
            { "kty": "lattice", "kid": "new" },
            { "kid": "nothing" },
        ] });
        let set = KeySet::parse(set.to_string().as_bytes()).unwrap();
        let ids: Vec<_> = set.keys.iter().map(|key| key.id.as_deref().unwrap()).collect();
        assert_eq!(ids, ["ps", "p256"]);
        assert_eq!(set.candidates(Some("ps"), Algorithm::PS256).len(), 1);
        assert!(
            set.candidates(Some("ps"), Algorithm::RS256).is_empty(),
            "the key says its algorithm"
        );
        assert!(
            set.candidates(Some("p256"), Algorithm::ES384).is_empty(),
            "another curve"
        );
        assert!(set.candidates(Some("p256"), Algorithm::HS256).is_empty());
        assert_eq!(set.candidates(None, Algorithm::ES256).len(), 1, "the only one");
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let error = |text: &str| KeySet::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error("<html>").starts_with("it is not a JSON Web Key Set: "));
        assert!(error(r#"{"keys":1}"#).starts_with("it is not a JSON Web Key Set: "));
        assert!(error(r#"{"keys":[]}"#).starts_with("none of its 0 keys "));
        let many = json!({ "keys": vec![json!({}); KEYS_MAX + 1] }).to_string();
        assert_eq!(error(&many), "it has 257 keys, at most 256 are accepted");
    }
}
