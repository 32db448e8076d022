//! What scripts ask of databases.

use std::rc::Rc;

use forebay_pg::desk::Statement;
use rquickjs::{Array, Ctx, Exception, Function, Result, String as JsString, Type, Value};

use super::{Functions, Host};
use crate::{
    calls::CallId,
    sql::{self, Statements},
    text,
    wants::{WaitId, What},
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
            let statements = statements
                .iter()
                .map(|statement| read_statement(&ctx, statement?, &text_of))
                .collect::<Result<_>>()?;
            let statements = Statements { source, statements };
            own.want(&ctx, call, wait, What::Sql(Box::new(statements)))
        },
    )?;
    let own = host.clone();
    functions.set(
        "desk",
        move |ctx: Ctx<'js>, call: CallId, wait: WaitId, operation: JsString<'js>| {
            let operation = text::owned(operation)?.into_bytes();
            own.want(&ctx, call, wait, What::Desk(operation))
        },
    )
}

/// Text, or a list of text and parameters.
fn read_statement<'js>(ctx: &Ctx<'js>, statement: Value<'js>, text_of: &Function<'js>) -> Result<Statement> {
    let (text, parameters) = match statement.as_array() {
        Some(parts) => (parts.get(0)?, parts.get::<Value<'js>>(1)?),
        None => (statement, Value::new_undefined(ctx.clone())),
    };
    let Some(text) = text.as_string() else {
        let message = format!("a statement is text, not a value of type {}", text.type_name());
        return Err(Exception::throw_type(ctx, &message));
    };
    let parameters = match parameters.as_array() {
        Some(values) => values
            .iter()
            .map(|value| read_parameter(value?, text_of))
            .collect::<Result<_>>()?,
        None if parameters.is_undefined() => Vec::new(),
        None => {
            return Err(Exception::throw_type(
                ctx,
                "the parameters of a statement are an array",
            ));
        }
    };
    Ok(Statement {
        text: text::owned(text.clone())?,
        parameters,
    })
}

fn read_parameter<'js>(value: Value<'js>, text_of: &Function<'js>) -> Result<Option<String>> {
    Ok(match value.type_of() {
        Type::Undefined | Type::Null => None,
        Type::Int => value.as_int().map(|integer| integer.to_string()),
        Type::Bool => value.as_bool().map(|value| value.to_string()),
        Type::String => value.into_string().map(text::owned).transpose()?,
        _ => {
            let text: Option<JsString<'js>> = text_of.call((value,))?;
            text.map(text::owned).transpose()?
        }
    })
}
