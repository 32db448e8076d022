//! The types of a validated configuration. Byte counts are `u64`; names are the keys of `forebay.toml`.

mod sql;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_records::Settings;
use forebay_runtimes::Runtime;
use forebay_script::PostAddress;
use forebay_store::index::Definition;
use forebay_tls::{CertificateFiles, ClientCertificates};
use forebay_workflow::{ClientLimits, DurableRunLimits};
pub use forebay_workflow::{WorkflowApi, WorkflowRoute, WorkflowScene};

pub(super) use self::sql::threads as sql_threads;
pub use self::sql::{SqlResult, SqlRoute, SqlStatement};
use super::{Listen, Network, Secret};

/// A validated configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The main file.
    pub file: PathBuf,
    /// The folder of the main file, absolute; relative paths in that file start here.
    pub folder: PathBuf,
    /// Files added by `include`.
    pub included: Vec<PathBuf>,
    /// `[server]`
    pub server: Server,
    /// `[tls.NAME]`, by name: certificates of listeners.
    pub tls: BTreeMap<String, Certificate>,
    /// `[admin]`
    pub admin: Admin,
    /// `[log]`
    pub log: Log,
    /// `[trace]`; `None` if the file has no such section.
    pub trace: Option<Trace>,
    /// `[store]`; `None` if the file has no such section.
    pub store: Option<Store>,
    /// `[records]`
    pub records: Settings,
    /// `[pool.NAME]`, by name.
    pub pools: BTreeMap<String, Pool>,
    /// `[proxy.NAME]`, by name.
    pub proxies: BTreeMap<String, Proxy>,
    /// `[script.NAME]`, by name.
    pub scripts: BTreeMap<String, Script>,
    /// `[sql.NAME]`, by name.
    pub sql: BTreeMap<String, forebay_pg::Settings>,
    /// Databases of `sql` to which handlers in pools connect themselves.
    pub sql_direct: BTreeSet<String>,
    /// `[redis.NAME]`, by name: Redis servers for rules.
    pub redis: BTreeMap<String, forebay_clients::RedisOptions>,
    /// `[s3.NAME]`, by name: buckets for rules.
    pub s3: BTreeMap<String, S3Bucket>,
    /// `[mail.NAME]`, by name: mail servers through which rules may send.
    pub mail: BTreeMap<String, MailServer>,
    /// `[kafka.NAME]`, by name: clusters to which rules may publish.
    pub kafka: BTreeMap<String, KafkaCluster>,
    /// `[workflow]`; `None` if the file has no such section, in which case no route refers to it.
    pub workflow: Option<Workflow>,
    /// `[[route]]`, in file order. No two have the same host, method and shape of path.
    pub routes: Vec<Route>,
}

/// `[tls.NAME]`: where a certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// From files that somebody else renews.
    Files(CertificateFiles),
    /// From an authority.
    Acme(forebay_acme::Settings),
}

/// `[server]`: the listeners, and the limits of every connection and request.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// At least one address.
    pub listen: Vec<Listen>,
    /// Proxies that are believed what they say about clients.
    pub trusted_proxies: TrustedProxies,
    /// Certificates that clients have; `None`: they are asked for none.
    pub client_certificates: Option<ClientCertificates>,
    /// Whether requests without TLS are redirected to an address with it.
    pub https_only: bool,
    /// How long browsers are to use nothing but TLS; 0: they are not told.
    pub hsts: Duration,
    /// Permissions of Unix sockets; `None`: as the umask leaves them.
    pub unix_mode: Option<u32>,
    /// I/O threads, 1 to 256.
    pub threads: usize,
    /// Size of request line and header section together; beyond it the client gets 431.
    pub header_bytes_max: u64,
    /// Size of a request's body; beyond it the client gets 413.
    pub body_bytes_max: u64,
    /// Limit from a request's first byte to the end of its header section; then 408.
    pub header_timeout: Duration,
    /// Limit from the end of the header section to the end of the body; then 408.
    pub body_timeout: Duration,
    /// Bodies up to this size are read whole before a worker gets the request.
    pub body_buffer_max: u64,
    /// Bytes of a worker's complete response kept in memory for a slow client; the rest goes to a file.
    pub answer_buffer_max: u64,
    /// Bytes of all responses together in temporary files.
    pub answer_spool_max: u64,
    /// Bytes of all buffered request bodies and responses together, in memory.
    pub buffers_max: u64,
    /// Bytes per second that a client must send or take; 0: no minimum.
    pub min_rate: u64,
    /// How long a client may be slower than that.
    pub min_rate_grace: Duration,
    /// Which responses are compressed, where a route says nothing else.
    pub compress: Compress,
    /// Shorter bodies are not compressed.
    pub compress_bytes_min: u64,
    /// The share of an I/O thread's time, 0 to 1, that compression may take.
    pub compress_cpu_max: f64,
    /// A kept-alive connection is closed after this long without a request.
    pub idle_timeout: Duration,
    /// Open connections on all listeners together; further ones are closed immediately.
    pub connections_max: usize,
    /// Limit from arrival to response, queue time included; then 504.
    pub deadline: Duration,
    /// How long a stopping server waits for requests in flight.
    pub drain_max: Duration,
}

