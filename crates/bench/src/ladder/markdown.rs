//! Parts of a report in a Markdown document, between `<!-- forebay bench NAME: PART -->` and `<!-- end -->`.

use super::{report::Report, text};

/// Why a document was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarkdownError {
    /// The document has no place for this report.
    #[error(
        "it has no line `<!-- forebay bench {0}: PART -->` with tables, entries, bars or curves as the part"
    )]
    NoPlace(String),
    /// A line of the document names no part.
    #[error("line {line}: there is no part {part:?}; there are tables, entries, bars and curves")]
    Part {
        /// The line, from 1.
        line: usize,
        /// The part as given.
        part: String,
    },
    /// A place has no end.
    #[error("line {0}: no line `<!-- end -->` follows")]
    NoEnd(usize),
}

/// The document with the parts of this report in their places. `origin` says where the figures come from.
pub fn renew(document: &str, report: &Report, origin: &str) -> Result<String, MarkdownError> {
    let begin = format!("<!-- forebay bench {}: ", report.name);
    let mut renewed = String::new();
    let mut is_found = false;
    let mut lines = document.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        renewed += line;
        renewed.push('\n');
        let Some(part) = line
            .strip_prefix(&begin)
            .and_then(|rest| rest.strip_suffix(" -->"))
        else {
            continue;
        };
        let body = match part {
            "tables" => text::tables(report),
            "entries" => text::entries(report),
            "bars" => text::limits(report),
            "curves" => text::curves(report),
            other => {
                return Err(MarkdownError::Part {
                    line: at + 1,
                    part: other.to_owned(),
                });
            }
        };
        lines
            .find(|(_, line)| *line == END)
            .ok_or(MarkdownError::NoEnd(at + 1))?;
        renewed.extend([origin, "\n\n```\n", &body, "```\n", END, "\n"]);
        is_found = true;
    }
    if is_found {
        Ok(renewed)
    } else {
        Err(MarkdownError::NoPlace(report.name.clone()))
    }
}

const END: &str = "<!-- end -->";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_load::machine::Machine;

    use super::*;
    use crate::ladder::Settings;

    #[test]
    fn a_part_replaces_what_stands_in_its_place() {
        let report = Report {
            name: "ladder".to_owned(),
            environment: Machine::this().environment(),
            programs: Vec::new(),
            settings: Settings::quick("forebay".into()),
            rows: Vec::new(),
            tables: Vec::new(),
            curves: Vec::new(),
            took: Duration::ZERO,
            interrupted: false,
        };
        let renew = |document: &str| renew(document, &report, "Measured.");
        let document = "# Title\n<!-- forebay bench ladder: bars -->\nold\n<!-- end -->\n<!-- forebay bench sql: bars -->\nkept\n<!-- end -->\nlast\n";
        let renewed = renew(document).unwrap();
        let wanted = "# Title\n<!-- forebay bench ladder: bars -->\nMeasured.\n\n```\n```\n<!-- end -->\n<!-- forebay bench sql: bars -->\nkept\n<!-- end -->\nlast\n";
        assert_eq!(renewed, wanted);
        assert_eq!(renew(&renewed).unwrap(), wanted, "it can be renewed again");
        assert_eq!(
            renew("<!-- forebay bench ladder: bars -->\nold\n"),
            Err(MarkdownError::NoEnd(1))
        );
        let error = renew("<!-- forebay bench ladder: bar -->\n").unwrap_err();
        assert!(error.to_string().contains("there are tables"), "{error}");
        assert_eq!(renew("text\n"), Err(MarkdownError::NoPlace("ladder".to_owned())));
    }
}
