//! The parts of requests. Method, path and so on are those of a REQUEST payload (`protocol/PROTOCOL.md`, section 4).

use std::rc::Rc;

use forebay_wire::Pairs;
use rquickjs::{ArrayBuffer, Ctx, Result, String as JsString, Value};

use super::{Functions, Host};
use crate::{calls::CallId, text};

const PARAMS: usize = 4;
const HEADERS: usize = 5;
const BODY: usize = 9;

pub(super) fn install<'js>(functions: &Functions<'_, 'js>, host: &Rc<Host>) -> Result<()> {
    let own = host.clone();
    functions.set("methodLength", move |call: CallId| {
        own.calls.borrow().part(call, 0).len()
    })?;
    let own = host.clone();
    functions.set("part", move |ctx: Ctx<'js>, call: CallId, index: usize| {
        text::from_utf8(&ctx, own.calls.borrow().part(call, index))
    })?;
    let own = host.clone();
    functions.set("pairs", move |ctx: Ctx<'js>, call: CallId, index: usize| {
        pairs(&ctx, own.calls.borrow().part(call, index), index)
    })?;
    let own = host.clone();
    functions.set("fieldValues", move |ctx: Ctx<'js>, call: CallId, name: String| {
        let calls = own.calls.borrow();
        let fields = Pairs::new(calls.part(call, HEADERS)).map_while(std::result::Result::ok);
        let values = fields.filter(|(found, _)| *found == name.as_bytes());
        values
            .map(|(_, value)| text::from_latin1(&ctx, value))
            .collect::<Result<Vec<_>>>()
    })?;
    let own = host.clone();
    functions.set(
        "field",
        move |ctx: Ctx<'js>, call: CallId, name: String| -> Result<Value<'js>> {
            let calls = own.calls.borrow();
            let fields = Pairs::new(calls.part(call, HEADERS)).map_while(std::result::Result::ok);
            let mut values = fields.filter(|(found, _)| *found == name.as_bytes());
            let Some((_, first)) = values.next() else {
                return Ok(Value::new_null(ctx.clone()));
            };
            let separator: &[u8] = if name == "cookie" { b"; " } else { b", " };
            let mut joined = std::borrow::Cow::Borrowed(first);
            for (_, value) in values {
                let joined = joined.to_mut();
                joined.extend_from_slice(separator);
                joined.extend_from_slice(value);
            }
            text::from_latin1(&ctx, &joined).map(JsString::into_value)
        },
    )?;
    let own = host.clone();
    functions.set("isPlain", move |call: CallId, at: usize| {
        let calls = own.calls.borrow();
        let (method, path) = calls.method_and_path(call);
        let rest = at.checked_sub(method.len()).and_then(|from| path.get(from..));
        rest.is_some_and(|rest| {
            !rest.is_empty() && rest.is_ascii() && !rest.iter().any(|&byte| matches!(byte, b'%' | 0x7F))
        })
    })?;
    let own = host.clone();
    functions.set("bodyText", move |ctx: Ctx<'js>, call: CallId| {
        text::from_utf8(&ctx, own.calls.borrow().part(call, BODY))
    })?;
    let own = host.clone();
    functions.set(
        "bodyBytes",
        move |ctx: Ctx<'js>, call: CallId| -> Result<ArrayBuffer<'js>> {
            ArrayBuffer::new_copy(ctx.clone(), own.calls.borrow().part(call, BODY))
        },
    )?;
    let own = host.clone();
    functions.set("hasBody", move |call: CallId| {
        !own.calls.borrow().part(call, BODY).is_empty()
    })?;
    let own = host.clone();
    functions.set("remaining", move |call: CallId| {
        own.calls.borrow().remaining_ms(call)
    })
}

/// `[name, value, ...]`
fn pairs<'js>(ctx: &Ctx<'js>, block: &[u8], index: usize) -> Result<Vec<JsString<'js>>> {
    debug_assert!(matches!(index, PARAMS | HEADERS), "these parts are pairs");
    let read = |bytes: &[u8]| match index {
        HEADERS => text::from_latin1(ctx, bytes),
        _ => text::from_utf8(ctx, bytes),
    };
    let mut found = Vec::new();
    for (name, value) in Pairs::new(block).map_while(std::result::Result::ok) {
        found.push(read(name)?);
        found.push(read(value)?);
    }
    Ok(found)
}
