//! `[trace]`

use super::{Default, Key, Kind};

pub(super) static TRACE: &[Key] = &[
    Key {
        name: "otlp",
        kind: Kind::Text,
        default: Default::Required,
        meaning: "The collector, as it takes OTLP over HTTP: `http://127.0.0.1:4318`, or with `https:` one whose certificate is of an authority that the system trusts. Spans are posted as JSON to `/v1/traces` below it.",
        exceeded: "",
    },
    Key {
        name: "share",
        kind: Kind::Share,
        default: Default::Is("1.0"),
        meaning: "The share of requests that are traced, among those without a `traceparent`. Of those with one, its sampled flag decides.",
        exceeded: "",
    },
    Key {
        name: "headers",
        kind: Kind::TextMap,
        default: Default::Is("{}"),
        meaning: "Header fields of what is posted; a secret is best `${NAME}`.",
        exceeded: "",
    },
    Key {
        name: "service",
        kind: Kind::Text,
        default: Default::Is("forebay"),
        meaning: "What traces call this server: `service.name`.",
        exceeded: "",
    },
    Key {
        name: "queue_max",
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        default: Default::Is("8192"),
        meaning: "Spans that may wait for the collector. Those of a request for which there is no room are dropped, and counted in `forebay_trace_spans_total`; the request itself goes on.",
        exceeded: "",
    },
];
