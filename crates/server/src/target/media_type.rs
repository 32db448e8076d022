//! Media types in requests (RFC 9110, 8.3 and 12.5.1), without their parameters.

use crate::front::Head;

/// Whether the body has this media type.
pub(super) fn is_body(head: &Head, media_type: &str) -> bool {
    is(head.field("content-type").unwrap_or_default(), media_type)
}

/// Whether the client's Accept field lists this media type.
pub(super) fn is_accepted(head: &Head, media_type: &str) -> bool {
    let accept = head.list("accept").unwrap_or_default();
    accept.split(|&byte| byte == b',').any(|one| is(one, media_type))
}

fn is(written: &[u8], media_type: &str) -> bool {
    essence(written).eq_ignore_ascii_case(media_type.as_bytes())
}

/// The type and the subtype, as written.
pub(crate) fn essence(written: &[u8]) -> &[u8] {
    let essence = written.split(|&byte| byte == b';').next();
    essence.unwrap_or_default().trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_case_make_no_other_type() {
        for (written, expected) in [
            ("application/json", true),
            (" Application/JSON ; charset=utf-8", true),
            ("application/json;q=0.1", true),
            ("application/jsonp", false),
            ("text/plain; application/json", false),
            ("", false),
        ] {
            assert_eq!(is(written.as_bytes(), "application/json"), expected, "{written}");
        }
    }
}
