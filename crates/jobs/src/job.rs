//! One job: its states, and what an attempt leads to.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Content, NewJob};

/// Longest pause between two attempts, unless the first one is longer already, or a handler asks for more.
pub const BACKOFF_MAX: Duration = Duration::from_hours(1);
/// Longest pause that a handler can ask for with `Retry-After`.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);
/// Minimum time for which failed jobs are kept.
pub const FAILED_KEPT: Duration = Duration::from_hours(30 * 24);
/// Attempts that the death of their process has cut off count as failed from this number on: the job itself may be the cause.
const INTERRUPTIONS_MAX: u32 = 10;
/// Longest stored error, in characters.
const ERROR_CHARS_MAX: usize = 1024;

/// The state of a job.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// It has not begun.
    Waiting,
    /// An attempt is in progress.
    Running,
    /// An attempt has failed or was cut off, and another one will follow.
    Retrying,
    /// It was done.
    Done,
    /// It is a dead letter: no attempt follows until it is retried by hand.
    Failed,
}

impl JobState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Waiting,
        Self::Running,
        Self::Retrying,
        Self::Done,
        Self::Failed,
    ];

    /// Its name: `waiting`, `running`, `retrying`, `done` or `failed`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// Whether no attempt will follow by itself.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed)
    }
}

/// Settings for the attempts of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Attempts that may fail before the job does.
    pub attempts: u32,
    /// Pause after the first failed attempt. It doubles each time, up to [`BACKOFF_MAX`].
    pub backoff: Duration,
    /// How long a job that is done is kept; a failed one is kept for [`FAILED_KEPT`] if that is longer.
    pub kept: Duration,
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handler has done it.
    Done(Content),
    /// It failed.
    Failed {
        /// Why, for people.
        error: String,
        /// The handler's response, if it gave one.
        response: Option<Content>,
        /// Whether another attempt would fail as well.
        is_final: bool,
        /// The pause that the handler asks for.
        retry_after: Option<Duration>,
    },
    /// It did not begin, or this server had to stop it: it does not count.
    NotBegun,
}

impl Outcome {
    /// A failure without a response; a final one would come with every attempt.
    pub fn failure(error: String, is_final: bool) -> Self {
        Self::Failed {
            error,
            response: None,
            is_final,
            retry_after: None,
        }
    }
}

/// A job as it is stored, without its request and its response. Times are milliseconds since 1970 UTC.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Random, and later ones sort after earlier ones.
    pub id: String,
    /// The name of its route.
    pub queue: String,
    /// Whether it waits, runs or is over.
    pub state: JobState,
    /// Attempts that have begun.
    pub attempts: u32,
    /// Those of them that failed.
    pub failures: u32,
    /// Attempts that the death of their process has cut off.
    #[serde(default)]
    pub interruptions: u32,
    /// When it was accepted.
    pub accepted_ms: u64,
    /// When the next attempt may begin, or the last one might have begun.
    pub due_ms: u64,
    /// When the last attempt began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_ms: Option<u64>,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Why the last failed attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The process that runs or ran the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The client that has asked for it; `None`: the route answers everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The client's key for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A digest of the request.
    pub digest: String,
    /// Bytes of the request.
    pub bytes: u64,
}

impl Job {
    /// A job that waits.
    pub fn new(new: &NewJob, now_ms: u64) -> Self {
        Self {
            id: new.id.clone(),
            queue: new.queue.clone(),
            state: JobState::Waiting,
            attempts: 0,
            failures: 0,
            interruptions: 0,
            accepted_ms: now_ms,
            due_ms: now_ms + new.delay_ms,
            begun_ms: None,
            ended_ms: None,
            error: None,
            owner: None,
            subject: new.subject.clone(),
            key: new.key.clone(),
            digest: new.digest.clone(),
            bytes: (new.request.head.len() + new.request.body.len()) as u64,
        }
    }

