//! A change requested by a client, and its execution within a transaction.

use forebay_jobs::{Changed, JobError};
use forebay_records::Reference;
use forebay_store::{Key, Range, Read, StoreError, Subscript, Transaction};

use super::{
    RecordOperation, StatementOperation,
    lifetime::{Lifetime, now_ms},
    tag::{Condition, Found, Tag},
};
use crate::failure::Refusal;

/// Bytes that a queued write is taken to use besides its body.
pub(crate) const OPERATION_BYTES: usize = 512;

/// Most digits of a numeric id that can be incremented.
const ID_DIGITS_MAX: usize = 17;

/// A unit of work for the writer.
#[derive(Debug)]
pub(crate) enum Work {
    Node(Operation),
    Record(RecordOperation),
    Statement(Box<StatementOperation>),
    Job(Box<forebay_jobs::Change>),
}

impl Work {
    /// The node that it changes, if that is known before.
    pub(super) fn node(&self) -> Option<&Key> {
        match self {
            Self::Node(operation) => Some(&operation.key),
            Self::Record(_) | Self::Statement(_) | Self::Job(_) => None,
        }
    }

    /// Executes it.
    pub(super) fn perform(&self, transaction: &mut Transaction) -> Result<Done, Undone> {
        match self {
            Self::Node(operation) => operation.perform(transaction),
            Self::Record(operation) => operation.perform(transaction),
            Self::Statement(operation) => operation.perform(transaction),
            Self::Job(change) => match change.perform(transaction, now_ms()) {
                Ok(changed) => Ok(Done::Job(Box::new(changed))),
                Err(error @ (JobError::Store(_) | JobError::Foreign { .. })) => {
                    Err(Undone::Broken(error.into()))
                }
                Err(error) => Err(Undone::Refused(error.into())),
            },
        }
    }
}

/// A change to one node.
#[derive(Debug)]
pub(crate) struct Operation {
    /// Its index in a batch; `None` outside of batches.
    pub(crate) at: Option<usize>,
    pub(crate) key: Key,
    pub(crate) condition: Condition,
    /// Longest document that may be read to check a condition. Bounded because the single writer thread has to assemble it.
    pub(crate) document_bytes_max: usize,
    pub(crate) change: Change,
    /// Sets or clears the node's expiry. Without it, the expiry is whatever the change leaves.
    pub(crate) lifetime: Option<Lifetime>,
}

/// The kind of change. Texts are canonical JSON.
#[derive(Debug)]
pub(crate) enum Change {
    /// Replace the subtree.
    Put(Vec<u8>),
    /// Apply a merge patch.
    Patch(Vec<u8>),
    /// Remove the subtree.
    Delete,
    /// Add a child under the next number.
    Append(Vec<u8>),
    /// Change nothing, and fail if there is a node.
    RequireAbsent,
}

/// The result of a successful operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// The node did not exist before.
    Created,
    Changed,
    Deleted,
    /// A child was added under this number.
    Appended(i64),
    /// A record was created.
    Recorded(Reference),
    /// The result of a statement, as JSON.
    Answered(Vec<u8>),
    /// A change of the queue of jobs.
    Job(Box<Changed>),
}

/// An operation failed.
#[derive(Debug)]
pub(super) enum Undone {
    /// The transaction is unchanged and can be used further.
    Refused(Refusal),
    /// The transaction was partly changed and must be rolled back.
    Broken(Refusal),
}

impl From<StoreError> for Undone {
    fn from(error: StoreError) -> Self {
        if error.is_input() {
            Self::Refused(error.into())
        } else {
            Self::Broken(error.into())
        }
    }
}

impl Operation {
    fn perform(&self, transaction: &mut Transaction) -> Result<Done, Undone> {
        let named = |refusal: Refusal| match self.at {
            Some(at) => refusal.in_batch(at),
            None => refusal,
        };
        self.change(transaction).map_err(|undone| match undone {
            Undone::Refused(refusal) => Undone::Refused(named(refusal)),
            Undone::Broken(refusal) => Undone::Broken(named(refusal)),
        })
    }

