//! The operations of a session, shared by all language bindings: each operation here is one call there.
//!
//! Arguments are passed in the area, memory that both sides see, from offset [`START`]. `path` is the offset at which
//! the path that begins there ends; further arguments follow it. For a result that is text, the first byte of the area
//! tells whether it is a string or JSON.

use std::{error::Error, time::Duration};

use super::{Begin, Children, Question, Session, SessionError, Value as Found};
use crate::Durability;

/// Offset of the arguments in the area.
pub const START: i32 = 8;
/// The result is to be taken as it is.
const PLAIN: u8 = 0;
/// The result is the JSON text of an object or array.
const JSON: u8 = 1;

/// A call in progress from another language: access to its arguments, and constructors for its values.
pub trait Call {
    /// A value of the other language.
    type Value;
    /// Error type of the binding, thrown to the caller.
    type Error: From<Refused>;

    /// The argument at `index`, an integer.
    fn integer(&self, index: usize) -> Result<i32, Self::Error>;
    /// The argument at `index`, a number.
    fn number(&self, index: usize) -> Result<f64, Self::Error>;
    /// The argument at `index`, as UTF-8 bytes; `None` if it was omitted.
    fn text(&self, index: usize) -> Result<Option<Vec<u8>>, Self::Error>;
    /// Bytes `from..to` of the area.
    fn bytes(&self, from: i32, to: i32) -> Result<&[u8], Self::Error>;
    /// Bytes of the area between the offsets that two arguments give.
    fn span(&self, from: usize, to: usize) -> Result<&[u8], Self::Error> {
        self.bytes(self.integer(from)?, self.integer(to)?)
    }
    /// Writes the first byte of the area, the kind of the result.
    fn mark(&self, kind: u8);

    /// Creates an array.
    fn array(&self, values: &[Self::Value]) -> Result<Self::Value, Self::Error>;
    /// Creates a string.
    fn string(&self, text: &str) -> Result<Self::Value, Self::Error>;
    /// Creates a string with one character, up to U+00FF, for each byte.
    fn latin1(&self, bytes: &[u8]) -> Result<Self::Value, Self::Error>;
    /// Creates an integer.
    fn int(&self, number: i32) -> Result<Self::Value, Self::Error>;
    /// Creates a floating-point number.
    fn double(&self, number: f64) -> Result<Self::Value, Self::Error>;
    /// Creates a boolean.
    fn boolean(&self, value: bool) -> Result<Self::Value, Self::Error>;
    /// Creates a null.
    fn null(&self) -> Result<Self::Value, Self::Error>;

    /// Creates the value of a canonical JSON text, as a result. By default objects and arrays stay text, which the area's first byte
    /// records.
    fn value(&self, text: &[u8]) -> Result<Self::Value, Self::Error> {
        let found = Found::read(text).ok_or_else(damaged)?;
        self.mark(if matches!(found, Found::Container(_)) {
            JSON
        } else {
            PLAIN
        });
        scalar(self, &found)
    }

    /// The same for an element of an array. By default objects and arrays are text, wrapped in an array of length one.
    fn element(&self, text: &[u8]) -> Result<Self::Value, Self::Error> {
        let found = Found::read(text).ok_or_else(damaged)?;
        let made = scalar(self, &found)?;
        if matches!(found, Found::Container(_)) {
            return self.array(&[made]);
        }
        Ok(made)
    }
}

/// Error of an operation, as reported to the other language.
#[derive(Debug)]
pub struct Refused {
    /// Stable error code.
    pub code: &'static str,
    /// Message for people.
    pub message: String,
}

impl From<SessionError> for Refused {
    fn from(error: SessionError) -> Self {
        Self::from(&error)
    }
}

impl From<&SessionError> for Refused {
    /// Formats the error with its whole source chain.
    fn from(error: &SessionError) -> Self {
        let causes = std::iter::successors(Some(error as &dyn Error), |&error| error.source());
        Self {
            code: error.code(),
            message: causes.map(ToString::to_string).collect::<Vec<_>>().join(": "),
        }
    }
}

/// Result of a call: a value, or `None` if it has none.
pub type Outcome<C> = Result<Option<<C as Call>::Value>, <C as Call>::Error>;

