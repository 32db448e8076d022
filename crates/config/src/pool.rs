//! `[pool.NAME]`

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use forebay_runtimes::{Runtime, find_python, is_executable};

use crate::build::Context;
use crate::confine::Confine;
use crate::fields::Fields;
use crate::is_token;
use crate::key::{GIB, HOUR, KIB, Key, Kind, MIB, MINUTE, TIB};
use crate::print::Table;
use crate::python::{Handler, mount_problem};
use crate::runtime;
use crate::section::{Entry, Setting, Unused, by_keys, section, unless, words};
use crate::setting::{parsed, print_map};
use crate::substitute::is_name;

section! {
    /// A supervised pool of worker processes. NAME has 1 to 64 letters, digits, `-` and `_`.
    #[check(Pool::check)]
    #[unused(Pool::unused)]
    pub struct Pool {
        /// Where the workers run: `here`, or on the machines of the `cluster`, where `forebay work` runs this pool for all front ends.
        /// See `docs/guide/cluster.md`.
        at: At = "here",
        /// The program of a worker process.
        worker: Worker as group(Worker::KEYS),
        /// The protocol of the workers. `framed`: binary frames. `jsonl`: one JSON object a line, on standard input and output. `wabur`: the
        /// messages of a WABuR controller, on the same. See `docs/guide/stdio.md`.
        protocol: Protocol = "framed",
        /// The connection to a worker: an inherited `socket`, or standard input and output. `framed` may have either, `socket`
        /// unless it says otherwise; the other protocols have `stdio`.
        link: Option<Link>,
        /// Longest body and longest message where `protocol` is `jsonl` or `wabur`: they have no pieces. A worker that writes a longer
        /// message is stopped.
        message_bytes_max: u64 as size(4 * KIB, GIB) = "16MiB" => "413; 502 for what that worker was running",
        /// Where `protocol` is `wabur`, the status of answers with an error code. `none`: 409 for code 17, 404 for code 166, 500 for
        /// others, and their backtrace goes to the log. `wabur`: 500, as the controller wrote it.
        compat: Compat = "none",
        /// How many processes.
        workers: Workers,
        /// Sends all requests of a client to one worker, for handlers that keep sessions in memory. Identifies the client by: `cookie`, which
        /// the server sets, its `address`, or the name of a header field (for requests without it the address). A request waits for
        /// its worker even if another one is free. When a worker ends, its clients move, and no others. All `workers.max` run from the start.
        sticky: Option<Sticky>,
        /// Jobs one worker runs at a time. With 1, a handler may block. Without the key: 100 for an application of Node or Bun that waits
        /// instead of blocking (of Express, Fastify, Koa, Hono or another that listens or has `fetch`), and for an ASGI application, else 1.
        concurrency: Option<u32> as integer(1, 1_024),
        /// Event streams and WebSockets that one worker may have open. They do not count as running jobs.
        connections_max: u32 as integer(1, 1_000_000) = "10000" => "503",
        /// Limits of the WebSockets of handlers.
        websocket: WebSocket,
        /// Jobs that wait for a worker.
        queue_max: usize as integer(1, 1_000_000) = "1024" => "503 with `Retry-After`",
        /// Bytes of the jobs that wait.
        queue_bytes_max: u64 as size(64 * KIB, TIB) = "64MiB" => "503 with `Retry-After`",
        /// How long a job waits for a worker.
        queue_timeout: Duration as TIMEOUT = "10s" => "503",
        /// How long a handler runs. Then it is told to end (`ctx.signal`; an `async def` is cancelled), and its worker is stopped if it
        /// does not within `kill_grace`.
        run_timeout: Duration as TIMEOUT = "30s" => "504",
        /// Between SIGTERM and SIGKILL of a worker that must stop.
        kill_grace: Duration as duration(0, MINUTE) = "300ms",
        /// A worker beyond `workers.min` that has had no job for this long is stopped; `0s`: never.
        idle_retire: Duration as duration(0, 24 * HOUR) = "5m",
        /// When a worker is replaced, with its replacement ready first.
        recycle: Recycle,
        /// Whether a job whose worker died while running it runs again. `idempotent`: once more, when its method is idempotent (RFC 9110,
        /// 9.2.2).
        retry: Retry = "never" => "502",
        /// Environment variables of the worker.
        env: BTreeMap<String, String>,
        /// Variables the worker gets from the server's environment, besides PATH, HOME and LANG.
        env_pass: Vec<String> = "",
        /// The worker's working folder.
        cwd: PathBuf as FOLDER = ".",
        /// Whether handlers may open the store to read and write, only to read, or not at all. Without the key: `rw` when the file has
        /// `[store]`, with `at = "cluster"` one with `url`, else `none`.
        store: Option<StoreMode>,
        /// `[pool.NAME.confine]`: what the workers may do and use. Without it, all that the server's account may.
        confine: Option<Confine>,
        /// Databases that handlers may reach with `forebay/sql`, through the server's connections: NAMEs of `[sql.NAME]`.
        sql: Vec<String> as names("sql") = "",
    }
}

