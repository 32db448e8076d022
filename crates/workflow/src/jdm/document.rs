//! Decision documents in the JSON Decision Model (JDM), the format that the editors and engines of GoRules share.
//!
//! ```json
//! {"nodes": [{"id": "1", "name": "request", "type": "inputNode"}, {"id": "2", "name": "fee", "type": "expressionNode", "content": {"expressions": [{"id": "3", "key": "fee", "value": "amount * 0.01"}]}}],
//!  "edges": [{"id": "4", "sourceId": "1", "targetId": "2"}]}
//! ```

use serde_json::Value;

use super::table::Rows;
use crate::{
    DefinitionError,
    object::{self, Object},
};

/// Maximum number of nodes in a document. A run evaluates each at most once.
const NODES_MAX: usize = 1_000;
/// Maximum number of edges in a document.
const EDGES_MAX: usize = 10_000;
/// Maximum number of expressions in a node.
const EXPRESSIONS_MAX: usize = 1_000;
/// Maximum number of statements in a switch.
const STATEMENTS_MAX: usize = 1_000;

/// A document as it is written, before it is checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// All nodes, in the order of the text.
    pub nodes: Vec<Node>,
    /// The edges between nodes, in the order of the text.
    pub edges: Vec<Edge>,
}

/// A node of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Identifies the node within its document.
    pub id: String,
    /// Display name, by which expressions find the node in `$nodes`.
    pub name: String,
    /// The kind of the node, with its content.
    pub kind: Kind,
}

/// The kind of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Passes on the input of the run.
    Input {
        /// JSON Schema that the input must match.
        schema: Option<Value>,
    },
    /// Ends the run; its input becomes the result.
    Output {
        /// JSON Schema that the result must match.
        schema: Option<Value>,
    },
    /// Evaluates a decision table.
    Table(Rows, Transform),
    /// Evaluates expressions in order.
    Expressions(Vec<Expression>, Transform),
    /// Chooses between outgoing edges by conditions.
    Switch {
        /// Whether every true condition counts, instead of only the first.
        collects: bool,
        /// One statement for each way out of the switch.
        statements: Vec<Statement>,
    },
    /// Calls a JavaScript function.
    Function {
        /// The source text of the module.
        source: String,
        /// 1 if it has a function `main`, 2 if it exports `handler`.
        version: u8,
    },
    /// Evaluates another decision.
    Decision {
        /// The key of that decision.
        key: String,
        /// How its input and its result are transformed.
        transform: Transform,
    },
    /// A node that the host implements.
    Custom {
        /// The host's name for this kind of node.
        kind: String,
        /// Settings for the host.
        config: Value,
    },
}

/// An expression and the member that receives its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// Path for the value: member names separated by dots.
    pub key: String,
    /// The expression itself.
    pub text: String,
}

/// A condition of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Identifies the statement; edges refer to it.
    pub id: String,
    /// Edges of this statement are taken if this expression is true. Empty: always.
    pub condition: String,
}

/// How a node's input and result are transformed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transform {
    /// Expression that computes the node's input. Without one, the input is passed unchanged.
    pub input: Option<String>,
    /// Path for the result: member names separated by dots.
    pub output: Option<String>,
    /// Whether the node is evaluated once, or for each item of a list.
    pub mode: Mode,
    /// Whether the result is merged into the input.
    pub passes_through: bool,
}

/// How often a node is evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Once, for the whole input.
    #[default]
    Single,
    /// Once for each item of the input, which must be a list.
    Loop,
}

/// A directed edge between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The id of the source node.
    pub from: String,
    /// The id of the target node.
    pub to: String,
    /// For an edge from a switch: the id of the statement that must be true.
    pub statement: Option<String>,
}

impl Document {
    /// Parses a document. Unknown members are ignored: editors keep theirs in it.
    pub fn parse(text: &[u8]) -> Result<Self, DefinitionError> {
        Self::of(&object::parse(text)?)
    }

    /// Like [`parse`](Self::parse), for JSON that is already parsed.
    pub fn of(value: &Value) -> Result<Self, DefinitionError> {
        let document = Object::new("the text", "the document".to_owned(), value)?;
        if document.get("blocks").is_some() {
            return Err(document.unexpected("blocks", "none: policies are not accepted, decision graphs are"));
        }
        Ok(Self {
            nodes: document.list("nodes", 0..=NODES_MAX, Node::of)?,
            edges: document.list("edges", 0..=EDGES_MAX, Edge::of)?,
        })
    }
}

