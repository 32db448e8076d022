//! `[[route]]`, and the tables of its targets that have no file of their own

use super::{COMPRESS, Default, Key, Kind, RETRY, TIB, TIMEOUT, sql::SQL_ROUTE, workflow::WORKFLOW_ROUTE};

pub(super) static ROUTE: &[Key] = &[
    Key {
        name: "path",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "The pattern: `/users/:id`, `/static/*`. See routing.md.",
        exceeded: "",
    },
    Key {
        name: "methods",
        kind: Kind::Texts { min: 1 },
        default: Default::Nothing,
        meaning: "Methods this route answers; without the key, all but TRACE. GET answers HEAD too.",
        exceeded: "405 with `Allow`",
    },
    Key {
        name: "host",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "`example.com` or `*.example.com`; without the key, every host.",
        exceeded: "",
    },
    Key {
        name: "headers",
        kind: Kind::TextMap,
        default: Default::Is(""),
        meaning: "Headers added to every answer of this route.",
        exceeded: "",
    },
    Key {
        name: "origins",
        kind: Kind::Texts { min: 0 },
        default: Default::Is(""),
        meaning: "For `store`, `records` and `tql`: origins of web pages, beside the server's own, that may have browsers change something, such as `https://example.org`; `*`: all. A browser says where a page comes from (`Sec-Fetch-Site`, `Origin`); other programs need no entry.",
        exceeded: "403",
    },
    Key {
        name: "cors",
        kind: Kind::Table(CORS),
        default: Default::Nothing,
        meaning: "Pages of other origins whose scripts may read the answers. The server then answers preflight requests itself, so handlers must not send such headers.",
        exceeded: "",
    },
    Key {
        name: "compress",
        kind: Kind::Choice(COMPRESS),
        default: Default::From("server.compress"),
        meaning: "Replaces `server.compress` here.",
        exceeded: "",
    },
    Key {
        name: "respond",
        kind: Kind::Table(RESPOND),
        default: Default::Nothing,
        meaning: "Target: an answer from memory. At most one of `json`, `text` and `file`.",
        exceeded: "",
    },
    Key {
        name: "files",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "Target: a static folder. The path must end with `*`, which names the file below it.",
        exceeded: "",
    },
    Key {
        name: "cache_control",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "For `files`: the `Cache-Control` of files, such as `public, max-age=3600`. Errors do not have it.",
        exceeded: "",
    },
    Key {
        name: "precompressed",
        kind: Kind::Flag,
        default: Default::Is("false"),
        meaning: "For `files`: where `a.js.br`, `a.js.zst` or `a.js.gz` is beside `a.js`, clients that accept it get that, with `Content-Encoding`.",
        exceeded: "",
    },
    Key {
        name: "store",
        kind: Kind::Table(STORE_ROUTE),
        default: Default::Nothing,
        meaning: "Target: the store, by the rules of `[store.access]`; written `store = {}`. The path must end with `*`, which names the node.",
        exceeded: "",
    },
    Key {
        name: "records",
        kind: Kind::Table(STORE_ROUTE),
        default: Default::Nothing,
        meaning: "Target: records of the store by their references, by the rules of `[store.access]`; written `records = {}`. The path must end with `*`, which is the reference.",
        exceeded: "",
    },
    Key {
        name: "tql",
        kind: Kind::Table(STORE_ROUTE),
        default: Default::Nothing,
        meaning: "Target: statements of TQL about records of the store, by the rules of `[store.access]`; written `tql = {}`.",
        exceeded: "",
    },
    Key {
        name: "sql",
        kind: Kind::Table(SQL_ROUTE),
        default: Default::Nothing,
        meaning: "Target: a statement on a database. Such a route says which `methods` it answers.",
        exceeded: "",
    },
    Key {
        name: "pool",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "Target: the NAME of a `[pool.NAME]`.",
        exceeded: "",
    },
    Key {
        name: "script",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "Target: the NAME of a `[script.NAME]`.",
        exceeded: "",
    },
    Key {
        name: "workflow",
        kind: Kind::Table(WORKFLOW_ROUTE),
        default: Default::Nothing,
        meaning: "Target: workflows, as `[workflow]` says; written `workflow = {}`.",
        exceeded: "",
    },
    Key {
        name: "deadline",
        kind: TIMEOUT,
        default: Default::From("server.deadline"),
        meaning: "Narrows `server.deadline`.",
        exceeded: "504",
    },
    Key {
        name: "body_bytes_max",
        kind: Kind::Size { min: 0, max: TIB },
        default: Default::From("server.body_bytes_max"),
        meaning: "Replaces `server.body_bytes_max` here, upwards or downwards.",
        exceeded: "413",
    },
    Key {
        name: "queue_timeout",
        kind: TIMEOUT,
        default: Default::From("pool.NAME.queue_timeout"),
        meaning: "Narrows the pool's; only with `pool`.",
        exceeded: "503",
    },
    Key {
        name: "run_timeout",
        kind: TIMEOUT,
        default: Default::From("pool.NAME.run_timeout"),
        meaning: "Narrows the pool's; only with `pool`.",
        exceeded: "504",
    },
    Key {
        name: "retry",
        kind: Kind::Choice(RETRY),
        default: Default::From("pool.NAME.retry"),
        meaning: "Replaces the pool's; only with `pool`.",
        exceeded: "502",
    },
];

static CORS: &[Key] = &[
    Key {
        name: "origins",
        kind: Kind::Texts { min: 1 },
        default: Default::Required,
        meaning: "Their origins, such as `https://example.org`; `*`: all.",
        exceeded: "",
    },
    Key {
        name: "headers",
        kind: Kind::Texts { min: 0 },
        default: Default::Is(""),
        meaning: "Request headers that they may send beyond the few that need no permission, such as `authorization` or `content-type`.",
        exceeded: "",
    },
    Key {
        name: "credentials",
        kind: Kind::Flag,
        default: Default::Is("false"),
        meaning: "Whether they may send cookies and credentials; not with the origin `*`.",
        exceeded: "",
    },
];

/// A store route has no options of its own; all of them are in `[store]`.
static STORE_ROUTE: &[Key] = &[];

static RESPOND: &[Key] = &[
    Key {
        name: "status",
        kind: Kind::Integer { min: 200, max: 599 },
        default: Default::Is("200"),
        meaning: "The status.",
        exceeded: "",
    },
    Key {
        name: "json",
        kind: Kind::Json,
        default: Default::Nothing,
        meaning: "The body as JSON, members in the order written.",
        exceeded: "",
    },
    Key {
        name: "text",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "The body as text.",
        exceeded: "",
    },
    Key {
        name: "file",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "A file whose bytes, at most 16 MiB, are the body. It is read when the configuration is.",
        exceeded: "",
    },
    Key {
        name: "content_type",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "Without the key: `application/json` for `json`, `text/plain; charset=utf-8` for `text`, by its extension for `file`.",
        exceeded: "",
    },
    Key {
        name: "headers",
        kind: Kind::TextMap,
        default: Default::Is(""),
        meaning: "Further headers.",
        exceeded: "",
    },
];
