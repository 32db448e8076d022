//! Calls that workers make to the server (PROTOCOL.md, sections 7 to 9). Their number is bounded, and each is answered once.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use forebay_trace::Trace;
use forebay_wire::{CallView, Header, WireError, flag};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{CallSocket, link::Link};

/// Maximum number of open calls of a worker that speaks frames.
const FRAME_CALLS_MAX: usize = 4096;
/// Maximum number of open calls of a worker that speaks no frames.
const MESSAGE_CALLS_MAX: usize = 256;
/// Maximum number of open calls per job, so that one job cannot use up its worker's share.
const JOB_CALLS_MAX: usize = 1024;
/// Maximum total size of the open calls of a worker that speaks frames.
const CALL_BYTES_MAX: usize = 64 << 20;

/// Answers the calls of a pool's workers, on a thread of its own.
pub trait CallHandler: fmt::Debug + Send + Sync {
    /// Opens a queue for the calls of one job, which may be traced, or for those that a worker makes outside of jobs. It is dropped with
    /// the job, or with the worker. Each call is to be answered by its deadline, from any thread. The caller holds the pool's lock, so
    /// this must not block.
    fn open(&self, trace: Option<Trace>) -> mpsc::UnboundedSender<Call>;
    /// Has the thread read a worker's call socket to its end.
    fn attend(&self, socket: CallSocket);
}

/// A call of a worker. If it is dropped unanswered, the worker is told that its job is over.
#[derive(Debug)]
pub struct Call {
    body: Vec<u8>,
    deadline: Instant,
    address: Address,
    is_answered: bool,
    _permit: Permit,
}

/// Where to send the answer to a call.
#[derive(Debug)]
struct Address {
    link: Weak<Link>,
    id: CallId,
}

/// How a worker recognises the answer to a call.
#[derive(Debug)]
pub(crate) enum CallId {
    /// Slot and number of its job, both 0 if it has none, and its own number.
    Frame { job: (u32, u32), number: u32 },
    /// JSON text. Such a call belongs to no job.
    Message(String),
}

/// An answer that is buffered in its link, so that several can be written together.
#[derive(Debug)]
#[must_use = "it is sent once it is written"]
pub struct Unwritten(Arc<Link>);

impl Unwritten {
    /// Whether both are for the same worker.
    pub fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Writes everything that its link has buffered.
    pub fn write(self) {
        self.0.flush();
    }
}

impl Call {
    /// The content of the call; JSON text if its worker speaks no frames.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// When the worker stops waiting for the answer.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Buffers the answer: JSON text if the worker speaks no frames. `None` if the worker is gone.
    pub fn answer(mut self, body: Vec<u8>) -> Option<Unwritten> {
        self.is_answered = true;
        self.address.put(Ok(body))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.is_answered
            && let Some(unwritten) = self.address.put(Err(Refusal::Over))
        {
            unwritten.write();
        }
    }
}

impl Address {
    fn put(&self, outcome: Result<Vec<u8>, Refusal>) -> Option<Unwritten> {
        let link = self.link.upgrade()?;
        link.put_answer(&self.id, outcome);
        Some(Unwritten(link))
    }
}

/// The reason why a call was not executed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("this pool reaches no database: its `sql` names none")]
    NoCallHandler,
    #[error("the request has ended, and its database work was cancelled")]
    Over,
    #[error("this {whose} already has {max} open calls")]
    Full { whose: &'static str, max: usize },
    #[error("with this call the open calls of this worker exceed {CALL_BYTES_MAX} bytes")]
    CallTooLarge,
    #[error("the result has {bytes} bytes; with those that wait to be read, that is more than {max}")]
    ResultTooLarge { bytes: usize, max: usize },
}

impl Refusal {
    /// The error code in the SDKs' `SqlError`.
    fn code(&self) -> &'static str {
        match self {
            Self::NoCallHandler => "unavailable",
            Self::Over => "over",
            Self::Full { .. } => "full",
            Self::CallTooLarge | Self::ResultTooLarge { .. } => "too_large",
        }
    }

    /// The content of a RETURN.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let told = serde_json::json!({ "error": { "code": self.code(), "message": self.to_string() } });
        told.to_string().into_bytes()
    }
}

