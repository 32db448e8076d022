//! Calls of workers that speak frames (PROTOCOL.md, section 9). Each job has its own handler for calls, which is dropped with the job.

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
use forebay_wire::{CallView, FrameType, Header, WireError, flag};
use parking_lot::Mutex;

use crate::link::Link;

/// Maximum number of open calls per worker.
pub(crate) const WORKER_CALLS_MAX: usize = 4096;
/// Maximum number of open calls per job, so that one job cannot use up its worker's share.
const JOB_CALLS_MAX: usize = 1024;
/// Maximum total size of one worker's open calls.
const CALL_BYTES_MAX: usize = 64 << 20;

/// Creates the call handlers of jobs.
pub trait CallHandlers: fmt::Debug + Send + Sync {
    /// Creates the handler for one job, which may be traced, or for the calls that a worker makes outside of jobs. Dropping it cancels
    /// whatever it is still doing.
    fn open(&self, trace: Option<Trace>) -> Box<dyn CallHandler>;
    /// Has a thread read a worker's call socket to its end.
    fn attend(&self, socket: crate::CallSocket);
}

/// Handles the calls of one job.
pub trait CallHandler: fmt::Debug + Send {
    /// Accepts a call, which may be answered from any thread. The caller holds the pool's lock, so this must not block.
    fn call(&self, call: FrameCall);
}

/// A call of a worker. If it is dropped unanswered, the worker is told that the job is over.
#[derive(Debug)]
pub struct FrameCall {
    body: Vec<u8>,
    deadline: Instant,
    address: Address,
    is_answered: bool,
    _place: Place,
}

/// Where to send the answer to a call.
#[derive(Clone, Debug)]
struct Address {
    link: Weak<Link>,
    job: (u32, u32),
    number: u32,
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

impl FrameCall {
    /// The content of the call.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// When the worker stops waiting for the answer.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Buffers the answer. `None` if the worker is gone.
    pub fn answer(mut self, body: Vec<u8>) -> Option<Unwritten> {
        self.is_answered = true;
        self.address.put(0, body)
    }
}

impl Drop for FrameCall {
    fn drop(&mut self) {
        if !self.is_answered
            && let Some(unwritten) = self.address.refuse(&Refusal::Over)
        {
            unwritten.write();
        }
    }
}

impl Address {
    fn put(&self, flags: u8, body: Vec<u8>) -> Option<Unwritten> {
        let link = self.link.upgrade()?;
        let (slot, number) = self.job;
        let header = Header {
            kind: FrameType::Return,
            flags,
            generation: link.generation,
            job: number,
            slot,
        };
        if let Err(refusal) = link.put_return(header, self.number, body) {
            let header = Header {
                flags: flag::FAULT,
                ..header
            };
            link.put_return(header, self.number, refusal.to_json())
                .expect("an error is short");
        }
        Some(Unwritten(link))
    }

    fn refuse(&self, refusal: &Refusal) -> Option<Unwritten> {
        self.put(flag::FAULT, refusal.to_json())
    }
}

/// The reason why a call was not executed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("this pool reaches no database: its `sql` names none")]
    NoCallHandlers,
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
            Self::NoCallHandlers => "unavailable",
            Self::Over => "over",
            Self::Full { .. } => "full",
            Self::CallTooLarge | Self::ResultTooLarge { .. } => "too_large",
        }
    }

    fn to_json(&self) -> Vec<u8> {
        let told = serde_json::json!({ "error": { "code": self.code(), "message": self.to_string() } });
        told.to_string().into_bytes()
    }
}

/// Open calls of one worker, on both of its sockets.
#[derive(Debug, Default)]
pub(crate) struct Open {
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

/// The handler of one job, with the number of its open calls.
#[derive(Debug)]
pub(crate) struct OpenCalls {
    handler: Box<dyn CallHandler>,
    calls: Arc<AtomicUsize>,
}

impl OpenCalls {
    pub(crate) fn new(handler: Box<dyn CallHandler>) -> Self {
        Self {
            handler,
            calls: Arc::default(),
        }
    }
}

/// The share of the limits that one call occupies. Dropping it releases the share.
#[derive(Debug)]
struct Place {
    worker: Arc<Open>,
    job: Arc<AtomicUsize>,
    bytes: usize,
}

impl Place {
    /// Counts a call whose bytes are counted already.
    fn take(worker: &Arc<Open>, job: &Arc<AtomicUsize>, bytes: usize) -> Result<Self, Refusal> {
        let place = Self {
            worker: Arc::clone(worker),
            job: Arc::clone(job),
            bytes,
        };
        let of_worker = place.worker.calls.fetch_add(1, Ordering::Relaxed);
        let of_job = place.job.fetch_add(1, Ordering::Relaxed);
        if of_job >= JOB_CALLS_MAX {
            return Err(Refusal::Full {
                whose: "request",
                max: JOB_CALLS_MAX,
            });
        }
        if of_worker >= WORKER_CALLS_MAX {
            return Err(Refusal::Full {
                whose: "worker",
                max: WORKER_CALLS_MAX,
            });
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.worker.calls.fetch_sub(1, Ordering::Relaxed);
        self.worker.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.job.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Calls that arrive over one socket.
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
    /// Creates the intake for another socket of the same worker.
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
        if !ends && begun.len() >= WORKER_CALLS_MAX && !begun.contains_key(&number) {
            return Err(WireError::TooManyCalls {
                max: WORKER_CALLS_MAX,
            });
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
        Ok(Some(Arrived {
            address: Address {
                link: Arc::downgrade(link),
                job: (header.slot, header.job),
                number,
            },
            body: whole.ok_or(Refusal::CallTooLarge),
        }))
    }
}

impl Arrived {
    /// Slot and number of the call's job; both 0 if it has none.
    pub(crate) fn job(&self) -> (u32, u32) {
        self.address.job
    }

    /// Passes the call to a handler. Returns whether an error is buffered for the link.
    pub(crate) fn hand_over(self, open: &Intake, calls: Result<(&OpenCalls, Instant), Refusal>) -> bool {
        let Self { address, body } = self;
        let counted = body.as_ref().map_or(0, Vec::len);
        let placed = body.and_then(|body| {
            let (calls, deadline) = match calls {
                Ok(found) => found,
                Err(refusal) => {
                    open.open.bytes.fetch_sub(counted, Ordering::Relaxed);
                    return Err(refusal);
                }
            };
            // From here on, dropping `place` releases the bytes.
            let place = Place::take(&open.open, &calls.calls, counted)?;
            Ok((calls, deadline, body, place))
        });
        match placed {
            Ok((calls, deadline, body, place)) => {
                calls.handler.call(FrameCall {
                    body,
                    deadline,
                    address,
                    is_answered: false,
                    _place: place,
                });
                false
            }
            // The error is written together with whatever else is buffered for the link.
            Err(refusal) => address.refuse(&refusal).is_some(),
        }
    }
}
