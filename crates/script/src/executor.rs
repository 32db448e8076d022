//! Threads that run scripts. Each has an engine, and may have many calls open that wait for something. A thread whose script cannot be
//! stopped is given up: its calls are answered, and another thread takes its place. A transaction that it has begun stays open until the
//! step ends, for it belongs to the thread.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    future::poll_fn,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    thread::{self, Thread},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::LocalSet,
};

use crate::{
    Body, Failure,
    budget::{Pulse, now_ms},
    calls::{CallId, Outcome},
    counts::Counts,
    fetch::Fetcher,
    instance::{Gone, Instance, Place, Step},
    modules::Modules,
    options::Options,
    wants::{Came, WaitId, Want, What},
    work::Work,
};

/// How often it is looked whether a thread hangs, while any runs a script.
const LOOK: Duration = Duration::from_millis(20);
/// The same while none does.
const REST: Duration = Duration::from_secs(1);
/// Threads that may hang at the same time; beyond, no other takes a place.
const GIVEN_UP_MAX: usize = 16;
/// Stack of a thread, in bytes; the engine has a part of it.
pub(crate) const STACK_BYTES: usize = 2 << 20;
/// A call is light when it takes at most this part of what it may on an I/O thread.
const LIGHT_PART: u32 = 10;

/// A request that waits for a thread.
#[derive(Debug)]
struct Job {
    payload: Vec<u8>,
    deadline: Option<Instant>,
    reply: oneshot::Sender<Outcome>,
    queued: Queued,
}

/// A job is counted as one that waits, as long as this is there.
#[derive(Debug)]
struct Queued(Arc<Counts>);

impl Queued {
    fn new(counts: Arc<Counts>) -> Self {
        counts.queued.add(1);
        Self(counts)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.queued.subtract(1);
    }
}

/// A call as it is known outside of its thread: which engine of the thread, and its number there.
pub(crate) type CallKey = (u32, CallId);

/// Who waits for a call.
#[derive(Debug)]
enum Waiter {
    /// For its answer.
    Reply(oneshot::Sender<Outcome>),
    /// For the rest of an answer that has begun; it learns that the thread is given up when this is dropped.
    Stream(oneshot::Sender<()>),
}

impl Waiter {
    /// Ready when nobody does any more.
    fn poll_closed(&mut self, cx: &mut std::task::Context<'_>) -> Poll<()> {
        match self {
            Self::Reply(reply) => reply.poll_closed(cx),
            Self::Stream(stream) => stream.poll_closed(cx),
        }
    }
}

/// The threads of one script.
#[derive(Debug)]
pub(crate) struct Executors(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: Arc<Options>,
    modules: Arc<Modules>,
    state: Mutex<State>,
    in_flight: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Job>,
    members: Vec<Arc<Member>>,
    /// Threads that do nothing: each of them takes a job as soon as it is called. The one that has rested least is called first.
    idle: Vec<Arc<Member>>,
    given_up: usize,
    serial: usize,
    watchdog: Option<Thread>,
    ends: bool,
}

/// A thread as others see it.
#[derive(Debug, Default)]
struct Member {
    serial: usize,
    pulse: Arc<Pulse>,
    calls: Mutex<MemberCalls>,
    /// Calls the thread: a job waits, or all end.
    wake: Notify,
}

#[derive(Debug, Default)]
struct MemberCalls {
    open: HashMap<CallKey, Waiter>,
    running: Option<CallKey>,
}

/// An answer that is awaited. Who drops it gives the call up.
#[derive(Debug)]
pub struct Awaited {
    reply: oneshot::Receiver<Outcome>,
    in_flight: Option<InFlight>,
    /// There until its outcome is counted.
    counts: Option<Arc<Counts>>,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if let Some(counts) = self.counts.take() {
            counts.cancelled();
        }
    }
}

