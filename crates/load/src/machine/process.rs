//! Processes and threads as `/proc` shows them.

use std::{collections::HashMap, fs};

use super::{Machine, ticks_per_second};

/// Most processes of a server that are counted; those beyond are left out.
const TREE_MAX: usize = 10_000;

/// CPU time and identity of one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Process {
    parent: u32,
    /// CPU time of all its threads, and of its children that have ended and been waited for.
    pub(super) cpu_seconds: f64,
    /// When it started, in ticks since boot; together with the pid it identifies a process for good.
    started: u64,
}

/// A process with all its descendants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tree {
    pub(super) pid: u32,
    pub(super) started: u64,
    pub(super) processes: usize,
    pub(super) cpu_seconds: f64,
    pub(super) rss_bytes: u64,
}

/// A thread of this process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Thread {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) cpu_seconds: f64,
}

impl Machine {
    /// From `/proc/PID/stat` (`proc_pid_stat(5)`).
    pub(super) fn process(&self, pid: u32) -> Option<Process> {
        parse(&self.read(format!("{pid}/stat"))?)
    }

    /// Threads of this process.
    pub(super) fn threads(&self) -> Vec<Thread> {
        let folder = self.proc.join(self.own.to_string()).join("task");
        numbers(&folder).filter_map(|id| self.thread(id)).collect()
    }

    fn thread(&self, id: u32) -> Option<Thread> {
        let folder = format!("{}/task/{id}", self.own);
        // Its first field is the nanoseconds on a core.
        let times = self.read(format!("{folder}/schedstat")).unwrap_or_default();
        let on_core = times.split_whitespace().next();
        let cpu_seconds = match on_core.and_then(|field| field.parse::<f64>().ok()) {
            Some(nanoseconds) => nanoseconds / 1e9,
            None => parse(&self.read(format!("{folder}/stat"))?)?.cpu_seconds,
        };
        Some(Thread {
            id,
            name: self.read(format!("{folder}/comm")).unwrap_or_default(),
            cpu_seconds,
        })
    }
}

impl Tree {
    /// The process with this pid and all its descendants, except this generator. `None` if there is no such process.
    pub(super) fn read(machine: &Machine, pid: u32) -> Option<Self> {
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
fn numbers(folder: &std::path::Path) -> impl Iterator<Item = u32> {
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
    use super::*;
    use crate::machine::tests::Folder;

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
        let folder = Folder::new("tree");
        for (pid, parent, ticks) in [
            (1, 0, 900),
            (20, 1, 100),
            (21, 20, 10),
            (22, 21, 1),
            (7, 20, 5000),
            (30, 1, 700),
            (31, 7, 3),
        ] {
            folder.put(
                &format!("proc/{pid}/stat"),
                &stat(pid, "x", parent, [ticks, 0, 0, 0]),
            );
            folder.put(
                &format!("proc/{pid}/status"),
                &format!("Name:\tx\nVmRSS:\t    {pid} kB\n"),
            );
        }
        folder.put("proc/40/stat", "gone while it was read");
        let tree = Tree::read(&folder.machine(), 20).unwrap();
        assert_eq!(
            tree.processes, 3,
            "the generator, pid 7, and its children are no part of the server"
        );
        assert!((tree.cpu_seconds - 111.0 / ticks_per_second()).abs() < 1e-9);
        assert_eq!(tree.rss_bytes, 63 * 1024);
        assert_eq!(Tree::read(&folder.machine(), 99), None);
    }

    #[test]
    fn a_server_that_is_the_ancestor_of_itself_does_not_hang_the_reader() {
        let folder = Folder::new("circle");
        folder.put("proc/20/stat", &stat(20, "x", 21, [1, 0, 0, 0]));
        folder.put("proc/21/stat", &stat(21, "x", 20, [1, 0, 0, 0]));
        assert!(Tree::read(&folder.machine(), 20).unwrap().processes <= 3);
    }

    #[test]
    fn threads_are_told_with_their_cpu_time() {
        let folder = Folder::new("threads");
        folder.put("proc/7/task/7/comm", "forebay\n");
        folder.put("proc/7/task/7/stat", &stat(7, "forebay", 1, [100, 0, 0, 0]));
        folder.put("proc/7/task/8/comm", "load-0\n");
        folder.put("proc/7/task/8/schedstat", "1500000000 250000000 12\n");
        let mut threads = folder.machine().threads();
        threads.sort_by_key(|thread| thread.id);
        assert_eq!(threads.len(), 2);
        assert!((threads[0].cpu_seconds - 100.0 / ticks_per_second()).abs() < 1e-9);
        assert_eq!(threads[1].name, "load-0");
        assert!((threads[1].cpu_seconds - 1.5).abs() < 1e-9);
    }
}