    /// Whether it may begin. One that was accepted without a delay does not wait for this clock if that of whoever accepted it is ahead.
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms <= now_ms.max(self.accepted_ms)
    }

    /// Begins an attempt.
    pub fn begin(&mut self, owner: &str, now_ms: u64) {
        self.state = JobState::Running;
        self.attempts += 1;
        self.begun_ms = Some(now_ms);
        self.owner = Some(owner.to_owned());
    }

    /// Whether this attempt of this process is in progress.
    pub fn is_attempt(&self, attempt: u32, owner: &str) -> bool {
        self.state == JobState::Running && self.attempts == attempt && self.owner.as_deref() == Some(owner)
    }

    /// Ends an attempt; `jitter` is a random number from 0 to 1. Returns the response to be kept.
    pub fn conclude(
        &mut self,
        outcome: Outcome,
        policy: &Policy,
        now_ms: u64,
        jitter: f64,
    ) -> Option<Content> {
        match outcome {
            Outcome::Done(response) => {
                self.state = JobState::Done;
                self.ended_ms = Some(now_ms);
                self.error = None;
                Some(response)
            }
            Outcome::NotBegun => {
                self.attempts -= 1;
                self.wait_again(now_ms);
                None
            }
            Outcome::Failed {
                error,
                response,
                is_final,
                retry_after,
            } => {
                self.failures += 1;
                self.error = Some(error.chars().take(ERROR_CHARS_MAX).collect());
                if is_final || self.failures >= policy.attempts {
                    self.state = JobState::Failed;
                    self.ended_ms = Some(now_ms);
                    return response;
                }
                let pause = backoff(policy.backoff, self.failures, jitter);
                let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
                self.wait_again(now_ms + pause.max(asked).as_millis() as u64);
                None
            }
        }
    }

    /// Ends an attempt whose process has died.
    pub fn interrupt(&mut self, now_ms: u64) {
        self.interruptions += 1;
        if self.interruptions >= INTERRUPTIONS_MAX {
            self.failures += 1;
            self.state = JobState::Failed;
            self.ended_ms = Some(now_ms);
            self.error = Some(format!(
                "the process that ran the job ended {INTERRUPTIONS_MAX} times, and the job may be the cause"
            ));
        } else {
            self.wait_again(now_ms);
        }
    }

    /// Has a job that is not running begin at once, with all its attempts before it.
    pub fn retry(&mut self, now_ms: u64) {
        self.failures = 0;
        self.interruptions = 0;
        self.ended_ms = None;
        self.wait_again(now_ms);
    }

    fn wait_again(&mut self, due_ms: u64) {
        self.state = if self.attempts == 0 {
            JobState::Waiting
        } else {
            JobState::Retrying
        };
        self.due_ms = due_ms;
        self.owner = None;
    }

    /// Until when a job that is over is kept.
    pub fn kept_until_ms(&self, policy: &Policy) -> Option<u64> {
        let kept = match self.state {
            JobState::Done => policy.kept,
            JobState::Failed => policy.kept.max(FAILED_KEPT),
            JobState::Waiting | JobState::Running | JobState::Retrying => return None,
        };
        Some(self.ended_ms? + kept.as_millis() as u64)
    }
}

