//! HTML from templates: what `html-text.ts` of the SDK does, without a string for each value.

use rquickjs::{
    Array, Coerced, Ctx, Exception, FromJs as _, Object, Result, String as JsString, Type, Value,
};

use super::Functions;
use crate::text;

/// Arrays in one another, as in the SDK: a circle ends there.
const DEPTH_MAX: usize = 64;

pub(super) fn install<'js>(functions: &Functions<'_, 'js>) -> Result<()> {
    functions.set(
        "html",
        |ctx: Ctx<'js>, texts: Array<'js>, values: Array<'js>, marked: Object<'js>| {
            let mut out = Vec::with_capacity(256);
            let mut values = values.iter::<Value<'js>>();
            for text in texts.iter::<JsString<'js>>() {
                out.extend_from_slice(&text::utf8(text?)?);
                if let Some(value) = values.next() {
                    write(&ctx, value?, &marked, DEPTH_MAX, &mut out)?;
                }
            }
            text::from_utf8(&ctx, &out)
        },
    )
}

fn write<'js>(
    ctx: &Ctx<'js>,
    value: Value<'js>,
    marked: &Object<'js>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    match value.type_of() {
        Type::Null | Type::Undefined => return Ok(()),
        Type::Bool if value.as_bool() == Some(false) => return Ok(()),
        Type::Int => {
            if let Some(integer) = value.as_int() {
                out.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes());
            }
            return Ok(());
        }
        Type::Array => {
            if depth == 0 {
                let message = format!("arrays of HTML are at most {DEPTH_MAX} in one another");
                return Err(Exception::throw_range(ctx, &message));
            }
            if let Some(array) = value.as_array() {
                for element in array.iter() {
                    write(ctx, element?, marked, depth - 1, out)?;
                }
            }
            return Ok(());
        }
        _ => {}
    }
    if let Some(object) = value.as_object()
        && object.get_prototype().as_ref() == Some(marked)
    {
        out.extend_from_slice(&text::utf8(object.get("text")?)?);
        return Ok(());
    }
    let Coerced(text) = Coerced::<JsString<'js>>::from_js(ctx, value)?;
    escape(&text::utf8(text)?, out);
    Ok(())
}

fn escape(text: &[u8], out: &mut Vec<u8>) {
    let mut copied = 0;
    for (at, byte) in text.iter().enumerate() {
        let escaped: &[u8] = match byte {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'"' => b"&quot;",
            b'\'' => b"&#39;",
            _ => continue,
        };
        out.extend_from_slice(&text[copied..at]);
        out.extend_from_slice(escaped);
        copied = at + 1;
    }
    out.extend_from_slice(&text[copied..]);
}
