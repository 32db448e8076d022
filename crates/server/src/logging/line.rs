//! Formats an event as a line: readable text or a JSON object.

use std::{
    fmt::{self, Write},
    str::FromStr,
    sync::Arc,
    time::SystemTime as Clock,
};

use forebay_trace::Trace;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use tracing::{Event, Level, Subscriber, field::Field};
use tracing_subscriber::{
    Layer,
    fmt::{format::Writer, time::FormatTime},
    layer::Context,
};

use super::{Entry, Handle};
use crate::traces::TracedRequests;

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text { colour: bool },
    Json,
}

/// Formats events as lines.
#[derive(Debug)]
pub(super) struct Lines {
    handle: Handle,
}

impl Lines {
    pub(super) const fn new(handle: Handle) -> Self {
        Self { handle }
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields.add_trace(self.handle.shared.traced_requests.get());
        let line = Line {
            timestamp: timestamp(),
            level: *event.metadata().level(),
            target: event.metadata().target(),
            fields,
        };
        let shared = &self.handle.shared;
        let json = line.json();
        match shared.form {
            Form::Json => shared.writer.push(json.as_bytes()),
            Form::Text { colour } => shared.writer.push(line.text(colour).as_bytes()),
        }
        shared.recent.push(Entry {
            level: line.level,
            at: Clock::now(),
            json,
        });
    }
}

/// The current time in UTC, in RFC 3339 format with microseconds.
pub(super) fn timestamp() -> String {
    let mut text = String::with_capacity("2025-01-02T03:04:05.000006Z".len());
    tracing_subscriber::fmt::time::SystemTime
        .format_time(&mut Writer::new(&mut text))
        .expect("a String takes everything");
    text
}

#[derive(Clone)]
struct Line<'a> {
    timestamp: String,
    level: Level,
    target: &'a str,
    fields: Fields,
}

/// An event's fields in order, with the message kept apart.
#[derive(Clone, Debug, Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Adds the ids of the trace that the event belongs to: that of the request this thread works for, or that the event names.
    fn add_trace(&mut self, requests: Option<&Arc<TracedRequests>>) {
        let trace = forebay_trace::current();
        let current = trace.as_ref().and_then(Trace::ids);
        let current = current.map(|(trace, span)| (trace.to_owned(), span.to_owned()));
        let named = || {
            let mut fields = self.others.iter();
            let (_, request) = fields.find(|(name, _)| matches!(*name, "request" | "request_id"))?;
            requests?.find(request.as_str()?)
        };
        if let Some((trace, span)) = current.or_else(named) {
            self.others
                .extend([("trace_id", trace.into()), ("span_id", span.into())]);
        }
    }

    fn put(&mut self, field: &Field, value: Value) {
        self.others.push((field.name(), value));
    }
}

impl tracing::field::Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            write!(self.message, "{value:?}").expect("a String takes everything");
        } else {
            self.put(field, format!("{value:?}").into());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            // Additional fields of a handler's log call arrive as JSON and are kept as JSON.
            "fields" => self.put(
                field,
                serde_json::from_str(value).unwrap_or_else(|_| value.into()),
            ),
            _ => self.put(field, value.into()),
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

impl Line<'_> {
    fn json(&self) -> String {
        let mut line = format!(
            "{{\"timestamp\":\"{}\",\"level\":\"{}\",\"target\":\"{}\",\"message\":{}",
            self.timestamp,
            self.level,
            self.target,
            Value::from(self.fields.message.as_str()),
        );
        for (name, value) in &self.fields.others {
            write!(line, ",\"{name}\":{value}").expect("a String takes everything");
        }
        line.push('}');
        line = escape_controls(line);
        line.push('\n');
        line
    }

    fn text(&self, colour: bool) -> String {
        let mut text = Text::begin(&self.timestamp, self.level, self.target, colour);
        text.message(&self.fields.message);
        for (name, value) in &self.fields.others {
            text.field(name, value);
        }
        text.line.push('\n');
        text.line
    }
}

/// A readable line under construction.
struct Text {
    line: String,
    dim: &'static str,
    off: &'static str,
}

impl Text {
    fn begin(timestamp: &str, level: Level, target: &str, colour: bool) -> Self {
        let (dim, on, off) = if colour {
            ("\x1b[2m", colour_of(level), "\x1b[0m")
        } else {
            ("", "", "")
        };
        let line = format!("{dim}{timestamp}{off} {on}{level:>5}{off} {dim}{target}:{off} ");
        Self { line, dim, off }
    }

