//! The descriptions of releases, the runs that each of them gets, and the log of changes.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

/// Description of a release.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// Time of creation, in milliseconds since 1970 UTC.
    pub created_ms: u64,
    /// Name of the actor who created it.
    pub by: String,
    /// The actor's note, or empty.
    #[serde(default)]
    pub note: String,
    /// Number of files.
    pub files: usize,
    /// Total length of the files in bytes.
    pub bytes: usize,
    /// Whether it is or once was published.
    #[serde(default)]
    pub was_published: bool,
}

/// Assignment of releases to runs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReleaseAssignments {
    /// The release that runs get by default.
    pub published: Option<u64>,
    /// Previously published releases, the most recent last.
    pub before: Vec<u64>,
    /// The release that gets a share of the runs.
    pub canary: Option<Canary>,
    /// Releases that runs get only if they are requested by number.
    pub test: BTreeSet<u64>,
}

/// A release that gets a share of the runs.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Canary {
    /// Number of the release.
    pub release: u64,
    /// Its share: so many of ten thousand runs.
    pub per_ten_thousand: u32,
}

impl fmt::Display for Canary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}%", f64::from(self.per_ten_thousand) / 100.0)
    }
}

/// Current state of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Cannot be reached by requests.
    Draft,
    /// Can be requested by number.
    Test,
    /// Gets a share of the runs.
    Canary,
    /// Runs get it by default.
    Published,
    /// Was published once.
    Former,
}

impl State {
    /// The state's name, as lists show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Test => "test",
            Self::Canary => "canary",
            Self::Published => "published",
            Self::Former => "former",
        }
    }
}

impl ReleaseAssignments {
    /// The state of a release.
    pub fn state_of(&self, number: u64, about: &About) -> State {
        if self.published == Some(number) {
            State::Published
        } else if self.canary.is_some_and(|canary| canary.release == number) {
            State::Canary
        } else if self.test.contains(&number) {
            State::Test
        } else if about.was_published {
            State::Former
        } else {
            State::Draft
        }
    }

    /// Numbers of all releases that a server has to load.
    pub(super) fn numbers(&self) -> BTreeSet<u64> {
        let mut numbers = self.test.clone();
        numbers.extend(self.published);
        numbers.extend(self.canary.map(|canary| canary.release));
        numbers
    }
}

/// An entry of the audit log.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// Time of the change, in milliseconds since 1970 UTC.
    pub at_ms: u64,
    /// Name of the actor.
    pub by: String,
    /// The kind of change, such as `publish`.
    pub what: String,
    /// Number of the release it concerns.
    pub release: u64,
    /// Further details, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// The author and the time of a change.
#[derive(Clone, Debug)]
pub struct Actor<'a> {
    /// Name of the author.
    pub by: &'a str,
    /// Time of the change, in milliseconds since 1970 UTC.
    pub at_ms: u64,
}

/// Result of a rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolledBack {
    /// The canary has lost its share; the published release stays.
    Canary {
        /// Number of the canary.
        release: u64,
    },
    /// The previous release is published again.
    Published {
        /// The release that was published.
        from: u64,
        /// The release that is published now.
        to: u64,
    },
}
