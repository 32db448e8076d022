//! The unsafe part: each type owns its reference to something in the engine, and releases it when dropped.

#![allow(unsafe_code, reason = "values, names and texts are counted by a C interface")]

use std::{ffi::c_int, mem, ptr::null_mut, slice};

use rquickjs::{Ctx, Error, Result, Value, atom::PredefinedAtom, qjs};

use crate::text::well_formed;

/// Flags of members that are written as if a script had assigned them.
const PLAIN: c_int =
    (qjs::JS_PROP_CONFIGURABLE | qjs::JS_PROP_WRITABLE | qjs::JS_PROP_ENUMERABLE).cast_signed();

/// A value, held as long as this is there.
pub(crate) struct HeldValue<'c, 'js> {
    ctx: &'c Ctx<'js>,
    raw: qjs::JSValue,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Undefined,
    Null,
    Bool(bool),
    Int(i32),
    Float(f64),
    Text,
    Symbol,
    /// An object and its class.
    Object(Class),
    /// Any other value, such as a big integer.
    Other,
}

/// The class of an object in the engine, independent of its prototype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A plain object.
    Object,
    Array,
    Other,
}

/// Internal class numbers of the engine, which its headers do not export; a test checks objects of all kinds.
const CLASS_OBJECT: u32 = 1;
const CLASS_ARRAY: u32 = 2;

fn class_of(object: qjs::JSValue) -> Class {
    // SAFETY: the engine looks at the tag first.
    match unsafe { qjs::JS_GetClassID(object) } {
        CLASS_OBJECT => Class::Object,
        CLASS_ARRAY => Class::Array,
        _ => Class::Other,
    }
}

impl Drop for HeldValue<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: it owns the value, which is of this context; numbers and the like are not counted.
        unsafe {
            if qjs::JS_VALUE_HAS_REF_COUNT(self.raw) {
                qjs::JS_FreeValue(context(self.ctx), self.raw);
            }
        };
    }
}

fn context(ctx: &Ctx<'_>) -> *mut qjs::JSContext {
    ctx.as_raw().as_ptr()
}

impl<'c, 'js> HeldValue<'c, 'js> {
    /// Holds a value by one more reference.
    pub(crate) fn of(ctx: &'c Ctx<'js>, value: &Value<'js>) -> Self {
        // SAFETY: the value is alive as long as it is borrowed, and counted once more.
        let raw = unsafe { qjs::JS_DupValue(context(ctx), value.as_raw()) };
        Self { ctx, raw }
    }

    /// Takes ownership of a value that the engine returned. Fails if the engine has thrown.
    fn given(ctx: &'c Ctx<'js>, raw: qjs::JSValue) -> Result<Self> {
        // SAFETY: only the tag is looked at.
        if unsafe { qjs::JS_IsException(raw) } {
            return Err(Error::Exception);
        }
        Ok(Self { ctx, raw })
    }

    pub(crate) fn undefined(ctx: &'c Ctx<'js>) -> Self {
        let raw = qjs::JS_UNDEFINED;
        Self { ctx, raw }
    }

    pub(crate) fn null(ctx: &'c Ctx<'js>) -> Self {
        let raw = qjs::JS_NULL;
        Self { ctx, raw }
    }

    pub(crate) fn bool(ctx: &'c Ctx<'js>, value: bool) -> Self {
        let raw = if value { qjs::JS_TRUE } else { qjs::JS_FALSE };
        Self { ctx, raw }
    }

    pub(crate) fn number(ctx: &'c Ctx<'js>, value: f64) -> Self {
        let raw = qjs::JS_NewFloat64(value);
        Self { ctx, raw }
    }

    /// Creates a text; invalid UTF-8 becomes U+FFFD.
    pub(crate) fn text(ctx: &'c Ctx<'js>, text: &[u8]) -> Result<Self> {
        // SAFETY: the engine copies the bytes.
        let raw = unsafe { qjs::JS_NewStringLen(context(ctx), text.as_ptr().cast(), text.len() as _) };
        Self::given(ctx, raw)
    }

