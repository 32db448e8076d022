//! Sources of workflows, a folder or releases in the store, and the ones currently in force.

mod active;
mod stored;

pub use self::{
    active::{ActiveReleases, FileStamps, Reading, ResolvedRelease, ShelfError, place_of_release},
    stored::{About, Actor, Canary, LogEntry, ReleaseAssignments, ReleaseError, Releases, RolledBack, State},
};
