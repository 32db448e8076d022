//! Confinement of worker processes. [`Plan`] is what a worker needs prepared before the fork; the child applies its steps between fork and
//! exec. What no longer can be applied is an error: a worker never runs with less protection than was asked for.
//!
//! `docs/decisions/0035-confinement.md` has the order of the steps and the reasons for the mechanisms.

mod account;
mod cgroup;
mod files;
mod folder;

use std::{
    collections::BTreeMap,
    ffi::CString,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::PathBuf,
    process::{Command, Stdio},
};

use rustix::{
    event::{EventfdFlags, eventfd},
    fs::Access,
    io::Errno,
    process::{Gid, Resource, Rlimit, Uid, getrlimit, setrlimit},
    thread::{self, CapabilitySet, CapabilitySets},
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

pub use self::{account::Account, cgroup::CgroupLimits, files::Files};
use crate::sys;

/// System calls that a worker without network is refused: all that make sockets, other than connected pairs, and what would take one from
/// another process. `io_uring` could make sockets past the filter.
const NETWORK_CALLS: [i64; 3] = [libc::SYS_socket, libc::SYS_io_uring_setup, libc::SYS_pidfd_getfd];
/// Marks the numbers of the x32 ABI, a second set of the same calls on x86-64.
const X32: i64 = 0x4000_0000;
/// The error that a trial reports to the standard library instead of an exec.
const TRIAL_OVER: i32 = libc::ECANCELED;

/// A confinement that cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("confine.{key}: {reason}; {remedy}")]
pub struct ConfinementError {
    /// The key of `[pool.NAME.confine]`.
    pub key: &'static str,
    /// The missing permission or feature.
    pub reason: String,
    /// The remedy.
    pub remedy: &'static str,
}

/// The confinement of the workers of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// The user and groups that they run as; `None`: those of this process.
    pub account: Option<Account>,
    /// The files they may reach; `None`: all that their account may.
    pub files: Option<Files>,
    /// Whether they may make sockets.
    pub network: bool,
    /// Whether they have no capabilities, and gain no privileges by programs that they run (set-user-ID, file capabilities).
    pub no_new_privs: bool,
    /// Whether each has a temporary folder of its own.
    pub private_tmp: bool,
    /// Resource limits, soft and hard.
    pub limits: Vec<(Limit, u64)>,
    /// Limits of the cgroup of each.
    pub cgroup: CgroupLimits,
    /// Files that the account must be able to read for a worker to start.
    pub required: Vec<PathBuf>,
}

/// A resource limit of `setrlimit(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of address space.
    AddressSpace,
    /// Open files.
    OpenFiles,
    /// Processes and threads of the worker's user.
    Processes,
    /// Bytes of a core dump.
    Core,
    /// Seconds of CPU time of each process.
    CpuTime,
    /// Bytes of a file that is written.
    FileSize,
}

impl Limit {
    const fn key(self) -> &'static str {
        match self {
            Self::AddressSpace => "address_space_max",
            Self::OpenFiles => "open_files_max",
            Self::Processes => "processes_max",
            Self::Core => "core_max",
            Self::CpuTime => "cpu_time_max",
            Self::FileSize => "file_size_max",
        }
    }

    const fn resource(self) -> Resource {
        match self {
            Self::AddressSpace => Resource::As,
            Self::OpenFiles => Resource::Nofile,
            Self::Processes => Resource::Nproc,
            Self::Core => Resource::Core,
            Self::CpuTime => Resource::Cpu,
            Self::FileSize => Resource::Fsize,
        }
    }
}

impl Confinement {
    /// A confinement without restrictions.
    fn nothing() -> Self {
        Self {
            account: None,
            files: None,
            network: true,
            no_new_privs: false,
            private_tmp: false,
            limits: Vec::new(),
            cgroup: CgroupLimits::default(),
            required: Vec::new(),
        }
    }

    /// Whether this machine grants everything: applies it to a process that then ends.
    pub fn try_out(&self) -> Result<(), ConfinementError> {
        let (plan, leftovers) = self.plan("trial")?;
        let outcome = plan.try_out();
        leftovers.remove();
        outcome
    }

