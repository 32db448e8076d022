//! `Idempotency-Key`: the client's name for what a request asks for, so that it is done once however often the request is sent.

use crate::front::Head;

/// Longest key, in bytes: it becomes a subscript in the store.
pub(crate) const KEY_BYTES_MAX: usize = 128;

/// The key of a request, if it has one; the error says what is wrong with it.
pub(crate) fn idempotency_key(head: &Head) -> Result<Option<String>, String> {
    let mut keys = head
        .fields()
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"idempotency-key"));
    let key = keys.next().map(|(_, written)| key(written)).transpose()?;
    if keys.next().is_some() {
        return Err("`Idempotency-Key` is there twice".to_owned());
    }
    Ok(key)
}

/// Parses a key, with or without quotes.
fn key(written: &[u8]) -> Result<String, String> {
    let bare = written
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""))
        .unwrap_or(written);
    let is_plain = bare
        .iter()
        .all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(byte));
    if bare.is_empty() || bare.len() > KEY_BYTES_MAX || !is_plain {
        return Err(format!(
            "`Idempotency-Key`: expected 1 to {KEY_BYTES_MAX} visible characters of ASCII without spaces, \" and \\, found {} bytes{}",
            bare.len(),
            if is_plain {
                ""
            } else {
                ", not all of them such characters"
            }
        ));
    }
    Ok(String::from_utf8_lossy(bare).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_with_quotes_and_without() {
        assert_eq!(key(b"\"a-1\"").unwrap(), "a-1");
        assert_eq!(key(b"8e03978e-40d5-43dd-bc93-6894a57f9324").unwrap().len(), 36);
        let long = vec![b'k'; KEY_BYTES_MAX + 1];
        for wrong in [&b""[..], b"\"\"", b"a b", b"a\\b", "\u{e9}".as_bytes(), &long] {
            let told = key(wrong).unwrap_err();
            assert!(
                told.starts_with("`Idempotency-Key`: expected 1 to 128 "),
                "{told}"
            );
        }
    }
}
