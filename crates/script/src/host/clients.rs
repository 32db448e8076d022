//! Operations of rules on other systems.

use std::rc::Rc;

use rquickjs::{Ctx, Result, String as JsString};

use super::{Functions, Host};
use crate::{
    calls::CallId,
    host_ops::{WaitId, What},
    text,
};

pub(super) fn install<'js>(functions: &Functions<'_, 'js>, host: &Rc<Host>) -> Result<()> {
    let own = host.clone();
    functions.set(
        "client",
        move |ctx: Ctx<'js>, call: CallId, wait: WaitId, operation: JsString<'js>| {
            own.count_fetch(&ctx, call)?;
            let operation = text::owned(operation)?.into_bytes();
            own.want(&ctx, call, wait, What::Client(operation))
        },
    )
}
