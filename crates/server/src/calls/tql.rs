//! TQL statements, and records by reference, for controllers on standard input and output. Reads run in slices, so that other calls get their
//! turn in between; writes go to the store's writer, which batches everything that waits.

use std::{future::poll_fn, sync::Arc, time::Instant};

use forebay_records::{RecordsError, Settings, tql::Statement};
use serde::Deserialize;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout_at,
};

use super::{Session, record::RecordCall};
use crate::{
    config::StoreMode,
    failure::Refusal,
    store::{
        Collected, Done, Grants, OPERATION_BYTES, OpenStore, Pieces, Selection, StatementOperation, Work,
        collect, collect_here,
    },
};

/// Maximum number of calls of all workers that wait for their turn.
const CALLS_WAITING_MAX: usize = 4096;
/// Maximum number of calls executed concurrently. Each read holds a snapshot of the store and the results found so far.
const CALLS_RUNNING_MAX: usize = 64;

/// Decides when calls run; shared by all pools.
#[derive(Debug)]
pub(crate) struct Admission {
    open: Semaphore,
    running: Semaphore,
}

impl Default for Admission {
    fn default() -> Self {
        Self::new(CALLS_RUNNING_MAX, CALLS_WAITING_MAX)
    }
}

impl Admission {
    fn new(running_max: usize, waiting_max: usize) -> Self {
        Self {
            open: Semaphore::new(running_max + waiting_max),
            running: Semaphore::new(running_max),
        }
    }

    /// Waits for a call's turn. The call may run while the permits are held.
    async fn admit(&self, deadline: Instant) -> Result<[SemaphorePermit<'_>; 2], Refusal> {
        let open = self.open.try_acquire().map_err(|_| Refusal::CallQueueFull {
            waiting_max: CALLS_WAITING_MAX,
        })?;
        match timeout_at(deadline.into(), self.running.acquire()).await {
            Ok(running) if Instant::now() < deadline => Ok([open, running.expect("nobody closes it")]),
            _ => Err(Refusal::CallExpired),
        }
    }
}

/// Executes the calls of one pool's workers.
#[derive(Clone, Debug)]
pub(crate) struct Tql {
    pub(crate) store: Arc<OpenStore>,
    pub(crate) mode: StoreMode,
    pub(crate) settings: Arc<Settings>,
    pub(crate) answer_bytes_max: usize,
    pub(crate) admission: Arc<Admission>,
}

impl Session for Tql {
    type Access = Self;
    /// A worker may end right after a write whose answer it does not need.
    const FINISHES_CALLS: bool = true;

    fn open(access: Self) -> Self {
        access
    }

    async fn answer(&self, body: &[u8], deadline: Instant) -> Vec<u8> {
        self.execute(body, deadline).await.unwrap_or_else(|refusal| {
            let mut error = serde_json::json!({ "code": refusal.code(), "error": refusal.to_string() });
            if let Some(word) = refusal.word() {
                error["reason"] = word.into();
            }
            error.to_string().into_bytes()
        })
    }
}

impl Tql {
    async fn execute(&self, body: &[u8], deadline: Instant) -> Result<Vec<u8>, Refusal> {
        let _permits = self.admission.admit(deadline).await?;
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
        let selection = |this: &Self| {
            Selection::new(
                &this.store,
                statement,
                &this.settings,
                &Grants::everything(),
                this.answer_bytes_max,
            )
        };
        if self.store.is_remote() {
            let this = self.clone();
            let select = move || {
                let (mut selection, mut found) = (selection(&this)?, Vec::new());
                let collected = collect_here(&mut selection, &mut found, this.answer_bytes_max, deadline)?;
                this.whole(collected, found)
            };
            return self.store.off_thread(deadline, select).await;
        }
        let selection = selection(self)?;
        self.collected(selection, self.answer_bytes_max, deadline).await
    }

    /// Collects all pieces of a result, which must be smaller than `bytes`.
    pub(super) async fn collected(
        &self,
        mut pieces: impl Pieces,
        bytes: usize,
        deadline: Instant,
    ) -> Result<Vec<u8>, Refusal> {
        let mut found = Vec::new();
        // The deadline is the only sign that a caller no longer waits.
        let collected = collect(&mut pieces, &mut found, bytes, deadline, |_| false).await?;
        self.whole(collected, found)
    }

    fn whole(&self, collected: Collected, found: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        match collected {
            Collected::Whole => Ok(found),
            Collected::Full => Err(self.too_large()),
            Collected::Late | Collected::Gone => Err(RecordsError::DeadlinePassed.into()),
        }
    }

    pub(super) fn too_large(&self) -> Refusal {
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
    pub(super) async fn done(&self, work: Work, bytes: usize, deadline: Instant) -> Result<Done, Refusal> {
        let mut pending = self.store.writer().submit(vec![work], bytes + OPERATION_BYTES)?;
        let outcome = poll_fn(|cx| pending.poll(cx));
        let Ok(outcome) = timeout_at(deadline.into(), outcome).await else {
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
fn read(body: &[u8], settings: &Settings) -> Result<Statement, forebay_records::StatementError> {
    #[derive(Deserialize)]
    struct Text(String);

    match serde_json::from_slice::<Text>(body) {
        Ok(Text(text)) => Statement::read(text.as_bytes(), settings),
        Err(_) => Statement::read_json(body, settings),
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, time::Duration};

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn only_so_many_run_and_wait_at_a_time_and_the_others_follow_or_are_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let admission = Admission::new(2, 2);
            let later = Instant::now() + Duration::from_hours(1);
            let is_late = async || {
                let late = admission.admit(Instant::now()).await;
                assert!(matches!(late, Err(Refusal::CallExpired)), "{late:?}");
            };
            is_late().await;
            let first = admission.admit(later).now_or_never().unwrap().unwrap();
            let _second = admission.admit(later).now_or_never().unwrap().unwrap();
            is_late().await;
            let mut third = pin!(admission.admit(later));
            let mut fourth = pin!(admission.admit(later));
            assert!(third.as_mut().now_or_never().is_none());
            assert!(fourth.as_mut().now_or_never().is_none());
            let fifth = admission.admit(later).now_or_never().unwrap();
            assert!(matches!(fifth, Err(Refusal::CallQueueFull { .. })), "{fifth:?}");
            drop(first);
            let third = third.now_or_never().unwrap().unwrap();
            assert!(fourth.as_mut().now_or_never().is_none());
            drop(third);
            assert!(fourth.now_or_never().unwrap().is_ok());
        });
    }
}
