//! Releases of workflows in the store: immutable, numbered snapshots of all files, one of which is published.
//!
//! Layout under the global: `"releases",N` describes a release and `"files",N,PATH` has its files; `"state"` is one document with the
//! published release, its predecessors, the canary and those for test; `"log",SEQ` is the audit log. Every change is one transaction, so
//! readers never see half of one.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};

use super::{
    About, Actor, Canary, LogEntry, ReleaseAssignments, ReleaseError, RolledBack, State,
    error::TEXT_BYTES_MAX,
};
use crate::{Changes, Documents, Storage, StorageError, WorkflowFiles, storage::shown};

/// Most releases kept at a time.
const RELEASES_MAX: usize = 1000;
/// Most files and most bytes of a release: it is written in one transaction.
const RELEASE_FILES_MAX: usize = 10_000;
const RELEASE_BYTES_MAX: usize = 64 << 20;
/// Most releases for test at a time: a server holds all of them in memory.
const TEST_MAX: usize = 32;
/// How many published releases a rollback can go back.
const BEFORE_MAX: usize = 100;
/// Most entries of the log; older ones are removed.
const LOG_MAX: u64 = 10_000;

/// The releases under one global of a storage.
#[derive(Clone, Debug)]
pub struct Releases {
    storage: Arc<dyn Storage>,
    global: String,
}

const RELEASES: &str = "releases";
const FILES: &str = "files";
const STATE: &str = "state";
const LAST: &str = "last";
const LOG: &str = "log";
const LOG_LAST: &str = "logLast";

impl Releases {
    /// The releases under this global.
    pub fn new(storage: Arc<dyn Storage>, global: &str) -> Self {
        Self {
            storage,
            global: global.to_owned(),
        }
    }

    /// Name of the global.
    pub fn global(&self) -> &str {
        &self.global
    }

    /// Stores these files as a draft and returns its number. The files are not checked.
    ///
    /// # Errors
    /// A limit of releases, or the store.
    pub fn import(&self, files: &WorkflowFiles, note: &str, actor: &Actor<'_>) -> Result<u64, ReleaseError> {
        for (found, what, max) in [
            (files.len(), "files", RELEASE_FILES_MAX),
            (files.bytes(), "bytes", RELEASE_BYTES_MAX),
        ] {
            if found > max {
                return Err(ReleaseError::TooLarge { found, what, max });
            }
        }
        if files.workflows().next().is_none() {
            return Err(ReleaseError::NoWorkflows);
        }
        check_text("the note", note)?;
        self.change(actor, |transaction| {
            if transaction.children(&[&self.global, RELEASES])?.len() >= RELEASES_MAX {
                return Err(ReleaseError::TooMany { max: RELEASES_MAX });
            }
            let number = self.next_of(transaction, LAST)?;
            let name = number.to_string();
            // Leftovers of others at this number are not part of the release.
            transaction.remove(&[&self.global, FILES, &name])?;
            for (path, text) in files.iter() {
                let text = serde_json::Value::from(text).to_string();
                transaction.put(&[&self.global, FILES, &name, path], text.as_bytes())?;
            }
            let about = About {
                created_ms: actor.at_ms,
                by: actor.by.to_owned(),
                note: note.to_owned(),
                files: files.len(),
                bytes: files.bytes(),
                was_published: false,
            };
            put(transaction, &[&self.global, RELEASES, &name], &about)?;
            Ok((number, entry("import", number, note)))
        })
    }

    /// The description of a release.
    ///
    /// # Errors
    /// If there is no such release, or the store fails.
    pub fn about(&self, number: u64) -> Result<About, ReleaseError> {
        self.about_in(&*self.storage.snapshot()?, number)
    }

    fn about_in(&self, read: &dyn Documents, number: u64) -> Result<About, ReleaseError> {
        match get(read, &[&self.global, RELEASES, &number.to_string()])? {
            Some(about) => Ok(about),
            None => Err(ReleaseError::NoSuchRelease {
                number,
                global: self.global().to_owned(),
                last: get(read, &[&self.global, LAST])?.unwrap_or_default(),
            }),
        }
    }

    /// All releases in numerical order, with their states.
    ///
    /// # Errors
    /// If the store fails or holds other data.
    pub fn list(&self) -> Result<Vec<(u64, About, State)>, ReleaseError> {
        let snapshot = self.storage.snapshot()?;
        let standing = self.standing_in(&*snapshot)?;
        let mut list = Vec::new();
        for text in snapshot.children(&[&self.global, RELEASES])? {
            let number = text.parse().map_err(|_| ReleaseError::Foreign {
                path: format!("{}/{RELEASES}/{text}", self.global()),
                reason: "it is no number of a release".to_owned(),
            })?;
            let about = self.about_in(&*snapshot, number)?;
            let state = standing.state_of(number, &about);
            list.push((number, about, state));
        }
        Ok(list)
    }

