//! Functions of this program that the SDK can call. `sdk/node/src/script/host.ts` describes each.

mod clients;
mod declared_reads;
mod html;
mod json;
mod requests;
mod rules;
mod sql;
mod store;
mod texts;
mod tools;
mod waits;
mod web;

use std::{
    cell::{OnceCell, RefCell},
    rc::{Rc, Weak},
};

use forebay_wire::ContentKind;
use rquickjs::{Ctx, Function, Object, Result, String as JsString, Value, function::IntoJsFunc};

use crate::{
    answer::{Answer, Body, Weight},
    calls::{CallId, Calls},
    entry::Entry,
    fiber::Fiber,
    host_ops::HostOp,
    instance::Place,
    options::Options,
    sys, text,
    values::{Class, HeldValue, Kind, Name},
};
pub(crate) use declared_reads::DeclaredReads;
pub use declared_reads::ReadRecord;
use json::JsonWriter;
pub(crate) use rules::DriverHost;
pub(crate) use store::{StoreHost, last_commit, store_was_missed};
pub(crate) use waits::mark_promises;

/// The name of the global through which the SDK gets the functions.
const PLACE: &str = "__forebay";

/// The `kind` of a reply with JSON behind an entity tag of so many bytes, which becomes a header.
const TAGGED: u8 = 255;
const TAG_BYTES: usize = 34;
/// Results of `plain`.
const NOT_ANSWERED: u8 = 0;
const ANSWERED: u8 = 1;
const STILL_WAITS: u8 = 2;

/// The state of the functions of one engine.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) options: std::sync::Arc<Options>,
    pub(crate) calls: RefCell<Calls>,
    pub(crate) store: StoreHost,
    pub(crate) declared: DeclaredReads,
    pub(crate) driver: DriverHost,
    /// The stack on which rules run that wait in the middle of a function.
    pub(crate) fiber: Option<Rc<Fiber>>,
    /// The SDK's functions, once they are loaded. They belong to the instance, because they must be dropped before its runtime.
    pub(crate) entry: OnceCell<Weak<Entry>>,
    pub(crate) place: Place,
    /// Operations that scripts requested in this step.
    pub(crate) wants: RefCell<Vec<HostOp>>,
}

/// An object to which functions are added.
pub(crate) struct Functions<'a, 'js> {
    ctx: &'a Ctx<'js>,
    object: Object<'js>,
}

impl<'js> Functions<'_, 'js> {
    fn set<P>(&self, name: &str, function: impl IntoJsFunc<'js, P> + 'js) -> Result<()> {
        self.object.set(name, Function::new(self.ctx.clone(), function)?)
    }
}

/// Installs the functions where the SDK finds them.
pub(crate) fn install<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<()> {
    let functions = Functions {
        ctx,
        object: Object::new(ctx.clone())?,
    };
    clients::install(&functions, host)?;
    declared_reads::install(&functions, host)?;
    requests::install(&functions, host)?;
    rules::install(&functions, host)?;
    html::install(&functions, host)?;
    texts::install(&functions)?;
    store::install(&functions, host)?;
    tools::install(&functions, host)?;
    waits::install(&functions, host)?;
    web::install(&functions)?;
    let own = host.clone();
    functions.set(
        "answer",
        move |ctx: Ctx<'js>,
              call: CallId,
              status: u16,
              kind: u8,
              is_fault: bool,
              headers: Option<Vec<String>>,
              body: Value<'js>| { own.answer(&ctx, call, status, kind, is_fault, headers, body) },
    )?;
    let own = host.clone();
    functions.set(
        "plain",
        move |ctx: Ctx<'js>,
              call: CallId,
              value: Value<'js>,
              plain: Value<'js>,
              html: Value<'js>,
              reply: Value<'js>| { own.plain(&ctx, call, &value, &plain, &html, &reply) },
    )?;
    let own = host.clone();
    functions.set(
        "log",
        move |call: CallId, level: u8, message: JsString<'js>, fields: JsString<'js>| {
            own.log(call, level, message, fields)
        },
    )?;
    ctx.globals().set(PLACE, functions.object)
}

