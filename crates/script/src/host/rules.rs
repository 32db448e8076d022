//! The interface between the SDK and the drivers of calls.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::{Rc, Weak},
    sync::{Arc, Weak as WeakArc},
    time::{Duration, Instant},
};

use forebay_wire::ContentKind;
use forebay_workflow::{EngineCall, RuleOutcome, RunInput};
use rquickjs::{
    Array, Ctx, Exception, Function, IntoJs as _, Null, Object, Persistent, Promise, Result,
    String as JsString, Value,
};

use super::{Functions, Host};
use crate::{
    answer::Body,
    budget::Budget,
    calls::CallId,
    fiber::Signal,
    host_ops::{HostOp, WaitId, What},
    rules::{
        Rule,
        engine::{Command, RunDriver, TaskId},
        libraries::{self, Library},
    },
    text,
};

/// Most calls of clients that wait within each other on one stack.
const BLOCKED_MAX: u32 = 64;
/// Maximum number of compiled rules per engine.
const COMPILED_MAX: usize = 4096;

/// The drivers of an engine's calls, and the rules that it has compiled.
pub(crate) struct DriverHost {
    budget: Rc<Budget>,
    drivers: RefCell<HashMap<CallId, RunDriver>>,
    compiled: RefCell<HashMap<u64, Compiled>>,
    /// The rules that run, of the one call that there is.
    running: RefCell<HashMap<TaskId, Running>>,
    /// The rule with a time of its own to which all belongs that runs now.
    timed: Cell<Option<Timed>>,
    /// Calls of clients that wait, each within the one before.
    blocked: Cell<u32>,
    /// The modules that rules of the call have required.
    modules: RefCell<Vec<Arc<Rule>>>,
    /// Waits of such rules: code that resumes after one belongs to its rule.
    timed_waits: RefCell<HashMap<WaitId, Timed>>,
}

/// A running rule, with its deadline if it has a timeout.
type Running = (Arc<Rule>, Option<Instant>);

/// A rule with a timeout.
#[derive(Clone, Copy, Debug)]
struct Timed {
    ticket: TaskId,
    until: Instant,
}

/// A rule and its compiled function. Only a weak reference is held: once all users of the rule are gone, its function is dropped too.
type Compiled = (WeakArc<Rule>, Persistent<Function<'static>>);

impl std::fmt::Debug for DriverHost {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("DriverHost").finish_non_exhaustive()
    }
}

