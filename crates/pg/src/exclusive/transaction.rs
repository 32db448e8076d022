//! Several statements that take effect together or not at all.

use std::time::Instant;

use super::Lease;
use crate::{
    PgError, Rows, Stage, protocol::Transaction as State, source::whole_ms, statement::session_keyword,
};

/// A transaction on a connection of its own. It is rolled back unless it is committed: also when it is dropped.
#[derive(Debug)]
pub struct Transaction {
    lease: Lease,
    deadline: Instant,
    /// Savepoints that were made.
    savepoints: u32,
}

/// A place in a transaction to which it can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(u32);

impl Transaction {
    pub(crate) async fn begin(lease: Lease, deadline: Instant) -> Result<Self, PgError> {
        let mut begun = Self {
            lease,
            deadline,
            savepoints: 0,
        };
        begun.run("begin", &[]).await?;
        Ok(begun)
    }

    /// Runs a statement. After one that fails all others are refused (SQLSTATE 25P02) until a savepoint is rolled back to.
    pub async fn query(&mut self, text: &str, parameters: &[Option<&[u8]>]) -> Result<Rows, PgError> {
        if let Some(keyword) = session_keyword(text) {
            return Err(PgError::Session { keyword });
        }
        self.run(text, parameters).await
    }

    /// Makes a savepoint.
    pub async fn savepoint(&mut self) -> Result<Savepoint, PgError> {
        let savepoint = Savepoint(self.savepoints + 1);
        self.run(&format!("savepoint s{}", savepoint.0), &[]).await?;
        self.savepoints = savepoint.0;
        Ok(savepoint)
    }

    /// Undoes what was done since a savepoint, which stays.
    pub async fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), PgError> {
        self.run(&format!("rollback to savepoint s{}", savepoint.0), &[])
            .await
            .map(drop)
    }

    /// Forgets a savepoint, and those made after it; what was done since stays.
    pub async fn release(&mut self, savepoint: Savepoint) -> Result<(), PgError> {
        self.run(&format!("release savepoint s{}", savepoint.0), &[])
            .await
            .map(drop)
    }

    /// Has all of it take effect. One in which a statement has failed is rolled back instead, and that is an error.
    pub async fn commit(mut self) -> Result<(), PgError> {
        if self.lease.connection().transaction() == State::Failed {
            self.run("rollback", &[]).await?;
            return Err(PgError::RolledBack);
        }
        self.run("commit", &[]).await.map(drop)
    }

    /// Undoes all of it.
    pub async fn rollback(mut self) -> Result<(), PgError> {
        self.run("rollback", &[]).await.map(drop)
    }

    async fn run(&mut self, text: &str, parameters: &[Option<&[u8]>]) -> Result<Rows, PgError> {
        let begun = Instant::now();
        let connection = self.lease.connection();
        let run = async {
            // A statement before may have been given up.
            connection.interrupt().await?;
            connection.query(text, parameters).await
        };
        let outcome = tokio::time::timeout_at(self.deadline.into(), run).await;
        outcome.unwrap_or(Err(PgError::TimedOut {
            what: Stage::Transaction,
            limit: whole_ms(self.deadline, begun),
        }))
    }
}
