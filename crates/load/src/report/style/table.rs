//! A table in a box, as the npm package cli-table3 0.6 draws it for autocannon: texts to the left, one space around each, a rule
//! between all rows.

/// Draws a table, each line with its end. All rows have as many cells as the first.
pub(super) fn draw(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let rule = |left: &str, cross: &str, right: &str| {
        let dashes: Vec<_> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{right}\n", dashes.join(cross))
    };
    let mut out = rule("┌", "┬", "┐");
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            out += &rule("├", "┼", "┤");
        }
        for (text, width) in row.iter().zip(&widths) {
            out.extend(["│ ", text, " "]);
            out.extend(std::iter::repeat_n(' ', width - text.chars().count()));
        }
        out += "│\n";
    }
    out + &rule("└", "┴", "┘")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_text() {
        let rows = [["Code", "Count"], ["200", "2369988"]].map(|row| row.map(String::from).to_vec());
        assert_eq!(
            draw(&rows),
            "┌──────┬─────────┐\n│ Code │ Count   │\n├──────┼─────────┤\n│ 200  │ 2369988 │\n└──────┴─────────┘\n"
        );
    }
}
