//! Nodes in URLs: a global and subscripts, percent-encoded, one segment each.

use forebay_store::Key;

use crate::{
    failure::Refusal,
    router::{decode, put_encoded},
};

/// The node that the path below the route names. A segment is a subscript's text, so `1` is the number and an empty one the empty text.
pub(crate) fn key(rest: &str) -> Result<Key, Refusal> {
    let mut segments = rest.split('/').map(|segment| {
        decode(segment).ok_or(Refusal::Malformed {
            what: "the path is not percent-encoded UTF-8 without `..`",
        })
    });
    let global = segments.next().transpose()?.unwrap_or_default();
    let mut key = Key::global(&global)?;
    for segment in segments {
        key.push(&segment?)?;
    }
    Ok(key)
}

/// A node as a URL names it below its route.
pub(crate) fn put_key(key: &Key, out: &mut String) {
    put_encoded(key.global_name(), out);
    for subscript in key.texts() {
        out.push('/');
        put_encoded(&subscript, out);
    }
}