/// One of the calls that are under way, as long as this is there.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Shared>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Future for Awaited {
    type Output = Outcome;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Outcome> {
        let reply = std::pin::Pin::new(&mut self.reply).poll(cx);
        reply.map(|reply| {
            let mut outcome = reply.unwrap_or(Err(Failure::GivenUp));
            if let Some(counts) = self.counts.take() {
                counts.outcome_on_executor(&outcome);
            }
            if let Ok(answer) = &mut outcome
                && let Body::Stream(stream) = &mut answer.body
            {
                stream.in_flight = self.in_flight.take();
            }
            outcome
        })
    }
}

impl Executors {
    /// Starts the first thread, and waits until the script is loaded there.
    pub(crate) fn start(options: Arc<Options>, modules: Arc<Modules>) -> Result<Self, Failure> {
        let shared = Arc::new(Shared {
            options,
            modules,
            state: Mutex::default(),
            in_flight: AtomicUsize::new(0),
        });
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let own = Self(shared);
        own.0.spawn(&mut own.0.state.lock(), Some(sender))?;
        let time_max = own.0.options.limits.time_max;
        match receiver.recv_timeout(time_max) {
            Ok(loaded) => loaded?,
            Err(_) => {
                return Err(Failure::Broken {
                    reason: format!("it is not loaded after {time_max:?} (time_max)"),
                });
            }
        }
        Ok(own)
    }

    /// Has a request answered: the payload of a REQUEST frame, with all of the body.
    pub(crate) fn submit(&self, payload: Vec<u8>, deadline: Option<Instant>) -> Result<Awaited, Failure> {
        let shared = &self.0;
        let in_flight_max = shared.options.limits.in_flight_max;
        let (reply, receiver) = oneshot::channel();
        let before = shared.in_flight.fetch_add(1, Ordering::AcqRel);
        let in_flight = InFlight(shared.clone());
        let counts = &shared.options.counts;
        let queued = if before >= in_flight_max {
            Err(Failure::Busy { in_flight_max })
        } else {
            self.queue(Job {
                payload,
                deadline,
                reply,
                queued: Queued::new(counts.clone()),
            })
        };
        queued.inspect_err(|failure| counts.failure(failure))?;
        Ok(Awaited {
            reply: receiver,
            in_flight: Some(in_flight),
            counts: Some(counts.clone()),
        })
    }

    fn queue(&self, job: Job) -> Result<(), Failure> {
        let mut state = self.0.state.lock();
        self.0.call_thread(&mut state)?;
        if state.members.is_empty() {
            return Err(stuck());
        }
        state.queue.push_back(job);
        Ok(())
    }
}

impl Drop for Executors {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.ends = true;
        if let Some(watchdog) = state.watchdog.take() {
            watchdog.unpark();
        }
        for member in &state.members {
            member.wake.notify_one();
        }
    }
}

/// No thread is left, and none is made.
fn stuck() -> Failure {
    Failure::Broken {
        reason: format!("{GIVEN_UP_MAX} of its calls cannot be stopped"),
    }
}

impl Shared {
    /// Has a thread take a job that waits, or is about to: one that does nothing, or another one. Where there is none, the next whose step is
    /// over takes it.
    fn call_thread(self: &Arc<Self>, state: &mut State) -> Result<(), Failure> {
        if let Some(member) = state.idle.pop() {
            member.wake.notify_one();
            return Ok(());
        }
        let is_full = state.members.len() >= self.options.limits.executors || state.given_up >= GIVEN_UP_MAX;
        if is_full { Ok(()) } else { self.spawn(state, None) }
    }

