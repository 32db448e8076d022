//! Errors in a definition.

use thiserror::Error;

/// A definition that cannot be read: the first error in its JSON.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DefinitionError {
    /// The text is not JSON.
    #[error("line {line}, column {column}: {reason}")]
    Json {
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
        /// The parser's message.
        reason: String,
    },
    /// A required member is missing.
    #[error("{at}: `{member}` is missing")]
    Missing {
        /// The object, such as `nodes[3]`.
        at: String,
        /// The name of the member.
        member: &'static str,
    },
    /// A member has a value that is not accepted.
    #[error("{at}.{member}: found {found}, expected {expected}")]
    Unexpected {
        /// The object, such as `nodes[3]`.
        at: String,
        /// The name of the member.
        member: String,
        /// The value found, shortened.
        found: String,
        /// The values that are accepted.
        expected: &'static str,
    },
    /// An object has an unknown member.
    #[error("{at}: `{member}` is not known; accepted are {accepted}")]
    Unknown {
        /// The object, such as `nodes[3]`.
        at: String,
        /// The name of the member.
        member: String,
        /// The names that are accepted.
        accepted: String,
    },
    /// A limit is exceeded.
    #[error("{what}: {found}, at most {max}")]
    TooMany {
        /// Names the things that are limited.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// The greatest number that is allowed.
        max: usize,
    },
}

/// A problem in a graph whose definition could be read. A graph may have several.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    /// The graph has no BOOT node.
    #[error("the graph has no node BOOT, with which it begins")]
    NoBoot,
    /// There is more than one BOOT node.
    #[error("node `{node}` is a second BOOT: a graph has one")]
    SecondBoot {
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
    /// A node has more than one parent.
    #[error("node `{node}` comes after both `{first}` and `{second}`: a node comes after one")]
    SeveralParents {
        /// The node with several parents.
        node: String,
        /// The source of the first edge to it.
        first: String,
        /// The source of the second edge to it.
        second: String,
    },
    /// An edge leads to BOOT.
    #[error("the edge from `{from}` to `{boot}`: nothing comes before BOOT")]
    BeforeBoot {
        /// The source of the edge.
        from: String,
        /// The id of the BOOT node.
        boot: String,
    },
    /// A node can be reached from itself.
    #[error("node `{node}` comes after itself: {way}")]
    Cycle {
        /// One of its nodes.
        node: String,
        /// The path around the cycle, such as `a -> b -> a`.
        way: String,
    },
    /// A node that is not reachable from BOOT.
    #[error("node `{node}` is not reached from BOOT")]
    Orphan {
        /// The id of the node.
        node: String,
    },
    /// A node has several successors where its kind allows only one.
    #[error("node `{node}` ({kind}) goes on with both `{first}` and `{second}`: it can go on with one")]
    SeveralSuccessors {
        /// The id of the node.
        node: String,
        /// The kind of the node.
        kind: &'static str,
        /// Its first successor.
        first: String,
        /// Its second successor.
        second: String,
    },
    /// A node of this kind needs a successor, and has none.
    #[error("node `{node}` ({kind}) has nothing after it")]
    NoSuccessor {
        /// The id of the node.
        node: String,
        /// The kind of the node.
        kind: &'static str,
    },
    /// A RUN node, which ends its branch, has a successor.
    #[error("node `{node}` (RUN) ends its branch: `{next}` after it would never run")]
    BehindRun {
        /// The id of the RUN node.
        node: String,
        /// The node that would follow it.
        next: String,
    },
    /// A child has no priority although it has siblings.
    #[error(
        "node `{node}` has no `priority`: `{parent}` has several children, which run in the order of their priorities"
    )]
    NoPriority {
        /// The id of the child.
        node: String,
        /// The id of its parent.
        parent: String,
    },
    /// Two children of the same parent have the same priority.
    #[error("nodes `{first}` and `{second}` have the same priority {priority} under `{parent}`")]
    SamePriority {
        /// The id of the parent.
        parent: String,
        /// The id of one child.
        first: String,
        /// The id of the other child.
        second: String,
        /// The priority they share.
        priority: i64,
    },
    /// A LOGICAL NOT has more than one child.
    #[error("node `{node}` (LOGICAL NOT) has {count} children: it negates one")]
    SeveralNegated {
        /// The id of the LOGICAL NOT node.
        node: String,
        /// The number of its children.
        count: usize,
    },
    /// A SWITCH has two edges for the same case.
    #[error("node `{node}` (SWITCH) goes on with both `{first}` and `{second}` in {case}")]
    SameCase {
        /// The id of the SWITCH.
        node: String,
        /// The case, worded for the message.
        case: String,
        /// The target of the first edge.
        first: String,
        /// The target of the second edge.
        second: String,
    },
    /// An edge has a case, but its source is not a SWITCH.
    #[error("the edge from `{from}` to `{to}` is for the case `{case}`, but `{from}` ({kind}) is no SWITCH")]
    CaseWithoutSwitch {
        /// The source of the edge.
        from: String,
        /// The target of the edge.
        to: String,
        /// The kind of the source node.
        kind: &'static str,
        /// The case on the edge.
        case: String,
    },
    /// Nothing gives the list of a LOOP.
    #[error(
        "node `{node}` (LOOP): nothing gives `{over}`: `over` begins with `args`, with `last` behind a rule, or with `item` within another LOOP"
    )]
    NoList {
        /// The id of the LOOP.
        node: String,
        /// Where it expects the list.
        over: String,
    },
    /// A node names a rule that does not exist.
    #[error("node `{node}`: there is no rule `{rule}`")]
    NoSuchRule {
        /// The id of the node.
        node: String,
        /// The missing rule.
        rule: String,
    },
    /// A path is too long.
    #[error("node `{node}` is more than {max} nodes behind BOOT")]
    TooDeep {
        /// The first node beyond the limit.
        node: String,
        /// The greatest distance from BOOT that is allowed.
        max: usize,
    },
}
