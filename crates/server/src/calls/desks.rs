//! What handlers in pools do with databases: on a thread of its own, which has connections as I/O threads have, each job's calls at a desk that ends with the job.

use std::{cell::RefCell, collections::BTreeMap, io, rc::Rc, sync::Arc, thread};

use forebay_pg::{Desk, Source};
use forebay_pool::{CallSocket, FrameCall, Unwritten};
use forebay_trace::Trace;
use futures_util::{StreamExt, stream::FuturesUnordered};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc},
    task::{LocalSet, spawn_local, yield_now},
};

/// The databases that a pool's handlers may reach, by their names.
type Sources = Arc<BTreeMap<String, Source>>;

/// The thread of desks, which starts with the first pool that needs it.
#[derive(Debug, Default)]
pub(crate) struct DeskThread {
    arrivals: Mutex<Option<mpsc::UnboundedSender<Arrival>>>,
}

/// What the thread is to do. There are no more of these than jobs under way and workers.
#[derive(Debug)]
enum Arrival {
    /// Answer these calls until their job is over.
    Desk(Sources, mpsc::UnboundedReceiver<FrameCall>, Option<Trace>),
    /// Read this socket until its worker is gone.
    Socket(CallSocket),
}

impl DeskThread {
    /// The desks of a pool whose handlers may reach these databases.
    pub(crate) fn desks(&self, sources: BTreeMap<String, Source>) -> io::Result<Desks> {
        let mut arrivals = self.arrivals.lock();
        let arrivals = match &*arrivals {
            Some(running) => running.clone(),
            None => arrivals.insert(start()?).clone(),
        };
        Ok(Desks {
            arrivals,
            sources: Arc::new(sources),
        })
    }
}

/// It ends with the server.
fn start() -> io::Result<mpsc::UnboundedSender<Arrival>> {
    let (arrivals, mut arriving) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    thread::Builder::new().name("desks".into()).spawn(move || {
        LocalSet::new().block_on(&runtime, async {
            let answers = Rc::<Answers>::default();
            spawn_local(Rc::clone(&answers).write());
            while let Some(arrival) = arriving.recv().await {
                match arrival {
                    Arrival::Desk(sources, calls, trace) => {
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

/// Answers the calls of one job. What is under way when the job is over, and what is open on databases then, ends with this.
async fn serve(sources: Sources, mut calls: mpsc::UnboundedReceiver<FrameCall>, answers: Rc<Answers>) {
    let desk = Desk::new(sources);
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            call = calls.recv() => match call {
                Some(call) => running.push(async {
                    let outcome = desk.call(call.body(), call.deadline()).await;
                    answers.add(call.answer(outcome));
                }),
                None => return,
            },
            Some(()) = running.next() => {}
        }
    }
}

/// Answers that are written together, once for each worker, when the thread has nothing else to run.
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
            // One more look at the sockets first: what has arrived meanwhile joins the batch.
            yield_now().await;
            let unwritten = std::mem::take(&mut *self.unwritten.borrow_mut());
            unwritten.into_iter().for_each(Unwritten::write);
        }
    }
}

/// The desks of one pool.
#[derive(Debug)]
pub(crate) struct Desks {
    arrivals: mpsc::UnboundedSender<Arrival>,
    sources: Sources,
}

impl forebay_pool::Desks for Desks {
    fn open(&self, trace: Option<Trace>) -> Box<dyn forebay_pool::Desk> {
        let (calls, arriving) = mpsc::unbounded_channel();
        // The thread outlives every pool that can reach it; without it, each call is answered as one of a job that is over.
        let _ = self
            .arrivals
            .send(Arrival::Desk(Arc::clone(&self.sources), arriving, trace));
        Box::new(JobDesk { calls })
    }

    fn attend(&self, socket: CallSocket) {
        let _ = self.arrivals.send(Arrival::Socket(socket));
    }
}

/// The end at which a job's calls come in.
#[derive(Debug)]
struct JobDesk {
    calls: mpsc::UnboundedSender<FrameCall>,
}

impl forebay_pool::Desk for JobDesk {
    fn call(&self, call: FrameCall) {
        let _ = self.calls.send(call);
    }
}
