//! The kinds of requests: for runs by the workflow's name in the path, in Rengine's format, in other systems' formats, and for durable
//! runs; and about releases.

pub(super) mod custom;
pub(super) mod durable;
pub(super) mod named;
pub(super) mod releases;
pub(super) mod scenes;
mod xml;

/// Parses XML that other systems send.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_xml(text: &str) -> Result<serde_json::Map<String, serde_json::Value>, String> {
    xml::read(text)
}
