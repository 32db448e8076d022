//! Opens stores for JavaScript. Their operations are defined in `forebay_store::facade::operations`.

use std::{
    cell::RefCell,
    path::Path,
    rc::{Rc, Weak},
    time::Duration,
};

use forebay_jobs::{CommandOf, ProgramQueues};
use forebay_records::facade::{Records, operations::OPERATIONS as RECORD_OPERATIONS};
use forebay_store::{
    Options, Store,
    facade::{
        Session, SessionError,
        operations::{Call as _, OPERATIONS, Refused, durability},
    },
};

use crate::{
    napi::{Call, Class, Failure, Outcome},
    page,
};

/// Longest interval or age accepted when a store is opened: a day.
const MILLIS_MAX: f64 = 86_400_000.0;

/// The addon's state in one thread of the runtime.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    /// The class of errors, set when the first store is opened.
    errors: Option<Class>,
    /// Sessions that may be open; each is owned by the functions made for it.
    sessions: Vec<Weak<RefCell<Session>>>,
}

impl Thread {
    /// Ends open transactions: a thread that ends in the middle of one must not block all other writers.
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

/// Opens a session of the store in a folder. The options are `create`, `read_only` and `lead`, which are 0 or 1; `map_max`, `readers_max` and
/// `value_bytes_max`; `durability`, which is 0 for sync, 1 for group, 2 for relaxed; `flush_interval` and `reader_age_max`, in milliseconds.
/// Another number for the durability, and 0 for those behind `lead`, stand for an omitted one: then the value of the store that the process has
/// open applies, or else the default. With `lead` 0 the store is the server's, and the server waits for the disk in place of a worker that has a
/// page in which to report commits.
pub(crate) fn open_session(
    path: &Path,
    [
        create,
        read_only,
        lead,
        map_max,
        readers_max,
        value_bytes_max,
        level,
        flush_interval,
        reader_age_max,
    ]: [f64; 9],
) -> Result<Session, SessionError> {
    let given = |number: f64| Some(number).filter(|number| *number > 0.0);
    let millis =
        |millis| given(millis).map(|millis| Duration::from_secs_f64(millis.min(MILLIS_MAX) / 1000.0));
    let usual = Store::opened(path).unwrap_or_default();
    let options = Options {
        create: create != 0.0,
        read_only: read_only != 0.0,
        lead: lead != 0.0,
        map_max: given(map_max).map_or(usual.map_max, |bytes| bytes as usize),
        readers_max: given(readers_max).map_or(usual.readers_max, |count| count as u32),
        value_bytes_max: given(value_bytes_max).map_or(usual.value_bytes_max, |bytes| bytes as usize),
        durability: durability(level as i32).unwrap_or(usual.durability),
        flush_interval: millis(flush_interval).unwrap_or(usual.flush_interval),
        reader_age_max: millis(reader_age_max).unwrap_or(usual.reader_age_max),
        ..usual
    };
    let mut session = Session::open(path, &options)?;
    if !options.lead && page::is_mapped() {
        session.announce(page::tell_commit);
    }
    Ok(session)
}

/// `openStore(StoreError, path, create, readOnly, lead, mapMax, readersMax, valueBytesMax, durability, flushInterval, readerAgeMax)`: see
/// [`open_session`].
pub(crate) fn open<'c>(call: &'c Call<'c>, thread: &mut Thread) -> Outcome<'c> {
    let errors = match thread.errors {
        Some(errors) => errors,
        None => *thread.errors.insert(call.class(0)?),
    };
    let path = call.text(1)?.unwrap_or_default();
    let path = String::from_utf8(path).map_err(|_| Failure::plain("the path is not text"))?;
    let mut numbers = [0.0; 9];
    for (index, number) in (2..).zip(&mut numbers) {
        *number = call.number(index)?;
    }
    let opened = open_session(Path::new(&path), numbers);
    let session = opened.map_err(|error| Failure {
        class: Some(errors),
        ..Refused::from(&error).into()
    })?;
    let folder = session
        .store()
        .map_err(|error: SessionError| Refused::from(&error))?
        .path();
    let folder = call.string(&folder.to_string_lossy())?;
    let session = Rc::new(RefCell::new(session));
    let object = call.object()?;
    call.set(object, c"path", folder)?;
    thread.keep(&session);
    let functions = OPERATIONS.iter().map(|operation| {
        let run = any(move |call, session| operation.run(call, session));
        (operation.name, operation.arguments, run)
    });
    call.functions(object, functions, &session, Some(errors))?;
    let records = Rc::new(records().map_err(Failure::plain)?);
    let functions = RECORD_OPERATIONS.iter().map(|operation| {
        let records = Rc::clone(&records);
        let run = any(move |call, session| operation.run(call, (session, &records)));
        (operation.name, operation.arguments, run)
    });
    call.functions(object, functions, &session, Some(errors))?;
    let jobs = any(jobs(RefCell::default()));
    call.functions(object, [(c"jobs", 5, jobs)].into_iter(), &session, Some(errors))?;
    Ok(Some(object))
}

/// `jobs(command, queue, owner, now, argument)`: a command of [`ProgramQueues`], whose answer is JSON text.
fn jobs(queues: RefCell<ProgramQueues>) -> impl for<'c> Fn(&'c Call<'c>, &mut Session) -> Outcome<'c> {
    move |call, session| {
        let text = |index| -> Result<String, Failure> {
            let text = String::from_utf8(call.text(index)?.unwrap_or_default());
            text.map_err(|_| Failure::plain("an argument is not text"))
        };
        let (queue, owner) = (text(1)?, text(2)?);
        let of = CommandOf {
            queue: &queue,
            owner: &owner,
            now_ms: call.number(3)? as u64,
        };
        let answer = queues.borrow_mut().run(session, &text(0)?, of, &text(4)?)?;
        call.string(&answer).map(Some)
    }
}

/// The record settings of the server's configuration, for a process that it has started. The error is a message.
pub(crate) fn records() -> Result<Records, &'static str> {
    let settings = std::env::var("FOREBAY_RECORDS").ok();
    Records::new(settings.as_deref())
        .ok_or("FOREBAY_RECORDS is not what this version of forebay writes there")
}

/// Makes the compiler infer that a closure accepts calls of any lifetime.
fn any<F: for<'c> Fn(&'c Call<'c>, &mut Session) -> Outcome<'c>>(function: F) -> F {
    function
}
