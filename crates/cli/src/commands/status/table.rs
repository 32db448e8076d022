//! Columns of text.

use crate::output;

/// Rows under a heading, which is dim in colour. The first column is left-aligned, other columns with numbers are right-aligned.
#[derive(Debug)]
pub(crate) struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(crate) fn new(heading: [&str; COLUMNS]) -> Self {
        Self {
            rows: vec![heading.map(str::to_owned)],
        }
    }

    pub(crate) fn add(&mut self, row: [String; COLUMNS]) {
        self.rows.push(row);
    }

    /// The lines, each with its line feed; empty if there is only the heading.
    pub(crate) fn lines(&self) -> String {
        if self.rows.len() == 1 {
            return String::new();
        }
        let width = |column: usize| {
            self.rows
                .iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let (dim, plain) = if output::in_colour() {
            ("\x1b[2m", "\x1b[0m")
        } else {
            ("", "")
        };
        let mut out = dim.to_owned();
        for (at, row) in self.rows.iter().enumerate() {
            let padded: Vec<String> = row
                .iter()
                .enumerate()
                .map(
                    |(column, text)| match (width(column), column > 0 && self.is_numeric(column)) {
                        (width, true) => format!("{text:>width$}"),
                        (width, false) => format!("{text:<width$}"),
                    },
                )
                .collect();
            out.push_str(padded.join("  ").trim_end());
            out.push_str(if at == 0 { plain } else { "" });
            out.push('\n');
        }
        out
    }

    fn is_numeric(&self, column: usize) -> bool {
        let texts = self.rows.iter().skip(1).map(|row| &row[column]);
        texts
            .into_iter()
            .all(|text| text.starts_with(|c: char| c.is_ascii_digit() || c == '-'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_text() {
        let mut table = Table::new(["NAME", "COUNT", "STATE"]);
        assert_eq!(table.lines(), "");
        table.add(["a".into(), "1".into(), "ready".into()]);
        table.add(["a-long-name".into(), "1000000".into(), "-".into()]);
        assert_eq!(
            table.lines(),
            "NAME           COUNT  STATE\na                  1  ready\na-long-name  1000000  -\n"
        );
    }
}
