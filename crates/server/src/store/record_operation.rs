//! Operations on records: one change by reference or name, or a TQL statement.

use std::{sync::Arc, time::Instant};

use forebay_records::{
    Action, RecordsError, Reference, Settings, check_record, create, create_named, delete, find, named,
    patch, replace,
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

/// A change to one record.
#[derive(Debug)]
pub(crate) struct RecordOperation {
    /// The kind that the record must have; `None`: any.
    pub(crate) kind: Option<String>,
    pub(crate) condition: Condition,
    /// Longest record that may be read to check a condition.
    pub(crate) document_bytes_max: usize,
    pub(crate) change: RecordChange,
    pub(crate) settings: Arc<Settings>,
    pub(crate) grants: Grants,
}

/// The kind of change. Texts are JSON.
#[derive(Debug)]
pub(crate) enum RecordChange {
    Create(Vec<u8>),
    /// Replaces an existing record. If it is named, a missing record is created.
    Replace(RecordSelector, Vec<u8>),
    Patch(RecordSelector, Vec<u8>),
    Delete(RecordSelector),
}

/// Identifies a record as the client did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordSelector {
    Reference(Reference),
    Name(String),
}

impl From<Reference> for RecordSelector {
    fn from(reference: Reference) -> Self {
        Self::Reference(reference)
    }
}

impl RecordSelector {
    /// The record's reference in the current state of the store.
    pub(crate) fn reference(&self, read: &impl Read, now_ms: u64) -> Result<Option<Reference>, StoreError> {
        match self {
            Self::Reference(reference) => Ok(Some(*reference)),
            Self::Name(name) => named(read, name, now_ms),
        }
    }

    /// Hides the reference behind a name in the error for a client that addressed the record by name.
    pub(crate) fn told(&self, error: RecordsError) -> RecordsError {
        match (self, error) {
            (Self::Name(name), RecordsError::NoRecord { .. }) => RecordsError::NoName { name: name.clone() },
            (_, error) => error,
        }
    }
}

/// A statement that changes records.
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
        let whose = match &self.change {
            RecordChange::Create(document) => {
                let written = create(transaction, document, settings, grants, now_ms)?;
                return Ok(Done::Recorded(written.reference));
            }
            RecordChange::Replace(whose, _) | RecordChange::Patch(whose, _) | RecordChange::Delete(whose) => {
                whose
            }
        };
        let reference = match (whose.reference(transaction, now_ms)?, whose, &self.change) {
            (Some(reference), ..) => reference,
            (None, RecordSelector::Name(name), RecordChange::Replace(_, document)) => {
                if !self.condition.holds(Found::Nothing) {
                    return Err(Undone::Refused(Refusal::Precondition));
                }
                let written = create_named(transaction, name, document, settings, grants, now_ms)?;
                return Ok(Done::Recorded(written.reference));
            }
            (None, RecordSelector::Name(name), _) => {
                return Err(RecordsError::NoName { name: name.clone() }.into());
            }
            (None, RecordSelector::Reference(_), _) => unreachable!("a reference is known as it is"),
        };
        if let (RecordSelector::Name(_), Some((kind, _))) = (whose, find(transaction, reference, now_ms)?) {
            let may = check_record(grants, reference, &kind, Action::Write);
            may.map_err(|error| whose.told(error))?;
        }
        self.perform_on(transaction, reference, now_ms)
    }

    /// Changes the record with this reference.
    fn perform_on(
        &self,
        transaction: &mut Transaction,
        reference: Reference,
        now_ms: u64,
    ) -> Result<Done, Undone> {
        let (settings, grants) = (&self.settings, &self.grants);
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

    /// Reads the record's tag for the condition. Write permission is checked first, because whether a condition holds reveals something
    /// about the record.
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
