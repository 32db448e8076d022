//! Transactions of a session, and shared commits.
//!
//! A commit costs more than most transactions do. A transaction begun with [`Begin::Together`] is held when it ends,
//! and following ones are added to it, until [`Session::settle`] commits them all as one. Held transactions are visible
//! to this session only, and no other writer can begin. Each is still atomic by itself. Any operation of the session
//! that others could wait for settles first.

use super::{Session, SessionError, State};
use crate::{Durability, Transaction};

/// Once this many bytes of paths and values are held, they are committed before the next transaction begins.
const HELD_BYTES_MAX: usize = 1 << 20;

/// How a transaction is to be committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// By itself, when it ends.
    #[default]
    Alone,
    /// Together with others, if the session [announces](Session::announce) its commits; otherwise alone.
    Together,
}

/// An outermost transaction taken out of the session to be committed or rolled back.
struct Ended {
    transaction: Box<Transaction>,
    aborted: bool,
    begin: Begin,
    part_of: Option<Durability>,
}

impl Session {
    /// Begins a transaction and returns the nesting depth. Inside another one it becomes a part of that, and `begin` is
    /// ignored.
    pub fn begin(&mut self, begin: Begin) -> Result<u32, SessionError> {
        match &mut self.state {
            State::Writing { depth, .. } => {
                *depth += 1;
                return Ok(*depth);
            }
            State::Looking { .. } => return Err(SessionError::InSnapshot),
            State::Held { transaction, .. }
                if begin == Begin::Together && transaction.bytes() < HELD_BYTES_MAX =>
            {
                transaction.begin_part()?;
            }
            State::Held { .. } | State::Apart => self.settle_first()?,
        }
        let (transaction, part_of) = match self.take_held() {
            Some((held, durability)) => (held, Some(durability)),
            None => (Box::new(self.begin_to_write()?), None),
        };
        self.state = State::Writing {
            transaction,
            depth: 1,
            aborted: false,
            begin,
            part_of,
        };
        Ok(1)
    }

    /// Nesting depth of open transactions.
    pub fn level(&self) -> u32 {
        match &self.state {
            State::Writing { depth, .. } => *depth,
            State::Apart | State::Held { .. } | State::Looking { .. } => 0,
        }
    }

    /// Whether a transaction or a snapshot is open.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Writing { .. } | State::Looking { .. })
    }

    /// Ends a transaction. An inner one only becomes part of the outer one. The outermost is committed with the given
    /// durability, or the store's default, at once or together with others as it was begun; [`Durability::Sync`] always
    /// commits at once.
    pub fn commit(&mut self, durability: Option<Durability>) -> Result<(), SessionError> {
        if let State::Writing { depth, .. } = &mut self.state
            && *depth > 1
        {
            *depth -= 1;
            return Ok(());
        }
        let Some(Ended {
            mut transaction,
            aborted,
            begin,
            part_of,
        }) = self.end()
        else {
            return Err(SessionError::NoTransaction);
        };
        if aborted {
            self.undo(transaction, part_of);
            return Err(SessionError::Aborted);
        }
        let is_part = part_of.is_some();
        if is_part && let Err(error) = transaction.keep_part() {
            if transaction.is_in_part() {
                self.undo(transaction, part_of);
                return Err(error.into());
            }
            return Err(self.lose(error.into()));
        }
        let durability = durability.unwrap_or(self.store()?.options().durability);
        let together = begin == Begin::Together && self.announce.is_some() && durability != Durability::Sync;
        if together && transaction.bytes() > 0 && !transaction.is_broken() {
            let durability = part_of.map_or(durability, |held| held.stronger(durability));
            self.state = State::Held {
                transaction,
                durability,
            };
            return Ok(());
        }
        let outcome = self.finish(*transaction, durability);
        outcome.map_err(|error| if is_part { self.lose(error) } else { error })
    }

    /// Rolls a transaction back. If it was an inner one, the outer one can only be rolled back as well.
    pub fn roll_back(&mut self) -> Result<(), SessionError> {
        if let State::Writing { depth, aborted, .. } = &mut self.state
            && *depth > 1
        {
            *depth -= 1;
            *aborted = true;
            return Ok(());
        }
        let Some(Ended {
            transaction, part_of, ..
        }) = self.end()
        else {
            return Err(SessionError::NoTransaction);
        };
        self.undo(transaction, part_of);
        Ok(())
    }

    /// Commits the held transactions with the strongest durability among them. An error is that of the first failed
    /// commit of held transactions since the last call; all of them are lost.
    pub fn settle(&mut self) -> Result<(), SessionError> {
        if matches!(self.state, State::Writing { part_of: Some(_), .. }) {
            return Err(SessionError::Busy);
        }
        let outcome = self.settle_first();
        match self.lost.take() {
            Some(error) => Err(error),
            None => outcome,
        }
    }

    /// Commits the held transactions before an operation that others could wait for. After a failure every call fails
    /// until [`Session::settle`] has been called.
    pub(super) fn settle_first(&mut self) -> Result<(), SessionError> {
        if let Some(error) = &self.lost {
            return Err(SessionError::NotSettled {
                reason: error.to_string(),
            });
        }
        let Some((held, durability)) = self.take_held() else {
            return Ok(());
        };
        let outcome = self.finish(*held, durability);
        outcome.map_err(|error| self.lose(error))
    }

    /// Records that the held transactions are lost; returns the error for the current caller.
    fn lose(&mut self, error: SessionError) -> SessionError {
        let reason = error.to_string();
        self.lost = Some(error);
        SessionError::NotSettled { reason }
    }

    /// Takes the held transactions out of the session.
    fn take_held(&mut self) -> Option<(Box<Transaction>, Durability)> {
        match std::mem::replace(&mut self.state, State::Apart) {
            State::Held {
                transaction,
                durability,
            } => Some((transaction, durability)),
            state => {
                self.state = state;
                None
            }
        }
    }

    /// Takes the outermost transaction out of the session.
    fn end(&mut self) -> Option<Ended> {
        match std::mem::replace(&mut self.state, State::Apart) {
            State::Writing {
                transaction,
                aborted,
                begin,
                part_of,
                ..
            } => Some(Ended {
                transaction,
                aborted,
                begin,
                part_of,
            }),
            state => {
                self.state = state;
                None
            }
        }
    }

    /// Rolls a transaction back; those that were held before it are held again.
    fn undo(&mut self, mut transaction: Box<Transaction>, part_of: Option<Durability>) {
        if let Some(durability) = part_of {
            transaction.drop_part();
            self.state = State::Held {
                transaction,
                durability,
            };
        }
    }

    pub(super) fn finish(
        &mut self,
        transaction: Transaction,
        durability: Durability,
    ) -> Result<(), SessionError> {
        match self.announce.filter(|_| durability == Durability::Group) {
            Some(tell) => {
                self.last_commit = transaction.commit(Durability::Relaxed)?;
                tell(self.last_commit);
            }
            None => self.last_commit = transaction.commit(durability)?,
        }
        Ok(())
    }
}
