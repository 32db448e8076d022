//! The access log: one line per request, in the log's format. These lines bypass `tracing`, whose events would cost more than a short
//! request itself, but go to the same output.

use std::{
    fmt::Write,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tracing::Level;

use super::{
    Entry, Handle, LogExporter,
    line::{Form, timestamp},
};

use crate::front::Version;

/// The target of all its lines.
pub(crate) const ACCESS_TARGET: &str = "forebay::access";
/// Longest request field logged; longer ones are truncated.
const FIELD_BYTES_MAX: usize = 1024;

/// Writes the access log.
#[derive(Clone, Debug)]
pub(crate) struct AccessLog {
    handle: Handle,
    exporter: Option<Arc<LogExporter>>,
}

/// The access log entry of one answered request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access<'a> {
    /// Without port; empty for a Unix socket.
    pub(crate) peer: &'a str,
    /// The subject of the client; empty if its route asks for no authentication.
    pub(crate) user: &'a str,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a [u8],
    pub(crate) version: Version,
    /// The version of TLS; empty without it, and if it is spoken with a proxy.
    pub(crate) tls: &'static str,
    pub(crate) referer: &'a [u8],
    pub(crate) user_agent: &'a [u8],
    /// 0 if the client left before a response.
    pub(crate) status: u16,
    /// Size of the response body.
    pub(crate) bytes: u64,
    pub(crate) duration: Duration,
    pub(crate) request_id: &'a str,
    /// The route's name, if one matched.
    pub(crate) route: Option<&'a str>,
    /// The pool whose worker answered.
    pub(crate) pool: Option<&'a str>,
    /// The server that answered if another one did, and the time until its response began.
    pub(crate) upstream: Option<(&'a str, Duration)>,
    /// The ids of the request's trace and span, if it is traced for a collector.
    pub(crate) trace: Option<(&'a str, &'a str)>,
}

impl AccessLog {
    pub(super) const fn new(handle: Handle, exporter: Option<Arc<LogExporter>>) -> Self {
        Self { handle, exporter }
    }

    pub(crate) fn write(&self, access: &Access<'_>) {
        let shared = &self.handle.shared;
        let timestamp = timestamp();
        let is_json = shared.form == Form::Json;
        if !is_json {
            shared.writer.push(access.text(&timestamp).as_bytes());
        }
        if is_json || self.exporter.is_some() {
            let json = access.json(&timestamp);
            if is_json {
                shared.writer.push(json.as_bytes());
            }
            if let Some(exporter) = &self.exporter {
                exporter.put(Arc::new(Entry {
                    level: Level::INFO,
                    at: SystemTime::now(),
                    json,
                }));
            }
        }
    }
}

impl Access<'_> {
    /// Apache's and nginx's combined format, followed by request id, route, pool and seconds.
    fn text(&self, timestamp: &str) -> String {
        let mut line = String::with_capacity(256);
        line.push_str(if self.peer.is_empty() { "-" } else { self.peer });
        line.push_str(" - ");
        // Outside of quotes, a space would end the field.
        let mut words = self.user.split(' ');
        put_quoted(&mut line, or_dash(words.next().unwrap_or_default().as_bytes()));
        for word in words {
            line.push_str("\\x20");
            put_quoted(&mut line, word.as_bytes());
        }
        line.push_str(" [");
        put_clf_time(&mut line, timestamp);
        line.push_str("] \"");
        put_quoted(&mut line, self.method.as_bytes());
        line.push(' ');
        put_quoted(&mut line, self.path.as_bytes());
        if !self.query.is_empty() {
            line.push('?');
            put_quoted(&mut line, self.query);
        }
        let version = self.version.name();
        write!(line, " {version}\" {:03} {} \"", self.status, self.bytes).expect("a String takes everything");
        put_quoted(&mut line, or_dash(self.referer));
        line.push_str("\" \"");
        put_quoted(&mut line, or_dash(self.user_agent));
        line.push_str("\" ");
        put_quoted(&mut line, self.request_id.as_bytes());
        line.push_str(" \"");
        put_quoted(&mut line, or_dash(self.route.unwrap_or_default().as_bytes()));
        let (pool, seconds) = (self.pool.unwrap_or("-"), self.duration.as_secs_f64());
        write!(line, "\" {pool} {seconds:.6}").expect("a String takes everything");
        if let Some((server, duration)) = self.upstream {
            let seconds = duration.as_secs_f64();
            write!(line, " {server} {seconds:.6}").expect("a String takes everything");
        }
        line.push('\n');
        line
    }

    fn json(&self, timestamp: &str) -> String {
        let mut line = String::with_capacity(320);
        line.push_str("{\"timestamp\":\"");
        line.push_str(timestamp);
        line.push_str("\",\"level\":\"INFO\",\"target\":\"forebay::access\"");
        for (name, value) in [
            ("peer", self.peer.as_bytes()),
            ("user", self.user.as_bytes()),
            ("method", self.method.as_bytes()),
            ("path", self.path.as_bytes()),
            ("query", self.query),
            ("protocol", self.version.name().as_bytes()),
            ("tls", self.tls.as_bytes()),
            ("referer", self.referer),
            ("user_agent", self.user_agent),
            ("request_id", self.request_id.as_bytes()),
            ("route", self.route.unwrap_or_default().as_bytes()),
            ("pool", self.pool.unwrap_or_default().as_bytes()),
        ] {
            if !value.is_empty() {
                for part in [",\"", name, "\":\""] {
                    line.push_str(part);
                }
                put_json(&mut line, value);
                line.push('"');
            }
        }
        if let Some((trace, span)) = self.trace {
            write!(line, ",\"trace_id\":\"{trace}\",\"span_id\":\"{span}\"")
                .expect("a String takes everything");
        }
        if let Some((server, duration)) = self.upstream {
            line.push_str(",\"upstream\":\"");
            put_json(&mut line, server.as_bytes());
            write!(line, "\",\"upstream_duration_us\":{}", duration.as_micros())
                .expect("a String takes everything");
        }
        let micros = self.duration.as_micros() as u64;
        for (name, value) in [
            (",\"status\":", u64::from(self.status)),
            (",\"bytes\":", self.bytes),
            (",\"duration_us\":", micros),
        ] {
            line.push_str(name);
            line.push_str(itoa::Buffer::new().format(value));
        }
        line.push_str("}\n");
        line
    }
}

