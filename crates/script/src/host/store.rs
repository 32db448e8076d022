//! The store for scripts: the operations of `forebay_store::facade`, limited to the globals that the script may access.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use forebay_records::{
    Reference,
    facade::{
        Records,
        operations::{OPERATIONS as RECORD_OPERATIONS, Operation as RecordOperation, entity_tag},
    },
};
use forebay_store::facade::{
    Session,
    operations::{self, Call as _, OPERATIONS, Operation, Refused, START},
};
use rquickjs::{
    Array, ArrayBuffer, Ctx, Error, Exception, Function, IntoJs as _, Object, Persistent, Result,
    String as JsString, Value,
    function::{Constructor, IntoJsFunc, ParamRequirement, Params, This},
};

use super::{Functions, Host};
use crate::{
    budget::Budget,
    calls::CallId,
    options::{Options, Program},
    sys::Area,
    text,
};

/// Size of the memory through which paths and values are passed, in bytes.
const AREA_BYTES: usize = 65_536;

thread_local! {
    /// The last commit of this thread's scripts that was not waited for.
    static LAST_COMMIT: Cell<u64> = const { Cell::new(0) };
    /// Whether a script of this thread has used the store that it may access, but there was none.
    static MISSED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a script of this thread has used the store that it may access, but there was none.
pub(crate) fn store_was_missed() -> bool {
    MISSED.get()
}

/// The last commit that this thread's scripts have made; 0 if there is none.
pub(crate) fn last_commit() -> u64 {
    LAST_COMMIT.get()
}

/// The store of one engine.
#[derive(Debug)]
pub(crate) struct StoreHost {
    /// Whether writes are forbidden here, because a write may have to wait.
    only_reads: bool,
    session: RefCell<Option<Rc<RefCell<Session>>>>,
    /// The SDK's class `StoreError`.
    errors: RefCell<Option<Persistent<Constructor<'static>>>>,
    /// Set when an operation was requested that cannot be performed on this thread.
    elsewhere: Cell<bool>,
    area: Area,
    /// The call whose step runs; 0 while the script is loaded.
    current: Cell<CallId>,
    /// The locks of the session, one entry per acquisition: call and path.
    locks: RefCell<Vec<(CallId, Vec<u8>)>>,
    budget: Rc<Budget>,
}

impl StoreHost {
    pub(crate) fn new(only_reads: bool, budget: Rc<Budget>) -> Self {
        Self {
            only_reads,
            session: RefCell::default(),
            errors: RefCell::default(),
            elsewhere: Cell::new(false),
            area: Area::new(AREA_BYTES),
            current: Cell::new(0),
            locks: RefCell::default(),
            budget,
        }
    }

    /// Begins a step of this call.
    pub(crate) fn enter(&self, call: CallId) {
        self.current.set(call);
    }

    /// The call whose step runs.
    pub(crate) fn current(&self) -> CallId {
        self.current.get()
    }

    /// Releases the locks of these calls.
    pub(crate) fn release(&self, is_over: impl Fn(CallId) -> bool) {
        let mut locks = self.locks.borrow_mut();
        if locks.is_empty() {
            return;
        }
        let Some(session) = &*self.session.borrow() else {
            return;
        };
        let mut session = session.borrow_mut();
        locks.retain(|(call, path)| {
            if !is_over(*call) {
                return true;
            }
            if let Err(error) = session.unlock(path) {
                tracing::error!(target: "forebay::script", "a lock stays until its engine ends: {error}");
            }
            false
        });
    }

    /// Records that a lock was acquired or released.
    fn note_lock(&self, path: &[u8], is_taken: bool) {
        let call = self.current.get();
        let mut locks = self.locks.borrow_mut();
        if is_taken {
            locks.push((call, path.to_vec()));
            return;
        }
        let own = locks.iter().rposition(|(owner, of)| *owner == call && of == path);
        // Locks are shared by all calls of an engine.
        if let Some(at) = own.or_else(|| locks.iter().rposition(|(_, of)| of == path)) {
            locks.remove(at);
        }
    }

    /// Whether an operation was requested since the last time that only an executor performs.
    pub(crate) fn take_elsewhere(&self) -> bool {
        self.elsewhere.replace(false)
    }

    /// Records that an operation was requested that only an executor performs.
    pub(crate) fn note_elsewhere(&self) {
        self.elsewhere.set(true);
    }

    /// Whether the running script has exceeded its time limit. Long operations check this between their steps.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.budget.is_over()
    }

    /// Number of nested open transactions.
    pub(crate) fn level(&self) -> u32 {
        let session = self.session.borrow();
        session.as_ref().map_or(0, |session| session.borrow().level())
    }

    /// Whether the running script is inside a transaction or a snapshot.
    pub(crate) fn is_open(&self) -> bool {
        let session = self.session.borrow();
        session.as_ref().is_some_and(|session| session.borrow().is_open())
    }

    /// Rolls back transactions that a script has begun and not ended. Returns whether there were any.
    pub(crate) fn roll_back(&self) -> bool {
        let mut was_open = false;
        if let Some(session) = &*self.session.borrow() {
            let mut session = session.borrow_mut();
            while session.level() > 0 && session.roll_back().is_ok() {
                was_open = true;
            }
            while session.end_snapshot().is_ok() {
                was_open = true;
            }
        }
        was_open
    }

    /// Rolls back whatever a step of rules has left open, so that nothing of it reaches the next. Returns whether there was anything.
    pub(crate) fn leave_nothing_open(&self) -> bool {
        let was_open = self.roll_back();
        if let Some(session) = &*self.session.borrow()
            && let Err(error) = session.borrow_mut().settle()
        {
            tracing::error!(target: "forebay::script", "what rules have begun is not committed: {error}");
        }
        was_open
    }

    /// Releases everything that belongs to the engine.
    pub(crate) fn end(&self) {
        self.errors.take();
        if let Some(session) = self.session.take() {
            session.borrow_mut().abandon();
        }
    }

    pub(super) fn session(&self, options: &Options) -> std::result::Result<Rc<RefCell<Session>>, Refused> {
        if let Some(session) = &*self.session.borrow() {
            return Ok(session.clone());
        }
        let Some(store) = options.store.as_ref().filter(|_| !options.allow.store.is_empty()) else {
            MISSED.set(MISSED.get() || !options.allow.store.is_empty());
            return Err(Refused {
                code: "no_store",
                message: format!(
                    "{} was given no store: its `allow` names no global of one",
                    options.subject()
                ),
            });
        };
        let mut session = Session::open(&store.folder, &store.options)?;
        session.announce(|commit| LAST_COMMIT.set(commit));
        if !self.only_reads {
            session.wait_with(self.budget.clone());
        }
        let session = Rc::new(RefCell::new(session));
        *self.session.borrow_mut() = Some(session.clone());
        Ok(session)
    }

    /// Converts the result of an operation to JavaScript.
    fn give<'js>(
        &self,
        ctx: &Ctx<'js>,
        outcome: std::result::Result<Option<Value<'js>>, Thrown>,
    ) -> Result<Value<'js>> {
        match outcome {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Ok(Value::new_undefined(ctx.clone())),
            Err(Thrown::Refused(refused)) => Err(self.throw(ctx, &refused)),
            Err(Thrown::Engine(error)) => Err(error),
        }
    }

    /// Throws a `StoreError`.
    fn throw(&self, ctx: &Ctx<'_>, refused: &Refused) -> Error {
        let errors = self.errors.borrow().clone();
        let made = errors
            .ok_or(Error::Unknown)
            .and_then(|errors| errors.restore(ctx))
            .and_then(|errors| errors.construct::<_, Value<'_>>((refused.code, refused.message.as_str())));
        match made {
            Ok(error) => ctx.throw(error),
            Err(error) => error,
        }
    }
}

