//! Clients that submit jobs. Each knows what it may receive, and fails the test if something else arrives.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use super::{super::JobHandle, dice::Dice, wire::Offer};
use crate::{Delivery, Failure, Limits, Retry};

/// The behaviour of a job's handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Answer,
    Fault,
    Reset,
    /// Its process dies before the answer.
    Crash,
    AnswerAndCrash,
    /// It breaks the protocol.
    Garbage,
    /// It never returns, and nothing else runs in its process.
    Spin,
    /// It never answers, although its process continues.
    Deaf,
    /// It answers once it is aborted.
    Polite,
    /// Sends a head, then chunks.
    Stream {
        chunks: u32,
        resets: bool,
    },
}

/// The behaviour of a job's handler, and the duration of each step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    pub(super) kind: Kind,
    pub(super) work: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No delivery yet.
    Waiting,
    /// An answer without its whole body was delivered.
    Streaming,
    /// The last delivery has arrived.
    Over,
    /// The owner has cancelled.
    Left,
}

#[derive(Debug)]
pub(super) struct Owner {
    pub(super) handle: JobHandle,
    pub(super) limits: Limits,
    pub(super) deadline: Instant,
    /// Start of its current wait: its arrival, or the death of the worker that ran it.
    pub(super) waits_since: Instant,
    pub(super) stage: Stage,
    /// Worker and time of the last start of its handler.
    pub(super) started: Option<(u64, Instant)>,
    /// When it was sent to its current worker.
    pub(super) offered: Option<Instant>,
    /// Whether it was ever sent: then the queue's limits no longer apply to it.
    pub(super) was_offered: bool,
    /// When it cancelled a response that had begun.
    left_stream: Option<Instant>,
    script: Script,
    end: bool,
    runs: u32,
}

impl Owner {
    /// When a job that was started at this time exceeds its limit. `None` while its response continues.
    pub(super) fn limit(&self, started: Instant) -> Option<Instant> {
        let run_timeout = self.limits.run_timeout;
        match (self.left_stream, self.stage) {
            (Some(left), _) => Some(left + run_timeout),
            (None, Stage::Streaming) => None,
            (None, _) => Some(self.deadline.min(started + run_timeout)),
        }
    }
}

/// A future action of an owner.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Cancel,
    SendBody,
    Grant,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Clients {
    owners: BTreeMap<u64, Owner>,
    /// Owners that are still waiting.
    open: BTreeSet<u64>,
    todo: BTreeMap<(Instant, u64), (u64, Act)>,
    acts: u64,
    /// Serial number of the last job that was started, in worlds where one worker must keep the order.
    last_started: Option<u64>,
    in_order: bool,
    /// Whether workers claim jobs before they start them.
    claims: bool,
    pub(super) abandoned: bool,
    /// Whether there is no worker and the last start has failed.
    pub(super) starts_fail: bool,
    pub(super) delivered: u64,
}

impl Clients {
    pub(super) fn new(claims: bool, in_order: bool) -> Self {
        Self {
            in_order,
            claims,
            ..Self::default()
        }
    }

    /// Adds an owner. Its serial number is its address in deliveries.
    pub(super) fn add(
        &mut self,
        serial: u64,
        handle: JobHandle,
        (limits, deadline, end): (Limits, Instant, bool),
        script: Script,
        now: Instant,
    ) {
        let owner = Owner {
            handle,
            limits,
            deadline,
            waits_since: now,
            stage: Stage::Waiting,
            started: None,
            offered: None,
            was_offered: false,
            left_stream: None,
            script,
            end,
            runs: 0,
        };
        self.owners.insert(serial, owner);
        self.open.insert(serial);
    }

