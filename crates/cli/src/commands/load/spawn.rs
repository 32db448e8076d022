//! Starts a server's command, waits until it listens, and stops it with everything that it has started.

use std::{
    ffi::OsString,
    fs, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use super::interrupt::Interrupt;

/// Longest time until a command listens.
const START_MAX: Duration = Duration::from_secs(60);
/// How long a command may take to end when it is asked to.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The state of a listening socket in `/proc/net/tcp` (the kernel's `TCP_LISTEN`).
const LISTENING: &str = "0A";

/// Why a command does not serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnError {
    /// It could not be started.
    #[error("cannot start `{command}`")]
    Start {
        command: String,
        #[source]
        source: io::Error,
    },
    /// It has ended before it listened.
    #[error("`{command}` has ended ({status}) before it listened")]
    Ended { command: String, status: ExitStatus },
    /// It runs, and does not listen.
    #[error("`{command}` does not listen {} after {} s", wanted.map_or("anywhere".to_owned(), |at| format!("on {at}")), START_MAX.as_secs())]
    Silent {
        command: String,
        wanted: Option<SocketAddr>,
    },
    /// Ctrl-C came first.
    #[error("interrupted before `{command}` listened")]
    Interrupted { command: String },
}

/// A server that was started here. It is stopped when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    group: Pid,
    command: String,
}

impl Server {
    /// Starts a command in a process group of its own, so that Ctrl-C reaches it only through here. What it prints goes to standard
    /// error: standard output is for the result.
    pub(crate) fn start(
        words: &[OsString],
        port: Option<u16>,
        interrupt: &Interrupt,
    ) -> Result<Self, SpawnError> {
        let shown: Vec<String> = words.iter().map(|word| word.display().to_string()).collect();
        let command = shown.join(" ");
        let failed = |source| SpawnError::Start {
            command: command.clone(),
            source,
        };
        let missing = || {
            failed(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the command is empty",
            ))
        };
        let (program, arguments) = words.split_first().ok_or_else(missing)?;
        let output = io::stderr().as_fd().try_clone_to_owned().map_err(failed)?;
        let mut starting = Command::new(program);
        starting
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output)
            .process_group(0);
        if let Some(port) = port {
            starting.env("PORT", port.to_string());
        }
        let child = starting.spawn().map_err(failed)?;
        let group = Pid::from_child(&child);
        // The second Ctrl-C ends this process without any drop.
        interrupt.before_abort(Box::new(move || {
            let _ = kill_process_group(group, Signal::KILL);
        }));
        Ok(Self {
            child,
            group,
            command,
        })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until something listens: at the address that is wanted, or else wherever a process of the command listens first.
    pub(crate) fn wait(
        &mut self,
        wanted: Option<SocketAddr>,
        interrupt: &Interrupt,
    ) -> Result<SocketAddr, SpawnError> {
        let begun = Instant::now();
        let command = || self.command.clone();
        loop {
            let found = match wanted {
                Some(address) => TcpStream::connect_timeout(&address, START_MAX)
                    .is_ok()
                    .then_some(address),
                None => listener_of(Path::new("/proc"), self.group.as_raw_nonzero().get()),
            };
            if let Some(address) = found {
                return Ok(address);
            }
            let command = command();
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(SpawnError::Ended { command, status });
            }
            if interrupt.came() {
                return Err(SpawnError::Interrupted { command });
            }
            if begun.elapsed() >= START_MAX {
                return Err(SpawnError::Silent { command, wanted });
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM lets it end in order; what is left of its group afterwards, its own children among them, is ended.
        let _ = kill_process_group(self.group, Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < STOP_MAX && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK_EVERY);
        }
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// An address on this machine at which a process of the group listens.
fn listener_of(proc: &Path, group: i32) -> Option<SocketAddr> {
    let processes = fs::read_dir(proc).ok()?.flatten().filter(|entry| {
        let is_process = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        is_process && group_of(&entry.path()) == Some(group)
    });
    let sockets: Vec<String> = processes
        .flat_map(|process| sockets_of(&process.path()))
        .collect();
    let tables = [("net/tcp", false), ("net/tcp6", true)];
    tables.iter().find_map(|(table, v6)| {
        let table = fs::read_to_string(proc.join(table)).ok()?;
        table
            .lines()
            .skip(1)
            .find_map(|line| listener(line, *v6, &sockets))
    })
}

/// The process group, the fifth field of `stat`. The second is a name in brackets, which may hold anything.
fn group_of(process: &Path) -> Option<i32> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

/// The inodes of a process's sockets.
fn sockets_of(process: &Path) -> Vec<String> {
    let Ok(files) = fs::read_dir(process.join("fd")) else {
        return Vec::new();
    };
    let inode = |file: fs::DirEntry| {
        let target = fs::read_link(file.path()).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some(inode.to_owned())
    };
    files.flatten().filter_map(inode).collect()
}

/// The address of a line of `/proc/net/tcp`, if it is a listener among these sockets.
fn listener(line: &str, v6: bool, sockets: &[String]) -> Option<SocketAddr> {
    let mut fields = line.split_whitespace().skip(1);
    let (address, state) = (fields.next()?, fields.nth(1)?);
    let inode = fields.nth(5)?;
    if state != LISTENING || !sockets.iter().any(|socket| socket == inode) {
        return None;
    }
    let (_, port) = address.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // A listener for all addresses is reached through the loopback; one for the other family's too, as a rule.
    let host = if v6 && !address.starts_with(&"0".repeat(32)) {
        Ipv6Addr::LOCALHOST.into()
    } else {
        Ipv4Addr::LOCALHOST.into()
    };
    Some(SocketAddr::new(host, port))
}

/// A port that is free now, for a server that is told its port.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_by_its_socket() {
        let sockets = ["4711".to_owned()];
        let line = |local: &str, state: &str, inode: u32| {
            format!(
                "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0 100 0 0 10 0"
            )
        };
        let v4 = listener(&line("0100007F:1F90", "0A", 4711), false, &sockets);
        assert_eq!(v4, Some("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(
            listener(&line("0100007F:1F90", "01", 4711), false, &sockets),
            None,
            "it is connected"
        );
        assert_eq!(
            listener(&line("0100007F:1F90", "0A", 4712), false, &sockets),
            None,
            "it is another's"
        );
        let any = listener(
            &line(&format!("{}:0050", "0".repeat(32)), "0A", 4711),
            true,
            &sockets,
        );
        assert_eq!(any, Some("127.0.0.1:80".parse().unwrap()));
        assert_eq!(listener("garbage", false, &sockets), None);
    }

    #[test]
    fn the_listener_of_this_very_process_is_found() {
        let here = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let group = group_of(Path::new("/proc/self")).unwrap();
        let found = listener_of(Path::new("/proc"), group).unwrap();
        assert!(found.ip().is_loopback() && found.port() > 0);
        drop(here);
    }
}
