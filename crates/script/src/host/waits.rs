//! Waits of scripts: for timers, responses of other servers, and room for their own answer. On an I/O thread the only permitted waits are
//! for statements that change nothing, in a separate engine. For all others the call is marked to be run by an executor.

use std::{rc::Rc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rquickjs::{
    Ctx, Exception, Result, Runtime, String as JsString, Value,
    object::Property,
    promise::{PromiseHookType, PromiseState},
};
use url::Url;

use super::{Functions, Host, bytes_of};
use crate::{
    answer::{Answer, Body, Weight},
    calls::CallId,
    fetch::{self, Redirect},
    host_ops::{HostOp, WaitId, What},
    instance::Place,
    stream::{Piece, Room},
    text,
};

/// Longest timer, as in browsers.
const TIMER_MAX_MS: f64 = 2_147_483_647.0;

/// The property of a promise that names the call which created it. Integer keys are the cheapest.
const PROMISE_MARK: u32 = 0x0F0B_EBA1;

/// Results of `piece`: the receiver is gone, the next piece may be sent, or the next piece has to wait for room.
const GONE: u8 = 0;
const FREE: u8 = 1;
const FULL: u8 = 2;

pub(super) fn install<'js>(functions: &Functions<'_, 'js>, host: &Rc<Host>) -> Result<()> {
    let own = host.clone();
    functions.set("isOpen", move |call: CallId| own.calls.borrow().is_open(call))?;
    let own = host.clone();
    functions.set(
        "timer",
        move |ctx: Ctx<'js>, call: CallId, wait: WaitId, ms: f64| {
            // Values outside the range, and values that are not numbers, become the shortest time, as in Node.
            let ms = if (1.0..=TIMER_MAX_MS).contains(&ms) {
                ms
            } else {
                1.0
            };
            let time = Duration::from_micros((ms * 1000.0) as u64);
            own.want(&ctx, call, wait, What::Time(time))
        },
    )?;
    let own = host.clone();
    functions.set("turn", move |call: CallId, wait: WaitId| {
        let is_open = own.calls.borrow_mut().wait_for_turn(call);
        if is_open {
            let what = What::Turn;
            own.driver.wait(wait);
            own.wants.borrow_mut().push(HostOp { call, wait, what });
        }
        is_open
    })?;
    let own = host.clone();
    functions.set("markPromises", move || -> f64 {
        if own.place == Place::Io {
            -1.0
        } else {
            f64::from(PROMISE_MARK)
        }
    })?;
    functions.set("isPending", |promise: Value<'js>| {
        let promise = promise.as_promise();
        promise.is_some_and(|promise| promise.state() == PromiseState::Pending)
    })?;
    let own = host.clone();
    functions.set("cancel", move |call: CallId, wait: WaitId| {
        own.calls.borrow_mut().waited(call);
        own.cancel(call, wait);
    })?;
    let own = host.clone();
    functions.set("closeFetch", move |call: CallId, wait: WaitId| {
        own.cancel(call, wait);
    })?;
    let own = host.clone();
    functions.set(
        "fetch",
        move |ctx: Ctx<'js>, call: CallId, wait: WaitId, head: Vec<JsString<'js>>, body: Value<'js>| {
            let request = own.request(&ctx, call, head, body)?;
            own.want(&ctx, call, wait, What::Fetch(Box::new(request)))
        },
    )?;
    super::sql::install(functions, host)?;
    let own = host.clone();
    functions.set(
        "read",
        move |ctx: Ctx<'js>, call: CallId, wait: WaitId, fetch: WaitId| {
            own.want(&ctx, call, wait, What::Read(fetch))
        },
    )?;
    streams(functions, host)
}

/// Lets an engine with several open calls mark each promise with the call that creates it.
pub(crate) fn mark_promises(runtime: &Runtime, host: &Rc<Host>) {
    let host = host.clone();
    runtime.set_promise_hook(Some(Box::new(move |ctx, what, promise, _| {
        if !matches!(what, PromiseHookType::Init) {
            return;
        }
        let Some(promise) = promise.as_object() else {
            return;
        };
        let call = Property::from(host.store.current());
        if promise.prop(PROMISE_MARK, call).is_err() {
            // Out of memory, which the script will notice itself.
            drop(ctx.catch());
        }
    })));
}

