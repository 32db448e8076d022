//! JSON of handlers' return values: the text that `JSON.stringify` gives, without creating its intermediate objects and strings. Rare kinds
//! of values are passed to `JSON.stringify` one by one, so that the result is always the same.

use std::ops::Range;

use rquickjs::{Ctx, Error, Object, Result, atom::PredefinedAtom};
use smallvec::SmallVec;

use crate::{
    text,
    values::{Class, HeldValue, Kind, Name, Names},
};

/// Maximum nesting of objects and arrays that is written here. Deeper values, and so cycles, are left to the engine, which reports a cycle.
const DEPTH_MAX: usize = 64;
/// Number of names whose encoded form is remembered and copied: rows have few names, and all rows have the same.
const NAMES_MAX: usize = 16;

/// Writes one value.
pub(super) struct JsonWriter<'c, 'js> {
    ctx: &'c Ctx<'js>,
    out: Vec<u8>,
    bytes_max: usize,
    depth: usize,
    to_json: Name<'c, 'js>,
    /// Names that were written, with their positions.
    names: SmallVec<[(Name<'c, 'js>, Range<usize>); NAMES_MAX]>,
}

impl<'c, 'js> JsonWriter<'c, 'js> {
    /// Creates a writer. It stops writing once the text is longer than `bytes_max`.
    pub(super) fn new(ctx: &'c Ctx<'js>, bytes_max: usize) -> Self {
        Self {
            ctx,
            out: Vec::with_capacity(128),
            bytes_max,
            depth: 0,
            to_json: Name::known(ctx, PredefinedAtom::ToJSON),
            names: SmallVec::new(),
        }
    }

    /// The text of an object literal or array; `None` for anything else, and for one with a `toJSON` of its own.
    pub(super) fn write(mut self, value: &HeldValue<'_, 'js>) -> Result<Option<Vec<u8>>> {
        let Kind::Object(class) = value.kind() else {
            return Ok(None);
        };
        if !self.container(value, class)? {
            return Ok(None);
        }
        Ok(Some(self.out))
    }

    /// Writes an object or array; false: it is neither, or has a `toJSON`.
    fn container(&mut self, object: &HeldValue<'_, 'js>, class: Class) -> Result<bool> {
        if object.get(&self.to_json)?.is_function() || self.depth == DEPTH_MAX {
            return Ok(false);
        }
        self.depth += 1;
        let is_written = match class {
            Class::Object => self.members(object).map(|()| true),
            Class::Array => self.elements(object).map(|()| true),
            Class::Other => Ok(false),
        };
        self.depth -= 1;
        is_written
    }

    fn members(&mut self, object: &HeldValue<'_, 'js>) -> Result<()> {
        self.out.push(b'{');
        let start = self.out.len();
        for name in Names::of(self.ctx, object)? {
            let value = object.get(&name)?;
            let before = self.out.len();
            if before > start {
                self.out.push(b',');
            }
            self.name(&name)?;
            self.out.push(b':');
            if !self.value(value, || name.text())? {
                self.out.truncate(before);
                self.names.retain(|(_, written)| written.end <= before);
            }
            if self.is_full() {
                break;
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    fn elements(&mut self, array: &HeldValue<'_, 'js>) -> Result<()> {
        self.out.push(b'[');
        for index in 0..array.length()? {
            if index > 0 {
                self.out.push(b',');
            }
            let value = array.element(index)?;
            if !self.value(value, || HeldValue::text(self.ctx, index.to_string().as_bytes()))? {
                self.out.extend_from_slice(b"null");
            }
            if self.is_full() {
                break;
            }
        }
        self.out.push(b']');
        Ok(())
    }

    fn name(&mut self, name: &Name<'c, 'js>) -> Result<()> {
        let known = self
            .names
            .iter()
            .find(|(known, _)| known.number() == name.number());
        if let Some((_, written)) = known {
            self.out.extend_from_within(written.clone());
            return Ok(());
        }
        let from = self.out.len();
        self.text(&name.text()?)?;
        if self.names.len() < NAMES_MAX {
            self.names.push((name.clone(), from..self.out.len()));
        }
        Ok(())
    }

    /// Writes a member or element, whose name may be asked for; false: it has no text.
    fn value(
        &mut self,
        value: HeldValue<'_, 'js>,
        name: impl FnOnce() -> Result<HeldValue<'c, 'js>>,
    ) -> Result<bool> {
        match value.kind() {
            Kind::Text => self.text(&value)?,
            Kind::Int(number) => self.number(number),
            Kind::Float(number) => self.float(number, &value)?,
            Kind::Bool(true) => self.out.extend_from_slice(b"true"),
            Kind::Bool(false) => self.out.extend_from_slice(b"false"),
            Kind::Null => self.out.extend_from_slice(b"null"),
            Kind::Undefined | Kind::Symbol => return Ok(false),
            Kind::Object(class) if self.container(&value, class)? => {}
            Kind::Object(_) | Kind::Other => return self.left_to_engine(value, name()?),
        }
        Ok(true)
    }

    fn number(&mut self, number: impl itoa::Integer) {
        self.out
            .extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    fn float(&mut self, number: f64, value: &HeldValue<'_, 'js>) -> Result<()> {
        if !number.is_finite() {
            self.out.extend_from_slice(b"null");
        } else if number.fract() == 0.0 && number.abs() < 1e15 {
            self.number(number as i64);
        } else {
            value.with_text(|digits| self.out.extend_from_slice(digits))?;
        }
        Ok(())
    }

    /// Writes a text in quotation marks.
    fn text(&mut self, content: &HeldValue<'_, 'js>) -> Result<()> {
        if !content.with_text(|content| put_quoted(&mut self.out, content))? {
            let quoted = self.ctx.json_stringify(content.to_value())?;
            self.out
                .extend_from_slice(&text::utf8(quoted.ok_or(Error::Unknown)?)?);
        }
        Ok(())
    }

    /// Has `JSON.stringify` write a value under its name.
    fn left_to_engine(&mut self, value: HeldValue<'_, 'js>, name: HeldValue<'_, 'js>) -> Result<bool> {
        let name = name.into_value();
        let length = text::utf8(self.ctx.json_stringify(name.clone())?.ok_or(Error::Unknown)?)?.len();
        // The holder has no prototype, so that no name has a special meaning.
        let holder = Object::new_proto(self.ctx.clone(), None)?;
        holder.set(name, value.into_value())?;
        let object = text::utf8(self.ctx.json_stringify(holder)?.ok_or(Error::Unknown)?)?;
        // `{"name":value}`, or `{}` if the value has no text.
        let written = object.get(length + 2..object.len() - 1);
        self.out.extend_from_slice(written.unwrap_or_default());
        Ok(written.is_some())
    }

    fn is_full(&self) -> bool {
        self.out.len() > self.bytes_max
    }
}

/// Appends a quoted text. Returns false, and appends nothing, if the text contains a lone surrogate.
fn put_quoted(out: &mut Vec<u8>, content: &[u8]) -> bool {
    std::str::from_utf8(content).is_ok_and(|content| serde_json::to_writer(out, content).is_ok())
}
