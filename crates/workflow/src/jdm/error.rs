//! What can be wrong with a document, and why a run may fail.

use std::fmt;

use thiserror::Error;

use super::{
    program::Fault,
    run::{DEPTH_MAX, RUNS_MAX},
    value::{Excess, ITEMS_MAX},
};

/// What is wrong with a document that could be read. A document may have many.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    /// Nothing to begin with.
    #[error("the document has no inputNode, with which a run begins")]
    NoInput,
    /// Two beginnings.
    #[error("node `{node}` is a second inputNode: a document has one")]
    SecondInput {
        /// The second one.
        node: String,
    },
    /// Two nodes of one id.
    #[error("node `{node}` is there twice")]
    Twice {
        /// Their id.
        node: String,
    },
    /// An edge that leads nowhere.
    #[error("the edge from `{from}` to `{to}`: there is no node `{missing}`")]
    NoSuchNode {
        /// Where it begins.
        from: String,
        /// Where it ends.
        to: String,
        /// Which of the two is not there.
        missing: String,
    },
    /// A node behind itself.
    #[error("node `{node}` comes after itself: {way}")]
    Cycle {
        /// It.
        node: String,
        /// The way there and back, such as `a -> b -> a`.
        way: String,
    },
    /// An edge that leaves a switch by a way that the switch does not have.
    #[error("the edge from `{from}` to `{to}`: the switch has no statement `{statement}`")]
    NoSuchStatement {
        /// The switch.
        from: String,
        /// Where the edge ends.
        to: String,
        /// What it names (`sourceHandle`).
        statement: String,
    },
    /// An edge that leaves a switch by no way.
    #[error("the edge from `{from}` to `{to}`: it names no statement of the switch (sourceHandle)")]
    NoStatement {
        /// The switch.
        from: String,
        /// Where the edge ends.
        to: String,
    },
    /// Two ways of one id.
    #[error("node `{node}`: statement `{statement}` is there twice")]
    SameStatement {
        /// The switch.
        node: String,
        /// Their id.
        statement: String,
    },
    /// An expression that cannot be compiled.
    #[error("node `{node}`, {place}: `{text}`: {reason}")]
    Expression {
        /// The node.
        node: String,
        /// Where in it, such as "row 3, column `country`".
        place: String,
        /// The expression, shortened.
        text: String,
        /// What the compiler says.
        reason: String,
    },
    /// A decision that is not there.
    #[error("node `{node}`: there is no decision `{key}`")]
    NoSuchDecision {
        /// The node.
        node: String,
        /// What it names.
        key: String,
    },
    /// A JSON Schema that is none.
    #[error("node `{node}`: its schema: {reason}")]
    Schema {
        /// The node.
        node: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A run has failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("node `{node}` failed: {cause}")]
pub struct RunError<F: fmt::Display> {
    /// Where: the id of the node, behind those whose decisions it is in, as in `7/2`.
    pub node: String,
    /// Why.
    pub cause: Cause<F>,
}

/// Why a node has failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Cause<F: fmt::Display> {
    /// Its function has, or what the host does for it.
    #[error("{0}")]
    Function(F),
    /// One of its expressions has.
    #[error("`{text}`: {fault}")]
    Expression {
        /// The expression, shortened.
        text: String,
        /// Why.
        fault: Fault,
    },
    /// It is to work on each item of something that has none.
    #[error("it goes over each item of a list, but was given {0}")]
    NoList(&'static str),
    /// A list is too long.
    #[error("its list has {0} items, at most {ITEMS_MAX}")]
    TooManyItems(usize),
    /// There is no decision of this key.
    #[error("there is no decision `{0}`")]
    NoSuchDecision(String),
    /// Too many decisions are evaluated within one another.
    #[error("decision `{0}` would be evaluated within {DEPTH_MAX} others")]
    TooDeep(String),
    /// A run goes on and on.
    #[error(
        "the run has come to {RUNS_MAX} nodes, with those of decisions and loops, and may come to no more"
    )]
    TooManyRuns,
    /// A value is more than one may be.
    #[error("{0}")]
    TooMuch(Excess),
    /// A value does not satisfy the schema.
    #[error("{path}: {reason}")]
    Invalid {
        /// Where in the value, such as `/customer/age`; `/` for all of it.
        path: String,
        /// What the schema says.
        reason: String,
    },
}
