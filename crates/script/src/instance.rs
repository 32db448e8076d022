//! One engine with a loaded script, on one thread.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use rquickjs::{
    CatchResultExt as _, CaughtError, Context, Ctx, Function, Module, Object, Promise, Runtime,
    promise::PromiseState,
};

use crate::{
    Failure, Weight,
    budget::{Budget, Clock, Pulse},
    calls::{CallId, Calls, Over, Until},
    counts::CountedEngine,
    entry::Entry,
    host::{self, Host, ReadRecord, StoreHost, last_commit},
    host_ops::{HostOp, OpResult, WaitId},
    modules::{MAIN, ModuleLoader, Modules, RULES_MAIN},
    options::{Options, Program},
    rejections::Rejections,
    rules::Begin,
    stream::Outlet,
    sys::{Meter, Metered},
    text,
};

/// Room on the stack for scripts, in bytes: threads have more.
const STACK_BYTES: usize = 512 * 1024;
/// Time of the processor for loading the script on an I/O thread.
const IO_LOAD_MAX: Duration = Duration::from_millis(25);
/// Time of the processor for taking away what a call has left behind.
const CLEAN_MAX: Duration = Duration::from_millis(100);
/// Time for stopping what is left of a rule that was stopped.
const STOP_REST_MAX: Duration = Duration::from_millis(10);
/// Memory that a call may add on an I/O thread, in bytes: what takes more may also take long in one step.
const IO_GROWTH_BYTES_MAX: usize = 2 << 20;

/// Where an engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A thread on which others wait: one call at a time, in one step.
    Io,
    /// The same, and calls wait for statements that change nothing.
    IoWaiting,
    /// A thread of its own, which can be given up.
    Executor,
}

impl Place {
    /// Whether others wait for the thread.
    pub(crate) fn is_on_io(self) -> bool {
        self != Self::Executor
    }
}

/// An engine.
pub(crate) struct Instance {
    entry: Entry,
    rejections: Rc<Rejections>,
    context: Context,
    host: Rc<Host>,
    budget: Rc<Budget>,
    meter: Rc<Meter>,
    counted: CountedEngine,
    // Last: all of the above is of this.
    runtime: Runtime,
    on_io: bool,
    /// Whether no step was stopped in the middle.
    is_sound: Cell<bool>,
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Instance").finish_non_exhaustive()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.host.store.end();
        self.host.course.end();
        self.rejections.end();
    }
}

/// Why nobody waits for a call any more; the numbers are those of ABORT frames (`protocol/PROTOCOL.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    Client = 1,
    Deadline = 2,
}

/// How a step of a script came to its end.
#[derive(Debug)]
pub(crate) struct Step {
    /// Time of the processor that it took, where that is measured.
    pub(crate) took: Duration,
    /// Why it was stopped.
    pub(crate) stopped: Option<Failure>,
}

impl Instance {
    /// Makes an engine and loads the script into it.
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
        // To load a script is charged alike everywhere: that the machine is busy with others says nothing about it.
        let on_io = place.is_on_io();
        let (load_max, limit) = if on_io {
            (IO_LOAD_MAX, "for an I/O thread")
        } else {
            (options.limits.time_max, "time_max")
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
        let host = Rc::new(Host {
            options: options.clone(),
            calls: RefCell::new(Calls::default()),
            store: StoreHost::new(on_io, budget.clone()),
            declared: host::DeclaredReads::default(),
            course: host::DriverHost::new(budget.clone()),
            place,
            wants: RefCell::default(),
        });
        let rejections = Rejections::watch(&runtime);
        // With one call at a time there is nothing to tell apart.
        if place != Place::Io && options.program != Program::Rules {
            host::mark_promises(&runtime, &host);
        }
        let until = Instant::now() + options.limits.time_max;
        let turn = budget.begin(load_max, Some(until));
        let entry = context.with(|ctx| {
            let loaded = load_script(&ctx, &host);
            loaded.catch(&ctx).map_err(|error| describe(&error))
        });
        let took = budget.end(turn);

        let entry = entry.map_err(|reason| {
            // There will be no instance whose end would let go of these.
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
        })
    }

