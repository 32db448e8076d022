//! Sources of workflows, a folder or releases in the store, and the ones currently in force.

mod active;
mod api;
mod stored;

pub use self::{
    active::{ActiveReleases, FileStamps, Reading, ResolvedRelease, ShelfError, place_of_release},
    api::{ReleaseEnvironment, ReleaseRequest, ReleaseResponse, ReleaseService, ReleaseThreads, percent_of},
    stored::{About, Actor, Canary, LogEntry, ReleaseAssignments, ReleaseError, Releases, RolledBack, State},
};
