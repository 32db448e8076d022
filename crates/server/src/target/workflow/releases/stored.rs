//! Releases of workflows in the store: immutable, numbered snapshots of all files, of which one is published.
//!
//! Under the global: `"releases",N` is about a release, `"files",N,PATH` its files; `"state"` says in one document which is published, which were before it,
//! which has a share of the runs, and which are for test; `"log",SEQ` is who has done what. Every change is one transaction of the store, so that no one
//! meets half of one.

use std::{collections::BTreeSet, fmt};

use forebay_store::{Durability, Key, Read, Store, StoreError, Transaction, key::KeyError};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::files::WorkflowFiles;

/// Most releases that are kept.
const RELEASES_MAX: usize = 1000;
/// Most files of a release, and most bytes of them: one transaction writes it.
const RELEASE_FILES_MAX: usize = 10_000;
const RELEASE_BYTES_MAX: usize = 64 << 20;
/// Most releases that are for test at a time: a server has all of them in memory.
const TEST_MAX: usize = 32;
/// How many published ones a rollback can go back.
const BEFORE_MAX: usize = 100;
/// Entries of the log that are kept.
const LOG_MAX: u64 = 10_000;
/// Longest name of who does something, and longest note, in bytes.
const TEXT_BYTES_MAX: usize = 1000;

/// What stands in the way of a change to releases, or of reading them.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// There is no release of this number.
    #[error("there is no release {number} in the global `{global}`{}", newest(*.last))]
    NoSuchRelease {
        /// It.
        number: u64,
        /// The global of the releases.
        global: String,
        /// The newest that has been made; 0: none.
        last: u64,
    },
    /// A release would have too much.
    #[error("a release has {found} {what} (at most {max})")]
    TooLarge {
        /// What it has of it.
        found: usize,
        /// Files or bytes.
        what: &'static str,
        /// How many it may have.
        max: usize,
    },
    /// A release without any workflow.
    #[error("there is no workflow among these files: a graph is a file NAME.json")]
    NoWorkflows,
    /// There are as many as are kept.
    #[error("there are {max} releases, as many as are kept")]
    TooMany {
        /// How many.
        max: usize,
    },
    /// There are as many for test as there may be.
    #[error("{max} releases are already in test, which is the maximum")]
    TooManyForTest {
        /// How many.
        max: usize,
    },
    /// A release takes requests, and so it stays.
    #[error("release {number} cannot be discarded: it {state}")]
    InForce {
        /// Which.
        number: u64,
        /// What it is.
        state: String,
    },
    /// A release that was published is discarded only when that is said.
    #[error(
        "release {number} has been published: it is what a rollback, or somebody who reads the log, looks for"
    )]
    WasPublished {
        /// Which.
        number: u64,
    },
    /// Nothing was published before.
    #[error("no release was published before{}", now(*.published))]
    NothingBefore {
        /// The one that is published, if any is.
        published: Option<u64>,
    },
    /// A share is for runs that would have the published release.
    #[error("release {number} can have no share: no other release is published")]
    NothingToShare {
        /// Which.
        number: u64,
    },
    /// A name or a note is too long.
    #[error("{what} has {bytes} bytes (at most {TEXT_BYTES_MAX})")]
    TextTooLong {
        /// Which.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// Somebody else has written there.
    #[error("{path} in the store is no part of a release: {reason}")]
    Foreign {
        /// The node.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn newest(last: u64) -> String {
    match last {
        0 => ", which has none yet".to_owned(),
        last => format!("; the newest is {last}"),
    }
}

fn now(published: Option<u64>) -> String {
    published.map_or_else(
        || " (nor is one now)".to_owned(),
        |number| format!(" release {number}"),
    )
}

impl From<KeyError> for ReleaseError {
    fn from(error: KeyError) -> Self {
        Self::Store(error.into())
    }
}

/// About a release.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// When it was made, in milliseconds since 1970 UTC.
    pub created_ms: u64,
    /// By whom.
    pub by: String,
    /// What they have said of it.
    #[serde(default)]
    pub note: String,
    /// How many files it has.
    pub files: usize,
    /// Bytes of them.
    pub bytes: usize,
    /// Whether it is, or has been, published.
    #[serde(default)]
    pub was_published: bool,
}

