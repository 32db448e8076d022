//! Executes statements that change records, in a transaction: first all matches are found, then they are changed.

use std::{fmt, time::Instant};

use forebay_store::{Read, Transaction};

use super::{
    Statement, Subject, Verb,
    branch::{each_branch, edited},
    execution::{check_work, end_answer, for_each_node, is_wanted},
    walk::{Plan, Walk},
};
use crate::{
    RecordsError,
    expired::Ended,
    kind::kind_of,
    permission::{Action, Permission},
    reference::Reference,
    settings::Settings,
    work::Work,
    write::{check, check_record, create, remove, replace_in},
};

/// Records fetched at a time.
const BATCH: usize = 64;

/// A record to be changed.
struct Match {
    kind: usize,
    reference: Reference,
}

/// Time and deadline of an execution.
#[derive(Clone, Copy)]
pub struct Timing<'c> {
    /// Milliseconds since 1970 UTC: records that have expired by then do not exist.
    pub now_ms: u64,
    /// When the statement is given up, if that is before [`Settings::change_time_max`] has passed.
    pub deadline: Option<Instant>,
    /// Source of the current time.
    pub clock: &'c dyn Fn() -> Instant,
}

impl fmt::Debug for Timing<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut timing = out.debug_struct("Timing");
        timing
            .field("now_ms", &self.now_ms)
            .field("deadline", &self.deadline);
        timing.finish_non_exhaustive()
    }
}

/// Executes a statement that changes something and writes the answer. Sets `begun` once something has been changed:
/// after an error the transaction can then only be rolled back.
pub fn change(
    transaction: &mut Transaction,
    statement: &Statement,
    settings: &Settings,
    permission: &impl Permission,
    timing: Timing<'_>,
    begun: &mut bool,
    out: &mut Vec<u8>,
) -> Result<(), RecordsError> {
    let mut changer = Changer {
        ended: Ended::by(timing.now_ms, transaction)?,
        until: (timing.clock)().checked_add(settings.change_time_max),
        transaction,
        statement,
        settings,
        permission,
        timing,
        begun,
    };
    let (name, references) = match &statement.verb {
        Verb::Insert(document) => {
            let reference = changer.insert(document)?;
            out.extend_from_slice(format!("{{\"code\":0,\"ref\":{reference}").as_bytes());
            end_answer(statement, out);
            return Ok(());
        }
        Verb::Update(document) => ("updated", changer.update(document)?),
        Verb::Delete => ("deleted", changer.delete()?),
        Verb::Select(_) => unreachable!("what only reads is executed elsewhere"),
    };
    out.extend_from_slice(format!("{{\"code\":0,\"{name}\":[").as_bytes());
    for (at, reference) in references.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b"," } else { b"" });
        out.extend_from_slice(reference.to_string().as_bytes());
    }
    out.push(b']');
    end_answer(statement, out);
    Ok(())
}

struct Changer<'a, P> {
    transaction: &'a mut Transaction,
    statement: &'a Statement,
    settings: &'a Settings,
    permission: &'a P,
    timing: Timing<'a>,
    ended: Ended,
    until: Option<Instant>,
    begun: &'a mut bool,
}

