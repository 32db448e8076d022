//! Why a file is no scenario.

use crate::request::Flaw;

/// Why a text is no scenario.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Not JSON.
    #[error("the scenario is not JSON: {what}")]
    Json {
        /// What is wrong, and where.
        what: String,
    },
    /// A key that means nothing.
    #[error("{place}: `{key}` is not known; accepted are {accepted}")]
    Key {
        /// Where it stands.
        place: String,
        /// The key.
        key: String,
        /// What could stand there.
        accepted: String,
    },
    /// A value of the wrong kind.
    #[error("{place}: {key} is {found}; accepted is {accepted}")]
    Value {
        /// Where it stands.
        place: String,
        /// Its key.
        key: String,
        /// What it is.
        found: String,
        /// What it could be.
        accepted: &'static str,
    },
    /// More than is kept.
    #[error("the scenario has more than {max} {what}")]
    TooMany {
        /// `steps` or `variables`.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// A step that goes elsewhere.
    #[error("{place}: {url} is on another server than {origin}; a scenario stays on one")]
    Origin {
        /// Where it stands.
        place: String,
        /// Where it goes.
        url: String,
        /// The server of the run.
        origin: String,
    },
    /// One of its requests is wrong.
    #[error("{place}")]
    At {
        /// Where it stands.
        place: String,
        /// What is wrong.
        #[source]
        source: Flaw,
    },
}