    /// Creates an empty object literal.
    pub(crate) fn object(ctx: &'c Ctx<'js>) -> Result<Self> {
        // SAFETY: the context is alive as long as it is borrowed.
        Self::given(ctx, unsafe { qjs::JS_NewObject(context(ctx)) })
    }

    /// Creates an empty object with this prototype.
    pub(crate) fn object_of(ctx: &'c Ctx<'js>, prototype: &Self) -> Result<Self> {
        // SAFETY: the prototype is alive as long as it is borrowed.
        Self::given(ctx, unsafe {
            qjs::JS_NewObjectProto(context(ctx), prototype.raw)
        })
    }

    /// Creates an array of values.
    pub(crate) fn array(ctx: &'c Ctx<'js>, values: Vec<Self>) -> Result<Self> {
        let count = c_int::try_from(values.len()).map_err(|_| Error::Allocation)?;
        let raw: Vec<_> = values.into_iter().map(Self::into_raw).collect();
        // SAFETY: the engine takes the values over, even where it fails.
        Self::given(ctx, unsafe {
            qjs::JS_NewArrayFrom(context(ctx), count, raw.as_ptr())
        })
    }

    fn into_raw(self) -> qjs::JSValue {
        let raw = self.raw;
        mem::forget(self);
        raw
    }

