//! What requests are, and how they are answered: by the name in the path, as Rengine's, as other systems send them, and so that they are kept.

pub(super) mod custom;
pub(super) mod kept;
pub(super) mod named;
pub(super) mod scenes;
pub(super) mod template;
mod xml;

/// Reads XML as other systems send it.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_xml(text: &str) -> Result<serde_json::Map<String, serde_json::Value>, String> {
    xml::read(text)
}
