//! Transaction operations of handlers.

use std::time::Instant;

use tokio::sync::OwnedMutexGuard;

use super::{
    SqlSession, SqlSessionError, number, of,
    open::InProgress,
    operation::{Begin, Commit, Id, MakeSavepoint, Release, Rollback, RollbackTo, Statement},
    write,
};
use crate::{PgError, Savepoint, Transaction};

impl SqlSession {
    /// `{"transaction":1}`
    pub(super) async fn begin(&self, it: &Begin, deadline: Instant) -> Result<Vec<u8>, SqlSessionError> {
        let source = self.source(&it.source)?;
        self.open.check_room()?;
        let begun = source.begin(it.beginning(), deadline).await;
        let id = self.open.add_transaction(InProgress {
            source: it.source.clone(),
            statement_timeout: source.settings().statement_timeout,
            transaction: Some(begun.map_err(of(&it.source))?),
            savepoints: Vec::new(),
            cursors: 0,
            asked: Instant::now(),
        });
        Ok(number("transaction", id))
    }

    /// Runs statements of a transaction one after another.
    pub(super) async fn run_within(
        &self,
        id: Id,
        statements: &[Statement],
        deadline: Instant,
    ) -> Result<Vec<u8>, SqlSessionError> {
        let mut turn = self.open.transaction(id, deadline).await?;
        let source = turn.source.clone();
        let asked: Vec<_> = statements
            .iter()
            .map(|statement| (statement.text.as_str(), statement.parameters()))
            .collect();
        let outcomes = turn.ready(id, deadline)?.query_all(&asked).await;
        let outcomes = outcomes.map_err(of(&source))?;
        Ok(write::outcomes(&outcomes, &source))
    }

    /// `{"savepoint":1}`
    pub(super) async fn savepoint(
        &self,
        it: &MakeSavepoint,
        deadline: Instant,
    ) -> Result<Vec<u8>, SqlSessionError> {
        let mut turn = self.open.transaction(it.transaction, deadline).await?;
        let made = turn.ready(it.transaction, deadline)?.savepoint().await;
        let savepoint = made.map_err(of(&turn.source))?;
        turn.savepoints.push(savepoint);
        Ok(number("savepoint", turn.savepoints.len() as Id))
    }

    /// `{}`; removes the savepoint.
    pub(super) async fn release(&self, it: &Release, deadline: Instant) -> Result<Vec<u8>, SqlSessionError> {
        let (mut turn, savepoint) = self.at_savepoint(it.transaction, it.savepoint, deadline).await?;
        let released = turn.ready(it.transaction, deadline)?.release(savepoint).await;
        released.map_err(of(&turn.source))?;
        turn.savepoints.truncate(it.savepoint as usize - 1);
        Ok(b"{}".to_vec())
    }

    /// `{}`; undoes everything since the savepoint and removes it.
    pub(super) async fn rollback_to(
        &self,
        it: &RollbackTo,
        deadline: Instant,
    ) -> Result<Vec<u8>, SqlSessionError> {
        let (mut turn, savepoint) = self.at_savepoint(it.transaction, it.savepoint, deadline).await?;
        let source = turn.source.clone();
        let transaction = turn.ready(it.transaction, deadline)?;
        transaction.rollback_to(savepoint).await.map_err(of(&source))?;
        transaction.release(savepoint).await.map_err(of(&source))?;
        turn.savepoints.truncate(it.savepoint as usize - 1);
        Ok(b"{}".to_vec())
    }

    async fn at_savepoint(
        &self,
        transaction: Id,
        savepoint: Id,
        deadline: Instant,
    ) -> Result<(OwnedMutexGuard<InProgress>, Savepoint), SqlSessionError> {
        let turn = self.open.transaction(transaction, deadline).await?;
        let place = (savepoint as usize).checked_sub(1);
        let made = place.and_then(|place| turn.savepoints.get(place)).copied();
        let made = made.ok_or(SqlSessionError::NoSavepoint { savepoint })?;
        Ok((turn, made))
    }

    /// `{}`. After an error nothing has taken effect, except when the connection breaks: then the outcome is unknown.
    pub(super) async fn commit(&self, it: &Commit, deadline: Instant) -> Result<Vec<u8>, SqlSessionError> {
        let (source, transaction) = self.last(it.transaction, deadline).await?;
        transaction.commit().await.map_err(of(&source))?;
        Ok(b"{}".to_vec())
    }

    /// `{}`
    pub(super) async fn rollback(
        &self,
        it: &Rollback,
        deadline: Instant,
    ) -> Result<Vec<u8>, SqlSessionError> {
        let (source, transaction) = self.last(it.transaction, deadline).await?;
        transaction.rollback().await.map_err(of(&source))?;
        Ok(b"{}".to_vec())
    }

    /// Takes a transaction in order to end it, after all earlier operations on it.
    async fn last(&self, id: Id, deadline: Instant) -> Result<(String, Transaction), SqlSessionError> {
        let mut turn = self.open.end_transaction(id, deadline).await?;
        let mut transaction = turn.transaction.take().ok_or(SqlSessionError::NotOpen { id })?;
        transaction.set_deadline(deadline);
        Ok((turn.source.clone(), transaction))
    }
}

impl InProgress {
    /// The transaction, with a time limit for the next statement: `deadline` or the statement timeout, whichever is
    /// earlier.
    pub(super) fn ready(&mut self, id: Id, deadline: Instant) -> Result<&mut Transaction, SqlSessionError> {
        let until = deadline.min(Instant::now() + self.statement_timeout);
        let transaction = self.transaction.as_mut().ok_or(SqlSessionError::NotOpen { id })?;
        transaction.set_deadline(until);
        transaction.set_asked(self.asked);
        Ok(transaction)
    }
}

/// Corrects the position in a statement's error by the length of the text written before it.
pub(super) fn shifted(mut error: PgError, before: usize) -> PgError {
    if let PgError::Server(error) = &mut error {
        error.position = error.position.and_then(|position| position.checked_sub(before));
    }
    error
}