section! {
    /// The keys of a pool's program.
    #[unused(WorkerKeys::unused)]
    struct WorkerKeys {
        /// The handler's module. A pool has either a handler or a command. For Python a file or a module, and after a colon, perhaps, the
        /// object in it: `app.py`, `app.py:create_app()`, `mysite.wsgi:application`.
        handler: Option<String>,
        /// A program that speaks the worker protocol, and its arguments.
        command: Option<Vec<String>> as at_least(1),
        /// The runtime of the handler. `auto`: Python for `.py` and `module:object`, for others Node when it is installed, else Bun.
        /// `FOREBAY_NODE` and `FOREBAY_BUN` name an executable; otherwise it is looked for in `PATH`, Bun first in `node_modules/.bin` of
        /// the configuration's folder and of those above.
        runtime: RuntimeChoice = "auto",
        /// A module that each worker runs before it loads the handler.
        start: Option<PathBuf> as FILE,
        /// The interpreter of a Python handler: a file, a virtual environment's folder, or a program in `PATH`. Without the key:
        /// `FOREBAY_PYTHON`, the virtual environment that is active (`VIRTUAL_ENV`), one called `.venv` or `venv` in the configuration's
        /// folder or above it, `python3` or `python` in `PATH`.
        python: Option<String>,
        /// How a Python application is called. `auto`: as the object that is found says.
        interface: Interface = "auto",
        /// The path below which a WSGI or ASGI application answers, such as `/py`: its `SCRIPT_NAME` or `root_path`. Without the key it
        /// sees the whole path.
        mount: Option<String>,
        /// A path with `%2F` for a WSGI or ASGI application, which sees the path decoded: `/admin%2Fusers` would be `/admin/users` to it,
        /// and one segment to the routes. `refuse`: 400. `decode`: the application gets it.
        encoded_slashes: EncodedSlashes = "refuse" => "400",
    }
}

section! {
    /// How many processes: 0 <= `min` <= `max`, 1 <= `max` <= 1024.
    #[check(Workers::check)]
    #[derive(Copy)]
    pub struct Workers {
        /// Kept running always; at most `max`.
        min: usize as integer(0, 1_024) = "1",
        /// Started when needed; 0: one per core, and at least `min`.
        max: usize as integer(0, 1_024) = "0",
    }
}

section! {
    /// Limits of WebSockets that the server speaks for a pool's handlers. Reaching one closes the WebSocket with the code that is named.
    #[derive(Copy)]
    pub struct WebSocket {
        /// Longest message, in either direction, after decompression.
        message_bytes_max: u64 as size(KIB, 256 * MIB) = "1MiB" => "close 1009",
        /// Messages that one client may send in a second; 0: any number.
        messages_per_second_max: u32 as integer(0, 1_000_000) = "0" => "close 1008",
        /// How long a client may be silent. It is sent a ping after half of that. `0s`: for ever.
        idle_timeout: Duration as duration(0, 24 * HOUR) = "1m" => "the connection ends",
        /// Whether messages are compressed for clients that ask for it (permessage-deflate, RFC 7692). It costs CPU time, and where a
        /// message has both a secret and what a stranger chose, its length tells of the secret.
        compress: bool = "false",
    }
}

section! {
    /// A worker that exceeds any of these is replaced once its replacement is ready.
    #[derive(Copy)]
    pub struct Recycle {
        /// Jobs run; 0: any number.
        jobs: u64 as integer(0, 1_000_000_000_000) = "0",
        /// Time since the worker's start; `0s`: any.
        age: Duration as duration(0, 8_760 * HOUR) = "0s",
        /// Resident memory; 0: any.
        rss: u64 as size(0, TIB) = "0",
    }
}