    /// Reads the state of the node that the condition refers to, and no more than the condition needs.
    fn found(&self, transaction: &Transaction) -> Result<Found, Undone> {
        if !self.condition.is_of_tags() {
            let exists = transaction.defined(&self.key)?.exists();
            return Ok(if exists { Found::Something } else { Found::Nothing });
        }
        let max = self.document_bytes_max;
        match transaction.document_within(&self.key, max) {
            Ok(document) => Ok(document.map_or(Found::Nothing, |document| Found::Tagged(Tag::of(&document)))),
            Err(StoreError::ValueTooLong { .. }) => Err(Undone::Refused(Refusal::TooLongToCompare { max })),
            Err(error) => Err(error.into()),
        }
    }

    fn change(&self, transaction: &mut Transaction) -> Result<Done, Undone> {
        transaction.remove_ended(&self.key, now_ms())?;
        let done = self.change_document(transaction)?;
        let Some(lifetime) = self.lifetime else {
            return Ok(done);
        };
        let mut key = self.key.clone();
        if let Done::Appended(id) = done {
            key.push_integer(id).map_err(StoreError::from)?;
        }
        // The document is already changed, so a failure here must roll it back as well.
        let expired = transaction.expire(&key, lifetime.end());
        expired.map_err(|error| Undone::Broken(error.into()))?;
        Ok(done)
    }

    fn change_document(&self, transaction: &mut Transaction) -> Result<Done, Undone> {
        let key = &self.key;
        if !self.condition.is_none() && !self.condition.holds(self.found(transaction)?) {
            return Err(Undone::Refused(Refusal::Precondition));
        }
        let before = |transaction: &Transaction| match transaction.defined(key) {
            Ok(defined) if defined.exists() => Ok(Done::Changed),
            Ok(_) => Ok(Done::Created),
            Err(error) => Err(error),
        };
        match &self.change {
            Change::Put(document) => {
                let done = before(transaction)?;
                transaction.put(key, document)?;
                Ok(done)
            }
            Change::Patch(patch) => {
                let done = before(transaction)?;
                transaction.patch(key, patch)?;
                Ok(done)
            }
            Change::Delete => {
                if transaction.kill(key)? {
                    Ok(Done::Deleted)
                } else {
                    Err(Undone::Refused(Refusal::NoSuchNode))
                }
            }
            Change::RequireAbsent if transaction.defined(key)?.exists() => {
                Err(Undone::Refused(Refusal::Precondition))
            }
            Change::RequireAbsent => Ok(Done::Changed),
            Change::Append(document) => {
                let id = next_id(transaction, key)?;
                let mut child = key.clone();
                child.push_integer(id).map_err(StoreError::from)?;
                transaction.put(&child, document)?;
                Ok(Done::Appended(id))
            }
        }
    }
}

/// The next numeric child: one more than the last whole number, 1 if there are no numeric children, 0 below `[]`.
fn next_id(transaction: &Transaction, key: &Key) -> Result<i64, Undone> {
    let numbers = Range {
        // All numbers sort before any text.
        to: std::ops::Bound::Excluded(Subscript::new("")),
        reverse: true,
        ..Range::default()
    };
    let last = transaction.children(key, numbers)?.next().transpose()?;
    let Some(last) = last else {
        return Ok(i64::from(!transaction.is_array(key)?));
    };
    let text = last.text();
    let whole = text.split('.').next().unwrap_or_default();
    if whole.len() > ID_DIGITS_MAX {
        return Err(Undone::Refused(Refusal::NoIdLeft { last: text }));
    }
    // `.5` has no digits before its point.
    let whole: i64 = whole.parse().unwrap_or(0);
    // Cutting off a negative number's fraction has already rounded it up.
    Ok(if text.starts_with('-') && text.contains('.') {
        whole
    } else {
        whole + 1
    })
}
