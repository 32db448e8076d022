//! CPU time as Linux counts it (proc(5)), in microseconds.

use forebay_load::machine::Machine;
use rustix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread.
pub(crate) fn this_thread_us() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// CPU time of this process and all its descendants; the resolution is the kernel's tick. `None` without /proc.
pub(crate) fn everything_us() -> Option<f64> {
    Machine::this().own_cpu_seconds().map(|seconds| seconds * 1e6)
}

/// CPU time of all processes on the machine since boot, summed over all cores. `None` without /proc.
pub(crate) fn machine_busy_us() -> Option<f64> {
    Machine::this().busy_seconds().map(|seconds| seconds * 1e6)
}
