//! An engine with a loaded script, on one thread.

use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_workflow::{Begin, RunInput};
use rquickjs::{
    CatchResultExt as _, CaughtError, Context, Ctx, Function, Module, Object, Promise, Runtime,
    promise::PromiseState,
};

use crate::{
    Failure, Weight,
    budget::{Budget, Clock, Pulse},
    calls::{CallId, Calls, Input, Over, Until},
    counts::CountedEngine,
    entry::Entry,
    fiber::{Fiber, Outcome, Progress, Signal, measure_stack_from_here},
    host::{self, Host, ReadRecord, StoreHost, last_commit},
    host_ops::{HostOp, OpResult, WaitId},
    modules::{MAIN, ModuleLoader, Modules, RULES_MAIN},
    options::{Options, Program},
    rejections::Rejections,
    rules::engine::{RuleEngine, RunDriver},
    stream::Outlet,
    sys::{Meter, Metered},
    text,
};

/// Stack size for scripts in bytes. The stacks of threads are larger.
const STACK_BYTES: usize = 512 * 1024;
/// CPU time limit for loading the script on an I/O thread.
const IO_LOAD_MAX: Duration = Duration::from_millis(25);
/// CPU time limit for cleaning up after a call.
const CLEAN_MAX: Duration = Duration::from_millis(100);
/// Time limit for stopping the remains of a rule that was stopped.
const STOP_REST_MAX: Duration = Duration::from_millis(10);
/// Memory that a call may add on an I/O thread, in bytes. What takes more may also take long in a single operation.
const IO_GROWTH_BYTES_MAX: usize = 2 << 20;

/// The kind of thread on which an engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A thread that others wait for: one call at a time, in a single step.
    Io,
    /// A thread that others wait for, with calls that wait for statements that change nothing.
    IoWaiting,
    /// A thread of its own, which can be abandoned.
    Executor,
}

impl Place {
    /// Whether others wait for the thread.
    pub(crate) fn is_on_io(self) -> bool {
        self != Self::Executor
    }
}

/// An engine with its script and its calls.
pub(crate) struct Instance {
    entry: Rc<Entry>,
    rejections: Rc<Rejections>,
    context: Context,
    host: Rc<Host>,
    budget: Rc<Budget>,
    meter: Rc<Meter>,
    counted: CountedEngine,
    // Dropped last: everything above belongs to it.
    runtime: Runtime,
    on_io: bool,
    /// Whether no step was interrupted.
    is_sound: Cell<bool>,
    /// Whether a step has entered the engine since it was loaded or cleaned.
    is_used: Cell<bool>,
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Instance").finish_non_exhaustive()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.cancel();
        self.host.store.end();
        self.host.driver.end();
        self.rejections.end();
    }
}

/// The reason why a call was cancelled. The numbers are those of ABORT frames (`protocol/PROTOCOL.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    Client = 1,
    Deadline = 2,
}

/// The result of a step.
#[derive(Debug)]
pub(crate) struct Step {
    /// Duration of the step: CPU time if that is charged, otherwise wall time.
    pub(crate) took: Duration,
    /// The reason why it was stopped.
    pub(crate) stopped: Option<Failure>,
}