pub(super) fn install<'js>(functions: &Functions<'_, 'js>, host: &Rc<Host>) -> Result<()> {
    let area = ArrayBuffer::from_source(functions.ctx.clone(), host.store.area.clone())?;
    functions.object.set("area", area)?;
    let own = host.clone();
    functions.set("hasStore", move || {
        let Options { allow, store, .. } = &*own.options;
        store.is_some() && !allow.store.is_empty()
    })?;
    let own = host.clone();
    functions.set("openStore", move |ctx: Ctx<'js>, errors: Constructor<'js>| {
        open(&ctx, errors, &own)
    })
}

/// `openStore(StoreError)`: creates the operations of the store.
fn open<'js>(ctx: &Ctx<'js>, errors: Constructor<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    *host.store.errors.borrow_mut() = Some(Persistent::save(ctx, errors));
    let session = host
        .store
        .session(&host.options)
        .map_err(|refused| host.store.throw(ctx, &refused))?;
    let object = Object::new(ctx.clone())?;
    let folder = host
        .options
        .store
        .as_ref()
        .map(|store| store.folder.to_string_lossy().into_owned());
    object.set("path", folder)?;
    let set = |name: &std::ffi::CStr, task| {
        let function = StoreFunction {
            task,
            session: session.clone(),
            host: host.clone(),
        };
        let name = name.to_str().expect("names of operations are ASCII");
        object.set(name, Function::new(ctx.clone(), function)?)
    };
    for operation in OPERATIONS {
        set(operation.name, Task::Tree(*operation, Reach::of(operation)))?;
    }
    let records = Rc::new(host.records());
    for operation in RECORD_OPERATIONS {
        set(operation.name, Task::Records(*operation, records.clone()))?;
    }
    set(c"recordAnswer", Task::Answer(records))?;
    Ok(object)
}

