//! Records and TQL for programs in other languages, on top of a [`Session`] of the store: text in, text out.

pub mod operations;

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_store::{
    Read, StoreError,
    facade::{Session, SessionError},
    now_ms,
};

use crate::{
    Action, Denial, List, Permission, RecordsError, Reference, Settings, check_kind, create, delete, find,
    find_of_kind, kind_at, patch, replace,
    tql::{Budget, Execution, Progress, Statement, Timing, change},
    write::Written,
};

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum FacadeError {
    /// An error of the session or the store.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// An error of records or statements.
    #[error(transparent)]
    Records(RecordsError),
}

impl From<RecordsError> for FacadeError {
    fn from(error: RecordsError) -> Self {
        match error {
            RecordsError::Store(error) => Self::Session(error.into()),
            error => Self::Records(error),
        }
    }
}

impl FacadeError {
    /// Stable error code for programs, independent of the message.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Session(error) => error.code(),
            Self::Records(error) => code_of(error),
        }
    }
}

/// The same code for an error of records or statements.
pub fn code_of(error: &RecordsError) -> &'static str {
    match error {
        RecordsError::Store(error) => forebay_store::facade::code_of(error),
        RecordsError::Statement(error) if error.syntax => "tql_syntax",
        RecordsError::Statement(_) => "tql_meaning",
        RecordsError::NotAnObject { .. } => "not_an_object",
        RecordsError::KindNotText { .. } | RecordsError::KindName { .. } => "kind",
        RecordsError::NoRecord { .. } | RecordsError::NoName { .. } => "no_record",
        RecordsError::AlreadyExists { .. } => "already_exists",
        RecordsError::LimitExceeded { .. } => "limit",
        RecordsError::Denied { .. } | RecordsError::RecordDenied { .. } => "denied",
        RecordsError::ExaminedMax { .. } => "examined_max",
        RecordsError::RowsMax { .. } => "rows_max",
        RecordsError::WorkMax { .. } => "work_max",
        RecordsError::PageMax { .. } => "page_max",
        RecordsError::AnswerBytesMax { .. } => "answer_bytes_max",
        RecordsError::ChangeTimeMax { .. } => "change_time_max",
        RecordsError::DeadlinePassed => "deadline",
        RecordsError::Cursor => "cursor",
        RecordsError::ReferenceTaken { .. } => "reference_taken",
        RecordsError::NoReferenceLeft { .. } => "no_reference_left",
    }
}

/// How a record is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Replaced by a new document.
    Replace,
    /// Changed by a merge patch (RFC 7396).
    Patch,
    /// Removed for good, together with its reference.
    Delete,
}

/// Records as used by a program in another language.
#[derive(Debug, Default)]
pub struct Records {
    settings: Arc<Settings>,
    reach: Reach,
}

/// Restrictions on the program.
#[derive(Clone, Debug, Default)]
struct Reach {
    /// Kinds that it may access; `None` for all.
    kinds: Option<BTreeSet<String>>,
    /// Whether all writes are rejected.
    only_reads: bool,
    /// Longest time a statement may examine records.
    look_max: Option<Duration>,
}

impl Permission for Reach {
    fn check(&self, kind: &str, _: Action) -> Result<(), Denial> {
        match &self.kinds {
            Some(kinds) if !kinds.contains(kind) => Err(Denial::Nobody),
            _ => Ok(()),
        }
    }
}

/// The error for an operation that this program must leave to others, because it may only read, or only for a short
/// time.
fn for_others() -> FacadeError {
    SessionError::Store(StoreError::ReadOnly).into()
}

impl Records {
    /// Creates records with settings in the form of [`Settings::to_text`], or the defaults; `None` if the text is
    /// malformed.
    pub fn new(settings: Option<&str>) -> Option<Self> {
        let settings = match settings {
            None => Settings::default(),
            Some(text) => Settings::from_text(text)?,
        };
        Some(Self {
            settings: Arc::new(settings),
            reach: Reach::default(),
        })
    }

    /// Restricts access to records of these kinds.
    #[must_use]
    pub fn only_kinds(mut self, kinds: impl IntoIterator<Item = String>) -> Self {
        self.reach.kinds = Some(kinds.into_iter().collect());
        self
    }

    /// Rejects every write, with the error of a store opened read-only.
    #[must_use]
    pub fn only_reads(mut self) -> Self {
        self.reach.only_reads = true;
        self
    }

    /// Rejects a statement that examines records for longer than this, with the same error as a write: the caller hands
    /// both over to a place where they may take their time.
    #[must_use]
    pub fn looks_for(mut self, look_max: Duration) -> Self {
        self.reach.look_max = Some(look_max);
        self
    }

    fn check_writes(&self) -> Result<(), FacadeError> {
        if self.reach.only_reads {
            return Err(for_others());
        }
        Ok(())
    }

    fn check(&self, kind: &str) -> Result<(), FacadeError> {
        check_kind(kind)?;
        let action = Action::Read;
        Ok(self
            .reach
            .check(kind, action)
            .map_err(|denial| RecordsError::Denied {
                kind: kind.to_owned(),
                action,
                denial,
            })?)
    }

