//! Parses levels of the log.

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Whether a text is a valid `log.level`.
pub fn is_level_list(text: &str) -> bool {
    text.split(',').all(|part| {
        let (target, level) = part.split_once('=').unwrap_or(("forebay", part));
        let is_target = !target.is_empty()
            && target
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':' || b == b'-');
        is_target && LEVELS.contains(&level)
    })
}
