//! `[workflow]`, and its routes

use super::{Default, GIB, KIB, Key, Kind, MIB, SECOND, TIB, TIMEOUT, YEAR, script};

pub(super) static WORKFLOW: &[Key] = &[
    Key {
        name: "path",
        kind: Kind::Text,
        default: Default::Is("workflows"),
        meaning: "The folder of the graphs, each a `NAME.json`, and of the rules that they run: `rules/NAME.js` or `.ts`, or the files of `rules/NAME/`, in the order of their names and `index.js` last; with what belongs to them in `modules`, `nodes`, `schemas`, `templates` and `tests`. With `store`: none.",
        exceeded: "",
    },
    Key {
        name: "watch",
        kind: Kind::Flag,
        default: Default::Is("false"),
        meaning: "Whether a server looks at the folder, and has new runs have what has changed, within a second. What cannot be read is told in the log, and changes nothing.",
        exceeded: "",
    },
    Key {
        name: "store",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "The global of the store in which the releases of workflows are, in the place of `path`: `forebay workflow import` makes them, and what `forebay workflow publish` says is in force within a second.",
        exceeded: "",
    },
    Key {
        name: "compat",
        kind: Kind::Choice(&["none", "rengine"]),
        default: Default::Is("none"),
        meaning: "`rengine`: behaves like Rengine's executor where programs could depend on it: clients such as `getDefaultHttpClient()` block the rule instead of returning promises, ALL_OR is always true, edges that a tree cannot have are left out, and `/execute/internal/workflow` always answers 200, with the code in the body.",
        exceeded: "",
    },
    Key {
        name: "timeout",
        kind: TIMEOUT,
        default: Default::Is("10s"),
        meaning: "How long a run may take, waiting for an executor included.",
        exceeded: "504",
    },
    Key {
        name: "executors",
        kind: Kind::Integer { min: 0, max: 256 },
        default: Default::Is("0"),
        meaning: "Most executor threads, started when needed; 0: one per core.",
        exceeded: "",
    },
    Key {
        name: "engines_max",
        kind: Kind::Integer { min: 1, max: 4096 },
        default: Default::Is("16"),
        meaning: "Engines of one executor thread, of which each may use `memory_max`: a run has one until it is over, also while it waits for something.",
        exceeded: "the next run waits; 504 when its time is over",
    },
    Key {
        name: "accept_queue_max",
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Default::Is("4096"),
        meaning: "Runs at a time, those included that wait for an executor.",
        exceeded: "503 with `Retry-After`",
    },
    Key {
        name: "queue_bytes_max",
        kind: Kind::Size {
            min: 64 * KIB,
            max: TIB,
        },
        default: Default::Is("64MiB"),
        meaning: "Bytes of the arguments of these runs. A lone request may exceed it; `body_bytes_max` bounds that.",
        exceeded: "503 with `Retry-After`",
    },
    Key {
        name: "memory_max",
        kind: Kind::Size {
            min: 4 * MIB,
            max: 4 * GIB,
        },
        default: Default::Is("64MiB"),
        meaning: "Memory of one engine.",
        exceeded: "the rule fails",
    },
    Key {
        name: "output_max",
        kind: Kind::Size { min: KIB, max: GIB },
        default: Default::Is("8MiB"),
        meaning: "Longest result of a run, its trace included; and bytes of all values that its rules give.",
        exceeded: "500",
    },
    Key {
        name: "log_max",
        kind: Kind::Size { min: 0, max: GIB },
        default: Default::Is("1MiB"),
        meaning: "Bytes that the rules of one run log.",
        exceeded: "further lines are left out, and counted",
    },
    Key {
        name: "logs",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "The folder where what rules log is written, and why runs have failed: `NAME.log` for each workflow, a JSON object a line. Without it, rules log into the trace of a run that is asked for one.",
        exceeded: "",
    },
    Key {
        name: "logs_rotate",
        kind: Kind::Table(super::ROTATE),
        default: Default::Is(""),
        meaning: "When such a file is renamed and begun anew; read when the server starts, or with another folder.",
        exceeded: "",
    },
    script::FETCH_TIME_MAX,
    script::FETCH_BYTES_MAX,
    script::FETCHES_MAX,
    Key {
        name: "process_output_max",
        kind: Kind::Size { min: KIB, max: GIB },
        default: Default::Is("1MiB"),
        meaning: "Bytes that a program which rules run writes to standard output, and as many to standard error.",
        exceeded: "the program is ended, and what waits for it fails",
    },
    Key {
        name: "allow",
        kind: Kind::Table(ALLOW),
        default: Default::Is(""),
        meaning: "What rules may reach; nothing that is not named here.",
        exceeded: "",
    },
    Key {
        name: "clients",
        kind: Kind::TableMap(CLIENT),
        default: Default::Is(""),
        meaning: "`[workflow.clients.ID]`: who may have workflows run, and how many. Without any, everybody may, and the ids and secrets of requests are not looked at.",
        exceeded: "401",
    },
    Key {
        name: "scenes",
        kind: Kind::TableMap(SCENE),
        default: Default::Is(""),
        meaning: "`[workflow.scenes.NAME]`: what bounds one workflow.",
        exceeded: "",
    },
    Key {
        name: "runs",
        kind: Kind::Table(RUNS),
        default: Default::Is(""),
        meaning: "Runs that are kept in the store: those that go on without their clients (`Prefer: respond-async`), and those that a key names (`Idempotency-Key`). Read when the server starts.",
        exceeded: "",
    },
];

