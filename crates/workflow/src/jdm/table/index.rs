//! An index of a table: which rows can match, given the values of columns.

use std::collections::HashMap;

use zen_expression::Variable;

use super::{CompiledRow, InputColumn};
use crate::jdm::test::{Literal, Test};

/// Minimum number of rows for which an index is built.
const INDEXED_MIN: usize = 8;
/// The code of a cell that does not stand for exactly one value.
pub(super) const OTHER: u32 = u32::MAX;

/// The rows that can match, by column values.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// One entry for each column whose cells contain literals.
    pub(super) columns: Vec<IndexedColumn>,
}

#[derive(Clone, Debug)]
pub(super) struct IndexedColumn {
    pub(super) column: usize,
    values: HashMap<Literal, Named>,
    /// Rows whose cell is empty or is not a list of literals.
    others: Vec<u32>,
    /// For each row, the code of the literal in its cell, or [`OTHER`].
    pub(super) codes: Box<[u32]>,
}

/// A literal that cells contain.
#[derive(Clone, Debug)]
struct Named {
    code: u32,
    rows: Vec<u32>,
}

impl Index {
    pub(super) fn of(inputs: &[InputColumn], rows: &[CompiledRow]) -> Self {
        if rows.len() < INDEXED_MIN {
            return Self::default();
        }
        let columns = inputs.iter().enumerate();
        let columns = columns.filter(|(_, input)| input.field.is_some());
        let columns = columns.filter_map(|(column, _)| IndexedColumn::of(column, rows));
        Self {
            columns: columns.collect(),
        }
    }
}

impl IndexedColumn {
    fn of(column: usize, rows: &[CompiledRow]) -> Option<Self> {
        let mut values: HashMap<Literal, Named> = HashMap::new();
        let mut others = Vec::new();
        let mut codes = vec![OTHER; rows.len()].into_boxed_slice();
        for (number, row) in (0_u32..).zip(rows) {
            let test = row.conditions[column]
                .as_ref()
                .and_then(|cell| cell.test.as_ref());
            let Some(literals) = test.and_then(Test::literals) else {
                others.push(number);
                continue;
            };
            for literal in &literals {
                let count = values.len() as u32;
                let named = values.entry((*literal).clone()).or_insert_with(|| Named {
                    code: count,
                    rows: Vec::new(),
                });
                if named.rows.last() != Some(&number) {
                    named.rows.push(number);
                }
                if literals.len() == 1 {
                    codes[number as usize] = named.code;
                }
            }
        }
        (!values.is_empty()).then_some(Self {
            column,
            values,
            others,
            codes,
        })
    }

    /// The candidate rows for a value of this column: its code, the rows that name it, and the rows for which the index cannot decide.
    pub(super) fn rows(&self, value: &Variable) -> (u32, &[u32], &[u32]) {
        let literal = match value {
            Variable::String(text) => Some(Literal::Text(text.as_str().into())),
            Variable::Number(number) => Some(Literal::Number(*number)),
            Variable::Bool(is_true) => Some(Literal::Bool(*is_true)),
            _ => None,
        };
        match literal.and_then(|literal| self.values.get(&literal)) {
            Some(named) => (named.code, &named.rows, &self.others),
            // No row names this value.
            None => (OTHER, &[], &self.others),
        }
    }
}
