//! The queue through its public API, on a real store, with a simulated clock.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use forebay_jobs::{
    Candidate, Change, Changed, CommandOf, Content, FAILED_KEPT, GLOBAL, Job, JobError, JobState, NewJob,
    Outcome, Policy, ProgramQueues, QueueLimits, due_ms, find, list, queues, request, response, scheduled_ms,
};
use forebay_store::{
    Durability, Key, Options, Range, Read, Store,
    facade::{Session, SessionError},
};
use serde_json::{Value, json};

const POLICY: Policy = Policy {
    attempts: 3,
    backoff: Duration::from_secs(10),
    kept: Duration::from_hours(1),
};
const LIMITS: QueueLimits = QueueLimits {
    open_max: 1000,
    bytes_max: 1 << 20,
};

/// A queue whose store removes nothing on its own.
struct Queue {
    store: Store,
    _folder: tempfile::TempDir,
}

impl Queue {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        drop(Store::open(folder.path(), &Options::default()).unwrap());
        let options = Options {
            lead: false,
            durability: Durability::Relaxed,
            ..Options::default()
        };
        let store = Store::open(folder.path(), &options).unwrap();
        Self {
            store,
            _folder: folder,
        }
    }

    fn make(&self, change: &Change, now_ms: u64) -> Result<Changed, JobError> {
        self.store
            .transact(|transaction| change.perform(transaction, now_ms))
    }

    fn accept(&self, new: NewJob, limits: QueueLimits, now_ms: u64) -> Result<Job, JobError> {
        let new = Box::new(new);
        match self.make(&Change::Accept { new, limits }, now_ms)? {
            Changed::Accepted(job) => Ok(*job),
            other => panic!("{other:?}"),
        }
    }

    fn begin(&self, candidates: &[Candidate], room: usize, owner: &str, now_ms: u64) -> Vec<(Job, Content)> {
        let change = Change::Begin {
            candidates: candidates.to_vec(),
            room,
            owner: owner.to_owned(),
        };
        match self.make(&change, now_ms).unwrap() {
            Changed::Begun(begun) => begun,
            other => panic!("{other:?}"),
        }
    }

    fn conclude(&self, job: &Job, outcome: Outcome, now_ms: u64) -> Changed {
        self.make(
            &Change::Conclude {
                id: job.id.clone(),
                attempt: job.attempts,
                owner: job.owner.clone().unwrap(),
                outcome,
                policy: POLICY,
                jitter: 0.5,
            },
            now_ms,
        )
        .unwrap()
    }

    fn remove(&self, id: &str, even_if_over: bool, now_ms: u64) -> Result<Changed, JobError> {
        let id = id.to_owned();
        self.make(&Change::Remove { id, even_if_over }, now_ms)
    }

    fn retry(&self, id: &str, now_ms: u64) -> Result<Changed, JobError> {
        let id = id.to_owned();
        self.make(&Change::Retry { id }, now_ms)
    }

    fn recover(&self, owner: &str, now_ms: u64) -> usize {
        let owner = owner.to_owned();
        let queue = None;
        match self.make(&Change::Recover { owner, queue }, now_ms).unwrap() {
            Changed::Recovered(jobs) => jobs.len(),
            other => panic!("{other:?}"),
        }
    }

    fn job(&self, id: &str, now_ms: u64) -> Option<Job> {
        find(&self.store.snapshot().unwrap(), id, now_ms).unwrap()
    }

    fn state(&self, id: &str) -> Option<JobState> {
        self.job(id, 0).map(|job| job.state)
    }

    /// The nodes that are left below the global once all expired ones are removed.
    fn left(&self) -> Vec<String> {
        self.store.sweep().unwrap();
        let snapshot = self.store.snapshot().unwrap();
        let global = Key::global(GLOBAL).unwrap();
        let names = snapshot.children(&global, Range::default()).unwrap();
        names.map(|name| name.unwrap().text()).collect()
    }

    fn listed(&self, states: &[JobState]) -> Vec<String> {
        let snapshot = self.store.snapshot().unwrap();
        let jobs = list(&snapshot, states, None, 100, 0).unwrap();
        jobs.into_iter().map(|job| job.id).collect()
    }
}

fn new(id: &str, queue: &str, delay_ms: u64) -> NewJob {
    NewJob {
        id: id.to_owned(),
        queue: queue.to_owned(),
        subject: None,
        key: None,
        digest: "d".to_owned(),
        delay_ms,
        request: Content {
            head: format!("head of {id}"),
            body: vec![0xff, 0x00],
        },
    }
}

