//! Runs workflows: admits each run, has its rules evaluated, and counts and logs it.

use std::{
    any::Any,
    fmt,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::{
    sync::oneshot,
    time::{timeout, timeout_at},
};
use tracing::Level;

use crate::{
    ActiveReleases, Admission, Asker, Bundle, Evaluator, FailureKind, Observer, RunCounts, RunInput, RunLog,
    RunOutcome, RunStorage, WorkflowFailure,
    bundle::Plan,
    observer::CountedRun,
    runs::{
        driver::{self, RunSpec},
        result::{self, NodeFailure, PublicText, RunResult},
    },
};

/// Metrics name for rules that are run alone. No workflow has this name.
const RULES: &str = "(rules)";

/// Limits on a run.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits {
    /// Longest duration, including the wait for an engine.
    pub timeout: Duration,
    /// Most bytes that its rules may log.
    pub log_max: usize,
    /// Most bytes of its result, and of all its rules' results together.
    pub output_max: usize,
}

/// Runs workflows.
#[derive(Debug)]
pub struct Runner<E: Evaluator> {
    /// The workflows in force.
    pub releases: Arc<ActiveReleases<E>>,
    /// Evaluates the rules.
    pub evaluator: Arc<E>,
    /// The clients, with the workflows and rates that each may have.
    pub admission: Arc<Admission>,
    /// Counts and logs the runs.
    pub observer: Arc<dyn Observer>,
    /// The storage that rules may have written to.
    pub storage: Option<Arc<dyn RunStorage>>,
    /// Limits on each run.
    pub limits: RunLimits,
    /// Keeps pools and databases in use as long as runs may call them.
    pub held: Option<Arc<dyn Any + Send + Sync>>,
}

impl<E: Evaluator> Clone for Runner<E> {
    fn clone(&self) -> Self {
        Self {
            releases: Arc::clone(&self.releases),
            evaluator: Arc::clone(&self.evaluator),
            admission: Arc::clone(&self.admission),
            observer: Arc::clone(&self.observer),
            storage: self.storage.clone(),
            limits: self.limits,
            held: self.held.clone(),
        }
    }
}

/// A request for one run.
pub struct RunCall<'a, E: Evaluator> {
    /// The compiled workflows to run from.
    pub(crate) bundle: &'a Arc<Bundle<E>>,
    /// Name of the workflow, or of the rule that runs alone.
    pub(crate) workflow: &'a str,
    /// A JSON object.
    pub(crate) args: &'a RawValue,
    /// The client that requests it.
    pub(crate) asker: Asker<'a>,
    /// Id of the request.
    pub(crate) trace_id: &'a str,
    /// The value of `isTrace()` in rules.
    pub(crate) is_traced: bool,
    /// Whether the result includes a trace of the nodes.
    pub(crate) wants_trace: bool,
    /// Whether the client is unknown: it gets no errors of the clients that rules use.
    pub(crate) is_anonymous: bool,
    /// Called when the run begins.
    pub(crate) begun: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl<E: Evaluator> fmt::Debug for RunCall<'_, E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RunCall")
            .field("workflow", &self.workflow)
            .finish_non_exhaustive()
    }
}

/// The plan of a run, with its counters.
struct PlannedRun {
    plan: Plan,
    /// The graph's attributes: a JSON object.
    attributes: Arc<str>,
    counts: Arc<dyn RunCounts>,
}

impl<'a, E: Evaluator> RunCall<'a, E> {
    /// A run of a workflow, or of a rule alone, for this client; `trace_id` is the id of its request, `args` a JSON object.
    pub fn new(
        bundle: &'a Arc<Bundle<E>>,
        workflow: &'a str,
        args: &'a RawValue,
        asker: Asker<'a>,
        trace_id: &'a str,
        wants_trace: bool,
    ) -> Self {
        Self {
            bundle,
            workflow,
            args,
            asker,
            trace_id,
            is_traced: wants_trace,
            wants_trace,
            is_anonymous: asker.is_anonymous(),
            begun: None,
        }
    }

    /// How long a run with this deadline is waited for: a traced one hands over its trace after it.
    pub fn until(&self, deadline: Instant) -> Instant {
        if self.wants_trace {
            deadline + TRACE_TIME
        } else {
            deadline
        }
    }

    /// How much of an error the client may read.
    fn public_text(&self) -> PublicText {
        if self.is_anonymous {
            result::anonymous_text::<E>
        } else {
            result::first_line
        }
    }

