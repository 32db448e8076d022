//! Names that nobody else has.

use std::fmt::Write as _;

/// 16 random bytes as hexadecimal digits; an error says why the system has none.
pub(crate) fn random() -> Result<String, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    Ok(random.iter().fold(String::new(), |mut token, byte| {
        // A text takes whatever is written to it.
        let _ = write!(token, "{byte:02x}");
        token
    }))
}
