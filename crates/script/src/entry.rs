//! The functions of the SDK that this program calls, and their arguments.

use rquickjs::{
    Ctx, FromJs, Function, IntoJs as _, Null, Object, Persistent, Promise, Result, String as JsString,
    TypedArray, Value,
};

use crate::{
    calls::CallId,
    fetch::Head,
    host_ops::{OpResult, WaitId},
    text,
};

/// Entry points of a loaded script.
#[derive(Debug)]
pub(crate) struct Entry {
    run: Persistent<Function<'static>>,
    resume: Persistent<Function<'static>>,
    abort: Persistent<Function<'static>>,
    stop: Persistent<Function<'static>>,
    /// Only rules have this one.
    clean: Option<Persistent<Function<'static>>>,
}

impl Entry {
    /// Takes the functions from the SDK's main module.
    pub(crate) fn of<'js>(ctx: &Ctx<'js>, main: &Object<'js>) -> Result<Self> {
        let function = |name: &str| -> Result<_> {
            let function = Function::from_js(ctx, main.get(name)?)?;
            Ok(Persistent::save(ctx, function))
        };
        Ok(Self {
            run: function("run")?,
            resume: function("resume")?,
            abort: function("abort")?,
            stop: function("stop")?,
            clean: function("clean").ok(),
        })
    }

    /// Runs the handler.
    pub(crate) fn run<'js>(&self, ctx: &Ctx<'js>, call: CallId, head: JsString<'js>) -> Result<()> {
        self.run.clone().restore(ctx)?.call((call, head))
    }

    /// Resumes a call with the result of one of its waits, which is an error (name and message) or a value.
    pub(crate) fn resume(&self, ctx: &Ctx<'_>, call: CallId, wait: WaitId, came: OpResult) -> Result<()> {
        let resume = self.resume.clone().restore(ctx)?;
        let value = match came {
            OpResult::Nothing | OpResult::Piece(None) => Null.into_js(ctx)?,
            OpResult::Head(head) => head_value(ctx, &head)?,
            OpResult::Piece(Some(bytes)) => TypedArray::new_copy(ctx.clone(), &bytes)?.into_value(),
            OpResult::Outcome(json) => ctx.json_parse(json)?,
            OpResult::Results(results) => results.value(ctx)?,
            OpResult::Failed(error) => return resume.call((call, wait, error.name(), error.to_string())),
        };
        resume.call((call, wait, Null, value))
    }

    /// Ends everything that a call is still doing.
    pub(crate) fn abort(&self, ctx: &Ctx<'_>, call: CallId, reason: u32) -> Result<()> {
        self.abort.clone().restore(ctx)?.call((call, reason))
    }

    /// Removes what a call has left behind; throws if that is impossible.
    pub(crate) fn clean(&self, ctx: &Ctx<'_>) -> Result<()> {
        match &self.clean {
            Some(clean) => clean.clone().restore(ctx)?.call(()),
            None => Ok(()),
        }
    }

    /// Runs the stop hooks.
    pub(crate) fn stop<'js>(&self, ctx: &Ctx<'js>) -> Result<Promise<'js>> {
        self.stop.clone().restore(ctx)?.call(())
    }
}

/// `[status, reason, url, redirected, name, value, ...]`
fn head_value<'js>(ctx: &Ctx<'js>, head: &Head) -> Result<Value<'js>> {
    let array = rquickjs::Array::new(ctx.clone())?;
    array.set(0, head.status.as_u16())?;
    array.set(1, head.status.canonical_reason().unwrap_or_default())?;
    array.set(2, head.url.as_str())?;
    array.set(3, head.redirected)?;
    let mut index = 4;
    for (name, value) in &head.headers {
        array.set(index, name.as_str())?;
        array.set(index + 1, text::from_latin1(ctx, value.as_bytes())?)?;
        index += 2;
    }
    array.into_value().into_js(ctx)
}