/// The pause after this many failures: doubled for each but the first, and up to a quarter shorter or longer, so that jobs which failed
/// together do not come back together.
fn backoff(first: Duration, failures: u32, jitter: f64) -> Duration {
    let doubled = first.saturating_mul(1 << (failures - 1).min(31));
    doubled.min(BACKOFF_MAX.max(first)).mul_f64(0.75 + jitter / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy {
        attempts: 3,
        backoff: Duration::from_secs(10),
        kept: Duration::from_hours(24),
    };

    fn job() -> Job {
        let new = NewJob {
            id: "1".to_owned(),
            queue: "POST /q".to_owned(),
            subject: None,
            key: None,
            digest: String::new(),
            delay_ms: 0,
            request: Content::default(),
        };
        Job::new(&new, 0)
    }

    fn failed() -> Outcome {
        Outcome::failure("no".to_owned(), false)
    }

    #[test]
    fn pauses_double_up_to_an_hour_and_vary_by_a_quarter() {
        let first = Duration::from_secs(10);
        let pauses: Vec<u64> = (1..=12)
            .map(|failures| backoff(first, failures, 0.5).as_secs())
            .collect();
        assert_eq!(
            pauses,
            [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, 3600]
        );
        assert_eq!(backoff(first, 1, 0.0), Duration::from_millis(7_500));
        assert_eq!(backoff(first, 1, 1.0), Duration::from_millis(12_500));
        assert_eq!(backoff(Duration::from_hours(2), 9, 0.5), Duration::from_hours(2));
        assert_eq!(backoff(first, u32::MAX, 0.5), BACKOFF_MAX);
    }

    #[test]
    fn a_job_fails_once_its_attempts_are_used_up() {
        let mut job = job();
        for (attempt, due_ms) in [(1, 10_000), (2, 20_000)] {
            job.begin("a", 0);
            assert!(job.is_attempt(attempt, "a") && !job.is_attempt(attempt, "b"));
            job.conclude(failed(), &POLICY, 0, 0.5);
            assert_eq!((job.state, job.due_ms), (JobState::Retrying, due_ms));
        }
        job.begin("a", 0);
        job.conclude(failed(), &POLICY, 5, 0.5);
        assert_eq!((job.state, job.ended_ms), (JobState::Failed, Some(5)));
        assert_eq!(
            job.kept_until_ms(&POLICY),
            Some(5 + FAILED_KEPT.as_millis() as u64)
        );
    }

    #[test]
    fn a_final_failure_takes_one_attempt_and_keeps_the_response() {
        let mut job = job();
        job.begin("a", 0);
        let outcome = Outcome::Failed {
            error: "e".repeat(2000),
            response: Some(Content::default()),
            is_final: true,
            retry_after: None,
        };
        assert!(job.conclude(outcome, &POLICY, 1, 0.5).is_some());
        assert_eq!(job.state, JobState::Failed);
        assert_eq!(job.error.as_deref().map(str::len), Some(ERROR_CHARS_MAX));
    }

    #[test]
    fn a_handler_may_ask_for_a_longer_pause_and_not_for_a_shorter_one() {
        for (seconds, due_ms) in [(1, 10_000), (100, 100_000), (1_000_000, 86_400_000)] {
            let mut job = job();
            job.begin("a", 0);
            let outcome = Outcome::Failed {
                error: String::new(),
                response: None,
                is_final: false,
                retry_after: Some(Duration::from_secs(seconds)),
            };
            job.conclude(outcome, &POLICY, 0, 0.5);
            assert_eq!(job.due_ms, due_ms);
        }
    }

    #[test]
    fn a_job_without_a_delay_does_not_wait_for_a_clock_that_is_behind() {
        let mut job = job();
        (job.accepted_ms, job.due_ms) = (60_000, 60_000);
        assert!(job.is_due(0));
        job.due_ms = 60_001;
        assert!(!job.is_due(60_000) && job.is_due(60_001));
    }

    #[test]
    fn what_did_not_begin_does_not_count_and_a_death_counts_only_when_it_repeats() {
        let mut job = job();
        job.begin("a", 0);
        job.conclude(Outcome::NotBegun, &POLICY, 7, 0.5);
        assert_eq!((job.state, job.attempts, job.due_ms), (JobState::Waiting, 0, 7));
        for _ in 1..INTERRUPTIONS_MAX {
            job.begin("a", 0);
            job.interrupt(9);
            assert_eq!((job.state, job.failures, job.due_ms), (JobState::Retrying, 0, 9));
        }
        job.begin("a", 0);
        job.interrupt(9);
        assert_eq!(job.state, JobState::Failed);
        // It has as many again once it is retried by hand.
        job.retry(9);
        job.begin("a", 0);
        job.interrupt(9);
        assert_eq!(job.state, JobState::Retrying);
    }
}
