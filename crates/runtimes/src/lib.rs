//! The runtimes that run handlers: where they are installed, the SDKs that the binary carries for them, and the command lines of their
//! workers. Whoever starts a pool has them from here: the server for its routes, and what measures pools by themselves.

#![forbid(unsafe_code)]

mod javascript;
mod python;
mod sdk;
mod surroundings;

pub use javascript::{Runtime, RuntimeError, find_runtime};
pub use python::{PythonError, find_python};
pub use sdk::{Launch, Sdk, SdkError, sdk_file};
pub use surroundings::{Surroundings, is_executable};

/// Variables of the environment that every worker has, where they are set.
pub const ENV_PASSED: [&str; 3] = ["PATH", "HOME", "LANG"];
