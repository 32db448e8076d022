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
    Key {
        name: "ocsp",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "A file with the authority's last word on whether the certificate is still good (OCSP, DER), which clients are given with it.",
        exceeded: "",
    },
];
