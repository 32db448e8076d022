//! The queue of a program that is no server, for other languages: commands, whose arguments and answers are JSON.
//!
//! **Who may run the jobs of a queue.** The name of a program's queue has no `/`, and that of a route has one, so a server leaves it alone, and
//! a program the jobs of routes. One program at a time has a queue: it holds a lock of the store while it lives, and the queue's record names it. Each batch checks
//! that record, so a program that has lost its lock (in a database, after it was suspended for too long) can begin and end nothing once another one has the queue.

use std::{collections::HashMap, time::Duration};

use forebay_store::{
    Key, Locks, Read, Reader, Transaction,
    facade::{Session, SessionError, operations::Refused},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Candidate, Change, Changed, Content, Job, JobError, JobState, NewJob, Outcome, Policy, QueueLimits,
    StoredContent,
    change::{Tally, accept},
    is_of_route, listed, report, shown,
    tree::{find, key, list, next_due, read, request, response, totals, write},
};

/// Longest name of a queue, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// Once the jobs that a batch begins have this many bytes, the next one begins the others.
const BEGUN_BYTES_MAX: u64 = 16 << 20;
/// How long a key stands for a job that is done, unless the program says otherwise.
const KEYED_KEPT: Duration = Duration::from_hours(24);
/// Most dead letters in a list.
const LISTED_MAX: usize = 10_000;

/// The queues that one thread of a program has open.
#[derive(Debug, Default)]
pub struct ProgramQueues {
    /// Their locks, which last as long as these.
    open: HashMap<String, Locks>,
}

/// Names of a queue, its program and the time of a command, in milliseconds since 1970 UTC.
#[derive(Clone, Copy, Debug)]
pub struct CommandOf<'a> {
    /// Name of the queue.
    pub queue: &'a str,
    /// The program: a text that no other one has.
    pub owner: &'a str,
    /// The time.
    pub now_ms: u64,
}

/// The argument of `batch`: messages and ends since the last one, and the room for attempts to begin.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Batch {
    accepted: Vec<NewMessage>,
    ended: Vec<EndedAttempt>,
    open_max: u64,
    room: usize,
    attempts: u32,
    backoff_ms: u64,
    /// How long done jobs are kept; without it, [`KEYED_KEPT`] those with a key, and no others.
    kept_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewMessage {
    id: String,
    key: Option<String>,
    delay_ms: u64,
    /// A key belongs to one type and body.
    #[serde(rename = "type")]
    message_type: String,
    request: StoredContent,
}

