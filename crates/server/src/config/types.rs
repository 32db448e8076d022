//! What a checked configuration consists of. Byte counts are `u64`; the names are the keys of `forebay.toml`.

mod sql;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_records::Settings;
use forebay_runtimes::Runtime;
use forebay_script::{PostAddress, Priority};
use forebay_store::index::Definition;

pub(super) use self::sql::threads as sql_threads;
pub use self::sql::{SqlResult, SqlRoute, SqlStatement};
use super::{Listen, Secret};

/// A checked configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The file it was read from.
    pub file: PathBuf,
    /// The folder of that file, absolute; relative paths in the file start here.
    pub folder: PathBuf,
    /// The files of `include`.
    pub included: Vec<PathBuf>,
    /// `[server]`
    pub server: Server,
    /// `[admin]`
    pub admin: Admin,
    /// `[log]`
    pub log: Log,
    /// `[trace]`; `None`: the file has no such section.
    pub trace: Option<Trace>,
    /// `[store]`; `None`: the file has no such section.
    pub store: Option<Store>,
    /// `[records]`
    pub records: Settings,
    /// `[pool.NAME]`, by name.
    pub pools: BTreeMap<String, Pool>,
    /// `[script.NAME]`, by name.
    pub scripts: BTreeMap<String, Script>,
    /// `[sql.NAME]`, by name.
    pub sql: BTreeMap<String, forebay_pg::Settings>,
    /// Those among them to which handlers in pools connect themselves.
    pub sql_direct: BTreeSet<String>,
    /// `[redis.NAME]`, by name: servers that rules may reach.
    pub redis: BTreeMap<String, forebay_clients::RedisOptions>,
    /// `[s3.NAME]`, by name: buckets that rules may reach.
    pub s3: BTreeMap<String, S3Bucket>,
    /// `[mail.NAME]`, by name: servers that rules may send messages by.
    pub mail: BTreeMap<String, MailServer>,
    /// `[kafka.NAME]`, by name: clusters that rules may publish to.
    pub kafka: BTreeMap<String, KafkaCluster>,
    /// `[workflow]`; `None`: the file has no such section, and no route leads there.
    pub workflow: Option<Workflow>,
    /// `[[route]]`, in the file's order. No two have the same host, method and shape of path.
    pub routes: Vec<Route>,
}

/// `[server]`: the listeners and what bounds every connection and request.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// At least one address.
    pub listen: Vec<Listen>,
    /// Permissions of Unix sockets among them; `None`: those that the umask leaves.
    pub unix_mode: Option<u32>,
    /// I/O threads, 1 to 256.
    pub threads: usize,
    /// Request line and header section together; beyond it the client gets 431.
    pub header_bytes_max: u64,
    /// A request's body; beyond it the client gets 413.
    pub body_bytes_max: u64,
    /// From a request's first byte to the end of its header section; then 408.
    pub header_timeout: Duration,
    /// From the end of the header section to the end of the body; then 408.
    pub body_timeout: Duration,
    /// Bodies up to this are read before a worker gets the request.
    pub body_buffer_max: u64,
    /// Of an answer that a worker has whole, in memory.
    pub answer_buffer_max: u64,
    /// Of all answers together, in temporary files.
    pub answer_spool_max: u64,
    /// Of all bodies and answers together, in memory.
    pub buffers_max: u64,
    /// Bytes a second that a client has to send or take; 0: any rate will do.
    pub min_rate: u64,
    /// How long it may be slower.
    pub min_rate_grace: Duration,
    /// A kept-alive connection without a request is closed after this.
    pub idle_timeout: Duration,
    /// Open connections on all listeners together; further ones are closed at once.
    pub connections_max: usize,
    /// From arrival to the answer, queue time included; then 504.
    pub deadline: Duration,
    /// How long a stopping server waits for requests in flight.
    pub drain_max: Duration,
}

