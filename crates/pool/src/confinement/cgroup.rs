//! One cgroup (v2) for each confined worker, beside that of the server: `docs/decisions/0035-confinement.md`.

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::ConfinementError;

pub(super) const REMEDY: &str = "the server must be in a leaf of a delegated cgroup; under systemd: `Delegate=memory cpu pids` and \
                      `DelegateSubgroup=server` in the unit";
/// Period of `cpu.max`, in microseconds.
const PERIOD_US: u64 = 100_000;
/// How often a killed cgroup is asked whether it is empty, and how long between.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(5);

/// Limits of a worker and everything that it starts, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupLimits {
    /// Memory in bytes, page cache included; the kernel kills the whole worker when it cannot free enough.
    pub memory_bytes: Option<u64>,
    /// CPU time in percent of one core.
    pub cpu_percent: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
}

impl CgroupLimits {
    /// The files to write, each with the key that asks for it.
    fn settings(&self) -> Vec<(&'static str, &'static str, String)> {
        let memory = self.memory_bytes.iter().flat_map(|bytes| {
            let key = "cgroup_memory_max";
            [
                (key, "memory.max", bytes.to_string()),
                (key, "memory.oom.group", "1".to_owned()),
            ]
        });
        let cpu = self.cpu_percent.iter().map(|percent| {
            let quota = percent * PERIOD_US / 100;
            (
                "cgroup_cpu_percent_max",
                "cpu.max",
                format!("{quota} {PERIOD_US}"),
            )
        });
        let processes = self
            .processes
            .iter()
            .map(|processes| ("cgroup_processes_max", "pids.max", processes.to_string()));
        memory.chain(cpu).chain(processes).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The key that errors about the cgroup itself name.
    pub(super) fn first_key(&self) -> &'static str {
        self.settings()
            .first()
            .map_or("cgroup_memory_max", |(key, ..)| key)
    }
}

/// The folder in which the cgroups of workers are made: that of the server's own cgroup.
pub(super) fn parent(key: &'static str) -> Result<PathBuf, ConfinementError> {
    let find = || -> io::Result<Option<PathBuf>> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let own = fs::read_to_string("/proc/self/cgroup")?;
        Ok(parent_in(&mounts, &own))
    };
    match find() {
        Ok(Some(parent)) => Ok(parent),
        Ok(None) => Err(refused(key, "no cgroup v2 is mounted".to_owned())),
        Err(error) => Err(refused(key, format!("cannot find the server's cgroup: {error}"))),
    }
}

/// The same, from the texts of `/proc/self/mountinfo` and `/proc/self/cgroup` (`proc(5)`, `cgroups(7)`).
fn parent_in(mounts: &str, own: &str) -> Option<PathBuf> {
    let mount = mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        kind.starts_with("cgroup2 ").then(|| mount.split(' ').nth(4))?
    })?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mount = Path::new(mount);
    Some(match Path::new(own).parent() {
        Some(above) if above != Path::new("") => mount.join(above),
        _ => mount.to_owned(),
    })
}

/// Makes a cgroup with these limits. Returns its folder, and the file to which a process writes `0` to enter.
pub(super) fn create(
    limits: &CgroupLimits,
    parent: &Path,
    name: &str,
) -> Result<(PathBuf, OwnedFd), ConfinementError> {
    let settings = limits.settings();
    let controllers = fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
    for (key, file, _) in &settings {
        let controller = file.split('.').next().unwrap_or_default();
        if !controllers.split_whitespace().any(|one| one == controller) {
            let reason = format!(
                "{}/cgroup.controllers does not list `{controller}`",
                parent.display()
            );
            return Err(refused(key, reason));
        }
        let enabled = fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}"));
        enabled.map_err(|error| {
            refused(
                key,
                format!("cannot enable `{controller}` below {}: {error}", parent.display()),
            )
        })?;
    }
    let key = limits.first_key();
    let folder = parent.join(name);
    // A group left by an earlier server with the same process id is empty.
    let _ = fs::remove_dir(&folder);
    fs::create_dir(&folder)
        .map_err(|error| refused(key, format!("cannot make {}: {error}", folder.display())))?;
    let fill = || {
        for (key, file, value) in settings {
            let path = folder.join(file);
            fs::write(&path, value)
                .map_err(|error| refused(key, format!("cannot write {}: {error}", path.display())))?;
        }
        let entrance = folder.join("cgroup.procs");
        let entrance = fs::OpenOptions::new().write(true).open(&entrance);
        entrance.map_err(|error| refused(key, format!("cannot place a worker: {error}")))
    };
    match fill() {
        Ok(entrance) => Ok((folder, entrance.into())),
        Err(error) => {
            remove(&folder);
            Err(error)
        }
    }
}

/// Kills what is left in a cgroup and removes it.
pub(super) fn remove(folder: &Path) {
    // Without this file (Linux before 5.14), the group of processes was killed all the same.
    let _ = fs::write(folder.join("cgroup.kill"), "1");
    for _ in 0..ATTEMPTS {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(PAUSE),
            _ => return,
        }
    }
    tracing::warn!(target: "forebay::pool", cgroup = %folder.display(), "processes in a cgroup do not end");
}

fn refused(key: &'static str, reason: String) -> ConfinementError {
    ConfinementError {
        key,
        reason,
        remedy: REMEDY,
    }
}