/// An attempt that was done, that failed, or without either did not begin.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EndedAttempt {
    id: String,
    attempt: u32,
    /// The message's own number of attempts.
    attempts: Option<u32>,
    jitter: f64,
    done: Option<StoredContent>,
    failed: Option<FailedAttempt>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FailedAttempt {
    error: String,
    code: String,
    is_final: bool,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchAnswer {
    /// The state of each job whose attempt has ended; `None` if it was no longer this program's attempt.
    ended: Vec<Option<JobState>>,
    /// The id of each message; `known`, the job that its key stood for already; or `code` and `error`.
    accepted: Vec<Value>,
    begun: Vec<BegunJob>,
    /// Jobs that are not over.
    open: u64,
    /// From when the next job may begin.
    due_ms: Option<u64>,
}

/// The jobs that a batch begins.
#[derive(Default)]
struct BegunJobs {
    jobs: Vec<BegunJob>,
    bytes: u64,
}

impl BegunJobs {
    fn has_room(&self, room: usize) -> bool {
        self.jobs.len() < room && self.bytes < BEGUN_BYTES_MAX
    }

    fn push(&mut self, job: Job, request: Content) {
        self.bytes += job.bytes;
        self.jobs.push(BegunJob {
            id: job.id,
            attempt: job.attempts,
            request: request.into(),
        });
    }
}

#[derive(Serialize)]
struct BegunJob {
    id: String,
    attempt: u32,
    request: StoredContent,
}

impl ProgramQueues {
    /// Runs a command; the answer is JSON text. `open` answers with the number of open jobs and with those that have failed because their
    /// programs ended too often, or with null if another program has the queue; `close` gives it up. `batch` takes a [`Batch`] and answers with a
    /// [`BatchAnswer`]. `failed` lists dead letters, the latest first; `show`, `retry` and `remove` take the id of one, and answer with null if there is none.
    pub fn run(
        &mut self,
        session: &mut Session,
        command: &str,
        of: CommandOf<'_>,
        argument: &str,
    ) -> Result<String, Refused> {
        let id = argument;
        match command {
            "open" => self.open(session, of),
            "close" => written(&self.open.remove(of.queue).is_some()),
            "batch" => batch(session, of, argument),
            "failed" => written(&look(session, |state| {
                let failed = list(state, &[JobState::Failed], Some(of.queue), LISTED_MAX, of.now_ms)?;
                Ok(failed.iter().map(listed).collect::<Vec<_>>())
            })?),
            "show" => written(&look(session, |state| {
                let job = dead_letter(state, of, id)?;
                let shown = job.map(|job| Ok(shown(&job, request(state, id)?, response(state, id)?)));
                shown.transpose()
            })?),
            "retry" => change_dead_letter(session, of, id, &Change::Retry { id: id.to_owned() }),
            "remove" => {
                let remove = Change::Remove {
                    id: id.to_owned(),
                    even_if_over: true,
                };
                change_dead_letter(session, of, id, &remove)
            }
            _ => Err(malformed(format!("a queue has no command {command:?}"))),
        }
    }

    fn open(&mut self, session: &mut Session, of: CommandOf<'_>) -> Result<String, Refused> {
        let name = of.queue;
        if name.is_empty() || name.len() > NAME_BYTES_MAX || is_of_route(name) {
            return Err(Refused {
                code: "key",
                message: format!(
                    "the name of a queue is a text of 1 to {NAME_BYTES_MAX} bytes without `/`, not {name:?}"
                ),
            });
        }
        let mut locks = session.store()?.locks().map_err(SessionError::from)?;
        let locked = locks.lock(&key(&["queue", name])?, Some(Duration::ZERO));
        if !locked.map_err(SessionError::from)? {
            return written(&Value::Null);
        }
        let (open, failed) = in_transaction(session, |transaction| {
            write(transaction, &owner_key(name)?, &of.owner)?;
            let recover = Change::Recover {
                owner: of.owner.to_owned(),
                queue: Some(name.to_owned()),
            };
            let Changed::Recovered(mut jobs) = recover.perform(transaction, of.now_ms)? else {
                unreachable!("attempts are ended")
            };
            jobs.retain(|job| job.state == JobState::Failed);
            Ok((totals(transaction, name)?.open, jobs))
        })?;
        self.open.insert(name.to_owned(), locks);
        let failed: Vec<Value> = failed.iter().map(listed).collect();
        written(&json!({ "open": open, "failed": failed }))
    }
}

impl From<JobError> for Refused {
    fn from(error: JobError) -> Self {
        let code = match error {
            JobError::Store(error) => return SessionError::from(error).into(),
            JobError::Full { .. } | JobError::BytesFull { .. } => "queue_full",
            JobError::OtherRequest { .. } => "key_reused",
            JobError::Foreign { .. } => "damaged",
            _ => "malformed",
        };
        let message = error.to_string();
        Self { code, message }
    }
}

fn malformed(message: String) -> Refused {
    let code = "malformed";
    Refused { code, message }
}

fn written(answer: &impl Serialize) -> Result<String, Refused> {
    serde_json::to_string(answer).map_err(|error| malformed(error.to_string()))
}

fn look<T>(
    session: &mut Session,
    mut question: impl FnMut(&Reader<'_>) -> Result<T, JobError>,
) -> Result<T, Refused> {
    session.look(|state, _| Ok(question(state)?))
}

/// Makes changes, all or none.
fn in_transaction<T>(
    session: &mut Session,
    change: impl FnOnce(&mut Transaction) -> Result<T, JobError>,
) -> Result<T, Refused> {
    session.change(|transaction, _| {
        let changed = change(transaction);
        if changed.is_err() {
            transaction.give_up();
        }
        Ok(changed?)
    })
}

/// Where the program is named that has a queue.
fn owner_key(queue: &str) -> Result<Key, JobError> {
    key(&["owner", queue])
}

fn dead_letter(state: &impl Read, of: CommandOf<'_>, id: &str) -> Result<Option<Job>, JobError> {
    let job = find(state, id, of.now_ms)?;
    Ok(job.filter(|job| job.state == JobState::Failed && job.queue == of.queue))
}

fn change_dead_letter(
    session: &mut Session,
    of: CommandOf<'_>,
    id: &str,
    change: &Change,
) -> Result<String, Refused> {
    let changed = in_transaction(session, |transaction| {
        let found = dead_letter(transaction, of, id)?;
        found.map(|_| change.perform(transaction, of.now_ms)).transpose()
    })?;
    written(&changed.map(|_| true))
}

fn batch(session: &mut Session, of: CommandOf<'_>, argument: &str) -> Result<String, Refused> {
    let batch: Batch = serde_json::from_str(argument).map_err(|error| malformed(error.to_string()))?;
    let answer = look(session, |state| BatchAnswer::of(state, of))?;
    if batch.accepted.is_empty() && batch.ended.is_empty() && (batch.room == 0 || !answer.is_due(of)) {
        return written(&answer);
    }
    written(&in_transaction(session, |transaction| {
        batch.perform(transaction, of)
    })?)
}

impl Batch {
    fn perform(
        self,
        transaction: &mut Transaction,
        of: CommandOf<'_>,
    ) -> Result<Option<BatchAnswer>, JobError> {
        if read::<String>(transaction, &owner_key(of.queue)?)?.as_deref() != Some(of.owner) {
            return Ok(None);
        }
        let policy = Policy {
            attempts: self.attempts,
            backoff: Duration::from_millis(self.backoff_ms),
            kept: KEYED_KEPT,
        };
        let limits = QueueLimits {
            open_max: self.open_max,
            bytes_max: u64::MAX,
        };
        let mut tally = Tally::default();
        let mut ended = Vec::with_capacity(self.ended.len());
        for attempt in self.ended {
            let kept = match self.kept_ms {
                Some(kept_ms) => Duration::from_millis(kept_ms),
                None if find(transaction, &attempt.id, of.now_ms)?.is_none_or(|job| job.key.is_none()) => {
                    Duration::ZERO
                }
                None => KEYED_KEPT,
            };
            let policy = Policy { kept, ..policy };
            ended.push(attempt.conclude(transaction, &mut tally, of, policy)?);
        }
        // Where nothing waits that comes before them, messages begin as they are accepted.
        let mut may_begin = !BatchAnswer::of(transaction, of)?.is_due(of);
        let mut begun = BegunJobs::default();
        let mut accepted = Vec::with_capacity(self.accepted.len());
        for message in self.accepted {
            may_begin &= begun.has_room(self.room);
            let begins = may_begin && message.delay_ms == 0;
            accepted.push(message.accept(
                transaction,
                &mut tally,
                of,
                limits,
                begins.then_some(&mut begun),
            )?);
        }
        let begin = Change::Begin {
            candidates: vec![Candidate {
                queue: of.queue.to_owned(),
                rank: 0,
                at_a_time: usize::MAX,
                limits,
            }],
            room: 1,
            owner: of.owner.to_owned(),
        };
        while begun.has_room(self.room) {
            let changed = begin.perform_with(transaction, &mut tally, of.now_ms)?;
            let Changed::Begun(mut next) = changed else { break };
            let Some((job, request)) = next.pop() else { break };
            begun.push(job, request);
        }
        tally.write(transaction)?;
        Ok(Some(BatchAnswer {
            ended,
            accepted,
            begun: begun.jobs,
            ..BatchAnswer::of(transaction, of)?
        }))
    }
}

impl NewMessage {
    fn accept(
        self,
        transaction: &mut Transaction,
        tally: &mut Tally,
        of: CommandOf<'_>,
        limits: QueueLimits,
        begun: Option<&mut BegunJobs>,
    ) -> Result<Value, JobError> {
        let request = self.request.content(&self.id)?;
        let digest = forebay_store::digest(&[self.message_type.as_bytes(), &request.body].join(&0));
        let new = NewJob {
            id: self.id,
            queue: of.queue.to_owned(),
            subject: None,
            key: self.key,
            digest: format!("{digest:032x}"),
            delay_ms: self.delay_ms,
            request,
        };
        let owner = begun.as_ref().map(|_| of.owner);
        match accept(transaction, tally, &new, limits, owner, of.now_ms) {
            Ok(job) if job.id != new.id => {
                let known = report(&job, response(transaction, &job.id)?);
                Ok(json!({ "id": job.id, "known": known }))
            }
            Ok(job) => {
                if let Some(begun) = begun {
                    begun.push(job, new.request);
                }
                Ok(json!({ "id": new.id }))
            }
            // It is stored first, so nothing is changed if it is not what a store takes.
            Err(JobError::Store(error)) if !error.is_input() => Err(error.into()),
            Err(error @ JobError::Foreign { .. }) => Err(error),
            Err(error) => {
                let Refused { code, message } = error.into();
                Ok(json!({ "id": new.id, "code": code, "error": message }))
            }
        }
    }
}

impl EndedAttempt {
    fn conclude(
        self,
        transaction: &mut Transaction,
        tally: &mut Tally,
        of: CommandOf<'_>,
        policy: Policy,
    ) -> Result<Option<JobState>, JobError> {
        let mut change = |outcome| {
            let conclude = Change::Conclude {
                id: self.id.clone(),
                attempt: self.attempt,
                owner: of.owner.to_owned(),
                outcome,
                policy: Policy {
                    attempts: self.attempts.unwrap_or(policy.attempts),
                    ..policy
                },
                jitter: self.jitter,
            };
            conclude.perform_with(transaction, tally, of.now_ms)
        };
        let changed = match (self.done, self.failed) {
            (Some(reply), _) => match change(Outcome::Done(reply.content(&self.id)?)) {
                // The reply is stored first. It is not what the store takes, so it is not kept.
                Err(JobError::Store(error)) if error.is_input() => change(Outcome::Done(Content::default())),
                changed => changed,
            },
            (None, Some(failed)) => change(Outcome::Failed {
                error: failed.error,
                response: Some(Content {
                    head: json!({ "code": failed.code }).to_string(),
                    body: Vec::new(),
                }),
                is_final: failed.is_final,
                retry_after: None,
            }),
            (None, None) => change(Outcome::NotBegun),
        };
        match changed? {
            Changed::Job(job) => Ok(Some(job.state)),
            _ => Ok(None),
        }
    }
}

impl BatchAnswer {
    /// Of a batch that does nothing.
    fn of(state: &impl Read, of: CommandOf<'_>) -> Result<Self, JobError> {
        Ok(Self {
            open: totals(state, of.queue)?.open,
            due_ms: next_due(state, of.queue)?.map(|(due_ms, _)| due_ms),
            ..Self::default()
        })
    }

    fn is_due(&self, of: CommandOf<'_>) -> bool {
        self.due_ms.is_some_and(|due_ms| due_ms <= of.now_ms)
    }
}