    pub(super) fn later(&mut self, at: Instant, serial: u64, act: Act) {
        self.acts += 1;
        self.todo.insert((at, self.acts), (serial, act));
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.todo.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Takes the action that is due. `None` if its owner is gone.
    pub(super) fn next_act(&mut self) -> Option<(u64, JobHandle, Act)> {
        let (_, (serial, act)) = self.todo.pop_first()?;
        let owner = self.owners.get(&serial)?;
        matches!(owner.stage, Stage::Waiting | Stage::Streaming).then_some((serial, owner.handle, act))
    }

    pub(super) fn open(&self) -> impl Iterator<Item = (u64, &Owner)> {
        self.open.iter().map(|serial| (*serial, &self.owners[serial]))
    }

    pub(super) fn owner(&self, serial: u64) -> Option<&Owner> {
        self.owners.get(&serial)
    }

    /// Forgets owners that have left or are done, except for jobs that a worker still runs.
    pub(super) fn forget_all_but(&mut self, running: &BTreeSet<u64>) {
        self.owners
            .retain(|serial, _| self.open.contains(serial) || running.contains(serial));
    }

    fn close(&mut self, serial: u64, stage: Stage) {
        self.open.remove(&serial);
        self.owners
            .get_mut(&serial)
            .expect("an open owner is known")
            .stage = stage;
    }

    pub(super) fn left(&mut self, serial: u64, now: Instant) {
        let owner = self.owners.get_mut(&serial).expect("whoever leaves was there");
        owner.left_stream = (owner.stage == Stage::Streaming).then_some(now);
        self.close(serial, Stage::Left);
    }

    /// Records that a job was sent to a worker.
    pub(super) fn offered(&mut self, serial: u64, now: Instant) {
        if let Some(owner) = self.owners.get_mut(&serial) {
            owner.offered = Some(now);
            owner.was_offered = true;
        }
    }

    /// Records that a worker starts a job's handler.
    pub(super) fn started(&mut self, offer: Offer, worker: u64, claimed: bool, now: Instant) -> Script {
        let owner = self
            .owners
            .get_mut(&offer.serial)
            .expect("a job that is over is never started");
        owner.runs += 1;
        owner.started = Some((worker, now));
        let may_repeat = owner.limits.retry == Retry::Idempotent && owner.end;
        assert!(
            owner.runs <= 1 + u32::from(may_repeat),
            "job {} runs once too often",
            offer.serial
        );
        if claimed {
            assert_eq!(
                owner.stage,
                Stage::Waiting,
                "a job whose owner knows its end is never claimed"
            );
        }
        if self.in_order {
            let last = self.last_started.replace(offer.serial);
            assert!(
                last < Some(offer.serial),
                "job {} overtook {last:?}",
                offer.serial
            );
        }
        owner.script
    }

    /// Records that a job whose worker is gone waits again; if it had run, its wait starts now.
    pub(super) fn waits_again(&mut self, serial: u64, now: Instant) {
        let owner = self
            .owners
            .get_mut(&serial)
            .expect("a job that waits has an owner");
        let ran = if self.claims {
            owner.started.is_some()
        } else {
            owner.offered.is_some()
        };
        if ran {
            owner.waits_since = now;
        }
        (owner.started, owner.offered) = (None, None);
    }

    /// Handles a delivery to an owner.
    pub(super) fn deliver(&mut self, serial: u64, delivery: &Delivery, now: Instant, dice: &mut Dice) {
        self.delivered += 1;
        let owner = self
            .owners
            .get(&serial)
            .expect("nothing comes for a job that is over");
        let stage = owner.stage;
        assert!(
            matches!(stage, Stage::Waiting | Stage::Streaming),
            "owner {serial} gets {delivery:?} after its end ({stage:?})"
        );
        match delivery {
            Delivery::Answer(answer) => {
                assert_eq!(stage, Stage::Waiting, "one answer comes");
                assert_eq!(
                    answer.body(),
                    &serial.to_le_bytes()[..],
                    "the answer is the owner's own"
                );
                assert!(owner.runs > 0, "only a handler answers");
                if answer.ended() {
                    self.close(serial, Stage::Over);
                } else {
                    self.owners.get_mut(&serial).expect("it was there above").stage = Stage::Streaming;
                }
            }
            Delivery::Chunk { bytes, end, .. } => {
                assert_eq!(stage, Stage::Streaming, "a body follows its head");
                assert_eq!(bytes, &serial.to_le_bytes()[..], "the body is the owner's own");
                if *end {
                    self.close(serial, Stage::Over);
                } else {
                    self.later(now + dice.micros(10, 2000), serial, Act::Grant);
                }
            }
            Delivery::Window(_) => self.later(now + dice.micros(10, 2000), serial, Act::SendBody),
            Delivery::Trailers(_) | Delivery::Message(_) | Delivery::Close { .. } | Delivery::Overflow => {
                panic!("no simulated client has a WebSocket")
            }
            Delivery::Failed(failure) => {
                self.check_failure(owner, failure, now);
                self.close(serial, Stage::Over);
            }
        }
    }

    /// Start of a job as far as the server can know: without claim words, the time at which it was sent.
    pub(super) fn seems_started(&self, owner: &Owner) -> Option<Instant> {
        if self.claims {
            owner.started.map(|(_, at)| at)
        } else {
            owner.offered
        }
    }

    /// A failure must be true: the limit has passed, or the worker has died.
    fn check_failure(&self, owner: &Owner, failure: &Failure, now: Instant) {
        let kind = owner.script.kind;
        match failure {
            Failure::QueueTimeout { queue_timeout } => {
                assert_eq!(owner.limits.queue_timeout, *queue_timeout);
                assert!(now >= owner.waits_since + *queue_timeout, "{failure} is true");
                assert!(self.seems_started(owner).is_none(), "what runs does not wait");
            }
            Failure::RunTimeout { run_timeout } => {
                let started = self
                    .seems_started(owner)
                    .expect("what does not run has no run time");
                assert!(now >= started + *run_timeout, "{failure} is true");
            }
            Failure::DeadlinePassed => assert!(now >= owner.deadline, "{failure} is true"),
            Failure::WorkerDied { .. } if self.claims => assert!(owner.runs > 0, "{failure} is true"),
            Failure::WorkerDied { .. } => assert!(owner.was_offered, "{failure} may be true"),
            Failure::ResponseReset => assert!(
                matches!(kind, Kind::Reset | Kind::Stream { resets: true, .. }),
                "no other handler gives up: {kind:?}"
            ),
            Failure::InvalidAnswer { .. } | Failure::TooManyRooms { .. } => {
                panic!("frames have no such answers")
            }
            Failure::TooManyConnections { .. } => panic!("the limit is out of reach"),
            Failure::NoHost { .. } => panic!("its workers are processes"),
            Failure::Stopping { .. } => assert!(self.abandoned, "a stopped pool finishes what it has"),
            Failure::NotStarting { .. } => {
                assert!(
                    self.starts_fail && self.seems_started(owner).is_none(),
                    "{failure} is true"
                );
            }
            Failure::QueueFull { .. } | Failure::QueueBytesFull { .. } => {
                panic!("an accepted job fails with {failure}")
            }
        }
    }
}
