//! The runtimes that run handlers: where they are installed, the SDKs embedded in the binary for them, and the command lines of their
//! workers. Used by everything that starts pools: the server for its routes, and `forebay bench`.

#![forbid(unsafe_code)]

mod javascript;
mod python;
mod sdk;
mod surroundings;

pub use javascript::{Runtime, RuntimeError, find_runtime};
pub use python::{PythonError, find_python};
pub use sdk::{Launch, Sdk, SdkError, sdk_file};
pub use surroundings::{Surroundings, is_executable};

/// Environment variables passed to every worker if they are set.
pub const ENV_PASSED: [&str; 3] = ["PATH", "HOME", "LANG"];
