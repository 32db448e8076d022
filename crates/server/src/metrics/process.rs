//! Resource usage of the server process.

use std::{fs, time::Duration};

/// Memory, CPU time and file descriptors of this process, without its workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessUse {
    /// Resident memory; `None` if `/proc` cannot be read.
    pub(crate) rss_bytes: Option<u64>,
    /// CPU time of all threads since the start.
    pub(crate) cpu: Duration,
    /// Open file descriptors; `None` if `/proc` cannot be read.
    pub(crate) open_fds: Option<usize>,
}

impl ProcessUse {
    pub(crate) fn now() -> Self {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Self {
            rss_bytes: rss_bytes(),
            cpu: Duration::new(
                cpu.tv_sec.unsigned_abs(),
                u32::try_from(cpu.tv_nsec).unwrap_or_default(),
            ),
            open_fds: fs::read_dir("/proc/self/fd").ok().map(Iterator::count),
        }
    }
}

/// Resident memory: the second field of `/proc/self/statm`, in pages (proc(5)), converted to bytes.
fn rss_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
