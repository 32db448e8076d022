//! A run from several machines: agents wait for work, a controller gives each its share and adds up what comes back. They speak JSON, an
//! object a line, over TCP: [`wire`]. An agent runs what a list of options permits ([`words`]) in its own process: no shell, no command, no
//! file is within an order's reach.

pub(crate) mod agent;
pub(crate) mod controller;
mod wire;
mod words;

use std::{io, time::Duration};

/// Most agents of a run.
const AGENTS_MAX: usize = 64;
/// How long a side may be silent before it counts as gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How often each side says something.
const BEAT: Duration = Duration::from_millis(500);
/// How long an agent may take until it is ready.
const READY_MAX: Duration = Duration::from_secs(30);
/// How long a line may take to be taken by the other side.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// Why a run from several machines failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// Nothing came about.
    #[error("agent {agent} cannot be reached")]
    Unreachable {
        agent: String,
        #[source]
        source: io::Error,
    },
    /// It said so itself.
    #[error("agent {agent} says: {why}")]
    Refused { agent: String, why: String },
    /// It is not there any more, or says nothing.
    #[error("agent {agent} has failed")]
    Lost {
        agent: String,
        #[source]
        source: wire::WireError,
    },
    /// What it says is out of turn.
    #[error("agent {agent} does not speak as an agent of this version does")]
    Confused { agent: String },
}
