//! Open objects, by id.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::{Mutex as Turns, OwnedMutexGuard};

use super::{SqlSessionError, operation::Id};
use crate::{CopyIn, CopyOut, Listener, RowStream, Savepoint, Transaction, source::whole_ms};

/// Most objects that one call of a handler may have open at a time.
pub(super) const OPEN_MAX: usize = 32;

/// Open objects of one call of a handler. Each is used by one operation at a time; others wait in order.
#[derive(Debug, Default)]
pub(super) struct Open {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Id,
    transactions: HashMap<Id, Arc<Turns<InProgress>>>,
    cursors: HashMap<Id, Cursor>,
    copies: HashMap<Id, Copying>,
    listeners: HashMap<Id, Arc<Listener>>,
}

/// A transaction, and its savepoints by id.
#[derive(Debug)]
pub(super) struct InProgress {
    pub(super) source: String,
    pub(super) statement_timeout: Duration,
    /// `None` once it has ended.
    pub(super) transaction: Option<Transaction>,
    pub(super) savepoints: Vec<Savepoint>,
    /// Cursors declared so far.
    pub(super) cursors: u32,
    /// When the current operation was requested.
    pub(super) asked: Instant,
}

/// An open cursor, in either form.
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

/// A copy, on a connection of its own or in a transaction.
#[derive(Clone, Debug)]
pub(super) enum Copying {
    In(Arc<Turns<Copied<CopyIn>>>),
    Out(Arc<Turns<Copied<CopyOut>>>),
    InWithin(Id),
    /// The flag tells whether the data is binary.
    OutWithin(Id, bool),
}

#[derive(Debug)]
pub(super) struct Copied<C> {
    pub(super) source: String,
    /// `None` once it has ended.
    pub(super) copy: Option<C>,
}

impl Copying {
    /// The transaction it belongs to.
    fn transaction(&self) -> Option<Id> {
        match self {
            Self::In(_) | Self::Out(_) => None,
            Self::InWithin(id) | Self::OutWithin(id, _) => Some(*id),
        }
    }
}

impl Open {
    /// Fails if no further object may be opened.
    pub(super) fn check_room(&self) -> Result<(), SqlSessionError> {
        let state = self.state.lock();
        let open =
            state.transactions.len() + state.cursors.len() + state.copies.len() + state.listeners.len();
        if open < OPEN_MAX {
            Ok(())
        } else {
            Err(SqlSessionError::TooManyOpen { open_max: OPEN_MAX })
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

    /// Waits for exclusive use of a transaction.
    pub(super) async fn transaction(
        &self,
        id: Id,
        deadline: Instant,
    ) -> Result<OwnedMutexGuard<InProgress>, SqlSessionError> {
        let asked = Instant::now();
        let found = self.state.lock().transactions.get(&id).cloned();
        let mut turn = turn(found, id, deadline).await?;
        turn.asked = asked;
        Ok(turn)
    }

    /// The same, and removes the transaction and its cursors, so that no other operation starts to use it.
    pub(super) async fn end_transaction(
        &self,
        id: Id,
        deadline: Instant,
    ) -> Result<OwnedMutexGuard<InProgress>, SqlSessionError> {
        let found = {
            let mut state = self.state.lock();
            state.cursors.retain(
                |_, cursor| !matches!(cursor, Cursor::Within(declared) if declared.transaction == id),
            );
            state
                .copies
                .retain(|_, copying| copying.transaction() != Some(id));
            state.transactions.remove(&id)
        };
        turn(found, id, deadline).await
    }

    pub(super) fn cursor(&self, id: Id) -> Result<Cursor, SqlSessionError> {
        let state = self.state.lock();
        state
            .cursors
            .get(&id)
            .cloned()
            .ok_or(SqlSessionError::NotOpen { id })
    }

    pub(super) fn add_copying(&self, it: Copying) -> Id {
        let mut state = self.state.lock();
        let id = state.next();
        state.copies.insert(id, it);
        id
    }

    pub(super) fn copying(&self, id: Id) -> Result<Copying, SqlSessionError> {
        let state = self.state.lock();
        state
            .copies
            .get(&id)
            .cloned()
            .ok_or(SqlSessionError::NotOpen { id })
    }

    /// Removes and returns a copy, if it exists.
    pub(super) fn end_copying(&self, id: Id) -> Option<Copying> {
        self.state.lock().copies.remove(&id)
    }

    pub(super) fn add_listener(&self, it: Listener) -> Id {
        let mut state = self.state.lock();
        let id = state.next();
        state.listeners.insert(id, Arc::new(it));
        id
    }

    pub(super) fn listener(&self, id: Id) -> Result<Arc<Listener>, SqlSessionError> {
        let state = self.state.lock();
        state
            .listeners
            .get(&id)
            .cloned()
            .ok_or(SqlSessionError::NotOpen { id })
    }

    /// Removes a listener, if it exists.
    pub(super) fn end_listener(&self, id: Id) {
        let ended = self.state.lock().listeners.remove(&id);
        drop(ended);
    }

    /// Removes and returns a cursor, if it exists.
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

/// Waits for exclusive use of an object.
pub(super) async fn turn<O>(
    found: Option<Arc<Turns<O>>>,
    id: Id,
    deadline: Instant,
) -> Result<OwnedMutexGuard<O>, SqlSessionError> {
    let found = found.ok_or(SqlSessionError::NotOpen { id })?;
    let begun = Instant::now();
    let turn = tokio::time::timeout_at(deadline.into(), found.lock_owned()).await;
    turn.map_err(|_| SqlSessionError::InUse {
        id,
        limit: whole_ms(deadline, begun),
    })
}
