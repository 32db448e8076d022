//! The pool as its users hold it: submit a job, wait for what comes back. Glue between the state's decisions and the threads, links
//! and processes that carry them out.

use std::{
    future::poll_fn,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use forebay_trace::Trace;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::{
    Calls, Delivery, EndCause, Failure, Limits, Options, Protocol,
    delivery::ReplyTo,
    dialect,
    link::Link,
    mailbox::{LocalMailbox, Mailboxes},
    session::Session,
    state::{Command, JobHandle, NewJob, State},
    status::{Readiness, Status},
    supervisor::Supervisor,
};

/// One job for a worker.
#[derive(Debug)]
pub struct Job {
    /// The payload of its REQUEST frame, written by [`RequestParts`](crate::RequestParts).
    pub payload: Vec<u8>,
    /// Whether the payload has the whole body; otherwise [`Pending::send_body`] brings the rest.
    pub whole: bool,
    /// When it began to wait: now, or a moment ago by a clock that was read already.
    pub since: Instant,
    /// When the client must have its answer.
    pub deadline: Instant,
    /// Its other limits.
    pub limits: Limits,
    /// Where what is done for it is recorded, if anybody wants to know.
    pub trace: Option<Trace>,
}

/// A supervised pool of workers. Cloning it gives another handle to the same pool.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(crate) shared: Arc<Shared>,
}

/// What the threads that work for a pool share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) mailboxes: Arc<Mailboxes>,
    pub(crate) state: Mutex<State<Arc<Link>>>,
    /// Housekeeping is due.
    pub(crate) wake: Notify,
    /// Commands that did not come from housekeeping.
    pub(crate) commands: Mutex<Vec<Command>>,
    /// What the last failed start said.
    pub(crate) start_error: Mutex<Option<String>>,
    pub(crate) readiness: watch::Sender<Readiness>,
    /// Who answers what workers ask, and how long that may take.
    pub(crate) calls: Option<Arc<dyn Calls>>,
    pub(crate) call_timeout: Duration,
    pub(crate) protocol: Protocol,
}

impl Shared {
    /// Locks the state for a batch of changes.
    pub(crate) fn session<'a>(&'a self, mailbox: Option<&'a Rc<LocalMailbox>>) -> Session<'a> {
        Session::of(self, mailbox)
    }

    pub(crate) fn condemn(&self, worker: usize, cause: EndCause) {
        let command = self.state.lock().condemn(worker, cause, Instant::now());
        if let Some(command) = command {
            self.commands.lock().push(command);
            self.wake.notify_one();
        }
    }
}