    /// Executes a statement in the open transaction or snapshot; the answer is JSON.
    pub fn tql<'s>(&self, session: &'s mut Session, statement: &[u8]) -> Result<&'s [u8], FacadeError> {
        let statement = Statement::read(statement, &self.settings).map_err(RecordsError::from)?;
        if statement.only_reads() {
            let statement = Arc::new(statement);
            let (mut begun, mut until) = (None, None);
            session.look_in_steps(|reader, is_first, out| -> Result<_, FacadeError> {
                if is_first {
                    begun = None;
                    until = self.reach.look_max.map(|max| Instant::now() + max);
                }
                let execution = match &mut begun {
                    Some(execution) => execution,
                    None => begun.insert(Execution::new(
                        &statement,
                        &self.settings,
                        reader,
                        &self.reach,
                        now_ms(),
                    )?),
                };
                let budget = Budget {
                    until,
                    ..Budget::WHOLE
                };
                match execution.step(reader, budget, out)? {
                    Progress::Done => Ok(Some(())),
                    Progress::More if reader.has_read_much() => Ok(None),
                    Progress::More => Err(for_others()),
                }
            })?;
        } else {
            self.check_writes()?;
            session.change(|transaction, out| -> Result<(), FacadeError> {
                let mut begun = false;
                let timing = Timing {
                    now_ms: now_ms(),
                    deadline: None,
                    clock: &Instant::now,
                };
                let outcome = change(
                    transaction,
                    &statement,
                    &self.settings,
                    &self.reach,
                    timing,
                    &mut begun,
                    out,
                );
                if outcome.is_err() && begun {
                    transaction.give_up();
                }
                Ok(outcome?)
            })?;
        }
        Ok(session.answered())
    }

    /// Creates a record and returns its reference.
    pub fn create(&self, session: &mut Session, document: &[u8]) -> Result<Reference, FacadeError> {
        self.check_writes()?;
        session.change(|transaction, _| {
            let written = create(transaction, document, &self.settings, &self.reach, now_ms())?;
            Ok(written.reference)
        })
    }

    /// A record as JSON; with a kind, only if the record has that kind.
    pub fn read<'s>(
        &self,
        session: &'s mut Session,
        kind: Option<&str>,
        reference: Reference,
    ) -> Result<Option<&'s [u8]>, FacadeError> {
        self.read_within(session, kind, reference, usize::MAX)
    }

    /// As [`Records::read`], but fails if the document has to be assembled and becomes longer than `bytes_max`.
    pub fn read_within<'s>(
        &self,
        session: &'s mut Session,
        kind: Option<&str>,
        reference: Reference,
        bytes_max: usize,
    ) -> Result<Option<&'s [u8]>, FacadeError> {
        let found = session.look(|reader, out| -> Result<bool, FacadeError> {
            let kind = match kind {
                Some(kind) => {
                    self.check(kind)?;
                    kind.to_owned()
                }
                None => match self.kind_of(reader, reference)? {
                    Some(kind) => kind,
                    None => return Ok(false),
                },
            };
            let bytes_max = reader.value_bytes_max().min(bytes_max);
            let record =
                find_of_kind(reader, &kind, reference, bytes_max, now_ms()).map_err(RecordsError::from)?;
            out.extend_from_slice(record.as_deref().unwrap_or_default());
            Ok(record.is_some())
        })?;
        Ok(found.then(|| session.answered()))
    }

    /// Changes a record; with a kind, only if the record has that kind. `false` if there is no such record.
    pub fn write(
        &self,
        session: &mut Session,
        change: Change,
        kind: Option<&str>,
        reference: Reference,
        document: &[u8],
    ) -> Result<bool, FacadeError> {
        self.check_writes()?;
        session.change(|transaction, _| {
            if let Some(kind) = kind {
                let found = find(transaction, reference, now_ms()).map_err(RecordsError::from)?;
                if found.is_none_or(|(found, _)| found != kind) {
                    return Ok(false);
                }
            }
            let outcome: Result<Written, RecordsError> = match change {
                Change::Replace => replace(
                    transaction,
                    reference,
                    document,
                    &self.settings,
                    &self.reach,
                    now_ms(),
                ),
                Change::Patch => patch(
                    transaction,
                    reference,
                    document,
                    &self.settings,
                    &self.reach,
                    now_ms(),
                ),
                Change::Delete => delete(transaction, reference, &self.reach, now_ms()),
            };
            match outcome {
                Ok(_) => Ok(true),
                Err(RecordsError::NoRecord { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// The kind of a record; `None` if there is no such record.
    pub fn kind(&self, session: &mut Session, reference: Reference) -> Result<Option<String>, FacadeError> {
        session.look(|reader, _| self.kind_of(reader, reference))
    }

    /// Records that the program may not access do not exist for it.
    fn kind_of(&self, read: &impl Read, reference: Reference) -> Result<Option<String>, FacadeError> {
        let kind = kind_at(read, reference, now_ms()).map_err(RecordsError::from)?;
        Ok(kind.filter(|kind| self.reach.check(kind, Action::Read).is_ok()))
    }

    /// A page of the records of a kind, in the form of [`List::begin`].
    pub fn list<'s>(&self, session: &'s mut Session, list: &List) -> Result<&'s [u8], FacadeError> {
        self.check(&list.kind)?;
        let mut begun = None;
        session.look_in_steps(|reader, is_first, out| -> Result<_, FacadeError> {
            if is_first {
                begun = None;
            }
            let page = match &mut begun {
                Some(page) => page,
                None => begun.insert(list.clone().begin(reader, reader.value_bytes_max(), now_ms())?),
            };
            let is_complete = !page.step(reader, None, out)?;
            Ok(is_complete.then_some(()))
        })?;
        Ok(session.answered())
    }
}
