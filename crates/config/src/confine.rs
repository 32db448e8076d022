//! `[pool.NAME.confine]`

use std::path::PathBuf;
use std::time::Duration;

use crate::build::Context;
use crate::fields::Fields;
use crate::key::{GIB, HOUR, MIB, SECOND, TIB};
use crate::section::section;

section! {
    /// Limits on what the workers of a pool may do and use. If this machine does not grant a key, the server does not start; `forebay check` says
    /// which it grants. See `docs/guide/confinement.md`.
    #[check(Confine::check)]
    pub struct Confine {
        /// The user that workers run as, a name or a number, with its groups. The server needs to be root, or to have the capabilities
        /// that an error names. Such a pool has no store, which only the server's own user may open.
        user: Option<String>,
        /// Their group, a name or a number. Without the key that of the user.
        group: Option<String>,
        /// Files and folders that workers may read and execute, each with all below. With `read` or `write`, they reach nothing else but
        /// what they need to start: programs and libraries of the system, the runtime, the folder of the handler, packages and
        /// `package.json` there and above, the store, and the private temporary folder. Needs landlock of Linux 6.2.
        read: Option<Vec<PathBuf>>,
        /// Files and folders that workers may also change.
        write: Option<Vec<PathBuf>>,
        /// Whether workers may make sockets. `false`: neither of the network nor to local services; the server still reaches databases
        /// for them (`sql`). Needs landlock of Linux 5.13 and seccomp.
        network: bool = "true",
        /// Whether workers have none of the server's capabilities, and gain no privileges by programs with set-user-ID, set-group-ID or
        /// file capabilities.
        no_new_privs: bool = "true",
        /// Whether each worker has a temporary folder of its own, which only it may enter and which is removed when it ends: its TMPDIR.
        private_tmp: bool = "true",
        /// Longest address space of a process (RLIMIT_AS). Node and Bun reserve many gigabytes without using them: limit them by
        /// `cgroup_memory_max` instead.
        address_space_max: Option<u64> as size(64 * MIB, TIB),
        /// Open files of a process (RLIMIT_NOFILE).
        open_files_max: Option<u64> as integer(32, 1_048_576),
        /// Processes and threads of the user, in all pools and outside of them (RLIMIT_NPROC). Needs a `user` other than root.
        processes_max: Option<u64> as integer(1, 4_194_304),
        /// Longest core dump; 0: none (RLIMIT_CORE).
        core_max: Option<u64> as size(0, TIB),
        /// CPU time of a process in its whole life, in whole seconds (RLIMIT_CPU). The process is then killed.
        cpu_time_max: Option<Duration> as duration(SECOND, 8_760 * HOUR),
        /// Longest file that a process may write, the store's included (RLIMIT_FSIZE).
        file_size_max: Option<u64> as size(0, TIB),
        /// Memory of a worker and all that it starts. The kernel kills them together when it is exceeded. The three keys of cgroups need
        /// version 2 and the server in a leaf of a delegated one.
        cgroup_memory_max: Option<u64> as size(16 * MIB, 1_024 * GIB),
        /// CPU time of a worker and all that it starts, in percent of one core: 150 is one and a half.
        cgroup_cpu_percent_max: Option<u64> as integer(1, 102_400),
        /// Processes and threads of a worker and all that it starts.
        cgroup_processes_max: Option<u64> as integer(1, 4_194_304),
    }
}

impl Confine {
    /// Whether only the files that are named, and those that a worker needs, can be reached.
    pub fn confines_files(&self) -> bool {
        self.read.is_some() || self.write.is_some()
    }

    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        if !self.no_new_privs && (self.confines_files() || !self.network) {
            let message = "found false; `read`, `write` and `network = false` need it true";
            context.note(fields.problem("no_new_privs", message));
        }
        if let Some(time) = self.cpu_time_max.filter(|time| time.subsec_nanos() != 0) {
            let message = format!("found {time:?}, expected whole seconds");
            context.note(fields.problem("cpu_time_max", message));
        }
    }
}
