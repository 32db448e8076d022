//! Decision tables as they are written.

use serde_json::Value;

use crate::{DefinitionError, jdm::document::collects, object::Object};

/// Maximum number of rows in a table.
const ROWS_MAX: usize = 100_000;
/// Maximum number of input columns, and of output columns.
const COLUMNS_MAX: usize = 256;

/// A decision table as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The hit policy.
    pub hits: Hits,
    /// The columns of conditions.
    pub inputs: Vec<Input>,
    /// The columns of conclusions.
    pub outputs: Vec<Output>,
    /// The rows; earlier rows take precedence.
    pub rows: Vec<Row>,
}

/// Hit policy: the result if several rows match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hits {
    /// The conclusions of the first matching row.
    #[default]
    First,
    /// A list of the conclusions of all matching rows.
    Collect,
}

/// A column of conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Identifies the column; rows refer to it.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Expression for the value that the cells test. Without one, each cell is a complete condition.
    pub field: Option<String>,
}

/// A column of conclusions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Identifies the column; rows refer to it.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Path for the cells' values: member names separated by dots. With `[]` at the end, the values of all matching rows are collected in a
    /// list.
    pub field: String,
}

/// A row: conditions and conclusions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Identifies the row; may be empty.
    pub id: String,
    /// Description for readers.
    pub description: Option<String>,
    /// Cells of the input columns, in column order. An empty cell is always true.
    pub conditions: Vec<String>,
    /// Cells of the output columns, in column order. An empty cell sets nothing.
    pub conclusions: Vec<String>,
}

impl Rows {
    /// Reads a table from the content of a `decisionTableNode`.
    pub fn of(content: &Value) -> Result<Self, DefinitionError> {
        Self::of_object(&Object::new("the node", "content".to_owned(), content)?)
    }

    pub(in crate::jdm) fn of_object(content: &Object<'_>) -> Result<Self, DefinitionError> {
        let inputs = content.list("inputs", 0..=COLUMNS_MAX, |input| {
            Ok(Input {
                id: input.needed("id")?.to_owned(),
                name: input.text("name")?.unwrap_or_default().to_owned(),
                field: input.filled("field")?.map(str::to_owned),
            })
        })?;
        let outputs = content.list("outputs", 0..=COLUMNS_MAX, |output| {
            Ok(Output {
                id: output.needed("id")?.to_owned(),
                name: output.text("name")?.unwrap_or_default().to_owned(),
                field: output.text("field")?.unwrap_or_default().trim().to_owned(),
            })
        })?;
        let rows = content.list("rules", 0..=ROWS_MAX, |rule| {
            let cell = |id: &str| match rule.members.get(id) {
                None | Some(Value::Null) => Ok(String::new()),
                Some(Value::String(text)) => Ok(text.trim().to_owned()),
                Some(_) => Err(rule.unexpected(id, "text")),
            };
            Ok(Row {
                id: rule.text("_id")?.unwrap_or_default().to_owned(),
                description: rule
                    .get("_description")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
                conditions: inputs
                    .iter()
                    .map(|input| cell(&input.id))
                    .collect::<Result<_, _>>()?,
                conclusions: outputs
                    .iter()
                    .map(|output| cell(&output.id))
                    .collect::<Result<_, _>>()?,
            })
        })?;
        Ok(Self {
            hits: if collects(content)? {
                Hits::Collect
            } else {
                Hits::First
            },
            inputs,
            outputs,
            rows,
        })
    }
}
