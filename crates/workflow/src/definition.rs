//! Graph definitions: the JSON of Rengine's `re_workflow_graphs`, with more kinds of nodes.
//!
//! ```json
//! {"nodes": [{"@type": "BOOT", "id": "0"}, {"@type": "PROCESS", "id": "1", "ruleId": "greet"}], "edges": [{"from": "0", "to": "1"}]}
//! ```
//!
//! `SWITCH`, `PARALLEL`, `LOOP`, `SUBFLOW`, `DELAY`, `RETRY`, `SQL`, `STORE` and `HTTP` are additions to Rengine's format, as are
//! `timeoutMs` and `fallback` of nodes that run a rule, and `case` of edges.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::{
    BuiltinTask, DefinitionError,
    object::{self, Object},
};

/// Maximum number of nodes in a graph.
const NODES_MAX: usize = 10_000;
/// Longest delay or timeout of a node: one day.
const TIME_MAX_MS: u64 = 86_400_000;
/// Maximum number of attempts of a RETRY.
const ATTEMPTS_MAX: u64 = 100;

/// A graph as it is written, before it is checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// All nodes, in the order of the text.
    pub nodes: Vec<Node>,
    /// The edges between nodes, in the order of the text.
    pub edges: Vec<Edge>,
    /// Attributes of the whole graph, which its rules may read.
    pub attributes: Map<String, Value>,
    /// Members of nodes that mean nothing, each with its node and those that would.
    pub warnings: Vec<String>,
}

/// A node of a definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Identifies the node within its graph.
    pub id: String,
    /// Display name.
    pub name: Option<String>,
    /// The kind of the node, with the settings of that kind.
    pub kind: Kind,
    /// Order among the children of the same parent: lower priorities run first.
    pub priority: Option<i64>,
    /// Timeout of the node's rule.
    pub timeout: Option<Duration>,
    /// Outcome to use if the rule fails or times out.
    pub fallback: Option<Fallback>,
}

/// The outcome that replaces one that the rule did not produce.
#[derive(Clone, Debug, PartialEq)]
pub struct Fallback {
    /// Whether the rule counts as true.
    pub is_true: bool,
    /// The rule's values, as JSON.
    pub values: Map<String, Value>,
}

/// The kind of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The start of the graph.
    Boot,
    /// Runs a rule, and continues if the rule is true.
    Process {
        /// The name of the rule.
        rule: String,
    },
    /// Like `Process`, for rules that only decide.
    Relation {
        /// The name of the rule.
        rule: String,
    },
    /// Runs a rule and ends the branch.
    Run {
        /// The name of the rule.
        rule: String,
    },
    /// Runs the nodes after it; if they fail, runs a rule instead.
    Failback {
        /// The name of the rule.
        rule: String,
    },
    /// Sends a request to a database, the store, a server or a pool, and continues if there is a result.
    BuiltinTask {
        /// Stands for this task among the rules: equal for equal tasks, and never the name of a file.
        rule: String,
        /// The request with all its operands.
        task: BuiltinTask,
    },
    /// Combines the results of its children.
    Logical(Logical),
    /// Runs a rule, and continues along the edge whose case the rule names, or else along the edge without a case.
    Switch {
        /// The name of the rule.
        rule: String,
    },
    /// Runs its children concurrently.
    Parallel(Join),
    /// Runs the nodes after it once for each item of a list.
    Loop {
        /// Where to find the list; interpreted by the implementation of [`Rules`](crate::Rules).
        over: String,
    },
    /// Runs another graph, and continues if its outcome is true.
    Subflow {
        /// The name of that graph.
        workflow: String,
    },
    /// Waits, then continues.
    Delay {
        /// How long to wait.
        time: Duration,
    },
    /// Runs the nodes after it, and again if they fail.
    Retry {
        /// Maximum number of attempts, including the first.
        attempts: u32,
        /// Pause between two attempts.
        pause: Duration,
    },
}

/// How the outcomes of concurrent children are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Waits for all children; all must be true.
    All,
    /// The first true child is enough; the others are cancelled.
    Any,
}

/// How the results of children that run in order are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logical {
    /// Runs children until one is false; true if all are true.
    And,
    /// Runs children until one is true; true if one is.
    Or,
    /// Runs all children; true if all are true.
    AllAnd,
    /// Runs all children; true if at least one is true.
    AllOr,
    /// Negates its only child.
    Not,
}

