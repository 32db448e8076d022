//! Where bodies come from: the command line, a file, or standard input. All of them are read before the run, up to a bound.

use std::{io::Read, path::Path, sync::Arc};

/// Longest body of a request, and longest file of requests.
pub const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Most bodies of one file.
const LINES_MAX: usize = 1_000_000;

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
    /// A file of bodies without one.
    #[error("there is no line in it; each line is the body of a request")]
    NoLine,
    /// A file of more bodies than are kept.
    #[error("there are more than {LINES_MAX} lines, the most that are kept")]
    TooManyLines,
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

/// Lines of a file, each a body of its own: at least one.
#[derive(Clone, Debug)]
pub struct Lines {
    /// All of them, one after the other.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

/// Bodies of which each request takes one.
#[derive(Clone, Debug)]
pub struct Bodies {
    /// All there are.
    pub lines: Arc<Lines>,
    /// Whether any is taken; otherwise they are taken in turn.
    pub random: bool,
}

impl Lines {
    /// Reads the lines of a file. Empty ones are none.
    pub fn parse(bytes: &[u8]) -> Result<Self, BodyError> {
        let mut lines = Self {
            bytes: Vec::with_capacity(bytes.len()),
            ends: Vec::new(),
        };
        for line in bytes.split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            if lines.ends.len() == LINES_MAX {
                return Err(BodyError::TooManyLines);
            }
            lines.bytes.extend_from_slice(line);
            lines.ends.push(lines.bytes.len());
        }
        if lines.ends.is_empty() {
            Err(BodyError::NoLine)
        } else {
            Ok(lines)
        }
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of the longest.
    pub fn longest(&self) -> usize {
        (0..self.len()).map(|at| self.get(at).len()).max().unwrap_or(0)
    }

    /// One of them.
    pub(super) fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }
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
        let lines = Lines::parse(b"{\"a\":1}\r\n\nb\n").unwrap();
        assert_eq!((lines.len(), lines.longest()), (2, 7));
        assert_eq!((lines.get(0), lines.get(1)), (&b"{\"a\":1}"[..], &b"b"[..]));
        let none = Lines::parse(b"\r\n\n").unwrap_err().to_string();
        assert!(none.contains("there is no line in it"), "{none}");
        let many = Lines::parse(&b"a\n".repeat(LINES_MAX + 1))
            .unwrap_err()
            .to_string();
        assert!(many.contains("more than 1000000 lines"), "{many}");
    }
}
