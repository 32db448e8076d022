//! `[redis.NAME]`

use super::{Default, GIB, KIB, Key, Kind, TIMEOUT};

pub(super) static REDIS: &[Key] = &[
    Key {
        name: "url",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "The server, who connects, and the database: `redis://user:password@host:6379/0`, or with `rediss:` encrypted, for a server whose certificate is of an authority that the system trusts. What is not plain in a part is percent-encoded; a secret is best `${NAME}`.",
        exceeded: "",
    },
    Key {
        name: "connections_max",
        kind: Kind::Integer { min: 1, max: 1_000 },
        default: Default::Is("4"),
        meaning: "Connections of each executor thread, made when they are needed. A command has one to itself.",
        exceeded: "the next command waits",
    },
    Key {
        name: "connect_timeout",
        kind: TIMEOUT,
        default: Default::Is("5s"),
        meaning: "From the beginning of a connection to its first command.",
        exceeded: "the command fails",
    },
    Key {
        name: "command_timeout",
        kind: TIMEOUT,
        default: Default::Is("5s"),
        meaning: "From a command to the end of its reply, waiting for a connection included.",
        exceeded: "the command fails, and its connection is closed",
    },
    Key {
        name: "reply_bytes_max",
        kind: Kind::Size { min: KIB, max: GIB },
        default: Default::Is("8MiB"),
        meaning: "Longest reply. Each of its parts counts for 32 bytes besides.",
        exceeded: "the command fails, and its connection is closed",
    },
];