pub(super) fn install<'js>(functions: &Functions<'_, 'js>, host: &Rc<Host>) -> Result<()> {
    let own = host.clone();
    functions.set("begin", move |ctx: Ctx<'js>, call: CallId| {
        own.advance(&ctx, call, |_| {})
    })?;
    let own = host.clone();
    functions.set("runInput", move |ctx: Ctx<'js>, call: CallId| {
        let calls = own.calls.borrow();
        let over = || Exception::throw_message(&ctx, "the run is over");
        run_input(&ctx, calls.run_input(call).ok_or_else(over)?)
    })?;
    let own = host.clone();
    functions.set(
        "ruleOver",
        move |ctx: Ctx<'js>, call: CallId, ticket: TaskId, is_true: bool, values: JsString<'js>| {
            let values = text::owned(values)?;
            if !own.driver.is_over(ticket) {
                return Array::new(ctx);
            }
            own.driver.running.borrow_mut().remove(&ticket);
            let outcome = Ok(RuleOutcome { is_true, values });
            own.advance(&ctx, call, |run| run.rule_over(ticket, outcome))
        },
    )?;
    let own = host.clone();
    functions.set(
        "ruleFailed",
        move |ctx: Ctx<'js>, call: CallId, ticket: TaskId, reason: JsString<'js>| {
            let reason = text::owned(reason)?;
            if !own.driver.is_over(ticket) {
                return Array::new(ctx);
            }
            let outcome = Err(own.driver.with_places(ticket, &reason));
            own.advance(&ctx, call, |run| run.rule_over(ticket, outcome))
        },
    )?;
    let own = host.clone();
    functions.set(
        "timePassed",
        move |ctx: Ctx<'js>, call: CallId, ticket: TaskId| {
            own.advance(&ctx, call, |run| run.time_passed(ticket))
        },
    )?;
    let own = host.clone();
    functions.set(
        "evaluateDecision",
        move |ctx: Ctx<'js>,
              call: CallId,
              evaluation: TaskId,
              key: JsString<'js>,
              input: JsString<'js>,
              wants_trace: bool| {
            let (key, input) = (text::owned(key)?, text::owned(input)?);
            own.advance(&ctx, call, |run| {
                run.evaluate(evaluation, key, input, wants_trace);
            })
        },
    )?;
    let own = host.clone();
    functions.set(
        "evaluateExpression",
        move |ctx: Ctx<'js>,
              call: CallId,
              expression: JsString<'js>,
              context: JsString<'js>,
              is_unary: bool| {
            let (expression, context) = (text::owned(expression)?, text::owned(context)?);
            let value = match own.driver.drivers.borrow().get(&call) {
                Some(driver) => driver.host.expression(&expression, &context, is_unary),
                None => Err("the run is over".to_owned()),
            };
            value.map_err(|reason| Exception::throw_message(&ctx, &reason))
        },
    )?;
    let own = host.clone();
    functions.set("ruleTimer", move |call: CallId, wait: WaitId, ms: f64| {
        let is_open = own.calls.borrow_mut().wait_for_turn(call);
        if is_open {
            let time = Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default();
            let what = What::Time(time);
            own.wants.borrow_mut().push(HostOp { call, wait, what });
        }
        is_open
    })?;
    let own = host.clone();
    functions.set(
        "ruleModule",
        move |ctx: Ctx<'js>, call: CallId, from: JsString<'js>, name: JsString<'js>| {
            let (from, name) = (text::owned(from)?, text::owned(name)?);
            own.driver
                .module(&ctx, call, &from, &name, own.options.environment.sdk)
        },
    )?;
    let own = host.clone();
    functions.set("blocksRules", move || own.fiber.is_some())?;
    let now_ms = host.options.rules_now_ms;
    functions.set("fixedTime", move || now_ms.map(|ms| ms as f64))?;
    let own = host.clone();
    functions.set(
        "settle",
        move |ctx: Ctx<'js>, call: CallId, promise: Promise<'js>| own.settle(&ctx, call, &promise),
    )?;
    let own = host.clone();
    functions.set("ruleTurn", move |ticket: TaskId| own.driver.take_turn(ticket))?;
    let own = host.clone();
    functions.set(
        "ruleLog",
        move |call: CallId, rule: TaskId, level: u8, line: JsString<'js>| {
            let text = text::owned(line)?;
            if let Some(driver) = own.driver.drivers.borrow().get(&call) {
                driver.log(rule, level, text);
            }
            Ok::<(), rquickjs::Error>(())
        },
    )
}

impl DriverHost {
    pub(crate) fn new(budget: Rc<Budget>) -> Self {
        Self {
            budget,
            drivers: RefCell::default(),
            compiled: RefCell::default(),
            running: RefCell::default(),
            timed: Cell::default(),
            blocked: Cell::default(),
            timed_waits: RefCell::default(),
            modules: RefCell::default(),
        }
    }

    /// A call has this driver from here on.
    pub(crate) fn begin(&self, call: CallId, driver: RunDriver) {
        self.running.borrow_mut().clear();
        self.timed_waits.borrow_mut().clear();
        self.modules.borrow_mut().clear();
        self.drivers.borrow_mut().insert(call, driver);
    }

    /// Drops the drivers of calls that are over.
    pub(crate) fn retain(&self, is_open: impl Fn(CallId) -> bool) {
        self.drivers.borrow_mut().retain(|call, _| is_open(*call));
    }

