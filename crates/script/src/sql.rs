//! Statements of scripts on databases, as far as they are allowed.

use std::{sync::Arc, time::Instant};

use forebay_pg::{
    Column, PgError, Row, Rows, Source,
    desk::{self, Statement, write_pg_error},
    json::{self, bytes_of},
};
use rquickjs::{Array, Atom, Ctx, IntoJs as _, Object, Result, TypedArray, Value, object::Property};

use crate::{options::Options, text};

/// Statements that a script waits for together, as it gives them: they are most of what scripts ask of databases.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) source: Source,
    pub(crate) statements: Vec<Statement>,
}

/// What became of them, of each in order.
#[derive(Debug)]
pub(crate) struct Results {
    source: Source,
    outcomes: Vec<std::result::Result<Rows, PgError>>,
}

/// The database of a name, if a script may reach it, and else why not.
pub(crate) fn source<'o>(name: &str, options: &'o Options) -> std::result::Result<&'o Source, String> {
    desk::source(&options.allow.sql, name).map_err(|error| format!("script `{}`: {error}", options.name))
}

impl Statements {
    /// Runs them until `deadline`.
    pub(crate) async fn run(self, deadline: Instant) -> Results {
        let outcomes = desk::run_statements(&self.source, &self.statements, deadline).await;
        let source = self.source;
        Results { source, outcomes }
    }
}

impl Results {
    /// An array with the rows of each, which are an array too with how many the statement gave or changed as `count`; or an object with the `error` of the first that failed.
    pub(crate) fn value<'js>(&self, ctx: &Ctx<'js>) -> Result<Value<'js>> {
        let results = Array::new(ctx.clone())?;
        let mut keys = Keys::default();
        for (index, outcome) in self.outcomes.iter().enumerate() {
            match outcome {
                Ok(rows) => results.set(index, rows_value(ctx, rows, keys.of(ctx, &rows.columns)?)?)?,
                Err(error) => {
                    let mut out = Vec::new();
                    write_pg_error(error, self.source.name(), &mut out);
                    return ctx.json_parse(out);
                }
            }
        }
        Ok(results.into_value())
    }
}

/// The names of the columns of one result as the engine has them. Statements that run several times have the same columns.
#[derive(Default)]
struct Keys<'js> {
    columns: Option<Arc<[Column]>>,
    atoms: Vec<Atom<'js>>,
}

impl<'js> Keys<'js> {
    fn of(&mut self, ctx: &Ctx<'js>, columns: &Arc<[Column]>) -> Result<&[Atom<'js>]> {
        if !self
            .columns
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, columns))
        {
            let atoms = columns
                .iter()
                .map(|column| Atom::from_str(ctx.clone(), &column.name));
            self.atoms = atoms.collect::<Result<_>>()?;
            self.columns = Some(Arc::clone(columns));
        }
        Ok(&self.atoms)
    }
}

fn rows_value<'js>(ctx: &Ctx<'js>, rows: &Rows, keys: &[Atom<'js>]) -> Result<Array<'js>> {
    let array = Array::new(ctx.clone())?;
    for (index, row) in rows.rows.iter().enumerate() {
        array.set(index, row_value(ctx, rows, row, keys)?)?;
    }
    array.prop("count", Property::from(rows.affected as f64))?;
    Ok(array)
}

fn row_value<'js>(ctx: &Ctx<'js>, rows: &Rows, row: &Row, keys: &[Atom<'js>]) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    for (index, key) in keys.iter().enumerate() {
        let value = match rows.value(row, index) {
            json::Value::Null => Value::new_null(ctx.clone()),
            json::Value::Bool(value) => Value::new_bool(ctx.clone(), value),
            json::Value::Integer(value) => match i32::try_from(value) {
                Ok(value) => Value::new_int(ctx.clone(), value),
                Err(_) => Value::new_float(ctx.clone(), value as f64),
            },
            json::Value::Double(value) => Value::new_float(ctx.clone(), value),
            json::Value::Text(value) => text::from_utf8(ctx, value.as_bytes())?.into_value(),
            json::Value::Bytes(value) => TypedArray::<u8>::new(ctx.clone(), value)?.into_value(),
            json::Value::Json(value) => {
                let value = ctx.json_parse(value)?;
                if rows.columns[index].is_bytes() {
                    bytes_in(ctx, value)?
                } else {
                    value
                }
            }
        };
        object.prop(
            key.clone(),
            Property::from(value).writable().enumerable().configurable(),
        )?;
    }
    Ok(object)
}

/// An array of `bytea`, from one of their text.
fn bytes_in<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> Result<Value<'js>> {
    if let Some(array) = value.as_array() {
        for index in 0..array.len() {
            array.set(index, bytes_in(ctx, array.get(index)?)?)?;
        }
    } else if let Some(text) = value.as_string()
        && let Some(bytes) = bytes_of(&text::utf8(text.clone())?)
    {
        return TypedArray::<u8>::new(ctx.clone(), bytes)?.into_js(ctx);
    }
    Ok(value)
}
