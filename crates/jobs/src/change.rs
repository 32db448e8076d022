//! Everything that can happen to the queue, each in one transaction of the store.

use std::collections::BTreeMap;

use forebay_store::{Read, Transaction};

use crate::{
    Content, FAILED_KEPT, Job, JobError, JobState, Outcome, Policy, is_ahead, is_of_route,
    tree::{self, Totals, find, key, place, place_of_key, read, write, write_content},
};

/// A request to be done later.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Unique; see [`Job::id`].
    pub id: String,
    /// The name of its route.
    pub queue: String,
    /// The client that asks for it; see [`Job::subject`].
    pub subject: Option<String>,
    /// The client's key for it.
    pub key: Option<String>,
    /// A digest of the request: a key belongs to one request.
    pub digest: String,
    /// How much later it may begin, in milliseconds.
    pub delay_ms: u64,
    /// Its request, which is stored as it is.
    pub request: Content,
}

/// Bounds of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Most jobs that are not over.
    pub open_max: u64,
    /// Most bytes of their requests.
    pub bytes_max: u64,
}

/// A queue whose jobs may begin.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The name of its route.
    pub queue: String,
    /// Its jobs begin before those of queues with a higher number.
    pub rank: u8,
    /// Most jobs of it that run at a time: in all processes of a store, or in this one of a cluster.
    pub at_a_time: usize,
    /// Bounds of the queue.
    pub limits: QueueLimits,
}

/// A change to the queue.
#[derive(Clone, Debug)]
pub enum Change {
    /// Accepts a job, or finds the one that the client's key stands for.
    Accept {
        /// The job to be stored.
        new: Box<NewJob>,
        /// Bounds of its queue.
        limits: QueueLimits,
    },
    /// Begins the jobs that are to run next.
    Begin {
        /// The queues they may be from.
        candidates: Vec<Candidate>,
        /// Most jobs to begin.
        room: usize,
        /// The process that runs them.
        owner: String,
    },
    /// Ends an attempt.
    Conclude {
        /// The job's id.
        id: String,
        /// The number of the attempt.
        attempt: u32,
        /// The process that ran it.
        owner: String,
        /// How it ended.
        outcome: Outcome,
        /// The settings of its route.
        policy: Policy,
        /// A random number from 0 to 1.
        jitter: f64,
    },
    /// Removes a job that is not running.
    Remove {
        /// The job's id.
        id: String,
        /// Whether it may be over.
        even_if_over: bool,
    },
    /// Has a job that is not running begin at once, also one that has failed.
    Retry {
        /// The job's id.
        id: String,
    },
    /// Notes that the times of a queue's schedule have had their jobs. A later time that is noted stays, unless it [`is_ahead`].
    Scheduled {
        /// Name of the queue.
        queue: String,
        /// Up to this time, in milliseconds since 1970 UTC.
        until_ms: u64,
    },
    /// Ends the attempts of all processes but this one: they have ended.
    Recover {
        /// This process.
        owner: String,
        /// The queue of a program; `None`: those of all routes.
        queue: Option<String>,
    },
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The job that was accepted, now or before.
    Accepted(Box<Job>),
    /// Jobs that run now, with their requests.
    Begun(Vec<(Job, Content)>),
    /// The job after the change.
    Job(Box<Job>),
    /// It is noted, the job was removed, or the attempt had been ended by another change: nothing was changed.
    Nothing,
    /// Jobs whose attempts were ended.
    Recovered(Vec<Job>),
}

