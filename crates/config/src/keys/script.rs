//! `[script.NAME]`

use super::{Default, GIB, KIB, Key, Kind, MIB, MINUTE, SECOND, TIB, TIMEOUT};

pub(super) static SCRIPT: &[Key] = &[
    Key {
        name: "handler",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "The handler's module, JavaScript or TypeScript. It imports `forebay` and files, by their paths.",
        exceeded: "",
    },
    Key {
        name: "modules",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "The folder whose files, and those below it, the script may import; the handler is one of them. Without the key: the handler's folder.",
        exceeded: "",
    },
    Key {
        name: "on",
        kind: Kind::Choice(&["auto", "io", "executor"]),
        default: Default::Is("auto"),
        meaning: "Which threads run it. `executor`: its own. `io`: for GET and HEAD the I/O thread that read the request; there it can only read, and it is restarted on an executor if it needs more than that or more time. `auto`: like `io`, once executors have answered similar requests quickly.",
        exceeded: "",
    },
    Key {
        name: "io_input_max",
        kind: Kind::Size { min: 0, max: MIB },
        default: Default::Is("8KiB"),
        meaning: "Longest request that an I/O thread answers, its path, query, headers and body together; an executor answers others. What one call of the language itself takes, such as `indexOf`, cannot be stopped and grows with its input.",
        exceeded: "",
    },
    Key {
        name: "io_cpu_max",
        kind: Kind::Duration { min: 1, max: SECOND },
        default: Default::Is("25ms"),
        meaning: "How long a call runs on an I/O thread. Then an executor does it again.",
        exceeded: "",
    },
    Key {
        name: "cpu_max",
        kind: Kind::Duration {
            min: 1,
            max: 10 * MINUTE,
        },
        default: Default::Is("1s"),
        meaning: "Time of the processor for one call on an executor.",
        exceeded: "504",
    },
    Key {
        name: "time_max",
        kind: TIMEOUT,
        default: Default::Is("5s"),
        meaning: "From the start of a call on an executor to its answer, what it waits for included. Also for loading the script.",
        exceeded: "504",
    },
    Key {
        name: "memory_max",
        kind: Kind::Size {
            min: 4 * MIB,
            max: 4 * GIB,
        },
        default: Default::Is("64MiB"),
        meaning: "Memory of one engine, of which there are one or two for each I/O thread (the second for calls that wait for statements), and for each executor thread one, or several up to `engines_max`.",
        exceeded: "500",
    },
    Key {
        name: "output_max",
        kind: Kind::Size { min: KIB, max: GIB },
        default: Default::Is("8MiB"),
        meaning: "Longest answer.",
        exceeded: "500",
    },
    Key {
        name: "in_flight_max",
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Default::Is("1024"),
        meaning: "Calls on executors at a time, those included that wait for one.",
        exceeded: "503 with `Retry-After`",
    },
    Key {
        name: "queue_bytes_max",
        kind: Kind::Size {
            min: 64 * KIB,
            max: TIB,
        },
        default: Default::Is("64MiB"),
        meaning: "Bytes of the requests of these calls. A lone request may exceed it; `body_bytes_max` bounds that.",
        exceeded: "503 with `Retry-After`",
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
        meaning: "Engines per executor thread, each up to `memory_max`: with `isolated` one per open call, otherwise one more for each that was stopped or ran out of memory while other calls wait in it.",
        exceeded: "the next call waits; 504 when its deadline comes first",
    },
    Key {
        name: "isolated",
        kind: Kind::Flag,
        default: Default::Is("false"),
        meaning: "Whether each call has an engine of its own, so that nothing that one leaves behind, in globals or modules, is there for another. Executors do all of them, and each costs the loading of the script.",
        exceeded: "",
    },
    FETCH_TIME_MAX,
    FETCH_BYTES_MAX,
    FETCHES_MAX,
    Key {
        name: "allow",
        kind: Kind::Table(ALLOW),
        default: Default::Is(""),
        meaning: "What it may reach; nothing that is not named here.",
        exceeded: "",
    },
];

static ALLOW: &[Key] = &[STORE, SQL, FETCH, FILES];

pub(super) const STORE: Key = Key {
    name: "store",
    kind: Kind::Texts { min: 0 },
    default: Default::Is(""),
    meaning: "Globals of the store, to read and write; `*` is all.",
    exceeded: "",
};

pub(super) const SQL: Key = Key {
    name: "sql",
    kind: Kind::Texts { min: 0 },
    default: Default::Is(""),
    meaning: "Databases: NAMEs of `[sql.NAME]`.",
    exceeded: "",
};

pub(super) const FETCH: Key = Key {
    name: "fetch",
    kind: Kind::Texts { min: 0 },
    default: Default::Is(""),
    meaning: "Hosts that `fetch` may ask, redirects included: `api.example.org` at the ports 80 and 443 of `http:` and `https:`, `127.0.0.1:9000` at that port, `*.example.com` with any name before the dot.",
    exceeded: "",
};

pub(super) const FILES: Key = Key {
    name: "files",
    kind: Kind::Texts { min: 0 },
    default: Default::Is(""),
    meaning: "Folders whose files `Files` of `forebay/rules` may read and write, and all that is in them.",
    exceeded: "",
};

pub(super) const FETCH_TIME_MAX: Key = Key {
    name: "fetch_time_max",
    kind: TIMEOUT,
    default: Default::Is("5s"),
    meaning: "From the start of a `fetch` to the end of what answers it, redirects included.",
    exceeded: "the `fetch`, or what reads its answer, fails with a `TimeoutError`",
};

pub(super) const FETCH_BYTES_MAX: Key = Key {
    name: "fetch_bytes_max",
    kind: Kind::Size { min: KIB, max: GIB },
    default: Default::Is("8MiB"),
    meaning: "Longest body of what answers a `fetch`.",
    exceeded: "what reads it fails with a `TypeError`",
};

pub(super) const FETCHES_MAX: Key = Key {
    name: "fetches_max",
    kind: Kind::Integer {
        min: 1,
        max: 1_000_000,
    },
    default: Default::Is("64"),
    meaning: "Fetches that one call, or one run of rules, begins.",
    exceeded: "the next fails with a `TypeError`",
};