fn candidate(queue: &str, rank: u8, at_a_time: usize) -> Candidate {
    Candidate {
        queue: queue.to_owned(),
        rank,
        at_a_time,
        limits: LIMITS,
    }
}

fn done() -> Outcome {
    Outcome::Done(Content {
        head: "h".to_owned(),
        body: b"text".to_vec(),
    })
}

fn failed() -> Outcome {
    Outcome::failure("no".to_owned(), false)
}

fn ids(begun: &[(Job, Content)]) -> Vec<&str> {
    begun.iter().map(|(job, _)| job.id.as_str()).collect()
}

#[test]
fn jobs_begin_by_priority_then_by_time_and_none_before_its_time() {
    let queue = Queue::new();
    for (id, of, due_ms) in [
        ("a", "low", 1),
        ("b", "normal", 30),
        ("c", "normal", 20),
        ("d", "high", 40),
        ("e", "high", 101),
        ("f", "other", 25),
    ] {
        queue.accept(new(id, of, due_ms), LIMITS, 0).unwrap();
    }
    let all = [
        candidate("low", 2, 9),
        candidate("normal", 1, 9),
        candidate("other", 1, 9),
        candidate("high", 0, 9),
    ];
    let snapshot = queue.store.snapshot().unwrap();
    let due = due_ms(&snapshot, all.iter().map(|one| one.queue.as_str())).unwrap();
    assert_eq!(due, Some(1));
    assert_eq!(ids(&queue.begin(&all, 2, "p", 100)), ["d", "c"]);
    let begun = queue.begin(&all, 9, "p", 100);
    assert_eq!(ids(&begun), ["f", "b", "a"]);
    assert_eq!(begun[0].1, new("f", "other", 0).request);
    assert!(queue.begin(&all, 9, "p", 100).is_empty());
    assert_eq!(ids(&queue.begin(&all, 9, "p", 101)), ["e"]);
}

#[test]
fn no_more_jobs_of_a_queue_run_than_may_whatever_process_runs_them() {
    let queue = Queue::new();
    for id in ["a", "b", "c", "d"] {
        queue.accept(new(id, "/q", 0), LIMITS, 0).unwrap();
    }
    let of = [candidate("/q", 1, 2)];
    let first = queue.begin(&of, 1, "p1", 0);
    assert_eq!(ids(&queue.begin(&of, 9, "p2", 0)), ["b"]);
    assert!(queue.begin(&of, 9, "p2", 0).is_empty());
    queue.conclude(&first[0].0, done(), 1);
    assert_eq!(ids(&queue.begin(&of, 9, "p2", 1)), ["c"]);
}

#[test]
fn a_key_is_one_job_of_one_request_and_one_subject_for_as_long_as_it_is_kept() {
    let queue = Queue::new();
    let keyed = |id: &str, digest: &str, subject: Option<&str>| NewJob {
        key: Some("k".to_owned()),
        digest: digest.to_owned(),
        subject: subject.map(str::to_owned),
        ..new(id, "/q", 0)
    };
    let accept = |new: NewJob, now_ms| queue.accept(new, LIMITS, now_ms).map(|job| job.id);
    assert_eq!(accept(keyed("a", "1", None), 0).unwrap(), "a");
    assert_eq!(accept(keyed("b", "1", None), 0).unwrap(), "a");
    assert!(matches!(
        accept(keyed("c", "2", None), 0),
        Err(JobError::OtherRequest { .. })
    ));
    assert_eq!(accept(keyed("d", "2", Some("jwt\nme")), 0).unwrap(), "d");
    let begun = queue.begin(&[candidate("/q", 1, 9)], 1, "p", 0);
    queue.conclude(&begun[0].0, done(), 0);
    let kept_ms = POLICY.kept.as_millis() as u64;
    assert_eq!(accept(keyed("e", "1", None), kept_ms - 1).unwrap(), "a");
    assert_eq!(accept(keyed("f", "2", None), kept_ms).unwrap(), "f");
    // An expired job is removed without the one that has taken its key.
    queue.store.sweep().unwrap();
    assert_eq!(queue.state("a"), None);
    assert_eq!(accept(keyed("g", "2", None), kept_ms).unwrap(), "f");
    // A job that is cancelled frees its key.
    queue.remove("f", false, kept_ms).unwrap();
    assert_eq!(accept(keyed("h", "3", None), kept_ms).unwrap(), "h");
    for id in ["h", "d"] {
        queue.remove(id, false, kept_ms).unwrap();
    }
    // And one that expires takes it along.
    accept(keyed("i", "4", None), kept_ms).unwrap();
    let begun = queue.begin(&[candidate("/q", 1, 9)], 1, "p", kept_ms);
    queue.conclude(&begun[0].0, done(), kept_ms);
    assert_eq!(queue.left(), ["queue"]);
}