words! {
    /// Where the workers of a pool run.
    pub enum At {
        /// They are processes of this server.
        Here = "here",
        /// On worker hosts of the cluster.
        Cluster = "cluster",
    }
}

words! {
    /// The runtime of a handler.
    pub(crate) enum RuntimeChoice {
        /// By the handler's name and what is installed.
        Auto = "auto",
        /// Node.js.
        Node = "node",
        /// Bun.
        Bun = "bun",
        /// Python.
        Python = "python",
    }
}

words! {
    /// The calling convention of a Python application.
    pub enum Interface {
        /// Determined from the object found.
        Auto = "auto",
        /// An `App` object of the SDK.
        Forebay = "forebay",
        /// WSGI (PEP 3333).
        Wsgi = "wsgi",
        /// ASGI 3.0.
        Asgi = "asgi",
    }
}

words! {
    /// Treatment of a path with encoded slashes, which a WSGI or ASGI application cannot tell from plain ones.
    pub enum EncodedSlashes {
        /// The response is 400.
        Refuse = "refuse",
        /// The application gets it.
        Decode = "decode",
    }
}

words! {
    /// The protocol between server and worker.
    pub enum Protocol {
        /// The frames of the worker protocol.
        Framed = "framed",
        /// One JSON object per line.
        Jsonl = "jsonl",
        /// Messages as in WABuR.
        Wabur = "wabur",
    }
}

words! {
    /// The channel for a worker's messages.
    pub enum Link {
        /// An inherited socket.
        Socket = "socket",
        /// The worker's standard input and output.
        Stdio = "stdio",
    }
}

words! {
    /// Which statuses the responses of a WABuR controller get.
    pub enum Compat {
        /// Those of HTTP.
        None = "none",
        /// Those of WABuR: 500 for every error, with everything the controller reported.
        Wabur = "wabur",
    }
}

words! {
    /// Whether a job is retried when its worker died while running it.
    pub enum Retry {
        /// It fails.
        Never = "never",
        /// Once more, when its method is idempotent.
        Idempotent = "idempotent",
    }
}

words! {
    /// Access of handlers to the store.
    pub enum StoreMode {
        /// Reads and writes are allowed.
        ReadWrite = "rw",
        /// Only reads are allowed.
        ReadOnly = "ro",
        /// No access.
        None = "none",
    }
}

/// How a client that stays with one worker is identified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sticky {
    /// A cookie that the server sets.
    Cookie,
    /// Its address.
    Address,
    /// The value of a header field, in lower case; for requests without it the address.
    Header(String),
}

impl FromStr for Sticky {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "cookie" => Ok(Self::Cookie),
            "address" => Ok(Self::Address),
            name if is_token(name.as_bytes()) => Ok(Self::Header(name.to_ascii_lowercase())),
            _ => Err(format!(
                "found {text:?}, expected \"cookie\", \"address\" or the name of a header field"
            )),
        }
    }
}

impl fmt::Display for Sticky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cookie => "cookie",
            Self::Address => "address",
            Self::Header(name) => name,
        })
    }
}
parsed!("": Sticky);

/// Environment variables set by the worker protocol; PROTOCOL.md, section 1.
const PROTOCOL_VARIABLES: [&str; 22] = [
    "FOREBAY_PROTOCOL",
    "FOREBAY_LINK",
    "FOREBAY_POOL",
    "FOREBAY_WORKER",
    "FOREBAY_CONCURRENCY",
    "FOREBAY_MESSAGE_BYTES_MAX",
    "FOREBAY_HANDLER",
    "FOREBAY_START",
    "FOREBAY_LINK_FD",
    "FOREBAY_GENERATION",
    "FOREBAY_PARENT",
    "FOREBAY_PAGE_FD",
    "FOREBAY_BELL_FD",
    "FOREBAY_CALL_FD",
    "FOREBAY_SQL",
    "FOREBAY_SQL_DIRECT",
    "FOREBAY_RECORDS",
    "FOREBAY_STORE",
    "FOREBAY_STORE_MODE",
    "FOREBAY_STORE_DURABILITY",
    "FOREBAY_STORE_VALUE_BYTES_MAX",
    "FOREBAY_STORE_READER_AGE_MAX_MS",
];