    /// Releases everything that belongs to the engine; no calls follow.
    pub(crate) fn end(&self) {
        self.drivers.borrow_mut().clear();
        self.compiled.borrow_mut().clear();
    }

    /// A rule with a time of its own begins, in a step in which nothing ran before it: all that follows in it belongs to the rule, until that is over.
    fn take_turn(&self, ticket: TaskId) {
        let until = self.running.borrow().get(&ticket).and_then(|(_, until)| *until);
        self.belongs_to(until.map(|until| Timed { ticket, until }));
    }

    /// A wait has ended: the code that runs now belongs to the rule that waited.
    pub(crate) fn resume(&self, wait: WaitId) {
        let timed = self.timed_waits.borrow_mut().remove(&wait);
        if timed.is_some() {
            self.belongs_to(timed);
        }
    }

    /// Assigns a new wait to the rule whose code runs now.
    pub(super) fn wait(&self, wait: WaitId) {
        if let Some(timed) = self.timed.get() {
            self.timed_waits.borrow_mut().insert(wait, timed);
        }
    }

    /// A step is over.
    pub(crate) fn end_step(&self) {
        self.timed.set(None);
    }

    fn belongs_to(&self, timed: Option<Timed>) {
        self.timed.set(timed);
        self.budget.limit_rule(timed.map(|timed| timed.until));
    }

    /// Whether a rule is over when it says so: not where it was stopped, of which its driver learns by the time that has passed. What runs after it in this step belongs to others.
    fn is_over(&self, ticket: TaskId) -> bool {
        if self.timed.get().is_none_or(|timed| timed.ticket != ticket) {
            return true;
        }
        if self.budget.rule_was_late() {
            return false;
        }
        self.belongs_to(None);
        true
    }

    /// An error of a rule that runs, with places in its files.
    fn with_places(&self, ticket: TaskId, reason: &str) -> String {
        let rule = self.running.borrow_mut().remove(&ticket);
        let placed = rule.map_or_else(|| reason.to_owned(), |(rule, _)| rule.with_places(reason));
        let modules = self.modules.borrow();
        modules
            .iter()
            .fold(placed, |placed, module| module.with_places(&placed))
    }

    /// Finds a required module. Returns its path and function, or only the name of a module of the SDK.
    fn module<'js>(
        &self,
        ctx: &Ctx<'js>,
        call: CallId,
        from: &str,
        name: &str,
        sdk: fn(&str) -> Option<&'static [u8]>,
    ) -> Result<Array<'js>> {
        let found = match self.drivers.borrow().get(&call) {
            Some(driver) => driver.host.module(from, name),
            None => Err("the run is over".to_owned()),
        };
        let told = |what: String| Exception::throw_type(ctx, &format!("require(\"{name}\"): {what}"));
        let out = Array::new(ctx.clone())?;
        let (path, rule) = match (found, libraries::find(name, sdk)) {
            (Ok(module), _) => (module.path, module.rule),
            (Err(_), Some(Library::File(path, rule))) => (path, rule),
            (Err(_), Some(Library::Sdk(name))) => {
                out.set(0, name)?;
                return Ok(out);
            }
            (Err(reason), None) => return Err(told(reason)),
        };
        out.set(0, path)?;
        out.set(1, self.function(ctx, &rule).map_err(told)?)?;
        let mut modules = self.modules.borrow_mut();
        if modules.iter().all(|known| known.id != rule.id) {
            modules.push(rule);
        }
        Ok(out)
    }

    /// The function of a rule, compiled on first use. The error says why it does not compile.
    fn function<'js>(&self, ctx: &Ctx<'js>, rule: &Arc<Rule>) -> std::result::Result<Function<'js>, String> {
        if let Some((_, known)) = self.compiled.borrow().get(&rule.id) {
            return known.clone().restore(ctx).map_err(|error| error.to_string());
        }
        let compiled = rule.compile(ctx)?;
        let mut all = self.compiled.borrow_mut();
        all.retain(|_, (rule, _)| rule.strong_count() > 0);
        if all.len() >= COMPILED_MAX {
            all.clear();
        }
        let kept = Persistent::save(ctx, compiled.clone());
        all.insert(rule.id, (Arc::downgrade(rule), kept));
        Ok(compiled)
    }
}

