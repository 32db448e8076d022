//! Executes a read-only statement step by step.

use std::{sync::Arc, time::Instant};

use forebay_store::Read;

use super::{
    Expression, Statement, Subject, Verb,
    branch::each_branch,
    cursor::Cursor,
    explain::{self, Count},
    rows::{ResultState, Rows},
    template::{Row, Template},
    walk::{Plan, Walk},
};
use crate::{
    RecordsError, expired::Ended, path::Path, permission::Permission, reference::Reference,
    settings::Settings, work::Work,
};

/// Records fetched at a time.
const BATCH: usize = 64;

/// Limits of one step.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Approximate number of records to examine.
    pub records: u64,
    /// Approximate number of bytes to write.
    pub bytes: usize,
    /// When the step ends, but not before one record has been examined.
    pub until: Option<Instant>,
}

impl Budget {
    /// No limits: everything in one step.
    pub const WHOLE: Self = Self {
        records: u64::MAX,
        bytes: usize::MAX,
        until: None,
    };
}

/// Whether an execution is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another step is needed.
    More,
    /// The answer is complete.
    Done,
}

/// A statement being executed. All its steps must read the same state of the store.
#[derive(Debug)]
pub struct Execution {
    statement: Arc<Statement>,
    settings: Arc<Settings>,
    ended: Ended,
    plan: Plan,
    walk: Walk,
    rows: Rows,
    examined: u64,
    begun: bool,
    /// Whether all rows have been found.
    is_walked: bool,
    batch: Batch,
    /// For a statement with a cursor: position in the plan after the last row, where the next answer continues.
    behind: Option<(usize, Vec<u8>)>,
    /// State of EXPLAIN.
    count: Count,
}

/// Records that were found and are examined one by one.
#[derive(Debug, Default)]
struct Batch {
    kind: usize,
    found: Vec<Reference>,
    next: usize,
}

impl Batch {
    fn begin(&mut self, kind: usize) {
        self.kind = kind;
        self.next = 0;
    }

    fn next(&mut self) -> Option<Reference> {
        let next = self.found.get(self.next).copied();
        self.next += 1;
        next
    }
}

impl Execution {
    /// Plans a read-only statement for a caller with these permissions. Records that have expired by `now_ms`, in
    /// milliseconds since 1970 UTC, do not exist.
    pub fn new(
        statement: &Arc<Statement>,
        settings: &Arc<Settings>,
        read: &impl Read,
        permission: &impl Permission,
        now_ms: u64,
    ) -> Result<Self, RecordsError> {
        let plan = Plan::of(statement, settings, read, permission, now_ms)?;
        let walk = match &statement.cursor {
            Some(cursor) => cursor.walk(&plan)?,
            None => Walk::default(),
        };
        let rows = Rows::new(statement, settings);
        let goes_on = statement.cursor.is_some() && !rows.is_complete();
        Ok(Self {
            behind: goes_on.then(|| walk.place(&plan)).flatten(),
            rows,
            statement: Arc::clone(statement),
            settings: Arc::clone(settings),
            ended: Ended::by(now_ms, read)?,
            plan,
            walk,
            examined: 0,
            begun: false,
            is_walked: false,
            batch: Batch::default(),
            count: Count::default(),
        })
    }

    /// Whether only records found by an index or reference are examined, so that it is fast.
    pub fn is_indexed(&self) -> bool {
        self.plan.is_indexed()
    }

    /// Executes a step, at most until [`Read::has_read_much`], and appends its output. After an error, the output so far is not a valid answer.
    pub fn step(
        &mut self,
        read: &impl Read,
        budget: Budget,
        out: &mut Vec<u8>,
    ) -> Result<Progress, RecordsError> {
        if self.statement.explain {
            if self.count.step(&self.plan, read, budget)? == Progress::More {
                return Ok(Progress::More);
            }
            explain::write(&self.statement, &self.settings, &self.plan, &self.count, out);
            return Ok(Progress::Done);
        }
        if !self.begun && !self.rows.are_sorted() {
            out.extend_from_slice(b"{\"code\":0,\"results\":[");
            self.begun = true;
        }
        let (mut looked, written) = (0, out.len());
        let mut fate = if self.is_walked || self.rows.is_complete() {
            ResultState::Complete
        } else {
            ResultState::Open
        };
        let with_cursor = self.statement.cursor.is_some();
        while fate == ResultState::Open {
            let is_late = |until| Instant::now() >= until;
            if looked >= budget.records
                || out.len() - written >= budget.bytes
                || looked > 0 && (read.has_read_much() || budget.until.is_some_and(is_late))
            {
                return Ok(Progress::More);
            }
            let Some(reference) = self.batch.next() else {
                // With a cursor the walk must not be ahead of the rows.
                let size = if with_cursor { 1 } else { BATCH };
                let found = self.walk.next(&self.plan, read, size, &mut self.batch.found)?;
                let Some(kind) = found else {
                    self.behind = None;
                    break;
                };
                // A batch without records has skipped index entries.
                looked += if self.batch.found.is_empty() {
                    size as u64
                } else {
                    0
                };
                self.batch.begin(kind);
                if with_cursor && self.batch.found.is_empty() {
                    self.behind = self.walk.place(&self.plan);
                    if self.behind.is_none() {
                        break;
                    }
                }
                continue;
            };
            looked += 1;
            fate = self.look_at(reference, read, out)?;
            // The record at which the answer is cut off has no row in it.
            if with_cursor && !matches!(fate, ResultState::Cut(_)) {
                self.behind = self.walk.place(&self.plan);
            }
        }
        self.is_walked = true;
        if self.rows.are_sorted() {
            if fate == ResultState::Cut("examined_max") {
                return Err(RecordsError::ExaminedMax {
                    max: self.settings.examined_max,
                });
            }
            if !self.begun {
                out.extend_from_slice(b"{\"code\":0,\"results\":[");
                self.begun = true;
            }
            match self.rows.write_sorted(budget, out) {
                Some(sorted) => fate = sorted,
                None => return Ok(Progress::More),
            }
        }
        self.end(fate, out);
        Ok(Progress::Done)
    }