/// Keys valid only for pools with a Python handler.
const PYTHON_KEYS: [&str; 4] = ["python", "interface", "mount", "encoded_slashes"];

impl Pool {
    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        let protocol = self.protocol;
        let is_framed = protocol == Protocol::Framed;
        if !is_framed && self.link == Some(Link::Socket) {
            let name = protocol.name();
            let message = format!("found \"socket\"; `protocol = \"{name}\"` is spoken on \"stdio\" only");
            context.note(fields.problem("link", message));
        }
        if matches!(self.worker, Worker::Python { .. }) && (!is_framed || self.link == Some(Link::Stdio)) {
            let message = "a handler that Python runs has frames on a socket";
            context.note(fields.problem(if is_framed { "link" } else { "protocol" }, message));
        }
        self.link
            .get_or_insert(if is_framed { Link::Socket } else { Link::Stdio });
        if self.store_mode() != StoreMode::None && !context.has_store() {
            context.note(fields.problem("store", "there is no store: the file has no [store]"));
        }
        if self.at == At::Cluster {
            self.check_in_cluster(fields, context);
        }
        let has_store = match self.at {
            At::Here => context.has_store(),
            At::Cluster => context.has_store_url(),
        };
        let usual = if has_store {
            StoreMode::ReadWrite
        } else {
            StoreMode::None
        };
        self.store.get_or_insert(usual);
        let has_user = self
            .confine
            .as_ref()
            .is_some_and(|confine| confine.user.is_some());
        if has_user && self.store_mode() != StoreMode::None {
            let message = "only the server's own user may open the store: a pool with `confine.user` has `store = \"none\"`";
            context.note(fields.problem("store", message));
        }
        if self.sticky.is_some() {
            // More workers would take clients from those that run.
            self.workers.min = self.workers.max;
        }
        for name in fields.texts("env_pass") {
            check_variable(&name.text, name.line, "env_pass", fields, context);
        }
        if !self.sql.is_empty() && !is_framed {
            context.note(fields.problem("sql", "only a pool whose protocol is \"framed\" has it"));
        }
    }

    fn check_in_cluster(&self, fields: &Fields, context: &mut Context<'_>) {
        if !context.sections.has("cluster") {
            let message = "found \"cluster\", and the file has no [cluster]";
            context.note(fields.problem("at", message));
        }
        let problems = [
            (
                self.protocol != Protocol::Framed,
                "protocol",
                "a pool with `at = \"cluster\"` has \"framed\"",
            ),
            (
                self.sticky.is_some(),
                "sticky",
                "a pool with `at = \"cluster\"` has no client that stays with one worker",
            ),
            (
                self.store_mode() != StoreMode::None && context.has_store() && !context.has_store_url(),
                "store",
                "the store is in a folder of one machine (store.path): a pool with `at = \"cluster\"` has `store = \"none\"`, or the store a `url`",
            ),
        ];
        for (_, key, why) in problems.into_iter().filter(|(is_wrong, ..)| *is_wrong) {
            context.note(fields.problem(key, why));
        }
    }

    fn unused(&self) -> Unused {
        let compat = "only a pool with `protocol = \"wabur\"` has it";
        let frames = "only a pool whose protocol is \"jsonl\" or \"wabur\" has it: frames come in pieces";
        [
            unless(self.protocol == Protocol::Wabur, &["compat"], compat),
            unless(self.protocol != Protocol::Framed, &["message_bytes_max"], frames),
            unless(
                self.protocol == Protocol::Framed,
                &["connections_max", "websocket"],
                "only a pool whose protocol is \"framed\" has it",
            ),
        ]
        .concat()
    }

    /// Access of its handlers to the store.
    pub fn store_mode(&self) -> StoreMode {
        self.store.unwrap_or(StoreMode::None)
    }
}

impl Workers {
    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        if self.max == 0 {
            self.max = context.environment.cores.max(self.min);
        }
        if self.min > self.max {
            let message = format!("found {}, which is more than max ({})", self.min, self.max);
            context.note(fields.problem("min", message));
        }
    }
}

