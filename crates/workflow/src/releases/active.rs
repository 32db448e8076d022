//! The workflows in force, from a folder or from releases in the store. They are replaced as a whole; a run that has begun keeps its book.
//!
//! A thread polls for changes made by others, reads them and puts them in force. If they cannot be read, it logs the error and keeps the
//! current workflows in force.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex, RwLock};

use super::stored::{Canary, ReleaseAssignments, ReleaseError, Releases, State};
use crate::{
    Admission, Asker, Bundle, BundleErrors, Compat, EraseTypes, Evaluator, WorkflowFailure,
    failure::with_causes,
};

/// Polling interval for the store: each poll reads one node.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Polling interval for a folder: each poll reads the modification time of every file.
const LOOK_AT_FOLDER_EVERY: Duration = Duration::from_millis(250);

/// Why workflows cannot be used at startup or after a reload.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// The workflow files have errors.
    #[error(transparent)]
    Faults(#[from] BundleErrors),
    /// The releases cannot be read.
    #[error(transparent)]
    Releases(#[from] ReleaseError),
    /// The polling thread cannot be started.
    #[error("cannot start the thread that looks for changes")]
    Thread(#[source] io::Error),
}

impl ShelfError {
    /// Whether reading may succeed later without another change: the store failed, or does not have the release yet.
    fn may_mend(&self) -> bool {
        matches!(
            self,
            Self::Releases(ReleaseError::Storage(_) | ReleaseError::NoSuchRelease { .. })
        )
    }
}

/// Options for compiling workflows.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// How graphs are interpreted.
    pub compat: Compat,
    /// Erases the types of TypeScript.
    pub erase_types: EraseTypes,
}

/// The workflows currently in force.
#[derive(Debug)]
pub struct ActiveReleases<E: Evaluator> {
    in_force: RwLock<InForce<E>>,
    ending: Arc<Ending>,
}

/// The book for a run and the release that it comes from; `None` for a folder's.
#[derive(Debug)]
pub struct ResolvedRelease<E: Evaluator> {
    /// The compiled workflows.
    pub book: Arc<Bundle<E>>,
    /// Number of the release.
    pub release: Option<u64>,
}

impl<E: Evaluator> Clone for ResolvedRelease<E> {
    fn clone(&self) -> Self {
        Self {
            book: Arc::clone(&self.book),
            release: self.release,
        }
    }
}

impl<E: Evaluator> ResolvedRelease<E> {
    /// Refuses a workflow that does not exist or that the client may not run.
    ///
    /// # Errors
    /// [`WorkflowFailure::NotAllowed`] or [`WorkflowFailure::NoSuchWorkflow`]
    pub fn check(&self, asker: Asker<'_>, workflow: &str) -> Result<(), WorkflowFailure> {
        Admission::check(asker, workflow)?;
        if self.book.has(workflow) {
            return Ok(());
        }
        let name = workflow.to_owned();
        Err(WorkflowFailure::NoSuchWorkflow { name })
    }
}

#[derive(Debug)]
struct InForce<E: Evaluator> {
    /// The global with the releases; `None`: a folder, whose only book counts as published.
    global: Option<String>,
    published: Option<ResolvedRelease<E>>,
    canary: Option<Canary>,
    /// By release number: the canary, those for test, and those pinned by routes.
    others: BTreeMap<u64, Arc<Bundle<E>>>,
}

impl<E: Evaluator> InForce<E> {
    /// Nothing, of the releases in this global or of a folder.
    fn nothing(global: Option<String>) -> Self {
        Self {
            global,
            published: None,
            canary: None,
            others: BTreeMap::new(),
        }
    }

    /// The book of the given release, or of the published one.
    fn find(&self, release: Option<u64>) -> Result<ResolvedRelease<E>, WorkflowFailure> {
        let published = self.published.as_ref();
        let Some(number) = release else {
            let global = || self.global.clone().unwrap_or_default();
            return published
                .cloned()
                .ok_or_else(|| WorkflowFailure::NothingPublished { global: global() });
        };
        if let Some(published) = published.filter(|published| published.release == Some(number)) {
            return Ok(published.clone());
        }
        match self.others.get(&number) {
            Some(book) => Ok(ResolvedRelease {
                book: Arc::clone(book),
                release: Some(number),
            }),
            None => Err(WorkflowFailure::NoSuchRelease { number }),
        }
    }

    /// The published release, and the canary.
    fn shared(&self) -> (Option<u64>, Option<Canary>) {
        let published = self.published.as_ref().and_then(|chosen| chosen.release);
        (published, self.canary)
    }
}

/// Tells the polling thread to end.
#[derive(Debug, Default)]
struct Ending {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Ending {
    /// Waits for `time`; true if the thread is to end.
    fn passes(&self, time: Duration) -> bool {
        let mut is_over = self.is_over.lock();
        if !*is_over {
            self.changed.wait_for(&mut is_over, time);
        }
        *is_over
    }
}

impl<E: Evaluator> Drop for ActiveReleases<E> {
    fn drop(&mut self) {
        *self.ending.is_over.lock() = true;
        self.ending.changed.notify_all();
    }
}

impl<E: Evaluator> ActiveReleases<E> {
    /// A shelf that always has this one book.
    pub fn of(book: Bundle<E>) -> Arc<Self> {
        let book = Arc::new(book);
        Self::new(InForce {
            published: Some(ResolvedRelease { book, release: None }),
            ..InForce::nothing(None)
        })
    }

    fn new(in_force: InForce<E>) -> Arc<Self> {
        Arc::new(Self {
            in_force: RwLock::new(in_force),
            ending: Arc::default(),
        })
    }

    /// The workflows of a folder. With `stamps`, which looks at its files, changes to them come into force.
    ///
    /// # Errors
    /// Every error in the files, or a thread that cannot be started.
    pub fn of_folder(
        folder: &Path,
        reading: Reading,
        stamps: Option<FileStamps>,
    ) -> Result<Arc<Self>, ShelfError> {
        // Taken before the files are read, so that any later change is noticed.
        let watched = stamps.map(|mut stamps| (stamps(), stamps));
        let bundle = Bundle::read(folder, reading.compat, reading.erase_types)?;
        bundle.log();
        let shelf = Self::of(bundle);
        if let Some((seen, stamps)) = watched {
            let keeper = FolderKeeper {
                folder: folder.to_owned(),
                reading,
                stamps,
                in_force: seen.clone(),
                seen,
            };
            shelf.keep(LOOK_AT_FOLDER_EVERY, keeper)?;
        }
        Ok(shelf)
    }

    /// The releases in the store as they are published, and those `pinned` by routes.
    ///
    /// # Errors
    /// If the published release cannot be read, or a thread cannot be started.
    pub fn of_store(releases: Releases, pinned: Vec<u64>, reading: Reading) -> Result<Arc<Self>, ShelfError> {
        let standing = releases.standing()?;
        let mut keeper = StoreKeeper {
            releases,
            pinned,
            reading,
            seen: None,
            told: String::new(),
            unusable: BTreeSet::new(),
            announced: None,
        };
        let (in_force, fault) = keeper.read(standing, &InForce::nothing(None));
        if let Some(fault) = fault {
            return Err(fault);
        }
        keeper.announced = Some(in_force.shared());
        let shelf = Self::new(in_force);
        shelf.keep(LOOK_EVERY, keeper)?;
        Ok(shelf)
    }

    /// Picks the book for a run: of the given release, of the canary for its share of ids, or of the published release. One id always has
    /// the same release, so a retry does too.
    ///
    /// # Errors
    /// If the release cannot be requested, or none is published.
    pub fn choose(&self, id: &str, release: Option<u64>) -> Result<ResolvedRelease<E>, WorkflowFailure> {
        let in_force = self.in_force.read();
        let shared = in_force.canary;
        let shared = shared.filter(|canary| release.is_none() && place_of(id) < canary.per_ten_thousand);
        in_force.find(release.or(shared.map(|canary| canary.release)))
    }

    /// The book of the given release, or of the published one.
    ///
    /// # Errors
    /// If the release cannot be requested, or none is published.
    pub fn published(&self, release: Option<u64>) -> Result<ResolvedRelease<E>, WorkflowFailure> {
        self.in_force.read().find(release)
    }

    /// Checks that `next` may replace the workflows of a folder: files that have become bad do not come into force.
    fn check_next(&self, next: &Bundle<E>) -> Result<(), BundleErrors> {
        let in_force = self.in_force.read();
        let before = in_force.published.as_ref();
        before.map_or(Ok(()), |before| next.check_against(&before.book))
    }

    /// Checks that `next`, after a reload, may replace these workflows, in the same way.
    ///
    /// # Errors
    /// The errors in the files.
    pub fn check_reload(&self, next: &Self) -> Result<(), ShelfError> {
        let next = next.in_force.read().published.clone();
        Ok(next.map_or(Ok(()), |next| self.check_next(&next.book))?)
    }

    /// Releases that runs get without asking, each with its state.
    pub fn shared(&self) -> Vec<(u64, &'static str)> {
        let (published, canary) = self.in_force.read().shared();
        let published = published.map(|release| (release, State::Published.name()));
        let canary = canary.map(|canary| (canary.release, State::Canary.name()));
        published.into_iter().chain(canary).collect()
    }

    /// Whether releases can be requested by number.
    pub fn has_releases(&self) -> bool {
        self.in_force.read().global.is_some()
    }

    /// Starts a thread that polls for changes until the shelf is dropped.
    fn keep(self: &Arc<Self>, every: Duration, mut keeper: impl Watcher<E>) -> Result<(), ShelfError> {
        let (ending, shelf) = (Arc::clone(&self.ending), Arc::downgrade(self));
        let look = move || {
            while !ending.passes(every) {
                let Some(shelf) = Weak::upgrade(&shelf) else {
                    return;
                };
                keeper.look(&shelf);
            }
        };
        let thread = thread::Builder::new().name("workflow-news".into()).spawn(look);
        thread.map(drop).map_err(ShelfError::Thread)
    }
}

/// The folder that errors name for a release's files. It has no space, so that positions can be parsed from the engine's messages.
pub fn place_of_release(number: u64) -> PathBuf {
    PathBuf::from(format!("release-{number}"))
}

/// Maps an id to a bucket from 0 to 9,999: FNV-1a, with its bits spread by a further multiplication.
fn place_of(id: &str) -> u32 {
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let spread = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((spread >> 32) % 10_000) as u32
}

/// Polls for changes and puts them in force.
trait Watcher<E: Evaluator>: Send + 'static {
    fn look(&mut self, shelf: &ActiveReleases<E>);
}

type Stamps = BTreeMap<PathBuf, (i64, i64, u64, u64)>;

/// Looks at the files of a folder: what identifies the state of each, such as its modification time.
pub type FileStamps = Box<dyn FnMut() -> Stamps + Send>;

struct FolderKeeper {
    folder: PathBuf,
    reading: Reading,
    stamps: FileStamps,
    /// File stamps at the last poll, and those of the version that was read last.
    seen: Stamps,
    in_force: Stamps,
}

impl<E: Evaluator> Watcher<E> for FolderKeeper {
    fn look(&mut self, shelf: &ActiveReleases<E>) {
        let now = (self.stamps)();
        let is_quiet = now == self.seen;
        // Waits until the files are quiet, so that a save in progress is not read halfway and one save is one change.
        if !is_quiet || now == self.in_force {
            self.seen = now;
            return;
        }
        self.in_force = now;
        let Reading { compat, erase_types } = self.reading;
        let read = Bundle::read(&self.folder, compat, erase_types);
        match read.and_then(|book| shelf.check_next(&book).map(|()| book)) {
            Ok(book) => {
                book.log();
                let book = Arc::new(book);
                shelf.in_force.write().published = Some(ResolvedRelease { book, release: None });
                tracing::info!(target: "forebay::workflow", "workflows read again: {}", self.folder.display());
            }
            Err(faults) => {
                tracing::error!(target: "forebay::workflow", "workflows not read again, those in force stay: {faults}");
            }
        }
    }
}

struct StoreKeeper {
    releases: Releases,
    pinned: Vec<u64>,
    reading: Reading,
    /// The state that was read last; `None`: it could not be read, or not completely.
    seen: Option<ReleaseAssignments>,
    /// The last logged error from reading the store.
    told: String,
    /// Releases that were unusable at the last read, with the reasons. They have been logged.
    unusable: BTreeSet<(u64, String)>,
    /// The releases in force that were logged last.
    announced: Option<(Option<u64>, Option<Canary>)>,
}

impl<E: Evaluator> Watcher<E> for StoreKeeper {
    fn look(&mut self, shelf: &ActiveReleases<E>) {
        match self.releases.standing() {
            Ok(standing) if self.seen.as_ref() == Some(&standing) => {}
            Ok(standing) => {
                // If the published release is missing from it, the reason is in the log.
                let (in_force, _) = self.read(standing, &shelf.in_force.read());
                let shared = in_force.shared();
                *shelf.in_force.write() = in_force;
                self.told.clear();
                if self.announced != Some(shared) {
                    self.announced = Some(shared);
                    announce(shared);
                }
            }
            Err(error) => {
                (self.seen, self.announced) = (None, None);
                let told = with_causes(&error);
                if told != self.told {
                    tracing::error!(target: "forebay::workflow", "the releases of the workflows cannot be looked at, those in force stay: {told}");
                    self.told = told;
                }
            }
        }
    }
}

/// Logs the releases in force.
fn announce((published, canary): (Option<u64>, Option<Canary>)) {
    let share = canary.map(|canary| format!(", and release {} for {canary} of the runs", canary.release));
    tracing::info!(
        target: "forebay::workflow",
        "release {} of the workflows is in force{}",
        published.map_or_else(|| "none".to_owned(), |number| number.to_string()),
        share.unwrap_or_default(),
    );
}

impl StoreKeeper {
    /// Why a route may not name this release, if so: drafts cannot be requested.
    fn why_not_pinned(&self, number: u64, standing: &ReleaseAssignments) -> Option<NotHad> {
        let prefix = "a route names a release that it cannot have";
        match self.releases.about(number) {
            Ok(about) if standing.state_of(number, &about) != State::Draft => None,
            Ok(_) => Some(NotHad {
                reason: format!(
                    "{prefix}: it is a draft; `forebay workflow state {number} test` makes it one for test"
                ),
                may_mend: false,
            }),
            Err(error) => Some(NotHad {
                reason: format!("{prefix}: {}", with_causes(&error)),
                // A release that is created later is a draft, so a missing one cannot become usable by itself.
                may_mend: matches!(error, ReleaseError::Storage(_)),
            }),
        }
    }

    /// Reads the releases that should be in force, reusing books that are loaded already. If the published release cannot be read, the
    /// previous one stays in force and the error is returned; for others the error is only logged. Releases that may become readable are
    /// read again at the next poll.
    fn read<E: Evaluator>(
        &mut self,
        standing: ReleaseAssignments,
        before: &InForce<E>,
    ) -> (InForce<E>, Option<ShelfError>) {
        let mut in_force = InForce::nothing(Some(self.releases.global().to_owned()));
        let (mut fault, mut unusable, mut may_mend) = (None, BTreeSet::new(), false);
        let mut numbers = standing.numbers();
        for number in &self.pinned {
            match self.why_not_pinned(*number, &standing) {
                None => {
                    numbers.insert(*number);
                }
                Some(not_had) => {
                    may_mend |= not_had.may_mend;
                    unusable.insert((*number, not_had.reason));
                }
            }
        }
        for number in numbers {
            let is_published = standing.published == Some(number);
            let known = before
                .published
                .iter()
                .find(|known| known.release == Some(number));
            let known = known
                .map(|known| &known.book)
                .or_else(|| before.others.get(&number));
            let book = match known {
                Some(book) => Arc::clone(book),
                None => match read_release(&self.releases, number, self.reading) {
                    Ok(book) => {
                        book.log();
                        Arc::new(book)
                    }
                    Err(error) => {
                        may_mend |= error.may_mend();
                        let reason = with_causes(&error);
                        unusable.insert((
                            number,
                            format!("a release of the workflows cannot be used: {reason}"),
                        ));
                        if is_published {
                            in_force.published.clone_from(&before.published);
                            fault = Some(error);
                        }
                        continue;
                    }
                },
            };
            if is_published {
                in_force.published = Some(ResolvedRelease {
                    book,
                    release: Some(number),
                });
            } else {
                in_force.others.insert(number, book);
            }
        }
        in_force.canary = standing
            .canary
            .filter(|canary| in_force.others.contains_key(&canary.release));
        for (number, what) in unusable.difference(&self.unusable) {
            tracing::error!(target: "forebay::workflow", release = number, "{what}");
        }
        self.unusable = unusable;
        self.seen = (!may_mend).then_some(standing);
        (in_force, fault)
    }
}

/// Why a release is unavailable.
struct NotHad {
    reason: String,
    /// Whether it may become available without any change to the releases' state.
    may_mend: bool,
}

/// Reads and compiles a release.
fn read_release<E: Evaluator>(
    releases: &Releases,
    number: u64,
    reading: Reading,
) -> Result<Bundle<E>, ShelfError> {
    let files = releases.files(number)?;
    let bundle = Bundle::of(
        &files,
        &place_of_release(number),
        reading.compat,
        reading.erase_types,
    );
    Ok(bundle.whole()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_ids_are_spread_evenly() {
        for ids in [
            (0..20_000).map(|at| format!("r{at}")).collect::<Vec<_>>(),
            (0..20_000).map(|at| format!("{at:032x}")).collect(),
        ] {
            let below = |limit: u32| ids.iter().filter(|id| place_of(id) < limit).count();
            for (limit, expected) in [(100, 200), (1000, 2000), (5000, 10_000)] {
                let found = below(limit);
                assert!(found.abs_diff(expected) < expected / 4, "{limit}: {found}");
            }
        }
        assert_eq!(place_of("the same"), place_of("the same"));
    }
}
