//! The fields of a request that are about its connection, and are not passed on.

use crate::front::Head;

/// Idempotent methods (RFC 9110, 9.2.2).
pub(super) fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE")
}

/// Hop-by-hop fields (RFC 9110, 7.6.1), and `expect`, which the server has handled itself.
pub(super) fn is_hop(name: &[u8]) -> bool {
    matches!(
        name,
        b"connection"
            | b"keep-alive"
            | b"proxy-connection"
            | b"te"
            | b"trailer"
            | b"transfer-encoding"
            | b"upgrade"
            | b"expect"
    )
}

/// Further hop-by-hop fields, which the Connection field lists.
pub(super) fn named_hops(head: &Head) -> Vec<&[u8]> {
    let fields = head.fields().filter(|(name, _)| *name == b"connection");
    let options = fields.flat_map(|(_, options)| options.split(|&byte| byte == b','));
    // Fields about the body's length and the request's host cannot be dropped this way.
    options
        .map(<[u8]>::trim_ascii)
        .filter(|name| !name.eq_ignore_ascii_case(b"content-length") && !name.eq_ignore_ascii_case(b"host"))
        .collect()
}
