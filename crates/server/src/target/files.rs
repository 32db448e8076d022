//! Static files.

use std::path::Path;

/// The content type of a file, by its extension.
pub fn content_type_of(file: &Path) -> &'static str {
    match file.extension().and_then(|e| e.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        _ => "application/octet-stream",
    }
}