    /// Opens a call whose request is the payload of a REQUEST frame, with all of the body.
    pub(crate) fn open(&self, payload: Vec<u8>, deadline: Option<Instant>) -> CallId {
        let time_max = self.host.options.limits.time_max;
        let opened = self.host.calls.borrow_mut().open(payload, deadline, time_max);
        opened.expect("a call begins where there is room")
    }

    /// Gives a call that was opened its course.
    pub(crate) fn begin(&self, id: CallId, begin: Begin) {
        self.host.course.begin(id, begin());
    }

    /// Whether no call is under way.
    pub(crate) fn is_free(&self) -> bool {
        self.host.calls.borrow().is_empty()
    }

    /// Takes away what calls have left behind, as far as rules can leave anything; false: another call must not meet it.
    pub(crate) fn clean(&self) -> bool {
        let step = self.step(0, CLEAN_MAX, |ctx| self.entry.clean(ctx));
        step.stopped.is_none() && self.is_sound()
    }

    /// Whether another call can be opened.
    pub(crate) fn has_room(&self) -> bool {
        self.host.calls.borrow().has_room()
    }

    /// The record that a GET request for this path asks for, where the script has declared what it answers to that.
    pub(crate) fn read_declared(&self, path: &[u8]) -> Option<ReadRecord> {
        self.host.read_declared(path)
    }

    /// Runs the handler for a call that was opened, for so long at most.
    pub(crate) fn run(&self, id: CallId, time_max: Duration) -> Step {
        self.step(id, time_max, |ctx| {
            let head = {
                let calls = self.host.calls.borrow();
                let (method, path) = calls.method_and_path(id);
                let mut head = smallvec::SmallVec::<[u8; 128]>::with_capacity(method.len() + path.len());
                head.extend_from_slice(method);
                head.extend_from_slice(path);
                text::from_latin1(ctx, &head)?
            };
            self.entry.run(ctx, id, head)
        })
    }

