//! Static files.

use std::path::Path;

/// The content type of a file, by its extension.
pub fn content_type_of(_file: &Path) -> &'static str {
    "application/octet-stream"
}
