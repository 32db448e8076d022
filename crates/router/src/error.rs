//! Errors when compiling rules.

use super::PatternError;

/// The rules cannot be compiled. Rules are identified by their index, from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouterError {
    /// A rule's path is not a pattern.
    #[error("`{path}` is not a route's path")]
    Pattern {
        /// The index of the rule.
        rule: usize,
        /// The rule's path.
        path: String,
        /// The error in the path.
        #[source]
        source: PatternError,
    },
    /// A rule's host is neither a name nor `*.` and a name.
    #[error(
        "`{host}` is not a host: expected a name such as `example.com` or `*.example.com`, without a port"
    )]
    Host {
        /// The index of the rule.
        rule: usize,
        /// The rule's host.
        host: String,
    },
    /// Two rules accept the same requests and neither is more specific.
    #[error("`{path}` answers {method} twice")]
    Conflict {
        /// Index of the earlier rule.
        first: usize,
        /// Index of the later rule.
        second: usize,
        /// The later rule's path.
        path: String,
        /// The method both accept; `every method` when neither names one.
        method: String,
    },
}
