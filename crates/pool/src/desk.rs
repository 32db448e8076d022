//! Calls of workers that speak frames (PROTOCOL.md, section 9): each job has a desk of its own, at which they are answered, and which ends with it.

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

/// Most calls that one worker may have open.
pub(crate) const WORKER_CALLS_MAX: usize = 4096;
/// Most calls that one job may have open, so that it leaves some to the others of its worker.
const JOB_CALLS_MAX: usize = 1024;
/// Most bytes of one worker's open calls.
const CALL_BYTES_MAX: usize = 64 << 20;

/// Gives jobs their desks.
pub trait Desks: fmt::Debug + Send + Sync {
    /// A desk for one job, which may be traced, or for what one worker does outside of jobs. It is dropped when that is over; what is still being done there ends then.
    fn open(&self, trace: Option<Trace>) -> Box<dyn Desk>;
    /// Has a thread read a worker's call socket to its end.
    fn attend(&self, socket: crate::CallSocket);
}

/// Where the calls of one job are answered.
pub trait Desk: fmt::Debug + Send {
    /// Takes a call, to answer it from any thread. Whoever hands it over has the pool locked, so this must not wait.
    fn call(&self, call: FrameCall);
}

/// A call of a worker. Dropped without an answer, it is answered with an error: its job is over.
#[derive(Debug)]
pub struct FrameCall {
    body: Vec<u8>,
    deadline: Instant,
    address: Address,
    is_answered: bool,
    _place: Place,
}

/// Where the answer to a call goes.
#[derive(Clone, Debug)]
struct Address {
    link: Weak<Link>,
    job: (u32, u32),
    number: u32,
}

/// An answer that lies in the memory of its link, so that several can be written together.
#[derive(Debug)]
#[must_use = "it is sent once it is written"]
pub struct Unwritten(Arc<Link>);

impl Unwritten {
    /// Whether both are for the same worker.
    pub fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Writes what its link has.
    pub fn write(self) {
        self.0.flush();
    }
}

impl FrameCall {
    /// What is asked.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// After this nobody wants the answer any more.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Answers. Nothing is left to write when the worker is gone.
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

/// Why a call is not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("this pool reaches no database: its `sql` names none")]
    NoDesks,
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
    /// The word for it in the SDKs' `SqlError`.
    fn code(&self) -> &'static str {
        match self {
            Self::NoDesks => "unavailable",
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

/// What one worker has open, on both of its sockets.
#[derive(Debug, Default)]
pub(crate) struct Open {
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

/// A desk, and how many calls are open there.
#[derive(Debug)]
pub(crate) struct OpenDesk {
    desk: Box<dyn Desk>,
    calls: Arc<AtomicUsize>,
}

impl OpenDesk {
    pub(crate) fn new(desk: Box<dyn Desk>) -> Self {
        Self {
            desk,
            calls: Arc::default(),
        }
    }
}

/// A call's share of what may be open.
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

/// The calls that come over one socket.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    open: Arc<Open>,
    /// Those whose last piece has not come; `None`: they are refused already.
    begun: Mutex<HashMap<u32, Option<Vec<u8>>>>,
}

/// A call that has come as a whole, or is refused for its length.
#[derive(Debug)]
pub(crate) struct Arrived {
    address: Address,
    body: Result<Vec<u8>, Refusal>,
}

impl Intake {
    /// For another socket of the same worker.
    pub(crate) fn beside(other: &Self) -> Self {
        Self {
            open: Arc::clone(&other.open),
            begun: Mutex::default(),
        }
    }

    /// Takes a CALL frame; none: more of the call follows.
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
    /// The slot and number of its job; 0 and 0: it has none.
    pub(crate) fn job(&self) -> (u32, u32) {
        self.address.job
    }

    /// Hands the call over at a desk. Returns whether something is to be written to its link now.
    pub(crate) fn hand_over(self, open: &Intake, desk: Result<(&OpenDesk, Instant), Refusal>) -> bool {
        let Self { address, body } = self;
        let counted = body.as_ref().map_or(0, Vec::len);
        let placed = body.and_then(|body| {
            let (desk, deadline) = match desk {
                Ok(found) => found,
                Err(refusal) => {
                    open.open.bytes.fetch_sub(counted, Ordering::Relaxed);
                    return Err(refusal);
                }
            };
            // From here on the place gives the bytes back.
            let place = Place::take(&open.open, &desk.calls, counted)?;
            Ok((desk, deadline, body, place))
        });
        match placed {
            Ok((desk, deadline, body, place)) => {
                desk.desk.call(FrameCall {
                    body,
                    deadline,
                    address,
                    is_answered: false,
                    _place: place,
                });
                false
            }
            // It is written with what else the link gets in this turn.
            Err(refusal) => address.refuse(&refusal).is_some(),
        }
    }
}
