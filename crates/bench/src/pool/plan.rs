//! Contenders of a benchmark and the plan of a measurement.

use std::{path::PathBuf, time::Duration};

use forebay_runtimes::Runtime;

/// Most messages awaiting a reply. Each costs memory, so blocks are held back at this number.
pub const OUTSTANDING_MAX: usize = 1_000_000;
/// Most workers of a pool.
pub const WORKERS_MAX: usize = 1024;
/// Longest message text, in bytes.
pub const PAYLOAD_MAX: usize = 16 * 1024 * 1024;
/// Longest delay between two blocks.
pub const DELAY_MAX: Duration = Duration::from_mins(1);
/// Worker counts tried when looking for the best one.
pub const SWEEP: [usize; 7] = [1, 2, 4, 8, 12, 16, 24];

/// The language of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// JavaScript, in one of the supported runtimes.
    JavaScript(Runtime),
    /// Python, in the interpreter that is installed.
    Python,
}

impl Language {
    /// Its value on the command line, as in `--runtime node`.
    pub fn name(self) -> &'static str {
        match self {
            Self::JavaScript(runtime) => runtime.name(),
            Self::Python => "python",
        }
    }
}

/// Whether workers are processes or threads, for pools that offer both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Child processes of the dispatcher.
    Process,
    /// Threads of the dispatcher's process.
    Thread,
}

impl Kind {
    /// Its value on the command line, as in `--kind process`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Thread => "thread",
        }
    }
}

/// Pools by other projects, named after their packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the package of its name")]
pub enum Peer {
    Qoper8Cp,
    Qoper8Wt,
    Piscina,
    Tinypool,
    Workerpool,
    /// Node's IPC channel to child processes, as used by `cluster`.
    Ipc,
}

impl Peer {
    /// All peers.
    pub const ALL: [Self; 6] = [
        Self::Qoper8Cp,
        Self::Qoper8Wt,
        Self::Piscina,
        Self::Tinypool,
        Self::Workerpool,
        Self::Ipc,
    ];

    /// Its value on the command line, as in `--peers piscina`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qoper8Cp => "qoper8-cp",
            Self::Qoper8Wt => "qoper8-wt",
            Self::Piscina => "piscina",
            Self::Tinypool => "tinypool",
            Self::Workerpool => "workerpool",
            Self::Ipc => "ipc",
        }
    }

    /// The version for which figures are quoted; `None` if no package is needed. `bench/peers/package.json` pins the same versions.
    pub fn version(self) -> Option<&'static str> {
        match self {
            Self::Qoper8Cp => Some("5.3.1"),
            Self::Qoper8Wt => Some("6.0.5"),
            Self::Piscina => Some("5.3.2"),
            Self::Tinypool => Some("2.2.0"),
            Self::Workerpool => Some("10.0.3"),
            Self::Ipc => None,
        }
    }

    /// Whether it works in a runtime: workers of workerpool never become ready in Bun (1.4.4).
    pub fn works_in(self, runtime: Runtime) -> bool {
        !(self == Self::Workerpool && runtime == Runtime::Bun)
    }

    /// The only kind of workers this peer has, if it has only one.
    fn only(self) -> Option<Kind> {
        match self {
            Self::Qoper8Cp | Self::Ipc => Some(Kind::Process),
            Self::Qoper8Wt | Self::Piscina => Some(Kind::Thread),
            Self::Tinypool | Self::Workerpool => None,
        }
    }
}

/// The pool under measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// The server's pool, driven in this process.
    Server(Language),
    /// The SDK's pool, `forebay/pool`.
    Library(Runtime, Kind),
    /// Another project's pool; if it offers threads and processes, the faster one.
    Peer(Runtime, Peer),
    /// No pool: the driver answers itself. Its cost is the floor under the figures of the others.
    Nothing(Runtime),
}

impl Contender {
    /// The contender's name in reports.
    pub fn name(self) -> String {
        match self {
            Self::Server(language) => format!("forebay server, {}", language.name()),
            Self::Library(runtime, kind) => format!("forebay/pool, {} {}", runtime.name(), kind.name()),
            Self::Peer(runtime, peer) => {
                format!("{}, {} {}", peer.name(), runtime.name(), self.kind().name())
            }
            Self::Nothing(runtime) => format!("the driver alone, {}", runtime.name()),
        }
    }

    /// Whether its workers are processes or threads.
    pub fn kind(self) -> Kind {
        match self {
            Self::Server(_) | Self::Nothing(_) => Kind::Process,
            Self::Library(_, kind) => kind,
            Self::Peer(_, peer) => peer.only().unwrap_or(Kind::Thread),
        }
    }

    /// Whether there is no pool, only the driver.
    pub fn is_nobody(self) -> bool {
        matches!(self, Self::Nothing(_))
    }

    /// Whether the pool is one of ours.
    pub fn is_own(self) -> bool {
        matches!(self, Self::Server(_) | Self::Library(..))
    }
}

/// When messages are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A fixed number of messages is kept outstanding: each reply triggers the next submission.
    Saturating {
        /// Number of messages outstanding.
        outstanding: usize,
    },
    /// In blocks, at intervals.
    Blocks {
        /// Delay between two blocks, in whole milliseconds.
        delay: Duration,
        /// Whether the delay adapts to the queue.
        adaptive: bool,
    },
}

/// The settings of one measurement, for any contender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Measured messages, without the warm-up.
    pub messages: u64,
    /// Warm-up messages sent before them.
    pub warmup: u64,
    /// Messages per block.
    pub block: usize,
    /// When they are submitted.
    pub load: Load,
    /// Bytes of text in each message.
    pub payload: usize,
    /// Absolute path of the file with the handler; `None` for the built-in handler, which only counts.
    pub handler: Option<PathBuf>,
    /// Messages a worker is given at a time; `None` for what suits the pool best.
    pub in_flight: Option<u16>,
    /// Without any reply for this long, the measurement fails.
    pub deadline: Duration,
    /// The working directory of workers.
    pub folder: PathBuf,
    /// The folder to search for `node_modules` with the packages of peers, including the folders above.
    pub packages: PathBuf,
}

impl Plan {
    /// The plan for measuring the driver alone. Short runs would measure JavaScript before it is optimised rather than its steady cost.
    pub(crate) fn of_driver_alone(&self) -> Self {
        Self {
            messages: self.messages.max(ALONE),
            warmup: self.warmup.max(ALONE / 2),
            load: match self.load {
                Load::Saturating { .. } => self.load,
                Load::Blocks { .. } => Load::Saturating {
                    outstanding: self.block * 2,
                },
            },
            handler: None,
            ..self.clone()
        }
    }
}

/// Fewest messages when measuring the driver alone: about a fifth of a second.
const ALONE: u64 = 500_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_others_are_those_that_the_repository_pins() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/peers/package.json");
        let manifest: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        for peer in Peer::ALL {
            assert_eq!(
                peer.version(),
                manifest["dependencies"][peer.name()].as_str(),
                "{}",
                peer.name()
            );
        }
    }
}
