//! `[proxy.NAME]`

use super::{Default, HOUR, Key, Kind, RETRY, TIMEOUT};

pub(super) static PROXY: &[Key] = &[
    Key {
        name: "servers",
        kind: Kind::Texts { min: 1 },
        default: Default::Required,
        meaning: "At most 64 servers that answer alike: `http://127.0.0.1:3000`, `https://app.example:443` (HTTP/1.1 over TLS), `h2c://127.0.0.1:3000` (HTTP/2 without TLS) or `unix:app.socket`.",
        exceeded: "",
    },
    Key {
        name: "balance",
        kind: Kind::Choice(&["least_in_flight", "client", "path"]),
        default: Default::Is("least_in_flight"),
        meaning: "How one is chosen: that with the fewest requests in flight, or by a hash of the client's address or of the path, which leads to the same one for as long as it is up.",
        exceeded: "",
    },
    Key {
        name: "host",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "The Host field that the servers get. Without the key, it is the client's.",
        exceeded: "",
    },
    Key {
        name: "ca",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "A PEM file with the authorities that sign the servers' certificates. Without the key, those that the system trusts.",
        exceeded: "",
    },
    Key {
        name: "in_flight_max",
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Default::Is("1024"),
        meaning: "Requests that a server may have at a time.",
        exceeded: "503, if it holds for all of them",
    },
    Key {
        name: "connect_timeout",
        kind: TIMEOUT,
        default: Default::Is("5s"),
        meaning: "For a connection, TLS included.",
        exceeded: "the next server; 502 after three attempts",
    },
    Key {
        name: "read_timeout",
        kind: TIMEOUT,
        default: Default::Is("1m"),
        meaning: "For the next part of a response's body. Its head has until the request's `deadline`.",
        exceeded: "the response is cut off",
    },
    Key {
        name: "tunnel_timeout",
        kind: TIMEOUT,
        default: Default::Is("1h"),
        meaning: "How long a connection that has gone over to another protocol, such as WebSocket, may carry nothing.",
        exceeded: "it is closed",
    },
    Key {
        name: "idle_timeout",
        kind: Kind::Duration { min: 1, max: HOUR },
        default: Default::Is("1m"),
        meaning: "How long an unused connection is kept. A server that says in `Keep-Alive` that it keeps it for less is believed.",
        exceeded: "it is closed",
    },
    Key {
        name: "idle_max",
        kind: Kind::Integer { min: 0, max: 10_000 },
        default: Default::Is("64"),
        meaning: "Unused connections to a server that each I/O thread keeps.",
        exceeded: "the connection is closed",
    },
    Key {
        name: "retry",
        kind: Kind::Choice(RETRY),
        default: Default::Is("idempotent"),
        meaning: "Whether an idempotent request whose server closed the connection before it answered is sent again. One that no server can have received always is. A request is tried three times at most, and not after 64 KiB of its body.",
        exceeded: "502",
    },
    Key {
        name: "fails_max",
        kind: Kind::Integer { min: 0, max: 1_000 },
        default: Default::Is("3"),
        meaning: "Failures in a row after which a server gets no requests for `fail_timeout`; 0: it gets them always. If all fail, they get them, too.",
        exceeded: "",
    },
    Key {
        name: "fail_timeout",
        kind: TIMEOUT,
        default: Default::Is("10s"),
        meaning: "How long a server that fails gets no requests.",
        exceeded: "",
    },
    Key {
        name: "check",
        kind: Kind::Table(CHECK),
        default: Default::Nothing,
        meaning: "Requests of this server's own that find out which servers are up. Those that are not get no requests.",
        exceeded: "503, if none is",
    },
];

static CHECK: &[Key] = &[
    Key {
        name: "path",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "What is asked for. A server is up if it answers with a status below 400.",
        exceeded: "",
    },
    Key {
        name: "interval",
        kind: TIMEOUT,
        default: Default::Is("5s"),
        meaning: "The time from an answer to the next request.",
        exceeded: "",
    },
    Key {
        name: "timeout",
        kind: TIMEOUT,
        default: Default::Is("2s"),
        meaning: "For an answer.",
        exceeded: "the server is down",
    },
];
