//! `[s3.NAME]`

use super::{Default, Key, Kind};

pub(super) static S3: &[Key] = &[
    Key {
        name: "endpoint",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "The server, such as `https://s3.eu-central-1.amazonaws.com`. Paths there begin with the name of the bucket.",
        exceeded: "",
    },
    Key {
        name: "region",
        kind: Kind::Text,
        default: Default::Is("us-east-1"),
        meaning: "The region that requests are signed for.",
        exceeded: "",
    },
    Key {
        name: "bucket",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "The bucket.",
        exceeded: "",
    },
    Key {
        name: "access_key",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "Who asks.",
        exceeded: "",
    },
    Key {
        name: "secret_key",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "The name of the environment variable that has the secret of `access_key`.",
        exceeded: "",
    },
];
