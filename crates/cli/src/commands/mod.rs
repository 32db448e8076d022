//! One module per command: its arguments, and `run`.

pub(crate) mod bench;
pub(crate) mod cache;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod explain;
mod flame_graph;
pub(crate) mod guard;
pub(crate) mod jobs;
pub(crate) mod load;
pub(crate) mod logs;
pub(crate) mod new;
pub(crate) mod openapi;
pub(crate) mod password;
pub(crate) mod pool;
pub(crate) mod profile;
pub(crate) mod reload;
pub(crate) mod serve;
pub(crate) mod sql;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod strip;
pub(crate) mod top;
pub(crate) mod upgrade;
pub(crate) mod version;
pub(crate) mod work;
pub(crate) mod workflow;
