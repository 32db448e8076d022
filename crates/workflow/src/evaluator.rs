//! The boundary to whatever evaluates rules. An [`Evaluator`] compiles rules, and gives each run an [`Engine`] for as long as the run
//! lasts.

use std::{
    fmt,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{BuiltinTask, NodeName, WorkflowFailure};
use bytes::Bytes;

/// Compiles and evaluates rules.
pub trait Evaluator: fmt::Debug + Send + Sync + 'static {
    /// A compiled rule, module or function.
    type Rule: fmt::Debug + Send + Sync + 'static;
    /// Evaluates the rules of one run.
    type Engine: Engine<Rule = Self::Rule> + 'static;
    /// Names of modules that rules can require though there is no file for them. A file of the same name comes first.
    const MODULES: &'static [&'static str];

    /// Compiles a rule without running it.
    fn compile(source: RuleSource<'_>) -> CompiledRule<Self::Rule>;

    /// Makes the rule of a built-in node.
    ///
    /// # Errors
    /// Settings that are wrong.
    fn builtin(task: &BuiltinTask) -> Result<Self::Rule, String>;

    /// Whether a rule threw this error, which ends with its stack trace, itself. Errors of the calls that it made may tell addresses and
    /// paths, so anonymous clients do not get them.
    fn is_thrown_by_rule(error: &str) -> bool;

    /// Gives a run an engine, on whose thread `begin` starts it. Dropping the future cancels the run.
    ///
    /// # Errors
    /// If there is no room for another run.
    fn run(
        &self,
        input: RunInput,
        deadline: Instant,
        priority: Priority,
        begin: Begin<Self::Engine>,
    ) -> Result<impl Future<Output = Result<RunOutput, WorkflowFailure>> + Send, WorkflowFailure>;
}

/// Evaluates the rules of one run, on the thread of that run.
pub trait Engine {
    /// A compiled rule.
    type Rule;

    /// Evaluates a rule. Several may be evaluated at the same time; dropping the future stops the rule. The error has the place where the
    /// rule failed.
    fn evaluate(&self, call: EngineCall<Self::Rule>) -> impl Future<Output = Result<RuleOutcome, String>>;

    /// Resolves after this time.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()>;
}

/// The side of a run that its engine calls.
pub trait RunHost<R> {
    /// Receives a line that a rule has logged.
    fn log(&self, line: LogLine);

    /// Finds a module that a rule requires; `from` is the path of the requiring module, empty for rules.
    ///
    /// # Errors
    /// The reason why there is none.
    fn module(&self, from: &str, name: &str) -> Result<RuleModule<R>, String>;

    /// Evaluates a decision for input in JSON. Resolves to the response of GoRules' engine in JSON, or to the reason why there is none.
    fn evaluate(
        &self,
        key: String,
        input: String,
        wants_trace: bool,
    ) -> Pin<Box<dyn Future<Output = Result<String, String>>>>;

    /// Evaluates an expression, or a unary test, for a context in JSON; returns its value in JSON.
    ///
    /// # Errors
    /// The reason why it has no value.
    fn expression(&self, text: &str, context: &str, is_unary: bool) -> Result<String, String>;
}

/// Starts a run, on the thread of its engine.
pub type Begin<E> = Box<dyn FnOnce(E) -> BegunRun<<E as Engine>::Rule> + Send>;

/// A run that has an engine.
pub struct BegunRun<R> {
    /// Resolves to the result, as JSON.
    pub result: Pin<Box<dyn Future<Output = Vec<u8>>>>,
    /// Serves the rules of the run.
    pub host: Rc<dyn RunHost<R>>,
}

