//! The credentials in a request's Authorization field.

use std::hint::black_box;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::front::Head;

/// The token of `Authorization: Bearer` (RFC 6750, 2.1).
pub(super) fn bearer(head: &Head) -> Option<&[u8]> {
    scheme(head, b"bearer ")
}

/// The name and the password of `Authorization: Basic` (RFC 7617, 2).
pub(super) fn basic(head: &Head) -> Option<(String, String)> {
    let decoded = STANDARD.decode(scheme(head, b"basic ")?).ok()?;
    let (name, password) = str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

fn scheme<'h>(head: &'h Head, scheme: &[u8]) -> Option<&'h [u8]> {
    let (found, credentials) = head.field("authorization")?.split_at_checked(scheme.len())?;
    found
        .eq_ignore_ascii_case(scheme)
        .then(|| credentials.trim_ascii())
}

/// Compares in time that depends only on the length of `found`, so timing does not reveal how much of it was right.
pub(super) fn is_same(found: &[u8], token: &[u8]) -> bool {
    let mut differences = found.len() ^ token.len();
    for (at, byte) in found.iter().enumerate() {
        let expected = token[at % token.len()];
        differences |= usize::from(black_box(byte ^ expected));
    }
    black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::is_same;

    #[test]
    fn only_the_whole_token_is_the_token() {
        assert!(is_same(b"secret", b"secret"));
        for wrong in ["", "s", "secre", "secrets", "secretsecret", "Secret", "secreT"] {
            assert!(!is_same(wrong.as_bytes(), b"secret"), "{wrong}");
        }
    }
}