    /// Tries each confinement alone, and at last all together. Returns the keys with their outcome.
    pub fn try_each(&self) -> Vec<(&'static str, Result<(), ConfinementError>)> {
        let mut parts = Vec::new();
        let mut part = |key, change: &dyn Fn(&mut Self)| {
            let mut alone = Self::nothing();
            change(&mut alone);
            parts.push((key, alone));
        };
        if self.account.is_some() {
            part("user", &|alone| {
                alone.account.clone_from(&self.account);
                alone.private_tmp = self.private_tmp;
            });
        }
        if self.files.is_some() {
            part("read, write", &|alone| alone.files.clone_from(&self.files));
        }
        if !self.network {
            part("network", &|alone| alone.network = false);
        }
        if self.no_new_privs {
            part("no_new_privs", &|alone| alone.no_new_privs = true);
        }
        if self.private_tmp {
            part("private_tmp", &|alone| alone.private_tmp = true);
        }
        for limit in &self.limits {
            part(limit.0.key(), &|alone| {
                alone.limits.push(*limit);
                alone.account.clone_from(&self.account);
            });
        }
        let CgroupLimits {
            memory_bytes,
            cpu_percent,
            processes,
        } = self.cgroup;
        if memory_bytes.is_some() {
            part("cgroup_memory_max", &|alone| {
                alone.cgroup.memory_bytes = memory_bytes;
            });
        }
        if cpu_percent.is_some() {
            part("cgroup_cpu_percent_max", &|alone| {
                alone.cgroup.cpu_percent = cpu_percent;
            });
        }
        if processes.is_some() {
            part("cgroup_processes_max", &|alone| {
                alone.cgroup.processes = processes;
            });
        }
        let mut outcomes: Vec<_> = parts
            .into_iter()
            .map(|(key, part)| (key, part.try_out()))
            .collect();
        if outcomes.iter().all(|(_, outcome)| outcome.is_ok()) {
            // Such as a file that the user cannot read.
            if let Err(error) = self.try_out() {
                outcomes.push((error.key, Err(error)));
            }
        }
        outcomes
    }

    /// Prepares what one process needs. `name` distinguishes it from the others of this server.
    pub(crate) fn plan(&self, name: &str) -> Result<(Plan, Leftovers), ConfinementError> {
        let mut leftovers = Leftovers::default();
        // On an error, what was made so far is removed.
        let plan = self.prepare(name, &mut leftovers);
        match plan {
            Ok(plan) => Ok((plan, leftovers)),
            Err(error) => {
                leftovers.remove();
                Err(error)
            }
        }
    }

