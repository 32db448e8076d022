//! `[kafka.NAME]`

use super::{Default, GIB, KIB, Key, Kind, TIMEOUT};

pub(super) static KAFKA: &[Key] = &[
    Key {
        name: "brokers",
        kind: Kind::Texts { min: 1 },
        default: Default::Required,
        meaning: "Some brokers of the cluster, `host:port`, which are asked for the others.",
        exceeded: "",
    },
    Key {
        name: "tls",
        kind: Kind::Flag,
        default: Default::Is("false"),
        meaning: "Connections are encrypted; brokers have certificates of an authority that the system trusts.",
        exceeded: "",
    },
    Key {
        name: "user",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "Who connects (SASL PLAIN); with `password` and `tls = true` alone.",
        exceeded: "",
    },
    Key {
        name: "password",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "The name of the environment variable that has the password of `user`.",
        exceeded: "",
    },
    Key {
        name: "client_id",
        kind: Kind::Text,
        default: Default::Is("forebay"),
        meaning: "As brokers know who asks, at most 249 bytes.",
        exceeded: "",
    },
    Key {
        name: "topics",
        kind: Kind::Texts { min: 1 },
        default: Default::Required,
        meaning: "Topics that may be published to.",
        exceeded: "",
    },
    Key {
        name: "acks",
        kind: Kind::Choice(&["all", "leader"]),
        default: Default::Is("all"),
        meaning: "Who has to have written a record until it is acknowledged: all replicas that keep up, or the leader of its partition.",
        exceeded: "",
    },
    Key {
        name: "connections_max",
        kind: Kind::Integer { min: 1, max: 1_000 },
        default: Default::Is("8"),
        meaning: "Connections of each executor thread. A request has one to itself.",
        exceeded: "the next request waits",
    },
    Key {
        name: "request_timeout",
        kind: TIMEOUT,
        default: Default::Is("5s"),
        meaning: "From records to their acknowledgement, waiting for a connection and for a leader included.",
        exceeded: "publishing fails",
    },
    Key {
        name: "record_bytes_max",
        kind: Kind::Size { min: KIB, max: GIB },
        default: Default::Is("1MiB"),
        meaning: "Longest record: its key, value and headers. Brokers have a limit of their own (`message.max.bytes`).",
        exceeded: "publishing fails",
    },
    Key {
        name: "queue_bytes_max",
        kind: Kind::Size { min: KIB, max: GIB },
        default: Default::Is("32MiB"),
        meaning: "Bytes of all records of an executor thread that wait to be acknowledged.",
        exceeded: "publishing fails at once",
    },
];