    /// The failure of a run with this result, if a node failed; it is logged under this id.
    pub(crate) fn node_failure(&self, result: &RunResult<'_>, request_id: &str) -> Option<NodeFailure> {
        let (node, error) = (result.node.as_ref()?, result.error.as_ref()?);
        let workflow = self.workflow;
        tracing::warn!(target: "forebay::workflow", workflow, request_id, "node `{node}` failed: {error}");
        Some(NodeFailure {
            node: node.clone(),
            reason: (self.public_text())(error).to_owned(),
            is_input: result.is_input,
            trace: result.trace_members(),
        })
    }
}

impl<E: Evaluator> Runner<E> {
    /// Longest duration of a run of this workflow.
    pub fn timeout_of(&self, workflow: &str) -> Duration {
        let own = self.admission.timeout(workflow).unwrap_or(Duration::MAX);
        own.min(self.limits.timeout)
    }

    /// Runs a workflow until `deadline` and returns its result as JSON.
    ///
    /// # Errors
    /// If the run is refused or fails, at a node too.
    pub async fn run(&self, ask: &RunCall<'_, E>, deadline: Instant) -> Result<Bytes, WorkflowFailure> {
        let bytes = self.evaluate(ask, deadline).await?;
        match ask.node_failure(&RunResult::read(&bytes)?, ask.trace_id) {
            Some(failure) => Err(failure.into()),
            None => Ok(bytes),
        }
    }

    /// Runs a workflow until `deadline` and returns its result, that of a run that failed at a node too: JSON that [`RunResult`] reads.
    ///
    /// # Errors
    /// If the run is refused, or fails otherwise than at a node.
    pub(crate) async fn evaluate(
        &self,
        ask: &RunCall<'_, E>,
        deadline: Instant,
    ) -> Result<Bytes, WorkflowFailure> {
        // A client that may not run the workflow does not learn whether it exists.
        if let Err(refusal) = Admission::check(ask.asker, ask.workflow) {
            if ask.bundle.has(ask.workflow) {
                let counts = self.observer.counts(ask.workflow);
                CountedRun::begin(counts, deadline).ends(RunOutcome::Refused);
            }
            return Err(refusal);
        }
        let Some(workflow) = ask.bundle.workflow(ask.workflow) else {
            let name = ask.workflow.to_owned();
            return Err(WorkflowFailure::NoSuchWorkflow { name });
        };
        let plan = workflow.plan.clone().map_err(|reason| WorkflowFailure::Faulty {
            name: ask.workflow.to_owned(),
            reason: reason.to_string(),
        })?;
        let schemas = ask.bundle.schemas(ask.workflow);
        if let Some(schemas) = schemas {
            schemas.check_args(ask.args)?;
        }
        let planned = PlannedRun {
            plan,
            attributes: Arc::clone(&workflow.attributes),
            counts: self.observer.counts(ask.workflow),
        };
        let bytes = self.run_planned(ask, planned, deadline).await?;
        if let Some(schemas) = schemas.filter(|schemas| schemas.has_result()) {
            schemas.check_result(RunResult::read(&bytes)?.values)?;
        }
        Ok(bytes)
    }

