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
pub struct Lines(Vec<Box<[u8]>>);

impl Lines {
    /// Reads the lines of a file. Empty lines are skipped.
    pub fn parse(bytes: &[u8]) -> Result<Self, LinesError> {
        let lines = bytes.split(|&byte| byte == b'\n');
        let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let lines = lines.filter(|line| !line.is_empty()).take(LINES_MAX + 1);
        let lines: Vec<_> = lines.map(Box::from).collect();
        match lines.len() {
            0 => Err(LinesError::NoLine),
            1..=LINES_MAX => Ok(Self(lines)),
            _ => Err(LinesError::TooMany),
        }
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes of the longest.
    pub fn longest(&self) -> usize {
        self.0.iter().map(|line| line.len()).max().unwrap_or(0)
    }

    /// One of them.
    pub(super) fn get(&self, at: usize) -> &[u8] {
        &self.0[at]
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
