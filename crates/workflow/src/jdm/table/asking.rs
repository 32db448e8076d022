//! Evaluation of a table: finds the matching rows and their conclusions.

use serde_json::{Map, Value};
use zen_expression::{
    Scope, Variable,
    variable::{RcCell, Symbol, VariableMap},
};

use super::{
    Cell, CompiledRow, Decided, Table,
    index::{IndexedColumn, OTHER},
};
use crate::jdm::{
    program::{DOLLAR, Machine},
    value::to_json,
};

/// The value of a column, computed on first use.
#[derive(Clone)]
enum Column {
    Unknown,
    /// The expression of the column failed.
    Failed,
    Is(Variable),
}

/// The evaluation of a table for one input.
pub(super) struct Asking<'a> {
    table: &'a Table,
    scope: &'a mut Scope,
    machine: &'a mut Machine,
    columns: Vec<Column>,
    /// The column whose value `$` currently holds.
    current: Option<usize>,
}

/// Facts from the index about a row, before its cells are evaluated.
enum Known<'a> {
    Nothing,
    /// The code of the value of each indexed column. One of these columns has selected the rows.
    Values(Vec<(&'a IndexedColumn, u32)>),
}

impl<'a> Asking<'a> {
    pub(super) fn new(table: &'a Table, scope: &'a mut Scope, machine: &'a mut Machine) -> Self {
        Self {
            table,
            scope,
            machine,
            columns: vec![Column::Unknown; table.inputs.len()],
            current: None,
        }
    }

    /// Calls `found` for each matching row until it returns true.
    fn each(&mut self, mut found: impl FnMut(&mut Self, usize, &'a CompiledRow) -> bool) {
        let table = self.table;
        let (known, chosen) = self.look_up();
        let mut look = |asking: &mut Self, number: usize| {
            let row = &table.rows[number];
            asking.matches(number, row, &known) && found(asking, number, row)
        };
        match chosen {
            None => {
                for number in 0..table.rows.len() {
                    if look(self, number) {
                        return;
                    }
                }
            }
            Some((named, others)) => {
                // Both lists are in table order.
                let (mut named, mut others) = (named.iter().peekable(), others.iter().peekable());
                loop {
                    let next = match (named.peek(), others.peek()) {
                        (Some(one), Some(other)) if one <= other => named.next(),
                        (_, Some(_)) => others.next(),
                        (Some(_), None) => named.next(),
                        (None, None) => return,
                    };
                    if let Some(&number) = next
                        && look(self, number as usize)
                    {
                        return;
                    }
                }
            }
        }
    }

    /// Finds the indexed column that leaves the fewest candidate rows.
    #[expect(clippy::type_complexity, reason = "two lists of rows")]
    fn look_up(&mut self) -> (Known<'a>, Option<(&'a [u32], &'a [u32])>) {
        let table = self.table;
        let mut values = Vec::with_capacity(table.index.columns.len());
        let mut fewest: Option<(&[u32], &[u32])> = None;
        for indexed in &table.index.columns {
            let value = match self.column(indexed.column) {
                // Dates and similar values are left to the cells.
                Some(Variable::Dynamic(_)) | None => continue,
                Some(value) => value.clone(),
            };
            let (code, named, others) = indexed.rows(&value);
            values.push((indexed, code));
            if fewest.is_none_or(|(one, other)| named.len() + others.len() < one.len() + other.len()) {
                fewest = Some((named, others));
            }
        }
        match fewest {
            None => (Known::Nothing, None),
            fewest => (Known::Values(values), fewest),
        }
    }

    /// The value of a column, or `None` if its expression fails.
    fn column(&mut self, column: usize) -> Option<&Variable> {
        if matches!(self.columns[column], Column::Unknown) {
            let field = self.table.inputs[column].field.as_ref()?;
            if field.sees_dollar {
                self.look_at_neighbour(column);
            }
            self.columns[column] = match self.machine.value(field, self.scope) {
                Ok(value) => Column::Is(value),
                Err(_) => Column::Failed,
            };
        }
        match &self.columns[column] {
            Column::Is(value) => Some(value),
            Column::Unknown | Column::Failed => None,
        }
    }

    fn matches(&mut self, number: usize, row: &CompiledRow, known: &Known<'_>) -> bool {
        if let Known::Values(values) = known {
            for (indexed, code) in values {
                let named = indexed.codes[number];
                if named != OTHER && named != *code {
                    return false;
                }
            }
        }
        row.conditions
            .iter()
            .enumerate()
            .all(|(column, cell)| match cell {
                None => true,
                Some(cell) => self.is_so(column, row, cell),
            })
    }

    fn is_so(&mut self, column: usize, row: &CompiledRow, cell: &Cell) -> bool {
        if self.table.inputs[column].field.is_none() {
            if cell.program.sees_dollar {
                self.look_back(row, column);
            }
            return self.machine.is_so(&cell.program, self.scope);
        }
        let Some(value) = self.column(column) else {
            return false;
        };
        if let Some(is_so) = cell.test.as_ref().and_then(|test| test.decide(value)) {
            return is_so;
        }
        let value = value.clone();
        self.look_at(column, value);
        self.machine.is_so(&cell.program, self.scope)
    }

    /// Sets `$` to the value of a column.
    fn look_at(&mut self, column: usize, value: Variable) {
        if self.current != Some(column) {
            self.scope.set_local(Symbol::from_static(DOLLAR), value);
            self.current = Some(column);
        }
    }

    /// For the expression of a column, `$` is the value of the nearest column before it.
    fn look_at_neighbour(&mut self, column: usize) {
        let before = &self.table.inputs[..column];
        if let Some(neighbour) = before.iter().rposition(|input| input.field.is_some())
            && let Some(value) = self.column(neighbour).cloned()
        {
            self.look_at(neighbour, value);
        }
    }

    /// For a cell that is not about a column's value, `$` is the value of the last column before it that has a condition in this row, or
    /// else of the last column before it.
    fn look_back(&mut self, row: &CompiledRow, before: usize) {
        let has_field = |column: &usize| self.table.inputs[*column].field.is_some();
        let has_cell = |column: &usize| row.conditions[*column].is_some();
        let columns = || (0..before).rev().filter(has_field);
        let last = columns().find(has_cell).or_else(|| columns().next());
        if let Some(column) = last
            && let Some(value) = self.column(column).cloned()
        {
            self.look_at(column, value);
        }
    }

    fn conclude(&mut self, row: &CompiledRow) {
        if row
            .conclusions
            .iter()
            .flatten()
            .any(|program| program.sees_dollar)
        {
            self.look_back(row, row.conditions.len());
        }
    }

    pub(super) fn first(&mut self, wants_trace: bool) -> Decided {
        let mut decided = Decided {
            value: Variable::Null,
            trace: None,
        };
        self.each(|asking, number, row| {
            let Some(value) = asking.concluded(row) else {
                return false;
            };
            decided.value = Variable::Object(value);
            decided.trace = wants_trace.then(|| asking.traced(number, row));
            true
        });
        decided
    }

    pub(super) fn collect(&mut self, wants_trace: bool) -> Decided {
        let mut values = Vec::new();
        let mut traces = wants_trace.then(Vec::new);
        self.each(|asking, number, row| {
            if let Some(value) = asking.concluded(row) {
                values.push(Variable::Object(value));
                if let Some(traces) = &mut traces {
                    traces.push(asking.traced(number, row));
                }
            }
            false
        });
        Decided {
            value: Variable::from_array(values),
            trace: traces.map(Value::Array),
        }
    }

    /// The first matching row decides, but list columns collect the values of all matching rows.
    pub(super) fn first_with_lists(&mut self, wants_trace: bool) -> Decided {
        let outputs = &self.table.outputs;
        let mut first: Option<RcCell<VariableMap>> = None;
        let mut lists: Vec<Vec<Variable>> = vec![Vec::new(); outputs.len()];
        let mut traces = wants_trace.then(Vec::new);
        self.each(|asking, number, row| {
            let is_first = first.is_none();
            asking.conclude(row);
            let mut values = Vec::new();
            for (column, program) in row.conclusions.iter().enumerate() {
                if let Some(program) = program
                    && (is_first || outputs[column].is_list)
                {
                    let Ok(value) = asking.machine.value(program, asking.scope) else {
                        return false;
                    };
                    values.push((column, value));
                }
            }
            let object = first.get_or_insert_default();
            for (column, value) in values {
                if outputs[column].is_list {
                    lists[column].push(value);
                } else {
                    outputs[column].path.lay(object, value);
                }
            }
            if let Some(traces) = &mut traces {
                traces.push(asking.traced(number, row));
            }
            false
        });
        let Some(object) = first else {
            return Decided {
                value: Variable::Null,
                trace: None,
            };
        };
        for (output, list) in outputs.iter().zip(lists) {
            if output.is_list {
                output.path.lay(&object, Variable::from_array(list));
            }
        }
        Decided {
            value: Variable::Object(object),
            trace: traces.map(Value::Array),
        }
    }

    /// Evaluates the conclusions of a row. `None` if one of them fails.
    fn concluded(&mut self, row: &CompiledRow) -> Option<RcCell<VariableMap>> {
        self.conclude(row);
        let object = RcCell::<VariableMap>::default();
        for (output, program) in self.table.outputs.iter().zip(&row.conclusions) {
            if let Some(program) = program {
                let value = self.machine.value(program, self.scope).ok()?;
                output.path.lay(&object, value);
            }
        }
        Some(object)
    }

    /// The trace of a matching row, in the format of GoRules' editors.
    fn traced(&mut self, number: usize, row: &CompiledRow) -> Value {
        let mut values = Map::new();
        let mut cells = Map::new();
        cells.insert("_id".to_owned(), (&*row.id).into());
        if let Some(description) = &row.description {
            cells.insert("_description".to_owned(), (&**description).into());
        }
        for (column, input) in self.table.inputs.iter().enumerate() {
            let Some(field) = &input.field else { continue };
            let cell = row.conditions[column].as_ref();
            let cell = cell.map_or("", |cell| &*cell.program.text);
            cells.insert(format!("{}[{}]", field.text, input.id), cell.into());
            if let Some(value) = self.column(column) {
                values.insert(field.text.to_string(), to_json(value));
            }
        }
        serde_json::json!({"index": number, "reference_map": values, "rule": cells})
    }
}
