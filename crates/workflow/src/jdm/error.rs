//! Errors in a document, and causes of failed runs.

use std::fmt;

use thiserror::Error;

use super::{
    program::Fault,
    run::{DEPTH_MAX, RUNS_MAX},
    table::CellError,
    value::{Excess, ITEMS_MAX},
};

/// A problem in a document that could be read. A document may have several.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    /// The document has no input node.
    #[error("the document has no inputNode, with which a run begins")]
    NoInput,
    /// There is more than one input node.
    #[error("node `{node}` is a second inputNode: a document has one")]
    SecondInput {
        /// The id of the second one.
        node: String,
    },
    /// Two nodes have the same id.
    #[error("node `{node}` is there twice")]
    Twice {
        /// The id they share.
        node: String,
    },
    /// An edge refers to a node that does not exist.
    #[error("the edge from `{from}` to `{to}`: there is no node `{missing}`")]
    NoSuchNode {
        /// The source of the edge.
        from: String,
        /// The target of the edge.
        to: String,
        /// Which of the two does not exist.
        missing: String,
    },
    /// A node can be reached from itself.
    #[error("node `{node}` comes after itself: {way}")]
    Cycle {
        /// One of the nodes in the cycle.
        node: String,
        /// The path around the cycle, such as `a -> b -> a`.
        way: String,
    },
    /// An edge names a statement that its switch does not have.
    #[error("the edge from `{from}` to `{to}`: the switch has no statement `{statement}`")]
    NoSuchStatement {
        /// The id of the switch.
        from: String,
        /// The target of the edge.
        to: String,
        /// The missing statement (`sourceHandle`).
        statement: String,
    },
    /// An edge from a switch names no statement.
    #[error("the edge from `{from}` to `{to}`: it names no statement of the switch (sourceHandle)")]
    NoStatement {
        /// The id of the switch.
        from: String,
        /// The target of the edge.
        to: String,
    },
    /// Two statements of a switch have the same id.
    #[error("node `{node}`: statement `{statement}` is there twice")]
    SameStatement {
        /// The id of the switch.
        node: String,
        /// The id they share.
        statement: String,
    },
    /// An expression in the node with this id does not compile.
    #[error("node `{0}`, {place}: `{text}`: {reason}", place = .1.place, text = .1.text, reason = .1.reason)]
    Expression(String, CellError),
    /// A cell of a table, a column, or a statement of a switch cannot be parsed, in the node with this id; a warning.
    #[error(
        "node `{0}`, {place}: `{text}` cannot be parsed, so it matches nothing: {reason}",
        place = .1.place, text = .1.text, reason = .1.reason
    )]
    Unparsable(String, CellError),
    /// A text in the configuration of the custom node with this id cannot be parsed as a template; a warning.
    #[error(
        "node `{0}`, {place}: `{text}` is no template, so it stays as it is: {reason}",
        place = .1.place, text = .1.text, reason = .1.reason
    )]
    NoTemplate(String, CellError),
    /// A node names a decision that does not exist.
    #[error("node `{node}`: there is no decision `{key}`")]
    NoSuchDecision {
        /// The id of the node.
        node: String,
        /// The key of the missing decision.
        key: String,
    },
    /// A node has an invalid JSON Schema.
    #[error("node `{node}`: its schema: {reason}")]
    Schema {
        /// The id of the node.
        node: String,
        /// The validator's message.
        reason: String,
    },
}

/// A run that failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("node `{node}` failed: {cause}")]
pub struct RunError<F: fmt::Display> {
    /// The id of the failed node, prefixed with the nodes whose decisions contain it, as in `7/2`.
    pub node: String,
    /// The cause of the failure.
    pub cause: Cause<F>,
}

/// The cause of a node's failure.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Cause<F: fmt::Display> {
    /// Its function failed, or the host's work for it.
    #[error("{0}")]
    Function(F),
    /// One of its expressions failed.
    #[error("`{text}`: {fault}")]
    Expression {
        /// The expression, shortened.
        text: String,
        /// The cause of the failure.
        fault: Fault,
    },
    /// A node that loops over a list got a value of this other type.
    #[error("it goes over each item of a list, but was given {0}")]
    NoList(&'static str),
    /// The list has this many items, which is too many.
    #[error("its list has {0} items, at most {ITEMS_MAX}")]
    TooManyItems(usize),
    /// No decision has this key.
    #[error("there is no decision `{0}`")]
    NoSuchDecision(String),
    /// Decisions are nested too deeply.
    #[error("decision `{0}` would be evaluated within {DEPTH_MAX} others")]
    TooDeep(String),
    /// The run has evaluated too many nodes.
    #[error(
        "the run has come to {RUNS_MAX} nodes, with those of decisions and loops, and may come to no more"
    )]
    TooManyRuns,
    /// A value exceeds a size limit.
    #[error("{0}")]
    TooMuch(Excess),
    /// The input does not match the schema of the input node.
    #[error("{path}: {reason}")]
    InvalidInput {
        /// JSON Pointer to the wrong part, such as `/customer/age`; `/` for the whole value.
        path: String,
        /// The validator's message.
        reason: String,
    },
    /// The output does not match the schema of the output node.
    #[error("{path}: {reason}")]
    InvalidOutput {
        /// JSON Pointer to the wrong part, such as `/customer/age`; `/` for the whole value.
        path: String,
        /// The validator's message.
        reason: String,
    },
}
