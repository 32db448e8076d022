//! Fixed secrets, of which only digests are kept: bearer tokens and API keys.

use std::{fmt, str::FromStr, sync::Arc};

use subtle::ConstantTimeEq as _;

use crate::{
    Identity, Refusal,
    cache::{Digest, digest},
};

/// The SHA-256 digest of a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretDigest(Digest);

/// A text is no SHA-256 digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a SHA-256 digest: 64 hexadecimal digits")]
pub struct SecretDigestError;

impl SecretDigest {
    /// The digest of a secret.
    pub fn of(secret: &[u8]) -> Self {
        Self(digest(&[secret]))
    }
}

impl FromStr for SecretDigest {
    type Err = SecretDigestError;

    fn from_str(text: &str) -> Result<Self, SecretDigestError> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(SecretDigestError);
        }
        let mut digest = Digest::default();
        for (at, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| SecretDigestError)?;
        }
        Ok(Self(digest))
    }
}

impl fmt::Debug for SecretDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

/// Whether two secrets are the same, in time that depends only on their lengths.
pub fn is_same(found: &[u8], secret: &[u8]) -> bool {
    found.ct_eq(secret).into()
}

/// Secrets and their owners.
#[derive(Debug)]
pub(crate) struct Secrets(Vec<(SecretDigest, Arc<Identity>)>);

impl Secrets {
    pub(crate) fn new(secrets: Vec<(SecretDigest, Identity)>) -> Self {
        let owned = secrets
            .into_iter()
            .map(|(digest, identity)| (digest, Arc::new(identity)));
        Self(owned.collect())
    }

    /// Whose secret it is. All are compared, each in constant time, so timing reveals nothing about them.
    pub(crate) fn owner(&self, secret: &[u8]) -> Result<Arc<Identity>, Refusal> {
        let found = digest(&[secret]);
        let mut owner = None;
        for (digest, identity) in &self.0 {
            if is_same(&found, &digest.0) {
                owner = Some(identity);
            }
        }
        owner.cloned().ok_or(Refusal::Wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_64_hexadecimal_digits() {
        let hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert_eq!(hello.parse(), Ok(SecretDigest::of(b"hello")));
        assert_eq!(hello.to_uppercase().parse(), Ok(SecretDigest::of(b"hello")));
        for wrong in [
            "",
            "hello",
            &hello[1..],
            &format!("{hello}0"),
            &hello.replace('2', "+"),
        ] {
            assert_eq!(wrong.parse::<SecretDigest>(), Err(SecretDigestError), "{wrong}");
        }
    }
}
