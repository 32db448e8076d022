//! The shared page of a worker and its server.

mod sys;

pub(crate) use sys::{create, is_mapped, map, report_in, ring, tell_commit, view};
