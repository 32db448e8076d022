//! The operations of a store, as JavaScript calls them. What they do is `forebay_store::facade`.
//!
//! The first byte of the area says of an answer that is text whether it is a string or JSON. Arguments lie behind the
//! first [`START`] bytes: `path` is the place where the path ends that begins there, what else there is follows it.

use std::{
    cell::RefCell,
    path::Path,
    rc::{Rc, Weak},
    time::Duration,
};

use forebay_store::{
    Durability, Options, Store,
    facade::{Begin, Children, Question, Session, SessionError, Value as Found},
};

use crate::{
    napi::{Call, Class, Export, Failure, Outcome, Value},
    page,
};

/// Where arguments begin in the area.
const START: i32 = 8;
/// The answer is what it is.
const PLAIN: u8 = 0;
/// The answer is the JSON text of an object or array.
const JSON: u8 = 1;

const OPERATIONS: &[Export<Session>] = &[
    (c"get", 1, get),
    (c"value", 1, own_value),
    (c"document", 1, document),
    (c"defined", 1, defined),
    (c"isArray", 1, is_array),
    (c"next", 2, next),
    (c"previous", 2, previous),
    (c"children", 8, children),
    (c"values", 3, values),
    (c"more", 0, more),
    (c"globals", 3, globals),
    (c"set", 3, set),
    (c"put", 3, put),
    (c"layOver", 3, lay_over),
    (c"patch", 3, patch),
    (c"kill", 1, kill),
    (c"increment", 2, increment),
    (c"merge", 2, merge),
    (c"begin", 1, begin),
    (c"settle", 0, settle),
    (c"commit", 1, commit),
    (c"rollBack", 0, roll_back),
    (c"level", 0, level),
    (c"beginSnapshot", 0, begin_snapshot),
    (c"endSnapshot", 0, end_snapshot),
    (c"flush", 0, flush),
    (c"lastCommit", 0, last_commit),
    (c"expire", 2, expire),
    (c"expires", 1, expires),
    (c"defineIndex", 1, define_index),
    (c"dropIndex", 1, drop_index),
    (c"indexes", 0, indexes),
    (c"query", 7, query),
    (c"lock", 2, lock),
    (c"unlock", 1, unlock),
    (c"unlockAll", 0, unlock_all),
    (c"stats", 0, stats),
    (c"close", 0, close),
];

/// Longest time that a store is opened with: a day.
const MILLIS_MAX: f64 = 86_400_000.0;

/// What one thread of the runtime has of the addon.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    /// The class of errors, from the first opening on.
    errors: Option<Class>,
    /// Those that may be open; the functions of each keep it.
    sessions: Vec<Weak<RefCell<Session>>>,
}

impl Thread {
    /// A thread that ends in the middle of a transaction must not keep all others from writing.
    pub(crate) fn end(&mut self) {
        for session in self.sessions.drain(..).filter_map(|session| session.upgrade()) {
            session.borrow_mut().abandon();
        }
    }

    fn keep(&mut self, session: &Rc<RefCell<Session>>) {
        self.sessions.retain(|other| other.strong_count() > 0);
        self.sessions.push(Rc::downgrade(session));
    }
}

/// `openStore(StoreError, path, create, readOnly, lead, mapMax, readersMax, valueBytesMax, durability, flushInterval, readerAgeMax)`:
/// flags are 0 or 1, times are in milliseconds; 0 stands for what was left out where it makes no sense itself: that is as it is where the
/// process has the store open, and the default elsewhere. Where `lead` is 0 the store is the server's, which waits for the disk in place of
/// a worker that has a page to tell it of commits.
pub(crate) fn open<'c>(call: &'c Call<'c>, thread: &mut Thread) -> Outcome<'c> {
    let errors = match thread.errors {
        Some(errors) => errors,
        None => *thread.errors.insert(call.class(0)?),
    };
    let path = call.text(1)?.unwrap_or_default();
    let path = String::from_utf8(path).map_err(|_| Failure::plain("the path is not text"))?;
    let given = |index| -> Result<Option<f64>, Failure> {
        Ok(Some(call.number(index)?).filter(|number| *number > 0.0))
    };
    let millis = |index| -> Result<Option<Duration>, Failure> {
        let millis = given(index)?;
        Ok(millis.map(|millis| Duration::from_secs_f64(millis.min(MILLIS_MAX) / 1000.0)))
    };
    let usual = Store::opened(Path::new(&path)).unwrap_or_default();
    let options = Options {
        create: call.integer(2)? != 0,
        read_only: call.integer(3)? != 0,
        lead: call.integer(4)? != 0,
        map_max: given(5)?.map_or(usual.map_max, |bytes| bytes as usize),
        readers_max: given(6)?.map_or(usual.readers_max, |count| count as u32),
        value_bytes_max: given(7)?.map_or(usual.value_bytes_max, |bytes| bytes as usize),
        durability: durability(call.integer(8)?).unwrap_or(usual.durability),
        flush_interval: millis(9)?.unwrap_or(usual.flush_interval),
        reader_age_max: millis(10)?.unwrap_or(usual.reader_age_max),
        ..usual
    };
    let mut session = Session::open(Path::new(&path), &options).map_err(|error| Failure {
        class: Some(errors),
        ..failure(&error)
    })?;
    if !options.lead && page::is_mapped() {
        session.announce(page::tell_commit);
    }
    let folder = session.store().map_err(|error| failure(&error))?.path();
    let folder = call.string(&folder.to_string_lossy())?;
    let session = Rc::new(RefCell::new(session));
    let object = call.object()?;
    call.set(object, c"path", folder)?;
    thread.keep(&session);
    call.functions(object, OPERATIONS, &session, Some(errors))?;
    Ok(Some(object))
}