/// `[admin]`: where the server reports on itself and takes orders.
#[derive(Debug, Clone, PartialEq)]
pub struct Admin {
    /// Health, metrics, status; `None` when switched off.
    pub listen: Option<Listen>,
    /// Permissions of that, where it is a Unix socket; `None`: those that the umask leaves.
    pub unix_mode: Option<u32>,
    /// Names under which it answers over TCP, beside `localhost` and addresses.
    pub hosts: Vec<String>,
    /// The control socket's file; `None` when switched off.
    pub socket: Option<PathBuf>,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// A level, or a comma-separated list of `level` and `target=level`, as `tracing_subscriber::filter::Targets` reads it.
    pub level: String,
    /// How a line looks.
    pub format: LogFormat,
    /// Where lines go; `None`: standard error.
    pub file: Option<PathBuf>,
    /// When `file` is turned over.
    pub rotate: LogRotation,
    /// Whether each request is logged.
    pub access: bool,
}

/// `[trace]`: where the traces of requests go.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The collector.
    pub otlp: PostAddress,
    /// Of requests that do not say themselves whether they are traced, the share that are; from 0 to 1.
    pub share: f64,
    /// Fields of what is posted, names in lower case.
    pub headers: Vec<(String, Secret)>,
    /// What traces call this server.
    pub service: String,
    /// Spans that may wait to be sent.
    pub queue_max: usize,
}

/// `log.format`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// A line for people.
    Text,
    /// A JSON object a line.
    Json,
}

/// `log.rotate`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRotation {
    /// The file is turned over when it would grow beyond this.
    pub size_bytes: u64,
    /// Old files kept, 1 to 1000.
    pub keep: usize,
}

/// `[store]`: the embedded store.
#[derive(Debug, Clone, PartialEq)]
pub struct Store {
    /// Its folder, absolute.
    pub path: PathBuf,
    /// What a commit waits for.
    pub durability: Durability,
    /// Longest time in which a relaxed commit is not on the disk.
    pub flush_interval: Duration,
    /// How far its file may grow; beyond it the client gets 507.
    pub map_max: u64,
    /// How long one answer may read from one state; then it is cut off.
    pub reader_age_max: Duration,
    /// Longest document or value; beyond it the client gets 413.
    pub value_bytes_max: u64,
    /// Writes that wait; beyond it the client gets 503 with `Retry-After`.
    pub queue_max: usize,
    /// Bytes of the writes that wait; beyond it the client gets 503 with `Retry-After`.
    pub queue_bytes_max: u64,
    /// Who may reach which global over HTTP; globals without an entry nobody.
    pub access: BTreeMap<String, Access>,
    /// Indexes that are there once the server has started, by name.
    pub indexes: Vec<Definition>,
}

/// `store.durability`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A commit waits for a flush of its own.
    Sync,
    /// It waits for a flush that it shares with others.
    Group,
    /// It waits for nothing.
    Relaxed,
}

/// An entry of `[store.access]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Who may read.
    pub read: Permission,
    /// Who may write.
    pub write: Permission,
}

/// Who may do something over HTTP.
#[derive(Clone, PartialEq, Eq)]
pub enum Permission {
    /// Everybody.
    Public,
    /// Who sends the token as `Authorization: Bearer`.
    Token(Secret),
    /// Nobody.
    Nobody,
}

impl fmt::Debug for Permission {
    /// Without the token, as the configuration says it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => out.write_str("public"),
            Self::Token(secret) => write!(out, "token:{}", secret.shown()),
            Self::Nobody => out.write_str("none"),
        }
    }
}

/// `pool.NAME.store`: what handlers may do with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreMode {
    /// Read and write.
    ReadWrite,
    /// Read.
    ReadOnly,
    /// Nothing.
    None,
}

impl StoreMode {
    /// As the configuration and the worker's environment say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadWrite => "rw",
            Self::ReadOnly => "ro",
            Self::None => "none",
        }
    }
}

