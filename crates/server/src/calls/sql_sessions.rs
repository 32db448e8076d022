//! Database access for handlers in pools. One thread with connections of its own, as an I/O thread has, serves all jobs; each job has a
//! session that ends with the job.

use std::{cell::RefCell, collections::BTreeMap, io, rc::Rc, sync::Arc, thread};

use forebay_pg::{Source, SqlSession};
use forebay_pool::{CallSocket, FrameCall, Unwritten};
use forebay_trace::Trace;
use futures_util::{StreamExt, stream::FuturesUnordered};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc},
    task::{LocalSet, spawn_local, yield_now},
};

/// The databases that a pool's handlers may use, by name.
type Sources = Arc<BTreeMap<String, Source>>;

/// The thread that runs the sessions; started with the first pool that needs it.
#[derive(Debug, Default)]
pub(crate) struct SessionThread {
    arrivals: Mutex<Option<mpsc::UnboundedSender<Arrival>>>,
}

/// A task for the thread. At most one per running job and one per worker is queued.
#[derive(Debug)]
enum Arrival {
    /// Serve the calls of a job until the job is over.
    Session(Sources, mpsc::UnboundedReceiver<FrameCall>, Option<Trace>),
    /// Serve this socket until its worker is gone.
    Socket(CallSocket),
}

impl SessionThread {
    /// The sessions of a pool whose handlers may use these databases.
    pub(crate) fn sessions(&self, sources: BTreeMap<String, Source>) -> io::Result<SqlSessions> {
        let mut arrivals = self.arrivals.lock();
        let arrivals = match &*arrivals {
            Some(running) => running.clone(),
            None => arrivals.insert(start()?).clone(),
        };
        Ok(SqlSessions {
            arrivals,
            sources: Arc::new(sources),
        })
    }
}

/// Starts the thread, which lives as long as the server.
fn start() -> io::Result<mpsc::UnboundedSender<Arrival>> {
    let (arrivals, mut arriving) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    thread::Builder::new()
        .name("sql sessions".into())
        .spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                let answers = Rc::<Answers>::default();
                spawn_local(Rc::clone(&answers).write());
                while let Some(arrival) = arriving.recv().await {
                    match arrival {
                        Arrival::Session(sources, calls, trace) => {
                            let serving = serve(sources, calls, Rc::clone(&answers));
                            drop(spawn_local(forebay_trace::within(trace, serving)));
                        }
                        Arrival::Socket(socket) => drop(spawn_local(socket.run())),
                    }
                }
            });
        })?;
    Ok(arrivals)
}

/// Serves the calls of one job. When the job is over, running statements and open transactions end with this future.
async fn serve(sources: Sources, mut calls: mpsc::UnboundedReceiver<FrameCall>, answers: Rc<Answers>) {
    let session = SqlSession::new(sources);
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            call = calls.recv() => match call {
                Some(call) => running.push(async {
                    let outcome = session.call(call.body(), call.deadline()).await;
                    answers.add(call.answer(outcome));
                }),
                None => return,
            },
            Some(()) = running.next() => {}
        }
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
pub(crate) struct SqlSessions {
    arrivals: mpsc::UnboundedSender<Arrival>,
    sources: Sources,
}

impl forebay_pool::CallHandlers for SqlSessions {
    fn open(&self, trace: Option<Trace>) -> Box<dyn forebay_pool::CallHandler> {
        let (calls, arriving) = mpsc::unbounded_channel();
        // The thread outlives every pool that uses it. If it were gone, each call would be answered as if its job were over.
        let _ = self
            .arrivals
            .send(Arrival::Session(Arc::clone(&self.sources), arriving, trace));
        Box::new(JobSession { calls })
    }

    fn attend(&self, socket: CallSocket) {
        let _ = self.arrivals.send(Arrival::Socket(socket));
    }
}

/// The sending half of a job's calls.
#[derive(Debug)]
struct JobSession {
    calls: mpsc::UnboundedSender<FrameCall>,
}

impl forebay_pool::CallHandler for JobSession {
    fn call(&self, call: FrameCall) {
        let _ = self.calls.send(call);
    }
}