/// Declares the operations that bindings expose as functions: the name of each, its number of arguments, its kind, and the function that
/// runs it, which takes the call and what stands in the first line.
#[macro_export]
macro_rules! operations {
    ($on:ty; $($name:literal $arguments:literal $kind:ident $run:ident)+) => {
        /// An operation that bindings expose as a function.
        #[derive(Clone, Copy, Debug)]
        pub struct Operation {
            /// Name of the function.
            pub name: &'static std::ffi::CStr,
            /// Number of arguments.
            pub arguments: usize,
            kind: Kind,
        }

        /// All operations, in the order in which bindings register them.
        pub const OPERATIONS: &[Operation] =
            &[$(Operation { name: $name, arguments: $arguments, kind: Kind::$kind }),+];

        #[derive(Clone, Copy, Debug)]
        enum Kind { $($kind),+ }

        impl Operation {
            /// Runs the operation.
            pub fn run<C: $crate::facade::operations::Call>(
                self,
                call: &C,
                on: $on,
            ) -> $crate::facade::operations::Outcome<C> {
                match self.kind { $(Kind::$kind => $run(call, on)),+ }
            }
        }
    };
}

operations! {
    &mut Session;
    c"get" 1 Get get
    c"value" 1 OwnValue own_value
    c"document" 1 Document document
    c"defined" 1 Defined defined
    c"isArray" 1 IsArray is_array
    c"next" 2 Next next
    c"previous" 2 Previous previous
    c"children" 8 Children children
    c"values" 3 Values values
    c"more" 0 More more
    c"globals" 3 Globals globals
    c"set" 3 Set set
    c"put" 3 Put put
    c"layOver" 3 LayOver lay_over
    c"patch" 3 Patch patch
    c"kill" 1 Kill kill
    c"increment" 2 Increment increment
    c"merge" 2 Merge merge
    c"begin" 1 Begin begin
    c"settle" 0 Settle settle
    c"commit" 1 Commit commit
    c"rollBack" 0 RollBack roll_back
    c"level" 0 Level level
    c"beginSnapshot" 0 BeginSnapshot begin_snapshot
    c"endSnapshot" 0 EndSnapshot end_snapshot
    c"flush" 0 Flush flush
    c"expire" 2 Expire expire
    c"expires" 1 Expires expires
    c"defineIndex" 1 DefineIndex define_index
    c"dropIndex" 1 DropIndex drop_index
    c"indexes" 0 Indexes indexes
    c"query" 7 Query query
    c"lock" 2 Lock lock
    c"unlock" 1 Unlock unlock
    c"unlockAll" 0 UnlockAll unlock_all
    c"stats" 0 Stats stats
    c"close" 0 Close close
}

/// `get(path)`: the node's value or document.
fn get<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let path = path(call)?;
    let text = session.get(path).map_err(Refused::from)?;
    text.map(|text| call.value(text)).transpose()
}

/// `value(path)`: the node's own value, without children.
fn own_value<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let text = session.value(path(call)?).map_err(Refused::from)?;
    text.map(|text| call.value(text)).transpose()
}

/// `document(path)`: the subtree as JSON text.
fn document<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let text = session.document(path(call)?).map_err(Refused::from)?;
    text.map(|text| call.string(utf8(text)?)).transpose()
}

fn defined<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let defined = session.defined(path(call)?).map_err(Refused::from)?;
    call.int(defined.into()).map(Some)
}

fn is_array<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let is_array = session.is_array(path(call)?).map_err(Refused::from)?;
    call.boolean(is_array).map(Some)
}

/// `next(path, seed)`: the optional seed is at `path..seed`.
fn next<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    neighbour(call, session, false)
}

fn previous<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    neighbour(call, session, true)
}

fn neighbour<C: Call>(call: &C, session: &mut Session, reverse: bool) -> Outcome<C> {
    let found = session
        .neighbour(path(call)?, call.span(0, 1)?, reverse)
        .map_err(Refused::from)?;
    found.map(|text| call.string(utf8(text)?)).transpose()
}

/// `children(path, from, after, to, before, prefix, flags, limit)`: each bound begins where the one before ends, and
/// ends at its argument's offset; flags: 1 reverse, 2 with values. Returns keys, or keys and values alternating.
fn children<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let flags = call.integer(6)?;
    let with_values = flags & 2 != 0;
    let which = Children {
        from: call.span(0, 1)?,
        after: call.span(1, 2)?,
        to: call.span(2, 3)?,
        before: call.span(3, 4)?,
        prefix: call.span(4, 5)?,
        reverse: flags & 1 != 0,
        with_values,
    };
    let mut page = session
        .children(path(call)?, which, limit(call, 7)?)
        .map_err(Refused::from)?;
    let mut found = Vec::new();
    while !page.is_empty() {
        found.push(call.string(utf8(item(&mut page)?)?)?);
        if with_values {
            found.push(call.element(item(&mut page)?)?);
        }
    }
    call.array(&found).map(Some)
}

