//! The runtimes that run handlers: where they are installed, the SDKs embedded in the binary for them, and the command lines of their
//! workers. Used by everything that starts pools: the server for its routes, and `forebay bench`.

#![forbid(unsafe_code)]

mod environment;
mod javascript;
mod python;
mod sdk;

pub use environment::{Environment, is_executable};
pub use javascript::{Runtime, RuntimeError, find_runtime};
pub use python::{PythonError, find_python};
pub use sdk::{Launch, Sdk, SdkError, cache_folder, sdk_file};

/// Environment variables passed to every worker if they are set.
pub const ENV_PASSED: [&str; 3] = ["PATH", "HOME", "LANG"];