impl Host {
    /// Records of the kinds whose globals the script may access.
    pub(super) fn records(&self) -> Records {
        let options = &self.options;
        let settings = options.store.as_ref().map(|store| &*store.records);
        let mut records = Records::new(settings).expect("the server has written these settings");
        if !options.allow.all_globals() {
            records = records.only_kinds(options.allow.store.iter().cloned());
        }
        if self.store.only_reads {
            records = records.only_reads().looks_for(options.limits.io_cpu_max);
        }
        records
    }
}

/// The part of the store that an operation accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Reads the path at the beginning.
    Read,
    /// Writes the path at the beginning.
    Write,
    /// Takes two paths, and writes the first.
    Merge,
    /// Begins or ends a transaction.
    Transaction,
    /// Accesses nothing in the store, or only what is open anyway.
    Own,
    /// Reads any globals.
    All,
    /// Writes any globals.
    AllWritten,
}

impl Reach {
    /// Access of an operation by its name. Unknown operations are assumed to access everything.
    fn of(operation: &Operation) -> Self {
        match operation.name.to_bytes() {
            b"get" | b"value" | b"document" | b"defined" | b"isArray" | b"next" | b"previous"
            | b"children" | b"values" | b"expires" => Self::Read,
            b"set" | b"put" | b"layOver" | b"patch" | b"kill" | b"increment" | b"expire" | b"lock"
            | b"unlock" => Self::Write,
            b"merge" => Self::Merge,
            b"begin" | b"flush" => Self::Transaction,
            b"commit" | b"rollBack" | b"level" | b"settle" | b"more" | b"beginSnapshot" | b"endSnapshot"
            | b"unlockAll" | b"close" | b"stats" => Self::Own,
            b"globals" | b"indexes" | b"query" => Self::All,
            _ => Self::AllWritten,
        }
    }

    fn writes(self) -> bool {
        matches!(
            self,
            Self::Write | Self::Merge | Self::Transaction | Self::AllWritten
        )
    }
}

/// An operation as a JavaScript function.
struct StoreFunction {
    task: Task,
    session: Rc<RefCell<Session>>,
    host: Rc<Host>,
}

/// The operation of a function.
enum Task {
    Tree(Operation, Reach),
    Records(RecordOperation, Rc<Records>),
    /// `recordAnswer`, which only scripts have.
    Answer(Rc<Records>),
}

/// Marker type of these functions.
struct Operations;