impl Node {
    fn of(node: &Object<'_>) -> Result<Self, DefinitionError> {
        let kind = match node.needed("type")? {
            "inputNode" => Kind::Input {
                schema: schema_of(node)?,
            },
            "outputNode" => Kind::Output {
                schema: schema_of(node)?,
            },
            "decisionTableNode" => {
                let content = node.object("content")?;
                Kind::Table(Rows::of_object(&content)?, Transform::of(&content)?)
            }
            "expressionNode" => {
                let content = node.object("content")?;
                Kind::Expressions(
                    content.list("expressions", 0..=EXPRESSIONS_MAX, Expression::of)?,
                    Transform::of(&content)?,
                )
            }
            "switchNode" => {
                let content = node.object("content")?;
                Kind::Switch {
                    collects: collects(&content)?,
                    statements: content.list("statements", 0..=STATEMENTS_MAX, Statement::of)?,
                }
            }
            "functionNode" => match node.get("content") {
                Some(Value::String(source)) => Kind::Function {
                    source: source.clone(),
                    version: 1,
                },
                Some(Value::Object(_)) => Kind::Function {
                    source: node.object("content")?.needed("source")?.to_owned(),
                    version: 2,
                },
                _ => return Err(node.unexpected("content", "text, or an object with `source`")),
            },
            "decisionNode" => {
                let content = node.object("content")?;
                Kind::Decision {
                    key: content.needed("key")?.to_owned(),
                    transform: Transform::of(&content)?,
                }
            }
            "customNode" => {
                let content = node.object("content")?;
                Kind::Custom {
                    kind: content.needed("kind")?.to_owned(),
                    config: content.get("config").cloned().unwrap_or_default(),
                }
            }
            _ => {
                return Err(node.unexpected(
                    "type",
                    "inputNode, outputNode, decisionTableNode, expressionNode, switchNode, functionNode, decisionNode or customNode",
                ));
            }
        };
        Ok(Self {
            id: node.needed("id")?.to_owned(),
            name: node.text("name")?.unwrap_or_default().to_owned(),
            kind,
        })
    }
}

impl Expression {
    fn of(expression: &Object<'_>) -> Result<Self, DefinitionError> {
        Ok(Self {
            key: expression.text("key")?.unwrap_or_default().to_owned(),
            text: expression.text("value")?.unwrap_or_default().to_owned(),
        })
    }
}

impl Statement {
    fn of(statement: &Object<'_>) -> Result<Self, DefinitionError> {
        Ok(Self {
            id: statement.needed("id")?.to_owned(),
            condition: statement.text("condition")?.unwrap_or_default().to_owned(),
        })
    }
}

impl Edge {
    fn of(edge: &Object<'_>) -> Result<Self, DefinitionError> {
        Ok(Self {
            from: edge.needed("sourceId")?.to_owned(),
            to: edge.needed("targetId")?.to_owned(),
            statement: edge.filled("sourceHandle")?.map(str::to_owned),
        })
    }
}

impl Transform {
    fn of(content: &Object<'_>) -> Result<Self, DefinitionError> {
        let mode = match content.text("executionMode")?.unwrap_or_default() {
            "" | "single" => Mode::Single,
            "loop" => Mode::Loop,
            _ => return Err(content.unexpected("executionMode", "single or loop")),
        };
        Ok(Self {
            input: content.filled("inputField")?.map(str::to_owned),
            output: content.filled("outputPath")?.map(str::to_owned),
            mode,
            passes_through: content.flag("passThrough")?,
        })
    }
}

/// Whether the hit policy is to collect all hits.
pub(super) fn collects(content: &Object<'_>) -> Result<bool, DefinitionError> {
    match content.text("hitPolicy")?.unwrap_or_default() {
        "" | "first" => Ok(false),
        "collect" => Ok(true),
        _ => Err(content.unexpected("hitPolicy", "first or collect")),
    }
}

/// Reads a schema: normally text that contains JSON, but an object is accepted too.
fn schema_of(node: &Object<'_>) -> Result<Option<Value>, DefinitionError> {
    if node.get("content").is_none() {
        return Ok(None);
    }
    let content = node.object("content")?;
    let expected = "a JSON Schema: an object, or its text";
    match content.get("schema") {
        None => Ok(None),
        Some(schema @ Value::Object(_)) => Ok(Some(schema.clone())),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(schema @ Value::Object(_)) => Ok(Some(schema)),
            _ => Err(content.unexpected("schema", expected)),
        },
        Some(_) => Err(content.unexpected("schema", expected)),
    }
}
