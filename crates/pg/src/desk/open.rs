//! What is open, by the numbers that it was given.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::{Mutex as Turns, OwnedMutexGuard};

use super::{DeskError, operation::Id};
use crate::{RowStream, Savepoint, Transaction, source::whole_ms};

/// What one call of a handler may have open at a time.
pub(super) const OPEN_MAX: usize = 32;

/// What one call of a handler has open. Who uses something of it has its turn; others wait for theirs, in order.
#[derive(Debug, Default)]
pub(super) struct Open {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Id,
    transactions: HashMap<Id, Arc<Turns<InProgress>>>,
    cursors: HashMap<Id, Cursor>,
}

/// A transaction, and its savepoints by their numbers.
#[derive(Debug)]
pub(super) struct InProgress {
    pub(super) source: String,
    pub(super) statement_timeout: Duration,
    /// Gone when it has ended.
    pub(super) transaction: Option<Transaction>,
    pub(super) savepoints: Vec<Savepoint>,
    /// Cursors that were declared.
    pub(super) cursors: u32,
}

/// A cursor.
#[derive(Clone, Debug)]
pub(super) enum Cursor {
    /// On a connection of its own.
    Alone(Arc<Turns<Streaming>>),
    /// Declared in a transaction.
    Within(Arc<Declared>),
}

#[derive(Debug)]
pub(super) struct Streaming {
    pub(super) source: String,
    pub(super) rows: RowStream,
    pub(super) batch: usize,
}

#[derive(Debug)]
pub(super) struct Declared {
    pub(super) transaction: Id,
    pub(super) number: u32,
    pub(super) batch: usize,
}

impl Open {
    /// Whether something more may be opened.
    pub(super) fn check_room(&self) -> Result<(), DeskError> {
        let state = self.state.lock();
        if state.transactions.len() + state.cursors.len() < OPEN_MAX {
            Ok(())
        } else {
            Err(DeskError::TooManyOpen { open_max: OPEN_MAX })
        }
    }

    pub(super) fn add_transaction(&self, it: InProgress) -> Id {
        let mut state = self.state.lock();
        let id = state.next();
        state.transactions.insert(id, Arc::new(Turns::new(it)));
        id
    }

    pub(super) fn add_cursor(&self, it: Cursor) -> Id {
        let mut state = self.state.lock();
        let id = state.next();
        state.cursors.insert(id, it);
        id
    }

    /// The turn of somebody who uses a transaction.
    pub(super) async fn transaction(
        &self,
        id: Id,
        deadline: Instant,
    ) -> Result<OwnedMutexGuard<InProgress>, DeskError> {
        let found = self.state.lock().transactions.get(&id).cloned();
        turn(found, id, deadline).await
    }

    /// The same of who ends it, and its cursors: nobody else begins to use it.
    pub(super) async fn end_transaction(
        &self,
        id: Id,
        deadline: Instant,
    ) -> Result<OwnedMutexGuard<InProgress>, DeskError> {
        let found = {
            let mut state = self.state.lock();
            state.cursors.retain(
                |_, cursor| !matches!(cursor, Cursor::Within(declared) if declared.transaction == id),
            );
            state.transactions.remove(&id)
        };
        turn(found, id, deadline).await
    }

    pub(super) fn cursor(&self, id: Id) -> Result<Cursor, DeskError> {
        let state = self.state.lock();
        state.cursors.get(&id).cloned().ok_or(DeskError::NotOpen { id })
    }

    /// Ends a cursor, if there is one; gives it.
    pub(super) fn end_cursor(&self, id: Id) -> Option<Cursor> {
        self.state.lock().cursors.remove(&id)
    }
}

impl State {
    fn next(&mut self) -> Id {
        self.last += 1;
        self.last
    }
}

/// Waits for the turn to use something.
pub(super) async fn turn<O>(
    found: Option<Arc<Turns<O>>>,
    id: Id,
    deadline: Instant,
) -> Result<OwnedMutexGuard<O>, DeskError> {
    let found = found.ok_or(DeskError::NotOpen { id })?;
    let begun = Instant::now();
    let turn = tokio::time::timeout_at(deadline.into(), found.lock_owned()).await;
    turn.map_err(|_| DeskError::InUse {
        id,
        limit: whole_ms(deadline, begun),
    })
}