impl Change {
    /// Bytes that the change writes, roughly.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Accept { new, .. } => new.request.head.len() + new.request.body.len(),
            Self::Conclude {
                outcome:
                    Outcome::Done(response)
                    | Outcome::Failed {
                        response: Some(response),
                        ..
                    },
                ..
            } => response.head.len() + response.body.len(),
            _ => 0,
        }
    }

    /// Makes the change; `now_ms` is the time in milliseconds since 1970 UTC. After an error of the store the transaction has to be rolled back; after others it is unchanged.
    pub fn perform(&self, transaction: &mut Transaction, now_ms: u64) -> Result<Changed, JobError> {
        let mut tally = Tally::default();
        let changed = self.perform_with(transaction, &mut tally, now_ms)?;
        tally.write(transaction)?;
        Ok(changed)
    }

    /// The same, without writing the totals: of several changes in a transaction, the last writes them.
    pub(crate) fn perform_with(
        &self,
        transaction: &mut Transaction,
        tally: &mut Tally,
        now_ms: u64,
    ) -> Result<Changed, JobError> {
        match self {
            Self::Accept { new, limits } => {
                let job = accept(transaction, tally, new, *limits, None, now_ms)?;
                Ok(Changed::Accepted(Box::new(job)))
            }
            Self::Begin {
                candidates,
                room,
                owner,
            } => begin(transaction, tally, candidates, *room, owner, now_ms),
            Self::Conclude {
                id,
                attempt,
                owner,
                outcome,
                policy,
                jitter,
            } => {
                let Some(before) = find(transaction, id, now_ms)? else {
                    return Ok(Changed::Nothing);
                };
                if !before.is_attempt(*attempt, owner) {
                    return Ok(Changed::Nothing);
                }
                let mut job = before.clone();
                let response = job.conclude(outcome.clone(), policy, now_ms, *jitter);
                if job.state == JobState::Done && policy.kept.is_zero() {
                    tally.of(transaction, &job.queue)?.done += 1;
                    remove(transaction, tally, &before)?;
                    return Ok(Changed::Job(Box::new(job)));
                }
                if let Some(response) = response {
                    write_content(transaction, id, "response", response)?;
                }
                update(transaction, tally, Some(&before), Some(&job))?;
                expire(transaction, &job, job.kept_until_ms(policy))?;
                Ok(Changed::Job(Box::new(job)))
            }
            Self::Remove { id, even_if_over } => {
                let job = resting(transaction, id, now_ms)?;
                if job.state.is_over() && !even_if_over {
                    return Err(JobError::Over { state: job.state });
                }
                remove(transaction, tally, &job)?;
                Ok(Changed::Nothing)
            }
            Self::Retry { id } => {
                let before = resting(transaction, id, now_ms)?;
                if before.state == JobState::Done {
                    return Err(JobError::Over { state: before.state });
                }
                let mut job = before.clone();
                job.retry(now_ms);
                expire(transaction, &before, None)?;
                transaction.kill(&key(&["job", id, "response"])?)?;
                update(transaction, tally, Some(&before), Some(&job))?;
                Ok(Changed::Job(Box::new(job)))
            }
            Self::Scheduled { queue, until_ms } => {
                let known = tree::scheduled_ms(transaction, queue)?;
                let known = known.filter(|known_ms| !is_ahead(*known_ms, *until_ms));
                let until_ms = known.unwrap_or_default().max(*until_ms);
                write(transaction, &key(&["schedule", queue])?, &until_ms)?;
                Ok(Changed::Nothing)
            }
            Self::Recover { owner, queue } => recover(transaction, tally, owner, queue.as_deref(), now_ms),
        }
    }
}

/// A job that is not running.
fn resting(transaction: &Transaction, id: &str, now_ms: u64) -> Result<Job, JobError> {
    match find(transaction, id, now_ms)? {
        None => Err(JobError::NotFound { id: id.to_owned() }),
        Some(job) if job.state == JobState::Running => Err(JobError::Running),
        Some(job) => Ok(job),
    }
}

/// Accepts a job; one of `owner` begins at once.
pub(crate) fn accept(
    transaction: &mut Transaction,
    tally: &mut Tally,
    new: &NewJob,
    limits: QueueLimits,
    owner: Option<&str>,
    now_ms: u64,
) -> Result<Job, JobError> {
    let subject = new.subject.as_deref();
    let key = new.key.as_deref();
    let by_key = key
        .map(|key| place_of_key(&new.queue, subject, key))
        .transpose()?;
    let known = by_key.as_ref().map(|by_key| read::<String>(transaction, by_key));
    if let Some(id) = known.transpose()?.flatten()
        && let Some(job) = find(transaction, &id, now_ms)?
    {
        if job.digest == new.digest {
            return Ok(job);
        }
        let key = key.unwrap_or_default().to_owned();
        return Err(JobError::OtherRequest { key });
    }
    let bytes = (new.request.head.len() + new.request.body.len()) as u64;
    let totals = *tally.of(transaction, &new.queue)?;
    if totals.open >= limits.open_max {
        let open_max = limits.open_max;
        return Err(JobError::Full { open_max });
    }
    // A lone request may exceed it; otherwise it could never run.
    if totals.open > 0 && totals.bytes + bytes > limits.bytes_max {
        return Err(JobError::BytesFull {
            bytes: totals.bytes,
            more: bytes,
            bytes_max: limits.bytes_max,
        });
    }
    let mut job = Job::new(new, now_ms);
    if let Some(owner) = owner {
        job.begin(owner, now_ms);
    }
    // First, because a store may not take it.
    write_content(transaction, &job.id, "request", new.request.clone())?;
    if let Some(by_key) = by_key {
        write(transaction, &by_key, &job.id)?;
    }
    update(transaction, tally, None, Some(&job))?;
    Ok(job)
}