/// Open calls of one worker, on both of its sockets.
#[derive(Debug, Default)]
struct Open {
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

/// The queue for the calls of one job, or of a worker outside of jobs, and the number of those that are open.
#[derive(Debug)]
pub(crate) struct OpenCalls {
    queue: mpsc::UnboundedSender<Call>,
    calls: Arc<AtomicUsize>,
}

impl OpenCalls {
    pub(crate) fn new(queue: mpsc::UnboundedSender<Call>) -> Self {
        Self {
            queue,
            calls: Arc::default(),
        }
    }
}

/// The share of the limits that one call occupies. Dropping it releases the share.
#[derive(Debug)]
struct Permit {
    worker: Arc<Open>,
    job: Arc<AtomicUsize>,
    bytes: usize,
}

impl Permit {
    /// Counts a call whose bytes are counted already. Its worker may have `max` of them open.
    fn take(worker: &Arc<Open>, job: &Arc<AtomicUsize>, bytes: usize, max: usize) -> Result<Self, Refusal> {
        let permit = Self {
            worker: Arc::clone(worker),
            job: Arc::clone(job),
            bytes,
        };
        let of_worker = permit.worker.calls.fetch_add(1, Ordering::Relaxed);
        let of_job = permit.job.fetch_add(1, Ordering::Relaxed);
        if of_job >= JOB_CALLS_MAX {
            return Err(Refusal::Full {
                whose: "request",
                max: JOB_CALLS_MAX,
            });
        }
        if of_worker >= max {
            return Err(Refusal::Full { whose: "worker", max });
        }
        Ok(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.worker.calls.fetch_sub(1, Ordering::Relaxed);
        self.worker.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.job.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Calls that arrive over one link.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    open: Arc<Open>,
    /// Incomplete calls. `None` marks a call that is already refused.
    begun: Mutex<HashMap<u32, Option<Vec<u8>>>>,
}

/// A complete call, or one that is refused for its length.
#[derive(Debug)]
pub(crate) struct Arrived {
    address: Address,
    body: Result<Vec<u8>, Refusal>,
}

impl Intake {
    /// Creates the intake for another link of the same worker.
    pub(crate) fn beside(other: &Self) -> Self {
        Self {
            open: Arc::clone(&other.open),
            begun: Mutex::default(),
        }
    }

    /// Processes a CALL frame. `None` until the call is complete.
    pub(crate) fn take(
        &self,
        link: &Arc<Link>,
        header: &Header,
        payload: &[u8],
    ) -> Result<Option<Arrived>, WireError> {
        let CallView { number, body } = CallView::decode(payload)?;
        let mut begun = self.begun.lock();
        let ends = header.has(flag::END);
        if !ends && begun.len() >= FRAME_CALLS_MAX && !begun.contains_key(&number) {
            return Err(WireError::TooManyCalls { max: FRAME_CALLS_MAX });
        }
        let mut whole = begun.remove(&number).unwrap_or_else(|| Some(Vec::new()));
        if let Some(bytes) = &mut whole {
            let open = self.open.bytes.fetch_add(body.len(), Ordering::Relaxed) + body.len();
            if open > CALL_BYTES_MAX {
                self.open
                    .bytes
                    .fetch_sub(bytes.len() + body.len(), Ordering::Relaxed);
                whole = None;
            } else {
                bytes.extend_from_slice(body);
            }
        }
        if !ends {
            begun.insert(number, whole);
            return Ok(None);
        }
        let id = CallId::Frame {
            job: (header.slot, header.job),
            number,
        };
        let body = whole.ok_or(Refusal::CallTooLarge);
        Ok(Some(Arrived::new(link, id, body)))
    }

    /// Accepts a call that came as a message.
    pub(crate) fn message(&self, link: &Arc<Link>, id: String, body: String) -> Arrived {
        self.open.bytes.fetch_add(body.len(), Ordering::Relaxed);
        Arrived::new(link, CallId::Message(id), Ok(body.into_bytes()))
    }
}

impl Arrived {
    fn new(link: &Arc<Link>, id: CallId, body: Result<Vec<u8>, Refusal>) -> Self {
        let link = Arc::downgrade(link);
        Self {
            address: Address { link, id },
            body,
        }
    }

    /// Slot and number of the call's job; both 0 if it has none.
    pub(crate) fn job(&self) -> (u32, u32) {
        match self.address.id {
            CallId::Frame { job, .. } => job,
            CallId::Message(_) => (0, 0),
        }
    }

    /// Queues the call. Returns whether an error is buffered for the link.
    pub(crate) fn hand_over(self, intake: &Intake, calls: Result<(&OpenCalls, Instant), Refusal>) -> bool {
        let Self { address, body } = self;
        let max = match address.id {
            CallId::Frame { .. } => FRAME_CALLS_MAX,
            CallId::Message(_) => MESSAGE_CALLS_MAX,
        };
        let admitted = body.and_then(|body| {
            let (calls, deadline) = calls.inspect_err(|_| {
                intake.open.bytes.fetch_sub(body.len(), Ordering::Relaxed);
            })?;
            // From here on, dropping `permit` releases the bytes.
            let permit = Permit::take(&intake.open, &calls.calls, body.len(), max)?;
            Ok((calls, deadline, body, permit))
        });
        match admitted {
            Ok((calls, deadline, body, permit)) => {
                // If the handler's thread is gone, the call is dropped, and so refused.
                let _ = calls.queue.send(Call {
                    body,
                    deadline,
                    address,
                    is_answered: false,
                    _permit: permit,
                });
                false
            }
            // The error is written together with whatever else is buffered for the link.
            Err(refusal) => address.put(Err(refusal)).is_some(),
        }
    }
}
