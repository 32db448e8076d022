//! SELECT templates: the JSON shape of a row, with placeholders.

use forebay_store::json;

use crate::{
    operand::time_of,
    path::Path,
    reference::Reference,
    settings::{Settings, TimeFormat},
    work::Work,
};

/// Shape of one row.
#[derive(Debug)]
pub(crate) enum Template {
    /// Canonical JSON that is the same in every row.
    Fixed(Vec<u8>),
    /// `$ref`
    Reference,
    /// `$`
    Node,
    /// `$root`
    Root,
    /// `$rid`
    Rid,
    Path(Path),
    Array(Vec<Template>),
    /// Names as JSON strings, in the order of the statement.
    Object(Vec<(Vec<u8>, Template)>),
}

/// Input for one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'r> {
    pub(crate) reference: Reference,
    pub(crate) node: &'r [u8],
    pub(crate) root: &'r [u8],
    pub(crate) rid: Option<&'r [u8]>,
}

impl Template {
    /// Writes the row of a SELECT without a template.
    pub(crate) fn usual(row: Row<'_>, settings: &Settings, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"id\":");
        out.extend_from_slice(row.reference.to_string().as_bytes());
        out.extend_from_slice(b",\"data\":");
        put(row.node, settings, out);
        out.push(b'}');
    }

    /// Writes a row. Once `out` is longer than `limit` or the work is spent, the rest is left out, because the row is
    /// discarded.
    pub(crate) fn write(
        &self,
        row: Row<'_>,
        settings: &Settings,
        limit: usize,
        work: &Work,
        out: &mut Vec<u8>,
    ) {
        if out.len() > limit || work.is_spent() {
            return;
        }
        match self {
            Self::Fixed(text) => out.extend_from_slice(text),
            Self::Reference => out.extend_from_slice(row.reference.to_string().as_bytes()),
            Self::Node => put(row.node, settings, out),
            Self::Root => put(row.root, settings, out),
            Self::Rid => out.extend_from_slice(row.rid.unwrap_or(b"null")),
            Self::Path(path) => {
                let start = if path.from_root { row.root } else { row.node };
                if !path.is_many() {
                    put(path.find(start, work).unwrap_or(b"null"), settings, out);
                    return;
                }
                out.push(b'[');
                let mut first = true;
                path.any(start, work, |value| {
                    if !std::mem::take(&mut first) {
                        out.push(b',');
                    }
                    put(value, settings, out);
                    out.len() > limit
                });
                out.push(b']');
            }
            Self::Array(elements) => {
                out.push(b'[');
                for (at, element) in elements.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    element.write(row, settings, limit, work, out);
                }
                out.push(b']');
            }
            Self::Object(members) => {
                out.push(b'{');
                for (at, (name, member)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(name);
                    out.push(b':');
                    member.write(row, settings, limit, work, out);
                }
                out.push(b'}');
            }
        }
    }
}

/// Writes a value of a record, with its times in the configured format.
fn put(value: &[u8], settings: &Settings, out: &mut Vec<u8>) {
    if settings.time_format == TimeFormat::Stored || !settings.detect.any_time() {
        out.extend_from_slice(value);
        return;
    }
    match json::container(value) {
        None => {
            let written = time_of(value, settings.detect)
                .and_then(|time| time.write(settings.time_format, settings.zone_minutes));
            out.extend_from_slice(written.as_deref().map_or(value, str::as_bytes));
        }
        Some(is_array) => {
            out.push(if is_array { b'[' } else { b'{' });
            for (at, child) in json::children(value).enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                if !is_array {
                    out.extend_from_slice(&json::string(&child.name));
                    out.push(b':');
                }
                put(child.text, settings, out);
            }
            out.push(if is_array { b']' } else { b'}' });
        }
    }
}