fn begin(
    transaction: &mut Transaction,
    tally: &mut Tally,
    candidates: &[Candidate],
    room: usize,
    owner: &str,
    now_ms: u64,
) -> Result<Changed, JobError> {
    let mut begun = Vec::new();
    while begun.len() < room {
        let mut next: Option<(u8, u64, &str, String)> = None;
        for candidate in candidates {
            let totals = tally.of(transaction, &candidate.queue)?;
            if totals.running >= candidate.at_a_time as u64 {
                continue;
            }
            let due = tree::next_due(transaction, &candidate.queue)?;
            let due = due.filter(|(due_ms, _)| *due_ms <= now_ms);
            if let Some((due_ms, id)) = due
                && next
                    .as_ref()
                    .is_none_or(|(rank, earliest_ms, ..)| (candidate.rank, due_ms) < (*rank, *earliest_ms))
            {
                next = Some((candidate.rank, due_ms, &candidate.queue, id));
            }
        }
        let Some((_, due_ms, queue, id)) = next else { break };
        let before = match find(transaction, &id, now_ms) {
            Ok(Some(before)) => before,
            // The job was changed in the store by hand. It must not hold up the others.
            Ok(None) | Err(JobError::Foreign { .. }) => {
                transaction.kill(&key(&["due", queue, &due_ms.to_string(), &id])?)?;
                continue;
            }
            Err(error) => return Err(error),
        };
        let mut job = before.clone();
        job.begin(owner, now_ms);
        update(transaction, tally, Some(&before), Some(&job))?;
        let request = tree::request(transaction, &id)?.unwrap_or_default();
        begun.push((job, request));
    }
    Ok(Changed::Begun(begun))
}

fn recover(
    transaction: &mut Transaction,
    tally: &mut Tally,
    owner: &str,
    queue: Option<&str>,
    now_ms: u64,
) -> Result<Changed, JobError> {
    let mut jobs = tree::list(transaction, &[JobState::Running], queue, usize::MAX, now_ms)?;
    jobs.retain(|job| job.owner.as_deref() != Some(owner) && (queue.is_some() || is_of_route(&job.queue)));
    for job in &mut jobs {
        let before = job.clone();
        job.interrupt(now_ms);
        update(transaction, tally, Some(&before), Some(job))?;
        let kept_ms = FAILED_KEPT.as_millis() as u64;
        expire(transaction, job, job.ended_ms.map(|ended_ms| ended_ms + kept_ms))?;
    }
    Ok(Changed::Recovered(jobs))
}

/// The totals of the queues that a transaction changes.
#[derive(Debug, Default)]
pub(crate) struct Tally(BTreeMap<String, Totals>);

impl Tally {
    pub(crate) fn of(&mut self, state: &impl Read, queue: &str) -> Result<&mut Totals, JobError> {
        if !self.0.contains_key(queue) {
            self.0.insert(queue.to_owned(), tree::totals(state, queue)?);
        }
        Ok(self.0.get_mut(queue).expect("it has been read"))
    }

    pub(crate) fn write(&self, transaction: &mut Transaction) -> Result<(), JobError> {
        for (queue, totals) in &self.0 {
            tree::write_totals(transaction, queue, totals)?;
        }
        Ok(())
    }
}

/// Writes a job, moves it in the index and counts it; `None`: there was none before, or there is none any more.
fn update(
    transaction: &mut Transaction,
    tally: &mut Tally,
    before: Option<&Job>,
    after: Option<&Job>,
) -> Result<(), JobError> {
    let Some(queue) = before.or(after).map(|job| job.queue.as_str()) else {
        return Ok(());
    };
    let totals = tally.of(transaction, queue)?;
    if let Some(job) = before {
        transaction.kill(&place(job)?)?;
        if !job.state.is_over() {
            totals.open = totals.open.saturating_sub(1);
            totals.bytes = totals.bytes.saturating_sub(job.bytes);
        }
        if job.state == JobState::Running {
            totals.running = totals.running.saturating_sub(1);
        }
    }
    if let Some(job) = after {
        write(transaction, &key(&["job", &job.id, "meta"])?, job)?;
        write(transaction, &place(job)?, &1)?;
        match job.state {
            JobState::Done => totals.done += 1,
            JobState::Failed => totals.failed += 1,
            JobState::Waiting | JobState::Retrying | JobState::Running => {
                totals.open += 1;
                totals.bytes += job.bytes;
                totals.running += u64::from(job.state == JobState::Running);
            }
        }
    }
    Ok(())
}

/// Sets until when a job and everything that belongs to it are kept.
fn expire(transaction: &mut Transaction, job: &Job, at_ms: Option<u64>) -> Result<(), JobError> {
    transaction.expire(&key(&["job", &job.id])?, at_ms)?;
    transaction.expire(&place(job)?, at_ms)?;
    if let Some(name) = &job.key {
        transaction.expire(&place_of_key(&job.queue, job.subject.as_deref(), name)?, at_ms)?;
    }
    Ok(())
}

fn remove(transaction: &mut Transaction, tally: &mut Tally, job: &Job) -> Result<(), JobError> {
    update(transaction, tally, Some(job), None)?;
    transaction.kill(&key(&["job", &job.id])?)?;
    if let Some(name) = &job.key {
        transaction.kill(&place_of_key(&job.queue, job.subject.as_deref(), name)?)?;
    }
    Ok(())
}