/// Which responses are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compress {
    /// None.
    Off,
    /// Those that hold no secret of one user beside text that another one chose.
    Public,
    /// All whose type becomes shorter.
    Always,
}

impl Compress {
    /// The word for it in a configuration file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Public => "public",
            Self::Always => "always",
        }
    }
}

/// Proxies that are believed what they say about clients.
#[derive(Debug, Clone, PartialEq)]
pub struct TrustedProxies {
    /// Their addresses.
    pub networks: Vec<Network>,
    /// Whether those that come by Unix sockets are among them.
    pub unix: bool,
    /// Where they say it.
    pub field: ForwardedField,
}

impl TrustedProxies {
    /// Whether this address is one of theirs; `None` is a Unix socket.
    pub(crate) fn contains(&self, address: Option<std::net::IpAddr>) -> bool {
        match address {
            None => self.unix,
            Some(address) => self.networks.iter().any(|network| network.contains(address)),
        }
    }
}

/// Where a proxy speaks of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardedField {
    /// `X-Forwarded-For` and `X-Forwarded-Proto`.
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// The PROXY protocol, in front of everything else.
    ProxyProtocol,
}

/// `[admin]`: health and metrics, and the control socket.
#[derive(Debug, Clone, PartialEq)]
pub struct Admin {
    /// The address for health, metrics and status; `None` if switched off.
    pub listen: Option<Listen>,
    /// Permissions of `listen` if it is a Unix socket; `None`: as the umask leaves them.
    pub unix_mode: Option<u32>,
    /// Host names accepted over TCP besides `localhost` and IP addresses.
    pub hosts: Vec<String>,
    /// The path of the control socket; `None` if switched off.
    pub socket: Option<PathBuf>,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// A level, or a comma-separated list of `level` and `target=level`, as `tracing_subscriber::filter::Targets` reads it.
    pub level: String,
    /// The format of a line.
    pub format: LogFormat,
    /// The log file; `None`: standard error.
    pub file: Option<PathBuf>,
    /// When `file` is rotated.
    pub rotate: LogRotation,
    /// Whether each request is logged.
    pub access: bool,
}

/// `[trace]`: the export of request traces.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The collector's address.
    pub otlp: PostAddress,
    /// The share of requests to trace, 0 to 1, among those that do not carry a decision themselves.
    pub share: f64,
    /// Additional headers of export requests, names in lower case.
    pub headers: Vec<(String, Secret)>,
    /// The service name in traces.
    pub service: String,
    /// Most spans waiting to be exported.
    pub queue_max: usize,
}

/// `log.format`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// Human-readable lines.
    Text,
    /// One JSON object per line.
    Json,
}

/// `log.rotate`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRotation {
    /// The file is rotated before it would exceed this size.
    pub size_bytes: u64,
    /// Rotated files kept, 1 to 1000.
    pub keep: usize,
}

/// `[store]`: the embedded store.
#[derive(Debug, Clone, PartialEq)]
pub struct Store {
    /// The store's folder, absolute.
    pub path: PathBuf,
    /// When a commit counts as done.
    pub durability: Durability,
    /// Longest time until a relaxed commit is on disk.
    pub flush_interval: Duration,
    /// Largest size of the store's file; beyond it the client gets 507.
    pub map_max: u64,
    /// How long one response may read from the same snapshot; then it is cut off.
    pub reader_age_max: Duration,
    /// Longest document or value; beyond it the client gets 413.
    pub value_bytes_max: u64,
    /// Writes in the queue; beyond it the client gets 503 with `Retry-After`.
    pub queue_max: usize,
    /// Bytes of the writes in the queue; beyond it the client gets 503 with `Retry-After`.
    pub queue_bytes_max: u64,
    /// Permissions over HTTP, by global; a global without an entry is not accessible.
    pub access: BTreeMap<String, Access>,
    /// Indexes that exist once the server has started, by name.
    pub indexes: Vec<Definition>,
}

