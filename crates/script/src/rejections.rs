//! Unhandled promise rejections. They are logged once, at the end of the step that rejected them.

use std::{cell::RefCell, rc::Rc};

use rquickjs::{CaughtError, Ctx, Persistent, Runtime, Value};

use crate::{calls::CallId, host::Host, instance::describe};

/// Maximum number of rejections that are remembered per step; for others, the log only says that there were some.
const REJECTIONS_MAX: usize = 64;

/// The rejections of one engine.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    open: RefCell<Vec<(Persistent<Value<'static>>, Persistent<Value<'static>>)>>,
}

impl Rejections {
    /// Registers a tracker with an engine.
    pub(crate) fn watch(runtime: &Runtime) -> Rc<Self> {
        let own = Rc::new(Self::default());
        let rejections = own.clone();
        runtime.set_host_promise_rejection_tracker(Some(Box::new(
            move |ctx: Ctx<'_>, promise: Value<'_>, reason: Value<'_>, is_handled: bool| {
                rejections.note(&ctx, &promise, reason, is_handled);
            },
        )));
        own
    }

    fn note<'js>(&self, ctx: &Ctx<'js>, promise: &Value<'js>, reason: Value<'js>, is_handled: bool) {
        let mut open = self.open.borrow_mut();
        if is_handled {
            open.retain(|(other, _)| {
                let other = other.clone().restore(ctx);
                other.is_ok_and(|other| other != *promise)
            });
        } else if open.len() < REJECTIONS_MAX {
            open.push((
                Persistent::save(ctx, promise.clone()),
                Persistent::save(ctx, reason),
            ));
        }
    }

    /// Logs those that were not handled.
    pub(crate) fn log(&self, ctx: &Ctx<'_>, host: &Host, call: CallId) {
        if self.open.borrow().is_empty() {
            return;
        }
        for (_, reason) in self.open.take() {
            let Ok(reason) = reason.restore(ctx) else { continue };
            let error = match reason.clone().into_object() {
                Some(object) => match rquickjs::Exception::from_object(object) {
                    Some(exception) => CaughtError::Exception(exception),
                    None => CaughtError::Value(reason),
                },
                None => CaughtError::Value(reason),
            };
            host.log_rejection(call, &describe(&error));
        }
    }

    /// Releases everything that belongs to the engine.
    pub(crate) fn end(&self) {
        self.open.take();
    }
}
