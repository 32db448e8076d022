//! Conversion of texts between the engine and this program.

use std::borrow::Cow;

use rquickjs::{Ctx, Exception, Result, String as JsString, Value};

use crate::sys;

/// Converts a value that must be a string.
pub(crate) fn string<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> Result<JsString<'js>> {
    match value.into_string() {
        Some(text) => Ok(text),
        None => Err(Exception::throw_type(ctx, "a string is expected")),
    }
}

/// The text as UTF-8. A lone surrogate becomes U+FFFD, as everywhere in JavaScript.
pub(crate) fn utf8(text: JsString<'_>) -> Result<Vec<u8>> {
    let text = text.to_cstring()?;
    Ok(well_formed(sys::text_bytes(&text)).into_owned())
}

/// Like [`utf8`], as a string.
pub(crate) fn owned(text: JsString<'_>) -> Result<String> {
    Ok(String::from_utf8(utf8(text)?)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Encodes characters up to U+00FF as one byte each; `None` if there are others.
pub(crate) fn latin1(text: JsString<'_>) -> Result<Option<Vec<u8>>> {
    let text = text.to_cstring()?;
    let bytes = sys::text_bytes(&text);
    if bytes.is_ascii() {
        return Ok(Some(bytes.to_vec()));
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Ok(None);
    };
    Ok(text
        .chars()
        .map(|character| u8::try_from(u32::from(character)).ok())
        .collect())
}

/// Decodes each byte as one character.
pub(crate) fn from_latin1<'js>(ctx: &Ctx<'js>, bytes: &[u8]) -> Result<JsString<'js>> {
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.is_ascii() => JsString::from_str(ctx.clone(), text),
        _ => {
            let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
            JsString::from_str(ctx.clone(), &text)
        }
    }
}

/// Decodes bytes as UTF-8; invalid sequences become U+FFFD.
pub(crate) fn from_utf8<'js>(ctx: &Ctx<'js>, bytes: &[u8]) -> Result<JsString<'js>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => JsString::from_str(ctx.clone(), text),
        Err(_) => JsString::from_str(ctx.clone(), &String::from_utf8_lossy(bytes)),
    }
}

/// Converts the bytes of an engine's text to valid UTF-8.
pub(crate) fn well_formed(bytes: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(bytes).is_ok() {
        return Cow::Borrowed(bytes);
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = memchr::memchr(0xED, rest) {
        let (before, from) = rest.split_at(at);
        out.extend_from_slice(before);
        // Of the characters with this first byte, U+D800 to U+DFFF are surrogates.
        let is_half = matches!(from, [_, 0xA0..=0xBF, _, ..]);
        let (character, after) = from.split_at(from.len().min(3));
        out.extend_from_slice(if is_half { "\u{FFFD}".as_bytes() } else { character });
        rest = after;
    }
    out.extend_from_slice(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_pairs_are_replaced_and_all_else_stays() {
        assert_eq!(
            &*well_formed("a\u{D7FF}é😀".as_bytes()),
            "a\u{D7FF}é😀".as_bytes()
        );
        assert_eq!(
            &*well_formed(b"a\xED\xA0\x80b\xED\x9F\xBF"),
            "a\u{FFFD}b\u{D7FF}".as_bytes()
        );
    }
}