    fn spawn(
        self: &Arc<Self>,
        state: &mut State,
        loaded: Option<std::sync::mpsc::SyncSender<Result<(), Failure>>>,
    ) -> Result<(), Failure> {
        state.serial += 1;
        let member = Arc::new(Member {
            serial: state.serial,
            ..Member::default()
        });
        let (shared, own) = (self.clone(), member.clone());
        let spawned = thread::Builder::new()
            .name(format!("script-{}", self.options.name))
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let mut place = ThreadPlace {
                    shared,
                    member: own,
                    failure: None,
                };
                place.failure = run(&place.shared, &place.member, loaded).err();
            });
        spawned.map_err(|error| Failure::Broken {
            reason: format!("no thread can be made: {error}"),
        })?;
        state.members.push(member);
        self.options.counts.threads.add(1);
        if state.watchdog.is_none() {
            let shared = Arc::downgrade(self);
            let watchdog = thread::Builder::new()
                .name("script-watchdog".into())
                .spawn(move || watch(&shared))
                .map_err(|error| Failure::Broken {
                    reason: format!("no thread can be made: {error}"),
                })?;
            state.watchdog = Some(watchdog.thread().clone());
        }
        Ok(())
    }

    /// The next job for a thread; `None` when all end.
    async fn next(&self, member: &Arc<Member>) -> Option<Job> {
        loop {
            {
                let mut state = self.state.lock();
                if let Some(job) = state.queue.pop_front() {
                    return Some(job);
                }
                if state.ends {
                    return None;
                }
                state.rests(member);
            }
            member.wake.notified().await;
        }
    }

    /// A thread goes on with a call that has waited: it takes no job until that step is over. A job for which it was called just now is
    /// another's.
    fn step_begins(self: &Arc<Self>, member: &Member) {
        let mut state = self.state.lock();
        // The watchdog looks as long as a script runs.
        if let Some(watchdog) = &state.watchdog {
            watchdog.unpark();
        }
        let before = state.idle.len();
        state.idle.retain(|other| other.serial != member.serial);
        if state.idle.len() == before
            && !state.queue.is_empty()
            && let Err(failure) = self.call_thread(&mut state)
        {
            tracing::error!(target: "forebay::script", script = self.options.name, "{failure}");
        }
    }

    /// The step is over, and the thread waits for a job again: perhaps one has come meanwhile.
    fn step_ends(&self, member: &Arc<Member>) {
        let mut state = self.state.lock();
        if state.queue.is_empty() {
            state.rests(member);
        } else {
            member.wake.notify_one();
        }
    }
}

/// A thread's place among the others, which it leaves however it ends.
struct ThreadPlace {
    shared: Arc<Shared>,
    member: Arc<Member>,
    /// Why it cannot do any calls.
    failure: Option<Failure>,
}

impl Drop for ThreadPlace {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if self.member.pulse.is_given_up() {
            state.given_up -= 1;
        }
        if state.leaves(&self.member) {
            self.shared.options.counts.threads.subtract(1);
        }
        if state.members.is_empty() {
            state.refuse_all(&self.failure.take().unwrap_or(Failure::GivenUp));
        }
    }
}

impl State {
    /// A thread takes no jobs any more; says whether it did before.
    fn leaves(&mut self, member: &Member) -> bool {
        let before = self.members.len();
        self.members.retain(|other| other.serial != member.serial);
        self.idle.retain(|other| other.serial != member.serial);
        self.members.len() < before
    }

    /// Answers the jobs that nobody will do.
    fn refuse_all(&mut self, failure: &Failure) {
        for job in self.queue.drain(..) {
            // Who does not wait any more does not mind.
            let _ = job.reply.send(Err(failure.clone()));
        }
    }

    /// A thread does nothing, unless it has been given up.
    fn rests(&mut self, member: &Arc<Member>) {
        let is = |other: &Arc<Member>| other.serial == member.serial;
        if self.members.iter().any(is) && !self.idle.iter().any(is) {
            self.idle.push(member.clone());
        }
    }
}