/// Environment variables of a worker.
impl Setting for BTreeMap<String, String> {
    const KIND: Kind = Kind::TextMap;
    const DEFAULT: crate::key::Default = crate::key::Default::Is("");

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let variables = entry.text_map(context)?.iter();
        for (name, value) in variables.clone() {
            let key = format!("{}.{name}", entry.key.name);
            check_variable(name, value.line, &key, entry.fields, context);
        }
        Some(
            variables
                .map(|(name, value)| (name.clone(), value.text.clone()))
                .collect(),
        )
    }

    fn print(&self, key: &Key, out: &mut Table) {
        print_map(self.iter(), key, out);
    }
}

/// Whether a pool may pass on or set a variable of this name.
pub(crate) fn can_pass(name: &str) -> bool {
    is_name(name) && !PROTOCOL_VARIABLES.contains(&name)
}

fn check_variable(name: &str, line: usize, key: &str, fields: &Fields, context: &mut Context<'_>) {
    let message = if !is_name(name) {
        format!("{name:?} is not a variable's name: expected letters, digits and `_`, no digit first")
    } else if PROTOCOL_VARIABLES.contains(&name) {
        format!("the worker protocol sets {name} itself")
    } else {
        return;
    };
    context.note(fields.problem_at(line, key, message));
}

/// The program of a worker process.
#[derive(Debug, Clone, PartialEq)]
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
by_keys!(Worker, WorkerKeys);

/// The location of a Python application and its interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonApplication {
    /// The application's module.
    pub module: PythonModule,
    /// The object in the module, as written after the colon; `None`: the one called `app`, `application` or `handler`.
    pub object: Option<String>,
    /// How it is called.
    pub interface: Interface,
    /// The mount path, such as `/py`; `None`: the application sees the whole path.
    pub mount: Option<String>,
    /// Whether it gets paths with encoded slashes.
    pub encoded_slashes: EncodedSlashes,
}

/// A Python module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PythonModule {
    /// A file, absolute.
    File(PathBuf),
    /// A module name, imported from the pool's working directory.
    Named(String),
}

impl WorkerKeys {
    fn is_python(&self) -> bool {
        self.handler.as_deref().is_some_and(|handler| match self.runtime {
            RuntimeChoice::Python => true,
            RuntimeChoice::Auto => Handler::read(handler).is_python(),
            RuntimeChoice::Node | RuntimeChoice::Bun => false,
        })
    }

    fn unused(&self) -> Unused {
        let no_handler = "only a pool with a `handler` has it";
        let no_python = "only a pool whose handler Python runs has it";
        [
            unless(self.handler.is_some(), &["runtime", "start"], no_handler),
            unless(self.is_python(), &PYTHON_KEYS, no_python),
        ]
        .concat()
    }
}

impl Worker {
    fn of(keys: WorkerKeys, fields: &Fields, context: &mut Context<'_>) -> Option<Self> {
        let is_python = keys.is_python();
        match (keys.handler, keys.command) {
            (Some(handler), None) if is_python => {
                let application = PythonApplication {
                    // Replaced below, after the other checks.
                    module: PythonModule::Named(String::new()),
                    object: None,
                    interface: keys.interface,
                    mount: keys.mount,
                    encoded_slashes: keys.encoded_slashes,
                };
                Self::python(
                    &handler,
                    application,
                    keys.python.as_deref(),
                    keys.start,
                    fields,
                    context,
                )
            }
            (Some(handler), None) => Self::script(&handler, keys.runtime, keys.start, fields, context),
            (None, Some(command)) => Self::command(command, fields, context),
            (handler, _) => {
                let found = if handler.is_some() { "both" } else { "neither" };
                let message = format!("found {found}; a pool has either a `handler` or a `command`");
                context.note(fields.problem("handler", message));
                None
            }
        }
    }

    fn script(
        handler: &str,
        runtime: RuntimeChoice,
        start: Option<PathBuf>,
        fields: &Fields,
        context: &mut Context<'_>,
    ) -> Option<Self> {
        let handler = existing_file(handler, fields, context)?;
        let folder = context.folder(fields);
        match runtime::choose(runtime.name(), &handler, folder, context.environment) {
            Ok((runtime, program)) => Some(Self::Script {
                runtime,
                program,
                handler,
                start,
                runtime_flags: Vec::new(),
            }),
            Err(error) => {
                context.note(fields.problem("runtime", error.to_string()));
                None
            }
        }
    }

