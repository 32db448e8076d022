//! The description of a machine, for reports that can be reproduced.

use serde::{Deserialize, Serialize};

use super::{Machine, process::number_after};

/// The properties of a machine that affect a measurement. `None` where the system does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Version of the load generator.
    pub version: String,
    /// Model of the processor.
    pub cpu: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// Cores' worth of CPU time that the container may use.
    pub cpu_quota: Option<f64>,
    /// Frequency governor of the cores. Anything but `performance` makes short runs slower than long ones.
    pub governor: Option<String>,
    /// Name and version of the kernel.
    pub kernel: Option<String>,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// Runnable processes when it was read, on average over the last minute.
    pub load_average: Option<f64>,
    /// Limit of open files, sockets included, of this process.
    pub open_files: Option<u64>,
    /// Range of local ports for connections: first and last.
    pub ports: Option<(u16, u16)>,
    /// Most connections that may wait in a server's accept queue.
    pub backlog: Option<u64>,
    /// The kernel's boot ID. Two runs with the same one ran on the same machine.
    pub boot: Option<String>,
}

impl Environment {
    pub(super) fn read(machine: &Machine) -> Self {
        let number = |path: &str| machine.read(path)?.split_whitespace().next()?.parse::<f64>().ok();
        let kernel = machine.read("sys/kernel/osrelease").map(|version| {
            let name = machine
                .read("sys/kernel/ostype")
                .unwrap_or_else(|| "Linux".into());
            format!("{name} {version}")
        });
        let memory = machine
            .read("meminfo")
            .and_then(|text| number_after(&text, "MemTotal:"));
        let quota = machine
            .read_sys("fs/cgroup/cpu.max")
            .and_then(|text| quota(&text));
        let ports = machine.read("sys/net/ipv4/ip_local_port_range").and_then(|text| {
            let mut ends = text.split_whitespace().map(str::parse);
            Some((ends.next()?.ok()?, ends.next()?.ok()?))
        });
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cpu: machine.read("cpuinfo").and_then(|text| model(&text)),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_quota: quota,
            governor: machine.read_sys("devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            kernel,
            memory_bytes: memory.map(|kilobytes| kilobytes * 1024),
            load_average: number("loadavg"),
            open_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            ports,
            backlog: number("sys/net/core/somaxconn").map(|number| number as u64),
            boot: machine.read("sys/kernel/random/boot_id"),
        }
    }

    /// The known properties as names and values, in the order in which reports show them.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let ports = self.ports.map(|(first, last)| format!("{first} to {last}"));
        let memory = self
            .memory_bytes
            .map(|bytes| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)));
        let lines = [
            ("forebay", Some(self.version.clone())),
            ("processor", self.cpu.clone()),
            ("cores", Some(self.cores.to_string())),
            ("cores allowed", self.cpu_quota.map(|cores| format!("{cores:.2}"))),
            ("governor", self.governor.clone()),
            ("kernel", self.kernel.clone()),
            ("memory", memory),
            (
                "load average before",
                self.load_average.map(|load| format!("{load:.2}")),
            ),
            ("open files", self.open_files.map(|files| files.to_string())),
            ("local ports", ports),
            ("accept backlog", self.backlog.map(|backlog| backlog.to_string())),
        ];
        lines
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }
}

/// The processor's name in `/proc/cpuinfo`; which field has it depends on the architecture.
fn model(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let mut found = fields.filter(|(key, value)| key.trim() == name && !value.trim().is_empty());
        found.next().map(|(_, value)| value.trim().to_owned())
    };
    ["model name", "Model", "Hardware", "cpu model", "uarch"]
        .into_iter()
        .find_map(field)
}

/// Cores' worth of time in `cpu.max`: `MICROSECONDS PERIOD`, or `max PERIOD` for all there is.
fn quota(text: &str) -> Option<f64> {
    let mut fields = text.split_whitespace().map(str::parse::<f64>);
    let (allowed, period) = (fields.next()?.ok()?, fields.next()?.ok()?);
    (period > 0.0).then(|| allowed / period)
}

#[cfg(test)]
mod tests {
    use crate::machine::tests::Folder;

    #[test]
    fn what_is_there_is_told() {
        let folder = Folder::new("environment");
        for (path, text) in [
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: Fast 3000\n\nprocessor\t: 1\nmodel name\t: Fast 3000\n",
            ),
            ("proc/meminfo", "MemTotal:        4194304 kB\nMemFree: 1 kB\n"),
            ("proc/loadavg", "0.25 0.5 0.5 1/100 5\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
            ("proc/sys/net/core/somaxconn", "4096\n"),
            ("sys/fs/cgroup/cpu.max", "150000 100000\n"),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "powersave\n",
            ),
        ] {
            folder.put(path, text);
        }
        let found = folder.machine().environment();
        assert_eq!(found.cpu.as_deref(), Some("Fast 3000"));
        assert_eq!(found.memory_bytes, Some(4 << 30));
        assert_eq!((found.cpu_quota, found.load_average), (Some(1.5), Some(0.25)));
        assert_eq!(
            (found.kernel.as_deref(), found.governor.as_deref()),
            (Some("Linux 6.1.0"), Some("powersave"))
        );
        assert_eq!((found.ports, found.backlog), (Some((32_768, 60_999)), Some(4096)));
        assert!(found.lines().contains(&("memory", "4.0 GiB".into())));
    }

    #[test]
    fn what_is_missing_or_garbled_is_left_out() {
        let folder = Folder::new("bare");
        folder.put("sys/fs/cgroup/cpu.max", "max 100000\n");
        folder.put("proc/sys/net/ipv4/ip_local_port_range", "x\n");
        folder.put("proc/cpuinfo", "\u{0}\u{0}");
        let found = folder.machine().environment();
        assert_eq!(
            (
                found.cpu.clone(),
                found.ports,
                found.cpu_quota,
                found.kernel.clone()
            ),
            (None, None, None, None)
        );
        assert!(found.cores >= 1 && found.lines().iter().all(|(_, value)| !value.is_empty()));
    }
}
