//! The credentials in the value of an `Authorization` field.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::Refusal;

/// The token of `Bearer` (RFC 6750, 2.1).
pub fn bearer(value: &[u8]) -> Option<&[u8]> {
    scheme(value, b"bearer ")
}

/// The name and the password of `Basic` (RFC 7617, 2). The refusal is [`Refusal::Missing`] if the scheme is another one.
pub fn basic(value: &[u8]) -> Result<(String, String), Refusal> {
    let encoded = scheme(value, b"basic ").ok_or(Refusal::Missing)?;
    let decoded = STANDARD.decode(encoded).ok();
    let decoded = decoded.and_then(|decoded| String::from_utf8(decoded).ok());
    let pair = decoded.as_deref().and_then(|decoded| decoded.split_once(':'));
    let (name, password) = pair.ok_or(Refusal::Malformed {
        what: "`Basic` is followed by a name, a colon and a password in UTF-8, together in Base64",
    })?;
    Ok((name.to_owned(), password.to_owned()))
}

/// The credentials after a scheme's name.
fn scheme<'v>(value: &'v [u8], scheme: &[u8]) -> Option<&'v [u8]> {
    let (found, credentials) = value.split_at_checked(scheme.len())?;
    found
        .eq_ignore_ascii_case(scheme)
        .then(|| credentials.trim_ascii())
}
