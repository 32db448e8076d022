//! Threads that run scripts. Each has an engine, and may have many open calls that wait for something. A thread whose script cannot be
//! stopped is abandoned: its calls are answered, and another thread replaces it. A transaction that it has begun stays open until the step
//! ends, because it belongs to the thread.

use std::{
    collections::BTreeMap,
    sync::Arc,
    task::Poll,
    thread::{self, Thread},
    time::{Duration, Instant},
};

use forebay_trace::{Kind, Span, Trace};
use forebay_workflow::{Begin, Priority, RunInput};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::{
    Failure,
    calls::Outcome,
    counts::Counts,
    in_flight::{InFlight, Load},
    member::{self, ExecutorThread},
    modules::Modules,
    options::Options,
    rules::engine::RuleEngine,
    watchdog,
};

/// Maximum number of hanging threads; beyond that, abandoned threads are not replaced.
const GIVEN_UP_MAX: usize = 16;
/// Number of queued jobs, from the last, that are searched for one to displace.
const DISPLACED_AMONG: usize = 256;
/// Stack size of a thread in bytes; the engine uses a part of it.
pub(crate) const STACK_BYTES: usize = 2 << 20;

/// Delay added to the arrival of a call. Others may overtake it for this long, so that no call is overtaken forever.
fn handicap(priority: Priority) -> Duration {
    match priority {
        Priority::High => Duration::ZERO,
        Priority::Normal => Duration::from_secs(1),
        Priority::Low => Duration::from_secs(4),
    }
}

/// The work of a call.
pub(crate) enum Request {
    /// Answer a request: the payload of a REQUEST frame, with the complete body.
    Handler(Vec<u8>),
    /// Do a run of rules.
    Run(RunInput, Begin<RuleEngine>),
}

impl Request {
    /// Size of its request.
    fn bytes(&self) -> usize {
        match self {
            Self::Handler(payload) => payload.len(),
            Self::Run(input, _) => input.bytes(),
        }
    }
}

/// A job's position in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    /// Arrival plus the handicap of its priority.
    counted_from: Instant,
    arrival: u64,
}

/// A request that waits for a thread.
pub(crate) struct Job {
    pub(crate) priority: Priority,
    pub(crate) request: Request,
    pub(crate) deadline: Option<Instant>,
    pub(crate) reply: oneshot::Sender<Outcome>,
    pub(crate) queued: Queued,
    pub(crate) in_flight: InFlight,
    pub(crate) traced: Option<Traced>,
}

/// A traced request.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) trace: Trace,
    /// Since when its handler has it; before that, since when it waits.
    pub(crate) since: Instant,
}

impl Traced {
    fn begin() -> Option<Self> {
        forebay_trace::current().map(|trace| Self {
            trace,
            since: Instant::now(),
        })
    }

    /// Records the wait: a thread takes the request.
    pub(crate) fn taken(&mut self) {
        let now = Instant::now();
        self.trace
            .record(Span::new(Kind::Queue, "executor", self.since, now));
        self.since = now;
    }

    /// Records the handler: the answer is ready.
    pub(crate) fn over(self) {
        self.trace
            .record(Span::new(Kind::Handler, "script", self.since, Instant::now()));
    }
}

impl Job {
    /// Answers a job that was not run. Its capacity is released first, so that it is available when the answer arrives.
    pub(crate) fn refuse(self, failure: Failure) {
        drop((self.in_flight, self.queued));
        // The client may have left.
        let _ = self.reply.send(Err(failure));
    }
}

/// Counts a job as queued while it exists.
#[derive(Debug)]
pub(crate) struct Queued(Arc<Counts>);

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

/// The threads of one script.
pub(crate) struct Executors(Arc<Shared>);

impl std::fmt::Debug for Executors {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Executors").finish_non_exhaustive()
    }
}

pub(crate) struct Shared {
    pub(crate) options: Arc<Options>,
    pub(crate) modules: Arc<Modules>,
    pub(crate) state: Mutex<State>,
    load: Arc<Load>,
    /// Number of threads, without abandoned ones.
    pub(crate) threads: watch::Sender<usize>,
}

#[derive(Default)]
pub(crate) struct State {
    /// Queued jobs, in the order of their turns.
    pub(crate) queue: BTreeMap<Turn, Job>,
    arrivals: u64,
    pub(crate) members: Vec<Arc<ExecutorThread>>,
    /// Idle threads, which take a job as soon as they are woken; the one that became idle last is woken first.
    idle: Vec<Arc<ExecutorThread>>,
    pub(crate) given_up: usize,
    /// Whether the last attempt to start a thread failed.
    lacks_thread: bool,
    serial: usize,
    watchdog: Option<Thread>,
    pub(crate) ends: bool,
}

/// A pending answer. Dropping it cancels the call.
pub struct Awaited {
    reply: oneshot::Receiver<Outcome>,
    deadline: Option<Instant>,
    shared: Arc<Shared>,
    turn: Turn,
    /// Taken once the outcome is counted.
    counts: Option<Arc<Counts>>,
}

