//! The public handle of a pool: submit a job, wait for its deliveries. Connects the state's decisions with the threads, links and processes
//! that carry them out.

use std::{
    future::poll_fn,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use forebay_trace::Trace;
use forebay_wire::{Connection, flag};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::{
    Delivery, EndCause, Failure, Limits, Options, Protocol,
    delivery::ReplyTo,
    dialect,
    link::Link,
    mailbox::{LocalMailbox, Mailboxes},
    session::Session,
    state::{Command, JobHandle, NewJob, State},
    status::{Readiness, Status},
    supervisor::Supervisor,
};

/// How long a new pool of hosts waits for the first one.
const HOST_WAIT: Duration = Duration::from_secs(1);

/// Longest piece of a message of a WebSocket, in bytes.
pub const MESSAGE_PIECE_MAX: usize = forebay_wire::FRAME_PAYLOAD_MAX as usize;

/// A job for a worker.
#[derive(Debug)]
pub struct Job {
    /// The payload of its REQUEST frame, written by [`RequestParts`](crate::RequestParts).
    pub payload: Vec<u8>,
    /// Whether the payload contains the whole body; otherwise [`Pending::send_body`] sends the rest.
    pub whole: bool,
    /// The client's connection, as told to workers that ask for it.
    pub connection: Connection,
    /// When it began to wait: now, or a clock reading from a moment ago.
    pub since: Instant,
    /// The deadline of the client's request.
    pub deadline: Instant,
    /// Limits for queueing, running and retrying.
    pub limits: Limits,
    /// Whether the worker may answer with an upgrade to another protocol.
    pub may_upgrade: bool,
    /// The request's trace, if it is traced.
    pub trace: Option<Trace>,
    /// A hash of the client, if it stays with one worker as long as that lives. Its jobs wait for that worker even if another one is free.
    pub client: Option<u64>,
}

/// A supervised pool of workers. Clones are handles to the same pool.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(crate) shared: Arc<Shared>,
}

/// The part of a pool that its threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) mailboxes: Arc<Mailboxes>,
    pub(crate) state: Mutex<State<Arc<Link>>>,
    /// Wakes the supervisor for housekeeping.
    pub(crate) wake: Notify,
    /// Commands for the supervisor that did not originate in housekeeping.
    pub(crate) commands: Mutex<Vec<Command>>,
    /// Error message of the last failed start.
    pub(crate) start_error: Mutex<Option<String>>,
    pub(crate) readiness: watch::Sender<Readiness>,
    pub(crate) protocol: Protocol,
}

