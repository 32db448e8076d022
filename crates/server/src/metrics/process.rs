//! What the server's own process uses.

use std::{fs, time::Duration};

/// Memory, processor time and descriptors of this process, without its workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessUse {
    /// Resident memory, if `/proc` can be read.
    pub(crate) rss_bytes: Option<u64>,
    /// Processor time of all threads since the start.
    pub(crate) cpu: Duration,
    /// Open descriptors, if `/proc` can be read.
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

/// The second number of `/proc/self/statm`, in pages (proc(5)).
fn rss_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