/// `values(path, after, limit)`: the optional path of the node to start after is at `path..after`. Returns arrays of
/// subscripts and values alternating.
fn values<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let mut page = session
        .values(path(call)?, call.span(0, 1)?, limit(call, 2)?)
        .map_err(Refused::from)?;
    let mut found = Vec::new();
    while !page.is_empty() {
        let mut subscripts = Vec::new();
        for _ in 0..number(&mut page)? {
            subscripts.push(call.string(utf8(item(&mut page)?)?)?);
        }
        found.push(call.array(&subscripts)?);
        found.push(call.element(item(&mut page)?)?);
    }
    call.array(&found).map(Some)
}

/// `more()`: called right after `children`, `values` or `query`; true if the page ended because it was long. Then more
/// may follow although it has fewer than `limit`; otherwise a short page is the last.
fn more<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    call.boolean(session.more()).map(Some)
}

/// `globals(from, after, limit)`: the optional name is at the start of the area; `after` = 1 excludes it.
fn globals<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let page = session
        .globals(path(call)?, call.integer(1)? != 0, limit(call, 2)?)
        .map_err(Refused::from)?;
    texts(call, page)
}

/// `set(path, end)` and the writes below: the JSON text is at `path..end`, or in the third argument when it is long.
fn set<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    write(call, |path, text| session.set(path, text))
}

fn put<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    write(call, |path, text| session.put(path, text))
}

fn lay_over<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    write(call, |path, text| session.lay_over(path, text))
}

fn patch<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    write(call, |path, text| session.patch(path, text))
}

fn write<C: Call>(call: &C, write: impl FnOnce(&[u8], &[u8]) -> Result<(), SessionError>) -> Outcome<C> {
    let end = call.integer(1)?;
    let path_end = call.integer(0)?;
    let outcome = if end >= path_end {
        write(path(call)?, call.bytes(path_end, end)?)
    } else {
        write(path(call)?, &call.text(2)?.unwrap_or_default())
    };
    outcome.map_err(Refused::from)?;
    Ok(None)
}

fn kill<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let existed = session.kill(path(call)?).map_err(Refused::from)?;
    call.boolean(existed).map(Some)
}

/// `increment(path, end)`: the number is at `path..end`; returns the sum as text.
fn increment<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let sum = session
        .increment(path(call)?, call.span(0, 1)?)
        .map_err(Refused::from)?;
    call.string(utf8(sum)?).map(Some)
}

/// `merge(path, from)`: the source path is at `path..from`.
fn merge<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    session
        .merge(path(call)?, call.span(0, 1)?)
        .map_err(Refused::from)?;
    Ok(None)
}

/// `begin(together)`: 1 to share a commit with others; returns the nesting depth.
fn begin<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let begin = if call.integer(0)? == 0 {
        Begin::Alone
    } else {
        Begin::Together
    };
    let level = session.begin(begin).map_err(Refused::from)?;
    call.int(level.cast_signed()).map(Some)
}

fn settle<C: Call>(_: &C, session: &mut Session) -> Outcome<C> {
    session.settle().map_err(Refused::from)?;
    Ok(None)
}

/// `commit(durability)`
fn commit<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    session
        .commit(durability(call.integer(0)?))
        .map_err(Refused::from)?;
    Ok(None)
}

fn roll_back<C: Call>(_: &C, session: &mut Session) -> Outcome<C> {
    session.roll_back().map_err(Refused::from)?;
    Ok(None)
}

fn level<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    call.int(session.level().cast_signed()).map(Some)
}

fn begin_snapshot<C: Call>(_: &C, session: &mut Session) -> Outcome<C> {
    session.begin_snapshot().map_err(Refused::from)?;
    Ok(None)
}

fn end_snapshot<C: Call>(_: &C, session: &mut Session) -> Outcome<C> {
    session.end_snapshot().map_err(Refused::from)?;
    Ok(None)
}

fn flush<C: Call>(_: &C, session: &mut Session) -> Outcome<C> {
    session.flush().map_err(Refused::from)?;
    Ok(None)
}

/// `expire(path, at)`: `at` in milliseconds since 1970; negative removes the expiry time.
fn expire<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let at = call.number(1)?;
    let at = (at >= 0.0).then_some(at as u64);
    let existed = session.expire(path(call)?, at).map_err(Refused::from)?;
    call.boolean(existed).map(Some)
}

fn expires<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let at = session.expires(path(call)?).map_err(Refused::from)?;
    at.map(|at| call.double(at as f64)).transpose()
}

/// `defineIndex(definition)`: the definition is JSON text.
fn define_index<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    session
        .define_index(&call.text(0)?.unwrap_or_default())
        .map_err(Refused::from)?;
    Ok(None)
}

fn drop_index<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let existed = session.drop_index(path(call)?).map_err(Refused::from)?;
    call.boolean(existed).map(Some)
}

/// `indexes()`: an array of JSON texts.
fn indexes<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    texts(call, session.indexes().map_err(Refused::from)?)
}

