//! Sources of workflows, a folder or releases in the store, and the ones currently in force.

mod active;
mod api;
mod assignments;
mod error;
mod stored;
mod watch;

pub use self::{
    active::{ActiveReleases, ActiveReleasesError, Reading, ResolvedRelease, place_of_release},
    api::{ReleaseEnvironment, ReleaseRequest, ReleaseResponse, ReleaseService, ReleaseThreads, percent_of},
    assignments::{About, Actor, Canary, LogEntry, ReleaseAssignments, RolledBack, State},
    error::ReleaseError,
    stored::Releases,
    watch::FileStamps,
};