#[test]
fn jobs_and_their_bytes_are_bounded_and_counted() {
    let queue = Queue::new();
    let limits = QueueLimits {
        open_max: 2,
        bytes_max: 25,
    };
    queue.accept(new("a", "/q", 0), limits, 0).unwrap();
    queue.accept(new("b", "/q", 0), limits, 0).unwrap();
    let full = queue.accept(new("c", "/q", 0), limits, 0).unwrap_err();
    assert_eq!(
        full.to_string(),
        "2 jobs of this route are waiting or running already (durable.open_max)"
    );
    queue.accept(new("c", "other", 0), limits, 0).unwrap();
    let many = QueueLimits {
        open_max: 9,
        ..limits
    };
    let full = queue.accept(new("d", "/q", 0), many, 0).unwrap_err();
    assert!(
        matches!(
            full,
            JobError::BytesFull {
                bytes: 22,
                more: 11,
                ..
            }
        ),
        "{full}"
    );
    let begun = queue.begin(&[candidate("/q", 1, 9)], 1, "p", 500);
    let facts = queues(&queue.store.snapshot().unwrap(), 700).unwrap();
    let of = |name: &str| facts.iter().find(|facts| facts.queue == name).unwrap();
    assert_eq!((of("/q").waiting, of("/q").running, of("/q").bytes), (1, 1, 22));
    assert_eq!((of("/q").oldest_ms, of("other").waiting), (700, 1));
    queue.conclude(&begun[0].0, done(), 0);
    queue.accept(new("d", "/q", 0), limits, 0).unwrap();
    queue.remove("d", false, 0).unwrap();
    let facts = queues(&queue.store.snapshot().unwrap(), 0).unwrap();
    let of = facts.iter().find(|facts| facts.queue == "/q").unwrap();
    assert_eq!((of.waiting, of.running, of.bytes, of.done), (1, 0, 11, 1));
    // A lone request may have more bytes than all may.
    let few = QueueLimits {
        bytes_max: 1,
        ..limits
    };
    queue.accept(new("e", "third", 0), few, 0).unwrap();
}

#[test]
fn a_dead_letter_is_kept_listed_and_can_be_retried_and_removed() {
    let queue = Queue::new();
    let of = [candidate("/q", 1, 9)];
    for id in ["a", "b"] {
        queue.accept(new(id, "/q", 0), LIMITS, 0).unwrap();
        let begun = queue.begin(&of, 1, "p", 0);
        let outcome = Outcome::Failed {
            error: "status 400".to_owned(),
            response: Some(Content::default()),
            is_final: true,
            retry_after: None,
        };
        queue.conclude(&begun[0].0, outcome, 5);
    }
    assert_eq!(queue.listed(&[JobState::Failed]), ["a", "b"]);
    assert!(response(&queue.store.snapshot().unwrap(), "a").unwrap().is_some());
    let kept_ms = 5 + FAILED_KEPT.as_millis() as u64;
    assert!(queue.job("a", kept_ms - 1).is_some() && queue.job("a", kept_ms).is_none());
    queue.retry("a", 10).unwrap();
    let job = queue.job("a", u64::MAX).expect("it does not expire any more");
    assert_eq!((job.state, job.failures, job.due_ms), (JobState::Retrying, 0, 10));
    assert_eq!(response(&queue.store.snapshot().unwrap(), "a").unwrap(), None);
    assert_eq!(queue.listed(&[JobState::Failed]), ["b"]);
    let again = queue.begin(&of, 1, "p", 10);
    assert_eq!((ids(&again), again[0].0.attempts), (vec!["a"], 2));
    assert!(matches!(queue.retry("a", 10), Err(JobError::Running)));
    assert!(matches!(queue.remove("a", true, 10), Err(JobError::Running)));
    queue.conclude(&again[0].0, done(), 11);
    assert!(matches!(queue.retry("a", 12), Err(JobError::Over { .. })));
    assert!(matches!(queue.remove("b", false, 12), Err(JobError::Over { .. })));
    queue.remove("b", true, 12).unwrap();
    assert!(matches!(queue.retry("b", 12), Err(JobError::NotFound { .. })));
    assert_eq!(request(&queue.store.snapshot().unwrap(), "b").unwrap(), None);
    assert!(queue.listed(&JobState::ALL) == ["a"]);
}