    /// Another reference to the same value.
    pub(crate) fn to_value(&self) -> Value<'js> {
        // SAFETY: the value is alive as long as it is borrowed, and counted once more.
        let raw = unsafe { qjs::JS_DupValue(context(self.ctx), self.raw) };
        let ctx = self.ctx;
        Self { ctx, raw }.into_value()
    }

    /// Converts the value to one of `rquickjs`.
    pub(crate) fn into_value(self) -> Value<'js> {
        let ctx = self.ctx.clone();
        // SAFETY: the value is of this context, and its one count goes over.
        unsafe { Value::from_raw(ctx, self.into_raw()) }
    }

    pub(crate) fn ctx(&self) -> &'c Ctx<'js> {
        self.ctx
    }

    pub(crate) fn kind(&self) -> Kind {
        // SAFETY: the tag says what the value is.
        unsafe {
            match qjs::JS_VALUE_GET_NORM_TAG(self.raw) {
                qjs::JS_TAG_UNDEFINED => Kind::Undefined,
                qjs::JS_TAG_NULL => Kind::Null,
                qjs::JS_TAG_BOOL => Kind::Bool(qjs::JS_VALUE_GET_BOOL(self.raw)),
                qjs::JS_TAG_INT => Kind::Int(qjs::JS_VALUE_GET_INT(self.raw)),
                qjs::JS_TAG_FLOAT64 => Kind::Float(qjs::JS_VALUE_GET_FLOAT64(self.raw)),
                qjs::JS_TAG_STRING | qjs::JS_TAG_STRING_ROPE => Kind::Text,
                qjs::JS_TAG_SYMBOL => Kind::Symbol,
                qjs::JS_TAG_OBJECT => Kind::Object(class_of(self.raw)),
                _ => Kind::Other,
            }
        }
    }

    /// Reads a member. This may run code of the script.
    pub(crate) fn get(&self, name: &Name<'_, '_>) -> Result<Self> {
        // SAFETY: the value and the name are alive as long as they are borrowed.
        Self::given(self.ctx, unsafe {
            qjs::JS_GetProperty(context(self.ctx), self.raw, name.atom)
        })
    }

    /// Reads an element. This may run code of the script.
    pub(crate) fn element(&self, index: u32) -> Result<Self> {
        // SAFETY: the value is alive as long as it is borrowed.
        Self::given(self.ctx, unsafe {
            qjs::JS_GetPropertyUint32(context(self.ctx), self.raw, index)
        })
    }

    /// The length of an array: up to 2^32 - 1, even if most elements are holes.
    pub(crate) fn length(&self) -> Result<u32> {
        let mut length = 0;
        // SAFETY: the value is alive as long as it is borrowed.
        match unsafe { qjs::JS_GetLength(context(self.ctx), self.raw, &raw mut length) } {
            0 => Ok(u32::try_from(length).unwrap_or(u32::MAX)),
            _ => Err(Error::Exception),
        }
    }

    /// The prototype of an object; null if it has none.
    pub(crate) fn prototype(&self) -> Result<Self> {
        // SAFETY: the value is alive as long as it is borrowed.
        Self::given(self.ctx, unsafe {
            qjs::JS_GetPrototype(context(self.ctx), self.raw)
        })
    }

    pub(crate) fn is_function(&self) -> bool {
        // SAFETY: the value is alive as long as it is borrowed.
        unsafe { qjs::JS_IsFunction(context(self.ctx), self.raw) }
    }

    /// Whether both are the same object, or the same text in memory.
    pub(crate) fn is_same(&self, other: &HeldValue<'_, 'js>) -> bool {
        // SAFETY: the tags say that both have an address, which is only compared.
        unsafe {
            let tag = qjs::JS_VALUE_GET_TAG(self.raw);
            tag < 0
                && tag == qjs::JS_VALUE_GET_TAG(other.raw)
                && qjs::JS_VALUE_GET_PTR(self.raw) == qjs::JS_VALUE_GET_PTR(other.raw)
        }
    }

    /// Assigns a member that the object does not have, which takes half as long as defining it. The effect is the same if no prototype has
    /// a member of this name.
    pub(crate) fn assign(&self, name: &Name<'_, '_>, value: Self) -> Result<()> {
        // SAFETY: the object and the name are alive as long as they are borrowed; the value goes over, even where it fails.
        let assigned =
            unsafe { qjs::JS_SetProperty(context(self.ctx), self.raw, name.atom, value.into_raw()) };
        if assigned < 0 {
            Err(Error::Exception)
        } else {
            Ok(())
        }
    }

    /// Whether an object or one of its prototypes has a member of this name.
    pub(crate) fn has(&self, name: &Name<'_, '_>) -> Result<bool> {
        // SAFETY: the object and the name are alive as long as they are borrowed.
        match unsafe { qjs::JS_HasProperty(context(self.ctx), self.raw, name.atom) } {
            0 => Ok(false),
            1.. => Ok(true),
            _ => Err(Error::Exception),
        }
    }

    /// Defines a member as an object literal would, whatever its name is.
    pub(crate) fn define(&self, name: &Name<'_, '_>, value: Self) -> Result<()> {
        self.define_as(name, value, PLAIN)
    }

    /// Defines a member that is read-only and not enumerable.
    pub(crate) fn define_hidden(&self, name: &Name<'_, '_>, value: Self) -> Result<()> {
        self.define_as(name, value, 0)
    }

    fn define_as(&self, name: &Name<'_, '_>, value: Self, flags: c_int) -> Result<()> {
        // SAFETY: the object and the name are alive as long as they are borrowed; the value goes over, even where it fails.
        let defined = unsafe {
            qjs::JS_DefinePropertyValue(context(self.ctx), self.raw, name.atom, value.into_raw(), flags)
        };
        if defined < 0 {
            Err(Error::Exception)
        } else {
            Ok(())
        }
    }

    /// A text as UTF-8. A lone surrogate becomes U+FFFD, as everywhere in JavaScript.
    pub(crate) fn utf8(&self) -> Result<Vec<u8>> {
        self.with_text(|text| well_formed(text).into_owned())
    }

    /// Gives access to the bytes of a text, or of the text that the engine makes of another value: UTF-8, except that lone surrogates are
    /// encoded as three bytes.
    pub(crate) fn with_text<T>(&self, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let mut length = 0;
        // SAFETY: the engine keeps the bytes, and as many as it says, until they are given back; nothing is between that may panic but `look`,
        // after which they are leaked.
        unsafe {
            let text = qjs::JS_ToCStringLen2(context(self.ctx), &raw mut length, self.raw, false);
            if text.is_null() {
                return Err(Error::Exception);
            }
            let looked = look(slice::from_raw_parts(text.cast(), length as usize));
            qjs::JS_FreeCString(context(self.ctx), text);
            Ok(looked)
        }
    }
}

/// The name of a member.
pub(crate) struct Name<'c, 'js> {
    ctx: &'c Ctx<'js>,
    atom: qjs::JSAtom,
}

impl Drop for Name<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: it owns the name, which is of this context.
        unsafe { qjs::JS_FreeAtom(context(self.ctx), self.atom) };
    }
}

