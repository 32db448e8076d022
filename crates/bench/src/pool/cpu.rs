//! CPU time as Linux counts it (proc(5)).

use std::fs;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread, in microseconds.
pub(crate) fn this_thread_us() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// CPU time of this process and all its descendants, in microseconds; the resolution is the kernel's tick. `None` without /proc.
pub(crate) fn everything_us() -> Option<f64> {
    let all: Vec<Stat> = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with(|c: char| c.is_ascii_digit())
        })
        // Processes that end during the scan are skipped.
        .filter_map(|entry| Stat::parse(&fs::read_to_string(entry.path().join("stat")).ok()?))
        .collect();
    let mut family: Vec<&Stat> = all.iter().filter(|each| each.pid == std::process::id()).collect();
    let mut at = 0;
    while let Some(parent) = family.get(at).map(|each| each.pid) {
        family.extend(all.iter().filter(|each| each.parent == parent));
        at += 1;
    }
    let ticks: u64 = family.iter().map(|each| each.ticks).sum();
    (!family.is_empty()).then(|| ticks as f64 * tick_us())
}

/// CPU time of all processes on the machine since boot, summed over all cores, in microseconds. `None` without /proc.
pub(crate) fn machine_busy_us() -> Option<f64> {
    busy_us(&fs::read_to_string("/proc/stat").ok()?)
}

fn busy_us(stat: &str) -> Option<f64> {
    let all = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = all
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; guest time is already included in `user`.
    let busy: u64 = [0, 1, 2, 5, 6, 7]
        .into_iter()
        .filter_map(|at| ticks.get(at))
        .sum();
    Some(busy as f64 * tick_us())
}

fn tick_us() -> f64 {
    1e6 / rustix::param::clock_ticks_per_second() as f64
}

struct Stat {
    pid: u32,
    parent: u32,
    /// Includes children that have ended and were waited for.
    ticks: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The command name, in parentheses, may itself contain spaces and parentheses.
        let (head, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let times = fields.get(11..15)?;
        Some(Self {
            pid: head.split(' ').next()?.parse().ok()?,
            parent: fields[1].parse().ok()?,
            ticks: times.iter().filter_map(|field| field.parse::<u64>().ok()).sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let text = "17 (a) (b c) S 5 17 17 0 -1 4194304 1 2 3 4 100 20 3 4 20 0 1 0 99 1 1";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.pid, stat.parent, stat.ticks), (17, 5, 127));
        assert!(Stat::parse("17 (a").is_none());
    }

    #[test]
    fn a_machine_is_busy_while_it_neither_idles_nor_waits() {
        let busy = busy_us("cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 1\n").unwrap();
        assert!((busy / tick_us() - 63.0).abs() < 1e-9);
        assert_eq!(busy_us("intr 5"), None);
    }

    #[test]
    fn work_of_this_thread_is_seen() {
        let before = this_thread_us();
        let sum: u64 = (0..200_000_u64).map(std::hint::black_box).sum();
        assert!(sum > 0 && this_thread_us() > before);
        assert!(everything_us().is_some());
    }
}
