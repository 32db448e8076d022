//! Answers the calls that workers make to the server. Database operations of handlers run on one thread, which has connections of its own as
//! an I/O thread has; statements and records of controllers on standard input and output run on another ([`tql`]), where their long reads
//! delay no database operation.

mod record;
mod tql;

use std::{cell::RefCell, collections::BTreeMap, fmt, io, rc::Rc, sync::Arc, thread, time::Instant};

use forebay_pg::{Source, SqlSession};
use forebay_pool::{Call, CallHandler, CallSocket, Unwritten};
use forebay_trace::Trace;
use futures_util::{StreamExt, stream::FuturesUnordered};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc},
    task::{LocalSet, spawn_local, yield_now},
};

pub(crate) use self::tql::{Admission, Tql};

/// Answers the calls of one job, or those that a worker makes outside of jobs.
pub(crate) trait Session: Sized + 'static {
    /// Resources that the workers of a pool may use.
    type Access: Clone + fmt::Debug + Send + Sync + 'static;
    /// Whether open calls are finished once the job is over or the worker is gone. Otherwise they are cancelled.
    const FINISHES_CALLS: bool;

    fn open(access: Self::Access) -> Self;
    /// Answers a call by its deadline. Calls may run concurrently.
    async fn answer(&self, body: &[u8], deadline: Instant) -> Vec<u8>;
}

impl Session for SqlSession {
    /// Databases, by name.
    type Access = Arc<BTreeMap<String, Source>>;
    const FINISHES_CALLS: bool = false;

    fn open(sources: Self::Access) -> Self {
        Self::new(sources)
    }

    async fn answer(&self, body: &[u8], deadline: Instant) -> Vec<u8> {
        self.call(body, deadline).await
    }
}

/// A thread that runs sessions; started with the first pool that needs it.
#[derive(Debug)]
pub(crate) struct CallThread<S: Session> {
    name: &'static str,
    arrivals: Mutex<Option<mpsc::UnboundedSender<Arrival<S::Access>>>>,
}

/// A task for the thread. At most one per running job and two per worker are queued.
#[derive(Debug)]
enum Arrival<A> {
    /// Serve the calls of a job until the job is over, or those of a worker until it is gone.
    Session(A, mpsc::UnboundedReceiver<Call>, Option<Trace>),
    /// Serve this socket until its worker is gone.
    Socket(CallSocket),
}

impl<S: Session> CallThread<S> {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            arrivals: Mutex::default(),
        }
    }

    /// The call handler of a pool whose workers have this access.
    pub(crate) fn handler(&self, access: S::Access) -> io::Result<Arc<dyn CallHandler>> {
        let mut arrivals = self.arrivals.lock();
        let arrivals = match &*arrivals {
            Some(running) => running.clone(),
            None => arrivals.insert(start::<S>(self.name)?).clone(),
        };
        Ok(Arc::new(PoolCalls { arrivals, access }))
    }
}

/// Starts a thread, which lives as long as the server.
fn start<S: Session>(name: &str) -> io::Result<mpsc::UnboundedSender<Arrival<S::Access>>> {
    let (arrivals, mut arriving) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    thread::Builder::new().name(name.into()).spawn(move || {
        LocalSet::new().block_on(&runtime, async {
            let answers = Rc::<Answers>::default();
            spawn_local(Rc::clone(&answers).write());
            while let Some(arrival) = arriving.recv().await {
                match arrival {
                    Arrival::Session(access, calls, trace) => {
                        let serving = serve(S::open(access), calls, Rc::clone(&answers));
                        drop(spawn_local(forebay_trace::within(trace, serving)));
                    }
                    Arrival::Socket(socket) => drop(spawn_local(socket.run())),
                }
            }
        });
    })?;
    Ok(arrivals)
}

/// Serves the calls of one session. When the job is over, running statements and open transactions end with this future.
async fn serve<S: Session>(session: S, mut calls: mpsc::UnboundedReceiver<Call>, answers: Rc<Answers>) {
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            call = calls.recv() => match call {
                Some(call) => running.push(async {
                    let outcome = session.answer(call.body(), call.deadline()).await;
                    answers.add(call.answer(outcome));
                }),
                None => break,
            },
            Some(()) = running.next() => {}
        }
    }
    if S::FINISHES_CALLS {
        while running.next().await.is_some() {}
    }
}

/// Results batched into one write per worker, once the thread has nothing else to run.
#[derive(Debug, Default)]
struct Answers {
    unwritten: RefCell<Vec<Unwritten>>,
    write: Notify,
}

impl Answers {
    fn add(&self, answer: Option<Unwritten>) {
        let mut unwritten = self.unwritten.borrow_mut();
        if unwritten.is_empty() {
            self.write.notify_one();
        }
        let new = answer.filter(|answer| !unwritten.iter().any(|known| known.is_beside(answer)));
        unwritten.extend(new);
    }

    async fn write(self: Rc<Self>) {
        loop {
            self.write.notified().await;
            // Poll the sockets once more first, so that newly arrived results join the batch.
            yield_now().await;
            let unwritten = std::mem::take(&mut *self.unwritten.borrow_mut());
            unwritten.into_iter().for_each(Unwritten::write);
        }
    }
}

/// Opens the sessions of one pool.
#[derive(Debug)]
struct PoolCalls<A> {
    arrivals: mpsc::UnboundedSender<Arrival<A>>,
    access: A,
}

impl<A: Clone + fmt::Debug + Send + Sync> CallHandler for PoolCalls<A> {
    fn open(&self, trace: Option<Trace>) -> mpsc::UnboundedSender<Call> {
        let (calls, arriving) = mpsc::unbounded_channel();
        // The thread outlives every pool that uses it. If it were gone, each call would be answered as if its job were over.
        let _ = self
            .arrivals
            .send(Arrival::Session(self.access.clone(), arriving, trace));
        calls
    }

    fn attend(&self, socket: CallSocket) {
        let _ = self.arrivals.send(Arrival::Socket(socket));
    }
}
