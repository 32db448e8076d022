//! The configuration: `forebay.toml` in, a validated [`Config`] out.
//!
//! A key is declared once, as the field of a struct in the file of its section (`server`, `pool`, `route` and so on; `section` says how).
//! The declaration drives reader, printer, JSON Schema, reference, and the suggestions for misspelt keys.
//!
//! There are three steps, each finding its own kind of mistakes. `read` turns text into `fields` of the right kind and within their bounds.
//! `include` adds other files. `build` makes sections of them and checks what depends on several keys, on files, or on programs. A value of
//! [`Config`] has passed every check, so the rest of the program never asks again whether a limit makes sense, a pool exists, or a handler's
//! file is there. Defaults are filled in, relative paths are absolute, and `0 = one per core` is a number.

#![forbid(unsafe_code)]

mod auth;
mod build;
mod clients;
mod cluster;
mod confine;
mod content_type;
mod error;
mod fields;
mod headers;
mod include;
mod key;
mod listen;
mod network;
pub mod node_path;
mod openapi;
mod places;
mod policy;
mod pool;
mod print;
mod proxy;
mod python;
mod read;
mod redirect;
mod reference;
mod route;
mod runtime;
mod script;
mod secret;
mod section;
mod server;
mod setting;
mod sql;
mod store;
mod substitute;
mod tls;
mod trace;
mod units;
mod workflow;

use std::io::Read;
use std::path::Path;

pub use auth::{ApiKeyAuth, Auth, CertificateAuth, JwtAuth, LoginPath, OidcAuth, TokenAuth, UserAuth};
pub use build::Config;
pub use clients::{KafkaCluster, MailServer, S3Bucket};
pub use confine::Confine;
pub use content_type::content_type_of;
pub use error::{ConfigError, Problem};
pub use forebay_cluster::Options as Cluster;
pub use forebay_runtimes::{Environment, Runtime};
pub use forebay_workflow::{WorkflowApi, WorkflowRoute, WorkflowScene};
pub use headers::RequestHeaders;
pub use listen::{Listen, ListenError, is_loopback};
pub use network::{Network, NetworkError, TrustedProxies};
pub use openapi::{OpenApi, RouteDoc};
use places::Places;
pub use policy::{
    AuthRequirement, Cache, ClientKey, ErrorPages, Policy, RateLimit, RateLimitError, Statuses,
};
pub use pool::{
    At, Compat, EncodedSlashes, Interface, Link, Pool, Protocol, PythonApplication, PythonModule, Recycle,
    Retry, Sticky, StoreMode, WebSocket, Worker, Workers,
};
pub use proxy::Proxy;
pub use redirect::Redirect;
pub use reference::{reference, schema};
pub use route::{Cors, Durable, Files, PathKind, ProxyRoute, Respond, Route, Target};
pub use script::{FetchLimits, Script, ScriptAllow, ScriptPlacement};
pub use secret::Secret;
pub use server::{
    Admin, ClientAuthentication, Compress, ForwardedField, Log, LogFormat, LogRotation, Server, UnixMode,
    is_level_list,
};
pub use sql::{Database, SqlResult, SqlRoute, SqlStatement};
pub use store::{Access, Durability, Index, Permission, Records, RecordsDetect, Store, TimeZone};
pub use tls::Certificate;
pub use trace::Trace;
pub use units::{parse_duration, print_duration, print_size};
pub use workflow::{Workflow, WorkflowAllow, WorkflowClient, WorkflowCompat, WorkflowRuns, WorkflowSource};

/// The configuration file's usual name.
pub const CONFIG_FILE: &str = "forebay.toml";
/// Largest configuration file, in bytes.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// An application to be served without a configuration file.
#[derive(Debug)]
pub struct Application {
    /// The application, as the key `handler` of a pool names it.
    pub handler: String,
    /// Its runtime, as the key `runtime` names it.
    pub runtime: String,
    /// Environment variables that it gets; names that no pool may pass on are left out.
    pub env_pass: Vec<String>,
}

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

    /// The configuration of a single application: one pool of it at all paths, and the default listener. Relative paths refer to the working
    /// folder.
    pub fn of_application(
        application: &Application,
        environment: &Environment<'_>,
    ) -> Result<Self, ConfigError> {
        let Application {
            handler,
            runtime,
            env_pass,
        } = application;
        let text = format!(
            "[pool.app]\nhandler = {}\nruntime = {}\nenv_pass = {}\n\n[[route]]\npath = \"/*\"\npool = \"app\"\n",
            print::text(handler),
            print::text(runtime),
            print::texts(env_pass.iter().filter(|name| pool::can_pass(name))),
        );
        let refused = |reason| ConfigError::Application {
            application: handler.clone(),
            reason,
        };
        let file = std::path::absolute(CONFIG_FILE).map_err(|error| refused(error.to_string()))?;
        Self::parse(&text, &file, environment).map_err(|error| match error {
            ConfigError::Invalid { problems } => {
                let reasons: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
                refused(reasons.join("; "))
            }
            other => other,
        })
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

/// Whether a text can be the name of a header field or a method (RFC 9110, 5.6.2).
fn is_token(text: &[u8]) -> bool {
    http::HeaderName::from_bytes(text).is_ok()
}
