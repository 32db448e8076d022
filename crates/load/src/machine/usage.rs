//! CPU time and memory used between two samples.

use serde::{Deserialize, Serialize};

use super::{Sample, process::Thread};

/// Prefix of the thread names of the generator's event loops.
const LOOP_NAMES: &str = "load-";

/// Resources that machine, generator and server used between two samples. Shares are from 0 to 1; `None` where the system does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Time between the samples.
    pub seconds: f64,
    /// Cores of the machine.
    pub cores: Option<usize>,
    /// Share of all cores' time that was used by any process here.
    pub busy_share: Option<f64>,
    /// Share of all cores' time that a hypervisor gave to other machines.
    pub steal_share: Option<f64>,
    /// CPU time of the generator.
    pub own_cpu_seconds: Option<f64>,
    /// Share of the time that each of the generator's event loops ran. Close to 1: it was saturated.
    pub loops: Vec<f64>,
    /// CPU time of all processes but generator and server. Known only with a server.
    pub others_cpu_seconds: Option<f64>,
    /// Usage of the server, if its pid was given.
    pub server: Option<ServerUsage>,
}

/// Resources that a server and all its descendants used. The kernel counts CPU time in ticks (10 ms as a rule) for each process: measure a
/// second or longer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerUsage {
    /// The pid as given.
    pub pid: u32,
    /// Processes at the end.
    pub processes: usize,
    /// CPU time of all of them, including those that ended meanwhile and were waited for.
    pub cpu_seconds: f64,
    /// Resident memory at the end. Shared memory counts for each process.
    pub rss_bytes: u64,
}

impl ServerUsage {
    /// CPU time of the server for one request, in microseconds; `None` without answers.
    pub fn cpu_us_per_request(&self, answers: u64) -> Option<f64> {
        (answers > 0).then(|| self.cpu_seconds * 1e6 / answers as f64)
    }
}

impl Usage {
    /// Usage from one sample to a later one. The server is left out if its pid belongs to another process by now.
    pub fn between(before: &Sample, after: &Sample) -> Self {
        let seconds = after.at.saturating_duration_since(before.at).as_secs_f64();
        let cpu = before.cpu.zip(after.cpu);
        let total = cpu
            .map(|(before, after)| after.total - before.total)
            .filter(|total| *total > 0.0);
        let share = |of: fn(&super::Cpu) -> f64| {
            let used = cpu.map(|(before, after)| of(&after) - of(&before))?;
            Some((used / total?).clamp(0.0, 1.0))
        };
        let own_cpu_seconds = before
            .own_cpu_seconds
            .zip(after.own_cpu_seconds)
            .map(|(before, after)| (after - before).max(0.0));
        let same = before
            .server
            .zip(after.server)
            .filter(|(before, after)| (before.pid, before.started) == (after.pid, after.started));
        let server = same.map(|(before, after)| ServerUsage {
            pid: after.pid,
            processes: after.processes,
            cpu_seconds: (after.cpu_seconds - before.cpu_seconds).max(0.0),
            rss_bytes: after.rss_bytes,
        });
        let others = || {
            let (before, after) = cpu?;
            let known = own_cpu_seconds? + server?.cpu_seconds;
            Some((after.busy - before.busy - known).max(0.0))
        };
        let ran = |thread: &Thread| {
            // A thread that is not in the earlier sample started later.
            let known = before.threads.iter().find(|known| known.id == thread.id);
            let used = thread.cpu_seconds - known.map_or(0.0, |known| known.cpu_seconds);
            if seconds > 0.0 {
                (used / seconds).clamp(0.0, 1.0)
            } else {
                0.0
            }
        };
        let loops = after
            .threads
            .iter()
            .filter(|thread| thread.name.starts_with(LOOP_NAMES));
        Self {
            seconds,
            cores: after.cpu.map(|cpu| cpu.cores),
            busy_share: share(|cpu| cpu.busy),
            steal_share: share(|cpu| cpu.steal),
            own_cpu_seconds,
            loops: loops.map(ran).collect(),
            others_cpu_seconds: others(),
            server,
        }
    }

    /// The busiest event loop's share of a core.
    pub fn busiest_loop(&self) -> Option<f64> {
        self.loops.iter().copied().max_by(f64::total_cmp)
    }