fn streams<'js>(functions: &Functions<'_, 'js>, host: &Rc<Host>) -> Result<()> {
    let own = host.clone();
    functions.set(
        "beginStream",
        move |call: CallId, status: u16, kind: u8, headers: Option<Vec<String>>| {
            let head = Host::head(status, kind, false, headers, Body::Whole(bytes::Bytes::new()));
            own.calls.borrow_mut().begin_stream(call, head);
        },
    )?;
    let own = host.clone();
    functions.set(
        "emptyStream",
        move |call: CallId, status: u16, kind: u8, headers: Option<Vec<String>>| {
            let head: Answer = Host::head(status, kind, false, headers, Body::Stream(crate::stream::empty()));
            own.calls.borrow_mut().answer(call, head);
        },
    )?;
    let own = host.clone();
    functions.set(
        "piece",
        move |ctx: Ctx<'js>, call: CallId, wait: WaitId, piece: Value<'js>| -> Result<u8> {
            let piece = Piece {
                bytes: bytes_of(&ctx, piece)?.into(),
                commit: super::last_commit(),
            };
            let room = own.calls.borrow_mut().piece(call, piece);
            Ok(match room {
                Room::Free => FREE,
                Room::Gone => GONE,
                Room::Full(piece) => {
                    own.want(&ctx, call, wait, What::Room(piece))?;
                    FULL
                }
            })
        },
    )?;
    let own = host.clone();
    functions.set("endStream", move |call: CallId| {
        own.calls.borrow_mut().end_stream(call);
    })?;
    let own = host.clone();
    functions.set("breakStream", move |call: CallId| {
        own.calls.borrow_mut().break_stream(call)
    })
}

impl Host {
    /// Registers an operation that a call waits for; `false` if the call has ended and there will be no result.
    pub(super) fn want(&self, ctx: &Ctx<'_>, call: CallId, wait: WaitId, what: What) -> Result<bool> {
        let weight = what.weight();
        if self.place.is_on_io() {
            let mut calls = self.calls.borrow_mut();
            calls.weigh(call, weight);
            if self.place == Place::Io || weight == Weight::Heavy {
                return Ok(false);
            }
        }
        if call == 0 {
            return Err(Exception::throw_type(
                ctx,
                "timers, fetches and statements belong to a request: there is none while the script is loaded or ends",
            ));
        }
        {
            let mut calls = self.calls.borrow_mut();
            calls.weigh(call, weight);
            match calls.wait(call) {
                None => return Ok(false),
                Some(Err(message)) => return Err(Exception::throw_range(ctx, &message)),
                Some(Ok(())) => {}
            }
        }
        self.driver.wait(wait);
        self.wants.borrow_mut().push(HostOp { call, wait, what });
        Ok(true)
    }

    /// Counts a request of a call to another system. Throws if the call has made too many.
    pub(super) fn count_fetch(&self, ctx: &Ctx<'_>, call: CallId) -> Result<()> {
        let most = self.options.limits.fetches_max;
        if self.place.is_on_io() || self.calls.borrow_mut().count_fetch(call) < most {
            return Ok(());
        }
        let message = format!("this call has begun {most} fetches already (fetches_max)");
        Err(Exception::throw_type(ctx, &message))
    }

    /// Cancels the wait of a call with this number.
    fn cancel(&self, call: CallId, wait: WaitId) {
        self.wants.borrow_mut().push(HostOp {
            call,
            wait,
            what: What::Cancel,
        });
    }

    /// Reads a request. Its head consists of method, URL, redirect mode, and alternating names and values of headers.
    fn request<'js>(
        &self,
        ctx: &Ctx<'js>,
        call: CallId,
        head: Vec<JsString<'js>>,
        body: Value<'js>,
    ) -> Result<fetch::Request> {
        let refused = |message: &str| Exception::throw_type(ctx, message);
        let mut head = head.into_iter();
        let mut next = || head.next().map_or(Ok(String::new()), text::owned);
        let (method, url, redirect) = (next()?, next()?, next()?);
        let url = Url::parse(&url).map_err(|error| refused(&format!("`{url}` is no address: {error}")))?;
        fetch::check(&url, &self.options).map_err(|error| refused(&error.to_string()))?;
        self.count_fetch(ctx, call)?;
        let method = Method::from_bytes(method.as_bytes())
            .map_err(|_| refused(&format!("`{method}` is no method")))?;
        let mut map = HeaderMap::new();
        while let (Some(name), Some(value)) = (head.next(), head.next()) {
            let (name, value) = (text::latin1(name)?, text::latin1(value)?);
            let name = name.and_then(|name| HeaderName::from_bytes(&name).ok());
            let value = value.and_then(|value| HeaderValue::from_bytes(&value).ok());
            match name.zip(value) {
                Some((name, value)) => map.append(name, value),
                None => return Err(refused("a header has characters that HTTP does not allow")),
            };
        }
        let body = if body.is_null() {
            Vec::new()
        } else {
            bytes_of(ctx, body)?
        };
        Ok(fetch::Request {
            url,
            method,
            headers: map,
            body: body.into(),
            redirect: match &*redirect {
                "manual" => Redirect::Manual,
                "error" => Redirect::Error,
                _ => Redirect::Follow,
            },
        })
    }
}