/// `[pool.NAME]`: a supervised pool of worker processes.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// The NAME of `[pool.NAME]`.
    pub name: String,
    /// What a worker process runs.
    pub worker: Worker,
    /// How many processes.
    pub workers: Workers,
    /// Jobs one worker runs at a time, 1 to 1024.
    pub concurrency: u32,
    /// Jobs waiting; beyond it the client gets 503 with `Retry-After`.
    pub queue_max: usize,
    /// Bytes of the jobs waiting; beyond it the client gets 503 with `Retry-After`.
    pub queue_bytes_max: u64,
    /// How long a job waits for a worker; then 503.
    pub queue_timeout: Duration,
    /// How long a handler runs; then 504, and the worker is stopped.
    pub run_timeout: Duration,
    /// Between SIGTERM and SIGKILL of a worker that must stop.
    pub kill_grace: Duration,
    /// A worker beyond `workers.min` without a job for this long is stopped; zero: never.
    pub idle_retire: Duration,
    /// When a worker is replaced by a fresh one.
    pub recycle: Recycle,
    /// Whether a job whose worker died while running it is run again.
    pub retry: Retry,
    /// Set for the worker, over everything passed on.
    pub env: BTreeMap<String, String>,
    /// Names passed on from the server's environment, besides PATH, HOME and LANG.
    pub env_pass: Vec<String>,
    /// The worker's working folder, absolute.
    pub cwd: PathBuf,
    /// What its handlers may do with the store.
    pub store: StoreMode,
    /// What it speaks.
    pub protocol: Protocol,
    /// A message without frames; a longer request gets 413, and a worker that writes a longer one is stopped.
    pub message_bytes_max: u64,
    /// Databases that its handlers may reach, by their names.
    pub sql: Vec<String>,
}

/// What a worker process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Worker {
    /// A handler module in a JavaScript runtime, through the SDK that the binary carries.
    Script {
        /// Which runtime.
        runtime: Runtime,
        /// The runtime's executable, absolute.
        program: PathBuf,
        /// The handler's module, absolute.
        handler: PathBuf,
        /// A module run in each worker before the handler's, absolute.
        start: Option<PathBuf>,
        /// Options of the runtime itself. A file cannot say them; `forebay serve --inspect` does.
        runtime_flags: Vec<String>,
    },
    /// A Python application, through the SDK that the binary carries.
    Python {
        /// The interpreter, absolute.
        program: PathBuf,
        /// The application.
        application: PythonApplication,
        /// A module run in each worker before the application's, absolute.
        start: Option<PathBuf>,
    },
    /// A program that speaks the worker protocol itself.
    Command {
        /// The executable, absolute.
        program: PathBuf,
        /// The whole command as written, program first.
        command: Vec<String>,
    },
}

/// Where a Python application is and how it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonApplication {
    /// The module it is in.
    pub module: PythonModule,
    /// The object in the module, as written after the colon; `None`: the one called `app`, `application` or `handler`.
    pub object: Option<String>,
    /// `pool.NAME.interface`
    pub interface: Interface,
    /// The path that it is mounted at, such as `/py`; `None`: it sees the whole path.
    pub mount: Option<String>,
    /// Whether a WSGI or ASGI application is given paths with an encoded slash, which it sees as any other; else 400.
    pub encoded_slashes: bool,
}

/// A module of Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PythonModule {
    /// A file, absolute.
    File(PathBuf),
    /// By name, as `import` finds it from the pool's working folder.
    Named(String),
}

/// `pool.NAME.interface`: how a Python application is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// As the object that is found says.
    Auto,
    /// An `App` of the SDK.
    Forebay,
    /// PEP 3333.
    Wsgi,
    /// ASGI 3.
    Asgi,
}

impl Interface {
    /// As in `interface = "wsgi"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Forebay => "forebay",
            Self::Wsgi => "wsgi",
            Self::Asgi => "asgi",
        }
    }
}

/// What a worker speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Frames.
    Framed(Link),
    /// One JSON object a line.
    Jsonl,
    /// The messages of WABuR.
    Wabur(Compat),
}

/// What a worker's frames go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// An inherited socket.
    Socket,
    /// Standard input and output.
    Stdio,
}