/// `get(path)`: what was set there.
fn get<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let path = path(call)?;
    match session.get(path).map_err(|error| failure(&error))? {
        Some(text) => value(call, text),
        None => Ok(None),
    }
}

/// `value(path)`: its own value, without children.
fn own_value<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    match session.value(path(call)?).map_err(|error| failure(&error))? {
        Some(text) => value(call, text),
        None => Ok(None),
    }
}

/// `document(path)`: its JSON text.
fn document<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let text = session.document(path(call)?).map_err(|error| failure(&error))?;
    text.map(|text| call.string(utf8(text)?)).transpose()
}

fn defined<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let defined = session.defined(path(call)?).map_err(|error| failure(&error))?;
    call.int(defined.into()).map(Some)
}

fn is_array<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let is_array = session.is_array(path(call)?).map_err(|error| failure(&error))?;
    call.boolean(is_array).map(Some)
}

/// `next(path, seed)`: the seed lies between both, if there is one.
fn next<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    neighbour(call, session, false)
}

fn previous<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    neighbour(call, session, true)
}

fn neighbour<'c>(call: &'c Call<'c>, session: &mut Session, reverse: bool) -> Outcome<'c> {
    let found = session
        .neighbour(path(call)?, call.span(0, 1)?, reverse)
        .map_err(|error| failure(&error))?;
    found.map(|text| call.string(utf8(text)?)).transpose()
}

/// `children(path, from, after, to, before, prefix, flags, limit)`: each bound ends where its number says and begins where
/// the one before it ends; flags are 1 for reverse and 2 for "with values". Gives key, value, key, value, or only keys.
fn children<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
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
        .map_err(|error| failure(&error))?;
    let mut found = Vec::new();
    while !page.is_empty() {
        found.push(call.string(utf8(item(&mut page)?)?)?);
        if with_values {
            found.push(element(call, item(&mut page)?)?);
        }
    }
    call.array(&found).map(Some)
}

/// `values(path, after, limit)`: the path of the node after which to begin lies between both, if there is one. Gives an
/// array of subscripts and a value by turns.
fn values<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let mut page = session
        .values(path(call)?, call.span(0, 1)?, limit(call, 2)?)
        .map_err(|error| failure(&error))?;
    let mut found = Vec::new();
    while !page.is_empty() {
        let mut subscripts = Vec::new();
        for _ in 0..number(&mut page)? {
            subscripts.push(call.string(utf8(item(&mut page)?)?)?);
        }
        found.push(call.array(&subscripts)?);
        found.push(element(call, item(&mut page)?)?);
    }
    call.array(&found).map(Some)
}

/// Asked right after `children`, `values` or `query`: whether their page ended because it had become long. Then there may be more, though it
/// has fewer than `limit`; else one with fewer is the last.
fn more<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    call.boolean(session.more()).map(Some)
}

/// `globals(from, after, limit)`: the name lies at the start, if there is one; `after` is 1 to leave it out.
fn globals<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let page = session
        .globals(path(call)?, call.integer(1)? != 0, limit(call, 2)?)
        .map_err(|error| failure(&error))?;
    texts(call, page)
}

/// `set(path, end)` and those below: the JSON text that is written lies between both, or is the third argument when it is
/// long.
fn set<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    write(call, |path, text| session.set(path, text))
}