/// Which releases have which runs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Standing {
    /// The one that runs have.
    pub published: Option<u64>,
    /// Those that were published before it, the last one last.
    pub before: Vec<u64>,
    /// The one that has a share of the runs.
    pub canary: Option<Canary>,
    /// Those that runs have where they are asked for by number.
    pub test: BTreeSet<u64>,
}

/// A release that has a share of the runs.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Canary {
    /// Its number.
    pub release: u64,
    /// Of ten thousand runs, so many.
    pub per_ten_thousand: u32,
}

impl fmt::Display for Canary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}%", f64::from(self.per_ten_thousand) / 100.0)
    }
}

/// What a release is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Requests do not reach it.
    Draft,
    /// Requests that ask for it by number have it.
    Test,
    /// It has a share of the runs.
    Canary,
    /// Runs have it.
    Published,
    /// Runs had it once.
    Former,
}

impl State {
    /// As lists show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Test => "test",
            Self::Canary => "canary",
            Self::Published => "published",
            Self::Former => "former",
        }
    }
}

impl Standing {
    /// What a release is.
    pub fn state_of(&self, number: u64, about: &About) -> State {
        if self.published == Some(number) {
            State::Published
        } else if self.canary.is_some_and(|canary| canary.release == number) {
            State::Canary
        } else if self.test.contains(&number) {
            State::Test
        } else if about.was_published {
            State::Former
        } else {
            State::Draft
        }
    }

    /// All that a server needs.
    pub(in crate::target::workflow) fn numbers(&self) -> BTreeSet<u64> {
        let mut numbers = self.test.clone();
        numbers.extend(self.published);
        numbers.extend(self.canary.map(|canary| canary.release));
        numbers
    }
}

/// What was done, and by whom: an entry of the log.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// When, in milliseconds since 1970 UTC.
    pub at_ms: u64,
    /// By whom.
    pub by: String,
    /// What.
    pub what: String,
    /// With which release.
    pub release: u64,
    /// What else is to be said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// Who does something, and when.
#[derive(Clone, Debug)]
pub struct Actor<'a> {
    /// Who.
    pub by: &'a str,
    /// When, in milliseconds since 1970 UTC.
    pub at_ms: u64,
}

/// What a rollback has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolledBack {
    /// The release has no share of the runs any more; what is published stays.
    Canary {
        /// It.
        release: u64,
    },
    /// The one before it is published again.
    Published {
        /// The one that was.
        from: u64,
        /// The one that is.
        to: u64,
    },
}

/// The releases under a global of a store.
#[derive(Clone, Debug)]
pub struct Releases {
    store: Store,
    root: Key,
}

const RELEASES: &str = "releases";
const FILES: &str = "files";
const STATE: &str = "state";
const LAST: &str = "last";
const LOG: &str = "log";
const LOG_LAST: &str = "logLast";

impl Releases {
    /// Those under this global.
    ///
    /// # Errors
    /// The name of the global.
    pub fn new(store: &Store, global: &str) -> Result<Self, KeyError> {
        Ok(Self {
            store: store.clone(),
            root: Key::global(global)?,
        })
    }

    /// The name of their global.
    pub fn global(&self) -> &str {
        self.root.global_name()
    }

    fn numbered(&self, part: &str, number: u64) -> Result<Key, KeyError> {
        let mut key = self.root.child(part)?;
        key.push_integer(i64::try_from(number).unwrap_or(i64::MAX))?;
        Ok(key)
    }

