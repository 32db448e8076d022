//! The shared page of a worker and its server.

mod sys;

pub(crate) use sys::{create, is_mapped, map, ring, tell_commit, view};