/// A directed edge between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The id of the source node.
    pub from: String,
    /// The id of the target node.
    pub to: String,
    /// The case in which a SWITCH follows this edge; without one, it is followed in all other cases.
    pub case: Option<String>,
}

impl Kind {
    /// The name of this kind in graph definitions.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Boot => "BOOT",
            Self::Process { .. } => "PROCESS",
            Self::Relation { .. } => "RELATION",
            Self::Run { .. } => "RUN",
            Self::Failback { .. } => "FAILBACK",
            Self::BuiltinTask { task, .. } => match task {
                BuiltinTask::Sql { .. } => "SQL",
                BuiltinTask::Store { .. } => "STORE",
                BuiltinTask::Http { .. } => "HTTP",
                BuiltinTask::Pool { .. } => "POOL",
            },
            Self::Logical(_) => "LOGICAL",
            Self::Switch { .. } => "SWITCH",
            Self::Parallel(_) => "PARALLEL",
            Self::Loop { .. } => "LOOP",
            Self::Subflow { .. } => "SUBFLOW",
            Self::Delay { .. } => "DELAY",
            Self::Retry { .. } => "RETRY",
        }
    }

    /// The rule that a node of this kind runs.
    pub fn rule(&self) -> Option<&str> {
        match self {
            Self::Process { rule }
            | Self::Relation { rule }
            | Self::Run { rule }
            | Self::Failback { rule }
            | Self::Switch { rule }
            | Self::BuiltinTask { rule, .. } => Some(rule),
            Self::Boot
            | Self::Logical(_)
            | Self::Parallel(_)
            | Self::Loop { .. }
            | Self::Subflow { .. }
            | Self::Delay { .. }
            | Self::Retry { .. } => None,
        }
    }
}

impl Definition {
    /// Parses a definition. Unknown members are ignored, because editors keep theirs in the same document; those of nodes are warned of.
    pub fn parse(text: &[u8]) -> Result<Self, DefinitionError> {
        Self::of(&object::parse(text)?)
    }

    /// Like [`parse`](Self::parse), for JSON that is already parsed.
    pub fn of(value: &Value) -> Result<Self, DefinitionError> {
        let graph = Object::new("the definition", "the graph".to_owned(), value)?;
        if let Some(engine) = graph.text("engine")?
            && engine != "STANDARD_GRAPH"
        {
            return Err(graph.unexpected("engine", "\"STANDARD_GRAPH\""));
        }
        let attributes = match graph.get("attributes") {
            None => Map::new(),
            Some(Value::Object(attributes)) => attributes.clone(),
            Some(_) => return Err(graph.unexpected("attributes", "an object")),
        };
        let nodes = graph.list("nodes", 1..=NODES_MAX, Node::of)?;
        let (nodes, warnings): (_, Vec<_>) = nodes.into_iter().unzip();
        Ok(Self {
            nodes,
            edges: graph.list("edges", 1..=NODES_MAX, Edge::of)?,
            attributes,
            warnings: warnings.into_iter().flatten().collect(),
        })
    }
}

