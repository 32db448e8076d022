//! Runs workflows: one by name, with the arguments as the body, or several at a time as requests of Rengine name them.

mod admission;
mod bundle;
mod durable_runs;
mod offline;
mod openapi;
mod releases;
mod requests;
mod runs;
mod schemas;
mod workers;

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use forebay_pool::RequestParts;
use forebay_script::{Answer, Body as ScriptBody, Failure, Script};
use serde_json::value::RawValue;
use tokio::{
    sync::oneshot,
    time::{timeout, timeout_at},
};
use tracing::Level;

pub(crate) use self::bundle::Bundle;
pub(crate) use self::durable_runs::DurableRuns;
pub(crate) use self::releases::{
    active::{ActiveReleases, Reading, ResolvedRelease},
    files::is_workflow_file,
};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::requests::read_xml;
pub(crate) use self::workers::PoolWorkers;
use self::{
    admission::{Admission, Asker},
    bundle::Plan,
    requests::{custom, named, scenes},
    runs::{
        driver::{RunSpec, WorkflowDriver},
        result::{self, RunResult},
    },
};
pub use self::{
    bundle::BundleErrors,
    offline::{Offline, OfflineError, Tested, arguments_of, check},
    releases::{
        active::{ShelfError, place_of_release},
        cases::StoredTest,
        files::WorkflowFiles,
        stored::{
            About, Actor, Canary, LogEntry, ReleaseAssignments, ReleaseError, Releases, RolledBack, State,
        },
    },
};
use super::{
    End, Request,
    durability::on_disk,
    post_only::{POSTED, unless_posted},
    store::body,
};
use crate::{
    app::WorkflowEnvironment,
    config::{self, WorkflowApi, WorkflowRoute},
    failure::Refusal,
    front::{RequestBody, Socket, Stream},
    logging::{RunLog, WorkflowLogs},
    metrics::{RunOutcome, WorkflowCounts, WorkflowMetrics},
    reply::Reply,
    store::OpenStore,
};

/// Metrics name for rules that are run alone. No workflow has this name.
const RULES: &str = "(rules)";

/// The workflows target: the workflows in force, and the engines that run their rules.
#[derive(Clone, Debug)]
pub(crate) struct WorkflowTarget {
    script: Arc<Script>,
    shelf: Arc<ActiveReleases>,
    admission: Arc<Admission>,
    counts: Arc<WorkflowMetrics>,
    logs: Option<Arc<WorkflowLogs>>,
    limits: RunLimits,
    route: WorkflowRoute,
    kept: Option<Arc<DurableRuns>>,
    /// The store that rules may have written to.
    store: Option<Arc<OpenStore>>,
    /// Keeps the app in use: runs that outlive their request may still call its pools.
    _held: Option<Arc<tokio::sync::watch::Sender<()>>>,
}

/// Limits on a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLimits {
    /// Longest duration, including the wait for an engine.
    pub(crate) timeout: Duration,
    /// Most bytes that its rules may log.
    pub(crate) log_max: usize,
    /// Most bytes of its result, and of all its rules' results together.
    pub(crate) output_max: usize,
    /// Whether responses are exactly Rengine's wherever programs could depend on that.
    pub(crate) is_as_rengine: bool,
}