/// `store.durability`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Each commit waits for its own flush.
    Sync,
    /// Each commit waits for a flush shared with others.
    Group,
    /// Commits do not wait for a flush.
    Relaxed,
}

/// An entry of `[store.access]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Permission to read.
    pub read: Permission,
    /// Permission to write.
    pub write: Permission,
}

/// A permission over HTTP.
#[derive(Clone, PartialEq, Eq)]
pub enum Permission {
    /// Any client.
    Public,
    /// Clients that send the token as `Authorization: Bearer`.
    Token(Secret),
    /// No client.
    Nobody,
}

impl fmt::Debug for Permission {
    /// Prints the configuration's notation, without the token.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => out.write_str("public"),
            Self::Token(secret) => write!(out, "token:{}", secret.shown()),
            Self::Nobody => out.write_str("none"),
        }
    }
}

/// `pool.NAME.store`: access of handlers to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreMode {
    /// Reads and writes are allowed.
    ReadWrite,
    /// Only reads are allowed.
    ReadOnly,
    /// No access.
    None,
}

impl StoreMode {
    /// The word used in the configuration and in the worker's environment.
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
    /// The program that a worker process runs.
    pub worker: Worker,
    /// Number of processes.
    pub workers: Workers,
    /// Jobs one worker runs at a time, 1 to 1024.
    pub concurrency: u32,
    /// Jobs in the queue; beyond it the client gets 503 with `Retry-After`.
    pub queue_max: usize,
    /// Bytes of the jobs in the queue; beyond it the client gets 503 with `Retry-After`.
    pub queue_bytes_max: u64,
    /// How long a job may wait for a worker; then 503.
    pub queue_timeout: Duration,
    /// How long a handler may run; then 504, and the worker is stopped.
    pub run_timeout: Duration,
    /// Time between SIGTERM and SIGKILL for a worker that must stop.
    pub kill_grace: Duration,
    /// A worker beyond `workers.min` that has been idle this long is stopped; zero: never.
    pub idle_retire: Duration,
    /// When a worker is replaced by a new one.
    pub recycle: Recycle,
    /// Whether a job is retried when its worker died while running it.
    pub retry: Retry,
    /// Environment variables set for the worker; they override those passed on.
    pub env: BTreeMap<String, String>,
    /// Environment variables passed on from the server, besides PATH, HOME and LANG.
    pub env_pass: Vec<String>,
    /// The worker's working directory, absolute.
    pub cwd: PathBuf,
    /// Access of its handlers to the store.
    pub store: StoreMode,
    /// The protocol between server and worker.
    pub protocol: Protocol,
    /// Largest message in protocols without frames. A longer request gets 413, and a worker that writes a longer message is stopped.
    pub message_bytes_max: u64,
    /// Databases its handlers may use, by name.
    pub sql: Vec<String>,
}

/// The program of a worker process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Worker {
    /// A JavaScript handler module, run by the embedded SDK.
    Script {
        /// The JavaScript runtime.
        runtime: Runtime,
        /// The runtime's executable, absolute.
        program: PathBuf,
        /// The handler's module file, absolute.
        handler: PathBuf,
        /// A module that each worker runs before it loads the handler, absolute.
        start: Option<PathBuf>,
        /// Options of the runtime itself. Not settable in a file; `forebay serve --inspect` sets them.
        runtime_flags: Vec<String>,
    },
    /// A Python application, run by the embedded SDK.
    Python {
        /// The interpreter, absolute.
        program: PathBuf,
        /// The application to serve.
        application: PythonApplication,
        /// A module that each worker runs before it loads the application, absolute.
        start: Option<PathBuf>,
    },
    /// A program that implements the worker protocol itself.
    Command {
        /// The executable, absolute.
        program: PathBuf,
        /// The complete command as written, program first.
        command: Vec<String>,
    },
}