impl<'js> IntoJsFunc<'js, This<Operations>> for StoreFunction {
    fn param_requirements() -> ParamRequirement {
        ParamRequirement::any()
    }

    fn call<'a>(&self, params: Params<'a, 'js>) -> Result<Value<'js>> {
        let ctx = params.ctx().clone();
        let store = &self.host.store;
        let call = StoreCall {
            params,
            area: &store.area,
        };
        let outcome = match &self.task {
            Task::Tree(operation, reach) => self.run(&call, *operation, *reach),
            Task::Records(operation, records) => {
                operation.run(&call, (&mut self.session.borrow_mut(), records))
            }
            Task::Answer(records) => self.record_answer(&call, records),
        };
        if let Err(Thrown::Refused(refused)) = &outcome
            && store.only_reads
            && refused.code == "read_only"
        {
            store.note_elsewhere();
        }
        store.give(&ctx, outcome)
    }
}

impl StoreFunction {
    /// `recordAnswer(reference, kind, isWabur)`: the body with which `rest()` answers a GET of one record, behind the record's entity tag
    /// unless `isWabur` is 1; undefined if there is no such record. Null if the request has conditions on the tag.
    fn record_answer<'js>(
        &self,
        call: &StoreCall<'_, 'js>,
        records: &Records,
    ) -> std::result::Result<Option<Value<'js>>, Thrown> {
        let host = &self.host;
        let is_wabur = call.integer(2)? != 0;
        if !is_wabur && host.calls.borrow().has_conditions(host.store.current()) {
            return Ok(Some(Value::new_null(call.params.ctx().clone())));
        }
        let text = |index| {
            let bytes = call.text(index)?.unwrap_or_default();
            Ok::<_, Thrown>(String::from_utf8_lossy(&bytes).into_owned())
        };
        let (digits, kind) = (text(0)?, text(1)?);
        let Some(reference) = Reference::from_decimal(&digits) else {
            return Ok(None);
        };
        let mut session = self.session.borrow_mut();
        let record = records.read(&mut session, Some(&kind), reference);
        let Some(record) = record.map_err(Refused::from)? else {
            return Ok(None);
        };
        let tag = if is_wabur {
            String::new()
        } else {
            entity_tag(record)
        };
        let record = String::from_utf8_lossy(record);
        let answer = format!("{tag}{{\"code\":0,\"results\":[{{\"id\":{digits},\"data\":{record}}}]}}");
        call.string(&answer).map(Some)
    }

    fn run<'js>(
        &self,
        call: &StoreCall<'_, 'js>,
        operation: Operation,
        reach: Reach,
    ) -> std::result::Result<Option<Value<'js>>, Thrown> {
        let store = &self.host.store;
        if store.only_reads && reach.writes() {
            return Err(Refused {
                code: "read_only",
                message: "this call goes on where it may write".into(),
            }
            .into());
        }
        self.check_reach(call, reach)?;
        let name = operation.name.to_bytes();
        if name == b"unlockAll" {
            // The locks of other calls stay.
            let own = store.current.get();
            store.release(|call| call == own);
            return Ok(None);
        }
        if name == b"close" && self.host.options.program == Program::Rules {
            return Err(Refused {
                code: "unsupported",
                message: "rules close no stores: those of other runs have this one, too".into(),
            }
            .into());
        }
        let outcome = operation.run(call, &mut self.session.borrow_mut())?;
        if let b"lock" | b"unlock" = name
            && outcome.as_ref().and_then(Value::as_bool) == Some(true)
        {
            store.note_lock(call.bytes(START, call.integer(0)?)?, name == b"lock");
        }
        Ok(outcome)
    }

    fn check_reach(&self, call: &StoreCall<'_, '_>, reach: Reach) -> std::result::Result<(), Thrown> {
        let allow = &self.host.options.allow;
        if allow.all_globals() {
            return Ok(());
        }
        let refused = |what: &str| {
            Thrown::from(Refused {
                code: "not_allowed",
                message: format!(
                    "{} may not reach {what}: its `allow` does not name it",
                    self.host.options.subject()
                ),
            })
        };
        let check = |path: &[u8]| {
            let name = global_of(path);
            if allow.global(name) {
                return Ok(());
            }
            Err(refused(&format!("global `{}`", String::from_utf8_lossy(name))))
        };
        match reach {
            Reach::Own | Reach::Transaction => Ok(()),
            Reach::All | Reach::AllWritten => Err(refused("all globals")),
            Reach::Read | Reach::Write => check(call.bytes(START, call.integer(0)?)?),
            Reach::Merge => {
                check(call.bytes(START, call.integer(0)?)?)?;
                check(call.span(0, 1)?)
            }
        }
    }
}