#[test]
fn the_times_of_a_schedule_that_had_their_jobs_only_grow_unless_a_clock_was_wrong() {
    let queue = Queue::new();
    let note = |until_ms| {
        let of = "q".to_owned();
        let change = Change::Scheduled { queue: of, until_ms };
        queue.make(&change, until_ms).unwrap();
        scheduled_ms(&queue.store.snapshot().unwrap(), "q").unwrap()
    };
    assert_eq!(note(70_000), Some(70_000));
    assert_eq!(note(10_000), Some(70_000));
    assert_eq!(note(9_999), Some(9_999));
    assert_eq!(note(u64::MAX), Some(u64::MAX));
    assert_eq!(note(10_000), Some(10_000));
}

#[test]
fn what_a_dead_process_ran_runs_again_and_its_end_comes_too_late() {
    let queue = Queue::new();
    let of = [candidate("/q", 1, 9)];
    for id in ["a", "b"] {
        queue.accept(new(id, "/q", 0), LIMITS, 0).unwrap();
    }
    let before = queue.begin(&of, 1, "old", 0);
    let own = queue.begin(&of, 1, "new", 0);
    assert_eq!(queue.recover("new", 7), 1);
    assert_eq!(
        (queue.state("a"), queue.state("b")),
        (Some(JobState::Retrying), Some(JobState::Running))
    );
    assert_eq!(queue.conclude(&before[0].0, done(), 8), Changed::Nothing);
    assert_eq!(queue.state("a"), Some(JobState::Retrying));
    let again = queue.begin(&of, 1, "new", 9);
    assert_eq!((ids(&again), again[0].0.attempts), (vec!["a"], 2));
    assert_eq!(queue.conclude(&before[0].0, done(), 10), Changed::Nothing);
    queue.conclude(&again[0].0, done(), 11);
    queue.conclude(&own[0].0, done(), 11);
    assert_eq!(queue.listed(&[JobState::Done]), ["a", "b"]);
}

/// A command of a program's queue; the answer as JSON.
fn command(
    queues: &mut ProgramQueues,
    session: &mut Session,
    owner: &str,
    command: &str,
    argument: &Value,
) -> Result<Value, String> {
    let of = CommandOf {
        queue: "program",
        owner,
        now_ms: 5,
    };
    let argument = argument
        .as_str()
        .map_or_else(|| argument.to_string(), str::to_owned);
    match queues.run(session, command, of, &argument) {
        Ok(answer) => Ok(serde_json::from_str(&answer).unwrap()),
        Err(refused) => Err(refused.code.to_owned()),
    }
}

fn batch(room: usize, accepted: &Value, ended: &Value) -> Value {
    json!({ "room": room, "accepted": accepted, "ended": ended, "openMax": 2, "attempts": 2, "backoffMs": 10, "keptMs": 1000 })
}

