//! Processes of the system, read from `/proc`.

use std::fs;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

/// A process, as opposed to a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    /// Process ID.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    started: u64,
}

struct Stat {
    parent: u32,
    zombie: bool,
    started: u64,
}

impl Process {
    /// The process that has this pid now.
    pub fn with_pid(pid: u32) -> Option<Self> {
        let stat = stat(pid)?;
        (!stat.zombie).then_some(Self {
            pid,
            started: stat.started,
        })
    }

    /// The living children of a process, oldest first.
    pub fn children_of(parent: u32) -> Vec<Self> {
        let entries = fs::read_dir("/proc").expect("/proc is mounted");
        let mut children: Vec<_> = entries
            .filter_map(|entry| {
                let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
                let stat = stat(pid)?;
                (stat.parent == parent && !stat.zombie).then_some(Self {
                    pid,
                    started: stat.started,
                })
            })
            .collect();
        children.sort_by_key(|child| (child.started, child.pid));
        children
    }

    /// Whether it runs. A zombie does not.
    pub fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| !stat.zombie && stat.started == self.started)
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(self, signal: Signal) {
        if self.is_alive() {
            // It may have ended since.
            let _ = kill_process(self.system_pid(), signal);
        }
    }

    fn system_pid(self) -> Pid {
        Pid::from_raw(self.pid.cast_signed()).expect("a process number is not 0")
    }

    /// Limits the address space to its current size and `more` bytes; `None` removes the limit.
    pub fn limit_mappings(self, more: Option<u64>) {
        let limit = Rlimit {
            current: more.map(|more| self.status_bytes("VmSize:") + more),
            maximum: None,
        };
        prlimit(Some(self.system_pid()), Resource::As, limit).expect("who started it may limit it");
    }

    /// Sends SIGKILL.
    pub fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Number of open sockets, of every kind.
    pub fn open_sockets(self) -> usize {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{}/fd", self.pid)) else {
            return 0;
        };
        let targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        targets
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    }

    /// Resident memory in bytes; 0 once it has ended.
    pub fn rss_bytes(self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    fn status_bytes(self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }
}

/// Fields of `/proc/PID/stat` (`proc_pid_stat(5)`).
fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything; state, the third field, comes after the last of them.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    Some(Stat {
        zombie: matches!(fields[0], "Z" | "X"),
        parent: fields[1].parse().ok()?,
        started: fields[19].parse().ok()?,
    })
}