/// `query(name, equal, from, to, place, flags, limit)`: each ends at its argument's offset; `place` is the position
/// returned by the previous page; flags: 1 reverse, 2 excludes `from`, 4 excludes `to`. Returns the path of the
/// records' parent, the new position (its bytes as characters), and the subscripts.
fn query<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let flags = call.integer(5)?;
    let question = Question {
        equal: call.span(0, 1)?,
        from: call.span(1, 2)?,
        after: flags & 2 != 0,
        to: call.span(2, 3)?,
        before: flags & 4 != 0,
        reverse: flags & 1 != 0,
    };
    let mut page = session
        .query(path(call)?, question, call.span(3, 4)?, limit(call, 6)?)
        .map_err(Refused::from)?;
    let place = call.latin1(item(&mut page)?)?;
    let mut parts = Vec::new();
    for _ in 0..number(&mut page)? {
        parts.push(call.string(utf8(item(&mut page)?)?)?);
    }
    let parts = call.array(&parts)?;
    let found = texts(call, page)?.map_or_else(|| call.array(&[]), Ok)?;
    call.array(&[parts, place, found]).map(Some)
}

/// `lock(path, patience)`: patience in milliseconds; negative waits forever.
fn lock<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let patience = Duration::try_from_secs_f64(call.number(1)? / 1000.0).ok();
    let locked = session.lock(path(call)?, patience).map_err(Refused::from)?;
    call.boolean(locked).map(Some)
}

fn unlock<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let held = session.unlock(path(call)?).map_err(Refused::from)?;
    call.boolean(held).map(Some)
}

fn unlock_all<C: Call>(_: &C, session: &mut Session) -> Outcome<C> {
    session.unlock_all().map_err(Refused::from)?;
    Ok(None)
}

/// `stats()`: bytes of the file, of the map and of a page; the last commit, readers, bytes not checkpointed, the last
/// commit on the disk.
fn stats<C: Call>(call: &C, session: &mut Session) -> Outcome<C> {
    let stats = session
        .store()
        .and_then(|store| Ok(store.stats()?))
        .map_err(Refused::from)?;
    let figures = [
        stats.file_bytes,
        stats.map_max,
        stats.page_bytes.into(),
        stats.last_commit,
        stats.readers.into(),
        stats.not_checkpointed_bytes,
        stats.flushed_commit,
    ];
    let figures: Vec<C::Value> = figures
        .iter()
        .map(|figure| call.double(*figure as f64))
        .collect::<Result<_, _>>()?;
    call.array(&figures).map(Some)
}

fn close<C: Call>(_: &C, session: &mut Session) -> Outcome<C> {
    session.close().map_err(Refused::from)?;
    Ok(None)
}

/// The texts of a page as an array.
fn texts<C: Call>(call: &C, mut page: &[u8]) -> Outcome<C> {
    let mut found = Vec::new();
    while !page.is_empty() {
        found.push(call.string(utf8(item(&mut page)?)?)?);
    }
    call.array(&found).map(Some)
}

fn path<C: Call>(call: &C) -> Result<&[u8], C::Error> {
    call.bytes(START, call.integer(0)?)
}

fn limit<C: Call>(call: &C, index: usize) -> Result<usize, C::Error> {
    Ok(usize::try_from(call.integer(index)?).unwrap_or(0))
}

/// Durability that a call passes as a number; `None` for the store's default.
pub fn durability(number: i32) -> Option<Durability> {
    match number {
        0 => Some(Durability::Sync),
        1 => Some(Durability::Group),
        2 => Some(Durability::Relaxed),
        _ => None,
    }
}

fn scalar<C: Call + ?Sized>(call: &C, found: &Found<'_>) -> Result<C::Value, C::Error> {
    match found {
        Found::Null => call.null(),
        Found::Boolean(value) => call.boolean(*value),
        Found::Number(number) => call.double(*number),
        Found::Text(text) => call.string(text),
        Found::Container(text) => call.string(text),
    }
}

/// Splits the next length-prefixed item off a page.
fn item<'a>(page: &mut &'a [u8]) -> Result<&'a [u8], Refused> {
    let length = number(page)?;
    let (bytes, rest) = page.split_at_checked(length as usize).ok_or_else(damaged)?;
    *page = rest;
    Ok(bytes)
}

fn number(page: &mut &[u8]) -> Result<u32, Refused> {
    let (number, rest) = page.split_first_chunk::<4>().ok_or_else(damaged)?;
    *page = rest;
    Ok(u32::from_le_bytes(*number))
}

fn utf8(bytes: &[u8]) -> Result<&str, Refused> {
    std::str::from_utf8(bytes).map_err(|_| damaged())
}

fn damaged() -> Refused {
    Refused {
        code: "damaged",
        message: "the store is damaged: an answer is not the text that was written".into(),
    }
}
