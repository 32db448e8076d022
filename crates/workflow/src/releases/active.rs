//! The workflows in force, from a folder or from releases in the store. They are replaced as a whole; a run that has begun keeps its bundle.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex, RwLock};

use super::{
    Canary, FileStamps, ReleaseError, Releases, State,
    watch::{FolderWatcher, StoreWatcher, Watcher},
};
use crate::{Admission, Asker, Bundle, BundleErrors, Compat, Evaluator, SourceParser, WorkflowFailure};

/// Polling interval for the store: each poll reads one node.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Polling interval for a folder: each poll reads the modification time of every file.
const LOOK_AT_FOLDER_EVERY: Duration = Duration::from_millis(250);

/// Why workflows cannot be used at startup or after a reload.
#[derive(Debug, thiserror::Error)]
pub enum ActiveReleasesError {
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

impl ActiveReleasesError {
    /// Whether reading may succeed later without another change: the store failed, or does not have the release yet.
    pub(super) fn may_mend(&self) -> bool {
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
    /// Parses rules.
    pub parser: SourceParser,
}

/// The workflows currently in force.
#[derive(Debug)]
pub struct ActiveReleases<E: Evaluator> {
    pub(super) in_force: RwLock<InForce<E>>,
    ending: Arc<Ending>,
    watcher: WatcherSlot<E>,
}

/// The bundle for a run and the release that it comes from; `None` for a folder's.
#[derive(Debug)]
pub struct ResolvedRelease<E: Evaluator> {
    /// The compiled workflows.
    pub bundle: Arc<Bundle<E>>,
    /// Number of the release.
    pub release: Option<u64>,
}

impl<E: Evaluator> Clone for ResolvedRelease<E> {
    fn clone(&self) -> Self {
        Self {
            bundle: Arc::clone(&self.bundle),
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
        if self.bundle.has(workflow) {
            return Ok(());
        }
        let name = workflow.to_owned();
        Err(WorkflowFailure::NoSuchWorkflow { name })
    }
}

#[derive(Debug)]
pub(super) struct InForce<E: Evaluator> {
    /// The global with the releases; `None`: a folder, whose only bundle counts as published.
    pub(super) global: Option<String>,
    pub(super) published: Option<ResolvedRelease<E>>,
    pub(super) canary: Option<Canary>,
    /// By release number: the canary, those for test, and those pinned by routes.
    pub(super) others: BTreeMap<u64, Arc<Bundle<E>>>,
}

impl<E: Evaluator> InForce<E> {
    /// Nothing, of the releases in this global or of a folder.
    pub(super) fn nothing(global: Option<String>) -> Self {
        Self {
            global,
            published: None,
            canary: None,
            others: BTreeMap::new(),
        }
    }

    /// The bundle of the given release, or of the published one.
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
            Some(bundle) => Ok(ResolvedRelease {
                bundle: Arc::clone(bundle),
                release: Some(number),
            }),
            None => Err(WorkflowFailure::NoSuchRelease { number }),
        }
    }

    /// The published release, and the canary.
    pub(super) fn shared(&self) -> (Option<u64>, Option<Canary>) {
        let published = self.published.as_ref().and_then(|chosen| chosen.release);
        (published, self.canary)
    }
}

/// The watcher of a folder or of a store; `None` for a fixed set of workflows.
struct WatcherSlot<E: Evaluator>(Mutex<Option<Box<dyn Watcher<E>>>>);

impl<E: Evaluator> fmt::Debug for WatcherSlot<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WatcherSlot")
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
    /// Always this one bundle.
    pub fn of(bundle: Bundle<E>) -> Arc<Self> {
        let bundle = Arc::new(bundle);
        Self::new(InForce {
            published: Some(ResolvedRelease {
                bundle,
                release: None,
            }),
            ..InForce::nothing(None)
        })
    }

    fn new(in_force: InForce<E>) -> Arc<Self> {
        Arc::new(Self {
            in_force: RwLock::new(in_force),
            ending: Arc::default(),
            watcher: WatcherSlot(Mutex::default()),
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
    ) -> Result<Arc<Self>, ActiveReleasesError> {
        // Taken before the files are read, so that any later change is noticed.
        let watched = stamps.map(|mut stamps| (stamps(), stamps));
        let bundle = Bundle::read(folder, reading.compat, reading.parser)?;
        bundle.log();
        let active = Self::of(bundle);
        if let Some((seen, stamps)) = watched {
            let watcher = FolderWatcher::new(folder, reading, seen, stamps);
            active.watch(LOOK_AT_FOLDER_EVERY, watcher)?;
        }
        Ok(active)
    }

    /// The releases in the store as they are published, and those `pinned` by routes.
    ///
    /// # Errors
    /// If the published release cannot be read, or a thread cannot be started.
    pub fn of_store(
        releases: Releases,
        pinned: Vec<u64>,
        reading: Reading,
    ) -> Result<Arc<Self>, ActiveReleasesError> {
        let (watcher, in_force) = StoreWatcher::new(releases, pinned, reading)?;
        let active = Self::new(in_force);
        active.watch(LOOK_EVERY, watcher)?;
        Ok(active)
    }

    /// Picks the bundle for a run: of the given release, of the canary for its share of ids, or of the published release. One id always has
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

    /// The bundle of the given release, or of the published one.
    ///
    /// # Errors
    /// If the release cannot be requested, or none is published.
    pub fn published(&self, release: Option<u64>) -> Result<ResolvedRelease<E>, WorkflowFailure> {
        self.in_force.read().find(release)
    }

    /// Checks that `next` may replace the workflows of a folder: files that have become bad do not come into force.
    pub(super) fn check_next(&self, next: &Bundle<E>) -> Result<(), BundleErrors> {
        let in_force = self.in_force.read();
        let before = in_force.published.as_ref();
        before.map_or(Ok(()), |before| next.check_against(&before.bundle))
    }

    /// Checks that `next`, after a reload, may replace these workflows, in the same way.
    ///
    /// # Errors
    /// The errors in the files.
    pub fn check_reload(&self, next: &Self) -> Result<(), ActiveReleasesError> {
        let next = next.in_force.read().published.clone();
        Ok(next.map_or(Ok(()), |next| self.check_next(&next.bundle))?)
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

    /// Puts in force what has changed since the last poll, without waiting for the next one.
    pub fn look(&self) {
        if let Some(watcher) = self.watcher.0.lock().as_mut() {
            watcher.look(self);
        }
    }

    /// Starts a thread that polls for changes until these releases are dropped.
    fn watch(self: &Arc<Self>, every: Duration, watcher: impl Watcher<E>) -> Result<(), ActiveReleasesError> {
        *self.watcher.0.lock() = Some(Box::new(watcher));
        let (ending, active) = (Arc::clone(&self.ending), Arc::downgrade(self));
        let look = move || {
            while !ending.passes(every) {
                let Some(active) = Weak::upgrade(&active) else {
                    return;
                };
                active.look();
            }
        };
        let thread = thread::Builder::new().name("workflow-news".into()).spawn(look);
        thread.map(drop).map_err(ActiveReleasesError::Thread)
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
