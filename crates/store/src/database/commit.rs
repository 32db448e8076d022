//! Commits: all changes of a transaction, and their record in the log, in one batch of statements.

use std::sync::Arc;

use forebay_pg::Rows;

use super::{
    Database, Table,
    connections::Lease,
    error::{DatabaseError, failed, is_broken},
    sql::{BEGIN_WRITING, bigint, bytes_array},
    transaction::{Head, Transaction},
};
use crate::{changes::Journal, error::StoreError};

/// Most bytes and records that one statement writes.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_RECORDS: usize = 4096;
/// Bytes of the log of changes in one row.
pub(super) const PIECE_BYTES: usize = 1 << 20;
/// The channel on which commits are announced, with their numbers.
pub(super) const CHANNEL: &str = "forebay_store";
pub(super) const ANNOUNCE: &str = "select pg_notify($1::text, $2::text)";

/// A statement with its parameters.
type Command<'a> = (&'a str, Vec<Option<Vec<u8>>>);

impl Transaction {
    /// Commits the changes and, unless it is empty, the journal's record of them. Returns the number of the commit.
    pub(crate) fn commit(self, journal: &mut Journal) -> Result<u64, StoreError> {
        let database = Arc::clone(&self.database);
        let outcome = self.finish(journal);
        let mut failure = database.commit_failure.lock();
        *failure = outcome.as_ref().err().map(ToString::to_string);
        drop(failure);
        outcome
    }

    fn finish(self, journal: &mut Journal) -> Result<u64, StoreError> {
        let before = *self.head.get().expect("a write transaction begins with it");
        let is_logged = !journal.is_empty();
        let logged = before.sequence + u64::from(is_logged);
        let sequence = self.sequence_to_be.unwrap_or(logged);
        let changes_meta = {
            let (from, to) = (Table::Meta.begin(), Table::Meta.end());
            self.overlay.ahead(&from, &to).is_some()
        };
        let expiring = !self.has_nothing_due()?;
        let head = Head {
            sequence,
            expiring,
            catalogue: if changes_meta { sequence } else { before.catalogue },
        };
        let record = if is_logged { journal.record(sequence) } else { &[] };
        let lease = self
            .take_lease()
            .expect("a write transaction has its connection until its end");
        let database = &self.database;
        let outcome = Database::send(lease, &self.commands(head, record));
        let outcome = match outcome {
            Err(CommitError::Lost(error)) if is_logged => database.find_out(sequence, record, error),
            Err(CommitError::Lost(error) | CommitError::Failed(error)) => Err(error),
            Ok(()) => Ok(()),
        };
        outcome.map_err(failed(&database.address))?;
        database.see(sequence);
        Ok(sequence)
    }

    fn commands<'a>(&'a self, head: Head, record: &[u8]) -> Vec<Command<'a>> {
        let statements = &self.database.statements;
        let mut commands: Vec<Command<'a>> = Vec::new();
        for (from, to) in self.overlay.emptied() {
            commands.push((&statements.remove_range, vec![Some(from.into()), Some(to.into())]));
        }
        let removed: Vec<&[u8]> = self
            .overlay
            .records()
            .filter(|(key, value)| value.is_none() && self.overlay.emptied_at(key).is_none())
            .map(|(key, _)| key)
            .collect();
        for keys in removed.chunks(BATCH_RECORDS) {
            commands.push((&statements.remove, vec![Some(bytes_array(keys.iter().copied()))]));
        }
        let put: Vec<(&[u8], &[u8])> = self
            .overlay
            .records()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect();
        let mut rest = &put[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(key, value): &&(&[u8], &[u8])| {
                bytes += key.len() + value.len();
                bytes <= BATCH_BYTES
            };
            // A longer record goes alone.
            let count = rest.iter().take(BATCH_RECORDS).take_while(fits).count().max(1);
            let (batch, others) = rest.split_at(count);
            rest = others;
            commands.push((
                &statements.put,
                vec![
                    Some(bytes_array(batch.iter().map(|(key, _)| *key))),
                    Some(bytes_array(batch.iter().map(|(_, value)| *value))),
                ],
            ));
        }
        let record_bytes = record.len() as u64;
        for (part, piece) in record.chunks(PIECE_BYTES).enumerate() {
            commands.push((
                &statements.log,
                vec![
                    Some(bigint(head.sequence).into()),
                    Some((part as u32).to_be_bytes().into()),
                    Some(bigint(record_bytes).into()),
                    Some(piece.into()),
                ],
            ));
        }
        commands.push((
            &statements.finish,
            vec![
                Some(bigint(head.sequence).into()),
                Some(vec![u8::from(head.expiring)]),
                Some(bigint(head.catalogue).into()),
                Some(bigint(record_bytes).into()),
            ],
        ));
        if self.database.announces() {
            commands.push((
                ANNOUNCE,
                vec![Some(CHANNEL.into()), Some(head.sequence.to_string().into())],
            ));
        }
        commands.push(("commit", Vec::new()));
        commands
    }
}

/// Why a commit failed.
enum CommitError {
    /// Nothing has been changed.
    Failed(DatabaseError),
    /// The connection broke, so the commit may stand.
    Lost(DatabaseError),
}

/// The database has warned with its confirmation: it has given up waiting for a synchronous standby, so a fail-over could take the commit back.
fn unreplicated() -> DatabaseError {
    DatabaseError::CommitUnknown {
        reason: "the database has stopped waiting for a standby".to_owned(),
    }
}

impl Database {
    /// Sends the statements of a commit.
    fn send(mut lease: Lease, commands: &[Command<'_>]) -> Result<(), CommitError> {
        let parameters: Vec<Vec<Option<&[u8]>>> = commands
            .iter()
            .map(|(_, parameters)| parameters.iter().map(Option::as_deref).collect())
            .collect();
        let statements: Vec<(&str, &[Option<&[u8]>])> = commands
            .iter()
            .zip(&parameters)
            .map(|((text, _), parameters)| (*text, parameters.as_slice()))
            .collect();
        let outcome: Result<Vec<Rows>, _> = lease.run_all(&statements);
        if outcome.is_ok() && lease.take_warned() {
            return Err(CommitError::Lost(unreplicated()));
        }
        outcome.map(drop).map_err(|error| {
            let class = DatabaseError::of(&error);
            if is_broken(&error) {
                CommitError::Lost(class)
            } else {
                CommitError::Failed(class)
            }
        })
    }

    /// After a connection broke during a commit: whether the commit stands, by the record that it would have left. That the lock is committed
    /// says, where there is a synchronous standby, that this has what was committed before, too.
    fn find_out(&self, sequence: u64, record: &[u8], lost: DatabaseError) -> Result<(), DatabaseError> {
        let unknown = |error: DatabaseError| DatabaseError::CommitUnknown {
            reason: error.to_string(),
        };
        // The write lock is free once the broken transaction has ended, either way.
        let number = bigint(sequence);
        let part = 0_u32.to_be_bytes();
        let statements: [(&str, &[Option<&[u8]>]); 4] = [
            (BEGIN_WRITING, &[]),
            (&self.statements.lock, &[]),
            (&self.statements.piece, &[Some(&number), Some(&part)]),
            ("commit", &[]),
        ];
        let (rows, mut lease) = self.run_anywhere(&statements).map_err(unknown)?;
        if lease.take_warned() {
            return Err(unreplicated());
        }
        let found = rows[2].rows.first();
        let piece = record.chunks(PIECE_BYTES).next();
        if found.and_then(|row| row.text(0)) == piece {
            Ok(())
        } else {
            Err(lost)
        }
    }
}