fn put<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    write(call, |path, text| session.put(path, text))
}

fn lay_over<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    write(call, |path, text| session.lay_over(path, text))
}

fn patch<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    write(call, |path, text| session.patch(path, text))
}

fn write<'c>(
    call: &'c Call<'c>,
    write: impl FnOnce(&[u8], &[u8]) -> Result<(), SessionError>,
) -> Outcome<'c> {
    let end = call.integer(1)?;
    let path_end = call.integer(0)?;
    let outcome = if end >= path_end {
        write(path(call)?, call.bytes(path_end, end)?)
    } else {
        write(path(call)?, &call.text(2)?.unwrap_or_default())
    };
    outcome.map(|()| None).map_err(|error| failure(&error))
}

fn kill<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let existed = session.kill(path(call)?).map_err(|error| failure(&error))?;
    call.boolean(existed).map(Some)
}

/// `increment(path, end)`: the number lies between both; gives the sum's text.
fn increment<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let sum = session
        .increment(path(call)?, call.span(0, 1)?)
        .map_err(|error| failure(&error))?;
    call.string(utf8(sum)?).map(Some)
}

/// `merge(path, from)`: the path that is copied lies between both.
fn merge<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    session
        .merge(path(call)?, call.span(0, 1)?)
        .map_err(|error| failure(&error))?;
    Ok(None)
}

/// `begin(together)`: 1 to have it committed together with others; gives how many are open within each other.
fn begin<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let begin = if call.integer(0)? == 0 {
        Begin::Alone
    } else {
        Begin::Together
    };
    let level = session.begin(begin).map_err(|error| failure(&error))?;
    call.int(level.cast_signed()).map(Some)
}

fn settle<'c>(_: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    session.settle().map_err(|error| failure(&error))?;
    Ok(None)
}

/// `commit(durability)`
fn commit<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    session
        .commit(durability(call.integer(0)?))
        .map_err(|error| failure(&error))?;
    Ok(None)
}

fn roll_back<'c>(_: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    session.roll_back().map_err(|error| failure(&error))?;
    Ok(None)
}

fn level<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    call.int(session.level().cast_signed()).map(Some)
}

fn begin_snapshot<'c>(_: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    session.begin_snapshot().map_err(|error| failure(&error))?;
    Ok(None)
}

fn end_snapshot<'c>(_: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    session.end_snapshot().map_err(|error| failure(&error))?;
    Ok(None)
}

fn flush<'c>(_: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    session.flush().map_err(|error| failure(&error))?;
    Ok(None)
}

fn last_commit<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    call.double(session.last_commit() as f64).map(Some)
}

/// `expire(path, at)`: milliseconds since 1970, or less than 0 for never.
fn expire<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let at = call.number(1)?;
    let at = (at >= 0.0).then_some(at as u64);
    let existed = session.expire(path(call)?, at).map_err(|error| failure(&error))?;
    call.boolean(existed).map(Some)
}

fn expires<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let at = session.expires(path(call)?).map_err(|error| failure(&error))?;
    at.map(|at| call.double(at as f64)).transpose()
}

/// `defineIndex(definition)`: JSON text.
fn define_index<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    session
        .define_index(&call.text(0)?.unwrap_or_default())
        .map_err(|error| failure(&error))?;
    Ok(None)
}

fn drop_index<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let existed = session.drop_index(path(call)?).map_err(|error| failure(&error))?;
    call.boolean(existed).map(Some)
}

/// `indexes()`: JSON texts.
fn indexes<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    texts(call, session.indexes().map_err(|error| failure(&error))?)
}

/// `query(name, equal, from, to, place, flags, limit)`: each ends where its number says; the place is what the page before gave; flags
/// are 1 for reverse, 2 to leave `from` out and 4 to leave `to` out. Gives the path of the records' parent, the place that has been
/// reached (its bytes as characters), and the subscripts.
fn query<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
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
        .map_err(|error| failure(&error))?;
    let place = call.latin1(item(&mut page)?)?;
    let mut parts = Vec::new();
    for _ in 0..number(&mut page)? {
        parts.push(call.string(utf8(item(&mut page)?)?)?);
    }
    let parts = call.array(&parts)?;
    let found = texts(call, page)?.map_or_else(|| call.array(&[]), Ok)?;
    call.array(&[parts, place, found]).map(Some)
}