    fn prepare(&self, name: &str, leftovers: &mut Leftovers) -> Result<Plan, ConfinementError> {
        let mut steps = Vec::new();
        let mut step = |key, remedy, what: &str, action| {
            steps.push(Step {
                key,
                what: what.to_owned(),
                remedy,
                action,
            });
        };
        if !self.cgroup.is_empty() {
            let parent = cgroup::parent(self.cgroup.first_key())?;
            let name = format!("worker-{}-{name}", std::process::id());
            let (folder, entrance) = cgroup::create(&self.cgroup, &parent, &name)?;
            leftovers.cgroup = Some(folder);
            step(
                self.cgroup.first_key(),
                cgroup::REMEDY,
                "enter the cgroup",
                Action::EnterCgroup(entrance),
            );
        }
        for (limit, value) in &self.limits {
            self.check_limit(*limit, *value)?;
            step(
                limit.key(),
                "choose a value that the server's own limit allows",
                "set the limit",
                Action::Limit(limit.resource(), *value),
            );
        }
        if let Some(account) = &self.account {
            self.check_account(account)?;
            let remedy = "run the server as root, or with these capabilities";
            if !account.is_in_force() {
                let groups = account.groups.iter().map(|group| Gid::from_raw(*group)).collect();
                step("group", remedy, "set the groups", Action::Groups(groups));
                let gid = Gid::from_raw(account.gid);
                step("group", remedy, "change to the group", Action::Group(gid));
                let uid = Uid::from_raw(account.uid);
                step("user", remedy, "change to the user", Action::User(uid));
            }
        }
        if self.private_tmp {
            let owner = self.account.as_ref().map(|account| (account.uid, account.gid));
            let folder = folder::create(owner).map_err(|error| ConfinementError {
                key: "private_tmp",
                reason: format!(
                    "cannot make a folder in {}: {error}",
                    std::env::temp_dir().display()
                ),
                remedy: "TMPDIR of the server names another place",
            })?;
            leftovers.tmp = Some(folder);
        }
        let needs_domain = self.files.is_some() || !self.network;
        let plain = "the kernel must be Linux 4.3 or newer";
        if self.no_new_privs || needs_domain {
            step("no_new_privs", plain, "forgo privileges", Action::NoNewPrivs);
            // After the line above, root's programs do not get them back. Some would lead around landlock.
            step(
                "no_new_privs",
                plain,
                "drop capabilities",
                Action::DropCapabilities,
            );
        } else {
            // They would pass to workers whatever their user.
            step("user", plain, "drop ambient capabilities", Action::DropAmbient);
        }
        if needs_domain {
            let key = if self.files.is_some() { "read" } else { "network" };
            let ruleset = files::ruleset(self.files.as_ref(), leftovers.tmp.as_deref())?;
            step(
                key,
                "enable landlock",
                "apply the landlock rules",
                Action::Landlock(ruleset),
            );
        }
        if !self.network {
            let remedy = "the kernel must have CONFIG_SECCOMP_FILTER";
            let filter = filter().map_err(|error| ConfinementError {
                key: "network",
                reason: error.to_string(),
                remedy,
            })?;
            step(
                "network",
                remedy,
                "apply the seccomp filter",
                Action::Filter(filter),
            );
        }
        for path in &self.required {
            let Ok(text) = CString::new(path.as_os_str().as_bytes()) else {
                continue;
            };
            step(
                "user",
                "let this user read it, and enter the folders above (`chmod o+x`); FOREBAY_CACHE_DIR of the server names that of the SDK",
                &format!("read {}", path.display()),
                Action::Require(text),
            );
        }
        let failed =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| ConfinementError {
                key: "user",
                reason: format!("cannot watch the start of a process: {error}"),
                remedy: "raise the server's limit of open files",
            })?;
        Ok(Plan { steps, failed })
    }

    fn check_limit(&self, limit: Limit, value: u64) -> Result<(), ConfinementError> {
        let refused = |reason, remedy| {
            Err(ConfinementError {
                key: limit.key(),
                reason,
                remedy,
            })
        };
        let uid = self
            .account
            .as_ref()
            .map_or_else(|| rustix::process::geteuid().as_raw(), |account| account.uid);
        if limit == Limit::Processes && uid == 0 {
            let remedy = "set `user` to another one, or use `cgroup_processes_max`";
            return refused("the kernel does not hold root to this limit".to_owned(), remedy);
        }
        let may_raise = has(CapabilitySet::SYS_RESOURCE);
        match getrlimit(limit.resource()).maximum {
            Some(most) if value > most && !may_raise => refused(
                format!("{value} is more than the server's own hard limit, {most}"),
                "choose a lower value, or raise the server's limit",
            ),
            _ => Ok(()),
        }
    }

    fn check_account(&self, account: &Account) -> Result<(), ConfinementError> {
        if account.is_in_force() {
            return Ok(());
        }
        let mut needed = vec![
            (CapabilitySet::SETUID, "CAP_SETUID"),
            (CapabilitySet::SETGID, "CAP_SETGID"),
        ];
        if !account.is_own_user() {
            needed.push((CapabilitySet::KILL, "CAP_KILL"));
            if self.private_tmp {
                needed.push((CapabilitySet::CHOWN, "CAP_CHOWN"));
                needed.push((CapabilitySet::DAC_OVERRIDE, "CAP_DAC_OVERRIDE"));
            }
        }
        let missing: Vec<&str> = needed
            .into_iter()
            .filter(|(capability, _)| !has(*capability))
            .map(|(_, name)| name)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(ConfinementError {
            key: "user",
            reason: format!("the server lacks {}", missing.join(", ")),
            remedy: "run the server as root, or with these capabilities (`AmbientCapabilities=` under systemd)",
        })
    }
}

/// Whether this process may use a capability.
fn has(capability: CapabilitySet) -> bool {
    thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}

/// A filter that refuses [`NETWORK_CALLS`] with EPERM and kills a process that makes calls of another architecture.
fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let calls = NETWORK_CALLS.into_iter().flat_map(|call| {
        let x32 = cfg!(target_arch = "x86_64").then_some(call | X32);
        [Some(call), x32]
    });
    let rules: BTreeMap<i64, Vec<_>> = calls.flatten().map(|call| (call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture)?.try_into()
}

/// The steps by which a child confines itself before it runs the worker's program.
#[derive(Debug)]
pub(crate) struct Plan {
    steps: Vec<Step>,
    /// Receives the number of the step that has failed, counted from 1.
    failed: OwnedFd,
}

