//! `[tls.NAME]`

use super::{Default, Key, Kind};

pub(super) static TLS: &[Key] = &[
    Key {
        name: "cert",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "A PEM file with the certificate, followed by those of the authorities between it and a root.",
        exceeded: "",
    },
    Key {
        name: "key",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "A PEM file with the certificate's private key. Only the server should be able to read it.",
        exceeded: "",
    },
];