/// `lock(path, patience)`: milliseconds, or less than 0 to wait for ever.
fn lock<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let patience = Duration::try_from_secs_f64(call.number(1)? / 1000.0).ok();
    let locked = session
        .lock(path(call)?, patience)
        .map_err(|error| failure(&error))?;
    call.boolean(locked).map(Some)
}

fn unlock<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let held = session.unlock(path(call)?).map_err(|error| failure(&error))?;
    call.boolean(held).map(Some)
}

fn unlock_all<'c>(_: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    session.unlock_all().map_err(|error| failure(&error))?;
    Ok(None)
}

/// `stats()`: bytes of the file, of the map, of a page; the last commit, readers, bytes that the log alone has, the last commit on the disk.
fn stats<'c>(call: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    let stats = session
        .store()
        .and_then(|store| Ok(store.stats()?))
        .map_err(|error| failure(&error))?;
    let figures = [
        stats.file_bytes,
        stats.map_max,
        stats.page_bytes.into(),
        stats.last_commit,
        stats.readers.into(),
        stats.not_checkpointed_bytes,
        stats.flushed_commit,
    ];
    let figures: Vec<Value<'_>> = figures
        .iter()
        .map(|figure| call.double(*figure as f64))
        .collect::<Result<_, _>>()?;
    call.array(&figures).map(Some)
}

fn close<'c>(_: &'c Call<'c>, session: &mut Session) -> Outcome<'c> {
    session.close().map_err(|error| failure(&error))?;
    Ok(None)
}

/// An array of the texts of a page.
fn texts<'c>(call: &'c Call<'c>, mut page: &[u8]) -> Outcome<'c> {
    let mut found = Vec::new();
    while !page.is_empty() {
        found.push(call.string(utf8(item(&mut page)?)?)?);
    }
    call.array(&found).map(Some)
}

fn path<'c>(call: &'c Call<'c>) -> Result<&'c [u8], Failure> {
    call.bytes(START, call.integer(0)?)
}

fn limit(call: &Call<'_>, index: usize) -> Result<usize, Failure> {
    Ok(usize::try_from(call.integer(index)?).unwrap_or(0))
}

fn durability(number: i32) -> Option<Durability> {
    match number {
        0 => Some(Durability::Sync),
        1 => Some(Durability::Group),
        2 => Some(Durability::Relaxed),
        _ => None,
    }
}

/// What a canonical text is in JavaScript; objects and arrays stay text, and the area says so.
fn value<'c>(call: &'c Call<'c>, text: &[u8]) -> Outcome<'c> {
    let found = Found::read(text).ok_or_else(damaged)?;
    call.mark(if matches!(found, Found::Container(_)) {
        JSON
    } else {
        PLAIN
    });
    scalar(call, &found).map(Some)
}

/// The same among others: objects and arrays are text in an array of one.
fn element<'c>(call: &'c Call<'c>, text: &[u8]) -> Result<Value<'c>, Failure> {
    let found = Found::read(text).ok_or_else(damaged)?;
    let made = scalar(call, &found)?;
    if matches!(found, Found::Container(_)) {
        return call.array(&[made]);
    }
    Ok(made)
}

fn scalar<'c>(call: &'c Call<'c>, found: &Found<'_>) -> Result<Value<'c>, Failure> {
    match found {
        Found::Null => call.null(),
        Found::Boolean(value) => call.boolean(*value),
        Found::Number(number) => call.double(*number),
        Found::Text(text) => call.string(text),
        Found::Container(text) => call.string(text),
    }
}

/// Takes the next length and bytes off a page.
fn item<'a>(page: &mut &'a [u8]) -> Result<&'a [u8], Failure> {
    let length = number(page)?;
    let (bytes, rest) = page.split_at_checked(length as usize).ok_or_else(damaged)?;
    *page = rest;
    Ok(bytes)
}

fn number(page: &mut &[u8]) -> Result<u32, Failure> {
    let (number, rest) = page.split_first_chunk::<4>().ok_or_else(damaged)?;
    *page = rest;
    Ok(u32::from_le_bytes(*number))
}

fn utf8(bytes: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(bytes).map_err(|_| damaged())
}

fn damaged() -> Failure {
    Failure {
        code: Some("damaged"),
        message: "the store is damaged: an answer is not the text that was written".into(),
        class: None,
    }
}

/// The error with everything that led to it.
fn failure(error: &SessionError) -> Failure {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        message.push_str(": ");
        message.push_str(&source.to_string());
        cause = source.source();
    }
    Failure {
        code: Some(error.code()),
        message,
        class: None,
    }
}
