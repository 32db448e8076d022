//! Statements of scripts on databases, as far as they are allowed.

use std::{ops::Range, sync::Arc, time::Instant};

use forebay_pg::{
    Ask, Column, PgError, Row, Rows, Source,
    desk::{self, write_pg_error},
    is_harmless,
    json::{self, bytes_of},
};
use rquickjs::{Array, Ctx, Exception, Function, IntoJs as _, Result, TypedArray, Value};

use crate::{
    options::Options,
    text::{self, well_formed},
    values::{Class, Held, Kind, Name},
};

/// Statements that a script waits for together: they are most of what scripts ask of databases.
#[derive(Debug)]
pub(crate) struct Statements {
    source: Source,
    /// Their texts; many that follow one another have the same.
    texts: Vec<String>,
    /// Of each its text and its parameters.
    asked: Vec<(usize, Range<usize>)>,
    /// Where the parameters are in `bytes`.
    parameters: Vec<Option<Range<usize>>>,
    bytes: Vec<u8>,
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
    /// Reads a list of them as scripts give it: each is text, or a list of text and parameters. `text_of` is a function that gives the text of values
    /// that have none by themselves.
    pub(crate) fn read<'js>(
        ctx: &Ctx<'js>,
        source: Source,
        list: &Array<'js>,
        text_of: &Function<'js>,
    ) -> Result<Self> {
        let count = list.len();
        let mut own = Self {
            source,
            texts: Vec::with_capacity(1),
            asked: Vec::with_capacity(count),
            parameters: Vec::with_capacity(count),
            bytes: Vec::with_capacity(8 * count),
        };
        let list = Held::of(ctx, list.as_value());
        let mut last_text = None;
        for index in 0..list.length()? {
            let statement = list.element(index)?;
            let (text, parameters) = if matches!(statement.kind(), Kind::Object(Class::Array)) {
                (statement.element(0)?, statement.element(1)?)
            } else {
                (statement, Held::undefined(ctx))
            };
            let first = own.parameters.len();
            match parameters.kind() {
                Kind::Undefined => {}
                Kind::Object(Class::Array) => {
                    for index in 0..parameters.length()? {
                        own.read_parameter(ctx, &parameters.element(index)?, text_of)?;
                    }
                }
                _ => {
                    let message = "the parameters of a statement are an array";
                    return Err(Exception::throw_type(ctx, message));
                }
            }
            if !last_text.as_ref().is_some_and(|last| text.is_same(last)) {
                own.texts.push(text_of_statement(ctx, &text)?);
                last_text = Some(text);
            }
            let parameters = first..own.parameters.len();
            own.asked.push((own.texts.len() - 1, parameters));
        }
        Ok(own)
    }

    fn read_parameter<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        value: &Held<'_, 'js>,
        text_of: &Function<'js>,
    ) -> Result<()> {
        let from = self.bytes.len();
        let is_null = !write_parameter(ctx, value, text_of, &mut self.bytes)?;
        let to = self.bytes.len();
        self.parameters.push((!is_null).then_some(from..to));
        Ok(())
    }

    /// Whether nothing changes when they are run once more.
    pub(crate) fn are_harmless(&self) -> bool {
        self.texts.iter().all(|text| is_harmless(text))
    }

    /// Runs them until `deadline`.
    pub(crate) async fn run(self, deadline: Instant) -> Results {
        let parameters = self.parameters.iter().cloned();
        let parameters: Vec<_> = parameters
            .map(|range| range.map(|range| &self.bytes[range]))
            .collect();
        let asks = self.asked.iter();
        let asks = asks.map(|(text, range)| (&*self.texts[*text], &parameters[range.clone()]));
        let outcomes = self.source.pipeline(&Ask::together(asks), deadline).await;
        let source = self.source;
        Results { source, outcomes }
    }
}

/// Appends the text of a value as `values.ts` of the SDK does; false: it is null.
fn write_parameter<'js>(
    ctx: &Ctx<'js>,
    value: &Held<'_, 'js>,
    text_of: &Function<'js>,
    out: &mut Vec<u8>,
) -> Result<bool> {
    match value.kind() {
        Kind::Undefined | Kind::Null => return Ok(false),
        Kind::Int(integer) => out.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes()),
        Kind::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Kind::Text | Kind::Float(_) => value.with_text(|text| out.extend_from_slice(&well_formed(text)))?,
        Kind::Object(Class::Array) => write_array(ctx, value, text_of, ARRAY_DEPTH_MAX, out)?,
        _ => {
            let text: Value<'js> = text_of.call((value.to_value(),))?;
            let text = Held::of(ctx, &text);
            if text.kind() == Kind::Null {
                return Ok(false);
            }
            text.with_text(|text| out.extend_from_slice(&well_formed(text)))?;
        }
    }
    Ok(true)
}

/// Arrays in one another; the server takes six.
const ARRAY_DEPTH_MAX: usize = 64;

