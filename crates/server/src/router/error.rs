//! Why a set of rules makes no router.

use super::PatternError;

/// Why a set of rules makes no router. Rules are named by their position, from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouterError {
    /// A rule's path is not a pattern.
    #[error("`{path}` is not a route's path")]
    Pattern {
        /// The rule.
        rule: usize,
        /// Its path.
        path: String,
        /// What is wrong with it.
        #[source]
        source: PatternError,
    },
    /// A rule's host is neither a name nor `*.` and a name.
    #[error(
        "`{host}` is not a host: expected a name such as `example.com` or `*.example.com`, without a port"
    )]
    Host {
        /// The rule.
        rule: usize,
        /// Its host.
        host: String,
    },
    /// Two rules accept the same requests and neither is more specific.
    #[error("`{path}` answers {method} twice")]
    Conflict {
        /// The earlier rule.
        first: usize,
        /// The later rule.
        second: usize,
        /// The later rule's path.
        path: String,
        /// The method both accept; `every method` when neither names one.
        method: String,
    },
}