    /// Goes on with a call that has waited for something.
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
        self.step(id, left, |ctx| {
            self.host.course.resume(wait);
            self.entry.resume(ctx, id, wait, came)
        })
    }

    /// Tells a call that nobody waits for it any more; it has been closed.
    pub(crate) fn abort(&self, id: CallId, gone: Gone) -> Step {
        let limits = &self.host.options.limits;
        let cpu_max = if self.on_io {
            limits.io_cpu_max
        } else {
            limits.cpu_max
        };
        self.step(id, cpu_max, |ctx| self.entry.abort(ctx, id, gone as u32))
    }

    /// Runs a step of a call, and all that follows from it; when it has to be stopped, the call has ended.
    fn step(
        &self,
        id: CallId,
        time_max: Duration,
        step: impl FnOnce(&Ctx<'_>) -> rquickjs::Result<()>,
    ) -> Step {
        if self.on_io {
            let growth = self.meter.used().saturating_add(IO_GROWTH_BYTES_MAX);
            self.meter.limit(growth.min(self.host.options.limits.memory_max));
        }
        let until_call = (!self.on_io).then(|| self.until(id));
        self.host.store.enter(id);
        let turn = self.budget.begin(time_max, until_call.map(|until| until.at));
        let outcome = self.context.with(|ctx| {
            let outcome = step(&ctx).catch(&ctx).map_err(|error| describe(&error));
            while !self.budget.was_overrun() && !self.budget.rule_was_late() && ctx.execute_pending_job() {}
            if self.budget.rule_was_late() {
                self.stop_rest(&ctx);
            }
            self.rejections.log(&ctx, &self.host, id);
            outcome
        });
        let took = self.budget.end(turn);
        self.host.course.end_step();
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
        } else if self.budget.rule_was_late() {
            // The call goes on without that rule, and after the call the engine is not used again.
            self.is_sound.set(false);
            self.host.store.roll_back();
            None
        } else {
            outcome.err().map(|reason| Failure::Broken { reason })
        };
        if let Some(failure) = &stopped {
            self.is_sound.set(false);
            // What it was in the middle of, nobody ends any more.
            self.host.store.roll_back();
            let request = self.host.calls.borrow().request_id(id);
            let is_told = self.host.calls.borrow_mut().stop(id, failure.clone());
            // What is stopped on an I/O thread is done again elsewhere.
            if !is_told && !self.on_io {
                self.host.log_stopped(request.as_deref(), failure);
            }
        }
        if self.host.options.program == Program::Rules && self.host.store.leave_nothing_open() {
            tracing::warn!(target: "forebay::script", "rules left a transaction of the store open, which was rolled back");
        }
        self.host.release_locks();
        {
            let calls = self.host.calls.borrow();
            self.host.course.retain(|call| calls.is_open(call));
        }
        self.counted.uses(self.meter.used());
        Step { took, stopped }
    }

    /// What is left of a rule that was stopped is stopped as well, each part as soon as the engine asks, so that nothing of it meets a step of others. What goes on nevertheless is only stopped with its call.
    fn stop_rest(&self, ctx: &Ctx<'_>) {
        let begun = Instant::now();
        while !self.budget.was_overrun() && begun.elapsed() < STOP_REST_MAX && ctx.execute_pending_job() {}
    }

    /// Whether no step was stopped in the middle.
    pub(crate) fn is_sound(&self) -> bool {
        self.is_sound.get()
    }

    /// When a call has lasted as long as it may.
    pub(crate) fn until(&self, id: CallId) -> Until {
        let time_max = self.host.options.limits.time_max;
        self.host.calls.borrow().until(id, time_max)
    }

    /// Runs the stop hooks, unless a step was stopped in the middle of nobody knows what. There are no further steps.
    pub(crate) fn end(&self) {
        if !self.is_sound.get() {
            return;
        }
        let limits = &self.host.options.limits;
        self.host.store.enter(0);
        let until = Instant::now() + limits.time_max;
        let turn = self.budget.begin(limits.cpu_max, Some(until));
        let outcome = self.context.with(|ctx| {
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

    /// The next call that has ended.
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

    /// What the calls wait for since the last step.
    pub(crate) fn take_wants(&self) -> Vec<HostOp> {
        self.host.wants.take()
    }

    /// Where the pieces of a call's answer go, once it has begun.
    pub(crate) fn outlet(&self, id: CallId) -> Option<Outlet> {
        self.host.calls.borrow().outlet(id)
    }

    /// Gives a call up; gives its request back, when it has not ended.
    pub(crate) fn close(&self, id: CallId) -> Option<Vec<u8>> {
        let payload = self.host.calls.borrow_mut().close(id);
        self.host.release_locks();
        payload
    }

    /// Ends a call without an answer of its own.
    pub(crate) fn fail(&self, id: CallId, failure: Failure) {
        self.host.calls.borrow_mut().fail(id, failure);
        self.host.release_locks();
    }

    /// A call has taken this, if not more before.
    pub(crate) fn weigh(&self, id: CallId, weight: Weight) {
        self.host.calls.borrow_mut().weigh(id, weight);
    }

    /// What a call has taken so far; `None` when it has ended.
    pub(crate) fn weight(&self, id: CallId) -> Option<Weight> {
        self.host.calls.borrow().weight(id)
    }

    /// Whether something was asked for, since the last time, that only an executor does.
    pub(crate) fn take_elsewhere(&self) -> bool {
        self.host.store.take_elsewhere()
    }

    /// Whether so much of its memory is used that a fresh one should take its place.
    pub(crate) fn is_worn(&self) -> bool {
        if self.meter.used() * 2 < self.host.options.limits.memory_max {
            return false;
        }
        self.runtime.run_gc();
        self.meter.used() * 2 >= self.host.options.limits.memory_max
    }
}

/// Loads the SDK's part and the script; gives the function that calls it.
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

/// What a promise comes to without anything from outside.
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

/// An error of a script, for people: what it says, and where.
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
