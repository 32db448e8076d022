//! Transactions: several statements that take effect together or not at all.

use std::time::Instant;

use bytes::Bytes;

use super::{
    Lease,
    copy::{asked, check_copies, check_in, check_out, ended, moved, take},
};
use crate::{
    PgError, Rows, Source, Stage,
    protocol::{Direction, Transaction as State},
    source::within,
    statement::session_keyword,
    timing::Timing,
    watch::{Flow, Watch},
};

/// First words that are allowed in a transaction although they affect more than their own statement: the end of the
/// transaction undoes it.
const ALLOWED: [&str; 1] = ["lock"];

/// A transaction on a connection of its own. It is rolled back unless it is committed, also when dropped.
#[derive(Debug)]
pub struct Transaction {
    lease: Lease,
    deadline: Instant,
    /// Number of savepoints made.
    savepoints: u32,
    /// Source that counts its statements; `None` if the transaction is counted as a whole.
    counted: Option<Source>,
    /// When the next operation was requested, if before now.
    asked: Option<Instant>,
    /// Observes the copy in progress.
    flow: Option<Flow>,
}

/// Isolation level (manual, 13.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees the data committed before it began.
    ReadCommitted,
    /// All statements see the data committed before the first one.
    RepeatableRead,
    /// The same, and the outcome is as if transactions had run one after another.
    Serializable,
}

/// Options of a transaction; anything unspecified is left to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// Isolation level, the server's default if `None`.
    pub isolation: Option<Isolation>,
    /// Whether the transaction must not change anything.
    pub is_read_only: bool,
}

impl Beginning {
    pub(crate) fn text(self) -> String {
        let isolation = self
            .isolation
            .map(|isolation| format!(" isolation level {}", isolation.name()));
        let access = if self.is_read_only { " read only" } else { "" };
        format!("begin{}{access}", isolation.unwrap_or_default())
    }
}

/// A point in a transaction that it can be rolled back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(u32);

impl Isolation {
    /// Name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        }
    }
}

impl Transaction {
    pub(crate) async fn begin(
        lease: Lease,
        text: &str,
        deadline: Instant,
        counted: Option<Source>,
        timing: &Timing,
    ) -> Result<Self, PgError> {
        let mut begun = Self {
            lease,
            deadline,
            savepoints: 0,
            counted,
            asked: None,
            flow: None,
        };
        begun.run_timed(text, &[], timing).await?;
        Ok(begun)
    }

    /// Runs a statement. After a failed one all others are rejected (SQLSTATE 25P02) until a rollback to a savepoint.
    pub async fn query(&mut self, text: &str, parameters: &[Option<&[u8]>]) -> Result<Rows, PgError> {
        check(text)?;
        self.check_free()?;
        self.run(text, parameters).await
    }

    /// Runs an internal statement of any kind.
    pub(crate) async fn query_own(
        &mut self,
        text: &str,
        parameters: &[Option<&[u8]>],
    ) -> Result<Rows, PgError> {
        self.check_free()?;
        self.run(text, parameters).await
    }

    /// Runs statements one after another; those already prepared on this connection are pipelined. Returns the outcome
    /// of each: after a failed one all others are rejected.
    pub async fn query_all(
        &mut self,
        statements: &[(&str, Vec<Option<&[u8]>>)],
    ) -> Result<Vec<Result<Rows, PgError>>, PgError> {
        for (text, _) in statements {
            check(text)?;
        }
        self.check_free()?;
        let asked = self.asked();
        let counted = self.counted.clone();
        let watches: Vec<_> = statements
            .iter()
            .map(|(text, _)| Watch::begin(counted.as_ref(), *text, asked))
            .collect();
        watches.iter().for_each(Watch::place);
        let timings: Vec<_> = watches.iter().map(|watch| watch.timing().clone()).collect();
        let connection = self.lease.connection();
        let run = async {
            connection.interrupt().await?;
            Ok(connection.query_all(statements, &timings).await)
        };
        let outcomes = within(self.deadline, Stage::Transaction, run).await;
        for (index, watch) in watches.into_iter().enumerate() {
            match &outcomes {
                Ok(outcomes) => watch.end(&outcomes[index], |rows| rows.affected),
                Err(error) => watch.end(&Err::<(), _>(error.clone()), |()| 0),
            }
        }
        outcomes
    }

    /// Starts copying rows in: until [`Transaction::copy_done`] nothing else can be run.
    pub async fn copy_in(&mut self, text: &str) -> Result<(), PgError> {
        check_in(self.copy(text).await?)
    }

    /// Sends some of the data.
    pub async fn copy_bytes(&mut self, bytes: &[u8]) -> Result<(), PgError> {
        asked(&mut self.flow);
        let send = self.lease.connection().copy_bytes(bytes);
        let sent = within(self.deadline, Stage::Transaction, send).await;
        moved(&mut self.flow, "send", &sent);
        sent
    }

