//! Tables as they are written.

use serde_json::Value;

use crate::{
    DefinitionError,
    jdm::{document::collects, reader::Object},
};

/// Most rows of a table.
const ROWS_MAX: usize = 100_000;
/// Most columns of a table, of either sort.
const COLUMNS_MAX: usize = 256;

/// A table as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// What follows from several rows that match.
    pub hits: Hits,
    /// Columns of conditions.
    pub inputs: Vec<Input>,
    /// Columns of what follows.
    pub outputs: Vec<Output>,
    /// Its rows: those above count before those below.
    pub rows: Vec<Row>,
}

/// What follows from several rows that match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hits {
    /// What the first says.
    #[default]
    First,
    /// A list of what each says.
    Collect,
}

/// A column of conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Its own; rows name it.
    pub id: String,
    /// For people.
    pub name: String,
    /// An expression for the value that its cells are about. Without one, each cell is a condition of its own.
    pub field: Option<String>,
}

/// A column of what follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Its own; rows name it.
    pub id: String,
    /// For people.
    pub name: String,
    /// Where its cells' values are laid down: members, with dots between them. With `[]` behind it, the values of all rows that match become a list.
    pub field: String,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Its own, which may be empty.
    pub id: String,
    /// For people.
    pub description: Option<String>,
    /// The cells of columns of conditions, in their order; empty ones are always true.
    pub conditions: Vec<String>,
    /// The cells of columns of what follows, in their order; empty ones say nothing.
    pub conclusions: Vec<String>,
}

impl Rows {
    /// Reads a table: the content of a `decisionTableNode`.
    pub fn of(content: &Value) -> Result<Self, DefinitionError> {
        Self::of_object(&Object::new("the node", "content".to_owned(), content)?)
    }

    pub(in crate::jdm) fn of_object(content: &Object<'_>) -> Result<Self, DefinitionError> {
        let inputs = content.list("inputs", COLUMNS_MAX, |input| {
            Ok(Input {
                id: input.needed("id")?.to_owned(),
                name: input.text("name")?.to_owned(),
                field: input.said("field")?.map(str::to_owned),
            })
        })?;
        let outputs = content.list("outputs", COLUMNS_MAX, |output| {
            Ok(Output {
                id: output.needed("id")?.to_owned(),
                name: output.text("name")?.to_owned(),
                field: output.text("field")?.trim().to_owned(),
            })
        })?;
        let rows = content.list("rules", ROWS_MAX, |rule| {
            let cell = |id: &str| Ok(rule.text(id)?.trim().to_owned());
            Ok(Row {
                id: rule.text("_id")?.to_owned(),
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
