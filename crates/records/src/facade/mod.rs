//! Records and TQL for programs in other languages, in a [`Session`] of the store: text in, text out.

pub mod operations;

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use forebay_store::{
    Read, StoreError,
    facade::{Session, SessionError},
};

use crate::{
    Action, Denial, List, Permission, RecordsError, Reference, Settings, check_kind, create, delete, find,
    find_of_kind, kind_at, patch, replace,
    tql::{Budget, Execution, Progress, Statement, Timing, change},
    write::Written,
};

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum FacadeError {
    /// What the session says, or the store.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// What records and statements say.
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
    /// The word by which programs tell errors apart. It stays the same when texts change.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Session(error) => error.code(),
            Self::Records(error) => code_of(error),
        }
    }
}

/// The same word for what records and statements say.
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

/// Milliseconds since 1970 UTC.
fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_millis() as u64
}

/// How a record is to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// By another document.
    Replace,
    /// By a merge patch (RFC 7396).
    Patch,
    /// It is removed.
    Delete,
}

/// Records as a program of another language uses them.
#[derive(Debug, Default)]
pub struct Records {
    settings: Arc<Settings>,
    reach: Reach,
}

/// What the program may do.
#[derive(Clone, Debug, Default)]
struct Reach {
    /// Which kinds it may reach; `None`: all.
    kinds: Option<BTreeSet<String>>,
    /// Whether nothing may be written.
    only_reads: bool,
    /// How long a statement may look at records.
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

/// That something is not for this program, which can only read, and perhaps not for long.
fn for_others() -> FacadeError {
    SessionError::Store(StoreError::ReadOnly).into()
}

impl Records {
    /// With settings as [`Settings::to_text`] writes them, or the usual ones without; `None` for a text that is none.
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

    /// From now on only records of these kinds can be reached.
    #[must_use]
    pub fn only_kinds(mut self, kinds: impl IntoIterator<Item = String>) -> Self {
        self.reach.kinds = Some(kinds.into_iter().collect());
        self
    }

    /// From now on every write is refused as one to a store that was opened for reading.
    #[must_use]
    pub fn only_reads(mut self) -> Self {
        self.reach.only_reads = true;
        self
    }

    /// The same for a statement that looks at records for longer than this: as a write, it is for whoever may take the time.
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

    /// Executes a statement, in the transaction or snapshot that is open; the answer is JSON.
    pub fn tql<'s>(&self, session: &'s mut Session, statement: &[u8]) -> Result<&'s [u8], FacadeError> {
        let statement = Statement::read(statement, &self.settings).map_err(RecordsError::from)?;
        if statement.only_reads() {
            let statement = Arc::new(statement);
            session.look(|reader, out| -> Result<(), FacadeError> {
                let mut execution =
                    Execution::new(&statement, &self.settings, reader, &self.reach, now_ms())?;
                let budget = Budget {
                    until: self.reach.look_max.map(|max| Instant::now() + max),
                    ..Budget::WHOLE
                };
                match execution.step(reader, budget, out)? {
                    Progress::Done => Ok(()),
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

    /// Makes a record; gives its reference.
    pub fn create(&self, session: &mut Session, document: &[u8]) -> Result<Reference, FacadeError> {
        self.check_writes()?;
        session.change(|transaction, _| {
            let written = create(transaction, document, &self.settings, &self.reach, now_ms())?;
            Ok(written.reference)
        })
    }

    /// A record as JSON; with a kind only if it has that.
    pub fn read<'s>(
        &self,
        session: &'s mut Session,
        kind: Option<&str>,
        reference: Reference,
    ) -> Result<Option<&'s [u8]>, FacadeError> {
        self.read_within(session, kind, reference, usize::MAX)
    }

    /// The same, refused when it has to be put together and becomes longer than `bytes_max`.
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

    /// Changes a record; with a kind only if it has that. Says whether there is one.
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

    /// The kind of a record; `None` when there is no such record.
    pub fn kind(&self, session: &mut Session, reference: Reference) -> Result<Option<String>, FacadeError> {
        session.look(|reader, _| self.kind_of(reader, reference))
    }

    /// Records that the program may not reach are not there for it.
    fn kind_of(&self, read: &impl Read, reference: Reference) -> Result<Option<String>, FacadeError> {
        let kind = kind_at(read, reference, now_ms()).map_err(RecordsError::from)?;
        Ok(kind.filter(|kind| self.reach.check(kind, Action::Read).is_ok()))
    }

    /// A page of the records of a kind, as [`List::write`] writes it.
    pub fn list<'s>(&self, session: &'s mut Session, list: List) -> Result<&'s [u8], FacadeError> {
        self.check(&list.kind)?;
        session.look(|reader, out| -> Result<(), FacadeError> {
            list.write(reader, reader.value_bytes_max(), now_ms(), out)?;
            Ok(())
        })?;
        Ok(session.answered())
    }
}