/// Why a run is refused, or why it failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum WorkflowFailure {
    #[error("there is no workflow `{name}`")]
    NoSuchWorkflow { name: String },
    #[error("there is no rule `{name}`")]
    NoSuchRule { name: String },
    #[error(
        "no release of the workflows is published in the global `{global}`: create one with `forebay workflow import` and publish it with `forebay workflow publish`"
    )]
    NothingPublished { global: String },
    #[error(
        "requests cannot use release {number}: it is neither published nor in test (`forebay workflow state {number} test`)"
    )]
    NoSuchRelease { number: u64 },
    #[error("the body is not a JSON object of arguments: {what}")]
    Arguments { what: String },
    #[error("the arguments do not match their schema: {what}")]
    OtherArguments { what: String },
    #[error("the result does not match its schema: {what}")]
    Result { what: String },
    #[error("{what}")]
    Request { what: String },
    #[error("node `{node}` failed: {reason}")]
    Failed {
        node: String,
        reason: String,
        /// Members of the response with the trace, if the client asked for it: `,"trace":[...],"logs":[...]`.
        trace: String,
    },
    #[error("{what}")]
    Template { what: String },
    #[error("workflows are run for clients alone: send an id and its secret, or a bearer token")]
    NoCredentials,
    #[error("there is no client with this id and secret, or this token")]
    WrongCredentials,
    #[error("this client may not run `{name}` (workflow.clients)")]
    NotAllowed { name: String },
    #[error("this client exceeds {runs_per_second} runs per second (runs_per_second)")]
    Quota { runs_per_second: u32 },
    #[error("this client already has {runs_max} runs (runs_max)")]
    ClientBusy { runs_max: usize },
    #[error("there is no run `{id}`: results are deleted after a while (workflow.runs.kept)")]
    NoSuchRun { id: String },
    #[error("key `{id}` was already used with another workflow or other arguments")]
    OtherRun { id: String },
    #[error("too many durable runs are open (workflow.runs: open_max {open_max})")]
    TooManyRuns { open_max: usize },
    #[error("{path} in the store is no run: {reason}")]
    ForeignRun { path: String, reason: String },
    #[error("{what}")]
    Ended {
        status: u16,
        what: String,
        /// As in `Failed`.
        trace: String,
    },
    #[error("the queue of workflow `{name}` is full (workflow.scenes: queue_max {queue_max})")]
    SceneBusy { name: String, queue_max: usize },
    #[error("{accept_queue_max} runs are in flight already (workflow.accept_queue_max)")]
    Busy { accept_queue_max: usize },
    #[error("the runs in flight have no room for {bytes} more bytes (workflow.queue_bytes_max)")]
    BytesFull { bytes: usize },
    #[error("the run needs more memory than {memory_max} bytes (workflow.memory_max)")]
    Memory { memory_max: usize },
    #[error("the result is longer than {output_max} bytes (workflow.output_max)")]
    ResultLength { output_max: usize },
    #[error("the run did not end within {timeout:?} (workflow.timeout)")]
    Timeout { timeout: Duration },
    #[error("{refusal}")]
    Stopped {
        /// Why the run was stopped before its end.
        refusal: Box<Refusal>,
        /// The trace until then, as in `Failed`.
        trace: String,
    },
}

/// A request for one run.
#[derive(Debug)]
struct Ask<'a> {
    /// The compiled workflows to run from.
    book: &'a Arc<Bundle>,
    workflow: &'a str,
    args: &'a RawValue,
    asker: Asker<'a>,
    trace_id: &'a str,
    /// The value of `isTrace()` in rules.
    is_traced: bool,
    wants_trace: bool,
    /// Whether the client is unknown: it gets no errors of the clients that rules use.
    is_anonymous: bool,
    /// Notified when the run begins.
    begun: Option<Arc<durable_runs::Entry>>,
}

impl ResolvedRelease {
    /// Names the release in a response header.
    fn tell(&self, mut reply: Reply<'static>) -> Reply<'static> {
        if let Some(number) = self.release {
            let number = number.to_string();
            reply.headers.to_mut().push_known("workflow-release", &number);
        }
        reply
    }
}

impl WorkflowTarget {
    pub(crate) fn new(
        script: Arc<Script>,
        shelf: Arc<ActiveReleases>,
        limits: RunLimits,
        workflow: &config::Workflow,
        around: WorkflowEnvironment<'_>,
    ) -> Self {
        let route = WorkflowRoute {
            api: WorkflowApi::Named,
            release: None,
        };
        Self {
            script,
            shelf,
            admission: Admission::new(workflow),
            counts: around.workflows,
            logs: around.logs,
            limits,
            route,
            kept: around.kept,
            store: around.open_store,
            _held: around.held,
        }
    }

    /// The same target for a route.
    pub(crate) fn at(&self, route: WorkflowRoute) -> Self {
        Self {
            route,
            ..self.clone()
        }
    }

    /// The book for a request with this id: of the given release, of the route's, or of the one in force.
    fn choose(&self, id: &str, release: Option<u64>) -> Result<ResolvedRelease, Refusal> {
        let release = release.or(self.route.release);
        self.shelf.choose(id, release).map_err(Refusal::Workflow)
    }

