//! The server's log: `tracing` events as readable lines or as JSON, on standard error or in a rotated file.
//!
//! A logging thread only copies its line into a bounded buffer; one thread does all the writing. If lines are produced faster than they can
//! be written, the newest are dropped and counted, and the log reports their number. Standard output is never written to.

mod access;
mod file;
mod line;
mod recent;
mod workflows;
mod writer;

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    str::FromStr,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tracing_subscriber::{Registry, filter::Targets, layer::SubscriberExt, reload};

pub use self::line::readable;
pub(crate) use self::{
    access::{ACCESS_TARGET, Access, AccessLog},
    line::Members,
    recent::{Entry, Feed, Missed, Recent},
    workflows::WorkflowLogs,
};
use self::{
    file::RotatingFile,
    line::{Form, Lines},
    writer::{Output, Writer},
};
use crate::{
    config::{self, LogFormat},
    otlp::{Exporter, LOG_BYTES_MAX},
    traces::TracedRequests,
};

/// The log cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The log file cannot be opened.
    #[error("cannot open the log `{}` (log.file)", .file.display())]
    File {
        /// The path of the log file.
        file: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The writer thread cannot be started.
    #[error("cannot start the thread that writes the log")]
    Thread(#[source] io::Error),
    /// A log is already set up in this process.
    #[error("a log is set up already")]
    Again,
}

/// A text is not a valid log level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {found:?}, expected one of error, warn, info, debug, trace, off, or a list such as \"info,forebay::pool=debug\""
)]
pub struct LevelError {
    /// The text found.
    pub found: String,
}

/// The running log. Keep it until the end of the program: dropping it writes what is left, for at most a second.
#[derive(Debug)]
pub struct Logging {
    handle: Handle,
}

/// The queue of lines for a collector.
pub(crate) type LogExporter = Exporter<Arc<Entry>>;

/// A handle to the log for the rest of the program.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    writer: Writer,
    recent: Recent,
    form: Form,
    filter: reload::Handle<Targets, Registry>,
    level: Mutex<String>,
    /// Set if requests are traced for a collector.
    traced_requests: OnceLock<Arc<TracedRequests>>,
}

/// Sets up the process's log as configured in `[log]`.
pub fn init(log: &config::Log) -> Result<Logging, LoggingError> {
    let (logging, subscriber) = start(log)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LoggingError::Again)?;
    Ok(logging)
}

/// Whether a terminal takes colour: `NO_COLOR` (no-color.org) is unset or empty.
pub fn colour_is_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn start(
    log: &config::Log,
) -> Result<(Logging, impl tracing::Subscriber + Send + Sync + use<>), LoggingError> {
    let terminal = log.file.is_none() && io::stderr().is_terminal();
    let colour = terminal && colour_is_wanted();
    let form = match log.format {
        LogFormat::Text => Form::Text { colour },
        LogFormat::Auto if terminal => Form::Text { colour },
        LogFormat::Auto | LogFormat::Json => Form::Json,
    };
    let output = match &log.file {
        None => Output::Stderr,
        Some(path) => {
            Output::File(
                RotatingFile::open(path, log.rotate).map_err(|source| LoggingError::File {
                    file: path.clone(),
                    source,
                })?,
            )
        }
    };
    let writer = Writer::start(output).map_err(LoggingError::Thread)?;
    let targets = parse_level(&log.level).expect("the configuration was checked");
    let (filter, filter_handle) = reload::Layer::new(targets);
    let shared = Arc::new(Shared {
        writer,
        recent: Recent::default(),
        form,
        filter: filter_handle,
        level: Mutex::new(log.level.clone()),
        traced_requests: OnceLock::new(),
    });
    let handle = Handle { shared };
    let subscriber = Registry::default().with(filter).with(Lines::new(handle.clone()));
    Ok((Logging { handle }, subscriber))
}

fn parse_level(text: &str) -> Result<Targets, LevelError> {
    let error = || LevelError {
        found: text.to_owned(),
    };
    if !config::is_level_list(text) {
        return Err(error());
    }
    // The cluster logs the state of its connection itself.
    Targets::from_str(&format!("async_nats=off,{text}")).map_err(|_| error())
}

impl Logging {
    /// A handle for the server.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.handle.shared.writer.close();
    }
}

impl Handle {
    /// The current level, as it was set.
    pub fn level(&self) -> String {
        self.shared.level.lock().clone()
    }

    /// Changes what is logged from now on: a level, or a list in the format of `log.level`.
    pub fn set_level(&self, level: &str) -> Result<(), LevelError> {
        let targets = parse_level(level)?;
        let mut current = self.shared.level.lock();
        level.clone_into(&mut current);
        // This fails only if the subscriber is gone, and with it everything that could log.
        let _ = self.shared.filter.reload(targets);
        Ok(())
    }

    /// Reopens the log file, which may have been renamed. Earlier lines go to the old one.
    pub(crate) fn reopen(&self) {
        self.shared.writer.reopen();
    }

    /// Lines dropped because they came faster than they could be written.
    pub fn lines_lost(&self) -> u64 {
        self.shared.writer.lost()
    }

    /// The most recent events.
    pub(crate) fn recent(&self) -> &Recent {
        &self.shared.recent
    }

    /// The writer of access log entries.
    pub(crate) fn access_log(&self, exporter: Option<Arc<LogExporter>>) -> AccessLog {
        AccessLog::new(self.clone(), exporter)
    }

    /// Has lines that name a traced request name its trace, too.
    pub(crate) fn name_traces_of(&self, requests: Arc<TracedRequests>) {
        // One process has one server; a second one in a test does not trace.
        let _ = self.shared.traced_requests.set(requests);
    }

    /// Exports the events of the last moments and all that follow to a collector, if the configuration says so.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub(crate) fn export(&self, trace: Option<&config::Trace>) -> Option<Arc<LogExporter>> {
        let exporter = Exporter::start(trace.filter(|trace| trace.logs)?, LOG_BYTES_MAX);
        self.shared.recent.export_to(&exporter);
        Some(exporter)
    }
}
