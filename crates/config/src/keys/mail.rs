//! `[mail.NAME]`

use super::{Default, GIB, KIB, Key, Kind, TIMEOUT};

pub(super) static MAIL: &[Key] = &[
    Key {
        name: "host",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "The server of SMTP that takes messages.",
        exceeded: "",
    },
    Key {
        name: "port",
        kind: Kind::Integer { min: 1, max: 65_535 },
        default: Default::Nothing,
        meaning: "Its port; without one, that of `tls`: 587 for `starttls`, 465 for `implicit`, 25 for `none`.",
        exceeded: "",
    },
    Key {
        name: "tls",
        kind: Kind::Choice(&["starttls", "implicit", "none"]),
        default: Default::Is("starttls"),
        meaning: "How connections are encrypted: after their first words (`starttls`; a server that does not offer that is refused), from the beginning, or not at all. The server has a certificate of an authority that the system trusts.",
        exceeded: "",
    },
    Key {
        name: "user",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "Who sends, for servers that want to know; with `password` alone, and not with `tls = \"none\"`.",
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
        name: "from",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "The sender of every message: `shop@example.org`, or `Shop <shop@example.org>`.",
        exceeded: "",
    },
    Key {
        name: "to",
        kind: Kind::Texts { min: 1 },
        default: Default::Required,
        meaning: "Who may be written to: addresses, `*@example.org` for all of a domain, or `*` for everybody.",
        exceeded: "",
    },
    Key {
        name: "connections_max",
        kind: Kind::Integer { min: 1, max: 1_000 },
        default: Default::Is("4"),
        meaning: "Connections of each executor thread. A message has one to itself.",
        exceeded: "the next message waits",
    },
    Key {
        name: "send_timeout",
        kind: TIMEOUT,
        default: Default::Is("30s"),
        meaning: "From a message to the server's reply that it has been taken, waiting for a connection included.",
        exceeded: "sending fails",
    },
    Key {
        name: "message_bytes_max",
        kind: Kind::Size { min: KIB, max: GIB },
        default: Default::Is("1MiB"),
        meaning: "Longest message, as it is sent.",
        exceeded: "sending fails",
    },
    Key {
        name: "recipients_max",
        kind: Kind::Integer { min: 1, max: 1_000 },
        default: Default::Is("50"),
        meaning: "Recipients of one message, those of copies included.",
        exceeded: "sending fails",
    },
];