    /// Ends an answer early, with the reason; false if it has not begun.
    pub fn cut(&mut self, by: &str, out: &mut Vec<u8>) -> bool {
        if !self.begun {
            return false;
        }
        out.push(b']');
        self.end_with_cursor(out);
        out.extend_from_slice(format!(",\"truncated\":{{\"by\":\"{by}\"}}").as_bytes());
        end_answer(&self.statement, out);
        true
    }

    /// Tests a record against the statement.
    fn look_at(
        &mut self,
        reference: Reference,
        read: &impl Read,
        out: &mut Vec<u8>,
    ) -> Result<ResultState, RecordsError> {
        if self.examined == self.settings.examined_max {
            return Ok(ResultState::Cut("examined_max"));
        }
        self.examined += 1;
        let (kind, statement) = (self.batch.kind, Arc::clone(&self.statement));
        let mut key = self.plan.kinds[kind].key.clone();
        reference.push_to(&mut key)?;
        if self.ended.has(&key, read)? {
            return Ok(ResultState::Open);
        }
        let Some(record) = read.document_within(&key, read.value_bytes_max())? else {
            return Ok(ResultState::Open);
        };
        let (mut fate, root) = (ResultState::Open, &record[..]);
        let work = Work::on(root.len());
        for_each_node(&statement, root, &work, |part, node| {
            let row = Row {
                reference,
                node,
                root,
                rid: statement.rid.as_deref(),
            };
            let value = |path: &Path| {
                path.find(if path.from_root { root } else { node }, &work)
                    .map(<[u8]>::to_vec)
            };
            let settings = &self.settings;
            let write = |out: &mut Vec<u8>| match &statement.verb {
                Verb::Select(Some(template)) => {
                    let limit = out.len().saturating_add(settings.answer_bytes_max);
                    template.write(row, settings, limit, &work, out);
                }
                _ => Template::usual(row, settings, out),
            };
            fate = self
                .rows
                .add(&statement, (kind, reference, part), value, write, out)?;
            Ok(fate == ResultState::Open)
        })?;
        check_work(&work, reference)?;
        Ok(fate)
    }

    /// Writes the position where a statement with a cursor continues.
    fn end_with_cursor(&self, out: &mut Vec<u8>) {
        if let Some((kind, place)) = &self.behind {
            let there = &self.plan.kinds[*kind];
            let cursor = Cursor::text(&there.kind, there.access.index(), place);
            out.extend_from_slice(format!(",\"cursor\":\"{cursor}\"").as_bytes());
        }
    }

    /// Writes what follows the rows.
    fn end(&self, fate: ResultState, out: &mut Vec<u8>) {
        out.push(b']');
        self.end_with_cursor(out);
        if let ResultState::Cut(by) = fate {
            let limit = match by {
                "examined_max" => self.settings.examined_max,
                "rows_max" => self.settings.rows_max,
                _ => self.settings.answer_bytes_max as u64,
            };
            out.extend_from_slice(format!(",\"truncated\":{{\"by\":\"{by}\",\"limit\":{limit}}}").as_bytes());
        }
        end_answer(&self.statement, out);
    }
}

/// Ends an answer with the RID of its statement.
pub(super) fn end_answer(statement: &Statement, out: &mut Vec<u8>) {
    if let Some(rid) = &statement.rid {
        out.extend_from_slice(b",\"rid\":");
        out.extend_from_slice(rid);
    }
    out.push(b'}');
}

/// Rejects a result that took more work than allowed.
pub(super) fn check_work(work: &Work, reference: Reference) -> Result<(), RecordsError> {
    if work.is_spent() {
        let max = work.max();
        return Err(RecordsError::WorkMax { reference, max });
    }
    Ok(())
}

/// Passes each node of a record that the statement is about to `found`, with its number in the record, until it returns
/// false.
pub(super) fn for_each_node(
    statement: &Statement,
    record: &[u8],
    work: &Work,
    mut found: impl FnMut(usize, &[u8]) -> Result<bool, RecordsError>,
) -> Result<(), RecordsError> {
    match &statement.at {
        None => {
            if is_wanted(statement, record, record, work) && !work.is_spent() {
                found(0, record)?;
            }
        }
        Some(at) => {
            let (mut part, mut outcome) = (0, Ok(true));
            each_branch(record, at, work, |branch| {
                let node = branch.of(record);
                if is_wanted(statement, node, record, work) && !work.is_spent() {
                    outcome = found(part, node);
                }
                part += 1;
                matches!(outcome, Ok(true)) && !work.is_spent()
            });
            outcome?;
        }
    }
    Ok(())
}

/// Whether a node satisfies WHERE and FILTER.
pub(super) fn is_wanted(statement: &Statement, node: &[u8], root: &[u8], work: &Work) -> bool {
    let holds = |expression: &Expression| expression.holds(node, root, work);
    let by_where = match &statement.subject {
        Subject::All | Subject::Record(_) => true,
        Subject::Matching(expression) => holds(expression),
    };
    by_where && statement.filter.as_ref().is_none_or(holds)
}