#[derive(Debug)]
struct Step {
    key: &'static str,
    /// The child's action, for the sentence "cannot ...".
    what: String,
    remedy: &'static str,
    action: Action,
}

#[derive(Debug)]
enum Action {
    EnterCgroup(OwnedFd),
    Limit(Resource, u64),
    Groups(Vec<Gid>),
    Group(Gid),
    User(Uid),
    NoNewPrivs,
    DropCapabilities,
    DropAmbient,
    Landlock(OwnedFd),
    Filter(BpfProgram),
    Require(CString),
}

impl Action {
    /// Makes system calls only, as is required between fork and exec.
    fn run(&self) -> Result<(), Errno> {
        match self {
            Self::EnterCgroup(entrance) => rustix::io::write(entrance, b"0").map(drop),
            Self::Limit(resource, value) => {
                let limit = Some(*value);
                setrlimit(
                    *resource,
                    Rlimit {
                        current: limit,
                        maximum: limit,
                    },
                )
            }
            Self::Groups(groups) => thread::set_thread_groups(groups),
            Self::Group(gid) => thread::set_thread_res_gid(*gid, *gid, *gid),
            Self::User(uid) => thread::set_thread_res_uid(*uid, *uid, *uid),
            Self::DropCapabilities => thread::set_capabilities(
                None,
                CapabilitySets {
                    effective: CapabilitySet::empty(),
                    permitted: CapabilitySet::empty(),
                    inheritable: CapabilitySet::empty(),
                },
            ),
            Self::DropAmbient => thread::clear_ambient_capability_set(),
            Self::NoNewPrivs => thread::set_no_new_privs(true),
            Self::Landlock(ruleset) => sys::landlock_restrict_self(ruleset),
            Self::Filter(filter) => seccompiler::apply_filter(filter).map_err(|error| match error {
                seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => {
                    Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
                }
                _ => Errno::INVAL,
            }),
            Self::Require(path) => rustix::fs::access(path, Access::READ_OK),
        }
    }
}

impl Plan {
    /// Applies every step to this process. To be called between fork and exec: it allocates nothing and takes no lock.
    pub(crate) fn apply(&self) -> io::Result<()> {
        for (step, number) in self.steps.iter().zip(1_u64..) {
            if let Err(error) = step.action.run() {
                let _ = rustix::io::write(&self.failed, &number.to_ne_bytes());
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// The failed step of a child whose spawn failed with `error`; `None` if it got through all.
    pub(crate) fn failure(&self, error: &io::Error) -> Option<ConfinementError> {
        let mut number = [0; 8];
        rustix::io::read(&self.failed, &mut number).ok()?;
        let step = self
            .steps
            .get(usize::try_from(u64::from_ne_bytes(number)).ok()? - 1)?;
        Some(ConfinementError {
            key: step.key,
            reason: format!("cannot {}: {error}", step.what),
            remedy: step.remedy,
        })
    }

    /// Forks a process that applies the steps and ends.
    fn try_out(self) -> Result<(), ConfinementError> {
        let mut command = Command::new("/proc/self/exe");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let plan = std::sync::Arc::new(self);
        sys::before_exec(&mut command, {
            let plan = plan.clone();
            move || {
                plan.apply()?;
                Err(io::Error::from_raw_os_error(TRIAL_OVER))
            }
        });
        let error = command.spawn().err();
        let error = error.expect("the child reports an error in any case");
        match plan.failure(&error) {
            Some(failure) => Err(failure),
            None if error.raw_os_error() == Some(TRIAL_OVER) => Ok(()),
            None => Err(ConfinementError {
                key: "user",
                reason: format!("cannot start a process to try it out: {error}"),
                remedy: "see the limits of processes and memory of the server",
            }),
        }
    }
}

/// Resources made for a process that outlive it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leftovers {
    /// The private temporary folder.
    pub(crate) tmp: Option<PathBuf>,
    pub(crate) cgroup: Option<PathBuf>,
}

impl Leftovers {
    pub(crate) fn are_there(&self) -> bool {
        self.tmp.is_some() || self.cgroup.is_some()
    }

    /// Kills what is left of the process's cgroup, and removes everything. It may take long: the worker has filled the folder.
    pub(crate) fn remove(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup::remove(cgroup);
        }
        if let Some(tmp) = &self.tmp
            && let Err(error) = folder::remove(tmp)
        {
            tracing::warn!(
                target: "forebay::pool", folder = %tmp.display(), "a worker's temporary folder cannot be removed: {error}"
            );
        }
    }
}