/// The location of a Python application and its interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonApplication {
    /// The application's module.
    pub module: PythonModule,
    /// The object in the module, as written after the colon; `None`: the one called `app`, `application` or `handler`.
    pub object: Option<String>,
    /// `pool.NAME.interface`
    pub interface: Interface,
    /// The mount path, such as `/py`; `None`: the application sees the whole path.
    pub mount: Option<String>,
    /// Whether a WSGI or ASGI application receives paths with encoded slashes, which it cannot tell from plain ones; otherwise 400.
    pub encoded_slashes: bool,
}

/// A Python module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PythonModule {
    /// A file, absolute.
    File(PathBuf),
    /// A module name, imported from the pool's working directory.
    Named(String),
}

/// `pool.NAME.interface`: the calling convention of a Python application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// Determined from the object found.
    Auto,
    /// An `App` object of the SDK.
    Forebay,
    /// WSGI (PEP 3333).
    Wsgi,
    /// ASGI 3.0.
    Asgi,
}

impl Interface {
    /// The word used in the configuration, as in `interface = "wsgi"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Forebay => "forebay",
            Self::Wsgi => "wsgi",
            Self::Asgi => "asgi",
        }
    }
}

/// The protocol between server and worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The frames of the worker protocol.
    Framed(Link),
    /// One JSON object per line.
    Jsonl,
    /// Messages as in WABuR.
    Wabur(Compat),
}

/// The channel for a worker's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// An inherited socket.
    Socket,
    /// The worker's standard input and output.
    Stdio,
}

/// Which statuses the responses of a WABuR controller get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compat {
    /// Those of HTTP.
    None,
    /// Those of WABuR: 500 for every error, with everything the controller reported.
    Wabur,
}

/// `pool.NAME.workers`: 0 <= min <= max, 1 <= max <= 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workers {
    /// Workers that are always kept running.
    pub min: usize,
    /// Most workers, started on demand.
    pub max: usize,
}

/// `pool.NAME.recycle`: a worker that exceeds any of these is replaced once its replacement is ready. Zero: no such limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recycle {
    /// Jobs it has run.
    pub jobs: u64,
    /// Time since it was started.
    pub age: Duration,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
}

/// Whether a job may run again after its worker died while running it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Never retried: 502.
    Never,
    /// Retried once if its method is idempotent (RFC 9110, 9.2.2), else 502.
    Idempotent,
}

/// `[script.NAME]`: JavaScript that runs inside the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The NAME of `[script.NAME]`.
    pub name: String,
    /// The handler's module file, absolute.
    pub handler: PathBuf,
    /// The folder from which it may import, absolute; the handler lies in it or below.
    pub modules: PathBuf,
    /// The threads that may run it.
    pub on: ScriptPlacement,
    /// Largest request handled on an I/O thread: path, query, headers and body together, in bytes.
    pub io_input_max: u64,
    /// How long a call may run on an I/O thread; then it starts over on an executor.
    pub io_cpu_max: Duration,
    /// CPU time of a call on an executor; beyond it the client gets 504.
    pub cpu_max: Duration,
    /// Limit from the start of a call on an executor to its response, waiting included; then 504.
    pub time_max: Duration,
    /// Memory of one engine, in bytes; beyond it the client gets 500.
    pub memory_max: u64,
    /// Largest response, in bytes; beyond it the client gets 500.
    pub output_max: u64,
    /// Calls on executors, waiting ones included; beyond it the client gets 503 with `Retry-After`.
    pub in_flight_max: usize,
    /// Bytes of the requests of those calls.
    pub queue_bytes_max: u64,
    /// Executor threads, 1 to 256.
    pub executors: usize,
    /// Engines per executor thread; calls beyond that wait.
    pub engines_max: usize,
    /// Whether every call has a fresh engine, so that no state remains for the next call.
    pub isolated: bool,
    /// Limit from the start of a fetch to the end of its response; then the fetch fails.
    pub fetch_time_max: Duration,
    /// Largest response body of a fetch, in bytes; beyond it reading fails.
    pub fetch_bytes_max: u64,
    /// Fetches per call; further ones fail.
    pub fetches_max: u32,
    /// Permissions of the script.
    pub allow: ScriptAllow,
}

