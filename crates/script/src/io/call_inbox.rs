//! Calls that wait for statements on an I/O thread. They are driven by the task of their request: nothing is passed between tasks or
//! threads.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    future::poll_fn,
    mem,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use forebay_trace::{Kind, Span};
use futures_util::stream::{FuturesUnordered, Stream as _};

use super::Engine;
use crate::{
    Answer, Failure, Weight,
    calls::{CallId, Over, Until},
    host_ops::{HostOp, OpResult, WaitId, What},
    in_flight::InFlight,
    instance::{Gone, Step},
};

/// The name of such calls' steps in traces.
const RUNNING: &str = "script, on the I/O thread";

/// The result of a call that has waited.
#[derive(Debug)]
pub enum Finished {
    /// The call is answered.
    Answered(Answer),
    /// An executor must run the call from the start.
    Elsewhere {
        /// The payload of its request.
        payload: Vec<u8>,
        /// Whether it needs something that only an executor does. Otherwise it was stopped here because it exceeded a limit, or it waited
        /// for another call that was.
        belongs_there: bool,
    },
}

/// Inboxes of an engine's calls, filled by steps of any call.
#[derive(Debug, Default)]
pub(super) struct CallInbox(RefCell<HashMap<CallId, Box<CallMessages>>>);

#[derive(Debug, Default)]
struct CallMessages {
    over: Option<Over>,
    wants: Vec<HostOp>,
    /// Wakes the call's task when they come from another call's step.
    waker: Option<Waker>,
}

impl Engine {
    /// Delivers the results of a step to the inboxes of their calls. Results for a cancelled call are dropped.
    fn deliver(&self) {
        let mut mail = self.mail.0.borrow_mut();
        while let Some(over) = self.instance.next_over() {
            if let Some(letters) = mail.get_mut(&over.id) {
                letters.over = Some(over);
                letters.call();
            }
        }
        for want in self.instance.take_wants() {
            if let Some(letters) = mail.get_mut(&want.call) {
                letters.wants.push(want);
                letters.call();
            }
        }
    }
}

impl CallInbox {
    /// Has all calls look.
    pub(super) fn call_all(&self) {
        self.0
            .borrow_mut()
            .values_mut()
            .for_each(|letters| letters.call());
    }
}

impl CallMessages {
    fn call(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The result of statements, for a wait.
type Come = Pin<Box<dyn Future<Output = (WaitId, OpResult)>>>;

/// A waiting call. Dropping it cancels the call.
pub struct Waiting {
    engine: Rc<Engine>,
    id: CallId,
    until: Until,
    statements: FuturesUnordered<Come>,
    /// Waits for steps of its own.
    turns: VecDeque<WaitId>,
    finished: Option<Finished>,
    /// Whether the call is no longer registered with the engine.
    is_over: bool,
    _in_flight: InFlight,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Waiting")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let counts = &self.engine.options.counts;
        if self.until.by_deadline && self.until.at <= Instant::now() {
            counts.failure(&Failure::DeadlinePassed);
            self.give_up(Gone::Deadline);
        } else {
            counts.cancelled();
            self.give_up(Gone::Client);
        }
    }
}

impl Waiting {
    pub(super) fn begin(
        engine: Rc<Engine>,
        payload: Vec<u8>,
        deadline: Option<Instant>,
        in_flight: InFlight,
    ) -> Self {
        let id = engine.instance.open(payload, deadline);
        engine.mail.0.borrow_mut().insert(id, Box::default());
        let mut own = Self {
            until: engine.instance.until(id),
            id,
            statements: FuturesUnordered::new(),
            turns: VecDeque::new(),
            finished: None,
            is_over: false,
            _in_flight: in_flight,
            engine,
        };
        let step = own.engine.instance.run(id, own.engine.options.limits.io_cpu_max);
        own.after(&step);
        own
    }

    /// Takes the result, if the call is finished.
    pub(super) fn take_finished(&mut self) -> Option<Finished> {
        self.finished.take()
    }

