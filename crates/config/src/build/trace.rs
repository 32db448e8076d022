//! `[trace]`

use super::{Builder, SERVER_HEADERS, is_header_value};
use crate::{Secret, Trace, fields::Fields};

/// Headers that every export sets itself, besides those about its connection and length.
const POST_HEADERS: [&str; 3] = ["content-type", "host", "user-agent"];

impl Builder<'_> {
    /// Returns `None` after reporting a problem.
    pub(super) fn trace(&mut self, fields: &Fields) -> Option<Trace> {
        let headers = self.post_headers(fields);
        let service = fields.text("service");
        if service.is_empty() {
            self.note(fields.problem("service", "found \"\", expected a name"));
        }
        match fields.text("otlp").parse() {
            Ok(otlp) => Some(Trace {
                otlp,
                share: fields.share("share"),
                headers,
                service: service.to_owned(),
                queue_max: usize::try_from(fields.integer("queue_max")).unwrap_or(usize::MAX),
            }),
            Err(error) => {
                self.note(fields.problem("otlp", format!("what is written there {error}")));
                None
            }
        }
    }

    /// Headers of export requests, names in lower case.
    fn post_headers(&mut self, fields: &Fields) -> Vec<(String, Secret)> {
        let mut headers = Vec::new();
        for (header, value) in fields.text_map("headers") {
            let lower = header.to_ascii_lowercase();
            let message = if !crate::is_token(lower.as_bytes()) {
                "this is not a header's name (RFC 9110, 5.1)"
            } else if SERVER_HEADERS.contains(&&*lower) || POST_HEADERS.contains(&&*lower) {
                "the server sets this header itself"
            } else if !is_header_value(&value.text) {
                // The value may be a secret, so the message does not repeat it.
                "expected printable ASCII without a space at either end"
            } else {
                headers.push((lower, Secret::literal(&value.text)));
                continue;
            };
            self.note(fields.problem_at(value.line, &format!("headers.{header}"), message));
        }
        headers
    }
}
