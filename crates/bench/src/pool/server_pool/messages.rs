//! The loop that submits messages, in blocks or as replies arrive, and records the result of each.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    io::Write as _,
    rc::Rc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use forebay_pool::{
    Answer, Connection, Delivery, Failure, Job, Limits, LocalMailbox, Pool, RequestParts, Retry,
};
use hdrhistogram::Histogram;
use serde::Deserialize;
use tokio::{sync::Notify, task::JoinSet, time};

use super::MESSAGE_BYTES;
use crate::pool::{
    BenchError, Load, OUTSTANDING_MAX, Plan, SuiteEvent,
    adaptive::{AdaptiveDelay, Change},
    lines,
    suite::Tell,
};

/// Interval of progress reports and of the check for the deadline.
const WATCH: Duration = Duration::from_millis(200);
/// Distinct error texts kept; further ones are only counted.
const ERROR_TEXTS_MAX: usize = 5;
/// Characters kept of an error's text.
const ERROR_TEXT_MAX: usize = 300;
/// The largest latency that the histogram resolves: one hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// The messages of one run and their results. The tasks of outstanding messages share it.
pub(super) struct Messages {
    pool: Pool,
    mailbox: Rc<LocalMailbox>,
    total: u64,
    deadline: Duration,
    /// The JSON member with the payload text that is part of every message, or nothing.
    payload: String,
    /// Whether replies come from the built-in handler, which names the message each belongs to.
    checked: bool,
    begun: Instant,
    begun_unix: Duration,
    submitted: Cell<u64>,
    answered: Cell<u64>,
    outstanding_max: Cell<u64>,
    over: Notify,
    counted: RefCell<Counted>,
}

/// Figures of a completed loop.
pub(super) struct Driven {
    pub(super) elapsed: Duration,
    /// The delay between blocks when the loop ended.
    pub(super) delay: Duration,
    pub(super) outstanding_max: u64,
}

pub(super) struct Counted {
    pub(super) latency_ns: Histogram<u64>,
    pub(super) errors: u64,
    pub(super) texts: BTreeMap<String, u64>,
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            latency_ns: Histogram::new_with_bounds(1, LATENCY_NS_MAX, 2).expect("the bounds are constants"),
            errors: 0,
            texts: BTreeMap::new(),
        }
    }
}

/// The fields of the built-in handler's reply that are checked.
#[derive(Deserialize)]
struct Reply {
    #[serde(rename = "messageNo")]
    number: u64,
}