    /// The files of a release.
    ///
    /// # Errors
    /// If there is no such release, or the store fails.
    pub fn files(&self, number: u64) -> Result<WorkflowFiles, ReleaseError> {
        let snapshot = self.storage.snapshot()?;
        self.about_in(&*snapshot, number)?;
        let name = number.to_string();
        let mut files = WorkflowFiles::default();
        for path in snapshot.children(&[&self.global, FILES, &name])? {
            let key = [&*self.global, FILES, &name, &path];
            let foreign = |reason: String| ReleaseError::Foreign {
                path: shown(&key),
                reason,
            };
            let text: String = get(&*snapshot, &key)?.ok_or_else(|| foreign("it is no text".to_owned()))?;
            files.add(&path, text).map_err(foreign)?;
        }
        Ok(files)
    }

    /// Reads which releases runs get.
    ///
    /// # Errors
    /// If the store fails.
    pub fn standing(&self) -> Result<ReleaseAssignments, ReleaseError> {
        self.standing_in(&*self.storage.snapshot()?)
    }

    fn standing_in(&self, read: &dyn Documents) -> Result<ReleaseAssignments, ReleaseError> {
        Ok(get(read, &[&self.global, STATE])?.unwrap_or_default())
    }

    /// The last `count` entries of the log, newest first.
    ///
    /// # Errors
    /// If the store fails.
    pub fn log(&self, count: usize) -> Result<Vec<LogEntry>, ReleaseError> {
        let snapshot = self.storage.snapshot()?;
        let mut entries = Vec::new();
        let mut before: Option<String> = None;
        while entries.len() < count {
            let Some(number) = snapshot.previous(&[&self.global, LOG], before.as_deref())? else {
                break;
            };
            entries.extend(get(&*snapshot, &[&self.global, LOG, &number])?);
            before = Some(number);
        }
        Ok(entries)
    }

    /// Makes a release the default for all runs, and ends any canary.
    ///
    /// # Errors
    /// If there is no such release, or the store fails.
    pub fn publish(&self, number: u64, actor: &Actor<'_>) -> Result<(), ReleaseError> {
        self.stand(number, actor, |standing| {
            let detail = match standing.published {
                Some(before) if before != number => {
                    standing.before.retain(|former| *former != number);
                    standing.before.push(before);
                    let more = standing.before.len().saturating_sub(BEFORE_MAX);
                    standing.before.drain(..more);
                    format!("after {before}")
                }
                _ => String::new(),
            };
            standing.published = Some(number);
            standing.canary = None;
            standing.test.remove(&number);
            Ok(("publish", detail))
        })
    }

    /// Makes a release the canary: it gets this many of ten thousand runs, 1 to 9,999.
    ///
    /// # Errors
    /// If there is no such release, no other one is published, or the store fails.
    pub fn publish_share(
        &self,
        number: u64,
        per_ten_thousand: u32,
        actor: &Actor<'_>,
    ) -> Result<(), ReleaseError> {
        self.stand(number, actor, |standing| {
            if standing.published.is_none_or(|published| published == number) {
                return Err(ReleaseError::NothingToShare { number });
            }
            let canary = Canary {
                release: number,
                per_ten_thousand,
            };
            standing.canary = Some(canary);
            standing.test.remove(&number);
            Ok(("canary", canary.to_string()))
        })
    }

    /// Makes a release available by number, for test; or makes it a draft again.
    ///
    /// # Errors
    /// If there is no such release, it answers requests, too many are for test, or the store fails.
    pub fn set_test(&self, number: u64, is_for_test: bool, actor: &Actor<'_>) -> Result<(), ReleaseError> {
        self.stand(number, actor, |standing| {
            refuse_in_force(standing, number)?;
            if is_for_test {
                standing.test.insert(number);
                if standing.test.len() > TEST_MAX {
                    return Err(ReleaseError::TooManyForTest { max: TEST_MAX });
                }
                return Ok(("test", String::new()));
            }
            standing.test.remove(&number);
            Ok(("draft", String::new()))
        })
    }

    /// Undoes the last publication: ends the canary if there is one; otherwise publishes the previous release again.
    ///
    /// # Errors
    /// If nothing was published before, or the store fails.
    pub fn rollback(&self, actor: &Actor<'_>) -> Result<RolledBack, ReleaseError> {
        self.change(actor, |transaction| {
            let mut standing = self.standing_in(&*transaction)?;
            let (done, entry) = if let Some(canary) = standing.canary.take() {
                let release = canary.release;
                (
                    RolledBack::Canary { release },
                    entry("rollback", release, &format!("of its share, {canary}")),
                )
            } else {
                let published = standing.published;
                let (Some(from), Some(to)) = (published, standing.before.pop()) else {
                    return Err(ReleaseError::NothingBefore { published });
                };
                standing.published = Some(to);
                standing.test.remove(&to);
                (
                    RolledBack::Published { from, to },
                    entry("rollback", to, &format!("from {from}")),
                )
            };
            put(transaction, &[&self.global, STATE], &standing)?;
            Ok((done, entry))
        })
    }