    /// The book of the published release, or of the route's own.
    fn choose_published(&self) -> Result<ResolvedRelease, WorkflowFailure> {
        self.shelf.published(self.route.release)
    }

    /// Releases that runs get without asking, each with its state.
    pub(crate) fn releases(&self) -> Vec<(u64, &'static str)> {
        self.shelf.shared()
    }

    /// The durable runs, if they are configured.
    pub(crate) fn kept(&self) -> Option<&Arc<DurableRuns>> {
        self.kept.as_ref()
    }

    /// Log files of its rules.
    pub(crate) fn logs(&self) -> Option<Arc<WorkflowLogs>> {
        self.logs.clone()
    }

    pub(crate) fn script(&self) -> &Arc<Script> {
        &self.script
    }

    /// Dispatches a request to the route's kind of API.
    pub(crate) async fn answer<S: Stream>(
        &self,
        request: &Request<'_>,
        body: &mut RequestBody,
        socket: &mut Socket<S>,
    ) -> Result<Reply<'static>, End> {
        // Systems that know nothing of workflows may send GET or POST.
        let is_read = matches!(request.head.method(), "GET" | "HEAD");
        if is_read
            && self.route.api == WorkflowApi::Named
            && let Some(kept) = &self.kept
        {
            return requests::durable::tell(self, kept, request, socket).await;
        }
        let is_asked = is_read && self.route.api == WorkflowApi::Custom;
        if !is_asked && let Some(reply) = unless_posted(request.head, self.methods())? {
            return Ok(reply);
        }
        let text = body::read(request, body, socket).await?;
        match self.route.api {
            WorkflowApi::Named => named::answer(self, request, &text, socket).await,
            WorkflowApi::Scenes => scenes::answer(self, request, &text, socket, false).await,
            WorkflowApi::RuleScript => scenes::answer(self, request, &text, socket, true).await,
            WorkflowApi::Custom => custom::answer(self, request, &text, socket).await,
        }
    }

