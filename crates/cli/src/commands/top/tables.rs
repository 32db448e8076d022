//! Rows that are sorted by one of their columns, of which as many are shown as there is room for.

use std::cmp::Ordering;

/// A text, and the number that it is sorted by, if it is one.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) number: Option<f64>,
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            number: None,
        }
    }

    /// Shown as `-` if it is not known.
    pub(super) fn number(number: Option<f64>, shown: impl FnOnce(f64) -> String) -> Self {
        Self {
            text: number.map_or_else(|| "-".to_owned(), shown),
            number,
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self.number, other.number) {
            (Some(one), Some(other)) => one.total_cmp(&other),
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (None, None) => self.text.cmp(&other.text),
        }
    }
}

#[derive(Debug)]
pub(super) struct Table {
    pub(super) heading: &'static [&'static str],
    pub(super) rows: Vec<Vec<Cell>>,
    /// The column by which it is sorted.
    pub(super) column: usize,
    /// The largest first.
    is_descending: bool,
    /// The first row that is shown.
    first: usize,
}

impl Table {
    /// Sorted by this column, the largest first.
    pub(super) const fn new(heading: &'static [&'static str], column: usize) -> Self {
        Self {
            heading,
            rows: Vec::new(),
            column,
            is_descending: true,
            first: 0,
        }
    }

    /// Replaces all rows.
    pub(super) fn fill(&mut self, rows: Vec<Vec<Cell>>) {
        self.rows = rows;
        self.sort();
    }

    pub(super) fn sort_by_neighbour(&mut self, step: isize) {
        self.column = self
            .column
            .saturating_add_signed(step)
            .min(self.heading.len() - 1);
        self.sort();
    }

    pub(super) fn reverse(&mut self) {
        self.is_descending = !self.is_descending;
        self.sort();
    }

    pub(super) fn scroll(&mut self, rows: isize) {
        self.first = self.first.saturating_add_signed(rows);
    }

    /// The rows to show, where there is room for so many. The last page is full.
    pub(super) fn page(&mut self, room: usize) -> &[Vec<Cell>] {
        self.first = self.first.min(self.rows.len().saturating_sub(room));
        let until = self.rows.len().min(self.first + room);
        &self.rows[self.first..until]
    }

    /// Rows that compare equal keep the server's order.
    fn sort(&mut self) {
        let (column, is_descending) = (self.column, self.is_descending);
        self.rows.sort_by(|one, other| {
            let order = one[column].compare(&other[column]);
            if is_descending { order.reverse() } else { order }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(table: &mut Table, room: usize) -> String {
        let rows = table.page(room).iter();
        rows.map(|row| row[0].text.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rows_are_sorted_by_a_column_and_scrolled_to_the_last_page() {
        let mut table = Table::new(&["NAME", "COUNT"], 1);
        let row = |name: &str, number| {
            vec![
                Cell::text(name),
                Cell::number(number, |number| number.to_string()),
            ]
        };
        table.fill(vec![
            row("a", Some(2.0)),
            row("b", None),
            row("c", Some(10.0)),
            row("d", Some(2.0)),
        ]);
        assert_eq!(shown(&mut table, 9), "c a d b");
        table.reverse();
        assert_eq!(shown(&mut table, 9), "b a d c");
        table.sort_by_neighbour(-5);
        assert_eq!(shown(&mut table, 2), "a b");
        table.scroll(100);
        assert_eq!(shown(&mut table, 3), "b c d");
        table.scroll(isize::MIN);
        table.sort_by_neighbour(9);
        assert_eq!(shown(&mut table, 1), "b");
    }
}
