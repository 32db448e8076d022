//! Errors of tools.

use super::coding::Scheme;

/// The reason why a tool fails.
#[derive(Debug, thiserror::Error)]
pub(super) enum ToolError {
    #[error("{what} has {length} bytes, a tool takes at most {max}")]
    TooLong {
        what: &'static str,
        length: usize,
        max: usize,
    },
    #[error("`{name}` is no encoding; base58, base64, hex and utf8 are")]
    Scheme { name: String },
    #[error("{scheme} has no character {character:?}, which stands at {at}")]
    Character {
        scheme: Scheme,
        character: char,
        at: usize,
    },
    #[error("text in hex has an even number of digits, and this one has {length}")]
    OddHex { length: usize },
    #[error("`{name}` is no digest; {accepted} are")]
    Digest { name: String, accepted: &'static str },
    #[error("`{name}` is no mode of AES; cbc, cbc-pkcs7, ecb and ecb-pkcs7 are")]
    AesMode { name: String },
    #[error("an AES key has {accepted} bytes, and this one has {length} when read as base64")]
    AesKey { accepted: &'static str, length: usize },
    #[error("the initial vector of CBC has 16 bytes, and this one has {length} when read as base64")]
    AesVector { length: usize },
    #[error(
        "AES without padding takes a multiple of 16 bytes, and this text has {length}; the methods with PKCS#7 take any number"
    )]
    AesBlocks { length: usize },
    #[error(
        "what is decrypted has {length} bytes when read as base64, and AES gives a multiple of 16, at least 16"
    )]
    AesCiphertext { length: usize },
    #[error("the padding is wrong: another key or initial vector encrypted this, or it was changed")]
    AesPadding,
    #[error("RSA keys of {bits} bits are not made; 1024, 2048, 3072 and 4096 are accepted")]
    RsaBits { bits: f64 },
    #[error("the call's time is over, and no pair of keys was found")]
    OutOfTime,
    #[error(
        "this is no public key: a base64 text of an X.509 SubjectPublicKeyInfo with RSA of 1024 to 4096 bits is expected"
    )]
    RsaPublicKey(#[source] Option<rsa::pkcs8::spki::Error>),
    #[error("this is no private key: a base64 text of PKCS#8 with RSA of 1024 to 4096 bits is expected")]
    RsaPrivateKey(#[source] Option<rsa::pkcs8::Error>),
    #[error("this key encrypts at most {max} bytes, and the text has {length}")]
    RsaText { max: usize, length: usize },
    #[error("what is decrypted has {length} bytes when read as base64, and this key's have {expected}")]
    RsaCiphertext { expected: usize, length: usize },
    #[error("RSA failed")]
    Rsa(#[from] rsa::Error),
    #[error("{end} was given, and a number at random is below one from 1 to 9007199254740992")]
    RandomEnd { end: f64 },
    #[error("there is no character to choose from")]
    NoCharacters,
    #[error("no random bytes")]
    Random(#[from] getrandom::Error),
    #[error("there is no memory for it")]
    Memory,
}

/// Checks a length against its limit.
pub(super) fn check_length(what: &'static str, length: usize, max: usize) -> Result<(), ToolError> {
    if length > max {
        return Err(ToolError::TooLong { what, length, max });
    }
    Ok(())
}
