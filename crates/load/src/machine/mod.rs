//! The machine of a run: its properties, how busy it was, and how much CPU and memory the server under load used. Everything is read from
//! `/proc` (proc(5)); a file that is missing or unreadable leaves its figure out, and never ends a run.

mod process;
mod usage;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use serde::{Deserialize, Serialize};

use self::process::{Thread, Tree};
pub use self::usage::{ServerUsage, Usage};

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
#[derive(Clone, Debug)]
pub struct Sample {
    at: Instant,
    cpu: Option<Cpu>,
    own_cpu_seconds: Option<f64>,
    threads: Vec<Thread>,
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
            own_cpu_seconds: self.process(self.own).map(|process| process.cpu_seconds),
            threads: self.threads(),
            server,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed when the test ends.
    pub(super) struct Folder(PathBuf);

    impl Folder {
        pub(super) fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("forebay-load-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        pub(super) fn put(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        pub(super) fn machine(&self) -> Machine {
            Machine::at(self.0.join("proc"), 7)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

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
        let folder = Folder::new("environment");
        folder.put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast 3000\n");
        folder.put("proc/loadavg", "0.25 0.5 0.5 1/100 5\n");
        folder.put("proc/sys/kernel/osrelease", "6.1.0\n");
        let found = folder.machine().environment();
        assert_eq!(found.cpu.as_deref(), Some("Fast 3000"));
        assert_eq!(found.kernel.as_deref(), Some("Linux 6.1.0"));
        assert_eq!(found.load_average, Some(0.25));
        folder.put("proc/cpuinfo", "\u{0}\u{0}");
        assert_eq!(folder.machine().environment().cpu, None);
    }

    #[test]
    fn a_machine_without_files_still_gives_a_sample() {
        let folder = Folder::new("empty");
        let sample = folder.machine().sample(None).unwrap();
        assert!(sample.cpu.is_none() && sample.own_cpu_seconds.is_none() && sample.threads.is_empty());
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
}
