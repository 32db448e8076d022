//! `[sql.NAME]`, and `sql` of routes

use super::{Default, Key, Kind, TIMEOUT};

pub(super) static SQL: &[Key] = &[
    Key {
        name: "url",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "The server, the database, and who connects: `postgres://user:password@host:5432/database`; what is not plain in a part is percent-encoded. Connections are encrypted and the server's certificate is verified (`?sslrootcert=FILE`: by the authorities in that file); `?sslmode=disable` has them plain.",
        exceeded: "",
    },
    Key {
        name: "driver",
        kind: Kind::Choice(&["async", "blocking"]),
        default: Default::Is("async"),
        meaning: "`async`: each I/O thread has up to two connections, and sends statements on them without waiting for the answers before. `blocking`: each statement has a connection for itself, and a thread that waits.",
        exceeded: "",
    },
    Key {
        name: "connections_max",
        kind: Kind::Integer { min: 1, max: 10_000 },
        default: Default::Is("16"),
        meaning: "Connections to the server.",
        exceeded: "statements wait",
    },
    Key {
        name: "in_flight_max",
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Default::Is("1024"),
        meaning: "Statements under way and waiting.",
        exceeded: "503",
    },
    Key {
        name: "acquire_timeout",
        kind: TIMEOUT,
        default: Default::Is("2s"),
        meaning: "How long a statement waits for a connection.",
        exceeded: "503",
    },
    Key {
        name: "connect_timeout",
        kind: TIMEOUT,
        default: Default::Is("5s"),
        meaning: "From the beginning of a connection until it can be used.",
        exceeded: "503",
    },
    Key {
        name: "statement_timeout",
        kind: TIMEOUT,
        default: Default::Is("10s"),
        meaning: "From the beginning of a statement to its last row.",
        exceeded: "504",
    },
];

pub(super) static SQL_ROUTE: &[Key] = &[
    Key {
        name: "source",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "The NAME of a `[sql.NAME]`.",
        exceeded: "",
    },
    Key {
        name: "query",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "The statement. `:name` is a parameter: of the path, else of the query, else a member of the JSON body.",
        exceeded: "",
    },
    Key {
        name: "optional",
        kind: Kind::Texts { min: 0 },
        default: Default::Is(""),
        meaning: "Parameters that a request may leave out: they are null then. One that is missing and not listed here is answered with 400.",
        exceeded: "",
    },
    Key {
        name: "result",
        kind: Kind::Choice(&["rows", "row", "value"]),
        default: Default::Is("rows"),
        meaning: "`rows`: an array of objects. `row`: the first row as an object, `value`: its first value; 404 when there is none. A statement that gives no rows is answered with 204; with 404 where `row` or `value` changes none.",
        exceeded: "",
    },
];
