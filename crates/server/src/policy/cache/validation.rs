//! Conditional requests: those with which the target confirms a stored response, and those of clients that have it already.

use super::entries::Stored;
use crate::{
    conditions::{IF_NONE_MATCH, Tags, Verdict, judge},
    front::Head,
    reply::{Body, HeaderLines, Reply},
};

/// The conditions with which a target is asked whether a response is still right (RFC 9111, 4.3.1).
pub(super) fn validators(stale: &Stored) -> impl Iterator<Item = (&'static str, &[u8])> {
    let fields = [
        ("if-none-match", &b"etag"[..]),
        ("if-modified-since", b"last-modified"),
    ];
    fields
        .into_iter()
        .filter_map(|(condition, name)| Some((condition, stale.field(name)?)))
}

/// The fields of a stored response after a 304 (RFC 9111, 3.2).
pub(super) fn updated(stored: &HeaderLines, confirmed: &HeaderLines) -> HeaderLines {
    let is_about_content = |name: &[u8]| name.starts_with(b"content-") && name != b"content-location";
    let is_replaced =
        |name: &[u8]| confirmed.fields().any(|(other, _)| other == name) && !is_about_content(name);
    let mut headers = stored.clone();
    headers.retain(|name| !is_replaced(name));
    for (name, value) in confirmed.fields().filter(|(name, _)| !is_about_content(name)) {
        headers.put(name, value);
    }
    headers
}

/// Answers 304 in the place of a response that the client has already (RFC 9111, 4.3.2).
pub(super) fn answer_conditions(head: &Head, reply: &mut Reply<'_>) {
    if reply.status != 200 {
        return;
    }
    let field = |name: &[u8]| {
        let found = reply.headers.fields().find(|(other, _)| *other == name);
        found.map(|(_, value)| value)
    };
    let is_known = match (head.list("if-none-match"), head.field("if-modified-since")) {
        (Some(list), _) => match field(b"etag") {
            Some(tag) => {
                let quoted = tag.strip_prefix(b"W/").unwrap_or(tag);
                judge(None, Some(&list), quoted) == Ok(Verdict::Known)
            }
            None => matches!(Tags::read(IF_NONE_MATCH, &list), Ok(Tags::Any)),
        },
        (None, Some(since)) => field(b"last-modified").is_some_and(|modified| {
            let date = |text| httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok();
            modified == since
                || matches!((date(modified), date(since)), (Some(modified), Some(since)) if modified <= since)
        }),
        (None, None) => false,
    };
    if is_known {
        reply.status = 304;
        reply.body = Body::Empty;
        reply.encoded = None;
        let headers = reply.headers.to_mut();
        headers.retain(|name| !matches!(name, b"content-type" | b"content-encoding" | b"content-language"));
    }
}
