//! Statements of scripts on databases, within what they are allowed.

use std::{ops::Range, sync::Arc, time::Instant};

use forebay_pg::{
    Ask, Column, PgError, Row, Rows, Source, is_harmless,
    json::{self, bytes_of},
    session::{self, write_pg_error},
};
use rquickjs::{Array, Ctx, Exception, Function, IntoJs as _, Result, TypedArray, Value};

use crate::{
    options::Options,
    text::{self, well_formed},
    values::{Class, HeldValue, Kind, Name},
};

/// A batch of statements that a script waits for together: the most common use of databases.
#[derive(Debug)]
pub(crate) struct Statements {
    source: Source,
    /// The texts; consecutive equal texts are stored once.
    texts: Vec<String>,
    /// For each statement: the index of its text, and the range of its parameters.
    asked: Vec<(usize, Range<usize>)>,
    /// Positions of the parameters in `bytes`.
    parameters: Vec<Option<Range<usize>>>,
    bytes: Vec<u8>,
}

/// The results of a batch, in order.
#[derive(Debug)]
pub(crate) struct Results {
    source: Source,
    outcomes: Vec<std::result::Result<Rows, PgError>>,
}

/// Finds a database by name. Fails if the script may not access it.
pub(crate) fn source<'o>(name: &str, options: &'o Options) -> std::result::Result<&'o Source, String> {
    session::source(&options.allow.sql, name).map_err(|error| format!("{}: {error}", options.subject()))
}

impl Statements {
    /// Reads a list of statements from a script: each is a text, or a list of a text and parameters. `text_of` is a function that returns
    /// the text of values that have none themselves. The total size of all parameters is limited to `bytes_max`.
    pub(crate) fn read<'js>(
        ctx: &Ctx<'js>,
        source: Source,
        list: &Array<'js>,
        text_of: &Function<'js>,
        bytes_max: usize,
    ) -> Result<Self> {
        let list = HeldValue::of(ctx, list.as_value());
        let length = list.length()?;
        // A large length costs a script nothing, so do not allocate by it.
        let count = length.min(EXPECTED_MAX) as usize;
        let mut texts = Vec::with_capacity(1);
        let mut asked = Vec::with_capacity(count);
        let mut parameters = Vec::with_capacity(count);
        let mut writer = ParameterWriter {
            ctx,
            text_of,
            out: Vec::with_capacity(8 * count),
            bytes_max,
        };
        let mut last_text = None;
        for index in 0..length {
            let statement = list.element(index)?;
            let (text, given) = if matches!(statement.kind(), Kind::Object(Class::Array)) {
                (statement.element(0)?, statement.element(1)?)
            } else {
                (statement, HeldValue::undefined(ctx))
            };
            let first = parameters.len();
            match given.kind() {
                Kind::Undefined => {}
                Kind::Object(Class::Array) => {
                    for index in 0..given.length()? {
                        let from = writer.out.len();
                        let is_null = !writer.write(&given.element(index)?)?;
                        parameters.push((!is_null).then_some(from..writer.out.len()));
                        if parameters.len() > PARAMETERS_MAX {
                            let message =
                                format!("statements have at most {PARAMETERS_MAX} parameters at a time");
                            return Err(Exception::throw_range(ctx, &message));
                        }
                    }
                }
                _ => {
                    let message = "the parameters of a statement are an array";
                    return Err(Exception::throw_type(ctx, message));
                }
            }
            if !last_text.as_ref().is_some_and(|last| text.is_same(last)) {
                texts.push(text_of_statement(ctx, &text)?);
                last_text = Some(text);
            }
            asked.push((texts.len() - 1, first..parameters.len()));
        }
        Ok(Self {
            source,
            texts,
            asked,
            parameters,
            bytes: writer.out,
        })
    }

    /// Whether the statements can be repeated without changing anything.
    pub(crate) fn are_harmless(&self) -> bool {
        self.texts.iter().all(|text| is_harmless(text))
    }

    /// Runs the statements until `deadline`.
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

/// Maximum nesting of arrays; PostgreSQL itself allows six.
const ARRAY_DEPTH_MAX: usize = 64;
/// Maximum number of parameters in a batch.
const PARAMETERS_MAX: usize = 1_000_000;
/// Number of statements for which space is allocated in advance.
const EXPECTED_MAX: u32 = 64;

/// Writes parameters one after another.
struct ParameterWriter<'w, 'js> {
    ctx: &'w Ctx<'js>,
    /// Returns the text of values that have none themselves.
    text_of: &'w Function<'js>,
    out: Vec<u8>,
    bytes_max: usize,
}

