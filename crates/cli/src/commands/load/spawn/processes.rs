//! Finds the processes of a server in `/proc`: those of its group, all their descendants, and those that it left behind.

use std::{collections::HashSet, fs, path::Path};

/// The fields of `/proc/PID/stat` that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    pid: i32,
    parent: i32,
    group: i32,
}

/// The living processes of a server: those in its process group, their descendants whatever their group, and children of `guardian` that
/// are none of its `roots`: their parent has ended, and the guardian adopted them as the subreaper (`PR_SET_CHILD_SUBREAPER(2const)`). With
/// two servers the latter cannot be told apart; both end with the run.
pub(super) fn family(proc: &Path, group: i32, guardian: i32, roots: &[i32]) -> Vec<i32> {
    let mut entries = entries(proc);
    let mut found: HashSet<i32> = HashSet::new();
    let left_behind = |entry: &Entry| entry.parent == guardian && !roots.contains(&entry.pid);
    let belongs = |entry: &Entry| entry.group == group || left_behind(entry);
    found.extend(
        entries
            .iter()
            .filter(|entry| belongs(entry))
            .map(|entry| entry.pid),
    );
    // Each pass finds the children of those found before.
    loop {
        let before = found.len();
        entries.retain(|entry| !found.contains(&entry.pid));
        let children = entries.iter().filter(|entry| found.contains(&entry.parent));
        let children: Vec<i32> = children.map(|entry| entry.pid).collect();
        found.extend(children);
        if found.len() == before {
            break;
        }
    }
    found.remove(&guardian);
    found.into_iter().collect()
}

/// All living processes.
fn entries(proc: &Path) -> Vec<Entry> {
    let processes = fs::read_dir(proc).into_iter().flatten().flatten();
    processes
        .filter_map(|process| {
            let pid = process.file_name().to_str()?.parse().ok()?;
            parse(pid, &fs::read_to_string(process.path().join("stat")).ok()?)
        })
        .collect()
}

/// Parses `PID (NAME) STATE PPID PGRP …` (`proc_pid_stat(5)`); the name may contain anything. `None` for a zombie.
fn parse(pid: i32, stat: &str) -> Option<Entry> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (!matches!(state, "Z" | "X")).then_some(Entry { pid, parent, group })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testkit::Folder;

    #[test]
    fn a_family_is_the_group_its_descendants_and_those_left_behind() {
        let proc = Folder::new();
        for (pid, name, state, parent, group) in [
            (1, "init", 'S', 0, 1),
            (10, "forebay", 'S', 1, 10),
            (20, "server) (x", 'S', 10, 20),
            (21, "in the group", 'R', 20, 20),
            (22, "left the group", 'S', 21, 22),
            (23, "its child", 'S', 22, 22),
            (24, "has ended", 'Z', 20, 20),
            (25, "left behind", 'S', 10, 25),
            (30, "another server", 'S', 10, 30),
            (31, "its child", 'S', 30, 30),
            (40, "a stranger", 'S', 1, 40),
        ] {
            proc.write(
                &format!("{pid}/stat"),
                format!("{pid} ({name}) {state} {parent} {group} 1 0 -1"),
            );
        }
        proc.write("50/stat", "gone while it was read");
        let mut found = family(proc.path(), 20, 10, &[20, 30]);
        found.sort_unstable();
        assert_eq!(found, [20, 21, 22, 23, 25]);
    }
}