    /// Methods of the route, except for [`WorkflowApi::Custom`], which also takes GET.
    fn methods(&self) -> &'static str {
        if self.route.api == WorkflowApi::Named && self.kept.is_some() {
            "GET, HEAD, OPTIONS, POST"
        } else {
            POSTED
        }
    }

    /// Longest duration of a run of this workflow.
    fn timeout_of(&self, workflow: &str) -> Duration {
        let own = self.admission.timeout(workflow).unwrap_or(Duration::MAX);
        own.min(self.limits.timeout)
    }

    /// Runs a workflow until `deadline` and returns its result.
    async fn run(&self, ask: &Ask<'_>, deadline: Instant) -> Result<Bytes, Refusal> {
        // A client that may not run the workflow does not learn whether it exists.
        if let Err(refusal) = Admission::check(ask.asker, ask.workflow) {
            if ask.book.workflow(ask.workflow).is_some() {
                let counted = self.counts.of(ask.workflow).begin(deadline);
                counted.ends(RunOutcome::Refused);
            }
            return Err(refusal);
        }
        let Some(workflow) = ask.book.workflow(ask.workflow) else {
            let name = ask.workflow.to_owned();
            return Err(Refusal::Workflow(WorkflowFailure::NoSuchWorkflow { name }));
        };
        let schemas = ask.book.schemas(ask.workflow);
        if let Some(schemas) = schemas {
            schemas.check_args(ask.args).map_err(Refusal::Workflow)?;
        }
        let counts = self.counts.of(ask.workflow);
        let run = self.run_plan(workflow.plan.clone(), &workflow.attributes, ask, deadline, counts);
        let bytes = run.await?;
        if let Some(schemas) = schemas.filter(|schemas| schemas.has_result()) {
            let checked = schemas.check_result(read_result(&bytes)?.values);
            checked.map_err(Refusal::Workflow)?;
        }
        Ok(bytes)
    }

    /// Runs a single rule, as if it were the only node of a graph.
    async fn run_rule(&self, ask: &Ask<'_>, deadline: Instant) -> Result<Bytes, Refusal> {
        Admission::check(ask.asker, ask.workflow)?;
        let Some(plan) = ask.book.plan_of_rule(ask.workflow) else {
            let name = ask.workflow.to_owned();
            return Err(Refusal::Workflow(WorkflowFailure::NoSuchRule { name }));
        };
        let counts = self.counts.of(RULES);
        self.run_plan(plan, "{}", ask, deadline, counts).await
    }

    async fn run_plan(
        &self,
        plan: Plan,
        attributes: &str,
        ask: &Ask<'_>,
        deadline: Instant,
        counts: Arc<WorkflowCounts>,
    ) -> Result<Bytes, Refusal> {
        let counted = counts.begin(deadline);
        let log = self.log_of(ask);
        let late = Late { log, deadline };
        let (unfinished, stopped) = match ask.wants_trace {
            true => Some(oneshot::channel()).unzip(),
            false => (None, None),
        };
        let run = self.run_admitted(plan, attributes, ask, deadline, counts, unfinished);
        let result = match stopped {
            None => run.await,
            Some(stopped) => {
                // Stopped here, because those who wait for a traced run do so for a little longer.
                let result = timeout_at(deadline.into(), run).await;
                let result = result.unwrap_or(Err(Refusal::Script(Failure::DeadlinePassed)));
                match result {
                    Ok(bytes) => Ok(bytes),
                    Err(refusal) => Err(with_trace(refusal, stopped).await),
                }
            }
        };
        let outcome = outcome_of(&result);
        counted.ends(outcome);
        late.over(&result, outcome);
        result
    }

    /// The log file that a run's lines go to, in addition to its trace.
    fn log_of(&self, ask: &Ask<'_>) -> Option<RunLog> {
        let logs = self.logs.as_ref()?;
        Some(logs.of_run(ask.workflow, ask.trace_id))
    }

    async fn run_admitted(
        &self,
        plan: Plan,
        attributes: &str,
        ask: &Ask<'_>,
        deadline: Instant,
        counts: Arc<WorkflowCounts>,
        unfinished: Option<oneshot::Sender<String>>,
    ) -> Result<Bytes, Refusal> {
        let admitted = self.admission.admit(ask.asker, ask.workflow, deadline).await?;
        let input = format!(
            r#"{{"requestTime":{},"clientId":{},"traceId":{},"trace":{},"workflowId":{},"args":{},"attributes":{}}}"#,
            now_ms(),
            ask.asker.id.map_or_else(|| "null".to_owned(), quoted),
            quoted(ask.trace_id),
            ask.is_traced,
            quoted(ask.workflow),
            ask.args.get(),
            attributes,
        );
        let mut payload = Vec::with_capacity(input.len() + 64);
        RequestParts {
            remaining_ms: 0,
            method: b"POST",
            path: ask.workflow.as_bytes(),
            query: b"",
            route: b"",
            params: [].into_iter(),
            headers: std::iter::once((&b"x-request-id"[..], ask.trace_id.as_bytes())),
            peer: b"",
            body: input.as_bytes(),
        }
        .put(&mut payload);
        let wanted = RunSpec {
            book: Arc::clone(ask.book),
            plan,
            counts,
            log: self.log_of(ask),
            args: ask.args.to_owned(),
            wants_trace: ask.wants_trace,
            log_max: self.limits.log_max,
            output_max: self.limits.output_max,
            deadline,
            unfinished,
            is_anonymous: ask.is_anonymous,
        };
        let begun = ask.begun.clone();
        let begin = Box::new(move || -> Box<dyn forebay_script::RunDriver> {
            if let Some(begun) = begun {
                begun.begins();
            }
            Box::new(WorkflowDriver::new(wanted))
        });
        let priority = admitted.priority;
        let awaited = self.script.run(payload, Some(deadline), priority, begin);
        let answer = awaited.map_err(by_own_keys)?.await;
        drop(admitted);
        let answer = answer.map_err(by_own_keys)?;
        // A run that notices its deadline itself and one that the watchdog stops get the same error.
        if Instant::now() >= deadline {
            return Err(Refusal::Script(Failure::DeadlinePassed));
        }
        on_disk(self.store.as_deref(), answer.commit).await?;
        Ok(whole(answer))
    }
}

