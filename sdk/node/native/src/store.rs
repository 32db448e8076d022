//! Opens stores for JavaScript. What their operations are is `forebay_store::facade::operations`.

use std::{
    cell::RefCell,
    ffi::CStr,
    path::Path,
    rc::{Rc, Weak},
    time::Duration,
};

use forebay_records::facade::{
    Records,
    operations::{OPERATIONS as RECORD_OPERATIONS, Operation as RecordOperation},
};
use forebay_store::{
    Options, Store,
    facade::{
        Session, SessionError,
        operations::{Call as _, OPERATIONS, Operation, Refused, durability},
    },
};

use crate::{
    napi::{Call, Class, Failure, Outcome},
    page,
};

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
        ..Refused::from(&error).into()
    })?;
    if !options.lead && page::is_mapped() {
        session.announce(page::tell_commit);
    }
    let folder = session
        .store()
        .map_err(|error: SessionError| Refused::from(&error))?
        .path();
    let folder = call.string(&folder.to_string_lossy())?;
    let session = Rc::new(RefCell::new(session));
    let object = call.object()?;
    call.set(object, c"path", folder)?;
    thread.keep(&session);
    call.functions(object, OPERATIONS.iter().map(function), &session, Some(errors))?;
    let records = Rc::new(records()?);
    let functions = RECORD_OPERATIONS
        .iter()
        .map(|operation| record_function(*operation, Rc::clone(&records)));
    call.functions(object, functions, &session, Some(errors))?;
    Ok(Some(object))
}

/// Records as the server's configuration settles them, for a process that it has started.
fn records() -> Result<Records, Failure> {
    let settings = std::env::var("FOREBAY_RECORDS").ok();
    Records::new(settings.as_deref())
        .ok_or_else(|| Failure::plain("FOREBAY_RECORDS is not what this version of forebay writes there"))
}

/// An operation of records as a function of JavaScript.
fn record_function(
    operation: RecordOperation,
    records: Rc<Records>,
) -> (
    &'static CStr,
    usize,
    impl for<'c> Fn(&'c Call<'c>, &mut Session) -> Outcome<'c> + use<>,
) {
    (
        operation.name,
        operation.arguments,
        any(move |call, session| operation.run(call, session, &records)),
    )
}

/// Has the compiler see that a closure is for calls of any lifetime.
fn any<F: for<'c> Fn(&'c Call<'c>, &mut Session) -> Outcome<'c>>(function: F) -> F {
    function
}

/// An operation as a function of JavaScript: its name, how many arguments it takes, and what it does.
fn function(
    operation: &Operation,
) -> (
    &'static CStr,
    usize,
    impl for<'c> Fn(&'c Call<'c>, &mut Session) -> Outcome<'c> + use<>,
) {
    let operation = *operation;
    (
        operation.name,
        operation.arguments,
        any(move |call, session| operation.run(call, session)),
    )
}