impl Instance {
    /// Creates an engine and loads the script into it.
    pub(crate) fn load(
        options: &Arc<Options>,
        modules: &Arc<Modules>,
        place: Place,
        pulse: Arc<Pulse>,
    ) -> Result<Self, Failure> {
        let broken = |reason: String| Failure::Broken { reason };
        let meter = Meter::new(options.limits.memory_max);
        let runtime =
            Runtime::new_with_alloc(Metered(meter.clone())).map_err(|error| broken(error.to_string()))?;
        runtime.set_max_stack_size(STACK_BYTES);
        runtime.set_loader(ModuleLoader(modules.clone()), ModuleLoader(modules.clone()));
        // Loading is charged by CPU time everywhere: a busy machine says nothing about the script.
        let on_io = place.is_on_io();
        let (load_max, limit) = if on_io {
            (IO_LOAD_MAX, "for an I/O thread")
        } else {
            options.load_max()
        };
        let budget = Budget::new(Clock::Processor, pulse);
        let budget = Rc::new(if options.program == Program::Rules {
            budget.ending_with_calls()
        } else {
            budget
        });
        let own = budget.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || own.is_over())));
        let context = Context::full(&runtime).map_err(|error| broken(error.to_string()))?;
        let fiber = options.blocks_rules.then(Fiber::new).transpose();
        let fiber =
            fiber.map_err(|error| broken(format!("there is no stack for rules that wait: {error}")))?;
        let host = Rc::new(Host {
            options: options.clone(),
            calls: RefCell::new(Calls::default()),
            store: StoreHost::new(on_io, budget.clone()),
            declared: host::DeclaredReads::default(),
            driver: host::DriverHost::new(budget.clone()),
            fiber: fiber.map(Rc::new),
            entry: OnceCell::new(),
            place,
            wants: RefCell::default(),
        });
        let rejections = Rejections::watch(&runtime);
        // With one call at a time, promises need not be attributed.
        if place != Place::Io && options.program != Program::Rules {
            host::mark_promises(&runtime, &host);
        }
        let until = Instant::now() + options.load_max().0;
        let turn = budget.begin(load_max, Some(until));
        let entry = context.with(|ctx| {
            let loaded = load_script(&ctx, &host);
            loaded.catch(&ctx).map_err(|error| describe(&error))
        });
        let took = budget.end(turn);

        let entry = entry.map_err(|reason| {
            // There will be no instance whose end would release these.
            host.store.end();
            rejections.end();
            broken(if budget.was_overrun() {
                format!("it is not loaded after {load_max:?} ({limit})")
            } else if meter.take_refused() {
                format!(
                    "it needs more memory than {} bytes (memory_max)",
                    options.limits.memory_max
                )
            } else {
                reason
            })
        })?;
        rejections.end();
        let entry = Rc::new(entry);
        let _ = host.entry.set(Rc::downgrade(&entry));
        if on_io {
            budget.charge_by(Clock::Passing);
        } else {
            modules.note_load(took);
        }
        Ok(Self {
            entry,
            rejections,
            context,
            host,
            budget,
            counted: {
                let counted = CountedEngine::new(options.counts.clone());
                counted.uses(meter.used());
                counted
            },
            meter,
            runtime,
            on_io,
            is_sound: Cell::new(true),
            is_used: Cell::new(false),
        })
    }

    /// Opens a call for the payload of a REQUEST frame, with the complete body.
    pub(crate) fn open(&self, payload: Vec<u8>, deadline: Option<Instant>) -> CallId {
        self.open_call(Input::Request(payload), deadline)
    }

    /// Opens a call for a run.
    pub(crate) fn begin(
        &self,
        input: RunInput,
        begin: Begin<RuleEngine>,
        deadline: Option<Instant>,
    ) -> CallId {
        let id = self.open_call(Input::Run(input), deadline);
        self.host.driver.begin(id, RunDriver::new(begin));
        id
    }

    fn open_call(&self, input: Input, deadline: Option<Instant>) -> CallId {
        let time_max = self.host.options.limits.time_max;
        let opened = self.host.calls.borrow_mut().open(input, deadline, time_max);
        opened.expect("a call begins where there is room")
    }

    /// Whether no call is open.
    pub(crate) fn is_free(&self) -> bool {
        self.host.calls.borrow().is_empty() && !self.is_suspended()
    }

    /// Whether a rule waits in the middle of a function.
    fn is_suspended(&self) -> bool {
        self.host.fiber.as_ref().is_some_and(|fiber| fiber.is_suspended())
    }

    /// Ends the suspended step, if there is one, by an error that its code cannot outlast.
    fn cancel(&self) {
        if let Some(fiber) = self.host.fiber.as_ref().filter(|fiber| fiber.is_suspended()) {
            self.is_sound.set(false);
            let turn = self.budget.begin(Duration::ZERO, None);
            while matches!(fiber.resume(Signal::Cancel), Progress::Suspended) {}
            self.budget.end(turn);
        }
    }

    /// Cleans up after calls of rules, unless none of them has entered the engine. Returns false if no other call may use it.
    pub(crate) fn clean(&self) -> bool {
        if !self.is_used.get() {
            return self.is_sound();
        }
        let step = self.step(0, CLEAN_MAX, |ctx, entry, _| entry.clean(ctx));
        self.is_used.set(false);
        step.stopped.is_none() && self.is_sound()
    }

    /// Whether another call can be opened.
    pub(crate) fn has_room(&self) -> bool {
        self.host.calls.borrow().has_room()
    }

    /// The record that a GET request for this path asks for, if the script has declared the answer.
    pub(crate) fn read_declared(&self, path: &[u8]) -> Option<ReadRecord> {
        self.host.read_declared(path)
    }

    /// Runs the handler, or the rules, for an open call, with this time limit.
    pub(crate) fn run(&self, id: CallId, time_max: Duration) -> Step {
        let run = move |ctx: &Ctx<'_>, entry: &Entry, host: &Host| {
            let head = {
                let calls = host.calls.borrow();
                let (method, path) = calls.method_and_path(id);
                let mut head = smallvec::SmallVec::<[u8; 128]>::with_capacity(method.len() + path.len());
                head.extend_from_slice(method);
                head.extend_from_slice(path);
                text::from_latin1(ctx, &head)?
            };
            entry.run(ctx, id, head)
        };
        self.part(id, time_max, || {
            if self.host.answer_without_rules(id) {
                return Progress::Ended(Ok(()));
            }
            self.enter(id, run)
        })
    }

    /// Resumes a call with the result of a wait.
    pub(crate) fn resume(&self, id: CallId, wait: WaitId, came: OpResult) -> Step {
        let left = {
            let limits = &self.host.options.limits;
            let mut calls = self.host.calls.borrow_mut();
            calls.waited(id);
            calls.time_left(
                id,
                if self.on_io {
                    limits.io_cpu_max
                } else {
                    limits.cpu_max
                },
            )
        };
        if let Some(fiber) = self.host.fiber.as_ref().filter(|fiber| fiber.is_suspended()) {
            return self.part(id, left, || fiber.resume(Signal::Ended(wait, came)));
        }
        self.step(id, left, move |ctx, entry, host| {
            host.driver.resume(wait);
            entry.resume(ctx, id, wait, came)
        })
    }

    /// Tells a call, which has been closed, that it was cancelled.
    pub(crate) fn abort(&self, id: CallId, gone: Gone) -> Step {
        let limits = &self.host.options.limits;
        let cpu_max = if self.on_io {
            limits.io_cpu_max
        } else {
            limits.cpu_max
        };
        self.cancel();
        self.step(id, cpu_max, move |ctx, entry, _| {
            entry.abort(ctx, id, gone as u32)
        })
    }

    /// Runs a step of a call, and all jobs that follow from it. If the step has to be stopped, the call ends.
    fn step(
        &self,
        id: CallId,
        time_max: Duration,
        step: impl FnOnce(&Ctx<'_>, &Entry, &Host) -> rquickjs::Result<()> + 'static,
    ) -> Step {
        self.part(id, time_max, || self.enter(id, step))
    }

    /// Enters the engine for a step.
    fn enter(
        &self,
        id: CallId,
        step: impl FnOnce(&Ctx<'_>, &Entry, &Host) -> rquickjs::Result<()> + 'static,
    ) -> Progress {
        self.is_used.set(true);
        match &self.host.fiber {
            None => Progress::Ended(work(
                id,
                step,
                &self.context,
                (&self.entry, &self.host, &self.budget, &self.rejections),
            )),
            Some(fiber) => {
                let (context, entry, host) = (self.context.clone(), self.entry.clone(), self.host.clone());
                let (budget, rejections) = (self.budget.clone(), self.rejections.clone());
                fiber.run(move || work(id, step, &context, (&entry, &host, &budget, &rejections)))
            }
        }
    }

    /// Runs a part of a step, up to its end or until it is suspended.
    fn part(&self, id: CallId, time_max: Duration, part: impl FnOnce() -> Progress) -> Step {
        if self.on_io {
            let growth = self.meter.used().saturating_add(IO_GROWTH_BYTES_MAX);
            self.meter.limit(growth.min(self.host.options.limits.memory_max));
        }
        let until_call = (!self.on_io).then(|| self.until(id));
        self.host.store.enter(id);
        let turn = self.budget.begin(time_max, until_call.map(|until| until.at));
        let outcome = match part() {
            Progress::Ended(outcome) => outcome,
            Progress::Suspended => Ok(()),
        };
        let took = self.budget.end(turn);
        self.host.driver.end_step();
        {
            let mut calls = self.host.calls.borrow_mut();
            calls.charge(id, took);
            if self.on_io {
                calls.forget_gathered();
            } else {
                calls.send_gathered();
            }
        }
        let limits = &self.host.options.limits;
        let stopped = if self.budget.was_overrun() {
            let (limit, time) = if self.on_io {
                ("io_cpu_max", limits.io_cpu_max)
            } else {
                ("cpu_max", limits.cpu_max)
            };
            let late = until_call.filter(|_| self.budget.was_late());
            Some(late.map_or(
                Failure::Time {
                    limit,
                    limit_ms: time.as_millis() as u64,
                },
                |until| until.failure(limits.time_max),
            ))
        } else if self.meter.take_refused() {
            Some(Failure::Memory {
                memory_max: limits.memory_max,
            })
        } else if self.budget.a_rule_was_late() {
            // The call continues without that rule, and the engine is not used again after the call.
            self.is_sound.set(false);
            self.host.store.roll_back();
            None
        } else {
            outcome.err().map(|reason| Failure::Broken { reason })
        };
        if let Some(failure) = &stopped {
            self.is_sound.set(false);
            // A transaction that it was in the middle of can no longer be ended.
            self.host.store.roll_back();
            let request = self.host.calls.borrow().request_id(id);
            let is_told = self.host.calls.borrow_mut().stop(id, failure.clone());
            // A call that is stopped on an I/O thread is run again elsewhere.
            if !is_told && !self.on_io {
                self.host.log_stopped(request.as_deref(), failure);
            }
        }
        if self.is_suspended() && !self.host.calls.borrow().is_open(id) {
            self.cancel();
        }
        if self.host.options.program == Program::Rules && self.host.store.leave_nothing_open() {
            tracing::warn!(target: "forebay::script", "rules left a transaction of the store open, which was rolled back");
        }
        self.release();
        self.counted.uses(self.meter.used());
        Step { took, stopped }
    }

    /// Whether no step was interrupted.
    pub(crate) fn is_sound(&self) -> bool {
        self.is_sound.get()
    }

    /// The time limit of a call.
    pub(crate) fn until(&self, id: CallId) -> Until {
        let time_max = self.host.options.limits.time_max;
        self.host.calls.borrow().until(id, time_max)
    }

    /// Runs the stop hooks, unless a step was interrupted. No further steps follow.
    pub(crate) fn end(&self) {
        self.cancel();
        if !self.is_sound.get() {
            return;
        }
        let limits = &self.host.options.limits;
        self.host.store.enter(0);
        let until = Instant::now() + limits.time_max;
        let turn = self.budget.begin(limits.cpu_max, Some(until));
        let outcome = self.context.with(|ctx| {
            if self.host.fiber.is_some() {
                measure_stack_from_here(&ctx);
            }
            let stopped = self.entry.stop(&ctx).and_then(|stopped| {
                while !self.budget.is_over()
                    && stopped.state() == PromiseState::Pending
                    && ctx.execute_pending_job()
                {}
                stopped.result::<()>().transpose()
            });
            stopped.catch(&ctx).map_err(|error| describe(&error))
        });
        self.budget.end(turn);
        self.host.store.roll_back();
        let what = match outcome {
            _ if self.budget.was_late() => format!("it is not over after {:?} (time_max)", limits.time_max),
            _ if self.budget.was_overrun() => format!("it is not over after {:?} (cpu_max)", limits.cpu_max),
            Ok(Some(())) => return,
            Ok(None) => "it waits for something that does not come about any more".into(),
            Err(reason) => reason,
        };
        let script = &*self.host.options.name;
        tracing::error!(target: "forebay::script", script, "onStop failed: {what}");
    }

    /// The next finished call.
    pub(crate) fn next_over(&self) -> Option<Over> {
        let mut over = self.host.calls.borrow_mut().next_over()?;
        if let Ok(answer) = &mut over.outcome {
            answer.commit = last_commit();
        }
        Some(over)
    }

    /// The next call that has ended after its answer had begun.
    pub(crate) fn next_ended(&self) -> Option<CallId> {
        self.host.calls.borrow_mut().next_ended()
    }

    /// Takes the operations that calls requested in the last step.
    pub(crate) fn take_wants(&self) -> Vec<HostOp> {
        self.host.wants.take()
    }

    /// The receiver for pieces of a call's answer, once the answer has begun.
    pub(crate) fn outlet(&self, id: CallId) -> Option<Outlet> {
        self.host.calls.borrow().outlet(id)
    }

    /// Closes a call. Returns its request if it was open.
    pub(crate) fn close(&self, id: CallId) -> Option<Vec<u8>> {
        let payload = self.host.calls.borrow_mut().close(id);
        self.release();
        payload
    }

    /// Releases the locks and drivers of calls that are over.
    fn release(&self) {
        self.host.release_locks();
        let calls = self.host.calls.borrow();
        self.host.driver.retain(|call| calls.is_open(call));
    }

    /// Ends a call with a failure.
    pub(crate) fn fail(&self, id: CallId, failure: Failure) {
        self.host.calls.borrow_mut().fail(id, failure);
        self.release();
    }

    /// Raises the cost of a call to at least `weight`.
    pub(crate) fn weigh(&self, id: CallId, weight: Weight) {
        self.host.calls.borrow_mut().weigh(id, weight);
    }

    /// The cost of a call so far; `None` if it has ended.
    pub(crate) fn weight(&self, id: CallId) -> Option<Weight> {
        self.host.calls.borrow().weight(id)
    }

    /// Whether an operation was requested since the last time that only an executor performs.
    pub(crate) fn take_elsewhere(&self) -> bool {
        self.host.store.take_elsewhere()
    }

    /// Whether it uses so much memory that a new engine should replace it.
    pub(crate) fn is_worn(&self) -> bool {
        // The runtime is in use while a step is suspended; this is asked again at its end.
        if self.meter.used() * 2 < self.host.options.limits.memory_max || self.is_suspended() {
            return false;
        }
        self.runtime.run_gc();
        self.meter.used() * 2 >= self.host.options.limits.memory_max
    }
}

/// Parts of an engine that run a step.
type Parts<'a> = (&'a Entry, &'a Rc<Host>, &'a Budget, &'a Rejections);

/// Runs a step and all jobs that follow from it.
fn work(
    id: CallId,
    step: impl FnOnce(&Ctx<'_>, &Entry, &Host) -> rquickjs::Result<()>,
    context: &Context,
    (entry, host, budget, rejections): Parts<'_>,
) -> Outcome {
    context.with(|ctx| {
        if host.fiber.is_some() {
            measure_stack_from_here(&ctx);
        }
        let outcome = step(&ctx, entry, host)
            .catch(&ctx)
            .map_err(|error| describe(&error));
        while !budget.was_overrun() && !budget.rule_was_late() && ctx.execute_pending_job() {}
        if budget.rule_was_late() {
            stop_rest(&ctx, budget);
        }
        rejections.log(&ctx, host, id);
        outcome
    })
}

/// Stops the remaining jobs of a rule that was stopped, each as soon as the engine checks, so that they do not run in steps of others.
/// Jobs that continue anyway are stopped only with their call.
fn stop_rest(ctx: &Ctx<'_>, budget: &Budget) {
    let begun = Instant::now();
    while !budget.was_overrun() && begun.elapsed() < STOP_REST_MAX && ctx.execute_pending_job() {}
}

/// Loads the SDK's part and the script. Returns the entry points.
fn load_script(ctx: &Ctx<'_>, host: &Rc<Host>) -> rquickjs::Result<Entry> {
    host::install(ctx, host)?;
    let Program::Handler { file: handler, .. } = &host.options.program else {
        let main: Object<'_> = Module::import(ctx, RULES_MAIN)?.finish()?;
        return Entry::of(ctx, &main);
    };
    let main: Object<'_> = Module::import(ctx, MAIN)?.finish()?;
    let file = handler.to_string_lossy();
    let handler = Module::import(ctx, &*file)?;
    let handler: Object<'_> = finish(ctx, &handler)?;
    let load: Function<'_> = main.get("load")?;
    let loaded: Promise<'_> = load.call((handler, &*file, &*host.options.name))?;
    finish::<()>(ctx, &loaded)?;
    Entry::of(ctx, &main)
}

/// The result of a promise, without any outside event.
fn finish<'js, T: rquickjs::FromJs<'js>>(ctx: &Ctx<'js>, promise: &Promise<'js>) -> rquickjs::Result<T> {
    while promise.state() == PromiseState::Pending && ctx.execute_pending_job() {}
    match promise.result() {
        Some(result) => result,
        None => Err(rquickjs::Exception::throw_message(
            ctx,
            "it waits while it is loaded, for something that does not come about before that",
        )),
    }
}

/// The message and stack of a script's error, for people.
pub(crate) fn describe(error: &CaughtError<'_>) -> String {
    match error {
        CaughtError::Exception(exception) => {
            let message = exception.message().unwrap_or_default();
            let name: String = exception.get("name").unwrap_or_else(|_| "Error".into());
            let stack = exception.stack().unwrap_or_default();
            format!("{name}: {message}\n{}", stack.trim_end())
                .trim_end()
                .to_owned()
        }
        other => other.to_string(),
    }
}
