//! Jobs in the tree of the store, and reads of them.
//!
//! ```text
//! ^%jobs("job",ID,"meta")              a Job
//! ^%jobs("job",ID,"request")           Content
//! ^%jobs("job",ID,"response")          Content, once it is over
//! ^%jobs("due",QUEUE,MS,ID)            waiting and retrying jobs, by the time from when they may begin
//! ^%jobs("running",QUEUE,MS,ID)        running ones, by the time they began
//! ^%jobs("done",QUEUE,MS,ID)           and those that are over, by the time they ended
//! ^%jobs("failed",QUEUE,MS,ID)
//! ^%jobs("key",QUEUE,SUBJECT,KEY)      the id of the job of a client's key
//! ^%jobs("queue",QUEUE)                Totals
//! ^%jobs("owner",QUEUE)                the program that has the queue; a route has none
//! ^%jobs("schedule",QUEUE)             until when the times of its schedule have had their jobs
//! ```
//!
//! The next job of a queue is the first below `"due",QUEUE`, however many wait.

use forebay_store::{Key, Range, Read, Transaction};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Content, Job, JobError, JobState, StoredContent};

/// The global of the store that has all jobs.
pub const GLOBAL: &str = "%jobs";

/// Stands for the subject where a route answers everybody.
const EVERYBODY: &str = "*";

/// Counters of a queue.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    /// Jobs that are not over.
    pub(crate) open: u64,
    /// Those of them that run.
    pub(crate) running: u64,
    /// Bytes of their requests.
    pub(crate) bytes: u64,
    pub(crate) done: u64,
    pub(crate) failed: u64,
}

/// Figures about a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueFacts {
    /// The name of its route.
    pub queue: String,
    /// Jobs that wait for their first or their next attempt.
    pub waiting: u64,
    /// Jobs that run.
    pub running: u64,
    /// Bytes of the requests of both.
    pub bytes: u64,
    /// Jobs that were done, since the store was created.
    pub done: u64,
    /// Jobs that failed, since then.
    pub failed: u64,
    /// For how long the job that should begin next might have begun already, in milliseconds.
    pub oldest_ms: u64,
}

pub(crate) fn key(path: &[&str]) -> Result<Key, JobError> {
    let mut key = Key::global(GLOBAL)?;
    for name in path {
        key.push(name)?;
    }
    Ok(key)
}

/// The part of the index that lists jobs of a state.
const fn index_of(state: JobState) -> &'static str {
    match state {
        JobState::Waiting | JobState::Retrying => "due",
        JobState::Running => "running",
        JobState::Done => "done",
        JobState::Failed => "failed",
    }
}

/// The job's place in the index.
pub(crate) fn place(job: &Job) -> Result<Key, JobError> {
    let ms = match job.state {
        JobState::Waiting | JobState::Retrying => Some(job.due_ms),
        JobState::Running => job.begun_ms,
        JobState::Done | JobState::Failed => job.ended_ms,
    };
    let ms = ms.unwrap_or_default().to_string();
    key(&[index_of(job.state), &job.queue, &ms, &job.id])
}

/// The place of a client's key.
pub(crate) fn place_of_key(queue: &str, subject: Option<&str>, name: &str) -> Result<Key, JobError> {
    key(&["key", queue, subject.unwrap_or(EVERYBODY), name])
}

pub(crate) fn read<T: DeserializeOwned>(state: &impl Read, key: &Key) -> Result<Option<T>, JobError> {
    let Some(document) = state.document(key)? else {
        return Ok(None);
    };
    parse(key, &document).map(Some)
}

fn parse<T: DeserializeOwned>(key: &Key, text: &[u8]) -> Result<T, JobError> {
    serde_json::from_slice(text).map_err(|error| JobError::Foreign {
        path: key.to_string(),
        reason: error.to_string(),
    })
}

pub(crate) fn write(
    transaction: &mut Transaction,
    key: &Key,
    value: &impl Serialize,
) -> Result<(), JobError> {
    let document = serde_json::to_vec(value).expect("plain values become JSON");
    Ok(transaction.put(key, &document)?)
}

pub(crate) fn write_content(
    transaction: &mut Transaction,
    id: &str,
    part: &str,
    content: Content,
) -> Result<(), JobError> {
    let stored = StoredContent::from(content);
    write(transaction, &key(&["job", id, part])?, &stored)
}

/// The job of this id, unless the time to keep it has passed.
pub fn find(state: &impl Read, id: &str, now_ms: u64) -> Result<Option<Job>, JobError> {
    let key = key(&["job", id, "meta"])?;
    if state.ends(&key)?.is_some_and(|ends_ms| ends_ms <= now_ms) {
        return Ok(None);
    }
    read(state, &key)
}