/// Looks for threads that hang. It rests while none runs a script.
fn watch(shared: &std::sync::Weak<Shared>) {
    loop {
        let Some(shared) = shared.upgrade() else { return };
        let members = {
            let state = shared.state.lock();
            if state.ends {
                return;
            }
            state.members.clone()
        };
        let now = now_ms();
        for member in &members {
            if member.pulse.is_overdue(now) {
                give_up(&shared, member);
            }
        }
        let is_quiet = members.iter().all(|member| member.pulse.is_resting());
        drop((members, shared));
        if is_quiet {
            // Whoever begins a step when this rests wakes it, unless it was about to rest just then.
            thread::park_timeout(REST);
        } else {
            thread::park_timeout(LOOK);
        }
    }
}

/// Does without a thread whose script does not stop.
fn give_up(shared: &Arc<Shared>, member: &Member) {
    {
        let mut state = shared.state.lock();
        if !state.leaves(member) {
            return;
        }
        state.given_up += 1;
        shared.options.counts.threads.subtract(1);
        shared.options.counts.thread_given_up();
        member.pulse.give_up();
        // Another takes its place, if anybody waits for one.
        if !state.queue.is_empty()
            && let Err(failure) = shared.call_thread(&mut state)
        {
            tracing::error!(target: "forebay::script", script = shared.options.name, "{failure}");
        }
        if state.members.is_empty() {
            state.refuse_all(&stuck());
        }
    }
    let limits = &shared.options.limits;
    let (limit, time) = if member.pulse.is_waiting() {
        ("time_max", limits.time_max)
    } else {
        ("cpu_max", limits.cpu_max)
    };
    let mut calls = member.calls.lock();
    let running = calls.running.take();
    tracing::error!(
        target: "forebay::script",
        script = shared.options.name,
        calls = calls.open.len(),
        "a call cannot be stopped, and its thread is given up ({limit} {time:?})"
    );
    for (key, waiter) in calls.open.drain() {
        let Waiter::Reply(reply) = waiter else { continue };
        let failure = if Some(key) == running {
            Failure::Time {
                limit,
                limit_ms: time.as_millis() as u64,
            }
        } else {
            Failure::GivenUp
        };
        // Who does not wait any more does not mind.
        let _ = reply.send(Err(failure));
    }
}