impl<'js> ParameterWriter<'_, 'js> {
    /// Appends the text of a value as `values.ts` of the SDK does; false: it is null.
    fn write(&mut self, value: &HeldValue<'_, 'js>) -> Result<bool> {
        match value.kind() {
            Kind::Undefined | Kind::Null => return Ok(false),
            Kind::Int(integer) => {
                let mut digits = itoa::Buffer::new();
                self.out.extend_from_slice(digits.format(integer).as_bytes());
            }
            Kind::Bool(value) => self.out.extend_from_slice(if value { b"true" } else { b"false" }),
            Kind::Text | Kind::Float(_) => self.append(value)?,
            Kind::Object(Class::Array) => self.write_array(value, ARRAY_DEPTH_MAX)?,
            _ => {
                let text: Value<'js> = self.text_of.call((value.to_value(),))?;
                let text = HeldValue::of(self.ctx, &text);
                if text.kind() == Kind::Null {
                    return Ok(false);
                }
                self.append(&text)?;
            }
        }
        self.check_room().map(|()| true)
    }

    fn append(&mut self, text: &HeldValue<'_, 'js>) -> Result<()> {
        text.with_text(|text| self.out.extend_from_slice(&well_formed(text)))
    }

    /// A script can repeat the same long text any number of times, so its own memory limit is no bound here.
    fn check_room(&self) -> Result<()> {
        if self.out.len() <= self.bytes_max {
            return Ok(());
        }
        let message = format!(
            "the parameters of statements have more than {} bytes (memory_max)",
            self.bytes_max
        );
        Err(Exception::throw_range(self.ctx, &message))
    }

    /// Appends an array of the database: `{1,NULL,"a \\"b\\"",{...}}` (manual, 8.15.6).
    fn write_array(&mut self, array: &HeldValue<'_, 'js>, depth: usize) -> Result<()> {
        if depth == 0 {
            let message = format!("arrays of a parameter are at most {ARRAY_DEPTH_MAX} in one another");
            return Err(Exception::throw_range(self.ctx, &message));
        }
        self.out.push(b'{');
        for index in 0..array.length()? {
            if index > 0 {
                self.out.push(b',');
            }
            let element = array.element(index)?;
            match element.kind() {
                Kind::Object(Class::Array) => self.write_array(&element, depth - 1)?,
                Kind::Int(_) | Kind::Bool(_) => {
                    self.write(&element)?;
                }
                _ => {
                    let from = self.out.len();
                    if self.write(&element)? {
                        let text = self.out.split_off(from);
                        self.out.push(b'"');
                        for byte in text {
                            if matches!(byte, b'"' | b'\\') {
                                self.out.push(b'\\');
                            }
                            self.out.push(byte);
                        }
                        self.out.push(b'"');
                    } else {
                        self.out.extend_from_slice(b"NULL");
                        self.check_room()?;
                    }
                }
            }
        }
        self.out.push(b'}');
        Ok(())
    }
}

fn text_of_statement(ctx: &Ctx<'_>, text: &HeldValue<'_, '_>) -> Result<String> {
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
    /// An array with the rows of each statement. Each of these is an array whose property `count` is the number of rows returned or
    /// changed. If a statement failed, an object with the `error` of the first that did.
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
        Ok(HeldValue::array(ctx, results)?.into_value())
    }
}

/// The column names of a result, as engine values. Statements that run repeatedly have the same columns.
struct Columns<'c, 'js> {
    ctx: &'c Ctx<'js>,
    count: Name<'c, 'js>,
    known: Option<Arc<[Column]>>,
    names: Vec<Name<'c, 'js>>,
    /// Whether any of them is the name of an inherited member of objects.
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
            let object = HeldValue::object(self.ctx)?;
            self.is_inherited = false;
            for name in &self.names {
                self.is_inherited |= object.has(name)?;
            }
            self.known = Some(Arc::clone(columns));
        }
        Ok(())
    }

    fn rows_value(&mut self, rows: &Rows) -> Result<HeldValue<'c, 'js>> {
        self.learn(&rows.columns)?;
        let values = rows.rows.iter().map(|row| self.row_value(rows, row));
        let array = HeldValue::array(self.ctx, values.collect::<Result<_>>()?)?;
        array.define_hidden(&self.count, HeldValue::number(self.ctx, rows.affected as f64))?;
        Ok(array)
    }

    fn row_value(&self, rows: &Rows, row: &Row) -> Result<HeldValue<'c, 'js>> {
        let ctx = self.ctx;
        let object = HeldValue::object(ctx)?;
        for (index, name) in self.names.iter().enumerate() {
            let value = match rows.value(row, index) {
                json::Value::Null => HeldValue::null(ctx),
                json::Value::Bool(value) => HeldValue::bool(ctx, value),
                json::Value::Integer(value) => HeldValue::number(ctx, value as f64),
                json::Value::Double(value) => HeldValue::number(ctx, value),
                json::Value::Text(value) => HeldValue::text(ctx, value.as_bytes())?,
                json::Value::Bytes(value) => {
                    HeldValue::of(ctx, TypedArray::<u8>::new(ctx.clone(), value)?.as_value())
                }
                json::Value::Json(value) => {
                    let value = ctx.json_parse(value)?;
                    let value = if rows.columns[index].is_bytes() {
                        bytes_in(ctx, value)?
                    } else {
                        value
                    };
                    HeldValue::of(ctx, &value)
                }
            };
            // If two columns have the same name, the second one counts either way.
            if self.is_inherited {
                object.define(name, value)?;
            } else {
                object.assign(name, value)?;
            }
        }
        Ok(object)
    }
}

/// Converts `bytea` texts in an array to bytes.
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
