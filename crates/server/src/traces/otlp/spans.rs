//! Encodes spans as OTLP JSON: OpenTelemetry's `ExportTraceServiceRequest`, using its semantic conventions for HTTP and databases.

use std::{
    borrow::Cow,
    time::{Instant, SystemTime},
};

use forebay_trace::Kind;
use serde::{Serialize, Serializer};

use super::{Served, SpanId, TraceId};
use crate::{
    front::Version,
    otlp::{Attribute, Decimal, SERVER, encode, nanos, number, text},
};

/// Methods reported by name. Others are not, because clients could invent any number of them.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT",
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OneSpan<'a> {
    trace_id: TraceId,
    span_id: SpanId,
    #[serde(skip_serializing_if = "str::is_empty")]
    trace_state: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<SpanId>,
    name: Cow<'a, str>,
    kind: SpanKind,
    start_time_unix_nano: Decimal<u64>,
    end_time_unix_nano: Decimal<u64>,
    attributes: Vec<Attribute<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<Event>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    time_unix_nano: Decimal<u64>,
    name: &'static str,
}

#[derive(Serialize)]
struct Status {
    code: u8,
}

/// The status of a failed span.
const ERROR: Status = Status { code: 2 };

#[derive(Clone, Copy)]
enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

impl Serialize for SpanKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(*self as u8)
    }
}

/// Converts instants to wall-clock time, from one pair of readings.
#[derive(Clone, Copy)]
struct Clock {
    now: Instant,
    /// Nanoseconds since the Unix epoch.
    nanos: u64,
}

impl Clock {
    fn new() -> Self {
        Self {
            now: Instant::now(),
            nanos: nanos(SystemTime::now()),
        }
    }

    fn at(self, instant: Instant) -> Decimal<u64> {
        let ago = self.now.saturating_duration_since(instant).as_nanos();
        Decimal(self.nanos.saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX)))
    }
}

/// Encodes a batch of spans under the given service name.
pub(super) fn of(batch: &[Served], service: &str) -> Vec<u8> {
    let clock = Clock::new();
    let mut spans = Vec::new();
    for served in batch {
        spans.push(whole(served, clock));
        spans.extend(parts(served, clock));
    }
    encode(
        ["resourceSpans", "scopeSpans", "spans"],
        service,
        [(SERVER, &*spans)],
    )
}

/// The span of a whole request.
fn whole(served: &Served, clock: Clock) -> OneSpan<'_> {
    let request = &*served.request;
    let is_known = METHODS.contains(&&*request.method);
    let named = if is_known { &*request.method } else { "HTTP" };
    let mut attributes = vec![
        text("http.request.method", if is_known { named } else { "_OTHER" }),
        text("url.scheme", if request.is_secure { "https" } else { "http" }),
        text("url.path", &*request.path),
        text("http.route", &*request.pattern),
        text(
            "network.protocol.version",
            match request.version {
                Version::Http10 => "1.0",
                Version::Http11 => "1.1",
                Version::Http2 => "2",
            },
        ),
        text("forebay.request_id", &*request.request_id),
    ];
    if !is_known {
        attributes.push(text("http.request.method_original", &*request.method));
    }
    if !request.host.is_empty() {
        attributes.push(text("server.address", &*request.host));
    }
    if !request.user_agent.is_empty() {
        attributes.push(text("user_agent.original", &*request.user_agent));
    }
    if served.left_out > 0 {
        attributes.push(number("forebay.spans_left_out", served.left_out as u64));
    }
    let error = match served.status {
        0 => Some(Cow::Borrowed("client_gone")),
        500.. => Some(Cow::Owned(served.status.to_string())),
        _ => None,
    };
    if served.status > 0 {
        attributes.push(number("http.response.status_code", u64::from(served.status)));
        attributes.push(number("http.response.body.size", served.bytes));
    }
    let has_failed = error.is_some();
    attributes.extend(error.map(|error| text("error.type", error)));
    OneSpan {
        trace_id: request.trace,
        span_id: request.span,
        trace_state: &request.state,
        parent_span_id: request.caller,
        name: Cow::Owned(format!("{named} {}", request.pattern)),
        kind: SpanKind::Server,
        start_time_unix_nano: clock.at(served.begun),
        end_time_unix_nano: clock.at(served.until),
        attributes,
        events: Vec::new(),
        status: has_failed.then_some(ERROR),
    }
}