/// Whose statuses the answers of a WABuR controller have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compat {
    /// HTTP's.
    None,
    /// WABuR's: 500 for every error, with all that the controller said.
    Wabur,
}

/// `pool.NAME.workers`: 0 <= min <= max, 1 <= max <= 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workers {
    /// Kept running always.
    pub min: usize,
    /// Started on demand up to this.
    pub max: usize,
}

/// `pool.NAME.recycle`: a worker past any of these is replaced, the replacement ready first. Zero: no such limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recycle {
    /// Jobs run.
    pub jobs: u64,
    /// Time since its start.
    pub age: Duration,
    /// Resident memory.
    pub rss_bytes: u64,
}

/// Whether a job whose worker died while running it may run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// It is answered 502.
    Never,
    /// It runs once more when its method is idempotent (RFC 9110, 9.2.2), else 502.
    Idempotent,
}

/// `[script.NAME]`: JavaScript inside the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The NAME of `[script.NAME]`.
    pub name: String,
    /// The handler's module, absolute.
    pub handler: PathBuf,
    /// The folder whose files it may import, absolute; the handler is in it, or below it.
    pub modules: PathBuf,
    /// Which threads run it.
    pub on: ScriptPlace,
    /// Longest request that an I/O thread answers: path, query, headers and body.
    pub io_input_max: u64,
    /// How long a call runs on an I/O thread; then an executor does it again.
    pub io_cpu_max: Duration,
    /// Time of the processor for a call on an executor; beyond it the client gets 504.
    pub cpu_max: Duration,
    /// From the start of a call on an executor to its answer, waiting included; then 504.
    pub time_max: Duration,
    /// Memory of one engine; beyond it the client gets 500.
    pub memory_max: u64,
    /// Longest answer; beyond it the client gets 500.
    pub output_max: u64,
    /// Calls on executors at a time, waiting ones included; beyond it the client gets 503 with `Retry-After`.
    pub in_flight_max: usize,
    /// Most bytes of the requests of these calls.
    pub queue_bytes_max: u64,
    /// Executor threads, 1 to 256.
    pub executors: usize,
    /// Engines of one executor thread; a call that needs another waits.
    pub engines_max: usize,
    /// Whether nothing that one call leaves behind is there for the next.
    pub isolated: bool,
    /// From the start of a fetch to the end of what answers it; then the fetch fails.
    pub fetch_time_max: Duration,
    /// Longest body of what answers a fetch; beyond it reading fails.
    pub fetch_bytes_max: u64,
    /// Fetches of one call; beyond it the next fails.
    pub fetches_max: u32,
    /// What it may reach.
    pub allow: ScriptAllow,
}

/// `[workflow]`: graphs of rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// Where graphs and rules are.
    pub source: WorkflowSource,
    /// Whether it is as Rengine has it where programs could depend on that.
    pub is_as_rengine: bool,
    /// How long a run may take; then 504.
    pub timeout: Duration,
    /// Executor threads, 1 to 256.
    pub executors: usize,
    /// Engines of one executor thread; a run that needs another waits.
    pub engines_max: usize,
    /// Runs at a time; beyond it the client gets 503 with `Retry-After`.
    pub accept_queue_max: usize,
    /// Most bytes of the arguments of these runs.
    pub queue_bytes_max: u64,
    /// Memory of one engine.
    pub memory_max: u64,
    /// Longest result; beyond it the client gets 500.
    pub output_max: u64,
    /// Bytes that the rules of one run log.
    pub log_max: u64,
    /// The folder where what rules log is written, a file for each workflow; absolute.
    pub logs: Option<PathBuf>,
    /// When such a file is turned over.
    pub logs_rotate: LogRotation,
    /// From the start of a fetch to the end of what answers it; then the fetch fails.
    pub fetch_time_max: Duration,
    /// Longest body of what answers a fetch; beyond it reading fails.
    pub fetch_bytes_max: u64,
    /// Fetches of one run; beyond it the next fails.
    pub fetches_max: u32,
    /// What rules may reach.
    pub allow: ScriptAllow,
    /// Keys of [`Config::redis`] that they may reach, too.
    pub redis: Vec<String>,
    /// Keys of [`Config::s3`] that they may reach, too.
    pub s3: Vec<String>,
    /// Keys of [`Config::mail`] that they may reach, too.
    pub mail: Vec<String>,
    /// Keys of [`Config::kafka`] that they may reach, too.
    pub kafka: Vec<String>,
    /// Keys of [`Config::pools`] that they may ask, too.
    pub pools: Vec<String>,
    /// Programs that they may run, absolute.
    pub programs: Vec<PathBuf>,
    /// Bytes that such a program writes to standard output, and to standard error; beyond it what waits for it fails.
    pub process_output_max: u64,
    /// Who may have workflows run, by their ids; empty: everybody.
    pub clients: BTreeMap<String, WorkflowClient>,
    /// What bounds single workflows, by their names.
    pub scenes: BTreeMap<String, WorkflowScene>,
    /// Runs that are kept, where they are.
    pub runs: Option<KeptRuns>,
}