    /// Ends the data; returns the number of rows.
    pub async fn copy_done(&mut self) -> Result<u64, PgError> {
        asked(&mut self.flow);
        let done = self.lease.connection().copy_done();
        let done = within(self.deadline, Stage::Transaction, done).await;
        ended(&mut self.flow, &done);
        done
    }

    /// Starts copying rows out; returns whether the data is binary. Until [`Transaction::copied`] has returned all of
    /// it nothing else can be run.
    pub async fn copy_out(&mut self, text: &str) -> Result<bool, PgError> {
        check_out(self.copy(text).await?)
    }

    /// Waits for the next bytes; `None` after the last.
    pub async fn copied(&mut self) -> Result<Option<Bytes>, PgError> {
        let until = (self.deadline, Stage::Transaction);
        take(self.lease.connection(), until, &mut self.flow).await
    }

    /// The next bytes, if they have already arrived.
    pub fn copied_already(&mut self) -> Option<Bytes> {
        self.lease.connection().copied_already()
    }

    /// Ends a copy early, which makes the transaction fail if it copies in.
    pub async fn copy_ended(&mut self) -> Result<(), PgError> {
        self.flow = None;
        within(
            self.deadline,
            Stage::Transaction,
            self.lease.connection().interrupt(),
        )
        .await
    }

    async fn copy(&mut self, text: &str) -> Result<Direction, PgError> {
        check_copies(text)?;
        self.check_free()?;
        let asked = self.asked();
        let watch = Watch::begin(self.counted.as_ref(), text.to_owned(), asked);
        watch.place();
        let connection = self.lease.connection();
        let copy = async {
            connection.interrupt().await?;
            connection.copy(text, watch.timing()).await
        };
        let begun = within(self.deadline, Stage::Transaction, copy).await;
        self.flow = watch.flow(&begun);
        begun
    }

    /// Fails while a copy is in progress.
    fn check_free(&mut self) -> Result<(), PgError> {
        if !self.lease.connection().is_copying() {
            return Ok(());
        }
        Err(PgError::Unsendable {
            reason: "the transaction copies, and has not come to the end of that".into(),
        })
    }

    /// Changes the deadline for what follows.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Sets when the next operation was requested.
    pub(crate) fn set_asked(&mut self, asked: Instant) {
        self.asked = Some(asked);
    }

    fn asked(&mut self) -> Instant {
        self.asked.take().unwrap_or_else(Instant::now)
    }

    /// Creates a savepoint.
    pub async fn savepoint(&mut self) -> Result<Savepoint, PgError> {
        let savepoint = Savepoint(self.savepoints + 1);
        self.run(&format!("savepoint s{}", savepoint.0), &[]).await?;
        self.savepoints = savepoint.0;
        Ok(savepoint)
    }

    /// Undoes everything since a savepoint, which remains.
    pub async fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), PgError> {
        self.run(&format!("rollback to savepoint s{}", savepoint.0), &[])
            .await
            .map(drop)
    }

    /// Removes a savepoint and those after it; the changes since then remain.
    pub async fn release(&mut self, savepoint: Savepoint) -> Result<(), PgError> {
        self.run(&format!("release savepoint s{}", savepoint.0), &[])
            .await
            .map(drop)
    }

    /// Commits. A transaction with a failed statement is rolled back instead, which is an error.
    pub async fn commit(mut self) -> Result<(), PgError> {
        if self.lease.connection().transaction() == State::Failed {
            self.run("rollback", &[]).await?;
            return Err(PgError::RolledBack);
        }
        self.run("commit", &[]).await.map(drop)
    }

    /// Rolls back.
    pub async fn rollback(mut self) -> Result<(), PgError> {
        self.run("rollback", &[]).await.map(drop)
    }

    async fn run(&mut self, text: &str, parameters: &[Option<&[u8]>]) -> Result<Rows, PgError> {
        let asked = self.asked();
        let counted = self.counted.clone();
        let watch = Watch::begin(counted.as_ref(), text, asked);
        watch.place();
        let outcome = self.run_timed(text, parameters, watch.timing()).await;
        watch.end(&outcome, |rows| rows.affected);
        outcome
    }

    async fn run_timed(
        &mut self,
        text: &str,
        parameters: &[Option<&[u8]>],
        timing: &Timing,
    ) -> Result<Rows, PgError> {
        let connection = self.lease.connection();
        let run = async {
            // An earlier statement may have been given up.
            connection.interrupt().await?;
            connection.query(text, parameters, timing).await
        };
        within(self.deadline, Stage::Transaction, run).await
    }
}

fn check(text: &str) -> Result<(), PgError> {
    match session_keyword(text) {
        Some(keyword) if !ALLOWED.contains(&keyword) => Err(PgError::Session { keyword }),
        _ => Ok(()),
    }
}
