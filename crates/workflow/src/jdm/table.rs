//! Decision tables: rows of conditions and conclusions.
//!
//! A row matches if each of its cells is true of its column's value; an empty cell is always true. Cells that compare with a text, a number
//! or a boolean are found through an index instead of being evaluated, so that even a table of thousands of rows costs no more than the few
//! rows that can match.

mod asking;
mod index;
mod written;

use serde_json::Value;
use zen_expression::{Scope, Variable};

pub use self::written::{Hits, Input, Output, Row, Rows};
use self::{asking::Asking, index::Index};
use super::{
    program::{CompileError, Compiler, Machine, Program},
    test::Test,
    value::Path,
};
use crate::object::shortened;

/// A cell or column that does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellError {
    /// The location, such as "row 3, column `country`"; rows count from 1.
    pub place: String,
    /// The text of the cell, shortened.
    pub text: String,
    /// The compiler's message.
    pub reason: String,
}

impl CellError {
    /// An expression that cannot be parsed becomes a warning and a program that fails; one that exceeds a limit is an error.
    pub(super) fn or_warning(
        place: String,
        text: &str,
        error: &CompileError,
        warnings: &mut Vec<Self>,
    ) -> Result<Program, Self> {
        let flaw = Self {
            place,
            text: shortened(text),
            reason: error.to_string(),
        };
        match error {
            CompileError::Limit(_) => Err(flaw),
            CompileError::Syntax(_) => {
                warnings.push(flaw);
                Ok(Program::failing(text))
            }
        }
    }
}

/// The result of evaluating a table.
#[derive(Clone, Debug)]
pub struct Decided {
    /// With [`Hits::First`] an object, or null if no row matches; with [`Hits::Collect`] a list.
    pub value: Variable,
    /// The matching rows, counted from 0, with their cells, in the format of GoRules' editor. `None` unless requested.
    pub trace: Option<Value>,
}

/// A compiled table.
#[derive(Clone, Debug)]
pub struct Table {
    hits: Hits,
    inputs: Box<[InputColumn]>,
    outputs: Box<[OutputColumn]>,
    /// Whether an output column collects the values of all matching rows in a list.
    has_lists: bool,
    rows: Box<[CompiledRow]>,
    index: Index,
}

#[derive(Clone, Debug)]
struct InputColumn {
    id: Box<str>,
    field: Option<Program>,
}

#[derive(Clone, Debug)]
struct OutputColumn {
    path: Path,
    is_list: bool,
}

#[derive(Clone, Debug)]
struct CompiledRow {
    id: Box<str>,
    description: Option<Box<str>>,
    conditions: Box<[Option<Cell>]>,
    conclusions: Box<[Option<Program>]>,
}

#[derive(Clone, Debug)]
struct Cell {
    program: Program,
    test: Option<Test>,
}

impl Table {
    /// Compiles a table, or returns everything that exceeds a limit. A cell that cannot be parsed matches nothing.
    pub fn compile(written: &Rows) -> Result<Self, Vec<CellError>> {
        Self::compile_with(written, &mut Compiler::new(), &mut Vec::new())
    }

    pub(super) fn compile_with(
        written: &Rows,
        compiler: &mut Compiler,
        warnings: &mut Vec<CellError>,
    ) -> Result<Self, Vec<CellError>> {
        let mut flaws = Vec::new();
        let mut compiled = |place: &dyn Fn() -> String, text: &str, is_unary: bool| {
            let program = match (text.is_empty(), is_unary) {
                (true, _) => return None,
                (false, true) => compiler.unary(text),
                (false, false) => compiler.standard(text),
            };
            program
                .or_else(|error| CellError::or_warning(place(), text, &error, warnings))
                .map_err(|flaw| flaws.push(flaw))
                .ok()
        };
        let inputs: Box<[_]> = written
            .inputs
            .iter()
            .map(|input| InputColumn {
                id: input.id.as_str().into(),
                field: input.field.as_deref().and_then(|field| {
                    compiled(
                        &|| format!("column `{}`", named(&input.name, &input.id)),
                        field,
                        false,
                    )
                }),
            })
            .collect();
        let rows: Box<[_]> = written
            .rows
            .iter()
            .enumerate()
            .map(|(row, rule)| {
                let place = |name: &str, id: &str| format!("row {}, column `{}`", row + 1, named(name, id));
                let conditions = written.inputs.iter().zip(&rule.conditions).map(|(input, text)| {
                    let is_unary = input.field.is_some();
                    let program = compiled(&|| place(&input.name, &input.id), text, is_unary)?;
                    let test = if is_unary { Test::of(&program.code) } else { None };
                    Some(Cell { program, test })
                });
                let conditions = conditions.collect();
                let conclusions = written
                    .outputs
                    .iter()
                    .zip(&rule.conclusions)
                    .map(|(output, text)| {
                        // An output without a path is not evaluated.
                        let text = if output.field.is_empty() { "" } else { text };
                        compiled(&|| place(&output.name, &output.id), text, false)
                    });
                CompiledRow {
                    id: rule.id.as_str().into(),
                    description: rule.description.as_deref().map(Box::from),
                    conditions,
                    conclusions: conclusions.collect(),
                }
            })
            .collect();
        let mut outputs = Vec::with_capacity(written.outputs.len());
        for output in &written.outputs {
            let (path, is_list) = match output.field.strip_suffix("[]") {
                Some(path) => (path.trim_end(), true),
                None => (&*output.field, false),
            };
            match Path::of(path) {
                Ok(path) => outputs.push(OutputColumn { path, is_list }),
                Err(reason) => flaws.push(CellError {
                    place: format!("column `{}`", named(&output.name, &output.id)),
                    text: shortened(path),
                    reason,
                }),
            }
        }
        if !flaws.is_empty() {
            return Err(flaws);
        }
        Ok(Self {
            hits: written.hits,
            has_lists: outputs.iter().any(|output| output.is_list),
            index: Index::of(&inputs, &rows),
            inputs,
            outputs: outputs.into(),
            rows,
        })
    }

    /// Evaluates the table for an input, normally an object. A row whose conclusions fail to evaluate does not match.
    pub fn decide(&self, input: &Variable, wants_trace: bool) -> Decided {
        let mut scope = Scope::new(input.clone());
        self.decide_with(&mut scope, &mut Machine::new(None), wants_trace)
    }

    pub(super) fn decide_with(&self, scope: &mut Scope, machine: &mut Machine, wants_trace: bool) -> Decided {
        let mut asking = Asking::new(self, scope, machine);
        match self.hits {
            Hits::First if self.has_lists => asking.first_with_lists(wants_trace),
            Hits::First => asking.first(wants_trace),
            Hits::Collect => asking.collect(wants_trace),
        }
    }

    /// All programs of the table.
    pub(super) fn programs(&self) -> impl Iterator<Item = &Program> {
        let fields = self.inputs.iter().filter_map(|input| input.field.as_ref());
        let cells = self.rows.iter().flat_map(|row| {
            let conditions = row.conditions.iter().flatten().map(|cell| &cell.program);
            conditions.chain(row.conclusions.iter().flatten())
        });
        fields.chain(cells)
    }
}

fn named<'n>(name: &'n str, id: &'n str) -> &'n str {
    if name.is_empty() { id } else { name }
}
