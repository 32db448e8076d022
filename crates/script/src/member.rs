//! An executor thread and its calls: each consists of one or more steps of an engine, with waits in between.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::poll_fn,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use forebay_clients::Clients;
use forebay_pg::SqlSession;
use forebay_trace::{Kind, Span, Trace};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::LocalSet,
};

use crate::{
    Body, Failure, Weight,
    budget::Pulse,
    calls::{CallId, Outcome, Until},
    executor::{Job, Request, Shared, Traced},
    fetch::Fetcher,
    host_ops::{HostOp, OpResult, WaitId, What},
    in_flight::InFlight,
    instance::{Gone, Instance, Place, Step},
    options::Program,
    work::Work,
};

/// A call is light if it takes at most `io_cpu_max` divided by this.
const LIGHT_PART: u32 = 10;
/// Time after which a waiting call gets a task of its own that watches it.
const UNGUARDED: Duration = Duration::from_millis(5);

/// Identifies a call across threads: the engine within its thread, and the call's number there.
pub(crate) type CallKey = (u32, CallId);

/// An open call.
#[derive(Debug)]
pub(crate) struct OpenCall {
    pub(crate) waiter: Waiter,
    pub(crate) in_flight: InFlight,
}

/// The receiver of a call's result.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// Waits for the answer.
    Reply(oneshot::Sender<Outcome>),
    /// Waits for the rest of an answer that has begun. Dropping the sender tells it that the thread was abandoned.
    Stream(oneshot::Sender<()>),
}

impl Waiter {
    /// Ready when the receiver is gone.
    fn poll_closed(&mut self, cx: &mut std::task::Context<'_>) -> Poll<()> {
        match self {
            Self::Reply(reply) => reply.poll_closed(cx),
            Self::Stream(stream) => stream.poll_closed(cx),
        }
    }
}

/// The shared state of a thread.
#[derive(Debug, Default)]
pub(crate) struct ExecutorThread {
    pub(crate) serial: usize,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) calls: Mutex<ThreadCalls>,
    /// Calls the thread: a job waits, or all end.
    pub(crate) wake: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct ThreadCalls {
    pub(crate) open: HashMap<CallKey, OpenCall>,
    /// The call whose step is running, and its time limit.
    pub(crate) running: Option<(CallKey, Until)>,
}

/// Runs scripts until all threads end or this one is abandoned. Fails if it cannot run any.
pub(crate) fn run(
    shared: &Arc<Shared>,
    member: &Arc<ExecutorThread>,
    loaded: Option<std::sync::mpsc::SyncSender<Result<(), Failure>>>,
) -> Result<(), Failure> {
    let executor = Rc::new(Executor {
        shared: shared.clone(),
        member: member.clone(),
        current: RefCell::default(),
        leased: RefCell::default(),
        free: RefCell::default(),
        serial: Cell::new(0),
        engines: Rc::default(),
        work: Rc::default(),
        traced: RefCell::default(),
        fetcher: Rc::new(Fetcher::new(shared.options.clone())),
        clients: Clients::new(shared.options.allow.clients.clone()),
        given_up: Notify::new(),
        is_waiting: Cell::new(false),
        unguarded: RefCell::default(),
        is_guarding: Cell::new(false),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Broken {
            reason: format!("no event loop can be made: {error}"),
        });
    let runtime = runtime.and_then(|runtime| executor.fresh().map(|_| runtime));
    if let Err(failure) = &runtime {
        tracing::error!(target: "forebay::script", script = shared.options.name, "{failure}");
    }
    if let Some(loaded) = loaded {
        // The thread that started it may have stopped waiting.
        let _ = loaded.send(runtime.as_ref().map(drop).map_err(Failure::clone));
    }
    let runtime = runtime?;
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        loop {
            tokio::select! {
                biased;
                () = executor.given_up.notified() => return,
                job = executor.next() => match job {
                    Some(job) => executor.start(job),
                    None => return,
                },
            }
            if member.pulse.is_given_up() {
                return;
            }
        }
    });
    Ok(())
}

