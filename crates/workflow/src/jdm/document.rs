//! Documents as they are written: the JSON Decision Model, which editors and engines of GoRules share.
//!
//! ```json
//! {"nodes": [{"id": "1", "name": "request", "type": "inputNode"}, {"id": "2", "name": "fee", "type": "expressionNode", "content": {"expressions": [{"id": "3", "key": "fee", "value": "amount * 0.01"}]}}],
//!  "edges": [{"id": "4", "sourceId": "1", "targetId": "2"}]}
//! ```

use serde_json::Value;

use super::{
    reader::{DOCUMENT, Object},
    table::Rows,
};
use crate::DefinitionError;

/// Most nodes of a document. A run comes to each once at most.
const NODES_MAX: usize = 1_000;
/// Most edges of a document.
const EDGES_MAX: usize = 10_000;
/// Most expressions of a node.
const EXPRESSIONS_MAX: usize = 1_000;
/// Most statements of a switch.
const STATEMENTS_MAX: usize = 1_000;

/// A document as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its nodes, in the order of the text.
    pub nodes: Vec<Node>,
    /// What leads from where to where.
    pub edges: Vec<Edge>,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its own.
    pub id: String,
    /// For people, and for expressions that look it up in `$nodes`.
    pub name: String,
    /// What it does.
    pub kind: Kind,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Begins with what a run is given.
    Input {
        /// JSON Schema that this has to satisfy.
        schema: Option<Value>,
    },
    /// Ends the run with what it has come to.
    Output {
        /// JSON Schema that this has to satisfy.
        schema: Option<Value>,
    },
    /// Decides by a table of rules.
    Table(Rows, Transform),
    /// Evaluates expressions, one after another.
    Expressions(Vec<Expression>, Transform),
    /// Goes on where conditions say.
    Switch {
        /// Whether all that are true count, not only the first.
        collects: bool,
        /// The conditions.
        statements: Vec<Statement>,
    },
    /// Calls JavaScript.
    Function {
        /// Its text.
        source: String,
        /// 1 where it has a function `main`, 2 where it exports `handler`.
        version: u8,
    },
    /// Evaluates another decision.
    Decision {
        /// Its key.
        key: String,
        /// What it is given, and what becomes of its result.
        transform: Transform,
    },
    /// Does what the host knows how to do.
    Custom {
        /// Which of its kinds.
        kind: String,
        /// What the kind has to know.
        config: Value,
    },
}

/// An expression, and what its value is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// Where its value is laid down: members, with dots between them.
    pub key: String,
    /// Its text.
    pub text: String,
}

/// A way that a switch may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Its own; edges name it.
    pub id: String,
    /// When it is gone. Always, where this is empty.
    pub condition: String,
}

/// What a node takes of what it is given, and where it lays down what it has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transform {
    /// An expression for what it takes; all, where there is none.
    pub input: Option<String>,
    /// Where its result is laid down: members, with dots between them.
    pub output: Option<String>,
    /// Whether it works on what it takes, or on each item of that.
    pub mode: Mode,
    /// Whether what it is given stays in what it gives.
    pub passes_through: bool,
}

/// How often a node works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Once.
    #[default]
    Single,
    /// Once for each item of a list.
    Loop,
}

/// A way from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The id of the node that comes first.
    pub from: String,
    /// The id of the node that comes after it.
    pub to: String,
    /// Behind a switch, the statement that has to be true.
    pub statement: Option<String>,
}

impl Document {
    /// Reads a document. Members that are not known here are left to editors.
    pub fn parse(text: &[u8]) -> Result<Self, DefinitionError> {
        let value = serde_json::from_slice(text).map_err(|error| DefinitionError::Json {
            line: error.line(),
            column: error.column(),
            reason: reason_of(&error),
        })?;
        Self::of(&value)
    }

    /// The same of JSON that is read already.
    pub fn of(value: &Value) -> Result<Self, DefinitionError> {
        let document = Object::new("the text", DOCUMENT.to_owned(), value)?;
        if document.get("blocks").is_some() {
            return Err(document.unexpected("blocks", "none: policies are not accepted, decision graphs are"));
        }
        Ok(Self {
            nodes: document.list("nodes", NODES_MAX, Node::of)?,
            edges: document.list("edges", EDGES_MAX, Edge::of)?,
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
                    content.list("expressions", EXPRESSIONS_MAX, Expression::of)?,
                    Transform::of(&content)?,
                )
            }
            "switchNode" => {
                let content = node.object("content")?;
                Kind::Switch {
                    collects: collects(&content)?,
                    statements: content.list("statements", STATEMENTS_MAX, Statement::of)?,
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
            name: node.text("name")?.to_owned(),
            kind,
        })
    }
}

impl Expression {
    fn of(expression: &Object<'_>) -> Result<Self, DefinitionError> {
        Ok(Self {
            key: expression.text("key")?.to_owned(),
            text: expression.text("value")?.to_owned(),
        })
    }
}

impl Statement {
    fn of(statement: &Object<'_>) -> Result<Self, DefinitionError> {
        Ok(Self {
            id: statement.needed("id")?.to_owned(),
            condition: statement.text("condition")?.to_owned(),
        })
    }
}

impl Edge {
    fn of(edge: &Object<'_>) -> Result<Self, DefinitionError> {
        Ok(Self {
            from: edge.needed("sourceId")?.to_owned(),
            to: edge.needed("targetId")?.to_owned(),
            statement: edge.said("sourceHandle")?.map(str::to_owned),
        })
    }
}

impl Transform {
    fn of(content: &Object<'_>) -> Result<Self, DefinitionError> {
        let mode = match content.text("executionMode")? {
            "" | "single" => Mode::Single,
            "loop" => Mode::Loop,
            _ => return Err(content.unexpected("executionMode", "single or loop")),
        };
        Ok(Self {
            input: content.said("inputField")?.map(str::to_owned),
            output: content.said("outputPath")?.map(str::to_owned),
            mode,
            passes_through: content.flag("passThrough")?,
        })
    }
}

/// Whether the hit policy is to collect.
pub(super) fn collects(content: &Object<'_>) -> Result<bool, DefinitionError> {
    match content.text("hitPolicy")? {
        "" | "first" => Ok(false),
        "collect" => Ok(true),
        _ => Err(content.unexpected("hitPolicy", "first or collect")),
    }
}

/// A schema is written as text with JSON in it; as an object it is taken too.
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

/// What a parser says, without the place, which is told apart.
fn reason_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}
