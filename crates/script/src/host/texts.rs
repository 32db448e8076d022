//! Conversion between bytes and texts.

use rquickjs::{ArrayBuffer, Ctx, Exception, Result, String as JsString, TypedArray};

use super::Functions;
use crate::{sys, text};

pub(super) fn install<'js>(functions: &Functions<'_, 'js>) -> Result<()> {
    functions.set(
        "latin1Slice",
        |ctx: Ctx<'js>, bytes: TypedArray<'js, u8>, from: usize, to: usize| {
            let slice = part(&bytes, from, to);
            text::from_latin1(&ctx, &slice)
        },
    )?;
    functions.set(
        "utf8Slice",
        |ctx: Ctx<'js>, bytes: TypedArray<'js, u8>, from: usize, to: usize| {
            let slice = part(&bytes, from, to);
            text::from_utf8(&ctx, &slice)
        },
    )?;
    functions.set(
        "utf8Write",
        |bytes: TypedArray<'js, u8>, content: JsString<'js>, at: usize, length: usize| -> Result<usize> {
            let content = text::utf8(content)?;
            Ok(write(&bytes, whole_characters(&content, length), at))
        },
    )?;
    functions.set(
        "latin1Write",
        |ctx: Ctx<'js>,
         bytes: TypedArray<'js, u8>,
         content: JsString<'js>,
         at: usize,
         length: usize|
         -> Result<usize> {
            let content = text::latin1(content)?
                .ok_or_else(|| Exception::throw_type(&ctx, "the text has characters beyond U+00FF"))?;
            Ok(write(&bytes, &content[..content.len().min(length)], at))
        },
    )?;
    functions.set(
        "utf8",
        |ctx: Ctx<'js>, content: JsString<'js>| -> Result<ArrayBuffer<'js>> {
            ArrayBuffer::new_copy(ctx.clone(), text::utf8(content)?)
        },
    )
}

/// A part of the bytes, as far as they reach.
fn part(bytes: &TypedArray<'_, u8>, from: usize, to: usize) -> Vec<u8> {
    let part = sys::with_bytes(bytes, |bytes| {
        let to = to.min(bytes.len());
        bytes[from.min(to)..to].to_vec()
    });
    part.unwrap_or_default()
}

/// Writes as much as fits. Returns how much that is.
fn write(bytes: &TypedArray<'_, u8>, content: &[u8], at: usize) -> usize {
    let written = sys::with_bytes(bytes, |bytes| {
        let room = bytes.get_mut(at..).unwrap_or_default();
        let length = content.len().min(room.len());
        room[..length].copy_from_slice(&content[..length]);
        length
    });
    written.unwrap_or(0)
}

fn whole_characters(content: &[u8], length: usize) -> &[u8] {
    if content.len() <= length {
        return content;
    }
    let mut end = length;
    while end > 0 && content[end] & 0xC0 == 0x80 {
        end -= 1;
    }
    &content[..end]
}

#[cfg(test)]
mod tests {
    use super::whole_characters;

    #[test]
    fn no_character_is_written_in_half() {
        let text = "aé😀".as_bytes();
        let lengths: Vec<usize> = (0..=8)
            .map(|length| whole_characters(text, length).len())
            .collect();
        assert_eq!(lengths, [0, 1, 1, 3, 3, 3, 3, 7, 7]);
    }
}
