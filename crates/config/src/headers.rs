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

/// Headers of responses, names in lower case.
impl Setting for Vec<(String, String)> {
    const KIND: Kind = Kind::TextMap;
    const DEFAULT: Default = Default::Is("");

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        read(entry, context, |name, value| {
            if name == "content-type" {
                return Some("the target sets it; use `respond.content_type`".to_owned());
            }
            name_problem(name, &[]).or_else(|| {
                let message =
                    format!("found {value:?}, expected printable ASCII without a space at either end");
                (!is_header_value(value)).then_some(message)
            })
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

/// Reports names that a list of header fields may not have.
pub(crate) fn refuse_header_names(key: &str, fields: &Fields, context: &mut Context<'_>) {
    for name in fields.texts(key) {
        if let Some(message) = name_problem(&name.text.to_ascii_lowercase(), &[]) {
            context.note(fields.problem_at(name.line, key, format!("{:?}: {message}", name.text)));
        }
    }
}

/// Why the configuration may not set this header, if so; `name` is in lower case.
fn name_problem(name: &str, others: &[&str]) -> Option<String> {
    if !is_token(name.as_bytes()) {
        Some("this is not a header's name (RFC 9110, 5.1)".to_owned())
    } else if SERVER_HEADERS.contains(&name) || others.contains(&name) {
        Some("the server sets this header itself".to_owned())
    } else {
        None
    }
}

pub(crate) fn is_header_value(value: &str) -> bool {
    value.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b)) && value.trim_ascii() == value
}
