//! What the server tells of a profile.

use serde::Deserialize;

/// The runtime of the server itself.
const NATIVE: &str = "native";

#[derive(Debug, Deserialize)]
pub(super) struct Told {
    /// The names of the routes that were meant.
    pub(super) routes: Vec<String>,
    /// The server first.
    pub(super) processes: Vec<Process>,
    pub(super) unseen: Vec<Unseen>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) runtime: String,
    pub(super) stacks: Vec<Stack>,
    /// CPU time whose stacks found no room.
    #[serde(default)]
    pub(super) left_out_us: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Stack {
    /// The outermost first.
    pub(super) frames: Vec<String>,
    pub(super) us: u64,
}

/// A worker that was not looked at.
#[derive(Debug, Deserialize)]
pub(super) struct Unseen {
    pub(super) pool: String,
    pub(super) worker: u64,
    pub(super) pid: u32,
    pub(super) runtime: String,
    pub(super) why: String,
}

impl Told {
    /// Takes away what stands in every name and tells nothing.
    pub(super) fn tidy(&mut self) {
        let stacks = self.processes.iter_mut().flat_map(|process| &mut process.stacks);
        for frame in stacks.flat_map(|stack| &mut stack.frames) {
            frame.retain(|letter| !letter.is_control());
        }
    }

    /// Requests that the routes have answered between two counts, and those that all have.
    pub(super) fn requests(&self, before: &[(String, u64)], after: &[(String, u64)]) -> (u64, u64) {
        let (mut of_routes, mut of_all) = (0, 0);
        for (name, count) in after {
            let earlier = before.iter().find(|(known, _)| known == name);
            let came = count.saturating_sub(earlier.map_or(0, |(_, count)| *count));
            of_all += came;
            if self.routes.contains(name) {
                of_routes += came;
            }
        }
        (of_routes, of_all)
    }
}

impl Process {
    /// All CPU time that was seen.
    pub(super) fn us(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.us).sum()
    }

    /// A stack without what is no function: that of a thread begins with its name.
    pub(super) fn functions<'s>(&self, stack: &'s Stack) -> &'s [String] {
        let first = usize::from(self.runtime == NATIVE).min(stack.frames.len());
        &stack.frames[first..]
    }

    /// Name, runtime and process, for a heading.
    pub(super) fn heading(&self) -> String {
        let runtime = match self.runtime.as_str() {
            NATIVE => String::new(),
            runtime => format!(" ({runtime})"),
        };
        format!(
            "{}{runtime}, process {}: {:.2} s of CPU time",
            self.name,
            self.pid,
            self.us() as f64 / 1e6
        )
    }
}

impl Unseen {
    pub(super) fn text(&self) -> String {
        let runtime = match self.runtime.as_str() {
            "" => String::new(),
            runtime => format!(" ({runtime})"),
        };
        format!(
            "worker {} of pool {}{runtime}, process {}, is not profiled: {}",
            self.worker, self.pool, self.pid, self.why
        )
    }
}