/// The code of a rule.
#[derive(Clone, Copy, Debug)]
pub enum RuleSource<'s> {
    /// The files of a rule, in order: each sees the declarations of the earlier ones, and the last one declares `process`.
    Process {
        /// Name of the rule.
        name: &'s str,
        /// Its files, entry last.
        files: &'s [RuleFile],
    },
    /// A module for rules and other modules to require. Each run loads it anew.
    Module {
        /// Its path, without extension.
        path: &'s str,
        /// The file with its code.
        file: &'s RuleFile,
    },
    /// A function of a decision, which exports `handler` or declares `main`.
    Function {
        /// Name of its node.
        name: &'s str,
        /// The file with its code.
        file: &'s RuleFile,
    },
}

/// A source file of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFile {
    /// The file's name in error messages.
    pub name: String,
    /// JavaScript text, not a module.
    pub text: String,
}

/// The result of compiling a rule.
#[derive(Debug)]
pub struct CompiledRule<R> {
    /// The rule. It cannot be evaluated if there is an error.
    pub rule: R,
    /// The error, with the file and the line.
    pub error: Option<String>,
    /// Modules that its files require by constant names.
    pub required: Vec<Required>,
}

/// A constant module name that a text requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Required {
    /// The requiring file, as named in error messages.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The required name.
    pub name: String,
}

/// A module that rules require.
#[derive(Debug)]
pub struct RuleModule<R> {
    /// Its path; identifies it within a run, which loads each module once.
    pub path: String,
    /// The compiled module.
    pub rule: Arc<R>,
}

impl<R> fmt::Debug for BegunRun<R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("BegunRun").finish_non_exhaustive()
    }
}

/// The description of a run that its rules see.
#[derive(Clone, Debug)]
pub struct RunInput {
    /// Time of the request, in milliseconds since 1970 UTC.
    pub requested_ms: u64,
    /// Id of the client, if clients are configured.
    pub client: Option<String>,
    /// The authenticated user, if the server has authenticated one: a JSON object.
    pub user: Option<String>,
    /// Id of the request.
    pub request_id: String,
    /// Whether a trace is wanted.
    pub is_traced: bool,
    /// Name of the workflow, or of the rule that runs alone.
    pub workflow: String,
    /// The arguments: a JSON object.
    pub args: Arc<str>,
    /// The attributes of the graph: a JSON object.
    pub attributes: Arc<str>,
}

impl RunInput {
    /// Length of its texts in bytes.
    pub fn bytes(&self) -> usize {
        let bytes = |text: &Option<String>| text.as_deref().map_or(0, str::len);
        let names = bytes(&self.client) + bytes(&self.user) + self.request_id.len() + self.workflow.len();
        names + self.args.len() + self.attributes.len()
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct RunOutput {
    /// The result, as JSON.
    pub result: Bytes,
    /// The last commit that its rules may have made to the storage; 0 if there is none.
    pub commit: u64,
}

/// A rule for an engine to evaluate.
#[derive(Debug)]
pub struct EngineCall<R> {
    /// The compiled rule.
    pub rule: Arc<R>,
    /// The node that runs it.
    pub node: NodeName,
    /// The kind of that node.
    pub kind: &'static str,
    /// The outcome of the previous rule.
    pub last: Option<RuleOutcome>,
    /// The current item of a loop, as JSON.
    pub item: Option<String>,
    /// Time limit, waiting included. A rule that reaches it is stopped, and its future never resolves: the run notices by a delay of its
    /// own. Without a limit, those of the run apply.
    pub time_max: Option<Duration>,
}

/// The outcome of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleOutcome {
    /// Whether the rule is true.
    pub is_true: bool,
    /// The rule's values: a JSON object.
    pub values: String,
}

/// A line that a rule has logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The node whose rule logged it, if that is known.
    pub node: Option<NodeName>,
    /// The level: 0 debug, 1 info, 2 warning, 3 error.
    pub level: u8,
    /// The logged text.
    pub text: String,
}

/// Priority of a run in the queue for engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Before all others.
    High,
    /// The default priority, between the other two.
    #[default]
    Normal,
    /// After all others.
    Low,
}

impl Priority {
    /// Its name: `high`, `normal` or `low`.
    pub fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}