/// `workflow.runs`: runs that go on without their clients, and what they come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRuns {
    /// The global of the store in which they are.
    pub global: String,
    /// How long what they have come to is there.
    pub kept: Duration,
    /// Those that are accepted and not over; beyond it 503.
    pub open_max: usize,
    /// Of those that nobody waits for, so many run at a time.
    pub at_a_time: usize,
}

/// `[s3.NAME]`: a bucket, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Bucket {
    /// The server.
    pub endpoint: String,
    /// The region that requests are signed for.
    pub region: String,
    /// Its name there.
    pub bucket: String,
    /// Who asks.
    pub access_key: String,
    /// Their secret.
    pub secret_key: Secret,
    /// What is made of these.
    pub options: forebay_clients::S3Options,
}

/// `[mail.NAME]`: a server of mail, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailServer {
    /// The password of its user.
    pub password: Option<Secret>,
    /// All the rest, and that.
    pub options: forebay_clients::MailOptions,
}

/// `[kafka.NAME]`: a cluster of Kafka, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaCluster {
    /// The password of its user.
    pub password: Option<Secret>,
    /// All the rest, and that.
    pub options: forebay_clients::KafkaOptions,
}

/// `workflow.clients.ID`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowClient {
    /// What it sends with its id.
    pub secret: Option<Secret>,
    /// What it sends in place of both, as `Authorization: Bearer`.
    pub token: Option<Secret>,
    /// Those that it may run; `*` is all.
    pub workflows: Vec<String>,
    /// Its runs at a time; beyond it 429.
    pub runs_max: Option<usize>,
    /// Its runs in a second; beyond it 429.
    pub runs_per_second: Option<u32>,
    /// Whose runs wait for others'.
    pub priority: Priority,
}

/// `workflow.scenes.NAME`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowScene {
    /// Its runs at a time; further ones wait.
    pub runs_max: Option<usize>,
    /// How many wait; beyond it 503.
    pub queue_max: usize,
    /// How long a run may take; then 504.
    pub timeout: Option<Duration>,
    /// Whose runs wait for others'.
    pub priority: Priority,
}

/// `workflow.path` or `workflow.store`: where graphs and rules are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkflowSource {
    /// In a folder.
    Folder {
        /// Absolute.
        path: PathBuf,
        /// Whether the server looks for changes.
        watch: bool,
    },
    /// In the store, as releases.
    Store {
        /// The name of their global.
        global: String,
    },
}

impl WorkflowSource {
    /// The folder, if it is one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder { path, .. } => Some(path),
            Self::Store { .. } => None,
        }
    }
}

/// `route.workflow`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkflowRoute {
    /// What requests look like.
    pub api: WorkflowApi,
    /// The release that its runs have; `None`: the one that is published.
    pub release: Option<u64>,
}

/// `route.workflow.api`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkflowApi {
    /// The path names the workflow, and the body is its arguments.
    Named,
    /// Requests of Rengine for workflows.
    Scenes,
    /// Requests of Rengine for one rule.
    RuleScript,
    /// Requests of other systems, answered by a template.
    Custom,
}

