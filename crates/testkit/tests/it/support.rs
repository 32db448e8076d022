//! Shared setup of the tests of several subjects.

use std::time::{Duration, Instant};

use forebay_testkit::{Process, Server, Setup, wait_for, wait_until};

/// A handler with everything that the pool tests need of one.
pub(crate) const TOOLBOX: &str = include_str!("handlers/toolbox.mjs");

/// One worker, so that events have a fixed order.
pub(crate) const ONE_WORKER: &str = "workers = { min = 1, max = 1 }";

/// A runtime for handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runtime {
    Node,
    Bun,
}

impl Runtime {
    pub(crate) const BOTH: [Self; 2] = [Self::Node, Self::Bun];

    /// A pool `api` of one module at every path, with further keys; beside it `/here`, answered without a worker.
    pub(crate) fn pool(self, source: &str, keys: &str) -> Setup {
        let runtime = match self {
            Self::Node => "node",
            Self::Bun => "bun",
        };
        Setup::new(&format!(
            "[pool.api]\nhandler = \"api.mjs\"\nruntime = \"{runtime}\"\n{keys}\n[[route]]\npath = \"/*\"\npool = \"api\"\n\
             [[route]]\npath = \"/here\"\nrespond = {{ text = \"here\" }}\n"
        ))
        .file("api.mjs", source)
    }
}

/// A Node pool; see [`Runtime::pool`].
pub(crate) fn node(source: &str, keys: &str) -> Setup {
    Runtime::Node.pool(source, keys)
}

/// A pool `fake` of fake workers that start in this way, at every path; beside it `/here`, answered without a worker.
pub(crate) fn fake(start: &str, keys: &str) -> Setup {
    let program = env!("CARGO_BIN_EXE_fake-worker");
    Setup::new(&format!(
        "[pool.fake]\ncommand = [\"{program}\", \"{start}\"]\n{keys}\n[[route]]\npath = \"/*\"\npool = \"fake\"\n\
         [[route]]\npath = \"/here\"\nrespond = {{ text = \"here\" }}\n"
    ))
}

/// Whether the long runs are enabled: `FOREBAY_SOAK=1`.
pub(crate) fn soak() -> bool {
    std::env::var_os("FOREBAY_SOAK").is_some_and(|value| value == "1")
}

/// Waits until the toolbox responds, for tests whose limits are shorter than a worker's start.
pub(crate) fn wait_until_ready(server: &Server) {
    wait_until("the pool to answer", || server.get("/pid").status == 200);
}

/// Panics unless a limit has passed since `begun`, but not much more, however busy the machine is.
pub(crate) fn assert_took(begun: Instant, limit: Duration) {
    let took = begun.elapsed();
    assert!(took >= limit, "the limit is {limit:?}, it took {took:?}");
    assert!(
        took < limit + Duration::from_secs(8),
        "the limit is {limit:?}, it took {took:?}"
    );
}

/// The notes of the toolbox, line by line.
pub(crate) fn noted(server: &Server) -> Vec<String> {
    server
        .folder()
        .read("ran")
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Waits until the toolbox has noted this line.
pub(crate) fn wait_for_note(server: &Server, line: &str) {
    wait_until(&format!("the note {line:?}"), || {
        noted(server).iter().any(|noted| noted == line)
    });
}

/// The process that a worker has started and noted.
pub(crate) fn noted_child(server: &Server) -> Process {
    let pid = wait_for("the worker's child", || {
        noted(server)
            .iter()
            .find_map(|line| line.strip_prefix("child ")?.parse().ok())
    });
    Process::with_pid(pid).expect("the child runs")
}

/// Opens a gate of the toolbox.
pub(crate) fn open(server: &Server, gate: &str) {
    server.folder().write(gate, "");
}

/// The value of one counter series of `/metrics`; 0 when there is none.
pub(crate) fn metric(server: &Server, series: &str) -> u64 {
    let metrics = server.admin().get("/metrics");
    let value = metrics
        .text()
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().expect("a whole number"))
}
