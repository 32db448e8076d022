//! Why a configuration cannot be turned into an app.

use std::path::PathBuf;

use forebay_router::RouterError;
use forebay_runtimes::SdkError;
use forebay_tls::CertificateError;
use forebay_workflow::ActiveReleasesError;

use super::NotConfined;
use crate::{auth::AuthError, check::HandlerFaults, logging::LoggingError};

/// A configuration could not be turned into an app.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Two routes match the same requests.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// A folder of static files cannot be opened.
    #[error("cannot open the folder of route `{route}`")]
    Folder {
        /// The route's path.
        route: String,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// An error page of a policy cannot be read.
    #[error("the error page `{}` cannot be read (policy.NAME.error_pages)", file.display())]
    ErrorPage {
        /// The page.
        file: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The keys of a token issuer cannot be read.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The JSON Schema of a route's bodies cannot be used.
    #[error("the schema `{}` cannot be used (route.body_schema): {why}", file.display())]
    BodySchema {
        /// The schema's file.
        file: PathBuf,
        /// The reason.
        why: String,
    },
    /// A script cannot be loaded.
    #[error("script `{script}` does not start")]
    Script {
        /// The script's name in the configuration.
        script: String,
        /// The script's failure.
        #[source]
        source: forebay_script::Failure,
    },
    /// Handlers of pools cannot be loaded.
    #[error(transparent)]
    Handlers(#[from] HandlerFaults),
    /// The graphs and rules of the workflows are invalid or unreadable.
    #[error("the workflows cannot be used")]
    Workflows(#[from] ActiveReleasesError),
    /// The log of workflow rules cannot be written.
    #[error("the workflows cannot log")]
    WorkflowLogs(#[source] LoggingError),
    /// The engines of the workflows failed to start.
    #[error("the workflows do not start")]
    WorkflowEngines(#[source] forebay_script::Failure),
    /// A thread for workers' calls cannot be started.
    #[error("cannot start a thread that answers calls of workers")]
    CallThread(#[source] std::io::Error),
    /// The authorities of a proxy's servers cannot be read.
    #[error("the authorities of proxy `{proxy}` (ca) cannot be used: {source}")]
    Authorities {
        /// The proxy's name in the configuration.
        proxy: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The thread for health checks cannot be started.
    #[error("cannot start the thread that checks the health of servers")]
    HealthChecks(#[source] std::io::Error),
    /// The SDK for workers cannot be unpacked.
    #[error(transparent)]
    Sdk(#[from] SdkError),
    /// The workers of a pool cannot be confined as the configuration says.
    #[error(transparent)]
    NotConfined(#[from] NotConfined),
}