#[test]
fn a_program_has_its_queue_to_itself_and_leaves_those_of_routes_alone() {
    let queue = Queue::new();
    queue.accept(new("a", "/q", 0), LIMITS, 0).unwrap();
    queue.begin(&[candidate("/q", 1, 1)], 1, "server", 0);
    let session = || Session::open(queue.store.path(), queue.store.options()).unwrap();
    let (mut first, mut second) = (session(), session());
    let (mut of_first, mut of_second) = (ProgramQueues::default(), ProgramQueues::default());
    let opened = command(&mut of_first, &mut first, "first", "open", &json!(""));
    assert_eq!(opened, Ok(json!({ "open": 0, "failed": [] })));
    let refused = command(&mut of_second, &mut second, "second", "open", &json!(""));
    assert_eq!(refused, Ok(Value::Null));
    let again = command(&mut of_first, &mut first, "first", "open", &json!(""));
    assert_eq!(again, Ok(Value::Null));
    let message = |id: &str, text: &str| json!({ "id": id, "key": id.get(..1), "delayMs": 0, "type": "t", "request": { "head": "{\"type\":\"t\"}", "text": text } });
    let all = json!([
        message("b", "1"),
        message("b2", "1"),
        message("b3", "2"),
        message("c", "1"),
        message("d", "1")
    ]);
    let answer = command(
        &mut of_first,
        &mut first,
        "first",
        "batch",
        &batch(1, &all, &json!([])),
    )
    .unwrap();
    let accepted = answer["accepted"].as_array().unwrap();
    assert_eq!(
        (&accepted[1]["id"], &accepted[1]["known"]["state"]),
        (&json!("b"), &json!("running"))
    );
    let codes: Vec<&Value> = accepted.iter().map(|message| &message["code"]).collect();
    assert_eq!(
        codes,
        [
            &Value::Null,
            &Value::Null,
            &json!("key_reused"),
            &Value::Null,
            &json!("queue_full")
        ]
    );
    let begun = json!([{ "id": "b", "attempt": 1, "request": { "head": "{\"type\":\"t\"}", "text": "1" } }]);
    assert_eq!((&answer["begun"], &answer["open"]), (&begun, &json!(2)));
    // The server's recovery ends no attempt of the program, nor the program's one of the server.
    assert_eq!(queue.recover("next server", 6), 1);
    let of_route = queue.begin(&[candidate("/q", 1, 1)], 1, "next server", 6);
    assert_eq!(
        (queue.state("b"), queue.state("a")),
        (Some(JobState::Running), Some(JobState::Running))
    );
    drop(of_first);
    let opened = command(&mut of_second, &mut second, "second", "open", &json!(""));
    assert_eq!(opened, Ok(json!({ "open": 2, "failed": [] })));
    assert_eq!(
        (queue.state("b"), queue.state("a")),
        (Some(JobState::Retrying), Some(JobState::Running))
    );
    // The first one has lost it: what it ends is not ended, and it begins nothing.
    let ended = json!([{ "id": "b", "attempt": 1, "jitter": 0.5, "done": { "head": "{}", "text": "1" } }]);
    let late = command(
        &mut ProgramQueues::default(),
        &mut first,
        "first",
        "batch",
        &batch(9, &json!([]), &ended),
    );
    assert_eq!(late, Ok(Value::Null));
    assert_eq!(
        (queue.state("b"), queue.state("c")),
        (Some(JobState::Retrying), Some(JobState::Waiting))
    );
    let answer = command(
        &mut of_second,
        &mut second,
        "second",
        "batch",
        &batch(9, &json!([]), &json!([])),
    )
    .unwrap();
    assert_eq!(answer["begun"].as_array().map(Vec::len), Some(2));
    let failed = json!({ "error": "no", "code": "why", "isFinal": true });
    let ended = json!([{ "id": "b", "attempt": 2, "jitter": 0.5, "failed": failed }, { "id": "c", "attempt": 1, "jitter": 0.5 }]);
    let answer = command(
        &mut of_second,
        &mut second,
        "second",
        "batch",
        &batch(0, &json!([]), &ended),
    )
    .unwrap();
    assert_eq!(
        (&answer["ended"], &answer["open"]),
        (&json!(["failed", "waiting"]), &json!(1))
    );
    let shown = command(&mut of_second, &mut second, "second", "show", &json!("b")).unwrap();
    assert_eq!(
        (&shown["request"]["body"], &shown["response"]["code"]),
        (&json!("1"), &json!("why"))
    );
    queue.conclude(&of_route[0].0, Outcome::failure("no".to_owned(), true), 6);
    // Only dead letters of its own.
    for (id, is_there) in [("a", false), ("c", false), ("b", true)] {
        let removed = command(&mut of_second, &mut second, "second", "remove", &json!(id)).unwrap();
        assert_eq!(removed, if is_there { json!(true) } else { Value::Null });
    }
    assert_eq!(
        command(&mut of_second, &mut second, "second", "sing", &json!("")),
        Err("malformed".to_owned())
    );
}

