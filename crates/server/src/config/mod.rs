//! The configuration: `forebay.toml` in, a validated [`Config`] out.
//!
//! A value of [`Config`] has passed every check, so the rest of the program never asks again whether a limit makes sense,
//! a pool exists, or a handler's file is there. Defaults are filled in, relative paths are absolute, `0 = one per core`
//! is a number.

mod types;

pub use types::{
    Admin, Config, Files, Listen, Log, LogFormat, LogRotation, Pool, PoolRoute, Recycle, Respond, Retry,
    Route, Runtime, Server, Target, Worker, Workers,
};