static RUNS: &[Key] = &[
    Key {
        name: "global",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "The global of the store in which they are. Without it none is kept.",
        exceeded: "",
    },
    Key {
        name: "kept",
        kind: Kind::Duration {
            min: SECOND,
            max: YEAR,
        },
        default: Default::Is("24h"),
        meaning: "How long what a run has come to can be asked for, and its key is taken.",
        exceeded: "404; the key names a new run",
    },
    Key {
        name: "open_max",
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Default::Is("10000"),
        meaning: "Runs that are accepted and not over.",
        exceeded: "503 with `Retry-After`",
    },
    Key {
        name: "at_a_time",
        kind: Kind::Integer { min: 1, max: 4096 },
        default: Default::Is("32"),
        meaning: "Of those that nobody waits for, so many run at a time.",
        exceeded: "the next waits",
    },
];

const PRIORITY: Key = Key {
    name: "priority",
    kind: Kind::Choice(&["high", "normal", "low"]),
    default: Default::Is("normal"),
    meaning: "Order in which runs wait for an executor: `high` counts as arrived a second earlier, `low` as three seconds later. When `accept_queue_max` is reached, a waiting run makes room for one with a higher priority. If client and workflow differ, the one that is not `normal` applies; `high` with `low` is `normal`.",
    exceeded: "",
};

static CLIENT: &[Key] = &[
    Key {
        name: "secret",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "The environment variable with what the client sends beside its id: as `clientSecret` in requests of Rengine, else by `Authorization: Basic`.",
        exceeded: "401",
    },
    Key {
        name: "token",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "The environment variable with what it sends in place of both, by `Authorization: Bearer`.",
        exceeded: "401",
    },
    Key {
        name: "workflows",
        kind: Kind::Texts { min: 1 },
        default: Default::Is("*"),
        meaning: "The workflows, and rules run alone, that it may run; `*` is all.",
        exceeded: "403",
    },
    Key {
        name: "releases",
        kind: Kind::Flag,
        default: Default::Is("false"),
        meaning: "Whether it may read, make, test and publish releases, by its `token`, at a route with `api = \"releases\"`.",
        exceeded: "403",
    },
    Key {
        name: "runs_max",
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Default::Nothing,
        meaning: "Its runs at a time, those included that wait; `accept_queue_max` bounds those of all.",
        exceeded: "429 with `Retry-After`",
    },
    Key {
        name: "runs_per_second",
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Default::Nothing,
        meaning: "Its runs in a second; as many may come at once.",
        exceeded: "429 with `Retry-After`",
    },
    PRIORITY,
];

static SCENE: &[Key] = &[
    Key {
        name: "runs_max",
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Default::Nothing,
        meaning: "Its runs at a time. Further ones wait without an engine, so that others have those that are left.",
        exceeded: "the next run waits",
    },
    Key {
        name: "queue_max",
        kind: Kind::Integer {
            min: 0,
            max: 1_000_000,
        },
        default: Default::Is("1024"),
        meaning: "How many wait for that.",
        exceeded: "503 with `Retry-After`",
    },
    Key {
        name: "timeout",
        kind: TIMEOUT,
        default: Default::Nothing,
        meaning: "How long a run of it may take, where that is less than `timeout` of all.",
        exceeded: "504",
    },
    PRIORITY,
];

static ALLOW: &[Key] = &[
    script::STORE,
    script::SQL,
    script::FETCH,
    script::FILES,
    Key {
        name: "redis",
        kind: Kind::Texts { min: 0 },
        default: Default::Is(""),
        meaning: "Servers of Redis: NAMEs of `[redis.NAME]`. Locks are in the first.",
        exceeded: "",
    },
    Key {
        name: "s3",
        kind: Kind::Texts { min: 0 },
        default: Default::Is(""),
        meaning: "Buckets of S3: NAMEs of `[s3.NAME]`.",
        exceeded: "",
    },
    Key {
        name: "mail",
        kind: Kind::Texts { min: 0 },
        default: Default::Is(""),
        meaning: "Servers of mail: NAMEs of `[mail.NAME]`.",
        exceeded: "",
    },
    Key {
        name: "kafka",
        kind: Kind::Texts { min: 0 },
        default: Default::Is(""),
        meaning: "Clusters of Kafka: NAMEs of `[kafka.NAME]`.",
        exceeded: "",
    },
    Key {
        name: "pool",
        kind: Kind::Texts { min: 0 },
        default: Default::Is(""),
        meaning: "Pools whose workers answer nodes and rules: NAMEs of `[pool.NAME]`.",
        exceeded: "",
    },
    Key {
        name: "process",
        kind: Kind::Texts { min: 0 },
        default: Default::Is(""),
        meaning: "Programs that rules may run, by their absolute paths.",
        exceeded: "",
    },
];

pub(super) static WORKFLOW_ROUTE: &[Key] = &[API, RELEASE];

const RELEASE: Key = Key {
    name: "release",
    kind: Kind::Integer {
        min: 1,
        max: u32::MAX as u64,
    },
    default: Default::Nothing,
    meaning: "The release that runs of this route have, whatever is published. With `workflow.store` alone.",
    exceeded: "",
};

const API: Key = Key {
    name: "api",
    kind: Kind::Choice(&["named", "scenes", "rulescript", "custom", "releases"]),
    default: Default::Nothing,
    meaning: "The request format. `named` (default for a path that ends with `*`): the path names the workflow, the body is its arguments or a list of them. `scenes` (default otherwise): Rengine's request, whose `scenesCodes` name workflows. `rulescript`: Rengine's request whose `ruleScriptId` names one rule. `custom`: any JSON or XML, with a response made from a template, as Rengine's `/execute/custom`. `releases`: no runs, but the releases of the workflows, for clients with `releases = true`; the path ends with `/*`.",
    exceeded: "",
};
