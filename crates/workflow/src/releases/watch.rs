//! Polls the folder or the store for changes made by others, reads them and puts them in force. If they cannot be read, the error is logged
//! and the current workflows stay in force.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Canary, ReleaseAssignments, ReleaseError, Releases, State,
    active::{ActiveReleases, ActiveReleasesError, InForce, Reading, ResolvedRelease, place_of_release},
};
use crate::{Bundle, Evaluator, failure::with_causes};

/// Polls for changes and puts them in force.
pub(super) trait Watcher<E: Evaluator>: Send + 'static {
    fn look(&mut self, active: &ActiveReleases<E>);
}

pub(super) type Stamps = BTreeMap<PathBuf, (i64, i64, u64, u64)>;

/// Looks at the files of a folder: what identifies the state of each, such as its modification time.
pub type FileStamps = Box<dyn FnMut() -> Stamps + Send>;

pub(super) struct FolderWatcher {
    folder: PathBuf,
    reading: Reading,
    stamps: FileStamps,
    /// File stamps at the last poll, and those of the version that was read last.
    seen: Stamps,
    in_force: Stamps,
}

impl FolderWatcher {
    /// Watches a folder whose files had these stamps before they were read.
    pub(super) fn new(folder: &Path, reading: Reading, seen: Stamps, stamps: FileStamps) -> Self {
        Self {
            folder: folder.to_owned(),
            reading,
            stamps,
            in_force: seen.clone(),
            seen,
        }
    }
}

impl<E: Evaluator> Watcher<E> for FolderWatcher {
    fn look(&mut self, active: &ActiveReleases<E>) {
        let now = (self.stamps)();
        let is_quiet = now == self.seen;
        // Waits until the files are quiet, so that a save in progress is not read halfway and one save is one change.
        if !is_quiet || now == self.in_force {
            self.seen = now;
            return;
        }
        self.in_force = now;
        let Reading { compat, parser } = self.reading;
        let read = Bundle::read(&self.folder, compat, parser);
        match read.and_then(|bundle| active.check_next(&bundle).map(|()| bundle)) {
            Ok(bundle) => {
                bundle.log();
                let bundle = Arc::new(bundle);
                active.in_force.write().published = Some(ResolvedRelease {
                    bundle,
                    release: None,
                });
                tracing::info!(target: "forebay::workflow", "workflows read again: {}", self.folder.display());
            }
            Err(faults) => {
                tracing::error!(target: "forebay::workflow", "workflows not read again, those in force stay: {faults}");
            }
        }
    }
}

pub(super) struct StoreWatcher {
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

impl<E: Evaluator> Watcher<E> for StoreWatcher {
    fn look(&mut self, active: &ActiveReleases<E>) {
        match self.releases.standing() {
            Ok(standing) if self.seen.as_ref() == Some(&standing) => {}
            Ok(standing) => {
                // If the published release is missing from it, the reason is in the log.
                let (in_force, _) = self.read(standing, &active.in_force.read());
                let shared = in_force.shared();
                *active.in_force.write() = in_force;
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

impl StoreWatcher {
    /// Reads the releases that are in force, and those `pinned` by routes.
    pub(super) fn new<E: Evaluator>(
        releases: Releases,
        pinned: Vec<u64>,
        reading: Reading,
    ) -> Result<(Self, InForce<E>), ActiveReleasesError> {
        let standing = releases.standing()?;
        let mut watcher = Self {
            releases,
            pinned,
            reading,
            seen: None,
            told: String::new(),
            unusable: BTreeSet::new(),
            announced: None,
        };
        let (in_force, fault) = watcher.read(standing, &InForce::nothing(None));
        if let Some(fault) = fault {
            return Err(fault);
        }
        watcher.announced = Some(in_force.shared());
        Ok((watcher, in_force))
    }

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

    /// Reads the releases that should be in force, reusing bundles that are loaded already. If the published release cannot be read, the
    /// previous one stays in force and the error is returned; for others the error is only logged. Releases that may become readable are
    /// read again at the next poll.
    fn read<E: Evaluator>(
        &mut self,
        standing: ReleaseAssignments,
        before: &InForce<E>,
    ) -> (InForce<E>, Option<ActiveReleasesError>) {
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
                .map(|known| &known.bundle)
                .or_else(|| before.others.get(&number));
            let bundle = match known {
                Some(bundle) => Arc::clone(bundle),
                None => match read_release(&self.releases, number, self.reading) {
                    Ok(bundle) => {
                        bundle.log();
                        Arc::new(bundle)
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
                    bundle,
                    release: Some(number),
                });
            } else {
                in_force.others.insert(number, bundle);
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
) -> Result<Bundle<E>, ActiveReleasesError> {
    let files = releases.files(number)?;
    let bundle = Bundle::of(&files, &place_of_release(number), reading.compat, reading.parser);
    Ok(bundle.whole()?)
}