impl Host {
    /// Blocks the running rule until a promise is settled; returns its value or throws its reason. Meanwhile the thread serves other
    /// calls, and the rest of this call goes on in between.
    fn settle<'js>(&self, ctx: &Ctx<'js>, call: CallId, promise: &Promise<'js>) -> Result<Value<'js>> {
        if self.store.is_open() {
            let message = "a client cannot be waited for within a transaction or a snapshot of the store";
            return Err(Exception::throw_message(ctx, message));
        }
        let driver = &self.driver;
        if driver.blocked.get() >= BLOCKED_MAX {
            let message = format!("{BLOCKED_MAX} calls of clients wait within each other, and no more may");
            return Err(Exception::throw_range(ctx, &message));
        }
        let timed = driver.timed.get();
        driver.blocked.set(driver.blocked.get() + 1);
        let result = self.settle_within(ctx, call, promise, timed);
        driver.blocked.set(driver.blocked.get() - 1);
        result
    }

    fn settle_within<'js>(
        &self,
        ctx: &Ctx<'js>,
        call: CallId,
        promise: &Promise<'js>,
        timed: Option<Timed>,
    ) -> Result<Value<'js>> {
        let over = || Exception::throw_message(ctx, "the run is over");
        let (driver, budget) = (&self.driver, &self.driver.budget);
        let (Some(fiber), Some(entry)) = (&self.fiber, self.entry.get().and_then(Weak::upgrade)) else {
            return Err(over());
        };
        let mut resumed = Ok(());
        loop {
            while resumed.is_ok()
                && !budget.was_overrun()
                && !budget.rule_was_late()
                && ctx.execute_pending_job()
            {}
            let is_own = |late: Option<Timed>| late.map(|late| late.ticket) == timed.map(|own| own.ticket);
            if budget.rule_was_late() && !is_own(driver.timed.get()) {
                // Another rule on this stack was stopped. This one goes on without it.
                drop(ctx.catch());
                resumed = Ok(());
                driver.belongs_to(None);
                budget.leave_late_rule();
                continue;
            }
            resumed?;
            if let Some(result) = promise.result() {
                // Code of others may have run in between.
                driver.belongs_to(timed);
                return result;
            }
            if budget.was_overrun() || budget.rule_was_late() || !self.calls.borrow().is_open(call) {
                return Err(over());
            }
            resumed = match fiber.suspend() {
                Signal::Ended(wait, result) => {
                    driver.belongs_to(None);
                    driver.resume(wait);
                    entry.resume(ctx, call, wait, result)
                }
                Signal::Cancel => return Err(over()),
            };
        }
    }

    /// Answers a run that comes to its end without any rule, as decisions do that have no functions. False: the SDK has to go on with it.
    pub(crate) fn answer_without_rules(&self, call: CallId) -> bool {
        let Some(mut driver) = self.driver.drivers.borrow_mut().remove(&call) else {
            return false;
        };
        let result = driver.result();
        let is_over = result.is_some();
        match result {
            Some(body) => self.answer_run(call, body),
            None => drop(self.driver.drivers.borrow_mut().insert(call, driver)),
        }
        is_over
    }

    fn answer_run(&self, call: CallId, body: Vec<u8>) {
        let kind = ContentKind::Json as u8;
        self.end(call, Self::head(200, kind, false, None, Body::Whole(body.into())));
    }

    /// Passes an event to the run of a call. Returns the commands for the SDK, each as an array: `[ticket, function, node, kind, state,
    /// values, item]` runs a rule, with an additional `true` if it has a timeout; `[evaluation, is_done, text]` ends an evaluation; `[ticket,
    /// ms]` starts a timer; `[ticket]` forgets a rule or timer.
    fn advance<'js>(
        &self,
        ctx: &Ctx<'js>,
        call: CallId,
        event: impl FnOnce(&RunDriver),
    ) -> Result<Array<'js>> {
        let out = Array::new(ctx.clone())?;
        // Rules must not reach a run while it handles an event.
        let Some(mut driver) = self.driver.drivers.borrow_mut().remove(&call) else {
            return Ok(out);
        };
        event(&driver);
        let mut orders = std::collections::VecDeque::from(driver.advance());
        let mut is_over = false;
        let mut count = 0;
        while let Some(order) = orders.pop_front() {
            let item = match order {
                Command::Run(ticket, call) => match self.driver.function(ctx, &call.rule) {
                    Ok(function) => {
                        let until = call.time_max.map(|time| Instant::now() + time);
                        let mut running = self.driver.running.borrow_mut();
                        running.insert(ticket, (Arc::clone(&call.rule), until));
                        drop(running);
                        run_order(ctx, ticket, &call, function)?
                    }
                    Err(reason) => {
                        driver.rule_over(ticket, Err(reason));
                        let next = driver.advance();
                        // Once there is an answer, earlier commands are obsolete.
                        if next.iter().any(|order| matches!(order, Command::Answer(_))) {
                            orders.clear();
                        }
                        orders.extend(next);
                        continue;
                    }
                },
                Command::Pass(ticket, time) => {
                    let item = Array::new(ctx.clone())?;
                    item.set(0, ticket)?;
                    item.set(1, time.as_secs_f64() * 1000.0)?;
                    item
                }
                Command::Evaluated(evaluation, result) => {
                    let item = Array::new(ctx.clone())?;
                    item.set(0, evaluation)?;
                    item.set(1, result.is_ok())?;
                    item.set(2, result.unwrap_or_else(|reason| reason))?;
                    item
                }
                Command::Forget(ticket) => {
                    let item = Array::new(ctx.clone())?;
                    item.set(0, ticket)?;
                    item
                }
                Command::Answer(body) => {
                    self.answer_run(call, body);
                    is_over = true;
                    break;
                }
            };
            out.set(count, item)?;
            count += 1;
        }
        if !is_over {
            self.driver.drivers.borrow_mut().insert(call, driver);
        }
        Ok(out)
    }
}