#[test]
fn a_reply_that_the_store_does_not_take_is_not_kept_and_a_message_is_refused_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        value_bytes_max: 1000,
        durability: Durability::Relaxed,
        ..Options::default()
    };
    let mut session = Session::open(folder.path(), &options).unwrap();
    let mut queues = ProgramQueues::default();
    command(&mut queues, &mut session, "p", "open", &json!("")).unwrap();
    let long = "x".repeat(2000);
    let message = |id: &str, text: &str| json!({ "id": id, "key": id.get(..1), "delayMs": 0, "type": "t", "request": { "head": "{}", "text": text } });
    let both = json!([message("a", &long), message("b", "short")]);
    let answer = command(
        &mut queues,
        &mut session,
        "p",
        "batch",
        &batch(9, &both, &json!([])),
    )
    .unwrap();
    assert_eq!(
        (&answer["accepted"][0]["code"], &answer["open"]),
        (&json!("value_too_long"), &json!(1))
    );
    assert_eq!(answer["begun"][0]["id"], "b");
    let ended = json!([{ "id": "b", "attempt": 1, "jitter": 0.5, "done": { "head": "{}", "text": long } }]);
    let answer = command(
        &mut queues,
        &mut session,
        "p",
        "batch",
        &batch(9, &json!([message("b2", "short")]), &ended),
    )
    .unwrap();
    assert_eq!(
        (&answer["ended"], &answer["accepted"][0]["known"]["state"]),
        (&json!(["done"]), &json!("done"))
    );
    assert_eq!(answer["accepted"][0]["known"]["response"], Value::Null);
}