/// The global at the beginning of a path; empty if it is not a path.
fn global_of(path: &[u8]) -> &[u8] {
    let Some((length, rest)) = path.split_first_chunk::<2>() else {
        return &[];
    };
    rest.get(..u16::from_le_bytes(*length).into()).unwrap_or_default()
}

/// A running call of an operation.
struct StoreCall<'a, 'js> {
    params: Params<'a, 'js>,
    area: &'a Area,
}

/// The exception of an operation.
enum Thrown {
    Refused(Refused),
    Engine(Error),
}

impl From<Refused> for Thrown {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<Error> for Thrown {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl<'js> StoreCall<'_, 'js> {
    fn misused(&self, what: &str) -> Thrown {
        Exception::throw_type(self.params.ctx(), what).into()
    }
}

impl<'js> operations::Call for StoreCall<'_, 'js> {
    type Value = Value<'js>;
    type Error = Thrown;

    fn integer(&self, index: usize) -> std::result::Result<i32, Thrown> {
        let number = self.params.arg(index).and_then(|value| value.as_number());
        number
            .map(|number| number as i32)
            .ok_or_else(|| self.misused("an integer is expected"))
    }

    fn number(&self, index: usize) -> std::result::Result<f64, Thrown> {
        let number = self.params.arg(index).and_then(|value| value.as_number());
        number.ok_or_else(|| self.misused("a number is expected"))
    }

    fn text(&self, index: usize) -> std::result::Result<Option<Vec<u8>>, Thrown> {
        match self.params.arg(index).filter(|value| !value.is_undefined()) {
            Some(value) => Ok(Some(text::utf8(text::string(self.params.ctx(), value)?)?)),
            None => Ok(None),
        }
    }

    fn bytes(&self, from: i32, to: i32) -> std::result::Result<&[u8], Thrown> {
        let place = |at: i32| usize::try_from(at).ok();
        place(from.max(1))
            .zip(place(to))
            .and_then(|(from, to)| self.area.get(from, to))
            .ok_or_else(|| self.misused("the arguments lie outside of the shared memory"))
    }

    fn mark(&self, kind: u8) {
        self.area.mark(kind);
    }

    fn array(&self, values: &[Value<'js>]) -> std::result::Result<Value<'js>, Thrown> {
        let array = Array::new(self.params.ctx().clone())?;
        for (index, value) in values.iter().enumerate() {
            array.set(index, value.clone())?;
        }
        Ok(array.into_value())
    }

    fn string(&self, text: &str) -> std::result::Result<Value<'js>, Thrown> {
        Ok(JsString::from_str(self.params.ctx().clone(), text)?.into_value())
    }

    fn latin1(&self, bytes: &[u8]) -> std::result::Result<Value<'js>, Thrown> {
        Ok(text::from_latin1(self.params.ctx(), bytes)?.into_value())
    }

    fn int(&self, number: i32) -> std::result::Result<Value<'js>, Thrown> {
        Ok(Value::new_int(self.params.ctx().clone(), number))
    }

    fn double(&self, number: f64) -> std::result::Result<Value<'js>, Thrown> {
        Ok(number.into_js(self.params.ctx())?)
    }

    fn boolean(&self, value: bool) -> std::result::Result<Value<'js>, Thrown> {
        Ok(Value::new_bool(self.params.ctx().clone(), value))
    }

    fn null(&self) -> std::result::Result<Value<'js>, Thrown> {
        Ok(Value::new_null(self.params.ctx().clone()))
    }
}
