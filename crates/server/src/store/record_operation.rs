//! What a client asks for that concerns records: one change by a reference, or a statement of TQL.

use std::{sync::Arc, time::Instant};

use forebay_records::{
    Action, RecordsError, Reference, Settings, check_record, create, delete, find, patch, replace,
    tql::{Statement, Timing, change},
};
use forebay_store::{Read, StoreError, Transaction};

use super::{
    grants::Grants,
    lifetime,
    operation::{Done, Undone},
    tag::{Condition, Found, Tag},
};
use crate::failure::Refusal;

/// A change of one record.
#[derive(Debug)]
pub(crate) struct RecordOperation {
    /// The kind that the record must have; none: any.
    pub(crate) kind: Option<String>,
    pub(crate) condition: Condition,
    /// Longest record that a condition reads.
    pub(crate) document_bytes_max: usize,
    pub(crate) change: RecordChange,
    pub(crate) settings: Arc<Settings>,
    pub(crate) grants: Grants,
}

/// What is to be done. Texts are JSON.
#[derive(Debug)]
pub(crate) enum RecordChange {
    Create(Vec<u8>),
    Replace(Reference, Vec<u8>),
    Patch(Reference, Vec<u8>),
    Delete(Reference),
}

/// A statement that changes something.
#[derive(Debug)]
pub(crate) struct StatementOperation {
    pub(crate) statement: Statement,
    pub(crate) settings: Arc<Settings>,
    pub(crate) grants: Grants,
    pub(crate) deadline: Instant,
}

impl From<RecordsError> for Undone {
    fn from(error: RecordsError) -> Self {
        if error.is_input() {
            Self::Refused(error.into())
        } else {
            Self::Broken(error.into())
        }
    }
}

impl RecordOperation {
    pub(super) fn perform(&self, transaction: &mut Transaction) -> Result<Done, Undone> {
        let (settings, grants) = (&self.settings, &self.grants);
        let now_ms = lifetime::now_ms();
        let reference = match &self.change {
            RecordChange::Create(document) => {
                let written = create(transaction, document, settings, grants, now_ms)?;
                return Ok(Done::Recorded(written.reference));
            }
            RecordChange::Replace(reference, _)
            | RecordChange::Patch(reference, _)
            | RecordChange::Delete(reference) => *reference,
        };
        if self.kind.is_some() {
            let found = find(transaction, reference, now_ms)?;
            let kind = self.kind.clone();
            if found.map(|(found, _)| found) != kind {
                return Err(RecordsError::NoRecord { reference, kind }.into());
            }
        }
        if !self.condition.is_none() {
            let found = self.found(transaction, reference, now_ms)?;
            if !self.condition.holds(found) {
                return Err(Undone::Refused(Refusal::Precondition));
            }
        }
        match &self.change {
            RecordChange::Replace(_, document) => {
                replace(transaction, reference, document, settings, grants, now_ms)?;
                Ok(Done::Changed)
            }
            RecordChange::Patch(_, document) => {
                patch(transaction, reference, document, settings, grants, now_ms)?;
                Ok(Done::Changed)
            }
            RecordChange::Create(_) | RecordChange::Delete(_) => {
                delete(transaction, reference, grants, now_ms)?;
                Ok(Done::Deleted)
            }
        }
    }

    /// What the condition is to be held against. Whether a condition holds tells something of a record, so who may not write it is told
    /// that first.
    fn found(&self, transaction: &Transaction, reference: Reference, now_ms: u64) -> Result<Found, Undone> {
        let missing = || RecordsError::NoRecord {
            reference,
            kind: None,
        };
        let (kind, key) = find(transaction, reference, now_ms)?.ok_or_else(missing)?;
        check_record(&self.grants, reference, &kind, Action::Write)?;
        let max = self.document_bytes_max;
        match transaction.document_within(&key, max) {
            Ok(Some(document)) => Ok(Found::Tagged(Tag::of(&document))),
            Ok(None) => Err(missing().into()),
            Err(StoreError::ValueTooLong { .. }) => Err(Undone::Refused(Refusal::TooLongToCompare { max })),
            Err(error) => Err(error.into()),
        }
    }
}

impl StatementOperation {
    pub(super) fn perform(&self, transaction: &mut Transaction) -> Result<Done, Undone> {
        let (mut begun, mut answer) = (false, Vec::new());
        let timing = Timing {
            now_ms: lifetime::now_ms(),
            deadline: Some(self.deadline),
            clock: &Instant::now,
        };
        let outcome = change(
            transaction,
            &self.statement,
            &self.settings,
            &self.grants,
            timing,
            &mut begun,
            &mut answer,
        );
        match outcome {
            Ok(()) => Ok(Done::Answered(answer)),
            Err(error) if begun => Err(Undone::Broken(error.into())),
            Err(error) => Err(error.into()),
        }
    }
}