impl Shared {
    /// Makes changes under one lock, and applies what they put out once it is released.
    pub(crate) fn change<'a, R>(
        &'a self,
        mailbox: Option<&'a Rc<LocalMailbox>>,
        make: impl FnOnce(&mut Session<'a>) -> R,
    ) -> R {
        let mut session = Session::lock(self, mailbox);
        let made = make(&mut session);
        session.apply();
        made
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
    /// Creates a pool and starts its workers. Answers arrive in the mailboxes of the submitting threads.
    pub fn start(options: Options, supervisor: &Supervisor, mailboxes: Arc<Mailboxes>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            name: options.name.clone(),
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

    /// Whether both are handles to the same pool.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The protocol of its workers.
    pub fn protocol(&self) -> Protocol {
        self.shared.protocol
    }

    /// Checks whether this body can be sent to a worker. The error is the reason why not.
    pub fn check_body(&self, body: &[u8]) -> Result<(), String> {
        dialect::check_body(self.shared.protocol, body)
    }

    /// Submits a job, or refuses it at once. Dropping the result before its end cancels the job.
    ///
    /// # Panics
    /// If the protocol takes only whole bodies and the job's body is incomplete.
    pub fn submit(&self, mailbox: &Rc<LocalMailbox>, job: Job) -> Result<Pending<'_>, Failure> {
        assert!(
            job.whole || !self.shared.protocol.takes_whole_bodies(),
            "a job has its whole body where messages do"
        );
        let place = mailbox.wait();
        let mut payload = dialect::translated(self.shared.protocol, job.payload);
        if !self.shared.protocol.takes_whole_bodies() {
            payload.extend_from_slice(&job.connection.to_bytes());
        }
        let new = NewJob {
            payload,
            end: job.whole,
            limits: job.limits,
            deadline: job.deadline,
            may_upgrade: job.may_upgrade,
            trace: job.trace,
            client: job.client,
            reply_to: place,
        };
        let submitted = self.shared.change(Some(mailbox), |session| {
            let (state, out) = session.parts();
            state.submit(new, job.since, out)
        });
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

    /// Changes the range of workers at run time. A `max` below `min`, or of 0, is raised to the smallest valid value.
    pub fn resize(&self, min: usize, max: usize) {
        self.shared.state.lock().resize(min, max);
        self.shared.wake.notify_one();
    }

    /// Ends event streams and upgraded connections, and refuses further ones. Other jobs are accepted and finished.
    pub fn end_connections(&self) {
        self.shared.change(None, |session| {
            let (state, out) = session.parts();
            state.end_connections(Instant::now(), out);
        });
    }

    /// Refuses new jobs, finishes accepted ones, then ends the workers. [`Pool::stopped`] waits for that.
    pub fn stop(&self) {
        self.shared.state.lock().stop();
        self.shared.wake.notify_one();
    }

    /// Fails all remaining jobs with [`Failure::Stopping`] and kills the workers.
    pub fn stop_now(&self) {
        self.shared.change(None, |session| {
            let (state, out) = session.parts();
            state.abandon_all(Instant::now(), out);
        });
    }

    /// Waits until no worker is left after [`Pool::stop`] or [`Pool::stop_now`].
    pub async fn stopped(&self) {
        let mut readiness = self.shared.readiness.subscribe();
        // This handle keeps `shared`, and with it the sender, alive.
        let _ = readiness.wait_for(|now| *now == Readiness::Stopped).await;
    }

    /// Waits until the pool is ready or its first start has failed. The error is the worker's message. Hosts come and go whatever the
    /// configuration is, so a pool of hosts waits for one only for a moment.
    pub async fn settled(&self) -> Result<(), String> {
        let mut readiness = self.shared.readiness.subscribe();
        if self.shared.state.lock().options().remote {
            let is_ready = readiness.wait_for(|now| *now == Readiness::Ready);
            // Without a host the reason stands in the status.
            drop(tokio::time::timeout(HOST_WAIT, is_ready).await);
            return Ok(());
        }
        let settled = readiness
            .wait_for(|now| *now != Readiness::Starting)
            .await
            .map(|now| now.clone());
        match settled {
            Ok(Readiness::Failing(message)) => Err(message),
            _ => Ok(()),
        }
    }

    /// The current readiness of the pool.
    pub fn readiness(&self) -> Readiness {
        self.shared.readiness.borrow().clone()
    }

    /// A snapshot of the pool's settings, counters and workers.
    pub fn status(&self) -> Status {
        Status::of(&self.shared)
    }
}

/// A submitted job, held by the task that waits for it.
#[derive(Debug)]
pub struct Pending<'p> {
    shared: &'p Shared,
    mailbox: Rc<LocalMailbox>,
    place: ReplyTo,
    handle: JobHandle,
    over: bool,
}

impl Pending<'_> {
    /// Waits for the next delivery.
    ///
    /// # Panics
    /// If called again after the last delivery: an ended answer or chunk, or a failure.
    pub async fn next(&mut self) -> Delivery {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Whether the last delivery has been returned.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Polls until [`Delivery::Overflow`] comes next, whatever waits before it.
    pub fn poll_overflow(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.mailbox.poll_overflow(self.place, cx)
    }

    /// Polls for [`Pending::next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Delivery> {
        assert!(!self.over, "nothing comes after the end");
        let polled = self.mailbox.poll(self.place, cx);
        if let Poll::Ready(delivery) = &polled {
            self.over = match delivery {
                Delivery::Answer(answer) => answer.ended(),
                Delivery::Chunk { end, .. } => *end,
                Delivery::Failed(_) | Delivery::Close { .. } => true,
                Delivery::Trailers(_) | Delivery::Window(_) | Delivery::Message(_) | Delivery::Overflow => {
                    false
                }
            };
        }
        polled
    }

    /// Sends more of the request body, within the window granted by [`Delivery::Window`]. Returns false if the body is no longer wanted.
    pub fn send_body(&self, bytes: &[u8], end: bool) -> bool {
        self.shared.change(Some(&self.mailbox), |session| {
            let (state, out) = session.parts();
            state.send_body(self.handle, bytes, end, out)
        })
    }

    /// Sends the fields behind the request body, a pair block, to be called before the last [`Pending::send_body`].
    pub fn send_trailers(&self, block: &[u8]) {
        self.shared.change(Some(&self.mailbox), |session| {
            let (state, out) = session.parts();
            state.send_trailers(self.handle, block, out);
        });
    }

    /// Sends a message of the client, or a piece of one, within the window granted by [`Delivery::Window`]. Returns false if the job is
    /// over.
    ///
    /// # Panics
    /// If the piece is longer than [`MESSAGE_PIECE_MAX`].
    pub fn send_message(&self, bytes: &[u8], is_text: bool, end: bool) -> bool {
        let flags = if is_text { flag::TEXT } else { 0 } | if end { flag::END } else { 0 };
        self.shared.change(Some(&self.mailbox), |session| {
            let (state, out) = session.parts();
            state.send_message(self.handle, bytes, flags, out)
        })
    }

    /// Tells the worker how the WebSocket has been closed, which ends the job.
    pub fn close(&mut self, code: u16, reason: &[u8]) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        self.shared.change(Some(&self.mailbox), |session| {
            let (state, out) = session.parts();
            state.send_close(self.handle, code, reason, out);
        });
    }

    /// Allows the worker to send this many more bytes of the response body, or of messages.
    pub fn grant(&self, bytes: u32) {
        self.shared.change(Some(&self.mailbox), |session| {
            let (state, out) = session.parts();
            state.grant(self.handle, bytes, out);
        });
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.mailbox.forget(self.place);
        if !self.over {
            self.shared.change(Some(&self.mailbox), |session| {
                let (state, out) = session.parts();
                state.cancel(self.handle, Instant::now(), out);
            });
        }
    }
}
