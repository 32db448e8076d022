//! The page of memory that a worker shares with the server.

mod sys;

pub(crate) use sys::{create, is_mapped, map, ring, tell_commit, view};
