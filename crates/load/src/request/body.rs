//! Files with one value per line: a body, or the value of a placeholder.

/// Most lines of a file.
const LINES_MAX: usize = 1_000_000;

/// Why a file's lines cannot be used.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum LinesError {
    /// A file without a line.
    #[error("there is no line in it; each line is one value")]
    NoLine,
    /// A file of more lines than are kept.
    #[error("there are more than {LINES_MAX} lines, the most that are kept")]
    TooMany,
}

/// Lines of a file: at least one.
#[derive(Clone, Debug)]
pub struct Lines {
    /// All of them, one after the other.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Lines {
    /// Reads the lines of a file. Empty lines are skipped.
    pub fn parse(bytes: &[u8]) -> Result<Self, LinesError> {
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
                return Err(LinesError::TooMany);
            }
            lines.bytes.extend_from_slice(line);
            lines.ends.push(lines.bytes.len());
        }
        if lines.ends.is_empty() {
            Err(LinesError::NoLine)
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
    fn each_line_is_a_value() {
        let lines = Lines::parse(b"{\"a\":1}\r\n\nb\n").unwrap();
        assert_eq!((lines.len(), lines.longest()), (2, 7));
        assert_eq!((lines.get(0), lines.get(1)), (&b"{\"a\":1}"[..], &b"b"[..]));
        assert_eq!(Lines::parse(b"\r\n\n").unwrap_err(), LinesError::NoLine);
        let many = Lines::parse(&b"a\n".repeat(LINES_MAX + 1)).unwrap_err();
        assert_eq!(many, LinesError::TooMany);
    }
}