impl<P: Permission> Changer<'_, P> {
    fn insert(&mut self, document: &[u8]) -> Result<Reference, RecordsError> {
        if !matches!(self.statement.subject, Subject::All) || self.statement.filter.is_some() {
            let plan = self.plan()?;
            if let Some(found) = self.find(&plan, 1, |_| Ok(()))?.first() {
                return Err(RecordsError::AlreadyExists {
                    reference: found.reference,
                });
            }
        }
        // Any error in a document is found before anything is changed.
        let kind = kind_of(document, self.settings)?;
        check(self.permission, &kind, Action::Write)?;
        *self.begun = true;
        self.create(document)
    }

    fn update(&mut self, document: &[u8]) -> Result<Vec<Reference>, RecordsError> {
        let plan = self.plan()?;
        if let (Subject::Record(reference), true) = (&self.statement.subject, plan.kinds.is_empty()) {
            return Err(RecordsError::NoRecord {
                reference: *reference,
                kind: None,
            });
        }
        if self.statement.at.is_none() {
            let kind = kind_of(document, self.settings)?;
            check(self.permission, &kind, Action::Write)?;
        }
        let limit = self.statement.limit.filter(|limit| *limit > 0);
        let matches = self.find(&plan, u64::MAX, |nodes| match limit {
            Some(limit) if nodes > limit => Err(RecordsError::LimitExceeded { limit }),
            _ => Ok(()),
        })?;
        self.check_writable(&plan, &matches)?;
        *self.begun = true;
        if self.statement.limit == Some(0) {
            for Match { kind, reference } in &matches {
                self.check_time()?;
                remove(self.transaction, *reference, &plan.kinds[*kind].kind)?;
            }
            return Ok(vec![self.create(document)?]);
        }
        for Match { kind, reference } in &matches {
            let kind = &plan.kinds[*kind].kind;
            self.edit(kind, *reference, Some(document))?;
        }
        Ok(matches.iter().map(|found| found.reference).collect())
    }

    fn delete(&mut self) -> Result<Vec<Reference>, RecordsError> {
        let plan = self.plan()?;
        let limit = self.statement.limit.unwrap_or(u64::MAX);
        let matches = self.find(&plan, limit, |_| Ok(()))?;
        self.check_writable(&plan, &matches)?;
        *self.begun = true;
        for Match { kind, reference } in &matches {
            let kind = &plan.kinds[*kind].kind;
            self.edit(kind, *reference, None)?;
        }
        Ok(matches.iter().map(|found| found.reference).collect())
    }

    fn plan(&self) -> Result<Plan, RecordsError> {
        let now_ms = self.timing.now_ms;
        Plan::of(
            self.statement,
            self.settings,
            &*self.transaction,
            self.permission,
            now_ms,
        )
    }

    /// Up to `max` matching records; `check` may reject the number of parts found so far.
    fn find(
        &mut self,
        plan: &Plan,
        max: u64,
        check: impl Fn(u64) -> Result<(), RecordsError>,
    ) -> Result<Vec<Match>, RecordsError> {
        let (mut walk, mut batch, mut matches) = (Walk::default(), Vec::new(), Vec::new());
        let (mut examined, mut nodes) = (0, 0);
        if max == 0 {
            return Ok(matches);
        }
        while let Some(kind) = walk.next(plan, &*self.transaction, BATCH, &mut batch)? {
            self.check_time()?;
            for reference in &batch {
                self.check_time()?;
                self.transaction.forget_read();
                examined += 1;
                if examined > self.settings.examined_max {
                    return Err(RecordsError::ExaminedMax {
                        max: self.settings.examined_max,
                    });
                }
                let mut key = plan.kinds[kind].key.clone();
                reference.push_to(&mut key)?;
                if self.ended.has(&key, &*self.transaction)? {
                    continue;
                }
                let Some(record) = self
                    .transaction
                    .document_within(&key, self.transaction.value_bytes_max())?
                else {
                    continue;
                };
                let before = nodes;
                let work = Work::on(record.len());
                for_each_node(self.statement, &record, &work, |_, _| {
                    nodes += 1;
                    check(nodes)?;
                    if nodes > self.settings.rows_max {
                        let max = self.settings.rows_max;
                        return Err(RecordsError::RowsMax { max });
                    }
                    Ok(true)
                })?;
                check_work(&work, *reference)?;
                if nodes == before {
                    continue;
                }
                matches.push(Match {
                    kind,
                    reference: *reference,
                });
                if matches.len() as u64 == max {
                    return Ok(matches);
                }
            }
        }
        Ok(matches)
    }

    /// Checked before and after the first change alike, because other writers wait for this statement.
    fn check_time(&self) -> Result<(), RecordsError> {
        let now = (self.timing.clock)();
        let is_over = |time: Option<Instant>| time.is_some_and(|time| now >= time);
        if is_over(self.timing.deadline) {
            return Err(RecordsError::DeadlinePassed);
        }
        if is_over(self.until) {
            let max = self.settings.change_time_max;
            return Err(RecordsError::ChangeTimeMax { max });
        }
        Ok(())
    }

    fn check_writable(&self, plan: &Plan, matches: &[Match]) -> Result<(), RecordsError> {
        let mut checked = None;
        for found in matches
            .iter()
            .filter(|found| checked.replace(found.kind) != Some(found.kind))
        {
            let kind = &plan.kinds[found.kind].kind;
            check_record(self.permission, found.reference, kind, Action::Write)?;
        }
        Ok(())
    }

    /// Replaces or removes a record, or its matching parts.
    fn edit(
        &mut self,
        kind: &str,
        reference: Reference,
        document: Option<&[u8]>,
    ) -> Result<(), RecordsError> {
        self.check_time()?;
        let Some(at) = &self.statement.at else {
            return match document {
                None => remove(self.transaction, reference, kind),
                Some(document) => self.replace(reference, kind, document, None),
            };
        };
        let key = reference.key(kind)?;
        let record = self
            .transaction
            .document_within(&key, self.transaction.value_bytes_max())?;
        let record = record.unwrap_or_default().into_owned();
        let mut parts = Vec::new();
        let work = Work::on(record.len());
        each_branch(&record, at, &work, |branch| {
            if is_wanted(self.statement, branch.of(&record), &record, &work) {
                parts.push(branch);
            }
            !work.is_spent()
        });
        check_work(&work, reference)?;
        match edited(&record, &parts, document, self.transaction.value_bytes_max())? {
            None => remove(self.transaction, reference, kind),
            Some(becomes) => {
                // Changing only a part of a record keeps its expiry time, as a patch does.
                let ends = self.transaction.expires(&key)?;
                self.replace(reference, kind, &becomes, ends)
            }
        }
    }

    fn create(&mut self, document: &[u8]) -> Result<Reference, RecordsError> {
        let now_ms = self.timing.now_ms;
        let written = create(self.transaction, document, self.settings, self.permission, now_ms)?;
        Ok(written.reference)
    }

    fn replace(
        &mut self,
        reference: Reference,
        kind: &str,
        document: &[u8],
        ends: Option<u64>,
    ) -> Result<(), RecordsError> {
        replace_in(
            self.transaction,
            reference,
            kind,
            document,
            self.settings,
            self.permission,
            (self.timing.now_ms, ends),
        )?;
        Ok(())
    }
}