    /// The generator's share of all CPU time used.
    pub fn own_share_of_busy(&self) -> Option<f64> {
        let busy = self.busy_share? * self.cores? as f64 * self.seconds;
        self.own_cpu_seconds
            .filter(|_| busy > 0.0)
            .map(|own| (own / busy).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::machine::{Cpu, Machine, process::Tree};

    fn sample(start: Instant, at: u64, own: f64, server: Option<(u64, f64)>) -> Sample {
        let at_seconds = at as f64;
        let cpu = Cpu {
            cores: 2,
            busy: 1.5 * at_seconds,
            steal: 0.1 * at_seconds,
            total: 2.0 * at_seconds,
        };
        let thread = |id, name: &str, share: f64| Thread {
            id,
            name: name.into(),
            cpu_seconds: share * at_seconds,
        };
        Sample {
            at: start + Duration::from_secs(at),
            cpu: Some(cpu),
            own_cpu_seconds: Some(own),
            threads: vec![
                thread(7, "forebay", 0.01),
                thread(8, "load-0", 0.95),
                thread(9, "load-1", 0.4),
            ],
            server: server.map(|(started, cpu_seconds)| Tree {
                pid: 20,
                started,
                processes: 3,
                cpu_seconds,
                rss_bytes: 1 << 20,
            }),
        }
    }

    #[test]
    fn the_difference_of_two_samples_is_what_was_used() {
        let start = Instant::now();
        let (before, after) = (
            sample(start, 10, 1.0, Some((5, 2.0))),
            sample(start, 20, 7.0, Some((5, 8.0))),
        );
        let usage = Usage::between(&before, &after);
        let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-9;
        assert!((usage.seconds - 10.0).abs() < 1e-9 && usage.cores == Some(2));
        assert!(near(usage.busy_share, 0.75) && near(usage.steal_share, 0.05));
        assert!(near(usage.busiest_loop(), 0.95));
        // 15 s of two cores were used: 6 by the generator, 6 by the server.
        assert!(near(usage.own_share_of_busy(), 0.4) && near(usage.others_cpu_seconds, 3.0));
        let server = usage.server.unwrap();
        assert!(near(server.cpu_us_per_request(1_000_000), 6.0) && server.cpu_us_per_request(0).is_none());
    }

    #[test]
    fn another_process_with_the_same_pid_is_not_the_server() {
        let start = Instant::now();
        let usage = Usage::between(
            &sample(start, 1, 0.0, Some((5, 2.0))),
            &sample(start, 2, 0.0, Some((6, 3.0))),
        );
        assert!(usage.server.is_none() && usage.others_cpu_seconds.is_none());
    }

    #[test]
    fn two_samples_of_one_moment_divide_by_nothing() {
        let start = Instant::now();
        let one = sample(start, 1, 1.0, Some((5, 2.0)));
        let usage = Usage::between(&one, &one);
        assert_eq!((usage.busy_share, usage.own_share_of_busy()), (None, None));
        assert_eq!(usage.busiest_loop(), Some(0.0));
    }

    #[test]
    fn this_machine_sees_itself_work() {
        let machine = Machine::this();
        // The loop's kind of thread, busy until its CPU clock has moved on by a few ticks.
        let work = || {
            let before = machine.sample(None).unwrap();
            let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            let nanoseconds = |time: rustix::time::Timespec| time.tv_sec * 1_000_000_000 + time.tv_nsec;
            let from = nanoseconds(cpu());
            while nanoseconds(cpu()) < from + 50_000_000 {}
            (before, machine.sample(None).unwrap())
        };
        let (before, after) = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("load-0".into());
            thread.spawn_scoped(scope, work).unwrap().join().unwrap()
        });
        let usage = Usage::between(&before, &after);
        assert!(usage.own_cpu_seconds.unwrap() >= 0.03, "{usage:?}");
        assert!(usage.busiest_loop().unwrap() > 0.0, "{usage:?}");
    }

    #[test]
    fn a_real_process_is_measured_as_a_server() {
        use std::io::Read;
        let mut child = std::process::Command::new("sh")
            .args([
                "-c",
                "exec 3<&0; (i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo x; cat <&3) & wait",
            ])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let machine = Machine::this();
        let before = machine.sample(Some(child.id())).unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let after = machine.sample(Some(child.id())).unwrap();
        let server = Usage::between(&before, &after).server.unwrap();
        assert!(server.processes >= 2 && server.rss_bytes > 0, "{server:?}");
        drop(child.stdin.take());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