/// The spans recorded within a request. Their ids are counted up from that of the request.
fn parts(served: &Served, clock: Clock) -> impl Iterator<Item = OneSpan<'_>> {
    let request = &*served.request;
    let ids = (1..).map(|place| SpanId(request.span.0.wrapping_add(place)));
    // Span id 0 is invalid.
    let ids = ids.filter(|id| id.0 != 0);
    served.spans.iter().zip(ids).map(move |(span, span_id)| {
        let (kind, attributes) = match span.kind {
            Kind::Statement => (
                SpanKind::Client,
                vec![
                    text("db.system.name", "postgresql"),
                    text("db.query.text", &*span.detail),
                ],
            ),
            Kind::Upstream => (SpanKind::Client, vec![text("forebay.detail", &*span.detail)]),
            _ => (SpanKind::Internal, vec![text("forebay.detail", &*span.detail)]),
        };
        let events = span.parts.iter().map(|(name, at)| Event {
            time_unix_nano: clock.at(*at),
            name,
        });
        OneSpan {
            trace_id: request.trace,
            span_id,
            trace_state: &request.state,
            parent_span_id: Some(request.span),
            name: Cow::Borrowed(span.kind.name()),
            kind,
            start_time_unix_nano: clock.at(span.from),
            end_time_unix_nano: clock.at(span.until),
            attributes,
            events: events.collect(),
            status: None,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::tests::served, *};

    fn spans(served: Served) -> Vec<serde_json::Value> {
        let body: serde_json::Value = serde_json::from_slice(&of(&[served], "shop")).unwrap();
        assert_eq!(
            body["resourceSpans"][0]["resource"]["attributes"][0],
            json!({ "key": "service.name", "value": { "stringValue": "shop" } })
        );
        let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array();
        spans.expect("there are spans").clone()
    }

    fn attribute<'a>(span: &'a serde_json::Value, key: &str) -> &'a serde_json::Value {
        let all = span["attributes"].as_array().expect("there are attributes");
        let found = all.iter().find(|attribute| attribute["key"] == key);
        found.map_or(&serde_json::Value::Null, |attribute| &attribute["value"])
    }

    #[test]
    fn ids_are_digits_and_numbers_of_64_bits_are_texts() {
        let spans = spans(served(3));
        assert_eq!(spans[0]["traceId"], "00000000000000000000000000000001");
        assert_eq!(spans[0]["parentSpanId"], json!(null));
        let ids: Vec<_> = spans
            .iter()
            .map(|span| span["spanId"].as_str().unwrap())
            .collect();
        assert_eq!(ids, ["ffffffffffffffff", "0000000000000001", "0000000000000002"]);
        assert!(
            spans[0]["startTimeUnixNano"]
                .as_str()
                .unwrap()
                .parse::<u64>()
                .unwrap()
                > 1_500_000_000 * 1_000_000_000
        );
        assert_eq!(
            attribute(&spans[0], "http.response.status_code"),
            &json!({ "intValue": "200" })
        );
        assert_eq!(
            (&spans[1]["kind"], &spans[1]["parentSpanId"]),
            (&json!(3), &json!("ffffffffffffffff"))
        );
    }

    #[test]
    fn methods_that_nobody_knows_are_no_names() {
        let mut served = served(1);
        served.request.method = "FROB".to_owned();
        let span = &spans(served)[0];
        assert_eq!(span["name"], "HTTP /orders/:id");
        assert_eq!(attribute(span, "http.request.method")["stringValue"], "_OTHER");
        assert_eq!(
            attribute(span, "http.request.method_original")["stringValue"],
            "FROB"
        );
    }

    #[test]
    fn a_failure_of_the_server_and_a_client_that_left_are_errors() {
        for (status, error) in [(503, json!("503")), (0, json!("client_gone")), (404, json!(null))] {
            let mut served = served(1);
            served.status = status;
            let span = &spans(served)[0];
            assert_eq!(attribute(span, "error.type")["stringValue"], error);
            assert_eq!(
                span["status"]["code"],
                if error.is_null() { json!(null) } else { json!(2) }
            );
        }
    }
}