impl std::fmt::Debug for Awaited {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Awaited").finish_non_exhaustive()
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if let Some(counts) = self.counts.take() {
            // The waiting task notices the deadline by its own clock, perhaps before the thread does.
            if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                counts.failure(&Failure::DeadlinePassed);
            } else {
                counts.cancelled();
            }
            let job = self.shared.state.lock().queue.remove(&self.turn);
            drop(job);
        }
    }
}

impl Future for Awaited {
    type Output = Outcome;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Outcome> {
        let reply = std::pin::Pin::new(&mut self.reply).poll(cx);
        reply.map(|reply| {
            let outcome = reply.unwrap_or(Err(Failure::GivenUp));
            if let Some(counts) = self.counts.take() {
                counts.outcome_on_executor(&outcome);
            }
            outcome
        })
    }
}

impl Executors {
    /// Starts the first thread, and waits until it has loaded the script.
    pub(crate) fn start(options: Arc<Options>, modules: Arc<Modules>) -> Result<Self, Failure> {
        let shared = Arc::new(Shared {
            options,
            modules,
            state: Mutex::default(),
            load: Arc::default(),
            threads: watch::Sender::default(),
        });
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let own = Self(shared);
        own.0.spawn(&mut own.0.state.lock(), Some(sender))?;
        let (load_max, limit) = own.0.options.load_max();
        match receiver.recv_timeout(load_max) {
            Ok(loaded) => loaded?,
            Err(_) => {
                return Err(Failure::Broken {
                    reason: format!("it is not loaded after {load_max:?} ({limit})"),
                });
            }
        }
        Ok(own)
    }

    /// Submits a call.
    pub(crate) fn submit(
        &self,
        request: Request,
        deadline: Option<Instant>,
        priority: Priority,
    ) -> Result<Awaited, Failure> {
        let shared = &self.0;
        let counts = &shared.options.counts;
        let (reply, receiver) = oneshot::channel();
        let bytes = request.bytes();
        let begin_flight = || InFlight::begin(&shared.load, bytes, &shared.options.limits);
        let in_flight = begin_flight().or_else(|failure| match failure {
            Failure::Busy { .. } if shared.displaces(priority, &failure) => begin_flight(),
            failure => Err(failure),
        });
        let turn = in_flight.and_then(|in_flight| {
            self.queue(Job {
                priority,
                request,
                deadline,
                reply,
                queued: Queued::new(counts.clone()),
                in_flight,
                traced: Traced::begin(),
            })
        });
        Ok(Awaited {
            reply: receiver,
            deadline,
            shared: shared.clone(),
            turn: turn.inspect_err(|failure| counts.failure(failure))?,
            counts: Some(counts.clone()),
        })
    }

    fn queue(&self, job: Job) -> Result<Turn, Failure> {
        let mut state = self.0.state.lock();
        self.0.call_thread(&mut state)?;
        if state.members.is_empty() {
            return Err(stuck());
        }
        state.arrivals += 1;
        let turn = Turn {
            counted_from: Instant::now() + handicap(job.priority),
            arrival: state.arrivals,
        };
        state.queue.insert(turn, job);
        Ok(turn)
    }

    /// The load: calls in flight.
    pub(crate) fn load(&self) -> Arc<Load> {
        self.0.load.clone()
    }

    /// Ends the threads after they have run all queued jobs. Calls that are still open then are cancelled.
    pub(crate) fn stop(&self) {
        let mut state = self.0.state.lock();
        state.ends = true;
        if let Some(watchdog) = state.watchdog.take() {
            watchdog.unpark();
        }
        for member in &state.members {
            member.wake.notify_one();
        }
    }

    /// Waits until no thread is left, except abandoned ones.
    pub(crate) async fn stopped(&self) {
        let mut threads = self.0.threads.subscribe();
        // The sender lives as long as `self`.
        let _ = threads.wait_for(|threads| *threads == 0).await;
    }
}

impl Drop for Executors {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The failure of jobs if no thread is left and none can be started.
pub(crate) fn stuck() -> Failure {
    Failure::Broken {
        reason: format!("{GIVEN_UP_MAX} of its calls cannot be stopped"),
    }
}

impl Shared {
    /// If a queued job has a lower priority than this one, for which there is no room, refuses it: the last of those with the lowest
    /// priority. Returns whether it has refused one.
    fn displaces(&self, priority: Priority, failure: &Failure) -> bool {
        let mut state = self.state.lock();
        let last = state.queue.iter().rev().take(DISPLACED_AMONG);
        let lower = last.filter(|(_, job)| job.priority > priority);
        let lowest = lower.reduce(|lowest, job| {
            if job.1.priority > lowest.1.priority {
                job
            } else {
                lowest
            }
        });
        let turn = lowest.map(|(turn, _)| *turn);
        let displaced = turn.and_then(|turn| state.queue.remove(&turn));
        drop(state);
        displaced.map(|job| job.refuse(failure.clone())).is_some()
    }

