//! What a script is, what it may use, and what it may reach.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{counts::Counts, fetch_host::FetchHost};

/// A script.
#[derive(Debug)]
pub struct Options {
    /// Its name in the log.
    pub name: String,
    /// What runs in its engines.
    pub program: Program,
    /// What it may use.
    pub limits: Limits,
    /// What it may reach.
    pub allow: Allow,
    /// The store, where there is one.
    pub store: Option<StoreOptions>,
    /// The SDK, and what makes JavaScript of TypeScript.
    pub environment: ScriptEnvironment,
    /// Where it is counted: those of its name.
    pub counts: Arc<Counts>,
}

impl Options {
    /// As errors name it.
    pub(crate) fn subject(&self) -> String {
        match self.program {
            Program::Handler { .. } => format!("script `{}`", self.name),
            Program::Rules => "`[workflow]`".to_owned(),
        }
    }
}

/// What runs in the engines of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A module that answers requests.
    Handler {
        /// Absolute, and below `modules`.
        file: PathBuf,
        /// The folder whose files, and those below it, may be imported; absolute.
        modules: PathBuf,
    },
    /// Rules. Each call says which, by its course, and no other call has its engine until it is over.
    Rules,
}

impl Program {
    /// The module that answers requests.
    pub fn handler(&self) -> Option<&Path> {
        match self {
            Self::Handler { file, .. } => Some(file),
            Self::Rules => None,
        }
    }
}

/// What a script may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time on an I/O thread, where others wait for it.
    pub io_cpu_max: Duration,
    /// Time of the processor for one call on an executor.
    pub cpu_max: Duration,
    /// From the start of a call to its answer, waiting included.
    pub time_max: Duration,
    /// Memory of one engine, in bytes.
    pub memory_max: usize,
    /// Longest answer, in bytes.
    pub output_max: usize,
    /// Most calls at a time, those included that wait for an executor.
    pub in_flight_max: usize,
    /// Most bytes of the requests of these calls.
    pub queue_bytes_max: usize,
    /// Most executor threads.
    pub executors: usize,
    /// Most engines of an executor thread.
    pub engines_max: usize,
    /// Whether each call has an engine of its own, and executors do all of them.
    pub isolated: bool,
    /// From the start of a fetch to the end of what answers it.
    pub fetch_time_max: Duration,
    /// Longest answer to a fetch, in bytes.
    pub fetch_bytes_max: usize,
    /// Most fetches of a call.
    pub fetches_max: u32,
}

/// What a script may reach; nothing that is not named.
#[derive(Clone, Debug, Default)]
pub struct Allow {
    /// Globals of the store; `*` is all.
    pub store: Vec<String>,
    /// Hosts that may be fetched from.
    pub fetch: Vec<FetchHost>,
    /// Databases, by their names.
    pub sql: Arc<BTreeMap<String, forebay_pg::Source>>,
    /// Other systems, which rules alone reach.
    pub clients: Arc<forebay_clients::Options>,
    /// Folders whose files may be used, and all that is in them; absolute. A path that begins with none of them leads into the first.
    pub files: Vec<PathBuf>,
}

impl Allow {
    /// Whether a global of the store may be reached.
    pub fn global(&self, name: &[u8]) -> bool {
        self.store
            .iter()
            .any(|allowed| allowed == "*" || allowed.as_bytes() == name)
    }

    /// Whether every global may be reached.
    pub fn all_globals(&self) -> bool {
        self.store.iter().any(|allowed| allowed == "*")
    }
}

/// The store as the server has opened it.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Its folder.
    pub folder: PathBuf,
    /// As it was opened.
    pub options: forebay_store::Options,
    /// Settings of records, as `forebay_records::Settings` writes them.
    pub records: String,
}

/// What surrounds every script.
#[derive(Clone, Copy)]
pub struct ScriptEnvironment {
    /// Gives a file of the SDK by its path in the package, such as `dist/index.js`.
    pub sdk: fn(&str) -> Option<&'static [u8]>,
    /// Makes JavaScript of TypeScript, every line and column kept; an error says what stands in the way.
    pub erase_types: fn(&str, &Path) -> Result<String, String>,
}

impl fmt::Debug for ScriptEnvironment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Surroundings").finish_non_exhaustive()
    }
}