/// `[workflow]`: graphs of rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// The location of graphs and rules.
    pub source: WorkflowSource,
    /// Whether to behave like Rengine where programs could depend on the difference.
    pub is_as_rengine: bool,
    /// How long a run may take; then 504.
    pub timeout: Duration,
    /// Executor threads, 1 to 256.
    pub executors: usize,
    /// Engines per executor thread; runs beyond that wait.
    pub engines_max: usize,
    /// Runs accepted at a time; beyond it the client gets 503 with `Retry-After`.
    pub accept_queue_max: usize,
    /// Bytes of the arguments of these runs.
    pub queue_bytes_max: u64,
    /// Memory of one engine, in bytes.
    pub memory_max: u64,
    /// Largest result, in bytes; beyond it the client gets 500.
    pub output_max: u64,
    /// Bytes that the rules of one run may log.
    pub log_max: u64,
    /// The folder for log files, one for each workflow; absolute.
    pub logs: Option<PathBuf>,
    /// When a log file is rotated.
    pub logs_rotate: LogRotation,
    /// Limit from the start of a fetch to the end of its response; then the fetch fails.
    pub fetch_time_max: Duration,
    /// Largest response body of a fetch, in bytes; beyond it reading fails.
    pub fetch_bytes_max: u64,
    /// Fetches per run; further ones fail.
    pub fetches_max: u32,
    /// Permissions of rules.
    pub allow: ScriptAllow,
    /// Redis servers for rules: keys of [`Config::redis`].
    pub redis: Vec<String>,
    /// Buckets for rules: keys of [`Config::s3`].
    pub s3: Vec<String>,
    /// Mail servers for rules: keys of [`Config::mail`].
    pub mail: Vec<String>,
    /// Clusters for rules: keys of [`Config::kafka`].
    pub kafka: Vec<String>,
    /// Pools that rules may call: keys of [`Config::pools`].
    pub pools: Vec<String>,
    /// Programs that rules may run, absolute.
    pub programs: Vec<PathBuf>,
    /// Bytes such a program may write to standard output, and as many to standard error; beyond it the operation fails.
    pub process_output_max: u64,
    /// Clients that may run workflows, by id; empty: anyone may.
    pub clients: BTreeMap<String, WorkflowClient>,
    /// Limits of single workflows, by name.
    pub scenes: BTreeMap<String, WorkflowScene>,
    /// Durable runs; `None` if they are not configured.
    pub runs: Option<DurableRunLimits>,
}

/// `[s3.NAME]`: a bucket, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Bucket {
    /// The server's URL.
    pub endpoint: String,
    /// The region that requests are signed for.
    pub region: String,
    /// The bucket's name.
    pub bucket: String,
    /// The access key's id.
    pub access_key: String,
    /// The access key's secret.
    pub secret_key: Secret,
    /// The client options derived from the above.
    pub options: forebay_clients::S3Options,
}

/// `[mail.NAME]`: a mail server, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailServer {
    /// The user's password.
    pub password: Option<Secret>,
    /// All options, including the password.
    pub options: forebay_clients::MailOptions,
}

/// `[kafka.NAME]`: a Kafka cluster, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaCluster {
    /// The user's password.
    pub password: Option<Secret>,
    /// All options, including the password.
    pub options: forebay_clients::KafkaOptions,
}

/// `workflow.clients.ID`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowClient {
    /// The secret sent together with the id.
    pub secret: Option<Secret>,
    /// A bearer token that replaces id and secret.
    pub token: Option<Secret>,
    /// Whether it may read and change releases, by its token.
    pub releases: bool,
    /// Limits on what it may run.
    pub limits: ClientLimits,
}

/// `workflow.path` or `workflow.store`: the location of graphs and rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkflowSource {
    /// Files in a folder.
    Folder {
        /// The folder's absolute path.
        path: PathBuf,
        /// Whether the server watches for changes.
        watch: bool,
    },
    /// Releases in the store.
    Store {
        /// The global that holds the releases.
        global: String,
    },
}

impl WorkflowSource {
    /// The folder, for workflows in files.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder { path, .. } => Some(path),
            Self::Store { .. } => None,
        }
    }
}

/// `script.NAME.on`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptPlacement {
    /// The I/O thread for small safe requests of which similar ones were fast, otherwise an executor.
    Auto,
    /// The I/O thread for small safe requests, otherwise an executor.
    Io,
    /// Always an executor.
    Executor,
}

impl ScriptPlacement {
    /// The word used in the configuration.
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
    /// Databases: keys of [`Config::sql`].
    pub sql: Vec<String>,
    /// Folders with accessible files, absolute.
    pub files: Vec<PathBuf>,
}

