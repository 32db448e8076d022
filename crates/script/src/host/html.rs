//! HTML from templates: does the work of the SDK's `html-text.ts` without creating a string for each value.

use std::rc::Rc;

use rquickjs::{Ctx, Exception, Result, Value, atom::PredefinedAtom, function::Rest};

use super::{Functions, Host};
use crate::{
    text::well_formed,
    values::{Class, HeldValue, Kind, Name},
};

/// Maximum nesting of arrays, as in the SDK; a cycle ends there.
const DEPTH_MAX: usize = 64;

pub(super) fn install<'js>(functions: &Functions<'_, 'js>, host: &Rc<Host>) -> Result<()> {
    let output_max = host.options.limits.output_max;
    functions.set(
        "html",
        move |ctx: Ctx<'js>, marked: Value<'js>, texts: Value<'js>, values: Rest<Value<'js>>| {
            let texts = HeldValue::of(&ctx, &texts);
            if !is_template(&texts)? {
                let message = "html is called with a template: html`<p>${text}</p>`";
                return Err(Exception::throw_type(&ctx, message));
            }
            let mut template = Template {
                ctx: &ctx,
                marked: HeldValue::of(&ctx, &marked),
                text: Name::of(&ctx, "text")?,
                out: Vec::with_capacity(256),
                output_max,
            };
            for index in 0..texts.length()? {
                template.put(&texts.element(index)?)?;
                if let Some(value) = values.get(index as usize) {
                    template.write(&HeldValue::of(&ctx, value), DEPTH_MAX)?;
                }
            }
            let html = HeldValue::object_of(&ctx, &template.marked)?;
            html.define(&template.text, HeldValue::text(&ctx, &template.out)?)?;
            Ok(html.into_value())
        },
    )
}

/// Whether a function that is given this is called with a template.
fn is_template(texts: &HeldValue<'_, '_>) -> Result<bool> {
    let is_array = |value: &HeldValue<'_, '_>| matches!(value.kind(), Kind::Object(Class::Array));
    Ok(is_array(texts) && is_array(&texts.get(&Name::known(texts.ctx(), PredefinedAtom::Raw))?))
}

struct Template<'c, 'js> {
    ctx: &'c Ctx<'js>,
    /// The prototype of what is HTML already.
    marked: HeldValue<'c, 'js>,
    /// The member that has the text of such.
    text: Name<'c, 'js>,
    out: Vec<u8>,
    output_max: usize,
}

impl<'js> Template<'_, 'js> {
    fn write(&mut self, value: &HeldValue<'_, 'js>, depth: usize) -> Result<()> {
        // A script may name the same long text as often as it likes: what it holds itself is no bound.
        if self.out.len() > self.output_max {
            let message = format!("HTML has more than {} bytes (output_max)", self.output_max);
            return Err(Exception::throw_range(self.ctx, &message));
        }
        match value.kind() {
            Kind::Null | Kind::Undefined | Kind::Bool(false) => Ok(()),
            Kind::Int(integer) => {
                let mut digits = itoa::Buffer::new();
                self.out.extend_from_slice(digits.format(integer).as_bytes());
                Ok(())
            }
            Kind::Object(Class::Array) => {
                if depth == 0 {
                    let message = format!("arrays of HTML are at most {DEPTH_MAX} in one another");
                    return Err(Exception::throw_range(self.ctx, &message));
                }
                (0..value.length()?).try_for_each(|index| self.write(&value.element(index)?, depth - 1))
            }
            Kind::Object(_) if value.prototype()?.is_same(&self.marked) => self.put(&value.get(&self.text)?),
            _ => value.with_text(|text| escape(&well_formed(text), &mut self.out)),
        }
    }

    /// Appends what is HTML already.
    fn put(&mut self, html: &HeldValue<'_, 'js>) -> Result<()> {
        html.with_text(|html| self.out.extend_from_slice(&well_formed(html)))
    }
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