    /// Wakes a thread for a queued job, or for one about to be queued: an idle thread or a new one. If there is none, the next thread that
    /// finishes a step takes the job.
    pub(crate) fn call_thread(self: &Arc<Self>, state: &mut State) -> Result<(), Failure> {
        if let Some(member) = state.idle.pop() {
            member.wake.notify_one();
            return Ok(());
        }
        let is_full = state.members.len() >= self.options.limits.executors || state.given_up >= GIVEN_UP_MAX;
        if is_full {
            return Ok(());
        }
        match self.spawn(state, None) {
            // The existing threads run it.
            Err(failure) if !state.members.is_empty() => {
                if !std::mem::replace(&mut state.lacks_thread, true) {
                    tracing::warn!(target: "forebay::script", script = self.options.name, "goes on with fewer threads than it may have: {failure}");
                }
                Ok(())
            }
            spawned => {
                state.lacks_thread = false;
                spawned
            }
        }
    }

    fn spawn(
        self: &Arc<Self>,
        state: &mut State,
        loaded: Option<std::sync::mpsc::SyncSender<Result<(), Failure>>>,
    ) -> Result<(), Failure> {
        if state.watchdog.is_none() {
            let shared = Arc::downgrade(self);
            let watchdog = thread::Builder::new()
                .name("script-watchdog".into())
                .spawn(move || watchdog::watch(&shared))
                .map_err(|error| Failure::Broken {
                    reason: format!("no thread can be made: {error}"),
                })?;
            state.watchdog = Some(watchdog.thread().clone());
        }
        state.serial += 1;
        let member = Arc::new(ExecutorThread {
            serial: state.serial,
            ..ExecutorThread::default()
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
                place.failure = member::run(&place.shared, &place.member, loaded).err();
            });
        spawned.map_err(|error| Failure::Broken {
            reason: format!("no thread can be made: {error}"),
        })?;
        state.members.push(member);
        self.options.counts.threads.add(1);
        self.threads.send_replace(state.members.len());
        Ok(())
    }

    /// Waits for the thread's next job, once it has room for one; `None` when all threads end.
    pub(crate) async fn next(
        self: &Arc<Self>,
        member: &Arc<ExecutorThread>,
        has_room: impl Fn() -> bool,
    ) -> Option<Job> {
        loop {
            {
                let mut state = self.state.lock();
                if state.ends && state.queue.is_empty() {
                    return None;
                }
                if has_room() {
                    if let Some((_, job)) = state.queue.pop_first() {
                        // It may have been woken for another job, which a different thread has taken.
                        state.rests_no_more(member);
                        return Some(job);
                    }
                    state.rests(member);
                } else {
                    // Another thread may have room; otherwise the job waits.
                    self.leave_to_others(&mut state, member);
                }
            }
            member.wake.notified().await;
        }
    }

    /// Marks a thread as busy resuming a call: it takes no job until that step ends. If it was just woken for a job, another thread
    /// gets the job.
    pub(crate) fn step_begins(self: &Arc<Self>, member: &ExecutorThread) {
        let mut state = self.state.lock();
        if !state.rests_no_more(member) {
            self.leave_to_others(&mut state, member);
        }
    }

    /// A thread takes no job; if one waits, another is called.
    fn leave_to_others(self: &Arc<Self>, state: &mut State, member: &ExecutorThread) {
        state.rests_no_more(member);
        if !state.queue.is_empty()
            && let Err(failure) = self.call_thread(state)
        {
            tracing::error!(target: "forebay::script", script = self.options.name, "{failure}");
        }
    }

    /// The step is over, and the thread waits for a job again: perhaps one has come meanwhile.
    pub(crate) fn step_ends(&self, member: &Arc<ExecutorThread>) {
        let mut state = self.state.lock();
        if state.queue.is_empty() {
            state.rests(member);
        } else {
            member.wake.notify_one();
        }
    }
}

/// Registration of a thread, which is removed however the thread ends.
struct ThreadPlace {
    shared: Arc<Shared>,
    member: Arc<ExecutorThread>,
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
            self.shared.threads.send_replace(state.members.len());
        }
        if state.members.is_empty() {
            state.refuse_all(&self.failure.take().unwrap_or(Failure::GivenUp));
        }
    }
}

impl State {
    /// A thread takes no jobs any more; says whether it did before.
    pub(crate) fn leaves(&mut self, member: &ExecutorThread) -> bool {
        let before = self.members.len();
        self.members.retain(|other| other.serial != member.serial);
        self.rests_no_more(member);
        self.members.len() < before
    }

    /// Refuses all queued jobs, which no thread will run.
    pub(crate) fn refuse_all(&mut self, failure: &Failure) {
        for job in std::mem::take(&mut self.queue).into_values() {
            job.refuse(failure.clone());
        }
    }

    /// Removes a thread from the idle ones; returns whether it was among them.
    fn rests_no_more(&mut self, member: &ExecutorThread) -> bool {
        let before = self.idle.len();
        self.idle.retain(|other| other.serial != member.serial);
        self.idle.len() < before
    }

    /// A thread does nothing, unless it has been given up.
    fn rests(&mut self, member: &Arc<ExecutorThread>) {
        let is = |other: &Arc<ExecutorThread>| other.serial == member.serial;
        if self.members.iter().any(is) && !self.idle.iter().any(is) {
            self.idle.push(member.clone());
        }
    }
}
