//! The HTTP server: sockets, routes, configuration, and a thin adapter for each target.

#![forbid(unsafe_code)]

mod admin;
mod app;
mod auth;
mod calls;
mod check;
mod compression;
mod conditions;
mod control;
pub mod doctor;
mod failure;
mod front;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod jobs;
pub mod logging;
mod metrics;
mod openapi;
mod otlp;
mod policy;
mod privileges;
mod profiles;
mod reload;
mod reply;
mod route;
mod server;
mod service_manager;
mod sockets;
mod sources;
mod store;
mod target;
mod traces;
mod upgrade;
mod watch;

pub use app::{
    BuildError, CheckedConfinement, NotConfined, Role, check_confinements, development_certificate,
};
pub use auth::{AuthError, check_keys};
pub use check::{
    CheckedStatements, HandlerFaults, ScriptFaults, check_body_schemas, check_certificates, check_handlers,
    check_scripts, check_statements, check_workflows,
};
pub use forebay_auth::PasswordHash;
pub use forebay_config as config;
pub use forebay_pool::guard;
pub use forebay_runtimes::SdkError;
pub use forebay_workflow::SourceParser;
pub use openapi::{OpenApiError, openapi};
pub use privileges::PrivilegeError;
pub use reload::{LoadError, PoolStartError, Reload};
pub use server::{RunError, Server, StartError, StartupResources};
pub use sockets::SocketError;
pub use store::StoreOpenError;
pub use target::{files, workflow};
pub use upgrade::{Predecessor, PredecessorError};
