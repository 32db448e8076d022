//! The operations on releases: checking, testing, publishing. They block on the storage and on tests.

use std::{collections::BTreeMap, error::Error, fmt, io, path::Path, pin::Pin, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Actor, BundleErrors, Evaluator, Offline, OfflineError, ReleaseError, Releases, RolledBack, Tested,
    WorkflowFiles, place_of_release,
};

/// Longest time of all stored tests of a release together.
const TESTS_TIME_MAX: Duration = Duration::from_mins(10);

/// Completes once the client has gone.
pub type Abandoned<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Checks and starts releases with the limits and permissions of a configuration.
pub trait ReleaseEnvironment: fmt::Debug + Send + Sync + 'static {
    /// Evaluates the rules.
    type Evaluator: Evaluator;

    /// Checks files; error messages prefix their paths with `place`. Returns warnings.
    ///
    /// # Errors
    /// Every error in the files.
    fn check(&self, files: &WorkflowFiles, place: &Path) -> Result<Vec<String>, BundleErrors>;

    /// Starts an engine for files that have been checked.
    ///
    /// # Errors
    /// If it cannot be started.
    fn start(
        &self,
        files: &WorkflowFiles,
        place: &Path,
    ) -> Result<Offline<Self::Evaluator>, Box<dyn Error + Send + Sync>>;
}

/// Releases, with what they are checked and tested with.
#[derive(Debug)]
pub struct ReleaseService<C> {
    releases: Releases,
    environment: C,
}

/// A new release.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// Texts by the files' paths.
    files: BTreeMap<String, String>,
    #[serde(default)]
    note: String,
}

/// How a release is to be published.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// The share of the runs; `None`: all.
    percent: Option<serde_json::Number>,
}

/// The new state of a release.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    state: StageName,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum StageName {
    Draft,
    Test,
}

/// The outcomes of stored tests.
#[derive(Debug, Default)]
struct Outcomes {
    all: Vec<Value>,
    failed: Vec<Value>,
}