/// The request of a job.
pub fn request(state: &impl Read, id: &str) -> Result<Option<Content>, JobError> {
    content(state, id, "request")
}

/// The response of a job that is over, if its handler gave one.
pub fn response(state: &impl Read, id: &str) -> Result<Option<Content>, JobError> {
    content(state, id, "response")
}

fn content(state: &impl Read, id: &str, part: &str) -> Result<Option<Content>, JobError> {
    let key = key(&["job", id, part])?;
    let stored = read::<StoredContent>(state, &key)?;
    stored.map(|stored| stored.content(&key.to_string())).transpose()
}

/// Until when the times of a queue's schedule have had their jobs; `None`: it is new.
pub fn scheduled_ms(state: &impl Read, queue: &str) -> Result<Option<u64>, JobError> {
    read(state, &key(&["schedule", queue])?)
}

pub(crate) fn totals(state: &impl Read, queue: &str) -> Result<Totals, JobError> {
    Ok(read(state, &key(&["queue", queue])?)?.unwrap_or_default())
}

/// Writes totals that have changed.
pub(crate) fn write_totals(
    transaction: &mut Transaction,
    queue: &str,
    totals: &Totals,
) -> Result<(), JobError> {
    if self::totals(transaction, queue)? == *totals {
        return Ok(());
    }
    write(transaction, &key(&["queue", queue])?, totals)
}

/// From when the next job of a queue may begin, and its id.
pub(crate) fn next_due(state: &impl Read, queue: &str) -> Result<Option<(u64, String)>, JobError> {
    let mut key = key(&["due", queue])?;
    let Some(ms) = state.next(&key, None)? else {
        return Ok(None);
    };
    key.push_encoded(&ms)?;
    let id = state.next(&key, None)?;
    Ok(id.and_then(|id| Some((ms.text().parse().ok()?, id.text()))))
}

/// From when the next job of any of these queues may begin.
pub fn due_ms<'q>(state: &impl Read, queues: impl Iterator<Item = &'q str>) -> Result<Option<u64>, JobError> {
    let mut earliest: Option<u64> = None;
    for queue in queues {
        if let Some((due_ms, _)) = next_due(state, queue)? {
            earliest = Some(earliest.map_or(due_ms, |earliest| earliest.min(due_ms)));
        }
    }
    Ok(earliest)
}

/// The names below a path, in order.
pub(crate) fn names(state: &impl Read, key: &Key, reverse: bool) -> Result<Vec<String>, JobError> {
    let range = Range {
        reverse,
        ..Range::default()
    };
    let names = state.children(key, range)?.map(|name| Ok(name?.text()));
    names.collect()
}

/// At most `limit` jobs of these states, of one queue or of all: open ones by the time from when they may begin, others latest first.
pub fn list(
    state: &impl Read,
    states: &[JobState],
    queue: Option<&str>,
    limit: usize,
    now_ms: u64,
) -> Result<Vec<Job>, JobError> {
    let all = match queue {
        Some(queue) => vec![queue.to_owned()],
        None => names(state, &key(&["queue"])?, false)?,
    };
    let mut jobs = Vec::new();
    for part in ["due", "running", "done", "failed"] {
        if !states.iter().any(|state| index_of(*state) == part) {
            continue;
        }
        for queue in &all {
            let root = key(&[part, queue])?;
            let range = Range {
                reverse: matches!(part, "done" | "failed"),
                ..Range::default()
            };
            for ms in state.children(&root, range)? {
                let mut at = root.clone();
                at.push_encoded(&ms?)?;
                for id in state.children(&at, Range::default())? {
                    if jobs.len() == limit {
                        return Ok(jobs);
                    }
                    let job = find(state, &id?.text(), now_ms)?;
                    jobs.extend(job.filter(|job| states.contains(&job.state)));
                }
            }
        }
    }
    Ok(jobs)
}

/// Figures about all queues that have ever had a job.
pub fn queues(state: &impl Read, now_ms: u64) -> Result<Vec<QueueFacts>, JobError> {
    let root = key(&["queue"])?;
    let mut facts = Vec::new();
    for queue in names(state, &root, false)? {
        let totals = totals(state, &queue)?;
        let due = next_due(state, &queue)?;
        facts.push(QueueFacts {
            waiting: totals.open.saturating_sub(totals.running),
            running: totals.running,
            bytes: totals.bytes,
            done: totals.done,
            failed: totals.failed,
            oldest_ms: due.map_or(0, |(due_ms, _)| now_ms.saturating_sub(due_ms)),
            queue,
        });
    }
    Ok(facts)
}