/// Appends an array of the database: `{1,NULL,"a \\"b\\"",{...}}` (manual, 8.15.6).
fn write_array<'js>(
    ctx: &Ctx<'js>,
    array: &Held<'_, 'js>,
    text_of: &Function<'js>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    if depth == 0 {
        let message = format!("arrays of a parameter are at most {ARRAY_DEPTH_MAX} in one another");
        return Err(Exception::throw_range(ctx, &message));
    }
    out.push(b'{');
    for index in 0..array.length()? {
        if index > 0 {
            out.push(b',');
        }
        let element = array.element(index)?;
        match element.kind() {
            Kind::Object(Class::Array) => write_array(ctx, &element, text_of, depth - 1, out)?,
            Kind::Int(_) | Kind::Bool(_) => {
                write_parameter(ctx, &element, text_of, out)?;
            }
            _ => {
                let from = out.len();
                if write_parameter(ctx, &element, text_of, out)? {
                    let text = out.split_off(from);
                    out.push(b'"');
                    for byte in text {
                        if matches!(byte, b'"' | b'\\') {
                            out.push(b'\\');
                        }
                        out.push(byte);
                    }
                    out.push(b'"');
                } else {
                    out.extend_from_slice(b"NULL");
                }
            }
        }
    }
    out.push(b'}');
    Ok(())
}

fn text_of_statement(ctx: &Ctx<'_>, text: &Held<'_, '_>) -> Result<String> {
    if !matches!(text.kind(), Kind::Text) {
        let message = format!(
            "a statement is text, not a value of type {}",
            text.to_value().type_name()
        );
        return Err(Exception::throw_type(ctx, &message));
    }
    text.with_text(|text| String::from_utf8_lossy(&well_formed(text)).into_owned())
}

impl Results {
    /// An array with the rows of each, which are an array too with how many the statement gave or changed as `count`; or an object with the `error` of the first that failed.
    pub(crate) fn value<'js>(&self, ctx: &Ctx<'js>) -> Result<Value<'js>> {
        let mut results = Vec::with_capacity(self.outcomes.len());
        let mut names = Columns::new(ctx)?;
        for outcome in &self.outcomes {
            match outcome {
                Ok(rows) => results.push(names.rows_value(rows)?),
                Err(error) => {
                    let mut out = Vec::new();
                    write_pg_error(error, self.source.name(), &mut out);
                    return ctx.json_parse(out);
                }
            }
        }
        Ok(Held::array(ctx, results)?.into_value())
    }
}

/// The names of the columns of one result as the engine has them. Statements that run several times have the same columns.
struct Columns<'c, 'js> {
    ctx: &'c Ctx<'js>,
    count: Name<'c, 'js>,
    known: Option<Arc<[Column]>>,
    names: Vec<Name<'c, 'js>>,
    /// Whether any of them is that of a member which every object has.
    is_inherited: bool,
}

impl<'c, 'js> Columns<'c, 'js> {
    fn new(ctx: &'c Ctx<'js>) -> Result<Self> {
        Ok(Self {
            ctx,
            count: Name::of(ctx, "count")?,
            known: None,
            names: Vec::new(),
            is_inherited: false,
        })
    }

    fn learn(&mut self, columns: &Arc<[Column]>) -> Result<()> {
        let known = self.known.as_ref();
        if !known.is_some_and(|known| Arc::ptr_eq(known, columns)) {
            let names = columns.iter().map(|column| Name::of(self.ctx, &column.name));
            self.names = names.collect::<Result<_>>()?;
            let object = Held::object(self.ctx)?;
            self.is_inherited = false;
            for name in &self.names {
                self.is_inherited |= object.has(name)?;
            }
            self.known = Some(Arc::clone(columns));
        }
        Ok(())
    }

    fn rows_value(&mut self, rows: &Rows) -> Result<Held<'c, 'js>> {
        self.learn(&rows.columns)?;
        let values = rows.rows.iter().map(|row| self.row_value(rows, row));
        let array = Held::array(self.ctx, values.collect::<Result<_>>()?)?;
        array.define_hidden(&self.count, Held::number(self.ctx, rows.affected as f64))?;
        Ok(array)
    }

    fn row_value(&self, rows: &Rows, row: &Row) -> Result<Held<'c, 'js>> {
        let ctx = self.ctx;
        let object = Held::object(ctx)?;
        for (index, name) in self.names.iter().enumerate() {
            let value = match rows.value(row, index) {
                json::Value::Null => Held::null(ctx),
                json::Value::Bool(value) => Held::bool(ctx, value),
                json::Value::Integer(value) => Held::number(ctx, value as f64),
                json::Value::Double(value) => Held::number(ctx, value),
                json::Value::Text(value) => Held::text(ctx, value.as_bytes())?,
                json::Value::Bytes(value) => {
                    Held::of(ctx, TypedArray::<u8>::new(ctx.clone(), value)?.as_value())
                }
                json::Value::Json(value) => {
                    let value = ctx.json_parse(value)?;
                    let value = if rows.columns[index].is_bytes() {
                        bytes_in(ctx, value)?
                    } else {
                        value
                    };
                    Held::of(ctx, &value)
                }
            };
            // The second of two columns of one name counts either way.
            if self.is_inherited {
                object.define(name, value)?;
            } else {
                object.assign(name, value)?;
            }
        }
        Ok(object)
    }
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
