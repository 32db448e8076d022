//! Options of a script: its program, its limits, and what it may access.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{counts::Counts, fetch_host::FetchHost};

/// All options of a script.
#[derive(Debug)]
pub struct Options {
    /// The name of the script, for the log.
    pub name: String,
    /// The handler or rules to run.
    pub program: Program,
    /// Limits on time, memory, calls and threads.
    pub limits: Limits,
    /// Resources that the script may access.
    pub allow: Allow,
    /// Whether the clients of rules block the rule until there is a result, as in Rengine. Otherwise their methods return promises.
    pub blocks_rules: bool,
    /// The time that rules find, in milliseconds since 1970 UTC; `None`: the current time.
    pub rules_now_ms: Option<u64>,
    /// The store, if there is one.
    pub store: Option<StoreOptions>,
    /// The SDK, and what makes JavaScript of TypeScript.
    pub environment: ScriptEnvironment,
    /// Where it is counted: those of its name.
    pub counts: Arc<Counts>,
}

impl Options {
    /// Longest time to load the program, and the limit's name.
    pub(crate) fn load_max(&self) -> (Duration, &'static str) {
        match self.program {
            Program::Handler { .. } => (self.limits.time_max, "time_max"),
            Program::Rules => (RULES_LOAD_MAX, "for the SDK of rules"),
        }
    }

    /// The script's name for error messages.
    pub(crate) fn subject(&self) -> String {
        match self.program {
            Program::Handler { .. } => format!("script `{}`", self.name),
            Program::Rules => "`[workflow]`".to_owned(),
        }
    }
}

/// Longest time to load what surrounds rules, which is the same for all and has nothing to do with how long a run may take.
const RULES_LOAD_MAX: Duration = Duration::from_secs(10);

/// The program of a script's engines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A module that answers requests.
    Handler {
        /// Path of the module; absolute, and below `modules`.
        file: PathBuf,
        /// Absolute path of the folder from which modules may be imported, subfolders included.
        modules: PathBuf,
    },
    /// Rules. The driver of each call chooses them, and each call has an engine to itself until it is over.
    Rules,
}

impl Program {
    /// The path of the handler module, if this is a handler.
    pub fn handler(&self) -> Option<&Path> {
        match self {
            Self::Handler { file, .. } => Some(file),
            Self::Rules => None,
        }
    }
}

/// Limits of a script.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time limit per call on an I/O thread, which others wait for.
    pub io_cpu_max: Duration,
    /// CPU time limit per call on an executor.
    pub cpu_max: Duration,
    /// Time limit from the start of a call to its answer, waiting included.
    pub time_max: Duration,
    /// Memory limit of one engine in bytes.
    pub memory_max: usize,
    /// Maximum size of an answer in bytes.
    pub output_max: usize,
    /// Maximum number of calls in flight, including those that wait for an executor.
    pub in_flight_max: usize,
    /// Maximum total size of the requests of these calls.
    pub queue_bytes_max: usize,
    /// Maximum number of executor threads.
    pub executors: usize,
    /// Maximum number of engines per executor thread.
    pub engines_max: usize,
    /// Whether each call gets an engine of its own. All calls then run on executors.
    pub isolated: bool,
    /// Time limit from the start of a fetch to the end of its response.
    pub fetch_time_max: Duration,
    /// Maximum size of a response to a fetch in bytes.
    pub fetch_bytes_max: usize,
    /// Maximum number of fetches per call.
    pub fetches_max: u32,
}

/// Resources that a script may access. Everything that is not named is denied.
#[derive(Clone, Debug, Default)]
pub struct Allow {
    /// Globals of the store; `*` means all.
    pub store: Vec<String>,
    /// Hosts that it may fetch from.
    pub fetch: Vec<FetchHost>,
    /// Databases by name.
    pub sql: Arc<BTreeMap<String, forebay_pg::Source>>,
    /// Other systems, available only to rules.
    pub clients: Arc<forebay_clients::Options>,
    /// Absolute paths of folders whose files may be used, subfolders included. A path that begins with none of them is relative to the
    /// first.
    pub files: Vec<PathBuf>,
}

impl Allow {
    /// Whether a global of the store may be accessed.
    pub fn global(&self, name: &[u8]) -> bool {
        self.store
            .iter()
            .any(|allowed| allowed == "*" || allowed.as_bytes() == name)
    }

    /// Whether all globals may be accessed.
    pub fn all_globals(&self) -> bool {
        self.store.iter().any(|allowed| allowed == "*")
    }
}

/// The store as the server has opened it.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The folder of the store.
    pub folder: PathBuf,
    /// The options with which it was opened.
    pub options: forebay_store::Options,
    /// Settings of records, in the format of `forebay_records::Settings`.
    pub records: String,
}

/// The environment of all scripts.
#[derive(Clone, Copy)]
pub struct ScriptEnvironment {
    /// Gives a file of the SDK by its path in the package, such as `dist/index.js`.
    pub sdk: fn(&str) -> Option<&'static [u8]>,
    /// Converts TypeScript to JavaScript, keeping every line and column. The error says what cannot be converted.
    pub erase_types: fn(&str, &Path) -> Result<String, String>,
}

impl fmt::Debug for ScriptEnvironment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Surroundings").finish_non_exhaustive()
    }
}