/// The state of an executor thread.
struct Executor {
    shared: Arc<Shared>,
    member: Arc<ExecutorThread>,
    current: RefCell<Option<Engine>>,
    /// Engines leased to one call each, until it is over.
    leased: RefCell<HashMap<u32, Engine>>,
    /// Clean engines of rules that wait for a call.
    free: RefCell<Vec<Engine>>,
    /// Serial number of the last engine.
    serial: Cell<u32>,
    /// Number of engines.
    engines: Rc<Cell<usize>>,
    work: Rc<Work>,
    /// Calls whose requests are traced; rarely any.
    traced: RefCell<HashMap<CallKey, Traced>>,
    fetcher: Rc<Fetcher>,
    clients: Rc<Clients>,
    /// Notified when a call that had waited is finally over and the thread has been abandoned.
    given_up: Notify,
    /// Whether the thread waits for a job, with only resumed steps in between.
    is_waiting: Cell<bool>,
    /// Calls that began to wait recently, with their deadlines.
    unguarded: RefCell<Vec<(CallKey, WeakEngine, Option<Instant>)>>,
    /// Whether a task is watching those.
    is_guarding: Cell<bool>,
}

/// An engine of a thread and its serial number.
#[derive(Clone)]
struct Engine {
    serial: u32,
    instance: Rc<Instance>,
    here: Rc<Here>,
}

/// A weak reference to an engine.
struct WeakEngine {
    serial: u32,
    instance: std::rc::Weak<Instance>,
    here: std::rc::Weak<Here>,
}

impl Engine {
    fn downgrade(&self) -> WeakEngine {
        WeakEngine {
            serial: self.serial,
            instance: Rc::downgrade(&self.instance),
            here: Rc::downgrade(&self.here),
        }
    }
}

impl WeakEngine {
    fn upgrade(&self) -> Option<Engine> {
        Some(Engine {
            serial: self.serial,
            instance: self.instance.upgrade()?,
            here: self.here.upgrade()?,
        })
    }
}

/// Counts an engine of a thread while it exists, and ends the engine when dropped.
struct Here {
    instance: Rc<Instance>,
    engines: Rc<Cell<usize>>,
    member: Arc<ExecutorThread>,
}

impl Here {
    fn new(instance: Rc<Instance>, engines: Rc<Cell<usize>>, member: Arc<ExecutorThread>) -> Rc<Self> {
        engines.set(engines.get() + 1);
        Rc::new(Self {
            instance,
            engines,
            member,
        })
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        if !self.member.pulse.is_given_up() {
            self.instance.end();
        }
        self.engines.set(self.engines.get() - 1);
        // A job may be waiting for the capacity of another engine.
        self.member.wake.notify_one();
    }
}

impl Executor {
    /// Creates an engine for new calls.
    fn fresh(&self) -> Result<Engine, Failure> {
        self.current.take();
        let (options, modules) = (&self.shared.options, &self.shared.modules);
        let instance = Instance::load(options, modules, Place::Executor, self.member.pulse.clone())?;
        self.serial.set(self.serial.get() + 1);
        let instance = Rc::new(instance);
        let engine = Engine {
            serial: self.serial.get(),
            instance: instance.clone(),
            here: Here::new(instance, self.engines.clone(), self.member.clone()),
        };
        *self.current.borrow_mut() = Some(engine.clone());
        Ok(engine)
    }

    async fn next(&self) -> Option<Job> {
        self.is_waiting.set(true);
        let job = self.shared.next(&self.member, || self.has_room()).await;
        self.is_waiting.set(false);
        job
    }

    /// Whether another call can begin, in the current engine or in another.
    fn has_room(&self) -> bool {
        match &*self.current.borrow() {
            Some(engine) => engine.instance.has_room(),
            None => !self.free.borrow().is_empty() || self.may_load(),
        }
    }

    fn may_load(&self) -> bool {
        self.engines.get() < self.shared.options.limits.engines_max
    }

