//! Which workflows there are at the moment: the files of a folder or of a release in the store, and what of them is in force.

pub(super) mod cases;
pub(super) mod files;
pub(super) mod shelf;
pub(super) mod stored;
