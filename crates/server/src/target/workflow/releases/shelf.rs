//! The workflows that runs have: of a folder, or of releases in the store. What is in force changes as a whole; a run that has begun keeps its book.
//!
//! A thread looks for what others have changed, reads it, and puts it in force. What it cannot read is told in the log, and what was in force stays.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use forebay_workflow::Compat;
use parking_lot::{Condvar, Mutex, RwLock};

use super::stored::{Canary, ReleaseError, Releases, Standing, State};
use crate::{
    app::EraseTypes,
    failure,
    target::workflow::{Book, BookFaults, WorkflowFailure},
    watch::{self, ENTRIES_MAX, Found, Stamps},
};

/// How often the store is looked at: one node is read.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often a folder is: each of its files is asked for its time.
const LOOK_AT_FOLDER_EVERY: Duration = Duration::from_millis(250);

/// Why the workflows cannot be used when a server starts or reloads.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// What is wrong with them.
    #[error(transparent)]
    Faults(#[from] BookFaults),
    /// The releases cannot be read.
    #[error(transparent)]
    Releases(#[from] ReleaseError),
    /// The thread that looks for changes cannot be started.
    #[error("cannot start the thread that looks for changes")]
    Thread(#[source] io::Error),
}

impl ShelfError {
    /// Whether a release may be read later though nothing about it changes: the store did not give it, or has it not yet.
    fn may_mend(&self) -> bool {
        matches!(
            self,
            Self::Releases(ReleaseError::Store(_) | ReleaseError::NoSuchRelease { .. })
        )
    }
}

/// How books are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) compat: Compat,
    pub(crate) erase_types: EraseTypes,
}

/// What runs have at the moment.
#[derive(Debug)]
pub(crate) struct Shelf {
    in_force: RwLock<InForce>,
    ending: Arc<Ending>,
}

/// A book that a run has, and which release that is; `None`: it is a folder's.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) book: Arc<Book>,
    pub(crate) release: Option<u64>,
}

#[derive(Debug, Default)]
struct InForce {
    /// The global of the releases; `None`: a folder, whose book is the one that is published.
    global: Option<String>,
    published: Option<Chosen>,
    canary: Option<Canary>,
    /// By number: the one with a share, those for test, and those that routes name.
    others: BTreeMap<u64, Arc<Book>>,
}

impl InForce {
    /// The book of a release, or of the one that is published.
    fn find(&self, release: Option<u64>) -> Result<Chosen, WorkflowFailure> {
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
            Some(book) => Ok(Chosen {
                book: Arc::clone(book),
                release: Some(number),
            }),
            None => Err(WorkflowFailure::NoSuchRelease { number }),
        }
    }

    /// Which release runs have, and which has a share of them.
    fn shared(&self) -> (Option<u64>, Option<Canary>) {
        let published = self.published.as_ref().and_then(|chosen| chosen.release);
        (published, self.canary)
    }
}

/// Whether nobody needs the thread any more.
#[derive(Debug, Default)]
struct Ending {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Ending {
    /// Waits for so long; true: it is over.
    fn passes(&self, time: Duration) -> bool {
        let mut is_over = self.is_over.lock();
        if !*is_over {
            self.changed.wait_for(&mut is_over, time);
        }
        *is_over
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        *self.ending.is_over.lock() = true;
        self.ending.changed.notify_all();
    }
}

impl Shelf {
    /// One book, for good.
    pub(crate) fn of(book: Book) -> Arc<Self> {
        let book = Arc::new(book);
        Self::new(InForce {
            published: Some(Chosen { book, release: None }),
            ..InForce::default()
        })
    }

    fn new(in_force: InForce) -> Arc<Self> {
        Arc::new(Self {
            in_force: RwLock::new(in_force),
            ending: Arc::default(),
        })
    }

    /// The workflows of a folder; with `is_watched` as they are at any time.
    pub(crate) fn of_folder(
        folder: &Path,
        reading: Reading,
        is_watched: bool,
    ) -> Result<Arc<Self>, ShelfError> {
        // What changes from here on is noticed.
        let found = watch::look_at_workflows(folder);
        let shelf = Self::of(Book::read(folder, reading.compat, reading.erase_types)?);
        if is_watched {
            let mut keeper = FolderKeeper {
                folder: folder.to_owned(),
                reading,
                seen: found.stamps.clone(),
                in_force: Stamps::new(),
                is_told: false,
            };
            keeper.in_force = keeper.stamps(found);
            shelf.keep(LOOK_AT_FOLDER_EVERY, keeper)?;
        }
        Ok(shelf)
    }

    /// The releases in the store as they are published at any time, and those of `pinned` numbers.
    pub(crate) fn of_store(
        releases: Releases,
        pinned: Vec<u64>,
        reading: Reading,
    ) -> Result<Arc<Self>, ShelfError> {
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
        let (in_force, fault) = keeper.read(standing, &InForce::default());
        if let Some(fault) = fault {
            return Err(fault);
        }
        keeper.announced = Some(in_force.shared());
        let shelf = Self::new(in_force);
        shelf.keep(LOOK_EVERY, keeper)?;
        Ok(shelf)
    }

    /// The book for a run with this id, of the release that is asked for, or of the one that is published. Whoever tries again with the same id has the same.
    pub(crate) fn choose(&self, id: &str, release: Option<u64>) -> Result<Chosen, WorkflowFailure> {
        let in_force = self.in_force.read();
        let shared = in_force.canary;
        let shared = shared.filter(|canary| release.is_none() && place_of(id) < canary.per_ten_thousand);
        in_force.find(release.or(shared.map(|canary| canary.release)))
    }