    /// Runs a single rule, as if it were the only node of a graph.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub(crate) async fn evaluate_rule(
        &self,
        ask: &RunCall<'_, E>,
        deadline: Instant,
    ) -> Result<Bytes, WorkflowFailure> {
        Admission::check(ask.asker, ask.workflow)?;
        let Some(plan) = ask.bundle.plan_of_rule(ask.workflow) else {
            let name = ask.workflow.to_owned();
            return Err(WorkflowFailure::NoSuchRule { name });
        };
        let planned = PlannedRun {
            plan,
            attributes: Arc::from("{}"),
            counts: self.observer.counts(RULES),
        };
        self.run_planned(ask, planned, deadline).await
    }

    /// Runs it within its limits, counts it and logs its failure.
    async fn run_planned(
        &self,
        ask: &RunCall<'_, E>,
        planned: PlannedRun,
        deadline: Instant,
    ) -> Result<Bytes, WorkflowFailure> {
        let counted = CountedRun::begin(Arc::clone(&planned.counts), deadline);
        let log = self.observer.log(ask.workflow, ask.trace_id);
        let late = Late { log, deadline };
        let (unfinished, stopped) = ask.wants_trace.then(oneshot::channel).unzip();
        let run = self.run_admitted(ask, planned, deadline, unfinished);
        let result = match stopped {
            None => run.await,
            Some(stopped) => {
                // Stopped here, because those who wait for a traced run do so for a little longer.
                let result = timeout_at(deadline.into(), run).await;
                match result.unwrap_or(Err(WorkflowFailure::DeadlinePassed)) {
                    Ok(bytes) => Ok(bytes),
                    Err(failure) => Err(with_trace(failure, stopped).await),
                }
            }
        };
        let outcome = outcome_of(&result);
        counted.ends(outcome);
        late.over(&result, outcome);
        result
    }

    async fn run_admitted(
        &self,
        ask: &RunCall<'_, E>,
        planned: PlannedRun,
        deadline: Instant,
        unfinished: Option<oneshot::Sender<String>>,
    ) -> Result<Bytes, WorkflowFailure> {
        let PlannedRun {
            plan,
            attributes,
            counts,
        } = planned;
        let admitted = self.admission.admit(ask.asker, ask.workflow, deadline).await?;
        let args: Arc<str> = ask.args.get().into();
        let input = RunInput {
            requested_ms: now_ms(),
            client: ask.asker.id.map(str::to_owned),
            user: ask.asker.user.map(str::to_owned),
            request_id: ask.trace_id.to_owned(),
            is_traced: ask.is_traced,
            workflow: ask.workflow.to_owned(),
            args: Arc::clone(&args),
            attributes,
        };
        let spec = RunSpec {
            bundle: Arc::clone(ask.bundle),
            plan,
            counts,
            log: self.observer.log(ask.workflow, ask.trace_id),
            args,
            wants_trace: ask.wants_trace,
            log_max: self.limits.log_max,
            output_max: self.limits.output_max,
            deadline,
            unfinished,
            public_text: ask.public_text(),
        };
        let begun = ask.begun.clone();
        let begin = Box::new(move |engine| {
            if let Some(begun) = begun {
                begun();
            }
            driver::begin(spec, engine)
        });
        let priority = admitted.priority;
        let output = self.evaluator.run(input, deadline, priority, begin)?.await;
        drop(admitted);
        let output = output?;
        // A run that notices its deadline itself and one that the evaluator stops get the same error.
        if Instant::now() >= deadline {
            return Err(WorkflowFailure::DeadlinePassed);
        }
        if let Some(on_disk) = self
            .storage
            .as_ref()
            .and_then(|storage| storage.on_disk(output.commit))
        {
            on_disk.await?;
        }
        Ok(output.result)
    }
}

/// Time for the thread of a run that was stopped to hand over its trace, and for the response with it.
pub(crate) const TRACE_TIME: Duration = Duration::from_secs(1);

/// The failure of a traced run, with its steps if it had begun.
async fn with_trace(failure: WorkflowFailure, stopped: oneshot::Receiver<String>) -> WorkflowFailure {
    if failure.kind() == FailureKind::Overload {
        return failure;
    }
    match timeout(TRACE_TIME / 2, stopped).await {
        Ok(Ok(trace)) => {
            let failure = Box::new(failure);
            WorkflowFailure::Stopped { failure, trace }
        }
        _ => failure,
    }
}

/// Log line for a run that timed out.
const NOT_OVER: &str = "the run timed out (timeout)";

/// Writes a failed run to the workflow's log; a timeout even if the run's future is dropped because nothing waits for it any more.
struct Late {
    /// Taken when the run is over.
    log: Option<Box<dyn RunLog>>,
    deadline: Instant,
}

impl Late {
    /// Logs the failure of a run that is over.
    fn over(mut self, result: &Result<Bytes, WorkflowFailure>, outcome: RunOutcome) {
        if let (Some(mut log), Err(failure)) = (self.log.take(), result)
            && outcome != RunOutcome::Refused
        {
            let why = failure.to_string();
            let why = if outcome == RunOutcome::Late {
                NOT_OVER
            } else {
                &why
            };
            log.line(Level::ERROR, why, None, None);
        }
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        if let Some(log) = &mut self.log
            && Instant::now() >= self.deadline
        {
            log.line(Level::ERROR, NOT_OVER, None, None);
        }
    }
}

/// The outcome that a run's result is counted as.
fn outcome_of(result: &Result<Bytes, WorkflowFailure>) -> RunOutcome {
    let failure = match result {
        Ok(bytes) => return result::outcome_of(bytes),
        Err(failure) => failure,
    };
    match failure.kind() {
        FailureKind::Deadline => RunOutcome::Late,
        FailureKind::Unauthorized | FailureKind::Forbidden | FailureKind::TooMany | FailureKind::Overload => {
            RunOutcome::Refused
        }
        FailureKind::NotFound
        | FailureKind::BadInput
        | FailureKind::Unprocessable
        | FailureKind::Internal => RunOutcome::Failed,
    }
}

/// Milliseconds since 1970 UTC.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