impl Node {
    /// Reads a node. Also returns a warning if it has members that mean nothing.
    fn of(object: &Object<'_>) -> Result<(Self, Option<String>), DefinitionError> {
        let rule = || object.id("ruleId");
        let kind = match object.needed("@type")? {
            "BOOT" => Kind::Boot,
            "PROCESS" => Kind::Process { rule: rule()? },
            "RELATION" => Kind::Relation { rule: rule()? },
            "RUN" => Kind::Run { rule: rule()? },
            "FAILBACK" => Kind::Failback { rule: rule()? },
            "LOGICAL" => Kind::Logical(match object.needed("logical")? {
                "AND" => Logical::And,
                "OR" => Logical::Or,
                "ALL_AND" => Logical::AllAnd,
                "ALL_OR" => Logical::AllOr,
                "NOT" => Logical::Not,
                _ => return Err(object.unexpected("logical", "AND, OR, ALL_AND, ALL_OR or NOT")),
            }),
            "SWITCH" => Kind::Switch { rule: rule()? },
            "PARALLEL" => Kind::Parallel(match object.text("join")? {
                None | Some("ALL") => Join::All,
                Some("ANY") => Join::Any,
                Some(_) => return Err(object.unexpected("join", "ALL or ANY")),
            }),
            "LOOP" => Kind::Loop {
                over: object.needed("over")?.to_owned(),
            },
            "SUBFLOW" => Kind::Subflow {
                workflow: object.id("workflow")?,
            },
            "DELAY" => Kind::Delay {
                time: object.time("delayMs")?.ok_or_else(|| object.missing("delayMs"))?,
            },
            "RETRY" => Kind::Retry {
                attempts: object.attempts("attempts")?,
                pause: object.time("delayMs")?.unwrap_or_default(),
            },
            kind => match BuiltinTask::of(kind, object)? {
                Some(task) => Kind::BuiltinTask {
                    rule: format!("/{task:?}"),
                    task,
                },
                None => {
                    let expected = "BOOT, PROCESS, RELATION, RUN, FAILBACK, LOGICAL, SWITCH, PARALLEL, LOOP, SUBFLOW, DELAY, RETRY, SQL, STORE or HTTP";
                    return Err(object.unexpected("@type", expected));
                }
            },
        };
        let whole = |value: &Value| {
            value
                .as_i64()
                .ok_or_else(|| object.unexpected("priority", "a whole number"))
        };
        let priority = object.get("priority").map(whole).transpose()?;
        let has_rule = kind.rule().is_some();
        let node = Self {
            id: object.id("id")?,
            name: object.text("name")?.map(str::to_owned),
            priority,
            timeout: if has_rule { object.time("timeoutMs")? } else { None },
            fallback: object.fallback(has_rule)?,
            kind,
        };
        let ignored = object.ignored(&node.id, node.kind.name());
        Ok((node, ignored))
    }
}

impl Edge {
    fn of(object: &Object<'_>) -> Result<Self, DefinitionError> {
        Ok(Self {
            from: object.id("from")?,
            to: object.id("to")?,
            case: object.text("case")?.map(str::to_owned),
        })
    }
}

/// Readers for members that only graphs have.
impl Object<'_> {
    /// An identifier: text, or a number converted to text.
    fn id(&self, member: &'static str) -> Result<String, DefinitionError> {
        match self.get(member) {
            None => Err(self.missing(member)),
            Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
            Some(Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(number.to_string()),
            Some(_) => Err(self.unexpected(member, "text that is not empty, or a whole number")),
        }
    }

    fn time(&self, member: &'static str) -> Result<Option<Duration>, DefinitionError> {
        let time = |value: &Value| match value.as_u64() {
            Some(ms @ ..=TIME_MAX_MS) => Ok(Duration::from_millis(ms)),
            _ => Err(self.unexpected(member, "whole milliseconds, at most 86400000")),
        };
        self.get(member).map(time).transpose()
    }

    fn attempts(&self, member: &'static str) -> Result<u32, DefinitionError> {
        let value = self.get(member).ok_or_else(|| self.missing(member))?;
        match value.as_u64() {
            Some(attempts @ 1..=ATTEMPTS_MAX) => Ok(attempts as u32),
            _ => Err(self.unexpected(member, "1 to 100")),
        }
    }

    fn fallback(&self, has_rule: bool) -> Result<Option<Fallback>, DefinitionError> {
        let expected = "{\"state\": true or false, \"valueMap\": an object}, of a node that runs a rule";
        let fallback = if has_rule {
            self.get("fallback")
        } else {
            self.members.get("fallback")
        };
        match fallback {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(members)) if has_rule => {
                let values = match members.get("valueMap") {
                    None | Some(Value::Null) => Map::new(),
                    Some(Value::Object(values)) => values.clone(),
                    Some(_) => return Err(self.unexpected("fallback", expected)),
                };
                let is_known = |member: &String| member == "state" || member == "valueMap";
                let Some(Value::Bool(is_true)) =
                    members.get("state").filter(|_| members.keys().all(is_known))
                else {
                    return Err(self.unexpected("fallback", expected));
                };
                let is_true = *is_true;
                Ok(Some(Fallback { is_true, values }))
            }
            Some(_) => Err(self.unexpected("fallback", expected)),
        }
    }
}