impl Messages {
    pub(super) fn new(pool: &Pool, mailbox: &Rc<LocalMailbox>, plan: &Plan, total: u64) -> Rc<Self> {
        let payload = match plan.payload {
            0 => String::new(),
            bytes => format!(r#","payload":"{}""#, "x".repeat(bytes)),
        };
        Rc::new(Self {
            pool: pool.clone(),
            mailbox: mailbox.clone(),
            total,
            deadline: plan.deadline,
            payload,
            checked: plan.handler.is_none(),
            begun: Instant::now(),
            begun_unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            submitted: Cell::new(0),
            answered: Cell::new(0),
            outstanding_max: Cell::new(0),
            over: Notify::new(),
            counted: RefCell::default(),
        })
    }

    pub(super) fn take_counted(&self) -> Counted {
        self.counted.take()
    }

    /// Submits all messages and returns when each has been answered or has failed. Fails if no reply arrives within the deadline.
    pub(super) async fn drive(
        self: Rc<Self>,
        load: Load,
        block: usize,
        warming_up: bool,
        tell: &mut Tell<'_>,
    ) -> Result<Driven, BenchError> {
        // Dropping the set aborts the remaining tasks.
        let mut tasks = JoinSet::new();
        let (mut delay, adaptive) = match load {
            Load::Saturating { .. } => (AdaptiveDelay::new(Duration::ZERO), false),
            Load::Blocks { delay, adaptive } => (AdaptiveDelay::new(delay), adaptive),
        };
        let begun = Instant::now();
        let in_blocks = match load {
            Load::Saturating { outstanding } => {
                for _ in 0..self.total.min(outstanding as u64) {
                    tasks.spawn_local(self.clone().keep_sending());
                }
                false
            }
            Load::Blocks { .. } => true,
        };
        let mut number = 0;
        let mut next_block = time::Instant::now() + delay.delay();
        let mut watch = time::interval(WATCH);
        let mut last = (0, Instant::now());
        loop {
            tokio::select! {
                () = self.over.notified() => break,
                () = time::sleep_until(next_block), if in_blocks && self.submitted.get() < self.total => {
                    let waiting = self.submitted.get() - self.answered.get();
                    let size = (block as u64).min(OUTSTANDING_MAX as u64 - waiting);
                    if size > 0 {
                        number += 1;
                        if adaptive {
                            self.adapt(&mut delay, number, waiting, tell);
                        }
                        // Finished tasks occupy memory until they are joined.
                        while tasks.try_join_next().is_some() {}
                        for number in (0..size).map_while(|_| self.take_number()) {
                            tasks.spawn_local(self.clone().send_one(number));
                        }
                    }
                    if adaptive && self.submitted.get() == self.total {
                        tell(SuiteEvent::Line(&lines::completed_sending()));
                    }
                    next_block = time::Instant::now() + delay.delay();
                }
                _ = watch.tick() => {
                    let (submitted, answered) = (self.submitted.get(), self.answered.get());
                    tell(SuiteEvent::Progress { warming_up, answered, messages: self.total });
                    if answered != last.0 || answered == submitted {
                        last = (answered, Instant::now());
                    }
                    if last.1.elapsed() >= self.deadline {
                        return Err(self.silent());
                    }
                }
            }
        }
        Ok(Driven {
            elapsed: begun.elapsed(),
            delay: delay.delay(),
            outstanding_max: self.outstanding_max.get(),
        })
    }

    fn adapt(&self, delay: &mut AdaptiveDelay, block: u64, waiting: u64, tell: &mut Tell<'_>) {
        let sent = self.submitted.get();
        match delay.observe(waiting) {
            Change::Increased => {
                tell(SuiteEvent::Line(&lines::queue_increased(block, sent, waiting)));
                tell(SuiteEvent::Line(&lines::delay_increased(delay.delay())));
            }
            Change::Reduced => {
                tell(SuiteEvent::Line(&lines::queue_exhausted(block, sent)));
                tell(SuiteEvent::Line(&lines::delay_reduced(delay.delay())));
            }
            Change::None => {}
        }
    }

    fn silent(&self) -> BenchError {
        let counted = self.counted.borrow();
        let errors = counted
            .texts
            .iter()
            .map(|(text, count)| format!("; {count} x {text}"));
        BenchError::Silent {
            missing: self.submitted.get() - self.answered.get(),
            submitted: self.submitted.get(),
            deadline: self.deadline,
            errors: errors.collect(),
        }
    }

    /// The number of the next message; `None` once all have been taken.
    fn take_number(&self) -> Option<u64> {
        let number = self.submitted.get() + 1;
        if number > self.total {
            return None;
        }
        self.submitted.set(number);
        let outstanding = number - self.answered.get();
        self.outstanding_max
            .set(self.outstanding_max.get().max(outstanding));
        Some(number)
    }

    async fn keep_sending(self: Rc<Self>) {
        let mut body = Vec::with_capacity(MESSAGE_BYTES + self.payload.len());
        while let Some(number) = self.take_number() {
            self.send(number, &mut body).await;
        }
    }

    async fn send_one(self: Rc<Self>, number: u64) {
        let mut body = Vec::with_capacity(MESSAGE_BYTES + self.payload.len());
        self.send(number, &mut body).await;
    }

    /// Submits a message and records its result.
    async fn send(&self, number: u64, body: &mut Vec<u8>) {
        let now = Instant::now();
        let unix_ms = (self.begun_unix + (now - self.begun)).as_millis();
        body.clear();
        write!(
            body,
            r#"{{"type":"benchmark","messageNo":{number},"time":{unix_ms}{}}}"#,
            self.payload
        )
        .expect("a Vec takes everything");
        let ended = self.reply(now, body, number).await;
        let mut counted = self.counted.borrow_mut();
        let latency_ns = u64::try_from(now.elapsed().as_nanos()).unwrap_or(u64::MAX);
        counted.latency_ns.saturating_record(latency_ns);
        if let Err(text) = ended {
            counted.errors += 1;
            if counted.texts.contains_key(&text) || counted.texts.len() < ERROR_TEXTS_MAX {
                *counted.texts.entry(text).or_default() += 1;
            }
        }
        drop(counted);
        let answered = self.answered.get() + 1;
        self.answered.set(answered);
        if answered == self.total {
            self.over.notify_one();
        }
    }

    /// Submits one message and checks its reply. The error describes in a sentence what is wrong with the reply.
    async fn reply(&self, now: Instant, body: &[u8], number: u64) -> Result<(), String> {
        let job = Job {
            payload: payload(body),
            whole: true,
            may_upgrade: false,
            connection: Connection::default(),
            trace: None,
            client: None,
            since: now,
            deadline: now + self.deadline,
            limits: Limits {
                queue_timeout: self.deadline,
                run_timeout: self.deadline,
                retry: Retry::Never,
            },
        };
        let failed = |failure: Failure| failure.to_string();
        match self.pool.submit(&self.mailbox, job).map_err(failed)?.next().await {
            Delivery::Answer(answer) => self.check(&answer, number),
            Delivery::Failed(failure) => Err(failed(failure)),
            _ => Err("a piece came before a reply".to_owned()),
        }
    }

    fn check(&self, answer: &Answer, number: u64) -> Result<(), String> {
        let body = answer.body();
        if answer.status() >= 400 {
            let text = String::from_utf8_lossy(&body);
            let text: String = text.chars().take(ERROR_TEXT_MAX).collect();
            return Err(format!("status {}: {}", answer.status(), text.trim()));
        }
        if !answer.ended() {
            return Err("the reply comes in pieces, which is not measured here".to_owned());
        }
        match serde_json::from_slice::<Reply>(&body) {
            _ if !self.checked => Ok(()),
            Ok(reply) if reply.number == number => Ok(()),
            Ok(_) => Err("a message got the reply of another".to_owned()),
            Err(_) => Err("a reply is not what the handler answers".to_owned()),
        }
    }
}

/// The payload of a REQUEST frame.
fn payload(body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(MESSAGE_BYTES + body.len());
    RequestParts {
        remaining_ms: 0,
        method: b"POST",
        path: b"/benchmark",
        query: b"",
        route: b"/benchmark",
        params: std::iter::empty::<(&[u8], &[u8])>(),
        headers: std::iter::once((&b"content-type"[..], &b"application/json"[..])),
        peer: b"",
        id: b"",
        identity: b"",
        body,
    }
    .put(&mut payload);
    payload
}
