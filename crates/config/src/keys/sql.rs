//! `[sql.NAME]`, and `sql` of routes

use super::{Default, GIB, KIB, Key, Kind, TIMEOUT};

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
        meaning: "`async`: each I/O thread has up to two connections, and sends statements on them without waiting for the answers before. `blocking`: each statement has a connection for itself, and a thread that waits; the statements of a `pipeline` share one, and are sent together as far as 16 KiB of them go.",
        exceeded: "",
    },
    Key {
        name: "direct",
        kind: Kind::Flag,
        default: Default::Is("false"),
        meaning: "Handlers in pools connect to it themselves, with a client of their own, to `sql.NAME.url`; routes and scripts have the server's connections all the same.",
        exceeded: "",
    },
    Key {
        name: "connections_max",
        kind: Kind::Integer { min: 1, max: 10_000 },
        default: Default::Is("16"),
        meaning: "Connections to the server, including those of streams and transactions. With `driver = \"async\"` it must be at least one more than the number of threads that run statements (I/O threads, and executors of scripts that may); the default is 16, or that number if it is higher.",
        exceeded: "statements wait",
    },
    Key {
        name: "connections_min",
        kind: Kind::Integer { min: 0, max: 10_000 },
        default: Default::Is("0"),
        meaning: "Connections for statements that are made with the first of them, and kept however long they have nothing to do. Only `driver = \"blocking\"` has it.",
        exceeded: "",
    },
    Key {
        name: "connection_age_max",
        kind: TIMEOUT,
        default: Default::Is("30m"),
        meaning: "How old a connection becomes: it is replaced once it has nothing to do, some a tenth earlier, so that not all are at once. Those on which statements are pipelined stay as long as they work.",
        exceeded: "",
    },
    Key {
        name: "idle_timeout",
        kind: TIMEOUT,
        default: Default::Is("10m"),
        meaning: "A connection unused for this long is closed, except those with pipelined statements.",
        exceeded: "",
    },
    Key {
        name: "leak_warning",
        kind: TIMEOUT,
        default: Default::Is("1m"),
        meaning: "The log tells of a stream or a transaction that has had its connection for so long: it may have been forgotten.",
        exceeded: "",
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
        name: "result_bytes_max",
        kind: Kind::Size { min: KIB, max: GIB },
        default: Default::Is("16MiB"),
        meaning: "Largest result that is gathered in memory, as the server sends it. A route with `result = \"rows\"` whose statement only reads sends a larger one as its rows come.",
        exceeded: "500",
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
    Key {
        name: "slow_query",
        kind: TIMEOUT,
        default: Default::Nothing,
        meaning: "Statements that take at least this long, including the wait for a connection, are logged, shortened and without parameters, at most ten lines a second. Off by default.",
        exceeded: "",
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
        default: Default::Nothing,
        meaning: "The statement. `:name` is a parameter: of the path, else of the query, else a member of the JSON body. A route has this or `statements`.",
        exceeded: "",
    },
    Key {
        name: "statements",
        kind: Kind::Texts { min: 1 },
        default: Default::Nothing,
        meaning: "Statements that are one transaction: all of them take effect, or none. The last one's result is the answer. What stood in the way of another transaction (SQLSTATE 40001, 40P01) is run again, four times at most.",
        exceeded: "",
    },
    Key {
        name: "isolation",
        kind: Kind::Choice(&["read committed", "repeatable read", "serializable"]),
        default: Default::Is("read committed"),
        meaning: "What `statements` see of other transactions, as the database's manual has it.",
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
        kind: Kind::Choice(&["rows", "row", "value", "ndjson", "csv"]),
        default: Default::Is("rows"),
        meaning: "`rows`: an array of objects. `row`: the first row as an object, `value`: its first value; 404 when there is none. `ndjson`: an object a line, `csv`: lines of RFC 4180 behind one with the columns' names, both sent as the rows come, however many there are. A statement that gives no rows is answered with 204; with 404 where `row` or `value` changes none.",
        exceeded: "",
    },
];