fn or_dash(text: &[u8]) -> &[u8] {
    if text.is_empty() { b"-" } else { text }
}

fn cut(text: &[u8]) -> &[u8] {
    &text[..text.len().min(FIELD_BYTES_MAX)]
}

/// `02/Jan/2025:03:04:05 +0000` from `2025-01-02T03:04:05.000006Z`.
fn put_clf_time(line: &mut String, timestamp: &str) {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = timestamp[5..7].parse::<usize>().unwrap_or(1).clamp(1, 12);
    for part in [
        &timestamp[8..10],
        "/",
        MONTHS[month - 1],
        "/",
        &timestamp[..4],
        ":",
        &timestamp[11..19],
        " +0000",
    ] {
        line.push_str(part);
    }
}

/// Writes text within quotes. Bytes that could end the quotes or the line are written as `\xHH`, as nginx does.
fn put_quoted(line: &mut String, text: &[u8]) {
    for &byte in cut(text) {
        match byte {
            b'"' | b'\\' | ..0x20 | 0x7f.. => {
                write!(line, "\\x{byte:02X}").expect("a String takes everything");
            }
            plain => line.push(char::from(plain)),
        }
    }
}

fn put_json(line: &mut String, text: &[u8]) {
    let text = String::from_utf8_lossy(cut(text));
    if text
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'))
    {
        line.push_str(&text);
        return;
    }
    for character in text.chars() {
        match character {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            control if control.is_control() => {
                write!(line, "\\u{:04x}", u32::from(control)).expect("a String takes everything");
            }
            plain => line.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const TIME: &str = "2025-01-02T03:04:05.000006Z";

    fn access() -> Access<'static> {
        Access {
            peer: "127.0.0.1",
            user: "",
            method: "GET",
            path: "/a%20b",
            query: b"x=\"1\"",
            version: Version::Http11,
            tls: "TLSv1.3",
            referer: b"",
            user_agent: b"evil\"\n\xff",
            status: 200,
            bytes: 12,
            duration: Duration::from_micros(1_500),
            request_id: "0123456789abcdef",
            route: Some("/:name"),
            pool: Some("api"),
            upstream: None,
            trace: None,
        }
    }

    #[test]
    fn the_text_form_is_the_combined_one_and_its_fields_stay_in_their_quotes() {
        assert_eq!(
            access().text(TIME),
            "127.0.0.1 - - [02/Jan/2025:03:04:05 +0000] \"GET /a%20b?x=\\x221\\x22 HTTP/1.1\" 200 12 \"-\" \
             \"evil\\x22\\x0A\\xFF\" 0123456789abcdef \"/:name\" api 0.001500\n"
        );
    }

    #[test]
    fn every_field_is_documented_and_nothing_else() {
        let whole = Access {
            user: "ada",
            referer: b"x",
            upstream: Some(("http://10.0.0.1:80", Duration::from_millis(1))),
            trace: Some(("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")),
            ..access()
        };
        let line: serde_json::Value = serde_json::from_str(&whole.json(TIME)).unwrap();
        let document = include_str!("../../../../docs/operating/log.md");
        let rows = document.lines().filter_map(|line| line.strip_prefix("| `"));
        let fields = rows.flat_map(|row| row.split(" |").next().unwrap_or_default().split(", "));
        let documented: BTreeSet<&str> = fields.map(|field| field.trim_matches('`')).collect();
        let logged = line.as_object().unwrap().keys().map(String::as_str);
        assert_eq!(documented, logged.collect());
        assert!(document.contains(&format!("at most {FIELD_BYTES_MAX} bytes are logged")));
    }

    #[test]
    fn the_json_form_is_one_object_whatever_the_client_sends() {
        let line = access().json(TIME);
        let expected = serde_json::json!({
            "timestamp": TIME, "level": "INFO", "target": "forebay::access", "peer": "127.0.0.1", "method": "GET",
            "path": "/a%20b", "query": "x=\"1\"", "protocol": "HTTP/1.1", "tls": "TLSv1.3", "user_agent": "evil\"\n\u{fffd}", "request_id": "0123456789abcdef",
            "route": "/:name", "pool": "api", "status": 200, "bytes": 12, "duration_us": 1500,
        });
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&line).unwrap(),
            expected
        );
        assert_eq!(line.matches('\n').count(), 1);
    }
}
