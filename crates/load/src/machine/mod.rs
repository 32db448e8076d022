//! The machine of a run: its properties, how busy it was, and how much CPU and memory the server under load used. Everything is read from
//! `/proc` and `/sys` (proc(5)); a file that is missing or unreadable leaves its figure out, and never ends a run.

mod environment;
mod process;
mod usage;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use self::process::{Thread, Tree};
pub use self::{
    environment::Environment,
    usage::{Capacity, LoopUsage, ServerUsage, Usage},
};

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

/// Reads the state of a machine from `/proc` and `/sys`.
#[derive(Clone, Debug)]
pub struct Machine {
    proc: PathBuf,
    sys: PathBuf,
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
        Self::at("/proc", "/sys", std::process::id())
    }

    /// A machine whose `/proc` and `/sys` are in other places, as in a test; `own` is the generator's pid.
    pub fn at(proc: impl Into<PathBuf>, sys: impl Into<PathBuf>, own: u32) -> Self {
        Self {
            proc: proc.into(),
            sys: sys.into(),
            own,
        }
    }

    /// Reads the properties of the machine.
    pub fn environment(&self) -> Environment {
        Environment::read(self)
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

    /// A file below `/proc`.
    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        read(&self.proc.join(path))
    }

    /// A file below `/sys`.
    fn read_sys(&self, path: &str) -> Option<String> {
        read(&self.sys.join(path))
    }
}

/// A file's text without spaces at its ends; `None` if there is nothing to read.
fn read(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
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
            Machine::at(self.0.join("proc"), self.0.join("sys"), 7)
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
