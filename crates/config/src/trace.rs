//! `[trace]`

use std::time::Duration;

use forebay_http_client::PostAddress;

use crate::Secret;
use crate::build::Context;
use crate::fields::Fields;
use crate::key::{HOUR, SECOND};
use crate::section::section;
use crate::setting::parsed;

section! {
    /// Traces of requests, and if asked for also metrics and the log, for a collector of OpenTelemetry. Without this section nothing is sent.
    #[rules(Trace::rules)]
    pub struct Trace {
        /// The collector, as it takes OTLP over HTTP: `http://127.0.0.1:4318`, or with `https:` one whose certificate is of an authority
        /// that the system trusts. Spans are posted as JSON to `/v1/traces` below it, metrics to `/v1/metrics`, records of the log to `/v1/logs`.
        otlp: PostAddress,
        /// The share of requests that are traced, among those without a `traceparent`. Of those with one, its sampled flag decides.
        share: f64 = "1.0",
        /// Header fields of what is posted; a secret is best `${NAME}`.
        headers: Vec<(String, Secret)>,
        /// The name of this server in traces: `service.name`.
        service: String = "forebay",
        /// Spans that may wait for the collector. Those of a request for which there is no room are dropped, and counted in
        /// `forebay_trace_spans_total`; the request itself goes on.
        queue_max: usize as integer(1, 1_000_000) = "8192",
        /// How often the metrics are posted, under the names that `/metrics` of the admin listener has. Without it they are not.
        metrics_interval: Option<Duration> as duration(SECOND, HOUR),
        /// Whether the lines of the log are posted as log records, those of its access log included.
        logs: bool = "false",
    }
}

impl Trace {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        if fields.text("service") == Some("") {
            context.note(fields.problem("service", "found \"\", expected a name"));
        }
    }
}

// A URL may contain a password, so the errors do not repeat it.
parsed!("what is written there ": PostAddress);
