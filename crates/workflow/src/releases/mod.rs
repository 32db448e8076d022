//! Sources of workflows, a folder or releases in the store, and the ones currently in force.

mod active;
mod assignments;
mod error;
mod service;
mod stored;
mod watch;

pub use self::{
    active::{ActiveReleases, ActiveReleasesError, Reading, ResolvedRelease, place_of_release},
    assignments::{About, Actor, Canary, LogEntry, ReleaseAssignments, RolledBack, State},
    error::ReleaseError,
    service::{
        Abandoned, Draft, Publication, ReleaseEnvironment, ReleaseService, ReleaseServiceError, Stage,
        percent_of,
    },
    stored::Releases,
    watch::FileStamps,
};