/// The trace of a run that was stopped or failed, as members of an object.
pub(crate) fn trace_of(refusal: &Refusal) -> &str {
    match refusal {
        Refusal::Workflow(
            WorkflowFailure::Stopped { trace, .. }
            | WorkflowFailure::Failed { trace, .. }
            | WorkflowFailure::Ended { trace, .. },
        ) => trace,
        _ => "",
    }
}

/// The failure of a run, with limits under their keys of `[workflow]`.
fn by_own_keys(failure: Failure) -> Refusal {
    Refusal::Workflow(match failure {
        Failure::Busy { in_flight_max } => WorkflowFailure::Busy {
            accept_queue_max: in_flight_max,
        },
        Failure::BytesFull { bytes, .. } => WorkflowFailure::BytesFull { bytes },
        Failure::Memory { memory_max } => WorkflowFailure::Memory { memory_max },
        Failure::Output { output_max } => WorkflowFailure::ResultLength { output_max },
        failure => return Refusal::Script(failure),
    })
}

/// Time for the thread of a run that was stopped to hand over its trace, and for the response with it.
const TRACE_TIME: Duration = Duration::from_secs(1);

/// The refusal of a traced run, with its steps if it had begun.
async fn with_trace(refusal: Refusal, stopped: oneshot::Receiver<String>) -> Refusal {
    if refusal.status() == 503 {
        return refusal;
    }
    match timeout(TRACE_TIME / 2, stopped).await {
        Ok(Ok(trace)) => {
            let refusal = Box::new(refusal);
            Refusal::Workflow(WorkflowFailure::Stopped { refusal, trace })
        }
        _ => refusal,
    }
}

/// Log line for a run that timed out.
const NOT_OVER: &str = "the run timed out (timeout)";

/// Writes a failed run to the workflow's log; a timeout even if the run's future is dropped because nothing waits for it any more.
struct Late {
    /// Taken when the run is over.
    log: Option<RunLog>,
    deadline: Instant,
}

impl Late {
    /// Logs the failure of a run that is over.
    fn over(mut self, result: &Result<Bytes, Refusal>, outcome: RunOutcome) {
        if let (Some(mut log), Err(refusal)) = (self.log.take(), result)
            && outcome != RunOutcome::Refused
        {
            let why = refusal.to_string();
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

/// Deepest nesting of arguments. Rules and decisions handle values recursively.
const DEPTH_MAX: usize = 128;

/// Parses a body as the arguments of a run.
fn arguments(text: &[u8]) -> Result<&RawValue, Refusal> {
    let what = match serde_json::from_slice::<&RawValue>(text) {
        Ok(args) if depth_of(args.get()) > DEPTH_MAX => {
            format!("it is nested deeper than {DEPTH_MAX} levels")
        }
        Ok(args) if args.get().starts_with('{') => return Ok(args),
        Ok(_) => "it is another value".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Refusal::Workflow(WorkflowFailure::Arguments { what }))
}

/// The deepest nesting of objects and arrays in valid JSON.
fn depth_of(json: &str) -> usize {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_text => depth -= 1,
            _ => {}
        }
    }
    deepest
}

fn whole(answer: Answer) -> Bytes {
    match answer.body {
        ScriptBody::Whole(bytes) => bytes,
        ScriptBody::Stream(_) => unreachable!("runs are answered at once"),
    }
}

fn read_result(bytes: &[u8]) -> Result<RunResult<'_>, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| {
        Refusal::Script(Failure::Broken {
            reason: format!("a run's result cannot be read: {error}"),
        })
    })
}

/// The outcome that a run's result is counted as.
fn outcome_of(result: &Result<Bytes, Refusal>) -> RunOutcome {
    let bytes = match result {
        Ok(bytes) => bytes,
        Err(refusal) => {
            return match refusal.status() {
                504 => RunOutcome::Late,
                401 | 403 | 429 | 503 => RunOutcome::Refused,
                _ => RunOutcome::Failed,
            };
        }
    };
    result::outcome_of(bytes)
}

/// The first line of an error, without the stack trace.
fn first_line(error: &str) -> &str {
    error.lines().next().unwrap_or_default()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn now_ms() -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_millis()
}
