//! The kinds of requests: for runs by the workflow's name in the path, in Rengine's formats, and for durable runs; and about releases.

pub(super) mod durable;
pub(super) mod named;
pub(super) mod releases;
pub(super) mod rengine;