    /// Makes a draft of these files; its number. Nobody has looked at whether they can be run.
    ///
    /// # Errors
    /// Bounds of releases, and the store.
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
            let kept = transaction.children(&self.root.child(RELEASES)?, forebay_store::Range::default())?;
            if kept.take(RELEASES_MAX).count() == RELEASES_MAX {
                return Err(ReleaseError::TooMany { max: RELEASES_MAX });
            }
            let number = self.next_of(transaction, LAST)?;
            let mut root = self.numbered(FILES, number)?;
            // What somebody else may have left there is none of it.
            transaction.kill(&root)?;
            for (path, text) in files.iter() {
                let file = root.child(path)?;
                transaction.set(&file, serde_json::Value::from(text).to_string().as_bytes())?;
            }
            root = self.numbered(RELEASES, number)?;
            let about = About {
                created_ms: actor.at_ms,
                by: actor.by.to_owned(),
                note: note.to_owned(),
                files: files.len(),
                bytes: files.bytes(),
                was_published: false,
            };
            put(transaction, &root, &about)?;
            Ok((number, entry("import", number, note)))
        })
    }

    /// About a release.
    ///
    /// # Errors
    /// There is none, and the store.
    pub fn about(&self, number: u64) -> Result<About, ReleaseError> {
        self.about_in(&self.store.snapshot()?, number)
    }

    fn about_in(&self, read: &impl Read, number: u64) -> Result<About, ReleaseError> {
        match get(read, &self.numbered(RELEASES, number)?)? {
            Some(about) => Ok(about),
            None => Err(ReleaseError::NoSuchRelease {
                number,
                global: self.global().to_owned(),
                last: get(read, &self.root.child(LAST)?)?.unwrap_or_default(),
            }),
        }
    }

    /// All releases by their numbers, and what each is.
    ///
    /// # Errors
    /// The store.
    pub fn list(&self) -> Result<Vec<(u64, About, State)>, ReleaseError> {
        let snapshot = self.store.snapshot()?;
        let standing = self.standing_in(&snapshot)?;
        let mut list = Vec::new();
        for number in snapshot.children(&self.root.child(RELEASES)?, forebay_store::Range::default())? {
            let text = number?.text();
            let number = text.parse().map_err(|_| ReleaseError::Foreign {
                path: format!("{}/{RELEASES}/{text}", self.global()),
                reason: "it is no number of a release".to_owned(),
            })?;
            let about = self.about_in(&snapshot, number)?;
            let state = standing.state_of(number, &about);
            list.push((number, about, state));
        }
        Ok(list)
    }

    /// The files of a release.
    ///
    /// # Errors
    /// There is none, and the store.
    pub fn files(&self, number: u64) -> Result<WorkflowFiles, ReleaseError> {
        let snapshot = self.store.snapshot()?;
        self.about_in(&snapshot, number)?;
        let root = self.numbered(FILES, number)?;
        let mut files = WorkflowFiles::default();
        for path in snapshot.children(&root, forebay_store::Range::default())? {
            let path = path?.text();
            let key = root.child(&path)?;
            let foreign = |reason: String| ReleaseError::Foreign {
                path: key.to_string(),
                reason,
            };
            let text: String = get(&snapshot, &key)?.ok_or_else(|| foreign("it is no text".to_owned()))?;
            files.add(&path, text).map_err(foreign)?;
        }
        Ok(files)
    }

    /// Which releases have which runs.
    ///
    /// # Errors
    /// The store.
    pub fn standing(&self) -> Result<Standing, ReleaseError> {
        self.standing_in(&self.store.snapshot()?)
    }

    fn standing_in(&self, read: &impl Read) -> Result<Standing, ReleaseError> {
        Ok(get(read, &self.root.child(STATE)?)?.unwrap_or_default())
    }

    /// The last entries of the log, the newest first.
    ///
    /// # Errors
    /// The store.
    pub fn log(&self, count: usize) -> Result<Vec<LogEntry>, ReleaseError> {
        let snapshot = self.store.snapshot()?;
        let root = self.root.child(LOG)?;
        let mut entries = Vec::new();
        let mut before = None;
        while entries.len() < count {
            let Some(number) = snapshot.previous(&root, before.as_ref())? else {
                break;
            };
            entries.extend(get(&snapshot, &root.child(&number.text())?)?);
            before = Some(number);
        }
        Ok(entries)
    }

    /// Has all runs have a release from now on; no other has a share any more.
    ///
    /// # Errors
    /// There is none, and the store.
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

    /// Has a share of the runs have a release: of ten thousand so many, 1 to 9,999.
    ///
    /// # Errors
    /// There is none, no other is published, and the store.
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

    /// Makes a release one for test, which runs have where it is asked for by number; or a draft again.
    ///
    /// # Errors
    /// There is none, it takes requests, there are too many for test, and the store.
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

    /// Takes back what was published last: a share, where a release has one, else the published release, after which the one before it is published.
    ///
    /// # Errors
    /// None was before, and the store.
    pub fn rollback(&self, actor: &Actor<'_>) -> Result<RolledBack, ReleaseError> {
        self.change(actor, |transaction| {
            let mut standing = self.standing_in(transaction)?;
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
            put(transaction, &self.root.child(STATE)?, &standing)?;
            Ok((done, entry))
        })
    }

    /// Removes a release. One that has been published only where `former` says so.
    ///
    /// # Errors
    /// There is none, it takes requests, and the store.
    pub fn discard(&self, number: u64, former: bool, actor: &Actor<'_>) -> Result<(), ReleaseError> {
        self.change(actor, |transaction| {
            let about = self.about_in(transaction, number)?;
            let mut standing = self.standing_in(transaction)?;
            refuse_in_force(&standing, number)?;
            if about.was_published && !former {
                return Err(ReleaseError::WasPublished { number });
            }
            standing.test.remove(&number);
            standing.before.retain(|before| *before != number);
            put(transaction, &self.root.child(STATE)?, &standing)?;
            transaction.kill(&self.numbered(RELEASES, number)?)?;
            transaction.kill(&self.numbered(FILES, number)?)?;
            Ok(((), entry("discard", number, &about.note)))
        })
    }

    /// Changes how releases stand, about one that is there.
    fn stand(
        &self,
        number: u64,
        actor: &Actor<'_>,
        change: impl FnOnce(&mut Standing) -> Result<(&'static str, String), ReleaseError>,
    ) -> Result<(), ReleaseError> {
        self.change(actor, |transaction| {
            let mut about = self.about_in(transaction, number)?;
            let mut standing = self.standing_in(transaction)?;
            let (what, detail) = change(&mut standing)?;
            put(transaction, &self.root.child(STATE)?, &standing)?;
            if !about.was_published && standing.published == Some(number) {
                about.was_published = true;
                put(transaction, &self.numbered(RELEASES, number)?, &about)?;
            }
            Ok(((), entry(what, number, &detail)))
        })
    }

    /// Changes something and writes the log of it, all or nothing; it is on the disk when this returns.
    fn change<T>(
        &self,
        actor: &Actor<'_>,
        work: impl FnOnce(&mut Transaction) -> Result<(T, LogEntry), ReleaseError>,
    ) -> Result<T, ReleaseError> {
        check_text("the name of who does it", actor.by)?;
        let mut transaction = self.store.begin()?;
        let (done, entry) = work(&mut transaction)?;
        let number = self.next_of(&mut transaction, LOG_LAST)?;
        let entry = LogEntry {
            at_ms: actor.at_ms,
            by: actor.by.to_owned(),
            ..entry
        };
        put(&mut transaction, &self.numbered(LOG, number)?, &entry)?;
        if number > LOG_MAX {
            transaction.kill(&self.numbered(LOG, number - LOG_MAX)?)?;
        }
        transaction.commit(Durability::Sync)?;
        Ok(done)
    }

    fn next_of(&self, transaction: &mut Transaction, counter: &str) -> Result<u64, ReleaseError> {
        let key = self.root.child(counter)?;
        let text = transaction.increment(&key, "1")?;
        text.parse().map_err(|_| ReleaseError::Foreign {
            path: key.to_string(),
            reason: format!("{text} is no number of releases"),
        })
    }
}

/// An entry of the log, without who and when.
fn entry(what: &str, release: u64, detail: &str) -> LogEntry {
    LogEntry {
        at_ms: 0,
        by: String::new(),
        what: what.to_owned(),
        release,
        detail: detail.to_owned(),
    }
}

fn refuse_in_force(standing: &Standing, number: u64) -> Result<(), ReleaseError> {
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

fn put(transaction: &mut Transaction, key: &Key, value: &impl Serialize) -> Result<(), StoreError> {
    let text = serde_json::to_vec(value).expect("plain values become JSON");
    transaction.put(key, &text)
}

fn get<T: DeserializeOwned>(read: &impl Read, key: &Key) -> Result<Option<T>, ReleaseError> {
    let Some(text) = read.document(key)? else {
        return Ok(None);
    };
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|error| ReleaseError::Foreign {
            path: key.to_string(),
            reason: error.to_string(),
        })
}
