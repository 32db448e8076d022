//! Every section and key of `forebay.toml`. This one table drives the reader, the editor's schema, the reference, and the suggestions for
//! misspelt keys.

mod kafka;
mod mail;
mod proxy;
mod records;
mod redis;
mod route;
mod s3;
mod script;
mod sql;
mod tls;
mod trace;
mod workflow;

/// A section of the file.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    /// One sentence for the reference.
    pub(super) meaning: &'static str,
    pub(super) keys: &'static [Key],
}

/// How many times a section may appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// `[name]`, once.
    Once,
    /// `[name.NAME]`, once for each NAME.
    Named,
    /// `[[name]]`, any number.
    Repeated,
}

/// A key of a section.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) default: Default,
    /// One or two sentences for the reference.
    pub(super) meaning: &'static str,
    /// The response to a client when the limit is exceeded; empty if the key is not such a limit.
    pub(super) exceeded: &'static str,
}

/// The type of a key's value. Bounds are inclusive.
#[derive(Debug)]
pub(super) enum Kind {
    Flag,
    Integer {
        min: u64,
        max: u64,
    },
    /// A number of bytes.
    Size {
        min: u64,
        max: u64,
    },
    /// A fraction from 0 to 1.
    Share,
    /// Bounds in milliseconds.
    Duration {
        min: u64,
        max: u64,
    },
    Choice(&'static [&'static str]),
    Text,
    /// A list of at least `min` texts.
    Texts {
        min: usize,
    },
    /// Texts under names that the author chose.
    TextMap,
    /// Any JSON value.
    Json,
    Table(&'static [Key]),
    /// Tables with these keys under names that the author chose.
    TableMap(&'static [Key]),
}

/// The value of a key that is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Default {
    /// It must be written.
    Required,
    /// This text, as it would be written. For lists and tables: the empty value, or a single text.
    Is(&'static str),
    /// No value, or as `meaning` describes.
    Nothing,
    /// The value of this key in another section.
    From(&'static str),
}

impl Section {
    /// The header as written in a file: `[server]`, `[pool.NAME]`, `[[route]]`.
    pub(super) fn heading(&self) -> String {
        match self.shape {
            Shape::Once => format!("[{}]", self.name),
            Shape::Named => format!("[{}.NAME]", self.name),
            Shape::Repeated => format!("[[{}]]", self.name),
        }
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const YEAR: u64 = 365 * 24 * HOUR;

const TIMEOUT: Kind = Kind::Duration {
    min: 1,
    max: 24 * HOUR,
};

/// The only key outside of any section.
pub(super) static INCLUDE: Key = Key {
    name: "include",
    kind: Kind::Texts { min: 0 },
    default: Default::Is(""),
    meaning: "Files whose pools, scripts, databases and routes are added to those of this one, at most 64. Relative paths in such a file start at its own folder. An empty text names no file.",
    exceeded: "",
};

pub(super) static SECTIONS: &[Section] = &[
    Section {
        name: "server",
        shape: Shape::Once,
        meaning: "The listeners, and what bounds every connection and request.",
        keys: SERVER,
    },
    Section {
        name: "tls",
        shape: Shape::Named,
        meaning: "A certificate for the `https://` addresses of `server.listen`. It is in files (`cert` and `key`) or obtained by the server (`acme`). Clients get the one for the name that they ask for, or else the first by NAME. A reload reads the files again.",
        keys: tls::TLS,
    },
    Section {
        name: "admin",
        shape: Shape::Once,
        meaning: "Status of the server, and its control socket.",
        keys: ADMIN,
    },
    Section {
        name: "log",
        shape: Shape::Once,
        meaning: "What is logged, how and where.",
        keys: LOG,
    },
    Section {
        name: "trace",
        shape: Shape::Once,
        meaning: "Traces of requests, for a collector of OpenTelemetry. Without this section none are made.",
        keys: trace::TRACE,
    },
    Section {
        name: "store",
        shape: Shape::Once,
        meaning: "The embedded store. With this section, even an empty one, the server opens it and its workers can.",
        keys: STORE,
    },
    Section {
        name: "records",
        shape: Shape::Once,
        meaning: "Records of the store, and TQL: what holds for the targets `records` and `tql`, and for handlers.",
        keys: records::RECORDS,
    },
    Section {
        name: "pool",
        shape: Shape::Named,
        meaning: "A supervised pool of worker processes. NAME has 1 to 64 letters, digits, `-` and `_`.",
        keys: POOL,
    },
    Section {
        name: "proxy",
        shape: Shape::Named,
        meaning: "Other HTTP servers, to which routes with `proxy` pass requests on. NAME has 1 to 64 letters, digits, `-` and `_`.",
        keys: proxy::PROXY,
    },
    Section {
        name: "script",
        shape: Shape::Named,
        meaning: "JavaScript inside the server. NAME has 1 to 64 letters, digits, `-` and `_`.",
        keys: script::SCRIPT,
    },
    Section {
        name: "sql",
        shape: Shape::Named,
        meaning: "A database of PostgreSQL. NAME has 1 to 64 letters, digits, `-` and `_`.",
        keys: sql::SQL,
    },
    Section {
        name: "redis",
        shape: Shape::Named,
        meaning: "A server of Redis, for rules. NAME has 1 to 64 letters, digits, `-` and `_`.",
        keys: redis::REDIS,
    },
    Section {
        name: "s3",
        shape: Shape::Named,
        meaning: "A bucket of S3, for rules. NAME has 1 to 64 letters, digits, `-` and `_`.",
        keys: s3::S3,
    },
    Section {
        name: "mail",
        shape: Shape::Named,
        meaning: "A server of mail, for rules. NAME has 1 to 64 letters, digits, `-` and `_`.",
        keys: mail::MAIL,
    },
    Section {
        name: "kafka",
        shape: Shape::Named,
        meaning: "A cluster of Kafka, which rules publish to. NAME has 1 to 64 letters, digits, `-` and `_`.",
        keys: kafka::KAFKA,
    },
    Section {
        name: "workflow",
        shape: Shape::Once,
        meaning: "Graphs of rules, which are scripts: the target `workflow` runs them.",
        keys: workflow::WORKFLOW,
    },
    Section {
        name: "route",
        shape: Shape::Repeated,
        meaning: "Which requests are answered from where. A route has exactly one target: `respond`, `files`, `store`, `records`, `tql`, `sql`, `pool`, `script` or `workflow`.",
        keys: route::ROUTE,
    },
];

static SERVER: &[Key] = &[
    Key {
        name: "listen",
        kind: Kind::Texts { min: 1 },
        default: Default::Is("127.0.0.1:8080"),
        meaning: "Addresses to listen on: `host:port`, `[v6]:port` or `unix:path`, and `https://host:port` with the certificates of `[tls.NAME]`. Port 0 lets the system choose.",
        exceeded: "",
    },
    Key {
        name: "client_ca",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "A PEM file with the authorities that sign certificates of clients, for listeners with TLS. Without it clients are asked for none.",
        exceeded: "",
    },
    Key {
        name: "client_crl",
        kind: Kind::Texts { min: 0 },
        default: Default::Is(""),
        meaning: "PEM files with lists of revoked certificates of clients.",
        exceeded: "",
    },
    Key {
        name: "client_certificates",
        kind: Kind::Choice(&["required", "optional"]),
        default: Default::Is("required"),
        meaning: "Whether a client without a certificate is turned away.",
        exceeded: "the handshake fails",
    },
    Key {
        name: "trusted_proxies",
        kind: Kind::Texts { min: 0 },
        default: Default::Is(""),
        meaning: "Addresses of proxies, such as `10.0.0.0/8`, and `unix` for those that come by Unix sockets. What they say about a client, its address and whether it speaks TLS, is believed; what others say is not.",
        exceeded: "",
    },
    Key {
        name: "forwarded",
        kind: Kind::Choice(&["x-forwarded-for", "forwarded", "proxy-protocol"]),
        default: Default::Is("x-forwarded-for"),
        meaning: "Where they say it: in the header fields `X-Forwarded-For` and `X-Forwarded-Proto`, in `Forwarded` (RFC 7239), or by the PROXY protocol, version 1 or 2, with which each of their connections must then begin. A proxy must say it itself, whatever the client sent.",
        exceeded: "",
    },
    Key {
        name: "https_only",
        kind: Kind::Flag,
        default: Default::Is("false"),
        meaning: "Requests without TLS are redirected to the same address with it (308). Those from Unix sockets are not, unless a trusted proxy there says that the client had none.",
        exceeded: "",
    },
    Key {
        name: "hsts",
        kind: Kind::Duration {
            min: 0,
            max: 10 * YEAR,
        },
        default: Default::Is("0s"),
        meaning: "How long browsers that were here with TLS insist on it (`Strict-Transport-Security`); `0s`: the header is not sent.",
        exceeded: "",
    },
    Key {
        name: "unix_mode",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "Permissions of the Unix sockets in `listen`, in octal: `0660` lets their owner and group connect. Without the key those that the umask leaves.",
        exceeded: "",
    },
    Key {
        name: "threads",
        kind: Kind::Integer { min: 0, max: 256 },
        default: Default::Is("0"),
        meaning: "I/O threads; 0: one per core, with pools one per two cores.",
        exceeded: "",
    },
    Key {
        name: "header_bytes_max",
        kind: Kind::Size {
            min: KIB,
            max: 256 * KIB,
        },
        default: Default::Is("32KiB"),
        meaning: "Request line and headers together, with 100 header fields at most.",
        exceeded: "431",
    },
    Key {
        name: "body_bytes_max",
        kind: Kind::Size { min: 0, max: TIB },
        default: Default::Is("1MiB"),
        meaning: "A request's body.",
        exceeded: "413",
    },
    Key {
        name: "header_timeout",
        kind: TIMEOUT,
        default: Default::Is("10s"),
        meaning: "From a request's first byte to the end of its headers.",
        exceeded: "408",
    },
    Key {
        name: "body_timeout",
        kind: TIMEOUT,
        default: Default::Is("30s"),
        meaning: "How long the server waits for the bytes of a body, all waits together.",
        exceeded: "408",
    },
    Key {
        name: "body_buffer_max",
        kind: Kind::Size { min: 0, max: GIB },
        default: Default::Is("1MiB"),
        meaning: "Bodies up to this are read whole before a pool's worker gets the request, so that no slow client holds a worker. Longer ones reach it as they come.",
        exceeded: "",
    },
    Key {
        name: "answer_buffer_max",
        kind: Kind::Size { min: 0, max: GIB },
        default: Default::Is("1MiB"),
        meaning: "How much of an answer that a worker has whole is kept in memory for a client that takes it slowly; what is longer goes to a temporary file. Streams, whose length a worker does not announce, wait at the worker. 0: all do.",
        exceeded: "",
    },
    Key {
        name: "answer_spool_max",
        kind: Kind::Size { min: 0, max: TIB },
        default: Default::Is("1GiB"),
        meaning: "Most bytes of all answers together in temporary files, which have no name, in the folder that `TMPDIR` says. Beyond it answers wait at their workers.",
        exceeded: "",
    },
    Key {
        name: "buffers_max",
        kind: Kind::Size { min: 0, max: TIB },
        default: Default::Is("256MiB"),
        meaning: "Most memory of `body_buffer_max` and `answer_buffer_max` for all requests together. Beyond it bodies reach workers as they come, and answers go to files.",
        exceeded: "",
    },
    Key {
        name: "min_rate",
        kind: Kind::Size { min: 0, max: GIB },
        default: Default::Is("256B"),
        meaning: "Bytes a second that a client has to send of a body, or take of an answer, while it is waited for and `min_rate_grace` is over. 0: any rate will do.",
        exceeded: "408, or the connection is closed",
    },
    Key {
        name: "min_rate_grace",
        kind: TIMEOUT,
        default: Default::Is("10s"),
        meaning: "How long a client may be slower than `min_rate`, all waits for it together.",
        exceeded: "",
    },
    Key {
        name: "compress",
        kind: Kind::Choice(COMPRESS),
        default: Default::Is("off"),
        meaning: "Which answers are compressed, with zstd, Brotli or gzip, for clients that accept it. `public`: none that may hold a secret beside text that somebody else chose, see routing.md; `always`: those too; `off`: none. Only types that become shorter, such as text, JSON, JavaScript and SVG.",
        exceeded: "",
    },
    Key {
        name: "compress_bytes_min",
        kind: Kind::Size { min: 0, max: GIB },
        default: Default::Is("1KiB"),
        meaning: "Answers shorter than this are not compressed, unless the client accepts nothing else. Those whose length is not known beforehand are.",
        exceeded: "",
    },
    Key {
        name: "compress_cpu_max",
        kind: Kind::Share,
        default: Default::Is("0.25"),
        meaning: "The share of its time, over about a second, that an I/O thread may spend on compression. Beyond it answers go out as they are, and those already begun wait.",
        exceeded: "",
    },
    Key {
        name: "idle_timeout",
        kind: TIMEOUT,
        default: Default::Is("75s"),
        meaning: "How long a connection stays open without a request; and how long it is written to while its client takes nothing.",
        exceeded: "the connection is closed",
    },
    Key {
        name: "connections_max",
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Default::Is("10000"),
        meaning: "Open connections on all listeners together.",
        exceeded: "the new connection is closed",
    },
    Key {
        name: "deadline",
        kind: TIMEOUT,
        default: Default::Is("30s"),
        meaning: "From a request's arrival to its answer, queue time included.",
        exceeded: "504",
    },
    Key {
        name: "drain_max",
        kind: Kind::Duration { min: 0, max: HOUR },
        default: Default::Is("30s"),
        meaning: "How long a stopping server waits for the requests it has read.",
        exceeded: "the connection is closed",
    },
];

static ADMIN: &[Key] = &[
    Key {
        name: "listen",
        kind: Kind::Text,
        default: Default::Is("127.0.0.1:8081"),
        meaning: "Address for health, metrics and status, written as in `server.listen`; `off`: none. It only reads; changes go through the socket.",
        exceeded: "",
    },
    Key {
        name: "unix_mode",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "Permissions of a Unix socket in `listen`, as in `server.unix_mode`.",
        exceeded: "",
    },
    Key {
        name: "hosts",
        kind: Kind::Texts { min: 0 },
        default: Default::Is(""),
        meaning: "Host names that the listener accepts besides `localhost` and addresses; this protects against DNS rebinding.",
        exceeded: "421",
    },
    Key {
        name: "socket",
        kind: Kind::Text,
        default: Default::Is("forebay.sock"),
        meaning: "File of the control socket, mode 0600: reload, resize, stop, log level; `off`: none.",
        exceeded: "",
    },
];

static LOG: &[Key] = &[
    Key {
        name: "level",
        kind: Kind::Text,
        default: Default::Is("info"),
        meaning: "`error`, `warn`, `info`, `debug` or `trace`; also per target, as in `info,forebay::pool=debug`.",
        exceeded: "",
    },
    Key {
        name: "format",
        kind: Kind::Choice(&["auto", "text", "json"]),
        default: Default::Is("auto"),
        meaning: "`auto`: text on a terminal, a JSON object a line otherwise.",
        exceeded: "",
    },
    Key {
        name: "file",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "Where lines go instead of standard error.",
        exceeded: "",
    },
    Key {
        name: "rotate",
        kind: Kind::Table(ROTATE),
        default: Default::Is(""),
        meaning: "When `file` is renamed and begun anew.",
        exceeded: "",
    },
    Key {
        name: "access",
        kind: Kind::Flag,
        default: Default::Is("false"),
        meaning: "Whether each request is logged.",
        exceeded: "",
    },
];

pub(super) static ROTATE: &[Key] = &[
    Key {
        name: "size",
        kind: Kind::Size {
            min: 64 * KIB,
            max: TIB,
        },
        default: Default::Is("100MiB"),
        meaning: "The file's size.",
        exceeded: "",
    },
    Key {
        name: "keep",
        kind: Kind::Integer { min: 1, max: 1_000 },
        default: Default::Is("10"),
        meaning: "Old files kept.",
        exceeded: "",
    },
];

static STORE: &[Key] = &[
    Key {
        name: "path",
        kind: Kind::Text,
        default: Default::Is("data"),
        meaning: "The store's folder, made when it is not there. One server at a time leads it.",
        exceeded: "",
    },
    Key {
        name: "durability",
        kind: Kind::Choice(&["sync", "group", "relaxed"]),
        default: Default::Is("group"),
        meaning: "What a commit waits for. `sync`: for a flush of its own; `group`: for a flush that it shares with others; `relaxed`: for nothing, so that a power cut can take the last `flush_interval`.",
        exceeded: "",
    },
    Key {
        name: "flush_interval",
        kind: Kind::Duration { min: 1, max: MINUTE },
        default: Default::Is("20ms"),
        meaning: "Longest time in which a relaxed commit is not on the disk.",
        exceeded: "",
    },
    Key {
        name: "map_max",
        kind: Kind::Size { min: MIB, max: TIB },
        default: Default::Is("64GiB"),
        meaning: "How far the store's file may grow.",
        exceeded: "507",
    },
    Key {
        name: "reader_age_max",
        kind: Kind::Duration {
            min: SECOND,
            max: 24 * HOUR,
        },
        default: Default::Is("60s"),
        meaning: "How long one answer may read from one state of the store.",
        exceeded: "the answer is cut off",
    },
    Key {
        name: "value_bytes_max",
        kind: Kind::Size { min: KIB, max: GIB },
        default: Default::Is("64MiB"),
        meaning: "Longest document or value, in bytes of JSON.",
        exceeded: "413",
    },
    Key {
        name: "queue_max",
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Default::Is("1024"),
        meaning: "Writes over HTTP that wait for the store.",
        exceeded: "503 with `Retry-After`",
    },
    Key {
        name: "queue_bytes_max",
        kind: Kind::Size {
            min: 64 * KIB,
            max: TIB,
        },
        default: Default::Is("64MiB"),
        meaning: "Bytes of the writes that wait.",
        exceeded: "503 with `Retry-After`",
    },
    Key {
        name: "access",
        kind: Kind::TableMap(ACCESS),
        default: Default::Is(""),
        meaning: "`[store.access]`: who may reach which global over HTTP; globals without an entry nobody. Handlers are not bound by it.",
        exceeded: "401 or 403",
    },
    Key {
        name: "index",
        kind: Kind::TableMap(INDEX),
        default: Default::Is(""),
        meaning: "`[store.index.NAME]`: an index, created at the start if missing. If one of that name exists with other fields, the server does not start; an index that is not listed stays.",
        exceeded: "",
    },
];

static INDEX: &[Key] = &[
    Key {
        name: "records",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "The node whose children are the records, written as in a URL: `Person/data`.",
        exceeded: "",
    },
    Key {
        name: "fields",
        kind: Kind::Texts { min: 1 },
        default: Default::Required,
        meaning: "One to eight fields of a record, in order: `lastName`, `address.city`, `tags.*` for each element of an array. A name with one of `.\"=<>!` in it stands between double quotes.",
        exceeded: "",
    },
    Key {
        name: "unique",
        kind: Kind::Flag,
        default: Default::Is("false"),
        meaning: "Whether two records may not have the same values.",
        exceeded: "409",
    },
];

static ACCESS: &[Key] = &[
    Key {
        name: "read",
        kind: Kind::Text,
        default: Default::Is("none"),
        meaning: "`public`: everybody; `token:NAME`: who sends `Authorization: Bearer` with the value of the environment variable NAME; `none`: nobody.",
        exceeded: "401 or 403",
    },
    Key {
        name: "write",
        kind: Kind::Text,
        default: Default::Is("none"),
        meaning: "The same for writing.",
        exceeded: "401 or 403",
    },
];

static POOL: &[Key] = &[
    Key {
        name: "handler",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "The handler's module. A pool has either a handler or a command. For Python a file or a module, and after a colon, perhaps, the object in it: `app.py`, `app.py:create_app()`, `mysite.wsgi:application`.",
        exceeded: "",
    },
    Key {
        name: "command",
        kind: Kind::Texts { min: 1 },
        default: Default::Nothing,
        meaning: "A program that speaks the worker protocol, and its arguments.",
        exceeded: "",
    },
    Key {
        name: "runtime",
        kind: Kind::Choice(&["auto", "node", "bun", "python"]),
        default: Default::Is("auto"),
        meaning: "What runs the handler. `auto`: Python for `.py` and `module:object`, for others Node when it is installed, else Bun. `FOREBAY_NODE` and `FOREBAY_BUN` name an executable; otherwise it is looked for in `PATH`, Bun first in `node_modules/.bin` of the configuration's folder and of those above.",
        exceeded: "",
    },
    Key {
        name: "start",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "A module that each worker runs before it loads the handler.",
        exceeded: "",
    },
    Key {
        name: "python",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "The interpreter of a Python handler: a file, a virtual environment's folder, or a program in `PATH`. Without the key: `FOREBAY_PYTHON`, the virtual environment that is active (`VIRTUAL_ENV`), one called `.venv` or `venv` in the configuration's folder or above it, `python3` or `python` in `PATH`.",
        exceeded: "",
    },
    Key {
        name: "interface",
        kind: Kind::Choice(&["auto", "forebay", "wsgi", "asgi"]),
        default: Default::Is("auto"),
        meaning: "How a Python application is called. `auto`: as the object that is found says.",
        exceeded: "",
    },
    Key {
        name: "mount",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "The path below which a WSGI or ASGI application answers, such as `/py`: its `SCRIPT_NAME` or `root_path`. Without the key it sees the whole path.",
        exceeded: "",
    },
    Key {
        name: "encoded_slashes",
        kind: Kind::Choice(&["refuse", "decode"]),
        default: Default::Is("refuse"),
        meaning: "A path with `%2F` for a WSGI or ASGI application, which sees the path decoded: `/admin%2Fusers` would be `/admin/users` to it, and one segment to the routes. `refuse`: 400. `decode`: the application gets it.",
        exceeded: "400",
    },
    Key {
        name: "protocol",
        kind: Kind::Choice(&["framed", "jsonl", "wabur"]),
        default: Default::Is("framed"),
        meaning: "What the worker speaks. `framed`: binary frames. `jsonl`: one JSON object a line, on standard input and output. `wabur`: the messages of a WABuR controller, on the same. See `docs/guide/stdio.md`.",
        exceeded: "",
    },
    Key {
        name: "link",
        kind: Kind::Choice(&["socket", "stdio"]),
        default: Default::Nothing,
        meaning: "What the worker's messages go through: an inherited `socket`, or standard input and output. `framed` may have either, `socket` unless it says otherwise; the other protocols have `stdio`.",
        exceeded: "",
    },
    Key {
        name: "message_bytes_max",
        kind: Kind::Size {
            min: 4 * KIB,
            max: GIB,
        },
        default: Default::Is("16MiB"),
        meaning: "Longest body and longest message where `protocol` is `jsonl` or `wabur`: they have no pieces. A worker that writes a longer message is stopped.",
        exceeded: "413; 502 for what that worker was running",
    },
    Key {
        name: "compat",
        kind: Kind::Choice(&["none", "wabur"]),
        default: Default::Is("none"),
        meaning: "Where `protocol` is `wabur`, the status of answers with an error code. `none`: 409 for code 17, 404 for code 166, 500 for others, and their backtrace goes to the log. `wabur`: 500, as the controller wrote it.",
        exceeded: "",
    },
    Key {
        name: "workers",
        kind: Kind::Table(WORKERS),
        default: Default::Is(""),
        meaning: "How many processes.",
        exceeded: "",
    },
    Key {
        name: "concurrency",
        kind: Kind::Integer { min: 1, max: 1_024 },
        default: Default::Is("1"),
        meaning: "Jobs one worker runs at a time. With 1, a handler may block.",
        exceeded: "",
    },
    Key {
        name: "queue_max",
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Default::Is("1024"),
        meaning: "Jobs that wait for a worker.",
        exceeded: "503 with `Retry-After`",
    },
    Key {
        name: "queue_bytes_max",
        kind: Kind::Size {
            min: 64 * KIB,
            max: TIB,
        },
        default: Default::Is("64MiB"),
        meaning: "Bytes of the jobs that wait.",
        exceeded: "503 with `Retry-After`",
    },
    Key {
        name: "queue_timeout",
        kind: TIMEOUT,
        default: Default::Is("10s"),
        meaning: "How long a job waits for a worker.",
        exceeded: "503",
    },
    Key {
        name: "run_timeout",
        kind: TIMEOUT,
        default: Default::Is("30s"),
        meaning: "How long a handler runs. Then it is told to end (`ctx.signal`; an `async def` is cancelled), and its worker is stopped if it does not within `kill_grace`.",
        exceeded: "504",
    },
    Key {
        name: "kill_grace",
        kind: Kind::Duration { min: 0, max: MINUTE },
        default: Default::Is("300ms"),
        meaning: "Between SIGTERM and SIGKILL of a worker that must stop.",
        exceeded: "",
    },
    Key {
        name: "idle_retire",
        kind: Kind::Duration {
            min: 0,
            max: 24 * HOUR,
        },
        default: Default::Is("5m"),
        meaning: "A worker beyond `workers.min` that has had no job for this long is stopped; `0s`: never.",
        exceeded: "",
    },
    Key {
        name: "recycle",
        kind: Kind::Table(RECYCLE),
        default: Default::Is(""),
        meaning: "When a worker is replaced, with its replacement ready first.",
        exceeded: "",
    },
    Key {
        name: "retry",
        kind: Kind::Choice(RETRY),
        default: Default::Is("never"),
        meaning: "Whether a job whose worker died while running it runs again. `idempotent`: once more, when its method is idempotent (RFC 9110, 9.2.2).",
        exceeded: "502",
    },
    Key {
        name: "env",
        kind: Kind::TextMap,
        default: Default::Is(""),
        meaning: "Environment variables of the worker.",
        exceeded: "",
    },
    Key {
        name: "env_pass",
        kind: Kind::Texts { min: 0 },
        default: Default::Is(""),
        meaning: "Variables the worker gets from the server's environment, besides PATH, HOME and LANG.",
        exceeded: "",
    },
    Key {
        name: "cwd",
        kind: Kind::Text,
        default: Default::Is("."),
        meaning: "The worker's working folder.",
        exceeded: "",
    },
    Key {
        name: "store",
        kind: Kind::Choice(&["rw", "ro", "none"]),
        default: Default::Nothing,
        meaning: "Whether handlers may open the store to read and write, only to read, or not at all. Without the key: `rw` when the file has `[store]`, else `none`.",
        exceeded: "",
    },
    Key {
        name: "sql",
        kind: Kind::Texts { min: 0 },
        default: Default::Is(""),
        meaning: "Databases that handlers may reach with `forebay/sql`, through the server's connections: NAMEs of `[sql.NAME]`.",
        exceeded: "",
    },
];

static WORKERS: &[Key] = &[
    Key {
        name: "min",
        kind: Kind::Integer { min: 0, max: 1_024 },
        default: Default::Is("1"),
        meaning: "Kept running always; at most `max`.",
        exceeded: "",
    },
    Key {
        name: "max",
        kind: Kind::Integer { min: 0, max: 1_024 },
        default: Default::Is("0"),
        meaning: "Started when needed; 0: one per core, and at least `min`.",
        exceeded: "",
    },
];

static RECYCLE: &[Key] = &[
    Key {
        name: "jobs",
        kind: Kind::Integer {
            min: 0,
            max: 1_000_000_000_000,
        },
        default: Default::Is("0"),
        meaning: "Jobs run; 0: any number.",
        exceeded: "",
    },
    Key {
        name: "age",
        kind: Kind::Duration {
            min: 0,
            max: 8_760 * HOUR,
        },
        default: Default::Is("0s"),
        meaning: "Time since the worker's start; `0s`: any.",
        exceeded: "",
    },
    Key {
        name: "rss",
        kind: Kind::Size { min: 0, max: TIB },
        default: Default::Is("0"),
        meaning: "Resident memory; 0: any.",
        exceeded: "",
    },
];

static RETRY: &[&str] = &["never", "idempotent"];
static COMPRESS: &[&str] = &["off", "public", "always"];
