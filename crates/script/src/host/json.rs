//! JSON of what handlers return: the text that `JSON.stringify` gives, without the objects and strings that it makes on its way. What is
//! rarely returned is left to it, value by value, so that there is one meaning.

use rquickjs::{
    Atom, Coerced, Ctx, Error, Object, Result, String as JsString, Value, atom::PredefinedAtom,
    object::Filter,
};

use crate::{sys, text};

/// Objects and arrays in one another, of which this many are written here. A circle ends there, and the engine says that it is one.
const DEPTH_MAX: usize = 64;

/// Writes one value.
pub(super) struct JsonWriter<'a, 'js> {
    ctx: &'a Ctx<'js>,
    out: Vec<u8>,
    bytes_max: usize,
    depth: usize,
}

impl<'a, 'js> JsonWriter<'a, 'js> {
    /// Once the text is longer than `bytes_max`, the rest is left out.
    pub(super) fn new(ctx: &'a Ctx<'js>, bytes_max: usize) -> Self {
        Self {
            ctx,
            out: Vec::with_capacity(128),
            bytes_max,
            depth: 0,
        }
    }

    /// The text of an object literal or array; `None` for anything else, and for one with a `toJSON` of its own.
    pub(super) fn write(mut self, value: &Value<'js>) -> Result<Option<Vec<u8>>> {
        let Some(object) = value.as_object() else {
            return Ok(None);
        };
        if has_to_json(object)? || !self.container(object)? {
            return Ok(None);
        }
        Ok(Some(self.out))
    }

    /// Writes an object or array whose `toJSON` was looked for; false: it is neither.
    fn container(&mut self, object: &Object<'js>) -> Result<bool> {
        if self.depth == DEPTH_MAX {
            return Ok(false);
        }
        self.depth += 1;
        let is_written = match sys::class_of(object) {
            sys::Class::Object => self.members(object).map(|()| true),
            sys::Class::Array => self.elements(object).map(|()| true),
            sys::Class::Other => Ok(false),
        };
        self.depth -= 1;
        is_written
    }

    fn members(&mut self, object: &Object<'js>) -> Result<()> {
        self.out.push(b'{');
        let start = self.out.len();
        for name in object.own_keys::<Atom<'js>>(Filter::new().string().enum_only()) {
            let name = name?;
            let value = object.get::<_, Value<'js>>(name.clone())?;
            let before = self.out.len();
            if before > start {
                self.out.push(b',');
            }
            self.text(name.to_js_string()?)?;
            self.out.push(b':');
            if !self.value(value, || Ok(name))? {
                self.out.truncate(before);
            }
            if self.is_full() {
                break;
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    fn elements(&mut self, object: &Object<'js>) -> Result<()> {
        self.out.push(b'[');
        // Up to 2^32 - 1, of which most may be holes.
        let length: f64 = object.get(PredefinedAtom::Length)?;
        for index in 0..length as u32 {
            if index > 0 {
                self.out.push(b',');
            }
            let value = object.get::<_, Value<'js>>(index)?;
            if !self.value(value, || Atom::from_u32(self.ctx.clone(), index))? {
                self.out.extend_from_slice(b"null");
            }
            if self.is_full() {
                break;
            }
        }
        self.out.push(b']');
        Ok(())
    }

    /// Writes a member or element; false: it has no text.
    fn value(&mut self, value: Value<'js>, name: impl FnOnce() -> Result<Atom<'js>>) -> Result<bool> {
        if let Some(content) = value.as_string() {
            self.text(content.clone())?;
        } else if let Some(number) = value.as_int() {
            self.number(number);
        } else if let Some(number) = value.as_float() {
            self.float(number, &value)?;
        } else if let Some(flag) = value.as_bool() {
            self.out.extend_from_slice(if flag { b"true" } else { b"false" });
        } else if value.is_null() {
            self.out.extend_from_slice(b"null");
        } else if value.is_undefined() || value.is_symbol() {
            return Ok(false);
        } else if let Some(object) = value.as_object() {
            if has_to_json(object)? || !self.container(object)? {
                return self.left_to_engine(value, name()?);
            }
        } else {
            return self.left_to_engine(value, name()?);
        }
        Ok(true)
    }

    fn number(&mut self, number: impl itoa::Integer) {
        self.out
            .extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    fn float(&mut self, number: f64, value: &Value<'js>) -> Result<()> {
        if !number.is_finite() {
            self.out.extend_from_slice(b"null");
        } else if number.fract() == 0.0 && number.abs() < 1e15 {
            self.number(number as i64);
        } else {
            let Coerced(content) = value.get::<Coerced<String>>()?;
            self.out.extend_from_slice(content.as_bytes());
        }
        Ok(())
    }

    /// Writes a text in quotation marks.
    fn text(&mut self, content: JsString<'js>) -> Result<()> {
        let value = content.clone().into_value();
        let content = content.to_cstring()?;
        match std::str::from_utf8(sys::text_bytes(&content)) {
            Ok(content) => put_quoted(&mut self.out, content),
            // Half a surrogate pair.
            Err(_) => {
                let quoted = self.ctx.json_stringify(value)?.ok_or(Error::Unknown)?;
                self.out.extend_from_slice(&text::utf8(quoted)?);
            }
        }
        Ok(())
    }

    /// Has `JSON.stringify` write a value under its name.
    fn left_to_engine(&mut self, value: Value<'js>, name: Atom<'js>) -> Result<bool> {
        let length = text::utf8(
            self.ctx
                .json_stringify(name.to_js_string()?)?
                .ok_or(Error::Unknown)?,
        )?
        .len();
        // Without a prototype, so that no name means anything.
        let holder = Object::new_proto(self.ctx.clone(), None)?;
        holder.set(name, value)?;
        let object = text::utf8(self.ctx.json_stringify(holder)?.ok_or(Error::Unknown)?)?;
        // `{"name":value}`, or `{}` where the value has no text.
        let written = object.get(length + 2..object.len() - 1);
        self.out.extend_from_slice(written.unwrap_or_default());
        Ok(written.is_some())
    }

    fn is_full(&self) -> bool {
        self.out.len() > self.bytes_max
    }
}

fn has_to_json(object: &Object<'_>) -> Result<bool> {
    Ok(object.get::<_, Value<'_>>(PredefinedAtom::ToJSON)?.is_function())
}

fn put_quoted(out: &mut Vec<u8>, content: &str) {
    out.push(b'"');
    let bytes = content.as_bytes();
    let mut from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[from..at]);
        from = at + 1;
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            0x09 => b't',
            0x0A => b'n',
            0x0C => b'f',
            0x0D => b'r',
            _ => {
                let hex = |digit: u8| b"0123456789abcdef"[usize::from(digit)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 15)]);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
    out.extend_from_slice(&bytes[from..]);
    out.push(b'"');
}
