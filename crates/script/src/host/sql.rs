//! Operations of scripts on databases.

use std::rc::Rc;

use rquickjs::{Array, Ctx, Exception, Function, Result, String as JsString};

use super::{Functions, Host};
use crate::{
    calls::CallId,
    host_ops::{WaitId, What},
    sql::{self, Statements},
    text,
};

pub(super) fn install<'js>(functions: &Functions<'_, 'js>, host: &Rc<Host>) -> Result<()> {
    let own = host.clone();
    functions.set(
        "sql",
        move |ctx: Ctx<'js>,
              call: CallId,
              wait: WaitId,
              source: String,
              statements: Array<'js>,
              text_of: Function<'js>| {
            let source = sql::source(&source, &own.options)
                .map_err(|message| Exception::throw_type(&ctx, &message))?
                .clone();
            let bytes_max = own.options.limits.memory_max;
            let statements = Statements::read(&ctx, source, &statements, &text_of, bytes_max)?;
            own.want(&ctx, call, wait, What::Sql(Box::new(statements)))
        },
    )?;
    let own = host.clone();
    functions.set("databases", move || -> Vec<String> {
        own.options.allow.sql.keys().cloned().collect()
    })?;
    let own = host.clone();
    functions.set(
        "sqlOperation",
        move |ctx: Ctx<'js>, call: CallId, wait: WaitId, operation: JsString<'js>| {
            let operation = text::owned(operation)?.into_bytes();
            own.want(&ctx, call, wait, What::SqlSession(operation))
        },
    )
}
