//! What is measured, and how.

use std::{path::PathBuf, time::Duration};

use forebay_runtimes::Runtime;

/// Most messages without a reply: each costs memory, and blocks wait while there are so many.
pub const OUTSTANDING_MAX: usize = 1_000_000;
/// Most workers of a pool.
pub const WORKERS_MAX: usize = 1024;
/// Longest text of a message.
pub const PAYLOAD_MAX: usize = 16 * 1024 * 1024;
/// Longest delay between two blocks.
pub const DELAY_MAX: Duration = Duration::from_mins(1);
/// The sizes that are tried when the best one is looked for.
pub const SWEEP: [usize; 7] = [1, 2, 4, 8, 12, 16, 24];

/// What workers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// JavaScript, in one of its runtimes.
    JavaScript(Runtime),
    /// Python.
    Python,
}

impl Language {
    /// As in `--runtime node`.
    pub fn name(self) -> &'static str {
        match self {
            Self::JavaScript(runtime) => runtime.name(),
            Self::Python => "python",
        }
    }
}

/// What workers are, for pools that have both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Processes.
    Process,
    /// Threads of the dispatcher's process.
    Thread,
}

impl Kind {
    /// As in `--kind process`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Thread => "thread",
        }
    }
}

/// Pools of others, by the names of their packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the package of its name")]
pub enum Peer {
    Qoper8Cp,
    Qoper8Wt,
    Piscina,
    Tinypool,
    Workerpool,
    /// Node's channel to child processes, as `cluster` uses it.
    Ipc,
}

impl Peer {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Qoper8Cp,
        Self::Qoper8Wt,
        Self::Piscina,
        Self::Tinypool,
        Self::Workerpool,
        Self::Ipc,
    ];

    /// As in `--peers piscina`.
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

    /// The version that figures are quoted for; none needs no package. `bench/peers/package.json` pins the same.
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

    /// Whether it answers in a runtime: workers of workerpool never become ready in Bun (1.4.4).
    pub fn works_in(self, runtime: Runtime) -> bool {
        !(self == Self::Workerpool && runtime == Runtime::Bun)
    }

    /// What its workers are where it has only one kind.
    fn only(self) -> Option<Kind> {
        match self {
            Self::Qoper8Cp | Self::Ipc => Some(Kind::Process),
            Self::Qoper8Wt | Self::Piscina => Some(Kind::Thread),
            Self::Tinypool | Self::Workerpool => None,
        }
    }
}

/// Whose pool is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// The server's, driven in this process.
    Server(Language),
    /// The library's, `forebay/pool`.
    Library(Runtime, Kind),
    /// Somebody else's; where it has threads and processes, the faster one.
    Peer(Runtime, Peer),
    /// None: the driver answers itself, and what it costs is the floor under the figures of the others.
    Nothing(Runtime),
}

impl Contender {
    /// What a report calls it.
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

    /// What its workers are.
    pub fn kind(self) -> Kind {
        match self {
            Self::Server(_) | Self::Nothing(_) => Kind::Process,
            Self::Library(_, kind) => kind,
            Self::Peer(_, peer) => peer.only().unwrap_or(Kind::Thread),
        }
    }

    /// Whether it is the driver alone.
    pub fn is_nobody(self) -> bool {
        matches!(self, Self::Nothing(_))
    }

    /// Whether it is ours.
    pub fn is_own(self) -> bool {
        matches!(self, Self::Server(_) | Self::Library(..))
    }
}

/// When messages are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// As replies come: at most so many are without one.
    Saturating {
        /// That many.
        outstanding: usize,
    },
    /// In blocks.
    Blocks {
        /// The delay between two of them, in whole milliseconds.
        delay: Duration,
        /// Whether it follows the queue.
        adaptive: bool,
    },
}

/// One measurement, whoever's pool it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Messages that are measured.
    pub messages: u64,
    /// Messages before them.
    pub warmup: u64,
    /// Messages of a block.
    pub block: usize,
    /// When they are submitted.
    pub load: Load,
    /// Bytes of text in each.
    pub payload: usize,
    /// The file whose handler answers, absolute; none: it only counts.
    pub handler: Option<PathBuf>,
    /// Messages that a worker has at a time; none: as many as its pool does best with.
    pub in_flight: Option<u16>,
    /// No reply for so long ends the measurement with an error.
    pub deadline: Duration,
    /// The current folder, in which workers run.
    pub folder: PathBuf,
    /// Where `node_modules` with the packages of others is, or above.
    pub packages: PathBuf,
}

impl Plan {
    /// What the driver alone is measured by: short runs would show how long JavaScript takes to become fast, not what it costs then.
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

/// Messages of a measurement of the driver alone, at least: a fifth of a second.
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