    /// Drives the call to its end. Fails when its time limit is reached.
    pub async fn finish(mut self) -> Result<Finished, Failure> {
        loop {
            if let Some(finished) = self.finished.take() {
                return Ok(finished);
            }
            let at = self.until.at;
            let has_limit = !self.statements.is_empty();
            let next = poll_fn(|cx| self.poll_next(cx));
            let next = if has_limit {
                // The statements themselves have this limit.
                Some(next.await)
            } else {
                tokio::time::timeout_at(at.into(), next).await.ok()
            };
            match next.filter(|_| Instant::now() < at) {
                Some(Some((wait, came))) => {
                    let trace = forebay_trace::current().map(|trace| (trace, Instant::now()));
                    let step = self.engine.instance.resume(self.id, wait, came);
                    if let Some((trace, from)) = trace {
                        trace.record(Span::new(Kind::Running, RUNNING, from, Instant::now()));
                    }
                    self.after(&step);
                }
                Some(None) => self.look(false),
                None => {
                    let options = &self.engine.options;
                    let failure = self.until.failure(options.limits.time_max);
                    options.counts.failure(&failure);
                    self.give_up(Gone::Deadline);
                    return Err(failure);
                }
            }
        }
    }

    /// Returns the result of one of the call's waits; `None` if another call's step has requested something for it.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(WaitId, OpResult)>> {
        if let Some(wait) = self.turns.pop_front() {
            return Poll::Ready(Some((wait, OpResult::Nothing)));
        }
        if let Poll::Ready(Some(come)) = Pin::new(&mut self.statements).poll_next(cx) {
            return Poll::Ready(Some(come));
        }
        let mut mail = self.engine.mail.0.borrow_mut();
        let Some(letters) = mail.get_mut(&self.id) else {
            return Poll::Pending;
        };
        if letters.over.is_some() || !letters.wants.is_empty() || self.is_stranded() {
            return Poll::Ready(None);
        }
        letters.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Handles the results of its own step.
    fn after(&mut self, step: &Step) {
        let instance = &self.engine.instance;
        if instance.take_elsewhere() {
            instance.weigh(self.id, Weight::Heavy);
        }
        if step.stopped.is_some() {
            self.engine.retire();
        }
        self.engine.deliver();
        self.look(step.took > self.engine.options.limits.io_cpu_max);
    }

    /// Checks its inbox. `is_slow` says whether the last step was slow.
    fn look(&mut self, is_slow: bool) {
        let (over, wants) = {
            let mut mail = self.engine.mail.0.borrow_mut();
            let Some(letters) = mail.get_mut(&self.id) else {
                return;
            };
            (letters.over.take(), mem::take(&mut letters.wants))
        };
        if let Some(Over { outcome, payload, .. }) = over {
            self.end();
            self.finished = Some(match outcome {
                Ok(mut answer) if answer.weight < Weight::Heavy => {
                    if is_slow {
                        // It was in an operation that cannot be stopped; the next one like it must not block the thread.
                        answer.weight = Weight::Heavy;
                    }
                    Finished::Answered(answer)
                }
                outcome => {
                    // Other calls must not see what it has left behind, such as a promise that was rejected because writes are not possible
                    // here.
                    self.engine.retire();
                    Finished::Elsewhere {
                        payload,
                        belongs_there: outcome.is_ok(),
                    }
                }
            });
        } else if self.engine.instance.weight(self.id) == Some(Weight::Heavy) {
            self.hand_over(true);
        } else {
            for want in wants {
                self.set_about(want);
            }
            if self.is_stranded() {
                self.hand_over(false);
            }
        }
    }

    /// Whether it has no waits of its own, and events that it expects from other calls may never happen.
    fn is_stranded(&self) -> bool {
        self.engine.is_retired() && self.statements.is_empty() && self.turns.is_empty()
    }

    /// Leaves the call to an executor, which runs it from the start.
    fn hand_over(&mut self, belongs_there: bool) {
        let payload = self.engine.instance.close(self.id).unwrap_or_default();
        self.end();
        self.engine.retire();
        self.finished = Some(Finished::Elsewhere {
            payload,
            belongs_there,
        });
    }

    fn set_about(&mut self, HostOp { wait, what, .. }: HostOp) {
        match what {
            What::Sql(statements) => {
                let deadline = self.until.at;
                let come = async move { (wait, OpResult::Results(statements.run(deadline).await)) };
                self.statements.push(Box::pin(come));
            }
            What::Turn => self.turns.push_back(wait),
            // Other operations do not occur here. A cancelled wait needs no action: its result is ignored.
            _ => {}
        }
    }

    fn give_up(&mut self, gone: Gone) {
        self.engine.instance.close(self.id);
        self.engine.instance.abort(self.id, gone);
        self.engine.deliver();
        self.end();
    }

    fn end(&mut self) {
        self.is_over = true;
        self.statements.clear();
        self.engine.mail.0.borrow_mut().remove(&self.id);
    }
}
