//! Conditional requests (RFC 9110, 13), for GET and HEAD.

use std::time::SystemTime;

use super::HeaderLookup;

/// Whether the client has this file already: 304.
pub(super) fn is_fresh(etag: &str, modified: Option<SystemTime>, header: HeaderLookup<'_, '_>) -> bool {
    if let Some(known) = header("if-none-match") {
        return names_tag(known, etag);
    }
    let since = header("if-modified-since").and_then(|date| httpdate::parse_http_date(date).ok());
    matches!((modified, since), (Some(modified), Some(since)) if modified <= since)
}

/// Whether a `Range` counts: `If-Range` asks for it only when the client's part is of this very file.
pub(super) fn range_applies(etag: &str, modified: Option<SystemTime>, header: HeaderLookup<'_, '_>) -> bool {
    match header("if-range").map(str::trim) {
        None => true,
        Some(tag) if tag.starts_with('"') => tag == etag,
        // A weak tag parses as no date and so never applies, as RFC 9110, 13.1.5 wants it.
        Some(date) => httpdate::parse_http_date(date).is_ok_and(|date| modified == Some(date)),
    }
}

/// Whether a list of tags names this one, by weak comparison (RFC 9110, 8.8.3.2). Tags hold no comma here.
fn names_tag(list: &str, etag: &str) -> bool {
    list.split(',')
        .map(str::trim)
        .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
