//! Nodes as URLs and the configuration name them: a global and subscripts, percent-encoded, one segment each.
//!
//! What `forebay store` reads on its command line is close to this, but people type it: an empty segment is refused there as a slip, and
//! is the empty subscript here.

use forebay_store::{Key, KeyError};

use crate::router::{decode, put_encoded};

/// Why a text names no node.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum PathError {
    #[error("{segment:?} is not percent-encoded UTF-8")]
    Encoding { segment: String },
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// The node that the path below the route names. A segment is a subscript's text, so `1` is the number and an empty one the empty text.
pub(crate) fn key(rest: &str) -> Result<Key, PathError> {
    let mut segments = rest.split('/').map(|segment| {
        decode(segment).ok_or_else(|| PathError::Encoding {
            segment: segment.to_owned(),
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