    fn message(&mut self, message: &str) {
        put_printable(&mut self.line, message);
    }

    fn field(&mut self, name: &str, value: &Value) {
        let Self { line, dim, off } = self;
        write!(line, " {dim}{name}={off}").expect("a String takes everything");
        match value {
            Value::String(text) => put_printable(line, text),
            other => put_printable(line, &other.to_string()),
        }
    }
}

/// Turns an event's JSON line into a readable line without line feed; `None` if it is not an event.
pub fn readable(json: &str, colour: bool) -> Option<String> {
    let Members(members) = serde_json::from_str(json).ok()?;
    let part = |name: &str| {
        let found = members.iter().find(|(found, _)| found == name);
        found.and_then(|(_, value)| value.as_str())
    };
    let level = Level::from_str(part("level")?).ok()?;
    let timestamp = part("timestamp").unwrap_or_default();
    let mut text = Text::begin(timestamp, level, part("target").unwrap_or_default(), colour);
    text.message(part("message").unwrap_or_default());
    for (name, value) in &members {
        if !matches!(name.as_str(), "timestamp" | "level" | "target" | "message") {
            text.field(name, value);
        }
    }
    Some(text.line)
}

/// The members of a JSON object in order.
pub(crate) struct Members(pub(crate) Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

const fn colour_of(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}

/// Escapes all control characters in JSON. JSON requires it only up to U+001F, but those from U+007F to U+009F control some terminals as
/// well.
fn escape_controls(json: String) -> String {
    if !json.chars().any(char::is_control) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if character.is_control() {
            write!(escaped, "\\u{:04x}", u32::from(character)).expect("a String takes everything");
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Writes text so that it can neither control the terminal nor pass for another log line. Further lines of a message are indented.
fn put_printable(line: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\n' => line.push_str("\n    "),
            '\t' => line.push('\t'),
            control if control.is_control() => line.extend(control.escape_default()),
            other => line.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fields: &[(&'static str, Value)]) -> Line<'static> {
        Line {
            timestamp: "2025-01-02T03:04:05.000006Z".into(),
            level: Level::ERROR,
            target: "forebay::pool",
            fields: Fields {
                message: "worker\nhas \x1b[2Jended".into(),
                others: fields.to_vec(),
            },
        }
    }

    #[test]
    fn a_json_line_has_its_level_in_upper_case_and_its_fields_beside_it() {
        let line = line(&[("pool", "api".into()), ("worker", 3.into())]).json();
        let expected = serde_json::json!({
            "timestamp": "2025-01-02T03:04:05.000006Z", "level": "ERROR", "target": "forebay::pool",
            "message": "worker\nhas \u{1b}[2Jended", "pool": "api", "worker": 3,
        });
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
        assert_eq!(line.matches('\n').count(), 1);
    }

    #[test]
    fn a_text_line_cannot_steer_a_terminal() {
        let line = line(&[("pool", "a\x07".into())]).text(false);
        assert_eq!(
            line,
            "2025-01-02T03:04:05.000006Z ERROR forebay::pool: worker\n    has \\u{1b}[2Jended pool=a\\u{7}\n"
        );
    }

    #[test]
    fn a_json_line_has_no_control_character_as_it_is() {
        let text = "a\u{1b}\u{7f}\u{85}\u{9b}31mé";
        let json = line(&[("said", text.into())]).json();
        assert!(!json.trim_end().chars().any(char::is_control), "{json:?}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["said"], text);
    }

    #[test]
    fn a_json_line_is_read_to_the_very_line_that_the_log_has_on_a_terminal() {
        let line = line(&[
            ("worker", 3.into()),
            ("pool", "a\tb".into()),
            ("fields", serde_json::json!({ "user": "a\x1bb" })),
        ]);
        for colour in [false, true] {
            for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
                let line = Line {
                    level,
                    ..line.clone()
                };
                let read = readable(&line.json(), colour).map(|text| text + "\n");
                assert_eq!(read, Some(line.text(colour)));
            }
        }
        for no_event in ["", "not an event", "[1]", "{}", "{\"level\":\"loud\"}"] {
            assert_eq!(readable(no_event, false), None, "{no_event}");
        }
    }
}