impl Clone for Name<'_, '_> {
    fn clone(&self) -> Self {
        // SAFETY: the name is alive, and counted once more.
        let atom = unsafe { qjs::JS_DupAtom(context(self.ctx), self.atom) };
        let ctx = self.ctx;
        Self { ctx, atom }
    }
}

impl<'c, 'js> Name<'c, 'js> {
    pub(crate) fn of(ctx: &'c Ctx<'js>, name: &str) -> Result<Self> {
        // SAFETY: the engine copies the bytes.
        let atom = unsafe { qjs::JS_NewAtomLen(context(ctx), name.as_ptr().cast(), name.len() as _) };
        if atom == qjs::JS_ATOM_NULL {
            return Err(Error::Exception);
        }
        Ok(Self { ctx, atom })
    }

    /// A name that is predefined in the engine.
    pub(crate) fn known(ctx: &'c Ctx<'js>, name: PredefinedAtom) -> Self {
        let atom = name as qjs::JSAtom;
        Self { ctx, atom }
    }

    /// Unique number of the name in its engine, valid while the name is held.
    pub(crate) fn number(&self) -> u32 {
        self.atom
    }

    /// As a value.
    pub(crate) fn text(&self) -> Result<HeldValue<'c, 'js>> {
        // SAFETY: the name is alive as long as it is borrowed.
        HeldValue::given(self.ctx, unsafe {
            qjs::JS_AtomToString(context(self.ctx), self.atom)
        })
    }
}

/// The names of an object's own members, like `Object.keys`.
pub(crate) struct Names<'c, 'js> {
    ctx: &'c Ctx<'js>,
    table: *mut qjs::JSPropertyEnum,
    count: u32,
    next: u32,
}

impl Drop for Names<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: it owns the table and the names in it.
        unsafe { qjs::JS_FreePropertyEnum(context(self.ctx), self.table, self.count) };
    }
}

impl<'c, 'js> Names<'c, 'js> {
    pub(crate) fn of(ctx: &'c Ctx<'js>, object: &HeldValue<'_, 'js>) -> Result<Self> {
        let (mut table, mut count) = (null_mut(), 0);
        let flags = (qjs::JS_GPN_STRING_MASK | qjs::JS_GPN_ENUM_ONLY).cast_signed();
        // SAFETY: the engine writes where the table is and how long, unless it fails.
        let read = unsafe {
            qjs::JS_GetOwnPropertyNames(context(ctx), &raw mut table, &raw mut count, object.raw, flags)
        };
        if read < 0 {
            return Err(Error::Exception);
        }
        Ok(Self {
            ctx,
            table,
            count,
            next: 0,
        })
    }
}

impl<'c, 'js> Iterator for Names<'c, 'js> {
    type Item = Name<'c, 'js>;

    fn next(&mut self) -> Option<Name<'c, 'js>> {
        if self.next == self.count {
            return None;
        }
        // SAFETY: the table has as many names; this one is counted once more.
        let atom = unsafe {
            let atom = (*self.table.add(self.next as usize)).atom;
            qjs::JS_DupAtom(context(self.ctx), atom)
        };
        self.next += 1;
        Some(Name { ctx: self.ctx, atom })
    }
}

#[cfg(test)]
mod tests {
    use rquickjs::{Context, Runtime};

    use super::*;

    #[test]
    fn objects_are_what_the_engine_takes_them_for() {
        let context = Context::full(&Runtime::new().unwrap()).unwrap();
        context.with(|ctx| {
            for (text, class) in [
                ("({})", Class::Object),
                ("Object.create(null)", Class::Object),
                ("new (class A {})", Class::Object),
                ("[]", Class::Array),
                ("new (class A extends Array {})", Class::Array),
                ("new Map()", Class::Other),
                ("new Proxy([], {})", Class::Other),
                ("() => 1", Class::Other),
                ("new Uint8Array(1)", Class::Other),
            ] {
                let value: Value<'_> = ctx.eval(text).unwrap();
                assert_eq!(HeldValue::of(&ctx, &value).kind(), Kind::Object(class), "{text}");
            }
        });
    }
}
