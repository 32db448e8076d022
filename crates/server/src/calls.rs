//! Calls from controllers on standard input and output: TQL statements, and records by reference, executed on a dedicated thread. Reads run
//! there in slices, so that other calls get their turn in between; writes go to the store's writer, which batches everything that waits.

mod record;
mod sql_sessions;

use std::{future::poll_fn, io, sync::Arc, thread, time::Instant};

use forebay_pool::Call;
use forebay_records::{RecordsError, Settings, tql::Statement};
use serde::Deserialize;
use tokio::{
    sync::{Semaphore, mpsc},
    task::{LocalSet, spawn_local},
};

use self::record::RecordCall;
pub(crate) use self::sql_sessions::SessionThread;
use crate::{
    config::StoreMode,
    failure::Refusal,
    store::{
        Collected, Done, Grants, OPERATION_BYTES, OpenStore, Pieces, Selection, StatementOperation, Work,
        collect,
    },
};

/// Calls of all workers queued for the thread.
const CALLS_WAITING_MAX: usize = 4096;
/// Calls executed concurrently. Each read holds a snapshot of the store and the results found so far.
const CALLS_RUNNING_MAX: usize = 64;

/// A handle to the thread that answers calls. The thread ends when the last handle is dropped.
#[derive(Clone, Debug)]
pub(crate) struct CallThread {
    waiting: mpsc::Sender<(Arc<Tql>, Call)>,
}

impl CallThread {
    pub(crate) fn start() -> io::Result<Self> {
        let (waiting, calls) = mpsc::channel::<(Arc<Tql>, Call)>(CALLS_WAITING_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        thread::Builder::new().name("calls".into()).spawn(move || {
            let execute = |(tql, call): (Arc<Tql>, Call)| async move { tql.execute(call).await };
            LocalSet::new().block_on(&runtime, run_all(calls, CALLS_RUNNING_MAX, execute));
        })?;
        Ok(Self { waiting })
    }
}

/// Runs queued items, at most `running_max` concurrently; the rest stay in the channel.
async fn run_all<T, F: Future<Output = ()> + 'static>(
    mut waiting: mpsc::Receiver<T>,
    running_max: usize,
    run: impl Fn(T) -> F,
) {
    let places = Arc::new(Semaphore::new(running_max));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.expect("nobody closes it");
        let Some(next) = waiting.recv().await else { return };
        let running = run(next);
        spawn_local(async move {
            running.await;
            drop(place);
        });
    }
}

/// The call handler for the workers of one pool.
#[derive(Debug)]
pub(crate) struct Calls {
    thread: CallThread,
    tql: Arc<Tql>,
}

impl Calls {
    /// A call handler for workers with the given access to the store.
    pub(crate) fn new(
        thread: &CallThread,
        store: &Arc<OpenStore>,
        mode: StoreMode,
        settings: &Settings,
        answer_bytes_max: usize,
    ) -> Self {
        let tql = Tql {
            store: Arc::clone(store),
            mode,
            settings: Arc::new(settings.clone()),
            answer_bytes_max,
        };
        Self {
            thread: thread.clone(),
            tql: Arc::new(tql),
        }
    }
}

impl forebay_pool::Calls for Calls {
    fn call(&self, call: Call) {
        let sent = self.thread.waiting.try_send((Arc::clone(&self.tql), call));
        if let Err(mpsc::error::TrySendError::Full((_, call))) = sent {
            call.refuse(&format!("the call queue is full ({CALLS_WAITING_MAX} waiting)"));
        }
    }
}

/// Executes TQL statements for one pool.
#[derive(Debug)]
struct Tql {
    store: Arc<OpenStore>,
    mode: StoreMode,
    settings: Arc<Settings>,
    answer_bytes_max: usize,
}

impl Tql {
    async fn execute(&self, call: Call) {
        if call.deadline() <= Instant::now() {
            // Its worker has already been answered with a timeout.
            return;
        }
        match self.answer(call.body(), call.deadline()).await {
            Ok(answer) => call.answer(&answer),
            Err(refusal) => {
                let mut error = serde_json::json!({ "code": refusal.code(), "error": refusal.to_string() });
                if let Some(word) = refusal.word() {
                    error["reason"] = word.into();
                }
                call.answer(error.to_string().as_bytes());
            }
        }
    }

