//! Header fields under their names.

use crate::build::Context;
use crate::fields::Fields;
use crate::key::{Default, Key, Kind};
use crate::print::Table;
use crate::section::{Entry, Setting};
use crate::setting::print_map;
use crate::{Secret, is_token};

/// Headers that describe a connection or a body's length, or that the server adds to every response.
const SERVER_HEADERS: [&str; 10] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "server",
    "upgrade",
    "x-request-id",
];
/// Headers that every export of traces sets itself, besides those about its connection and length.
const POST_HEADERS: [&str; 3] = ["content-type", "host", "user-agent"];

/// Header fields of requests that a policy neither sets nor removes: they delimit the request, are about its connection, or are what this
/// server says about the request to targets.
const FIXED_REQUEST_HEADERS: [&str; 19] = [
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-connection",
    "sec-websocket-key",
    "te",
    "traceparent",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-real-ip",
    "x-request-id",
];

/// Header fields of requests, names in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestHeaders(pub Vec<(String, String)>);

impl Setting for RequestHeaders {
    const KIND: Kind = Kind::TextMap;
    const DEFAULT: Default = Default::Is("");

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let headers = read(entry, context, |name, value| {
            request_name_problem(name).or_else(|| value_problem(value))
        });
        headers.map(Self)
    }

    fn print(&self, key: &Key, out: &mut Table) {
        self.0.print(key, out);
    }
}

/// Headers of responses, names in lower case.
impl Setting for Vec<(String, String)> {
    const KIND: Kind = Kind::TextMap;
    const DEFAULT: Default = Default::Is("");

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        read(entry, context, |name, value| {
            if name == "content-type" {
                return Some("the target sets it; use `respond.content_type`".to_owned());
            }
            name_problem(name, &[]).or_else(|| value_problem(value))
        })
    }

    fn print(&self, key: &Key, out: &mut Table) {
        print_map(self.iter().map(|(name, value)| (name, value)), key, out);
    }
}

/// Headers of requests to a collector of traces, names in lower case.
impl Setting for Vec<(String, Secret)> {
    const KIND: Kind = Kind::TextMap;
    const DEFAULT: Default = Default::Is("");

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let headers = read(entry, context, |name, value| {
            // The value may be a secret, so the message does not repeat it.
            let message = "expected printable ASCII without a space at either end".to_owned();
            name_problem(name, &POST_HEADERS).or_else(|| (!is_header_value(value)).then_some(message))
        })?;
        Some(
            headers
                .into_iter()
                .map(|(name, value)| (name, Secret::literal(&value)))
                .collect(),
        )
    }

    fn print(&self, key: &Key, out: &mut Table) {
        let shown: Vec<_> = self.iter().map(|(name, value)| (name, value.shown())).collect();
        print_map(shown.iter().map(|(name, value)| (*name, value)), key, out);
    }
}

fn read<'f>(
    entry: Entry<'f>,
    context: &mut Context<'f>,
    problem: impl Fn(&str, &str) -> Option<String>,
) -> Option<Vec<(String, String)>> {
    let mut headers = Vec::new();
    for (header, value) in entry.text_map(context)? {
        let name = header.to_ascii_lowercase();
        match problem(&name, &value.text) {
            None => headers.push((name, value.text.clone())),
            Some(message) => {
                let key = format!("{}.{header}", entry.key.name);
                context.note(entry.fields.problem_at(value.line, &key, message));
            }
        }
    }
    Some(headers)
}

/// Reports names that a list of header fields may not have, given to `problem` in lower case.
pub(crate) fn refuse_names(
    key: &str,
    fields: &Fields,
    context: &mut Context<'_>,
    problem: impl Fn(&str) -> Option<String>,
) {
    for name in fields.texts(key) {
        if let Some(message) = problem(&name.text.to_ascii_lowercase()) {
            context.note(fields.problem_at(name.line, key, format!("{:?}: {message}", name.text)));
        }
    }
}

/// Why a policy may not set or remove this field of requests, if so; `name` is in lower case.
pub(crate) fn request_name_problem(name: &str) -> Option<String> {
    if !is_token(name.as_bytes()) {
        return Some(NO_NAME.to_owned());
    }
    if name.contains('_') {
        return Some(
            "write `-` instead of `_`: programs that read one as the other get neither from clients"
                .to_owned(),
        );
    }
    FIXED_REQUEST_HEADERS.contains(&name).then(|| {
        format!(
            "expected another field than those that delimit a request, are about its connection, or come from this server: {}",
            FIXED_REQUEST_HEADERS.join(", ")
        )
    })
}

fn value_problem(value: &str) -> Option<String> {
    let message = format!("found {value:?}, expected printable ASCII without a space at either end");
    (!is_header_value(value)).then_some(message)
}

const NO_NAME: &str = "this is not a header's name (RFC 9110, 5.1)";

/// Why the configuration may not set this header, if so; `name` is in lower case.
pub(crate) fn name_problem(name: &str, others: &[&str]) -> Option<String> {
    if !is_token(name.as_bytes()) {
        Some(NO_NAME.to_owned())
    } else if SERVER_HEADERS.contains(&name) || others.contains(&name) {
        Some("the server sets this header itself".to_owned())
    } else {
        None
    }
}

pub(crate) fn is_header_value(value: &str) -> bool {
    value.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b)) && value.trim_ascii() == value
}
