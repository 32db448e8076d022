//! A table whose rows give requests their values (RFC 4180): the first line names the columns.

use std::ops::Range;

/// Most rows.
pub(super) const ROWS_MAX: usize = 1_000_000;
/// Most columns.
pub(super) const COLUMNS_MAX: usize = 256;

/// A table with at least one row.
#[derive(Clone, Debug)]
pub struct Csv {
    columns: Vec<String>,
    /// All values one after the other.
    values: Vec<u8>,
    /// Where each value ends; rows follow each other.
    ends: Vec<usize>,
}

/// Why a text is no table.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CsvError {
    /// Without a row there is nothing to send.
    #[error("the table has no row; the first line names the columns, each further line is a row")]
    Empty,
    /// A row with more or fewer values than there are columns.
    #[error("line {line} has {found} values, the first line names {expected} columns")]
    Width {
        /// Line in the file, from 1.
        line: usize,
        /// Values in the row.
        found: usize,
        /// Columns.
        expected: usize,
    },
    /// A quote that does not end, or is followed by something else than a comma.
    #[error("line {line}: {what}")]
    Quote {
        /// Line in the file, from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A name that no placeholder could use, or one that is there twice.
    #[error(
        "column {at} is named `{name}`; each column needs a name of its own, of letters, digits, `_`, `-` and `.`"
    )]
    Name {
        /// Place of the column, from 1.
        at: usize,
        /// Its name.
        name: String,
    },
    /// More than is kept.
    #[error("the table has more than {max} {what}")]
    TooMany {
        /// `rows` or `columns`.
        what: &'static str,
        /// The limit.
        max: usize,
    },
}

impl Csv {
    /// Reads a table.
    pub fn parse(text: &str) -> Result<Self, CsvError> {
        let mut lines = Records {
            rest: text.strip_prefix('\u{feff}').unwrap_or(text),
            line: 1,
        };
        let mut record = Vec::new();
        let mut line = lines.next(&mut record)?;
        let columns = std::mem::take(&mut record);
        if columns.len() > COLUMNS_MAX {
            return Err(CsvError::TooMany {
                what: "columns",
                max: COLUMNS_MAX,
            });
        }
        for (at, name) in columns.iter().enumerate() {
            let may_be = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
            if line.is_some()
                && (name.is_empty() || !name.chars().all(may_be) || columns[..at].contains(name))
            {
                return Err(CsvError::Name {
                    at: at + 1,
                    name: name.clone(),
                });
            }
        }
        let mut table = Self {
            columns,
            values: Vec::new(),
            ends: Vec::new(),
        };
        loop {
            record.clear();
            line = lines.next(&mut record)?;
            let Some(line) = line else { break };
            if record.len() != table.columns.len() {
                return Err(CsvError::Width {
                    line,
                    found: record.len(),
                    expected: table.columns.len(),
                });
            }
            if table.rows() == ROWS_MAX {
                return Err(CsvError::TooMany {
                    what: "rows",
                    max: ROWS_MAX,
                });
            }
            for value in &record {
                table.values.extend_from_slice(value.as_bytes());
                table.ends.push(table.values.len());
            }
        }
        if table.ends.is_empty() {
            Err(CsvError::Empty)
        } else {
            Ok(table)
        }
    }

    /// Names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.ends.len() / self.columns.len().max(1)
    }

    /// A value. The row counts from the start again after the last.
    pub(super) fn value(&self, row: u64, column: usize) -> &[u8] {
        let at = (row % self.rows() as u64) as usize * self.columns.len() + column;
        let range: Range<usize> = if at == 0 {
            0..self.ends[0]
        } else {
            self.ends[at - 1]..self.ends[at]
        };
        &self.values[range]
    }

    /// All values of a column.
    pub(super) fn column(&self, column: usize) -> impl Iterator<Item = &[u8]> {
        (0..self.rows() as u64).map(move |row| self.value(row, column))
    }
}

/// Reads one record after the other. Empty lines are none.
struct Records<'a> {
    rest: &'a str,
    line: usize,
}

impl Records<'_> {
    /// Fills `record`; returns the line at which it began, `None` at the end.
    fn next(&mut self, record: &mut Vec<String>) -> Result<Option<usize>, CsvError> {
        while let Some(rest) = self
            .rest
            .strip_prefix("\r\n")
            .or_else(|| self.rest.strip_prefix('\n'))
        {
            self.rest = rest;
            self.line += 1;
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        let began = self.line;
        loop {
            let value = if let Some(quoted) = self.rest.strip_prefix('"') {
                self.rest = quoted;
                self.quoted(began)?
            } else {
                let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
                let value = &self.rest[..end];
                self.rest = &self.rest[end..];
                let value = if self.rest.starts_with(',') {
                    value
                } else {
                    value.strip_suffix('\r').unwrap_or(value)
                };
                value.to_owned()
            };
            record.push(value);
            if let Some(rest) = self.rest.strip_prefix(',') {
                self.rest = rest;
                continue;
            }
            let ended = self
                .rest
                .strip_prefix("\r\n")
                .or_else(|| self.rest.strip_prefix('\n'));
            match ended {
                Some(rest) => {
                    self.rest = rest;
                    self.line += 1;
                }
                None if self.rest.is_empty() => {}
                None => {
                    return Err(CsvError::Quote {
                        line: self.line,
                        what: "a comma or the end of the line must follow a closing quote",
                    });
                }
            }
            return Ok(Some(began));
        }
    }

    fn quoted(&mut self, began: usize) -> Result<String, CsvError> {
        let mut value = String::new();
        loop {
            let Some(end) = self.rest.find('"') else {
                return Err(CsvError::Quote {
                    line: began,
                    what: "a quote is not closed",
                });
            };
            value.push_str(&self.rest[..end]);
            self.line += self.rest[..end].matches('\n').count();
            self.rest = &self.rest[end + 1..];
            match self.rest.strip_prefix('"') {
                Some(rest) => {
                    value.push('"');
                    self.rest = rest;
                }
                None => return Ok(value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_line_ends_and_empty_values_are_read() {
        let csv = Csv::parse("\u{feff}id,name\r\n1,\"a, \"\"b\"\"\nc\"\r\n\r\n2,\n").unwrap();
        assert_eq!((csv.columns().join("|"), csv.rows()), ("id|name".into(), 2));
        let shown: Vec<_> = (0..3)
            .map(|row| [csv.value(row, 0), b"|", csv.value(row, 1)].concat())
            .collect();
        assert_eq!(
            shown,
            [
                b"1|a, \"b\"\nc".to_vec(),
                b"2|".to_vec(),
                b"1|a, \"b\"\nc".to_vec()
            ]
        );
        assert_eq!(csv.column(0).collect::<Vec<_>>(), [b"1", b"2"]);
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_line() {
        for (text, says) in [
            ("", "the table has no row"),
            ("a,b\n", "the table has no row"),
            (
                "a,b\n1,2\n3\n",
                "line 3 has 1 values, the first line names 2 columns",
            ),
            ("a\n\"x", "line 2: a quote is not closed"),
            (
                "a\n\"x\"y\n",
                "line 2: a comma or the end of the line must follow",
            ),
            ("a,\n1,2\n", "column 2 is named ``"),
            (
                "a,a\n1,2\n",
                "column 2 is named `a`; each column needs a name of its own",
            ),
            ("a b\n1\n", "of letters, digits"),
        ] {
            let error = Csv::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
