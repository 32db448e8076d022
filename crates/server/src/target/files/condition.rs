//! Conditional requests (RFC 9110, 13), for GET and HEAD.

use super::{HeaderLookup, Version};
use crate::conditions::{self, TagsError, Verdict};

/// Evaluates the preconditions of a request for this file.
pub(super) fn judge(version: &Version, header: HeaderLookup<'_, '_>) -> Result<Verdict, TagsError> {
    let (matches, matches_not) = (header("if-match"), header("if-none-match"));
    let verdict = conditions::judge(
        matches.as_deref().map(str::as_bytes),
        matches_not.as_deref().map(str::as_bytes),
        version.etag.as_bytes(),
    )?;
    // If-Modified-Since is ignored if the request has tags.
    if verdict != Verdict::Holds || matches_not.is_some() {
        return Ok(verdict);
    }
    let since = header("if-modified-since").and_then(|date| httpdate::parse_http_date(&date).ok());
    Ok(match (version.modified, since) {
        (Some(modified), Some(since)) if modified <= since => Verdict::Known,
        _ => Verdict::Holds,
    })
}

/// Whether `Range` applies: `If-Range` allows it only if the client's part is of this very file.
pub(super) fn range_applies(version: &Version, header: HeaderLookup<'_, '_>) -> bool {
    match header("if-range").as_deref().map(str::trim) {
        None => true,
        Some(tag) if tag.starts_with('"') => tag == version.etag,
        // A weak tag does not parse as a date and so never applies, as RFC 9110, 13.1.5 demands.
        Some(date) => httpdate::parse_http_date(date).is_ok_and(|date| version.modified == Some(date)),
    }
}