    async fn answer(&self, body: &str, deadline: Instant) -> Result<Vec<u8>, Refusal> {
        if let Some(call) = RecordCall::read(body) {
            return self.record(&call?, deadline).await;
        }
        let statement = read(body, &self.settings).map_err(RecordsError::from)?;
        if self.mode == StoreMode::None {
            return Err(Refusal::NoStoreHere);
        }
        if statement.only_reads() {
            self.select(statement, deadline).await
        } else if self.mode == StoreMode::ReadWrite {
            self.change(statement, body.len(), deadline).await
        } else {
            Err(forebay_store::StoreError::ReadOnly.into())
        }
    }

    async fn select(&self, statement: Statement, deadline: Instant) -> Result<Vec<u8>, Refusal> {
        let selection = Selection::new(
            &self.store,
            statement,
            &self.settings,
            &Grants::everything(),
            self.answer_bytes_max,
        )?;
        self.collected(selection, self.answer_bytes_max, deadline).await
    }

    /// Collects all pieces of a result, which must be smaller than `bytes`.
    async fn collected(
        &self,
        mut pieces: impl Pieces,
        bytes: usize,
        deadline: Instant,
    ) -> Result<Vec<u8>, Refusal> {
        let mut found = Vec::new();
        // The deadline is the only sign that a caller no longer waits.
        match collect(&mut pieces, &mut found, bytes, deadline, |_| false).await? {
            Collected::Whole => Ok(found),
            Collected::Full => Err(self.too_large()),
            Collected::Late | Collected::Gone => Err(RecordsError::DeadlinePassed.into()),
        }
    }

    fn too_large(&self) -> Refusal {
        Refusal::ResultTooLarge {
            message_bytes_max: self.answer_bytes_max,
        }
    }

    async fn change(
        &self,
        statement: Statement,
        bytes: usize,
        deadline: Instant,
    ) -> Result<Vec<u8>, Refusal> {
        let operation = StatementOperation {
            statement,
            settings: Arc::clone(&self.settings),
            grants: Grants::everything(),
            deadline,
        };
        let work = Work::Statement(Box::new(operation));
        match self.done(work, bytes, deadline).await? {
            Done::Answered(answer) => Ok(answer),
            _ => unreachable!("a statement is answered"),
        }
    }

    /// Submits work to the store's writer and waits for it; `bytes` count towards the writer's queue limit.
    async fn done(&self, work: Work, bytes: usize, deadline: Instant) -> Result<Done, Refusal> {
        let mut pending = self.store.writer().submit(vec![work], bytes + OPERATION_BYTES)?;
        let outcome = poll_fn(|cx| pending.poll(cx));
        let Ok(outcome) = tokio::time::timeout_at(deadline.into(), outcome).await else {
            if pending.give_up() {
                return Err(Refusal::WriteExpired);
            }
            // The write is already under way. Its result is discarded, but "deadline passed" is true in any case.
            return Err(RecordsError::DeadlinePassed.into());
        };
        Ok(outcome?.pop().expect("what is done comes to something"))
    }
}

/// Parses a statement: JSON, or TQL's friendly notation in a JSON string.
fn read(body: &str, settings: &Settings) -> Result<Statement, forebay_records::StatementError> {
    #[derive(Deserialize)]
    struct Text(String);

    match serde_json::from_str::<Text>(body) {
        Ok(Text(text)) => Statement::read(text.as_bytes(), settings),
        Err(_) => Statement::read_json(body.as_bytes(), settings),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use tokio::{sync::oneshot, task::yield_now};

    use super::*;

    #[test]
    fn only_so_many_run_at_a_time_and_the_others_follow() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let begun = Rc::new(RefCell::new(Vec::new()));
            let run = {
                let begun = begun.clone();
                move |(number, over): (u32, oneshot::Receiver<()>)| {
                    let begun = begun.clone();
                    async move {
                        begun.borrow_mut().push(number);
                        over.await.unwrap();
                    }
                }
            };
            let (waiting, calls) = mpsc::channel(2);
            spawn_local(run_all(calls, 2, run));
            let mut ends = Vec::new();
            for number in 0..4 {
                let (end, over) = oneshot::channel();
                ends.push(end);
                waiting.send((number, over)).await.unwrap();
            }
            let settle = async || {
                for _ in 0..100 {
                    yield_now().await;
                }
            };
            settle().await;
            assert_eq!(*begun.borrow(), [0, 1]);
            let (_, over) = oneshot::channel();
            assert!(
                waiting.try_send((4, over)).is_err(),
                "those that wait are counted"
            );
            ends.remove(1).send(()).unwrap();
            settle().await;
            assert_eq!(*begun.borrow(), [0, 1, 2]);
            for end in ends {
                end.send(()).unwrap();
            }
            settle().await;
            assert_eq!(*begun.borrow(), [0, 1, 2, 3]);
        });
    }
}
