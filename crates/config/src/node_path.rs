//! Node names in URLs and in the configuration: a global and subscripts, percent-encoded, one segment each.
//!
//! The command line of `forebay store` has a similar syntax, but there an empty segment is rejected as a typing error, while here it is the
//! empty subscript.

use forebay_store::{Key, KeyError};

use forebay_router::{decode, put_encoded};

/// A text is not the name of a node.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PathError {
    /// The percent-encoding of a segment is broken.
    #[error("{segment:?} is not percent-encoded UTF-8")]
    Encoding {
        /// The segment as written.
        segment: String,
    },
    /// A segment is not part of the name of a node.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// The node named by the path below the route. A segment is a subscript's text, so `1` is a number, and an empty segment is the empty text.
pub fn key(rest: &str) -> Result<Key, PathError> {
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

/// Writes a node's name as used in URLs below the route.
pub fn put_key(key: &Key, out: &mut String) {
    put_encoded(key.global_name(), out);
    for subscript in key.texts() {
        out.push('/');
        put_encoded(&subscript, out);
    }
}