impl Host {
    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of an answer, as a script gives them"
    )]
    fn answer<'js>(
        &self,
        ctx: &Ctx<'js>,
        call: CallId,
        status: u16,
        kind: u8,
        is_fault: bool,
        headers: Option<Vec<String>>,
        body: Value<'js>,
    ) -> Result<bool> {
        let body = if body.is_null() {
            Vec::new()
        } else {
            bytes_of(ctx, body)?
        };
        Ok(self.end(
            call,
            Self::head(status, kind, is_fault, headers, Body::Whole(body.into())),
        ))
    }

    /// Answers with the usual return values of handlers: a string; JSON of an array or of an object literal, whose prototype is `plain`;
    /// HTML, whose prototype is `html`; or a reply with a text, whose prototype is `reply`. Anything else is not answered here, nor are
    /// cases that need more work.
    fn plain<'js>(
        &self,
        ctx: &Ctx<'js>,
        call: CallId,
        value: &Value<'js>,
        plain: &Value<'js>,
        html: &Value<'js>,
        reply: &Value<'js>,
    ) -> Result<u8> {
        if self.store.level() > 0 {
            return Ok(NOT_ANSWERED);
        }
        let value = HeldValue::of(ctx, value);
        let written = match value.kind() {
            Kind::Text => Some((ContentKind::Text, value.utf8()?)),
            Kind::Object(Class::Array) => self.json(ctx, &value)?,
            // For anything else, even reading its prototype may run code of the script.
            Kind::Object(Class::Object) => {
                let prototype = value.prototype()?;
                if prototype.kind() == Kind::Null || prototype.is_same(&HeldValue::of(ctx, plain)) {
                    self.json(ctx, &value)?
                } else if prototype.is_same(&HeldValue::of(ctx, html)) {
                    let text = value.get(&Name::of(ctx, "text")?)?;
                    Some((ContentKind::Html, text.utf8()?))
                } else if prototype.is_same(&HeldValue::of(ctx, reply)) {
                    return self.reply(ctx, call, &value);
                } else {
                    None
                }
            }
            _ => None,
        };
        let Some((kind, body)) = written else {
            return Ok(NOT_ANSWERED);
        };
        let body = Body::Whole(body.into());
        let still_waits = self.end(call, Self::head(200, kind as u8, false, None, body));
        Ok(if still_waits { STILL_WAITS } else { ANSWERED })
    }

    /// Answers with a reply whose body is a text.
    fn reply<'js>(&self, ctx: &Ctx<'js>, call: CallId, reply: &HeldValue<'_, 'js>) -> Result<u8> {
        let member = |name| reply.get(&Name::of(ctx, name)?);
        let (status, kind) = (member("status")?.kind(), member("kind")?.kind());
        let (headers, body) = (member("headers")?, member("body")?);
        let (Kind::Int(status), Kind::Int(kind), Kind::Text) = (status, kind, body.kind()) else {
            return Ok(NOT_ANSWERED);
        };
        if member("failure")?.kind() != Kind::Null || headers.kind() != Kind::Object(Class::Array) {
            return Ok(NOT_ANSWERED);
        }
        let (Ok(status), Ok(kind)) = (u16::try_from(status), u8::try_from(kind)) else {
            return Ok(NOT_ANSWERED);
        };
        let mut pairs = Vec::new();
        let mut body = body.utf8()?;
        let kind = if kind == TAGGED && body.len() >= TAG_BYTES {
            let rest = body.split_off(TAG_BYTES);
            let tag = String::from_utf8_lossy(&body).into_owned();
            pairs.extend(["etag".to_owned(), tag]);
            body = rest;
            ContentKind::Json as u8
        } else {
            for index in 0..headers.length()? {
                pairs.push(String::from_utf8_lossy(&headers.element(index)?.utf8()?).into_owned());
            }
            kind
        };
        let answer = Self::head(status, kind, false, Some(pairs), Body::Whole(body.into()));
        Ok(if self.end(call, answer) {
            STILL_WAITS
        } else {
            ANSWERED
        })
    }

    /// A value as JSON, unless it has something to say about that itself.
    fn json<'js>(
        &self,
        ctx: &Ctx<'js>,
        value: &HeldValue<'_, 'js>,
    ) -> Result<Option<(ContentKind, Vec<u8>)>> {
        let written = JsonWriter::new(ctx, self.options.limits.output_max).write(value)?;
        Ok(written.map(|json| (ContentKind::Json, json)))
    }

    /// Ends a call with an answer, unless the answer is too long. Returns whether the call still waited for something.
    fn end(&self, call: CallId, answer: Answer) -> bool {
        let output_max = self.options.limits.output_max;
        let mut calls = self.calls.borrow_mut();
        let still_waits = calls.waits(call);
        match &answer.body {
            Body::Whole(body) if body.len() > output_max => {
                calls.fail(call, crate::Failure::Output { output_max });
            }
            _ => calls.answer(call, answer),
        }
        still_waits
    }

    fn head(status: u16, kind: u8, is_fault: bool, headers: Option<Vec<String>>, body: Body) -> Answer {
        Answer {
            status,
            content: ContentKind::from_code(kind).unwrap_or(ContentKind::Unset),
            is_fault,
            headers: headers.unwrap_or_default(),
            body,
            weight: Weight::Heavy,
            commit: 0,
        }
    }

    /// Releases the locks of calls that have ended.
    pub(crate) fn release_locks(&self) {
        let calls = self.calls.borrow();
        self.store.release(|call| call != 0 && !calls.is_open(call));
    }

    /// Logs an unhandled promise rejection.
    pub(crate) fn log_rejection(&self, call: CallId, reason: &str) {
        let calls = self.calls.borrow();
        let request = calls.request_id(call);
        let (script, request) = (&*self.options.name, request.as_deref());
        tracing::error!(target: "forebay::script", script, request, "a promise was rejected, and nobody handles it: {reason}");
    }

    /// Logs that a call was stopped, when no answer can tell.
    pub(crate) fn log_stopped(&self, request: Option<&str>, failure: &crate::Failure) {
        let script = &*self.options.name;
        tracing::error!(target: "forebay::script", script, request, "a call was stopped whose answer cannot say so: {failure}");
    }

    fn log(&self, call: CallId, level: u8, message: JsString<'_>, fields: JsString<'_>) -> Result<()> {
        let message = text::owned(message)?;
        let fields = text::owned(fields)?;
        let fields = Some(fields).filter(|fields| !fields.is_empty());
        let fields = fields.as_deref();
        let calls = self.calls.borrow();
        let request = calls.request_id(call);
        let request = request.as_deref();
        let script = &*self.options.name;
        match level {
            0 => tracing::debug!(target: "forebay::script", script, request, fields, "{message}"),
            1 => tracing::info!(target: "forebay::script", script, request, fields, "{message}"),
            2 => tracing::warn!(target: "forebay::script", script, request, fields, "{message}"),
            _ => tracing::error!(target: "forebay::script", script, request, fields, "{message}"),
        }
        Ok(())
    }
}

/// The bytes of a string or of a typed array.
pub(crate) fn bytes_of<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> Result<Vec<u8>> {
    if value.is_string() {
        return text::utf8(text::string(ctx, value)?);
    }
    let array = rquickjs::TypedArray::<u8>::from_value(value)?;
    Ok(sys::with_bytes(&array, |bytes| bytes.to_vec()).unwrap_or_default())
}