#[test]
fn a_message_begins_as_it_is_accepted_unless_another_is_due_or_its_time_has_not_come() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = Session::open(folder.path(), &Options::default()).unwrap();
    let mut queues = ProgramQueues::default();
    command(&mut queues, &mut session, "p", "open", &json!("")).unwrap();
    let mut begun = |room: usize, ids: &[&str], delay_ms: u64| {
        let message =
            |id: &&str| json!({ "id": id, "delayMs": delay_ms, "type": "t", "request": { "head": "{}" } });
        let accepted: Vec<Value> = ids.iter().map(message).collect();
        let mut batch = batch(room, &json!(accepted), &json!([]));
        batch["openMax"] = 10.into();
        let answer = command(&mut queues, &mut session, "p", "batch", &batch).unwrap();
        let begun = answer["begun"].as_array().unwrap().iter();
        begun
            .map(|job| job["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(begun(9, &["later"], 1).is_empty());
    assert_eq!(begun(1, &["a", "b"], 0), ["a"]);
    assert_eq!(begun(1, &["c"], 0), ["b"]);
    assert_eq!(begun(9, &["d"], 0), ["c", "d"]);
    let state = session
        .look(|state, _| Ok::<_, SessionError>(queues_of(state)))
        .unwrap();
    assert_eq!((state.waiting, state.running), (1, 4));
}

fn queues_of(state: &impl Read) -> forebay_jobs::QueueFacts {
    queues(state, 5).unwrap().remove(0)
}

#[test]
fn a_job_that_is_not_to_be_kept_is_removed_when_it_is_done() {
    let queue = Queue::new();
    queue.accept(new("a", "/q", 0), LIMITS, 0).unwrap();
    let begun = queue.begin(&[candidate("/q", 1, 1)], 1, "p", 0);
    let conclude = Change::Conclude {
        id: "a".to_owned(),
        attempt: 1,
        owner: "p".to_owned(),
        outcome: done(),
        policy: Policy {
            kept: Duration::ZERO,
            ..POLICY
        },
        jitter: 0.5,
    };
    assert_eq!(ids(&begun), ["a"]);
    assert!(matches!(queue.make(&conclude, 1).unwrap(), Changed::Job(job) if job.state == JobState::Done));
    assert_eq!(request(&queue.store.snapshot().unwrap(), "a").unwrap(), None);
    assert_eq!(queue.left(), ["queue"]);
    assert_eq!(queues(&queue.store.snapshot().unwrap(), 1).unwrap()[0].done, 1);
}

#[test]
fn a_program_that_says_nothing_else_keeps_what_has_a_key() {
    let queue = Queue::new();
    let mut session = Session::open(queue.store.path(), queue.store.options()).unwrap();
    let mut queues = ProgramQueues::default();
    command(&mut queues, &mut session, "p", "open", &json!("")).unwrap();
    let message = |id: &str, key: Option<&str>| json!({ "id": id, "key": key, "delayMs": 0, "type": "t", "request": { "head": "{}", "text": "1" } });
    let ended =
        |id: &str| json!({ "id": id, "attempt": 1, "jitter": 0.5, "done": { "head": "{}", "text": "2" } });
    let mut send = |accepted: Value, ended: Value| {
        let mut batch = batch(2, &accepted, &ended);
        batch.as_object_mut().unwrap().remove("keptMs");
        command(&mut queues, &mut session, "p", "batch", &batch).unwrap()
    };
    send(
        json!([message("keyed", Some("k")), message("plain", None)]),
        json!([]),
    );
    let answer = send(json!([]), json!([ended("keyed"), ended("plain")]));
    assert_eq!(answer["ended"], json!(["done", "done"]));
    assert_eq!(
        (queue.state("keyed"), queue.state("plain")),
        (Some(JobState::Done), None)
    );
}

/// Random numbers from a seed (xorshift).
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// An hour of jobs that are accepted, fail, are cancelled and retried while processes die: none is lost, none has two attempts at a time,
/// and none begins again once it is done.
#[test]
fn an_hour_of_faults_loses_no_job_and_runs_none_twice_at_a_time() {
    for seed in 1..=4 {
        let (queue, mut rng) = (Queue::new(), Rng(seed));
        let of = [candidate("/x", 0, 3), candidate("/y", 1, 4)];
        let (mut now_ms, mut process, mut next) = (0, 0, 0);
        let mut open: BTreeSet<String> = BTreeSet::new();
        let mut over: BTreeSet<String> = BTreeSet::new();
        let mut running: BTreeMap<String, Job> = BTreeMap::new();
        let mut acts = 0;
        loop {
            now_ms += rng.below(20_000);
            let owner = format!("process {process}");
            acts += 1;
            let is_ending = now_ms > 3_600_000;
            match rng.below(if is_ending { 60 } else { 100 }) {
                0..30 => {
                    for (job, _) in queue.begin(&of, 2, &owner, now_ms) {
                        assert!(
                            open.contains(&job.id),
                            "seed {seed}: {} begins after its end",
                            job.id
                        );
                        assert!(job.due_ms <= now_ms);
                        assert!(
                            !running.contains_key(&job.id),
                            "seed {seed}: {} runs twice",
                            job.id
                        );
                        running.insert(job.id.clone(), job);
                    }
                }
                30..60 => {
                    let Some((id, job)) = running.pop_first() else {
                        continue;
                    };
                    let outcome = match rng.below(4) {
                        0 => failed(),
                        1 => Outcome::NotBegun,
                        _ => done(),
                    };
                    let Changed::Job(job) = queue.conclude(&job, outcome, now_ms) else {
                        panic!("seed {seed}: the attempt of {id} was not in progress");
                    };
                    if job.state.is_over() {
                        open.remove(&id);
                        over.insert(id);
                    }
                }
                60..62 => {
                    // The process dies, and its attempts with it.
                    running.clear();
                    process += 1;
                    queue.recover(&format!("process {process}"), now_ms);
                }
                62..65 => {
                    let Some(id) = open.iter().next().cloned() else {
                        continue;
                    };
                    match queue.remove(&id, false, now_ms) {
                        Ok(_) => drop(open.remove(&id)),
                        Err(error) => {
                            assert!(matches!(error, JobError::Running), "seed {seed}: {error}");
                            assert!(running.contains_key(&id));
                        }
                    }
                }
                _ => {
                    next += 1;
                    let id = format!("job {next:06}");
                    let delay = rng.below(2) * rng.below(60_000);
                    let name = if rng.below(2) == 0 { "/x" } else { "/y" };
                    queue.accept(new(&id, name, delay), LIMITS, now_ms).unwrap();
                    open.insert(id);
                }
            }
            if is_ending && open.is_empty() {
                break;
            }
            assert!(acts < 100_000, "seed {seed}: {} jobs are left", open.len());
        }
        let snapshot = queue.store.snapshot().unwrap();
        for facts in queues(&snapshot, now_ms).unwrap() {
            assert_eq!(
                (facts.waiting, facts.running, facts.bytes),
                (0, 0, 0),
                "seed {seed}"
            );
        }
        let listed = list(
            &snapshot,
            &[JobState::Done, JobState::Failed],
            None,
            usize::MAX,
            0,
        )
        .unwrap();
        let listed: BTreeSet<_> = listed.into_iter().map(|job| job.id).collect();
        assert_eq!(listed, over, "seed {seed}");
        drop(snapshot);
        assert_eq!(queue.left(), ["queue"], "seed {seed}");
    }
}
