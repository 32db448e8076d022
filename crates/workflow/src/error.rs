//! What can be wrong with a definition.

use thiserror::Error;

/// A definition that cannot be read: the first thing that is wrong with its JSON.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DefinitionError {
    /// It is no JSON.
    #[error("line {line}, column {column}: {reason}")]
    Json {
        /// Where, from 1.
        line: usize,
        /// Where in the line, from 1.
        column: usize,
        /// What the parser says.
        reason: String,
    },
    /// A member is not there.
    #[error("{at}: `{member}` is missing")]
    Missing {
        /// Which object, such as `nodes[3]`.
        at: String,
        /// Its member.
        member: &'static str,
    },
    /// A member has a value that it cannot have.
    #[error("{at}.{member}: found {found}, expected {expected}")]
    Unexpected {
        /// Which object, such as `nodes[3]`.
        at: String,
        /// Its member.
        member: String,
        /// What is there, shortened.
        found: String,
        /// What may be there.
        expected: &'static str,
    },
    /// It has a member that it cannot have.
    #[error("{at}: `{member}` is not known; accepted are {accepted}")]
    Unknown {
        /// Which object, such as `nodes[3]`.
        at: String,
        /// Its member.
        member: String,
        /// The members that it may have.
        accepted: String,
    },
    /// There is more than may be.
    #[error("{what}: {found}, at most {max}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        max: usize,
    },
}

/// What is wrong with a graph whose definition could be read. A graph may have many.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    /// Nothing to run.
    #[error("the graph has no node BOOT, with which it begins")]
    NoBoot,
    /// Two beginnings.
    #[error("node `{node}` is a second BOOT: a graph has one")]
    SecondBoot {
        /// The second one.
        node: String,
    },
    /// Two nodes of one name.
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
    /// A node that is reached on two ways.
    #[error("node `{node}` comes after both `{first}` and `{second}`: a node comes after one")]
    SeveralParents {
        /// It.
        node: String,
        /// The first that leads there.
        first: String,
        /// The second.
        second: String,
    },
    /// Something before the beginning.
    #[error("the edge from `{from}` to `{boot}`: nothing comes before BOOT")]
    BeforeBoot {
        /// What is before it.
        from: String,
        /// The beginning.
        boot: String,
    },
    /// A node behind itself.
    #[error("node `{node}` comes after itself: {way}")]
    Cycle {
        /// It.
        node: String,
        /// The way there and back, such as `a -> b -> a`.
        way: String,
    },
    /// A node that no run comes to.
    #[error("node `{node}` is not reached from BOOT")]
    Orphan {
        /// It.
        node: String,
    },
    /// A node that goes on with one other has several.
    #[error("node `{node}` ({kind}) goes on with both `{first}` and `{second}`: it can go on with one")]
    SeveralSuccessors {
        /// It.
        node: String,
        /// Its kind.
        kind: &'static str,
        /// The first that comes after it.
        first: String,
        /// The second.
        second: String,
    },
    /// A node that has to go on does not.
    #[error("node `{node}` ({kind}) has nothing after it")]
    NoSuccessor {
        /// It.
        node: String,
        /// Its kind.
        kind: &'static str,
    },
    /// A node that ends a branch goes on.
    #[error("node `{node}` (RUN) ends its branch: `{next}` after it would never run")]
    BehindRun {
        /// It.
        node: String,
        /// What comes after it.
        next: String,
    },
    /// Children in no order.
    #[error(
        "node `{node}` has no `priority`: `{parent}` has several children, which run in the order of their priorities"
    )]
    NoPriority {
        /// It.
        node: String,
        /// Its parent.
        parent: String,
    },
    /// Children in no certain order.
    #[error("nodes `{first}` and `{second}` have the same priority {priority} under `{parent}`")]
    SamePriority {
        /// Their parent.
        parent: String,
        /// One.
        first: String,
        /// The other.
        second: String,
        /// What both have.
        priority: i64,
    },
    /// NOT of more than one.
    #[error("node `{node}` (LOGICAL NOT) has {count} children: it negates one")]
    SeveralNegated {
        /// It.
        node: String,
        /// How many it has.
        count: usize,
    },
    /// Two ways for one case.
    #[error("node `{node}` (SWITCH) goes on with both `{first}` and `{second}` in {case}")]
    SameCase {
        /// It.
        node: String,
        /// The case, as it is told.
        case: String,
        /// Where it leads.
        first: String,
        /// And where else.
        second: String,
    },
    /// A case where nothing is chosen.
    #[error("the edge from `{from}` to `{to}` is for the case `{case}`, but `{from}` ({kind}) is no SWITCH")]
    CaseWithoutSwitch {
        /// Where it begins.
        from: String,
        /// Where it ends.
        to: String,
        /// The kind of the node where it begins.
        kind: &'static str,
        /// The case.
        case: String,
    },
    /// A rule that is not there.
    #[error("node `{node}`: there is no rule `{rule}`")]
    NoSuchRule {
        /// It.
        node: String,
        /// What it names.
        rule: String,
    },
    /// Nodes too far below one another.
    #[error("node `{node}` is more than {max} nodes behind BOOT")]
    TooDeep {
        /// The first that is.
        node: String,
        /// How far one may be.
        max: usize,
    },
}
