//! The machine of a run: its properties, how busy it was, and how much CPU and memory the server under load used. Everything is read from
//! `/proc` (proc(5)); a file that is missing or unreadable leaves its figure out, and never ends a run.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use serde::{Deserialize, Serialize};

/// Most processes of a server that are counted; those beyond are left out.
const TREE_MAX: usize = 10_000;

/// Why a machine's state cannot be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum MachineError {
    /// No process has this pid.
    #[error("no process has the pid {pid}; give that of the running server")]
    NoProcess {
        /// The pid as given.
        pid: u32,
    },
    /// The pid is the generator's own.
    #[error("the pid {pid} is that of the load generator itself; give that of the server")]
    Itself {
        /// The pid as given.
        pid: u32,
    },
}

/// The properties of a machine that affect a measurement. `None` where the system does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Version of the load generator.
    pub version: String,
    /// Model of the processor.
    pub cpu: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// Name and version of the kernel.
    pub kernel: Option<String>,
    /// Runnable processes when it was read, on average over the last minute.
    pub load_average: Option<f64>,
}

/// Reads the state of a machine from `/proc`.
#[derive(Clone, Debug)]
pub struct Machine {
    proc: PathBuf,
    own: u32,
}

/// A machine's state at one moment. Times are totals since some start; only differences mean anything: [`Usage::between`].
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    at: Instant,
    cpu: Option<Cpu>,
    server: Option<Tree>,
}

/// CPU time of all cores together, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cpu {
    cores: usize,
    busy: f64,
    steal: f64,
    total: f64,
}

/// CPU time and identity of one process.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Process {
    parent: u32,
    /// CPU time of all its threads, and of its children that have ended and been waited for.
    cpu_seconds: f64,
    /// When it started, in ticks since boot; together with the pid it identifies a process for good.
    started: u64,
}

/// A process with all its descendants.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tree {
    pid: u32,
    started: u64,
    processes: usize,
    own_cpu_seconds: f64,
    cpu_seconds: f64,
    rss_bytes: u64,
}

/// Resources that machine and server used between two samples. Shares are from 0 to 1; `None` where the system does not tell.
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
    /// CPU time of the server's own process, including children that ended meanwhile and were waited for.
    #[serde(default)]
    pub own_cpu_seconds: f64,
    /// Resident memory at the end. Shared memory counts for each process.
    pub rss_bytes: u64,
}

impl Usage {
    /// Usage from one sample to a later one. The server is left out if its pid belongs to another process by now.
    pub fn between(before: &Sample, after: &Sample) -> Self {
        let cpu = before.cpu.zip(after.cpu);
        let total = cpu
            .map(|(before, after)| after.total - before.total)
            .filter(|total| *total > 0.0);
        let share = |of: fn(&Cpu) -> f64| {
            let used = cpu.map(|(before, after)| of(&after) - of(&before))?;
            Some((used / total?).clamp(0.0, 1.0))
        };
        let same = before
            .server
            .zip(after.server)
            .filter(|(before, after)| (before.pid, before.started) == (after.pid, after.started));
        Self {
            seconds: after.at.saturating_duration_since(before.at).as_secs_f64(),
            cores: after.cpu.map(|cpu| cpu.cores),
            busy_share: share(|cpu| cpu.busy),
            steal_share: share(|cpu| cpu.steal),
            server: same.map(|(before, after)| ServerUsage {
                pid: after.pid,
                processes: after.processes,
                cpu_seconds: (after.cpu_seconds - before.cpu_seconds).max(0.0),
                own_cpu_seconds: (after.own_cpu_seconds - before.own_cpu_seconds).max(0.0),
                rss_bytes: after.rss_bytes,
            }),
        }
    }

    /// CPU seconds that all processes of the machine used together.
    pub fn busy_seconds(&self) -> Option<f64> {
        Some(self.busy_share? * self.cores? as f64 * self.seconds)
    }
}

impl Machine {
    /// The machine that this process runs on.
    pub fn this() -> Self {
        Self::at("/proc", std::process::id())
    }

    /// A machine whose `/proc` is in another place, as in a test; `own` is the generator's pid.
    pub fn at(proc: impl Into<PathBuf>, own: u32) -> Self {
        let proc = proc.into();
        Self { proc, own }
    }

    /// Reads the properties of the machine.
    pub fn environment(&self) -> Environment {
        let kernel = self.read("sys/kernel/osrelease");
        let average = |text: String| text.split_whitespace().next()?.parse().ok();
        Environment {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cpu: self.read("cpuinfo").and_then(|text| model(&text)),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.map(|version| format!("Linux {version}")),
            load_average: self.read("loadavg").and_then(average),
        }
    }

    /// Reads the current state, with that of the server of the given pid and all its descendants. Reads a few files, and one for each
    /// process of the machine when there is a server: well below 10 ms as a rule. Fails only if the server does not run.
    pub fn sample(&self, server: Option<u32>) -> Result<Sample, MachineError> {
        let server = match server {
            Some(pid) if pid == self.own => return Err(MachineError::Itself { pid }),
            Some(pid) => Some(Tree::read(self, pid).ok_or(MachineError::NoProcess { pid })?),
            None => None,
        };
        Ok(Sample {
            at: Instant::now(),
            cpu: self.read("stat").and_then(|text| Cpu::parse(&text)),
            server,
        })
    }

