//! Where bodies come from: the command line, a file, or standard input. All of them are read before the run, up to a bound.

use std::{io::Read, path::Path};

/// Longest body of a request, and longest file of requests.
pub const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// Its path, or `standard input`.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is longer than is read.
    #[error("{path} is longer than {BODY_BYTES_MAX} bytes, the most that is read")]
    TooLong {
        /// Its path, or `standard input`.
        path: String,
    },
    /// It is no text.
    #[error("{path} is not UTF-8 text (byte {at})")]
    NotText {
        /// Its path.
        path: String,
        /// How many bytes are text.
        at: usize,
    },
    /// A form field that cannot be read.
    #[error("form field `{text}`: {what}")]
    Form {
        /// What was given.
        text: String,
        /// What is wrong, and what is accepted.
        what: String,
    },
}

/// The bytes of a file.
pub fn from_file(path: &Path) -> Result<Vec<u8>, BodyError> {
    let name = path.display().to_string();
    match std::fs::File::open(path) {
        Ok(file) => from_reader(file, &name),
        Err(source) => Err(BodyError::File { path: name, source }),
    }
}

/// Everything a reader gives; `name` is for errors.
pub fn from_reader(reader: impl Read, name: &str) -> Result<Vec<u8>, BodyError> {
    let mut bytes = Vec::new();
    match reader.take(BODY_BYTES_MAX + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > BODY_BYTES_MAX => Err(BodyError::TooLong {
            path: name.to_owned(),
        }),
        Ok(_) => Ok(bytes),
        Err(source) => Err(BodyError::File {
            path: name.to_owned(),
            source,
        }),
    }
}

/// A text file, such as a list of URLs.
pub fn text_from_file(path: &Path) -> Result<String, BodyError> {
    String::from_utf8(from_file(path)?).map_err(|error| BodyError::NotText {
        path: path.display().to_string(),
        at: error.utf8_error().valid_up_to(),
    })
}

/// The lines of a file, each a body of its own. Empty lines are none.
pub fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let line = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).to_vec();
    bytes
        .split(|&byte| byte == b'\n')
        .map(line)
        .filter(|line| !line.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = from_file(Path::new("/nowhere/body.json")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere/body.json");
    }

    #[test]
    fn endless_input_ends_at_the_bound() {
        let error = from_reader(std::io::repeat(b'x'), "standard input")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("standard input is longer than 67108864 bytes"),
            "{error}"
        );
    }

    #[test]
    fn each_line_is_a_body() {
        assert_eq!(
            lines(b"{\"a\":1}\r\n\nb\n"),
            [b"{\"a\":1}".to_vec(), b"b".to_vec()]
        );
    }
}