/// The `RunInput` of the SDK.
fn run_input<'js>(ctx: &Ctx<'js>, input: &RunInput) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    object.set("requestTime", input.requested_ms as f64)?;
    match &input.client {
        Some(client) => object.set("clientId", client.as_str())?,
        None => object.set("clientId", Null)?,
    }
    match &input.user {
        Some(user) => object.set("user", ctx.json_parse(&**user)?)?,
        None => object.set("user", Null)?,
    }
    object.set("traceId", input.request_id.as_str())?;
    object.set("trace", input.is_traced)?;
    object.set("workflowId", input.workflow.as_str())?;
    object.set("args", ctx.json_parse(&*input.args)?)?;
    object.set("attributes", ctx.json_parse(&*input.attributes)?)?;
    Ok(object)
}

fn run_order<'js>(
    ctx: &Ctx<'js>,
    ticket: TaskId,
    call: &EngineCall<Rule>,
    function: Function<'js>,
) -> Result<Array<'js>> {
    let text = |text: Option<&str>| -> Result<Value<'js>> {
        match text {
            Some(text) => text.into_js(ctx),
            None => Null.into_js(ctx),
        }
    };
    let last = call.last.as_ref();
    let item = Array::new(ctx.clone())?;
    item.set(0, ticket)?;
    item.set(1, function)?;
    item.set(2, &*call.node.id)?;
    item.set(3, call.kind)?;
    item.set(4, last.is_some_and(|last| last.is_true))?;
    item.set(5, text(last.map(|last| &*last.values))?)?;
    item.set(6, text(call.item.as_deref())?)?;
    if call.time_max.is_some() {
        item.set(7, true)?;
    }
    Ok(item)
}