    /// CPU time of the generator's process and all its descendants, those included that have ended and been waited for.
    pub fn own_cpu_seconds(&self) -> Option<f64> {
        Some(Tree::read(self, self.own)?.cpu_seconds)
    }

    /// CPU time of all processes of the machine since boot, summed over all cores.
    pub fn busy_seconds(&self) -> Option<f64> {
        Some(Cpu::parse(&self.read("stat")?)?.busy)
    }

    /// From `/proc/PID/stat` (`proc_pid_stat(5)`).
    fn process(&self, pid: u32) -> Option<Process> {
        parse(&self.read(format!("{pid}/stat"))?)
    }

    /// The text of a file below `/proc` without spaces at its ends; `None` if there is nothing to read.
    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.proc.join(path)).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// The processor's name in `/proc/cpuinfo`; which field has it depends on the architecture.
fn model(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let mut found = fields.filter(|(key, value)| key.trim() == name && !value.trim().is_empty());
        found.next().map(|(_, value)| value.trim().to_owned())
    };
    ["model name", "Model", "Hardware", "cpu model", "uarch"]
        .into_iter()
        .find_map(field)
}

impl Cpu {
    /// From `/proc/stat`: `cpu  user nice system idle iowait irq softirq steal …` in ticks. The time of guests is included in `user`.
    fn parse(text: &str) -> Option<Self> {
        let ticks = ticks_per_second();
        let all = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let times: Vec<f64> = all
            .split_whitespace()
            .map_while(|field| field.parse().ok())
            .collect();
        let at = |index: usize| times.get(index).copied().unwrap_or(0.0) / ticks;
        let busy = at(0) + at(1) + at(2) + at(5) + at(6);
        let steal = at(7);
        let is_core = |line: &&str| {
            line.strip_prefix("cpu")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        Some(Self {
            cores: text.lines().filter(is_core).count().max(1),
            busy,
            steal,
            total: busy + steal + at(3) + at(4),
        })
    }
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

impl Tree {
    /// The process with this pid and all its descendants, except this generator. `None` if there is no such process.
    fn read(machine: &Machine, pid: u32) -> Option<Self> {
        let root = machine.process(pid)?;
        let mut children: HashMap<u32, Vec<(u32, Process)>> = HashMap::new();
        for other in numbers(&machine.proc) {
            if let Some(process) = machine.process(other) {
                children.entry(process.parent).or_default().push((other, process));
            }
        }
        let mut tree = Self {
            pid,
            started: root.started,
            processes: 0,
            own_cpu_seconds: root.cpu_seconds,
            cpu_seconds: 0.0,
            rss_bytes: 0,
        };
        let mut left = vec![(pid, root)];
        while let Some((pid, process)) = left.pop() {
            tree.processes += 1;
            tree.cpu_seconds += process.cpu_seconds;
            let status = machine.read(format!("{pid}/status")).unwrap_or_default();
            tree.rss_bytes += number_after(&status, "VmRSS:").unwrap_or(0) * 1024;
            // Removed from the table, so that a process is counted once even if the table changed while it was read.
            let mut next = children.remove(&pid).unwrap_or_default();
            next.retain(|(child, _)| *child != machine.own);
            next.truncate(TREE_MAX.saturating_sub(tree.processes + left.len()));
            left.append(&mut next);
        }
        Some(tree)
    }
}

/// Entries of a folder whose names are numbers.
fn numbers(folder: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// `PID (NAME) STATE PPID …`; the name may have spaces and brackets in it.
fn parse(stat: &str) -> Option<Process> {
    let (_, fields) = stat.rsplit_once(')')?;
    // The first of them is the third field of the line.
    let fields: Vec<_> = fields.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let ticks = number(14)? + number(15)? + number(16)? + number(17)?;
    Some(Process {
        parent: u32::try_from(number(4)?).ok()?,
        cpu_seconds: ticks as f64 / ticks_per_second(),
        started: number(22)?,
    })
}

/// The number in the line that begins with `name`.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, time::Duration};

    use forebay_testkit::Folder;

    use super::*;

    #[test]
    fn cpu_time_is_told_by_its_kinds() {
        let cpu = Cpu::parse("cpu  100 20 30 1000 50 0 10 40 5 0\ncpu0 1 2\ncpu1 1 2\nintr 5\n").unwrap();
        let ticks = ticks_per_second();
        assert_eq!(cpu.cores, 2);
        assert!((cpu.busy - 160.0 / ticks).abs() < 1e-9);
        assert!((cpu.steal - 40.0 / ticks).abs() < 1e-9);
        assert!((cpu.total - 1250.0 / ticks).abs() < 1e-9);
        assert_eq!(Cpu::parse("nothing"), None);
        assert!(Cpu::parse("cpu  \n").unwrap().total.abs() < 1e-12);
    }

    #[test]
    fn the_environment_is_what_the_files_say_and_no_more() {
        let folder = Folder::new();
        folder.write("cpuinfo", "processor\t: 0\nmodel name\t: Fast 3000\n");
        folder.write("loadavg", "0.25 0.5 0.5 1/100 5\n");
        folder.write("sys/kernel/osrelease", "6.1.0\n");
        let found = Machine::at(folder.path(), 7).environment();
        assert_eq!(found.cpu.as_deref(), Some("Fast 3000"));
        assert_eq!(found.kernel.as_deref(), Some("Linux 6.1.0"));
        assert_eq!(found.load_average, Some(0.25));
        folder.write("cpuinfo", "\u{0}\u{0}");
        assert_eq!(Machine::at(folder.path(), 7).environment().cpu, None);
    }

    #[test]
    fn a_pid_that_does_not_exist_is_an_error_that_says_so() {
        let machine = Machine::this();
        // Above the highest that Linux gives.
        let error = machine.sample(Some(4_194_305)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no process has the pid 4194305; give that of the running server"
        );
        assert!(matches!(
            machine.sample(Some(std::process::id())),
            Err(MachineError::Itself { .. })
        ));
    }

    /// A line of `/proc/PID/stat` with these ticks of user, system and children's time.
    fn stat(pid: u32, name: &str, parent: u32, ticks: [u64; 4]) -> String {
        let [user, system, children_user, children_system] = ticks;
        format!(
            "{pid} ({name}) S {parent} 1 1 0 -1 4194304 100 0 0 0 {user} {system} {children_user} {children_system} 20 0 1 0 5555 1 1"
        )
    }

    #[test]
    fn names_with_brackets_do_not_shift_the_fields() {
        let process = parse(&stat(12, "a) b (c", 3, [1, 2, 4, 8])).unwrap();
        assert_eq!((process.parent, process.started), (3, 5555));
        assert!((process.cpu_seconds - 15.0 / ticks_per_second()).abs() < 1e-9);
        for broken in ["", "12 (x", "12 (x) S", "12 (x) S y 1 1"] {
            assert_eq!(parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn a_server_is_counted_with_all_that_descend_from_it() {
        let folder = Folder::new();
        let machine = Machine::at(folder.path(), 7);
        for (pid, parent, ticks) in [
            (1, 0, 900),
            (20, 1, 100),
            (21, 20, 10),
            (22, 21, 1),
            (7, 20, 5000),
            (30, 1, 700),
            (31, 7, 3),
        ] {
            folder.write(&format!("{pid}/stat"), stat(pid, "x", parent, [ticks, 0, 0, 0]));
            folder.write(
                &format!("{pid}/status"),
                format!("Name:\tx\nVmRSS:\t    {pid} kB\n"),
            );
        }
        folder.write("40/stat", "gone while it was read");
        let tree = Tree::read(&machine, 20).unwrap();
        assert_eq!(
            tree.processes, 3,
            "the generator, pid 7, and its children are no part of the server"
        );
        assert!((tree.cpu_seconds - 111.0 / ticks_per_second()).abs() < 1e-9);
        assert_eq!(tree.rss_bytes, 63 * 1024);
        assert_eq!(Tree::read(&machine, 99), None);
    }

    #[test]
    fn a_server_that_is_the_ancestor_of_itself_does_not_hang_the_reader() {
        let folder = Folder::new();
        folder.write("20/stat", stat(20, "x", 21, [1, 0, 0, 0]));
        folder.write("21/stat", stat(21, "x", 20, [1, 0, 0, 0]));
        assert!(Tree::read(&Machine::at(folder.path(), 7), 20).unwrap().processes <= 3);
    }

    fn sample(at: Instant, seconds: f64, server: (u64, f64)) -> Sample {
        let (started, cpu_seconds) = server;
        Sample {
            at: at + Duration::from_secs_f64(seconds),
            cpu: Some(Cpu {
                cores: 2,
                busy: 1.5 * seconds,
                steal: 0.1 * seconds,
                total: 2.0 * seconds,
            }),
            server: Some(Tree {
                pid: 20,
                started,
                processes: 3,
                own_cpu_seconds: 1.0,
                cpu_seconds,
                rss_bytes: 1 << 20,
            }),
        }
    }

    #[test]
    fn the_difference_of_two_samples_is_what_was_used() {
        let at = Instant::now();
        let before = sample(at, 10.0, (5, 2.0));
        let usage = Usage::between(&before, &sample(at, 20.0, (5, 8.0)));
        let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-9;
        assert!((usage.seconds - 10.0).abs() < 1e-9 && usage.cores == Some(2));
        assert!(near(usage.busy_share, 0.75) && near(usage.steal_share, 0.05));
        assert!(near(usage.busy_seconds(), 15.0) && near(usage.server.map(|server| server.cpu_seconds), 6.0));
        let other = Usage::between(&before, &sample(at, 20.0, (6, 8.0)));
        assert!(other.server.is_none(), "another process with the same pid");
        assert_eq!(Usage::between(&before, &before).busy_share, None);
    }

    #[test]
    fn a_real_process_is_measured_as_a_server() {
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