    fn start(self: &Rc<Self>, job: Job) {
        if job.reply.is_closed() {
            return;
        }
        let deadline = job.deadline;
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return job.refuse(Failure::DeadlinePassed);
        }
        let engine = match self.engine() {
            Ok(engine) => engine,
            Err(failure) => {
                tracing::error!(target: "forebay::script", script = self.shared.options.name, "{failure}");
                return job.refuse(failure);
            }
        };
        let Job {
            request,
            reply,
            in_flight,
            queued,
            traced,
            ..
        } = job;
        drop(queued);
        let id = match request {
            Request::Handler(payload) => engine.instance.open(payload, deadline),
            Request::Run(input, begin) => engine.instance.begin(input, begin, deadline),
        };
        let key = (engine.serial, id);
        if let Some(mut traced) = traced {
            traced.taken();
            self.traced.borrow_mut().insert(key, traced);
        }
        let call = OpenCall {
            waiter: Waiter::Reply(reply),
            in_flight,
        };
        self.member.calls.lock().open.insert(key, call);
        let cpu_max = self.shared.options.limits.cpu_max;
        let step = self.step(key, &engine, |instance| instance.run(id, cpu_max));
        self.settle_step(key, &engine, &step);
        if self.is_awaited(key) {
            self.watch_over(key, &engine, deadline);
        }
        if self.is_leasing() {
            self.current.take();
            self.leased.borrow_mut().insert(engine.serial, engine.clone());
            self.let_go(&engine);
        } else {
            self.replace_if_needed(&engine.instance, &step);
        }
        drop(engine);
        if self.shared.options.limits.isolated && self.may_load() {
            // The next call then need not wait for it. If this fails, that call meets the same error.
            drop(self.fresh());
        }
    }

    /// Resumes a call with the result of a wait.
    fn resume(self: &Rc<Self>, key: CallKey, engine: &Engine, wait: WaitId, came: OpResult) {
        let step = self.step(key, engine, |instance| instance.resume(key.1, wait, came));
        self.settle_step(key, engine, &step);
        self.replace_if_needed(&engine.instance, &step);
        self.let_go(engine);
    }

    /// Whether each engine is leased to one call until that is over.
    fn is_leasing(&self) -> bool {
        self.shared.options.limits.isolated || self.shared.options.program == Program::Rules
    }

    /// Ends the lease of an engine whose call is over. An engine of rules waits for the next call if it is clean.
    fn let_go(&self, engine: &Engine) {
        if !self.is_leasing() || !engine.instance.is_free() {
            return;
        }
        let Some(engine) = self.leased.borrow_mut().remove(&engine.serial) else {
            return;
        };
        let may_stay = self.shared.options.program == Program::Rules && !self.member.pulse.is_given_up();
        if may_stay && !engine.instance.is_worn() && engine.instance.is_sound() && engine.instance.clean() {
            self.free.borrow_mut().push(engine);
            // A job may be waiting for it.
            self.member.wake.notify_one();
        }
    }

    fn step(&self, key: CallKey, engine: &Engine, step: impl FnOnce(&Instance) -> Step) -> Step {
        self.member.calls.lock().running = Some((key, engine.instance.until(key.1)));
        // A thread that has taken a job is no longer idle.
        if self.is_waiting.get() {
            self.shared.step_begins(&self.member);
        }
        let traced = self.trace(key).map(|trace| (trace, Instant::now()));
        let step = step(&engine.instance);
        if let Some((trace, from)) = traced {
            trace.record(Span::new(Kind::Running, "script", from, Instant::now()));
        }
        self.member.calls.lock().running = None;
        if self.member.pulse.is_given_up() {
            self.given_up.notify_one();
        } else if self.is_waiting.get() {
            self.shared.step_ends(&self.member);
        }
        step
    }

    fn trace(&self, key: CallKey) -> Option<Trace> {
        let traced = self.traced.borrow();
        traced.get(&key).map(|traced| traced.trace.clone())
    }

    /// Ends the trace of a call that is answered or cancelled.
    fn untrace(&self, key: CallKey) {
        if let Some(traced) = self.traced.borrow_mut().remove(&key) {
            traced.over();
        }
    }

    fn engine(&self) -> Result<Engine, Failure> {
        if let Some(engine) = &*self.current.borrow() {
            return Ok(engine.clone());
        }
        let free = self.free.borrow_mut().pop();
        free.map_or_else(|| self.fresh(), Ok)
    }

    /// Handles the results of a call's step.
    fn settle_step(self: &Rc<Self>, key: CallKey, engine: &Engine, step: &Step) {
        let is_quick = step.took * LIGHT_PART <= self.shared.options.limits.io_cpu_max
            && !engine.instance.take_elsewhere();
        if !is_quick {
            engine.instance.weigh(key.1, Weight::Heavy);
        }
        self.settle(engine, is_quick);
    }

    /// Handles the results of a step: delivers finished calls, and starts the operations that calls wait for.
    fn settle(self: &Rc<Self>, engine: &Engine, is_quick: bool) {
        while let Some(mut over) = engine.instance.next_over() {
            let key = (engine.serial, over.id);
            self.untrace(key);
            let call = self.member.calls.lock().open.remove(&key);
            let (waiter, mut in_flight) = call.map(|call| (call.waiter, call.in_flight)).unzip();
            if let Ok(answer) = &mut over.outcome {
                if !is_quick {
                    answer.weight = Weight::Heavy;
                }
                if let Body::Stream(stream) = &mut answer.body
                    && engine.instance.outlet(over.id).is_some()
                {
                    let (there, thread) = oneshot::channel();
                    stream.thread = Some(thread);
                    if let Some(in_flight) = in_flight.take() {
                        let waiter = Waiter::Stream(there);
                        let call = OpenCall { waiter, in_flight };
                        self.member.calls.lock().open.insert(key, call);
                    }
                    self.look_after_stream(key, engine);
                } else {
                    self.work.end(key);
                }
            } else {
                self.work.end(key);
            }
            // Capacity is released before the answer arrives.
            drop(in_flight);
            if let Some(Waiter::Reply(reply)) = waiter {
                // The client may have left.
                let _ = reply.send(over.outcome);
            }
        }
        while let Some(id) = engine.instance.next_ended() {
            let key = (engine.serial, id);
            self.member.calls.lock().open.remove(&key);
            self.work.end(key);
        }
        for want in engine.instance.take_wants() {
            self.set_about(engine, want);
        }
    }

    fn set_about(self: &Rc<Self>, engine: &Engine, HostOp { call, wait, what }: HostOp) {
        let key = (engine.serial, call);
        if !self.member.calls.lock().open.contains_key(&key) {
            return;
        }
        let (own, engine) = (self.clone(), engine.clone());
        let (task, demand) = match what {
            What::Turn => {
                let task = tokio::task::spawn_local(async move {
                    own.came(key, &engine, wait, OpResult::Nothing);
                });
                (task, None)
            }
            What::Time(time) => {
                let until = tokio::time::Instant::now() + time;
                let task = tokio::task::spawn_local(async move {
                    tokio::time::sleep_until(until).await;
                    own.came(key, &engine, wait, OpResult::Nothing);
                });
                (task, None)
            }
            What::Room(piece) => {
                let Some(outlet) = engine.instance.outlet(call) else {
                    return;
                };
                let task = tokio::task::spawn_local(async move {
                    outlet.wait(piece).await;
                    own.came(key, &engine, wait, OpResult::Nothing);
                });
                (task, None)
            }
            What::Sql(statements) => {
                let trace = self.trace(key);
                let deadline = engine.instance.until(call).at;
                let task = tokio::task::spawn_local(async move {
                    let running = pin!(statements.run(deadline));
                    let results = forebay_trace::within(trace, running).await;
                    own.came(key, &engine, wait, OpResult::Results(results));
                });
                (task, None)
            }
            What::SqlSession(operation) => {
                let trace = self.trace(key);
                let deadline = engine.instance.until(call).at;
                let session = self
                    .work
                    .session(key, || SqlSession::new(self.shared.options.allow.sql.clone()));
                let task = tokio::task::spawn_local(async move {
                    let calling = pin!(session.call(&operation, deadline));
                    let outcome = forebay_trace::within(trace, calling).await;
                    own.came(key, &engine, wait, OpResult::Outcome(outcome));
                });
                (task, None)
            }
            What::Client(operation) => {
                let deadline = engine.instance.until(call).at;
                let session = self.work.client_session(key, || self.clients.session(deadline));
                let task = tokio::task::spawn_local(async move {
                    let outcome = session.call(&operation).await;
                    own.came(key, &engine, wait, OpResult::Outcome(outcome));
                });
                (task, None)
            }
            What::Fetch(request) => {
                let (demand, demands) = mpsc::unbounded_channel();
                let task = tokio::task::spawn_local(async move {
                    own.fetch(key, &engine, wait, *request, demands).await;
                });
                (task, Some(demand))
            }
            What::Read(fetch) => {
                if !self.work.demand(key, fetch, wait) {
                    let task = tokio::task::spawn_local(async move {
                        own.came(key, &engine, wait, OpResult::Piece(None));
                    });
                    self.work.add(key, wait, task.abort_handle(), None);
                }
                return;
            }
            What::Cancel => {
                self.work.remove(key, wait);
                return;
            }
        };
        self.work.add(key, wait, task.abort_handle(), demand);
    }

    /// Handles the result of a call's wait.
    fn came(self: &Rc<Self>, key: CallKey, engine: &Engine, wait: WaitId, came: OpResult) {
        // Aborts the current task. Harmless here: it never awaits again. The script may reuse the number for another wait.
        self.work.remove(key, wait);
        self.resume(key, engine, wait, came);
    }

    /// Performs a fetch, and reads pieces of the response as the call demands them.
    async fn fetch(
        self: &Rc<Self>,
        key: CallKey,
        engine: &Engine,
        wait: WaitId,
        request: crate::fetch::Request,
        mut demands: mpsc::UnboundedReceiver<WaitId>,
    ) {
        let mut answer = match self.fetcher.fetch(request).await {
            Ok((head, answer)) => {
                self.resume(key, engine, wait, OpResult::Head(Box::new(head)));
                answer
            }
            Err(error) => return self.came(key, engine, wait, OpResult::Failed(error)),
        };
        while let Some(wait) = demands.recv().await {
            let came = match answer.next().await {
                Ok(piece) => OpResult::Piece(piece),
                Err(error) => OpResult::Failed(error),
            };
            self.resume(key, engine, wait, came);
        }
    }

    /// Makes sure that a waiting call ends in time. Most calls are over before a task of their own is worthwhile.
    fn watch_over(self: &Rc<Self>, key: CallKey, engine: &Engine, deadline: Option<Instant>) {
        self.unguarded
            .borrow_mut()
            .push((key, engine.downgrade(), deadline));
        if !self.is_guarding.replace(true) {
            let own = self.clone();
            tokio::task::spawn_local(async move {
                loop {
                    tokio::time::sleep(UNGUARDED).await;
                    let calls = own.unguarded.take();
                    if calls.is_empty() {
                        break;
                    }
                    for (key, engine, deadline) in calls {
                        if let Some(engine) = engine.upgrade()
                            && own.is_awaited(key)
                        {
                            own.limit(key, &engine, deadline);
                        }
                    }
                }
                own.is_guarding.set(false);
            });
        }
    }

    /// Whether a call is still waiting for the start of its answer.
    fn is_awaited(&self, key: CallKey) -> bool {
        let calls = self.member.calls.lock();
        matches!(
            calls.open.get(&key),
            Some(OpenCall {
                waiter: Waiter::Reply(_),
                ..
            })
        )
    }

    /// Ends a call at its time limit, or when its client leaves.
    fn limit(self: &Rc<Self>, key: CallKey, engine: &Engine, deadline: Option<Instant>) {
        let time_max = self.shared.options.limits.time_max;
        let until = engine.instance.until(key.1);
        let (own, engine) = (self.clone(), engine.clone());
        let guard = tokio::task::spawn_local(async move {
            let gone = tokio::select! {
                () = own.gone(key) => match deadline {
                    Some(deadline) if Instant::now() >= deadline => Gone::Deadline,
                    _ => Gone::Client,
                },
                () = tokio::time::sleep_until(until.at.into()) => Gone::Deadline,
            };
            engine.instance.fail(key.1, until.failure(time_max));
            own.settle(&engine, false);
            own.abort(key, &engine, gone);
        });
        self.work.guard(key, guard.abort_handle());
    }

    /// Ends a call whose answer has begun when its client leaves. It has no overall time limit.
    fn look_after_stream(self: &Rc<Self>, key: CallKey, engine: &Engine) {
        let (own, engine) = (self.clone(), engine.clone());
        let guard = tokio::task::spawn_local(async move {
            own.gone(key).await;
            own.abort(key, &engine, Gone::Client);
        });
        self.work.guard(key, guard.abort_handle());
    }

    /// Waits until the receiver of a call is gone.
    async fn gone(&self, key: CallKey) {
        poll_fn(|cx| match self.member.calls.lock().open.get_mut(&key) {
            Some(call) => call.waiter.poll_closed(cx),
            None => Poll::Ready(()),
        })
        .await;
    }

    /// Cancels a call.
    fn abort(self: &Rc<Self>, key: CallKey, engine: &Engine, gone: Gone) {
        engine.instance.close(key.1);
        self.untrace(key);
        let step = self.step(key, engine, |instance| instance.abort(key.1, gone));
        self.settle(engine, false);
        self.replace_if_needed(&engine.instance, &step);
        self.member.calls.lock().open.remove(&key);
        self.let_go(engine);
        // Aborts the current task, which has nothing left to do.
        self.work.end(key);
    }

    /// Retires an engine that was stopped or has used up its memory: it gets no new calls, but its open calls continue.
    fn replace_if_needed(&self, instance: &Rc<Instance>, step: &Step) {
        if step.stopped.is_none() && !instance.is_worn() {
            return;
        }
        let mut current = self.current.borrow_mut();
        if current
            .as_ref()
            .is_some_and(|current| Rc::ptr_eq(&current.instance, instance))
        {
            *current = None;
        }
    }
}
