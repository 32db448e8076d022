//! The configuration: `forebay.toml` in, a validated [`Config`] out.
//!
//! There are three steps, each finding its own kind of mistakes. `read`, driven by the table in `keys`, turns text into fields of the right
//! kind and within their bounds. `include` adds other files. `build` checks what depends on several keys, on files, or on programs. The
//! result is made of the `types`. A value of [`Config`] has passed every check, so the rest of the program never asks again whether a limit
//! makes sense, a pool exists, or a handler's file is there. Defaults are filled in, relative paths are absolute, and `0 = one per core` is
//! a number.

mod build;
mod error;
mod fields;
mod include;
mod keys;
mod listen;
mod network;
mod places;
mod print;
mod python;
mod read;
mod reference;
mod runtime;
mod secret;
mod substitute;
mod types;
mod units;

use std::io::Read;
use std::path::Path;

pub use self::network::{Network, NetworkError};
pub(crate) use build::is_level_list;
pub use error::{ConfigError, Problem};
pub use forebay_runtimes::{Environment, Runtime};
pub use listen::{Listen, ListenError};
use places::Places;
pub use reference::{reference, schema};
pub use secret::Secret;
pub(crate) use types::PathKind;
pub use types::{
    Access, Admin, Certificate, Compat, Compress, Config, Cors, Durability, Files, ForwardedField, Interface,
    KafkaCluster, Link, Log, LogFormat, LogRotation, MailServer, Permission, Pool, PoolRoute, Protocol,
    Proxy, ProxyRoute, PythonApplication, PythonModule, Recycle, Respond, Retry, Route, S3Bucket, Script,
    ScriptAllow, ScriptPlacement, Server, SqlResult, SqlRoute, SqlStatement, Store, StoreMode, Target, Trace,
    TrustedProxies, Worker, Workers, Workflow, WorkflowApi, WorkflowClient, WorkflowRoute, WorkflowScene,
    WorkflowSource,
};
pub(crate) use units::{parse_duration, print_duration};

/// Largest configuration file, in bytes.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

impl Config {
    /// Reads and validates a file in this process's environment.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::load_in(file, &Environment::current())
    }

    /// Reads and validates a file in the given environment.
    pub fn load_in(file: &Path, environment: &Environment<'_>) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable {
            file: file.to_owned(),
            source,
        };
        let text = read_bounded(file).map_err(unreadable)?;
        let absolute = std::path::absolute(file).map_err(unreadable)?;
        Self::parse(&text, &absolute, environment)
    }

    /// Validates a text as the content of `file`, an absolute path to whose folder relative paths refer. Included files are read.
    pub fn parse(text: &str, file: &Path, environment: &Environment<'_>) -> Result<Self, ConfigError> {
        let mut places = Places::new(file, text);
        let built = read::read(text, 0, environment.env)
            .and_then(|sections| include::include(sections, &mut places, environment.env))
            .and_then(|sections| build::build(&sections, file, &places, environment));
        match built {
            Ok(config) => Ok(Self {
                included: places.included(),
                ..config
            }),
            Err(noted) => Err(ConfigError::Invalid {
                problems: places.told(noted),
            }),
        }
    }
}

fn read_bounded(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(file)?
        .take(CONFIG_BYTES_MAX + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > CONFIG_BYTES_MAX {
        let message = format!("it is larger than {CONFIG_BYTES_MAX} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}