/// Why an operation on releases failed.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseServiceError {
    /// A member of the input that cannot be used.
    #[error("{what}")]
    Malformed {
        /// The member, what was found, and what is accepted.
        what: String,
    },
    /// The release is missing, or does not allow the operation now.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// The files of the release have errors.
    #[error(transparent)]
    Faults(#[from] BundleErrors),
    /// The engine for tests cannot be started.
    #[error(transparent)]
    Start(Box<dyn Error + Send + Sync>),
    /// Stored tests cannot be run.
    #[error(transparent)]
    Run(#[from] OfflineError),
    /// Stored tests of a release that was to be published failed.
    #[error("{failed} of {count} stored tests do not hold, and release {release} is not published")]
    Tests {
        /// The release that was to be published.
        release: u64,
        /// Number of its tests.
        count: usize,
        /// Number of those that failed.
        failed: usize,
        /// The failed ones, as [`ReleaseService::test`] returns them.
        tests: Vec<Value>,
    },
    /// The stored tests took too long.
    #[error("the stored tests did not end within {max:?}")]
    Time {
        /// The time limit.
        max: Duration,
    },
    /// The client left before the stored tests had ended.
    #[error("the client has left")]
    Abandoned,
    /// The runtime for tests cannot be started.
    #[error("the stored tests cannot be started: {0}")]
    Runtime(io::Error),
}

type Answer = Result<Value, ReleaseServiceError>;

/// Parses a share of the runs in percent, such as `10` or `0.5`, into ten-thousandths. `None`: it is not 0.01 to 99.99 with at most two
/// decimals.
pub fn percent_of(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_plain(whole) || !is_plain(part) || part.len() > 2 {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let part: u32 = format!("{part:0<2}").parse().ok()?;
    let share = whole.saturating_mul(100).saturating_add(part);
    (1..10_000).contains(&share).then_some(share)
}

impl<C: ReleaseEnvironment> ReleaseService<C> {
    /// These releases, checked and tested with `environment`.
    pub fn new(releases: Releases, environment: C) -> Self {
        Self {
            releases,
            environment,
        }
    }

    /// Describes all releases, and which of them are in force.
    ///
    /// # Errors
    /// If the storage cannot be read.
    pub fn list(&self) -> Answer {
        let (standing, list) = (self.releases.standing()?, self.releases.list()?);
        let list: Vec<_> = list
            .iter()
            .map(|(number, about, state)| json!({"release": number, "state": state, "about": about}))
            .collect();
        Ok(json!({
            "global": self.releases.global(), "published": standing.published, "canary": standing.canary,
            "before": standing.before, "releases": list,
        }))
    }

    /// Describes a release with its state.
    ///
    /// # Errors
    /// If there is none of this number.
    pub fn describe(&self, number: u64) -> Answer {
        let about = self.releases.about(number)?;
        let state = self.releases.standing()?.state_of(number, &about);
        Ok(json!({"release": number, "state": state, "about": about}))
    }

    /// The newest changes, at most `count`.
    ///
    /// # Errors
    /// If the storage cannot be read.
    pub fn log(&self, count: usize) -> Answer {
        Ok(json!({ "entries": self.releases.log(count)? }))
    }

    /// The texts of a release by their paths.
    ///
    /// # Errors
    /// If there is none of this number.
    pub fn files(&self, number: u64) -> Answer {
        let files = self.releases.files(number)?;
        Ok(files
            .iter()
            .map(|(path, text)| (path.to_owned(), Value::from(text)))
            .collect())
    }

    /// Stores a draft and checks it; returns its number as well.
    ///
    /// # Errors
    /// If a file is not one of workflows, or there is no room.
    pub fn import(&self, draft: Draft, actor: &Actor<'_>) -> Result<(u64, Value), ReleaseServiceError> {
        let mut files = WorkflowFiles::default();
        for (path, text) in draft.files {
            files
                .add(&path, text)
                .map_err(|reason| ReleaseServiceError::Malformed {
                    what: format!("body: file {path:?}: {reason}"),
                })?;
        }
        let number = self.releases.import(&files, &draft.note, actor)?;
        Ok((number, self.checked(number, &files)))
    }

    /// Checks a release. Returns its errors (`faults`) and warnings.
    ///
    /// # Errors
    /// If there is none of this number.
    pub fn check(&self, number: u64) -> Answer {
        Ok(self.checked(number, &self.releases.files(number)?))
    }

    fn checked(&self, number: u64, files: &WorkflowFiles) -> Value {
        let checked = self.environment.check(files, &place_of_release(number));
        let workflows: Vec<&str> = files.workflows().collect();
        let (warnings, faults) = match checked {
            Ok(warnings) => (warnings, None),
            Err(faults) => (Vec::new(), Some(faults.to_string())),
        };
        json!({"release": number, "workflows": workflows, "files": files.len(), "faults": faults, "warnings": warnings})
    }

    /// Runs the stored tests of a release, until `abandoned` completes.
    ///
    /// # Errors
    /// If they cannot be run to their end.
    pub fn test(&self, number: u64, abandoned: Abandoned<'_>) -> Answer {
        let outcomes = self.run_tests(number, abandoned)?;
        Ok(json!({"release": number, "failed": outcomes.failed.len(), "tests": outcomes.all}))
    }

    fn run_tests(&self, number: u64, abandoned: Abandoned<'_>) -> Result<Outcomes, ReleaseServiceError> {
        let files = self.releases.files(number)?;
        let place = place_of_release(number);
        self.environment.check(&files, &place)?;
        let offline = self.environment.start(&files, &place);
        let offline = offline.map_err(ReleaseServiceError::Start)?;
        let mut outcomes = Outcomes::default();
        let tests = offline.test(|Tested { test, differences }| {
            let outcome = json!({"file": test.file, "name": test.name, "workflow": test.workflow, "differences": differences});
            if !differences.is_empty() {
                outcomes.failed.push(outcome.clone());
            }
            outcomes.all.push(outcome);
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ReleaseServiceError::Runtime)?;
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = abandoned => Err(ReleaseServiceError::Abandoned),
                tested = tokio::time::timeout(TESTS_TIME_MAX, tests) => match tested {
                    Ok(tested) => Ok(tested?),
                    Err(_) => Err(ReleaseServiceError::Time { max: TESTS_TIME_MAX }),
                },
            }
        })?;
        Ok(outcomes)
    }

    /// Publishes a release, for all runs or a share of them, once its stored tests hold; nothing is published once `abandoned` completes.
    ///
    /// # Errors
    /// If a test fails or cannot be run, or the state of the release does not allow it.
    pub fn publish(
        &self,
        number: u64,
        publication: &Publication,
        actor: &Actor<'_>,
        abandoned: Abandoned<'_>,
    ) -> Answer {
        let share = publication.percent.as_ref().map(|percent| {
            percent_of(&percent.to_string()).ok_or_else(|| ReleaseServiceError::Malformed {
                what: format!(
                    "body: percent: found {percent}, expected 0.01 to 99.99 with at most two decimals"
                ),
            })
        });
        let share = share.transpose()?;
        let Outcomes { all, failed } = self.run_tests(number, abandoned)?;
        if !failed.is_empty() {
            return Err(ReleaseServiceError::Tests {
                release: number,
                count: all.len(),
                failed: failed.len(),
                tests: failed,
            });
        }
        let before = self
            .releases
            .standing()?
            .published
            .filter(|before| *before != number);
        match share {
            Some(share) => self.releases.publish_share(number, share, actor)?,
            None => self.releases.publish(number, actor)?,
        }
        Ok(json!({"release": number, "percent": publication.percent, "before": before, "tests": all.len()}))
    }

    /// Makes a release available by its number, or a draft again.
    ///
    /// # Errors
    /// If its files have errors, or its state does not allow it.
    pub fn set_state(&self, number: u64, stage: Stage, actor: &Actor<'_>) -> Answer {
        let is_for_test = stage.state == StageName::Test;
        if is_for_test {
            let files = self.releases.files(number)?;
            self.environment.check(&files, &place_of_release(number))?;
        }
        self.releases.set_test(number, is_for_test, actor)?;
        self.describe(number)
    }

    /// Takes back what was published last.
    ///
    /// # Errors
    /// If there is nothing before it.
    pub fn rollback(&self, actor: &Actor<'_>) -> Answer {
        Ok(match self.releases.rollback(actor)? {
            RolledBack::Canary { release } => json!({ "canary": release }),
            RolledBack::Published { from, to } => json!({"from": from, "to": to}),
        })
    }

    /// Removes a release that is not in use; with `former`, also one that was published.
    ///
    /// # Errors
    /// If it is in use, or was published.
    pub fn discard(&self, number: u64, former: bool, actor: &Actor<'_>) -> Result<(), ReleaseServiceError> {
        Ok(self.releases.discard(number, former, actor)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_and_bounded() {
        for (text, found) in [
            ("10", 1000),
            ("0.5", 50),
            ("0.01", 1),
            ("99.99", 9999),
            ("1.20", 120),
        ] {
            assert_eq!(percent_of(text), Some(found), "{text}");
        }
        for text in [
            "",
            ".",
            "0",
            "100",
            "-1",
            "1.234",
            "1.",
            "ten",
            "99999999999",
            "4294967295",
        ] {
            assert_eq!(percent_of(text), None, "{text}");
        }
    }
}