    /// The book of a release, or of the one that is published.
    pub(crate) fn published(&self, release: Option<u64>) -> Result<Chosen, WorkflowFailure> {
        self.in_force.read().find(release)
    }

    /// The releases that runs have without asking for one, and what each is.
    pub(crate) fn shared(&self) -> Vec<(u64, &'static str)> {
        let (published, canary) = self.in_force.read().shared();
        let published = published.map(|release| (release, State::Published.name()));
        let canary = canary.map(|canary| (canary.release, State::Canary.name()));
        published.into_iter().chain(canary).collect()
    }

    /// Whether there are releases to ask for.
    pub(crate) fn has_releases(&self) -> bool {
        self.in_force.read().global.is_some()
    }

    /// Looks for changes, until nobody has the shelf any more.
    fn keep(self: &Arc<Self>, every: Duration, mut keeper: impl Keeper) -> Result<(), ShelfError> {
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

/// How errors name the place of a release's files. Without a space, so that places in them are found in what engines say.
pub fn place_of_release(number: u64) -> PathBuf {
    PathBuf::from(format!("release-{number}"))
}

/// Of ten thousand places, the one of an id. FNV-1a, whose bits a multiplication spreads once more.
fn place_of(id: &str) -> u32 {
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let spread = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((spread >> 32) % 10_000) as u32
}

/// Looks for what has changed, and puts it in force.
trait Keeper: Send + 'static {
    fn look(&mut self, shelf: &Shelf);
}

struct FolderKeeper {
    folder: PathBuf,
    reading: Reading,
    /// What there was at the last look, and what there was when it was read last.
    seen: Stamps,
    in_force: Stamps,
    /// Whether the log has been told that there is more than is looked at.
    is_told: bool,
}

impl FolderKeeper {
    /// Of what was found; where that is not all, the log is told once.
    fn stamps(&mut self, found: Found) -> Stamps {
        if !found.whole && !self.is_told {
            self.is_told = true;
            tracing::warn!(
                target: "forebay::workflow",
                "{} has more than {ENTRIES_MAX} entries, changes to the rest are not noticed",
                self.folder.display()
            );
        }
        found.stamps
    }
}

impl Keeper for FolderKeeper {
    fn look(&mut self, shelf: &Shelf) {
        let now = self.stamps(watch::look_at_workflows(&self.folder));
        let is_quiet = now == self.seen;
        // A file in the middle of being saved is waited for, so that one save is one change.
        if !is_quiet || now == self.in_force {
            self.seen = now;
            return;
        }
        self.in_force = now;
        let Reading { compat, erase_types } = self.reading;
        match Book::read(&self.folder, compat, erase_types) {
            Ok(book) => {
                let book = Arc::new(book);
                shelf.in_force.write().published = Some(Chosen { book, release: None });
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
    /// What was read last; `None`: it could not be, or not all of it.
    seen: Option<Standing>,
    /// What the log was told last of why the store cannot be read.
    told: String,
    /// The releases that could not be had when it was read last, and why. The log has been told.
    unusable: BTreeSet<(u64, String)>,
    /// What the log was told last of what is in force.
    announced: Option<(Option<u64>, Option<Canary>)>,
}

impl Keeper for StoreKeeper {
    fn look(&mut self, shelf: &Shelf) {
        match self.releases.standing() {
            Ok(standing) if self.seen.as_ref() == Some(&standing) => {}
            Ok(standing) => {
                // Why the published one may not be among it is in the log.
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
                let told = failure::with_causes(&error);
                if told != self.told {
                    tracing::error!(target: "forebay::workflow", "the releases of the workflows cannot be looked at, those in force stay: {told}");
                    self.told = told;
                }
            }
        }
    }
}

/// Tells the log what is in force.
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
    /// Why a route may not name a release, if so: a draft is for nobody yet.
    fn why_not_pinned(&self, number: u64, standing: &Standing) -> Option<NotHad> {
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
                reason: format!("{prefix}: {}", failure::with_causes(&error)),
                // One that comes to be is a draft.
                may_mend: matches!(error, ReleaseError::Store(_)),
            }),
        }
    }

    /// What is to be in force, with the books that are there already. A published release that cannot be read leaves the one before it, and why is given, too; of
    /// others that is only logged. What may be had later is read again at the next look.
    fn read(&mut self, standing: Standing, before: &InForce) -> (InForce, Option<ShelfError>) {
        let mut in_force = InForce {
            global: Some(self.releases.global().to_owned()),
            ..InForce::default()
        };
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
                    Ok(book) => Arc::new(book),
                    Err(error) => {
                        may_mend |= error.may_mend();
                        let reason = failure::with_causes(&error);
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
                in_force.published = Some(Chosen {
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

/// Why a release cannot be had.
struct NotHad {
    reason: String,
    /// Whether it may be had later, with nothing changed in which releases runs have.
    may_mend: bool,
}

/// Reads a release and checks it.
pub(in crate::target::workflow) fn read_release(
    releases: &Releases,
    number: u64,
    reading: Reading,
) -> Result<Book, ShelfError> {
    let files = releases.files(number)?;
    Ok(Book::of(
        &files,
        &place_of_release(number),
        reading.compat,
        reading.erase_types,
    )?)
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
