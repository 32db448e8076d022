//! What the server tells of a profile.

use serde::Deserialize;

/// The runtime of the server itself.
const NATIVE: &str = "native";

#[derive(Debug, Deserialize)]
pub(super) struct Report {
    /// The names of the routes that were meant.
    pub(super) routes: Vec<String>,
    /// The server first.
    pub(super) processes: Vec<Process>,
    pub(super) unseen: Vec<UnprofiledWorker>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) runtime: String,
    pub(super) stacks: Vec<Stack>,
    /// Time whose stacks found no room.
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
pub(super) struct UnprofiledWorker {
    pub(super) pool: String,
    pub(super) worker: u64,
    pub(super) pid: u32,
    pub(super) runtime: String,
    pub(super) why: String,
}

impl Report {
    /// Takes control characters away from what processes have said: it goes to a terminal.
    pub(super) fn tidy(&mut self) {
        for process in &mut self.processes {
            tidy(&mut process.runtime);
            for frame in process.stacks.iter_mut().flat_map(|stack| &mut stack.frames) {
                tidy(frame);
            }
        }
        for unseen in &mut self.unseen {
            tidy(&mut unseen.runtime);
            tidy(&mut unseen.why);
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

fn tidy(text: &mut String) {
    text.retain(|letter| !letter.is_control());
}

impl Process {
    /// All time that was seen: CPU time of the server; of a worker, whose profiler goes by the clock, that in which its thread was not idle.
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
        let (runtime, time) = match self.runtime.as_str() {
            NATIVE => (String::new(), "of CPU time"),
            runtime => (format!(" ({runtime})"), "not idle"),
        };
        format!(
            "{}{runtime}, process {}: {:.2} s {time}",
            self.name,
            self.pid,
            self.us() as f64 / 1e6
        )
    }
}

impl UnprofiledWorker {
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

#[cfg(test)]
mod tests {
    use super::super::functions::tests::report;

    #[test]
    fn what_processes_say_of_themselves_reaches_no_terminal_with_control_characters() {
        let mut report = report();
        let process = &mut report.processes[1];
        process.runtime = "node\u{1b}]0;title\u{7}/22".to_owned();
        process.stacks[0].frames[0] = "a\u{1b}[2J\n".to_owned();
        report.unseen[0].runtime = "b\u{9b}un".to_owned();
        report.unseen[0].why = "no\r\u{1b}[1A".to_owned();
        report.tidy();
        assert_eq!(report.processes[1].runtime, "node]0;title/22");
        assert_eq!(report.processes[1].stacks[0].frames, ["a[2J"]);
        assert_eq!(
            report.unseen[0].text(),
            "worker 1 of pool q (bun), process 4, is not profiled: no[1A"
        );
    }
}