    /// Removes a release. One that was once published is removed only with `former`.
    ///
    /// # Errors
    /// If there is no such release, it answers requests or was once published, or the store fails.
    pub fn discard(&self, number: u64, former: bool, actor: &Actor<'_>) -> Result<(), ReleaseError> {
        self.change(actor, |transaction| {
            let about = self.about_in(&*transaction, number)?;
            let mut standing = self.standing_in(&*transaction)?;
            refuse_in_force(&standing, number)?;
            if about.was_published && !former {
                return Err(ReleaseError::WasPublished { number });
            }
            standing.test.remove(&number);
            standing.before.retain(|before| *before != number);
            put(transaction, &[&self.global, STATE], &standing)?;
            let name = number.to_string();
            transaction.remove(&[&self.global, RELEASES, &name])?;
            transaction.remove(&[&self.global, FILES, &name])?;
            Ok(((), entry("discard", number, &about.note)))
        })
    }

    /// Changes the assignment of an existing release.
    fn stand(
        &self,
        number: u64,
        actor: &Actor<'_>,
        change: impl FnOnce(&mut ReleaseAssignments) -> Result<(&'static str, String), ReleaseError>,
    ) -> Result<(), ReleaseError> {
        self.change(actor, |transaction| {
            let mut about = self.about_in(&*transaction, number)?;
            let mut standing = self.standing_in(&*transaction)?;
            let (what, detail) = change(&mut standing)?;
            put(transaction, &[&self.global, STATE], &standing)?;
            if !about.was_published && standing.published == Some(number) {
                about.was_published = true;
                put(
                    transaction,
                    &[&self.global, RELEASES, &number.to_string()],
                    &about,
                )?;
            }
            Ok(((), entry(what, number, &detail)))
        })
    }

    /// Makes a change and logs it in one transaction, which is on disk when this returns.
    fn change<T>(
        &self,
        actor: &Actor<'_>,
        work: impl FnOnce(&mut dyn Changes) -> Result<(T, LogEntry), ReleaseError>,
    ) -> Result<T, ReleaseError> {
        check_text("the name of who does it", actor.by)?;
        let mut transaction = self.storage.begin()?;
        let (done, entry) = work(&mut *transaction)?;
        let number = self.next_of(&mut *transaction, LOG_LAST)?;
        let entry = LogEntry {
            at_ms: actor.at_ms,
            by: actor.by.to_owned(),
            ..entry
        };
        put(
            &mut *transaction,
            &[&self.global, LOG, &number.to_string()],
            &entry,
        )?;
        if number > LOG_MAX {
            let oldest = (number - LOG_MAX).to_string();
            transaction.remove(&[&self.global, LOG, &oldest])?;
        }
        transaction.commit()?;
        Ok(done)
    }

    fn next_of(&self, transaction: &mut dyn Changes, counter: &str) -> Result<u64, ReleaseError> {
        let path = [&*self.global, counter];
        let last: u64 = get(&*transaction, &path)?.unwrap_or_default();
        let next = last.saturating_add(1);
        put(transaction, &path, &next)?;
        Ok(next)
    }
}

/// A log entry without its author and time, which [`Releases::change`] adds.
fn entry(what: &str, release: u64, detail: &str) -> LogEntry {
    LogEntry {
        at_ms: 0,
        by: String::new(),
        what: what.to_owned(),
        release,
        detail: detail.to_owned(),
    }
}

fn refuse_in_force(standing: &ReleaseAssignments, number: u64) -> Result<(), ReleaseError> {
    let state = match standing.canary {
        _ if standing.published == Some(number) => "is published".to_owned(),
        Some(canary) if canary.release == number => format!("has {canary} of the runs"),
        _ => return Ok(()),
    };
    Err(ReleaseError::InForce { number, state })
}

fn check_text(what: &'static str, text: &str) -> Result<(), ReleaseError> {
    let bytes = text.len();
    if bytes > TEXT_BYTES_MAX {
        return Err(ReleaseError::TextTooLong { what, bytes });
    }
    Ok(())
}

fn put(transaction: &mut dyn Changes, path: &[&str], value: &impl Serialize) -> Result<(), StorageError> {
    let text = serde_json::to_vec(value).expect("plain values become JSON");
    transaction.put(path, &text)
}

fn get<T: DeserializeOwned>(read: &dyn Documents, path: &[&str]) -> Result<Option<T>, ReleaseError> {
    let Some(text) = read.get(path)? else {
        return Ok(None);
    };
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|error| ReleaseError::Foreign {
            path: shown(path),
            reason: error.to_string(),
        })
}
