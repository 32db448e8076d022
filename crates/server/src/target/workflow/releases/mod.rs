//! Sources of workflows, a folder or releases in the store, and the ones currently in force.

pub(super) mod active;
pub(super) mod stored;
