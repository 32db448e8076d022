//! The engine of one run. The run is a future; what it awaits, rules and delays, becomes commands for the host of the call.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    time::Duration,
};

use forebay_workflow::{Begin, BegunRun, Engine, EngineCall, LogLine, NodeName, RuleOutcome, RunHost};
use futures_channel::oneshot;
use futures_executor::LocalPool;
use futures_util::task::LocalSpawnExt as _;

use crate::Rule;

/// Most decisions that the rules of a run evaluate at once.
const EVALUATIONS_MAX: usize = 1_000;

/// Identifies a running rule or a timer within its run.
pub(crate) type TaskId = u32;

/// A command of a run.
#[derive(Debug)]
pub(crate) enum Command {
    /// Run a rule.
    Run(TaskId, EngineCall<Rule>),
    /// Start a timer, from now.
    Pass(TaskId, Duration),
    /// Forget a rule or timer: its end is not reported.
    Forget(TaskId),
    /// Tell a rule that an evaluation of its own is over: the response in JSON, or the reason why it failed.
    Evaluated(TaskId, Result<String, String>),
    /// End the call with this JSON as its answer.
    Answer(Vec<u8>),
}

/// Evaluates the rules of one run.
#[derive(Debug)]
pub struct RuleEngine(Rc<Tasks>);

/// The pending rules and timers of a run.
#[derive(Debug, Default)]
struct Tasks {
    last: Cell<TaskId>,
    commands: RefCell<Vec<Command>>,
    /// Number of evaluations of decisions that rules wait for.
    evaluations: Cell<usize>,
    waiting: RefCell<HashMap<TaskId, Waiter>>,
}

#[derive(Debug)]
enum Waiter {
    Rule(NodeName, oneshot::Sender<Result<RuleOutcome, String>>),
    Timer(oneshot::Sender<()>),
}

/// A pending task, cancelled on drop.
struct Pending<'t> {
    tasks: &'t Tasks,
    id: TaskId,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.tasks.waiting.borrow_mut().remove(&self.id).is_some() {
            self.tasks.commands.borrow_mut().push(Command::Forget(self.id));
        }
    }
}

impl Tasks {
    fn begin<T>(
        &self,
        waiter: impl FnOnce(oneshot::Sender<T>) -> Waiter,
        command: impl FnOnce(TaskId) -> Command,
    ) -> (Pending<'_>, oneshot::Receiver<T>) {
        let id = self.last.get() + 1;
        self.last.set(id);
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().insert(id, waiter(sender));
        self.commands.borrow_mut().push(command(id));
        (Pending { tasks: self, id }, receiver)
    }
}

/// A sender stays in `waiting` until it is used.
const KEPT: &str = "the sender of a pending task is kept";

impl Engine for RuleEngine {
    type Rule = Rule;

    async fn evaluate(&self, call: EngineCall<Rule>) -> Result<RuleOutcome, String> {
        let node = call.node.clone();
        let waiter = |sender| Waiter::Rule(node, sender);
        let (_pending, outcome) = self.0.begin(waiter, |id| Command::Run(id, call));
        outcome.await.expect(KEPT)
    }

    async fn sleep(&self, time: Duration) {
        let (_pending, passed) = self.0.begin(Waiter::Timer, |id| Command::Pass(id, time));
        passed.await.expect(KEPT);
    }
}

/// A run with its engine.
pub(crate) struct RunDriver {
    pool: LocalPool,
    tasks: Rc<Tasks>,
    result: Rc<Cell<Option<Vec<u8>>>>,
    pub(crate) host: Rc<dyn RunHost<Rule>>,
}

impl RunDriver {
    /// Starts a run; it does nothing before [`Self::advance`].
    pub(crate) fn new(begin: Begin<RuleEngine>) -> Self {
        let tasks: Rc<Tasks> = Rc::default();
        let BegunRun { result: run, host } = begin(RuleEngine(Rc::clone(&tasks)));
        let (pool, result) = (LocalPool::new(), Rc::<Cell<_>>::default());
        let own = Rc::clone(&result);
        let spawned = pool
            .spawner()
            .spawn_local(async move { own.set(Some(run.await)) });
        spawned.expect("the pool is there");
        Self {
            pool,
            tasks,
            result,
            host,
        }
    }

    /// Reports the end of a rule; ignored if the run has forgotten it.
    pub(crate) fn rule_over(&self, id: TaskId, outcome: Result<RuleOutcome, String>) {
        if let Some(Waiter::Rule(_, waiter)) = self.tasks.waiting.borrow_mut().remove(&id) {
            // The run may no longer wait for it.
            let _ = waiter.send(outcome);
        }
    }

    /// Reports that a timer has fired.
    pub(crate) fn time_passed(&self, id: TaskId) {
        if let Some(Waiter::Timer(waiter)) = self.tasks.waiting.borrow_mut().remove(&id) {
            let _ = waiter.send(());
        }
    }

    /// Evaluates a decision for a rule, which chooses the number of the evaluation.
    pub(crate) fn evaluate(&self, evaluation: TaskId, key: String, input: String, wants_trace: bool) {
        let open = self.tasks.evaluations.get();
        if open >= EVALUATIONS_MAX {
            let reason = format!(
                "a run evaluates at most {EVALUATIONS_MAX} decisions at once, those within others included"
            );
            let command = Command::Evaluated(evaluation, Err(reason));
            self.tasks.commands.borrow_mut().push(command);
            return;
        }
        self.tasks.evaluations.set(open + 1);
        let (tasks, response) = (
            Rc::clone(&self.tasks),
            self.host.evaluate(key, input, wants_trace),
        );
        let spawned = self.pool.spawner().spawn_local(async move {
            let command = Command::Evaluated(evaluation, response.await);
            tasks.evaluations.set(tasks.evaluations.get() - 1);
            tasks.commands.borrow_mut().push(command);
        });
        spawned.expect("the pool is there");
    }

    /// Passes on a line that a rule has logged; 0 if it is unknown which.
    pub(crate) fn log(&self, rule: TaskId, level: u8, text: String) {
        let node = match self.tasks.waiting.borrow().get(&rule) {
            Some(Waiter::Rule(node, _)) => Some(node.clone()),
            _ => None,
        };
        self.host.log(LogLine { node, level, text });
    }

    /// Continues the run as far as it comes without further events. Returns its result, if that is to its end.
    pub(crate) fn result(&mut self) -> Option<Vec<u8>> {
        self.pool.run_until_stalled();
        self.result.take()
    }

    /// Continues the run as far as it comes without further events. Returns the commands that follow.
    pub(crate) fn advance(&mut self) -> Vec<Command> {
        match self.result() {
            // Pending tasks are no longer needed.
            Some(result) => vec![Command::Answer(result)],
            None => self.tasks.commands.take(),
        }
    }
}