impl WorkflowApi {
    /// As the configuration says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Scenes => "scenes",
            Self::RuleScript => "rulescript",
            Self::Custom => "custom",
        }
    }
}

/// `script.NAME.on`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptPlace {
    /// The I/O thread for small safe requests whose like have been answered quickly, else an executor.
    Auto,
    /// The I/O thread for small safe requests, else an executor.
    Io,
    /// Always an executor.
    Executor,
}

impl ScriptPlace {
    /// As the configuration says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Io => "io",
            Self::Executor => "executor",
        }
    }
}

/// `script.NAME.allow` and `workflow.allow`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScriptAllow {
    /// Globals of the store; `*` is all.
    pub store: Vec<String>,
    /// Hosts that may be fetched from.
    pub fetch: Vec<forebay_script::FetchHost>,
    /// Keys of [`Config::sql`].
    pub sql: Vec<String>,
    /// Folders whose files may be used, absolute.
    pub files: Vec<PathBuf>,
}

/// `[[route]]`
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The pattern as written: `/users/:id`, `/static/*`.
    pub path: String,
    /// Upper case, without repeats; empty: every method.
    pub methods: Vec<String>,
    /// Lower case, `example.com` or `*.example.com`; `None`: every host.
    pub host: Option<String>,
    /// Origins of web pages that may change what the route stores; `*` is any.
    pub origins: Vec<String>,
    /// Added to every answer of this route; names in lower case.
    pub headers: Vec<(String, String)>,
    /// From arrival to the answer, at most the server's; then 504.
    pub deadline: Duration,
    /// At most the server's; beyond it 413.
    pub body_bytes_max: u64,
    /// Who answers.
    pub target: Target,
}

/// What one of a route's paths leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathKind {
    /// What the route is for.
    Own,
    /// Of a store: where batches go.
    Batch,
    /// Of a store: its changes.
    Changes,
}

impl Route {
    /// The paths that it answers: its own, and for the store those of batches and changes, `/store:batch` and `/store:changes` beside
    /// `/store/*`.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (String, PathKind)> {
        let name = match &self.target {
            Target::Store => self.path.rsplit_once('/').map(|(name, _)| name),
            Target::Respond(_)
            | Target::Files(_)
            | Target::Records
            | Target::Tql
            | Target::Sql(_)
            | Target::Pool(_)
            | Target::Script(_)
            | Target::Workflow(_) => None,
        };
        let beside = name.into_iter().flat_map(|name| {
            [
                (format!("{name}:batch"), PathKind::Batch),
                (format!("{name}:changes"), PathKind::Changes),
            ]
        });
        std::iter::once((self.path.clone(), PathKind::Own)).chain(beside)
    }
}

/// Who answers a route.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A body from memory.
    Respond(Respond),
    /// A static folder.
    Files(Files),
    /// The store.
    Store,
    /// Records of the store.
    Records,
    /// Statements about them.
    Tql,
    /// Statements on a database.
    Sql(SqlRoute),
    /// A pool of worker processes.
    Pool(PoolRoute),
    /// A key of [`Config::scripts`].
    Script(String),
    /// Graphs of rules.
    Workflow(WorkflowRoute),
}

/// An answer from memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Respond {
    /// 200 to 599.
    pub status: u16,
    /// `None` only for an answer without a body.
    pub content_type: Option<String>,
    /// Further headers; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// The file the body was read from, absolute, when it was.
    pub file: Option<PathBuf>,
}

/// A static folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Absolute; it existed when the configuration was checked.
    pub folder: PathBuf,
}

/// A route's way into a pool, with the pool's limits as this route narrows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRoute {
    /// A key of [`Config::pools`].
    pub pool: String,
    /// At most the pool's.
    pub queue_timeout: Duration,
    /// At most the pool's.
    pub run_timeout: Duration,
    /// This route's word, else the pool's.
    pub retry: Retry,
}