/// Runs scripts until all end or this thread is given up; fails when it cannot run any.
fn run(
    shared: &Arc<Shared>,
    member: &Arc<Member>,
    loaded: Option<std::sync::mpsc::SyncSender<Result<(), Failure>>>,
) -> Result<(), Failure> {
    let executor = Rc::new(Executor {
        shared: shared.clone(),
        member: member.clone(),
        current: RefCell::default(),
        serial: Cell::new(0),
        work: Rc::default(),
        fetcher: Rc::new(Fetcher::new(shared.options.clone())),
        given_up: Notify::new(),
        is_waiting: Cell::new(false),
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
        // Who started it may have stopped waiting.
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

/// What a thread works with.
struct Executor {
    shared: Arc<Shared>,
    member: Arc<Member>,
    current: RefCell<Option<Engine>>,
    /// Engines that were made here.
    serial: Cell<u32>,
    work: Rc<Work>,
    fetcher: Rc<Fetcher>,
    /// Told when a call that had waited is over at last, and nobody waits for this thread any more.
    given_up: Notify,
    /// Whether it waits for a job, or does what comes in between.
    is_waiting: Cell<bool>,
}

/// An engine of a thread, and which it is.
#[derive(Clone)]
struct Engine {
    serial: u32,
    instance: Rc<Instance>,
}

impl Executor {
    /// Makes an engine that new calls go to.
    fn fresh(&self) -> Result<Engine, Failure> {
        let place = Place::Executor(self.member.pulse.clone());
        self.current.take();
        let instance = Instance::load(&self.shared.options, &self.shared.modules, &place)?;
        self.serial.set(self.serial.get() + 1);
        let engine = Engine {
            serial: self.serial.get(),
            instance: Rc::new(instance),
        };
        *self.current.borrow_mut() = Some(engine.clone());
        Ok(engine)
    }

    async fn next(&self) -> Option<Job> {
        self.is_waiting.set(true);
        let job = self.shared.next(&self.member).await;
        self.is_waiting.set(false);
        job
    }

    fn start(self: &Rc<Self>, job: Job) {
        let Job {
            payload,
            deadline,
            reply,
            queued,
        } = job;
        drop(queued);
        if reply.is_closed() {
            return;
        }
        let engine = match self.engine() {
            Ok(engine) => engine,
            Err(failure) => {
                tracing::error!(target: "forebay::script", script = self.shared.options.name, "{failure}");
                let _ = reply.send(Err(failure));
                return;
            }
        };
        let id = match engine.instance.open(payload, deadline) {
            Ok(id) => id,
            Err(failure) => {
                let _ = reply.send(Err(failure));
                return;
            }
        };
        let key = (engine.serial, id);
        self.member.calls.lock().open.insert(key, Waiter::Reply(reply));
        let cpu_max = self.shared.options.limits.cpu_max;
        let step = self.step(key, &engine, |instance| instance.run(id, cpu_max));
        let is_light = step.took * LIGHT_PART <= self.shared.options.limits.io_cpu_max
            && !engine.instance.take_elsewhere();
        self.settle(&engine, is_light);
        if let Some(Waiter::Reply(_)) = self.member.calls.lock().open.get(&key) {
            self.limit(key, &engine, deadline);
        }
        if self.shared.options.limits.isolated {
            self.current.take();
            // The next call need not wait for it. A failure is met again by that.
            drop(self.fresh());
        } else {
            self.replace_if_needed(&engine.instance, &step);
        }
    }

    /// Goes on with a call that has waited for something.
    fn resume(self: &Rc<Self>, key: CallKey, engine: &Engine, wait: WaitId, came: Came) {
        let step = self.step(key, engine, |instance| instance.resume(key.1, wait, came));
        self.settle(engine, false);
        self.replace_if_needed(&engine.instance, &step);
    }

    fn step(&self, key: CallKey, engine: &Engine, step: impl FnOnce(&Instance) -> Step) -> Step {
        self.member.calls.lock().running = Some(key);
        self.shared.step_begins(&self.member);
        let step = step(&engine.instance);
        self.member.calls.lock().running = None;
        if self.member.pulse.is_given_up() {
            self.given_up.notify_one();
        } else if self.is_waiting.get() {
            self.shared.step_ends(&self.member);
        }
        step
    }

    fn engine(&self) -> Result<Engine, Failure> {
        if let Some(engine) = &*self.current.borrow() {
            return Ok(engine.clone());
        }
        self.fresh()
    }

    /// After a step: hands on what has come to an end, and sets about what is waited for.
    fn settle(self: &Rc<Self>, engine: &Engine, is_light: bool) {
        while let Some(mut over) = engine.instance.next_over() {
            let key = (engine.serial, over.id);
            let waiter = self.member.calls.lock().open.remove(&key);
            if let Ok(answer) = &mut over.outcome {
                answer.is_light = is_light;
                if let Body::Stream(stream) = &mut answer.body
                    && engine.instance.outlet(over.id).is_some()
                {
                    let (there, thread) = oneshot::channel();
                    stream.thread = Some(thread);
                    self.member.calls.lock().open.insert(key, Waiter::Stream(there));
                    self.look_after_stream(key, engine);
                } else {
                    self.work.end(key);
                }
            } else {
                self.work.end(key);
            }
            if let Some(Waiter::Reply(reply)) = waiter {
                // Who does not wait any more does not mind.
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

    fn set_about(self: &Rc<Self>, engine: &Engine, Want { call, wait, what }: Want) {
        let key = (engine.serial, call);
        if !self.member.calls.lock().open.contains_key(&key) {
            return;
        }
        let (own, engine) = (self.clone(), engine.clone());
        let (task, demand) = match what {
            What::Turn => {
                let task = tokio::task::spawn_local(async move {
                    own.came(key, &engine, wait, Came::Nothing);
                });
                (task, None)
            }
            What::Time(time) => {
                let until = tokio::time::Instant::now() + time;
                let task = tokio::task::spawn_local(async move {
                    tokio::time::sleep_until(until).await;
                    own.came(key, &engine, wait, Came::Nothing);
                });
                (task, None)
            }
            What::Room(piece) => {
                let Some(outlet) = engine.instance.outlet(call) else {
                    return;
                };
                let task = tokio::task::spawn_local(async move {
                    outlet.wait(piece).await;
                    own.came(key, &engine, wait, Came::Nothing);
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
                        own.came(key, &engine, wait, Came::Piece(None));
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

    /// What a call has waited for has come.
    fn came(self: &Rc<Self>, key: CallKey, engine: &Engine, wait: WaitId, came: Came) {
        // This ends the task that has called, when it next waits, which it does not. The script may wait under the same number again.
        self.work.remove(key, wait);
        self.resume(key, engine, wait, came);
    }

    /// Fetches, and reads what answers it as the call asks for it.
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
                self.resume(key, engine, wait, Came::Head(Box::new(head)));
                answer
            }
            Err(error) => return self.came(key, engine, wait, Came::Failed(error)),
        };
        while let Some(wait) = demands.recv().await {
            let came = match answer.next().await {
                Ok(piece) => Came::Piece(piece),
                Err(error) => Came::Failed(error),
            };
            self.resume(key, engine, wait, came);
        }
    }

    /// Sees to it that a call that waits comes to an end.
    fn limit(self: &Rc<Self>, key: CallKey, engine: &Engine, deadline: Option<Instant>) {
        let time_max = self.shared.options.limits.time_max;
        let until = Instant::now() + time_max;
        let until = deadline.map_or(until, |deadline| deadline.min(until));
        let (own, engine) = (self.clone(), engine.clone());
        let guard = tokio::task::spawn_local(async move {
            let gone = tokio::select! {
                () = own.gone(key) => match deadline {
                    Some(deadline) if Instant::now() >= deadline => Gone::Deadline,
                    _ => Gone::Client,
                },
                () = tokio::time::sleep_until(until.into()) => Gone::Deadline,
            };
            engine.instance.fail(
                key.1,
                Failure::Time {
                    limit: "time_max",
                    limit_ms: time_max.as_millis() as u64,
                },
            );
            own.settle(&engine, false);
            own.abort(key, &engine, gone);
        });
        self.work.guard(key, guard.abort_handle());
    }

    /// The same for a call whose answer has begun: time alone does not end it.
    fn look_after_stream(self: &Rc<Self>, key: CallKey, engine: &Engine) {
        let (own, engine) = (self.clone(), engine.clone());
        let guard = tokio::task::spawn_local(async move {
            own.gone(key).await;
            own.abort(key, &engine, Gone::Client);
        });
        self.work.guard(key, guard.abort_handle());
    }

    /// Waits until nobody waits for a call.
    async fn gone(&self, key: CallKey) {
        poll_fn(|cx| match self.member.calls.lock().open.get_mut(&key) {
            Some(waiter) => waiter.poll_closed(cx),
            None => Poll::Ready(()),
        })
        .await;
    }

    /// Ends a call that nobody waits for.
    fn abort(self: &Rc<Self>, key: CallKey, engine: &Engine, gone: Gone) {
        engine.instance.close(key.1);
        let step = self.step(key, engine, |instance| instance.abort(key.1, gone));
        self.settle(engine, false);
        self.replace_if_needed(&engine.instance, &step);
        self.member.calls.lock().open.remove(&key);
        // This ends the task that has called: there is nothing after it.
        self.work.end(key);
    }

    /// An engine that was stopped, or has used up its memory, gets no further calls; those that it has open go on.
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