    fn python(
        handler: &str,
        application: PythonApplication,
        program: Option<&str>,
        start: Option<PathBuf>,
        fields: &Fields,
        context: &mut Context<'_>,
    ) -> Option<Self> {
        if let Some(problem) = application.mount.as_deref().and_then(mount_problem) {
            context.note(fields.problem("mount", problem));
        }
        let found = find_python(program, context.folder(fields), context.environment).map_err(|error| {
            let key = if program.is_some() { "python" } else { "runtime" };
            context.note(fields.problem(key, error.to_string()));
        });
        let written = Handler::read(handler);
        let module = if written.is_file() {
            PythonModule::File(existing_file(written.place, fields, context)?)
        } else if written.is_module() {
            PythonModule::Named(written.place.to_owned())
        } else {
            let message = format!(
                "found {handler:?}, expected a file such as `app.py` or a module such as `package.module`, and after a colon, perhaps, \
                 the object in it"
            );
            context.note(fields.problem("handler", message));
            return None;
        };
        Some(Self::Python {
            program: found.ok()?,
            application: PythonApplication {
                module,
                object: written.object.map(str::to_owned),
                ..application
            },
            start,
        })
    }

    fn command(mut command: Vec<String>, fields: &Fields, context: &mut Context<'_>) -> Option<Self> {
        let first = &command[0];
        // As in a shell, a word with a slash is a path, any other is the name of a program.
        let is_path = first.contains('/');
        let program = if is_path {
            Some(context.resolve(fields, first)).filter(|file| is_executable(file))
        } else {
            (context.environment.find_program)(first)
        };
        let Some(program) = program else {
            context.note(fields.problem("command", format!("there is no program `{first}`")));
            return None;
        };
        if is_path && context.places.is_included(fields.line) {
            // The printed configuration is a single file, to whose folder relative paths would then refer.
            command[0] = program.to_string_lossy().into_owned();
        }
        Some(Self::Command { program, command })
    }

    /// As a file says it.
    fn keys(&self) -> WorkerKeys {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut keys = WorkerKeys {
            handler: None,
            command: None,
            runtime: RuntimeChoice::Auto,
            start: None,
            python: None,
            interface: Interface::Auto,
            mount: None,
            encoded_slashes: EncodedSlashes::Refuse,
        };
        match self {
            Self::Script {
                runtime,
                handler,
                start,
                ..
            } => {
                keys.handler = Some(text(handler));
                keys.runtime = match runtime {
                    Runtime::Node => RuntimeChoice::Node,
                    Runtime::Bun => RuntimeChoice::Bun,
                };
                keys.start.clone_from(start);
            }
            Self::Python {
                program,
                application,
                start,
            } => {
                let module = match &application.module {
                    PythonModule::File(file) => text(file),
                    PythonModule::Named(name) => name.clone(),
                };
                let object = application.object.iter().map(|object| format!(":{object}"));
                keys.handler = Some(module + &object.collect::<String>());
                keys.runtime = RuntimeChoice::Python;
                keys.start.clone_from(start);
                keys.python = Some(text(program));
                keys.interface = application.interface;
                keys.mount.clone_from(&application.mount);
                keys.encoded_slashes = application.encoded_slashes;
            }
            Self::Command { command, .. } => keys.command = Some(command.clone()),
        }
        keys
    }
}

fn existing_file(handler: &str, fields: &Fields, context: &mut Context<'_>) -> Option<PathBuf> {
    let path = context.resolve(fields, handler);
    if path.is_file() {
        return Some(path);
    }
    context.note(fields.problem("handler", format!("there is no file `{}`", path.display())));
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_protocol_names_the_variables_that_a_pool_cannot_set() {
        let protocol = include_str!("../../../protocol/PROTOCOL.md");
        let rows = protocol.lines().filter(|line| line.starts_with("| `FOREBAY_"));
        let named: BTreeSet<&str> = rows
            .filter_map(|row| row.split('|').nth(1))
            .flat_map(|names| names.split('`').skip(1).step_by(2))
            .collect();
        assert_eq!(named, BTreeSet::from(PROTOCOL_VARIABLES));
    }
}
