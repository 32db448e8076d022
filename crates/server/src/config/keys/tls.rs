//! `[tls.NAME]`

use super::{Default, Key, Kind};

/// The directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

pub(super) static TLS: &[Key] = &[
    Key {
        name: "cert",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "A PEM file with the certificate, followed by those of the authorities between it and a root.",
        exceeded: "",
    },
    Key {
        name: "key",
        kind: Kind::Text,
        default: Default::Nothing,
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
    Key {
        name: "acme",
        kind: Kind::Table(ACME),
        default: Default::Nothing,
        meaning: "Instead of `cert` and `key`: the server obtains the certificate itself from an authority that speaks ACME, such as Let's Encrypt, and renews it after two thirds of its life.",
        exceeded: "",
    },
];

static ACME: &[Key] = &[
    Key {
        name: "domains",
        kind: Kind::Texts { min: 1 },
        default: Default::Required,
        meaning: "The names that the certificate is for, at most 100; none with a `*`.",
        exceeded: "",
    },
    Key {
        name: "agree_to_terms",
        kind: Kind::Flag,
        default: Default::Is("false"),
        meaning: "It must be `true`: you agree to the authority's terms of service, which its directory names.",
        exceeded: "",
    },
    Key {
        name: "folder",
        kind: Kind::Text,
        default: Default::Is("certificates"),
        meaning: "Where the account and the certificates are kept, for this user alone; made if it is not there. Processes that share it do not order the same certificate twice.",
        exceeded: "",
    },
    Key {
        name: "contact",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "Where the authority reaches you, such as `mailto:ops@example.org`.",
        exceeded: "",
    },
    Key {
        name: "challenge",
        kind: Kind::Choice(&["tls-alpn-01", "http-01"]),
        default: Default::Is("tls-alpn-01"),
        meaning: "How the authority sees that the names are this server's: `tls-alpn-01` by a handshake on port 443, `http-01` by a request on port 80.",
        exceeded: "",
    },
    Key {
        name: "directory",
        kind: Kind::Text,
        default: Default::Is(LETS_ENCRYPT),
        meaning: "The authority: the URL of its ACME directory.",
        exceeded: "",
    },
    Key {
        name: "directory_ca",
        kind: Kind::Text,
        default: Default::Nothing,
        meaning: "A PEM file with the authorities that have signed the certificate of the directory itself. Without it those that the system trusts.",
        exceeded: "",
    },
];