impl Pool {
    /// Makes a pool and starts its workers. Answers arrive in the mailboxes of the threads that submit.
    pub fn start(options: Options, supervisor: &Supervisor, mailboxes: Arc<Mailboxes>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            name: options.name.clone(),
            calls: options.calls.clone(),
            call_timeout: options.call_timeout,
            protocol: options.program.protocol,
            mailboxes,
            state: Mutex::new(State::new(options, cores)),
            wake: Notify::new(),
            commands: Mutex::default(),
            start_error: Mutex::default(),
            readiness: watch::Sender::new(Readiness::Starting),
        });
        supervisor.keep(shared.clone());
        Self { shared }
    }

    /// The pool's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// What its workers speak.
    pub fn protocol(&self) -> Protocol {
        self.shared.protocol
    }

    /// Whether a request with this body can be told to a worker; the error says why not.
    pub fn check_body(&self, body: &[u8]) -> Result<(), String> {
        dialect::check_body(self.shared.protocol, body)
    }

    /// Takes a job, or says at once why not. Dropping the result before its end cancels the job.
    ///
    /// # Panics
    /// When the protocol takes whole bodies only and the job has none.
    pub fn submit(&self, mailbox: &Rc<LocalMailbox>, job: Job) -> Result<Pending<'_>, Failure> {
        assert!(
            job.whole || !self.shared.protocol.takes_whole_bodies(),
            "a job has its whole body where messages do"
        );
        let place = mailbox.wait();
        let new = NewJob {
            payload: dialect::translated(self.shared.protocol, job.payload),
            end: job.whole,
            limits: job.limits,
            deadline: job.deadline,
            trace: job.trace,
            reply_to: place,
        };
        let submitted = {
            let mut session = self.shared.session(Some(mailbox));
            let (state, out) = session.parts();
            state.submit(new, job.since, out)
        };
        match submitted {
            Ok(handle) => Ok(Pending {
                shared: &self.shared,
                mailbox: mailbox.clone(),
                place,
                handle,
                over: false,
            }),
            Err(failure) => {
                mailbox.forget(place);
                Err(failure)
            }
        }
    }

    /// Changes the range of workers at run time. A `max` below `min`, or of 0, counts as the least that makes sense.
    pub fn resize(&self, min: usize, max: usize) {
        self.shared.state.lock().resize(min, max);
        self.shared.wake.notify_one();
    }

    /// Refuses new jobs, finishes those it has, then ends the workers. [`Pool::stopped`] waits for that.
    pub fn stop(&self) {
        self.shared.state.lock().stop();
        self.shared.wake.notify_one();
    }

    /// Fails every job that is left with [`Failure::Stopping`] and kills the workers.
    pub fn stop_now(&self) {
        let mut session = self.shared.session(None);
        let (state, out) = session.parts();
        state.abandon_all(Instant::now(), out);
    }

    /// Waits until no worker is left after [`Pool::stop`] or [`Pool::stop_now`].
    pub async fn stopped(&self) {
        let mut readiness = self.shared.readiness.subscribe();
        // The sender lives in `shared`, which this handle keeps.
        let _ = readiness.wait_for(|now| *now == Readiness::Stopped).await;
    }

    /// Waits until the pool has become ready, or its first start has failed. The error is what the worker said.
    pub async fn settled(&self) -> Result<(), String> {
        let mut readiness = self.shared.readiness.subscribe();
        let settled = readiness
            .wait_for(|now| *now != Readiness::Starting)
            .await
            .map(|now| now.clone());
        match settled {
            Ok(Readiness::Failing(message)) => Err(message),
            _ => Ok(()),
        }
    }

    /// Whether the pool can do its work now.
    pub fn readiness(&self) -> Readiness {
        self.shared.readiness.borrow().clone()
    }

    /// What the pool is and does now.
    pub fn status(&self) -> Status {
        Status::of(&self.shared)
    }
}

/// A submitted job, as its owner waits for it.
#[derive(Debug)]
pub struct Pending<'p> {
    shared: &'p Shared,
    mailbox: Rc<LocalMailbox>,
    place: ReplyTo,
    handle: JobHandle,
    over: bool,
}

impl Pending<'_> {
    /// The next thing that comes back.
    ///
    /// # Panics
    /// When called again after the last delivery: an ended answer or chunk, or a failure.
    pub async fn next(&mut self) -> Delivery {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Whether nothing more comes.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Polls for [`Pending::next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Delivery> {
        assert!(!self.over, "nothing comes after the end");
        let polled = self.mailbox.poll(self.place, cx);
        if let Poll::Ready(delivery) = &polled {
            self.over = match delivery {
                Delivery::Answer(answer) => answer.ended(),
                Delivery::Chunk { end, .. } => *end,
                Delivery::Failed(_) => true,
                Delivery::Window(_) => false,
            };
        }
        polled
    }

    /// Sends more of the request's body; the worker must have granted it by [`Delivery::Window`]. False: it is no longer wanted.
    pub fn send_body(&self, bytes: &[u8], end: bool) -> bool {
        let mut session = self.shared.session(Some(&self.mailbox));
        let (state, out) = session.parts();
        state.send_body(self.handle, bytes, end, out)
    }

    /// Lets the worker send so many more bytes of the response's body.
    pub fn grant(&self, bytes: u32) {
        let mut session = self.shared.session(Some(&self.mailbox));
        let (state, out) = session.parts();
        state.grant(self.handle, bytes, out);
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.mailbox.forget(self.place);
        if !self.over {
            let mut session = self.shared.session(Some(&self.mailbox));
            let (state, out) = session.parts();
            state.cancel(self.handle, Instant::now(), out);
        }
    }
}