/// `[[route]]`
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The pattern as written: `/users/:id`, `/static/*`.
    pub path: String,
    /// Upper case, without duplicates; empty: every method.
    pub methods: Vec<String>,
    /// Lower case, `example.com` or `*.example.com`; `None`: every host.
    pub host: Option<String>,
    /// Origins of web pages that may change data through the route; `*` is any.
    pub origins: Vec<String>,
    /// Pages of other origins that may read the answers.
    pub cors: Option<Cors>,
    /// Headers added to every response; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Which responses are compressed.
    pub compress: Compress,
    /// Limit from arrival to response, at most the server's; then 504.
    pub deadline: Duration,
    /// Size limit of request bodies; beyond it 413.
    pub body_bytes_max: u64,
    /// The target that answers.
    pub target: Target,
}

/// Permissions of scripts of other origins (the CORS protocol of the Fetch standard).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Origins as browsers send them, in lower case; `*` is any.
    pub origins: Vec<String>,
    /// Names of request headers.
    pub headers: Vec<String>,
    /// Whether cookies and credentials may be sent.
    pub credentials: bool,
}

/// The role of one of a route's paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathKind {
    /// The route's own path.
    Own,
    /// Batches of a store route.
    Batch,
    /// The change feed of a store route.
    Changes,
}

impl Route {
    /// The paths it answers: its own and, for the store, those of batches and changes (`/store:batch` and `/store:changes` next to
    /// `/store/*`); for releases, that of all of them (`/releases` next to `/releases/*`).
    pub(crate) fn paths(&self) -> impl Iterator<Item = (String, PathKind)> {
        let prefix = self.path.rsplit_once('/').map(|(prefix, _)| prefix.to_owned());
        let beside = match (&self.target, prefix) {
            (Target::Store, Some(prefix)) => vec![
                (format!("{prefix}:batch"), PathKind::Batch),
                (format!("{prefix}:changes"), PathKind::Changes),
            ],
            (Target::Workflow(route), Some(prefix)) if route.api == WorkflowApi::Releases => {
                vec![(prefix, PathKind::Own)]
            }
            _ => Vec::new(),
        };
        std::iter::once((self.path.clone(), PathKind::Own)).chain(beside)
    }
}

/// The target of a route.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A fixed response from memory.
    Respond(Respond),
    /// Static files.
    Files(Files),
    /// The tree of the store.
    Store,
    /// Records in the store.
    Records,
    /// TQL statements on records.
    Tql,
    /// SQL statements on a database.
    Sql(SqlRoute),
    /// A pool of worker processes.
    Pool(PoolRoute),
    /// Other HTTP servers.
    Proxy(ProxyRoute),
    /// A script: a key of [`Config::scripts`].
    Script(String),
    /// Workflows: graphs of rules.
    Workflow(WorkflowRoute),
}

/// A fixed response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Respond {
    /// 200 to 599.
    pub status: u16,
    /// `None` only for a response without a body.
    pub content_type: Option<String>,
    /// Additional headers; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// The absolute path of the file the body was read from, if it was.
    pub file: Option<PathBuf>,
}

/// A folder of static files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Absolute; it existed when the configuration was checked.
    pub folder: PathBuf,
    /// The `Cache-Control` of files.
    pub cache_control: Option<String>,
    /// Whether compressed files beside the others are sent.
    pub precompressed: bool,
}

/// `[proxy.NAME]`: other HTTP servers.
#[derive(Debug, Clone, PartialEq)]
pub struct Proxy {
    /// How they are reached.
    pub settings: forebay_upstream::Settings,
    /// The Host field that they get; the client's if `None`.
    pub host: Option<String>,
    /// How long a connection that has gone over to another protocol may carry nothing.
    pub tunnel_timeout: Duration,
    /// Which requests are sent again.
    pub retry: Retry,
}

/// A route to other HTTP servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyRoute {
    /// The name of the `[proxy.NAME]`.
    pub proxy: String,
    /// What the servers get in the place of the path before the pattern's `*`.
    pub upstream_path: Option<String>,
}

/// A route to a pool, with the pool's limits as narrowed by the route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRoute {
    /// A key of [`Config::pools`].
    pub pool: String,
    /// At most that of the pool.
    pub queue_timeout: Duration,
    /// At most that of the pool.
    pub run_timeout: Duration,
    /// The route's setting if given, otherwise the pool's.
    pub retry: Retry,
}
