//! Starts a server's command, waits until it listens, and stops it with everything that it has started: its process group, all its
//! descendants, and daemons that it left behind. Processes that others start on its behalf (a service manager, a container's daemon) keep
//! running, and so does everything when this process is killed by SIGKILL.

mod listeners;
mod processes;

use std::{
    ffi::OsString,
    io,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group, set_child_subreaper};

use super::interrupt::Interrupt;

/// Longest time until a command must listen.
const START_MAX: Duration = Duration::from_mins(1);
/// Longest time that a command may take to end after SIGTERM.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Longest time that processes it left behind may take.
const LEFT_MAX: Duration = Duration::from_secs(1);
/// A command's listeners are complete when none has been added for this long.
const SETTLED: Duration = Duration::from_millis(100);

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
    /// It ended before it listened.
    #[error("`{command}` has ended ({status}) before it listened")]
    Ended { command: String, status: ExitStatus },
    /// It runs, but does not listen.
    #[error("`{command}` does not listen {} after {} s", wanted.map_or("anywhere".to_owned(), |at| format!("on {at}")), START_MAX.as_secs())]
    Silent {
        command: String,
        wanted: Option<SocketAddr>,
    },
    /// Interrupted by Ctrl-C.
    #[error("interrupted before `{command}` listened")]
    Interrupted { command: String },
}

/// Starts servers, and keeps track of the processes they leave behind.
#[derive(Debug)]
pub(crate) struct Spawner {
    roots: Arc<Mutex<Vec<Pid>>>,
}

/// A server started here. It is stopped on drop.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    group: Pid,
    family: Family,
    command: String,
}

impl Spawner {
    /// Becomes the subreaper: a descendant whose parent ends becomes a child of this process.
    pub(crate) fn new() -> Self {
        // If this fails (before Linux 3.4), only daemons are missed.
        let _ = set_child_subreaper(Some(getpid()));
        Self {
            roots: Arc::default(),
        }
    }

    /// Starts a command in a process group of its own, so that Ctrl-C reaches it only through this process. Its output goes to standard
    /// error: standard output is reserved for the result.
    pub(crate) fn start(
        &self,
        words: &[OsString],
        port: Option<u16>,
        interrupt: &Interrupt,
    ) -> Result<Server, SpawnError> {
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
        self.roots
            .lock()
            .expect("nobody panics with it locked")
            .push(group);
        let family = Family {
            group,
            roots: self.roots.clone(),
        };
        // The second Ctrl-C ends this process without running destructors.
        let abandoned = family.clone();
        interrupt.before_abort(Box::new(move || abandoned.kill()));
        Ok(Server {
            child,
            group,
            family,
            command,
        })
    }
}

impl Server {
    /// Process ID of the command.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the command listens: at `wanted`, if given, or else on any port of its processes. Returns the addresses in the order in
    /// which they were opened.
    pub(crate) fn wait(
        &mut self,
        wanted: Option<SocketAddr>,
        interrupt: &Interrupt,
    ) -> Result<Vec<SocketAddr>, SpawnError> {
        let begun = Instant::now();
        let command = || self.command.clone();
        let mut seen = (Instant::now(), Vec::new());
        loop {
            let found = match wanted {
                Some(address) if TcpStream::connect_timeout(&address, START_MAX).is_ok() => {
                    return Ok(vec![address]);
                }
                Some(_) => Vec::new(),
                None => listeners::listeners(Path::new("/proc"), &self.family.numbers()),
            };
            if found != seen.1 {
                seen = (Instant::now(), found);
            } else if !found.is_empty() && seen.0.elapsed() >= SETTLED {
                return Ok(found);
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
        // SIGTERM lets it end in order, together with its own children. Processes that are left after that are killed.
        let _ = kill_process_group(self.group, Signal::TERM);
        wait_until(STOP_MAX, || !matches!(self.child.try_wait(), Ok(None)));
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.child.wait();
        signal(&self.family.living(), Signal::TERM);
        let gone = || self.family.living().is_empty();
        if !wait_until(LEFT_MAX, gone) {
            self.family.kill();
        }
    }
}

/// Identifies the processes of a server.
#[derive(Clone, Debug)]
struct Family {
    group: Pid,
    /// Pids of the commands of all servers.
    roots: Arc<Mutex<Vec<Pid>>>,
}

impl Family {
    fn numbers(&self) -> Vec<i32> {
        let roots = self.roots.lock().expect("nobody panics with it locked");
        let roots: Vec<i32> = roots.iter().map(|root| root.as_raw_nonzero().get()).collect();
        let (group, own) = (self.group.as_raw_nonzero().get(), getpid().as_raw_nonzero().get());
        processes::family(Path::new("/proc"), group, own, &roots)
    }

    fn living(&self) -> Vec<Pid> {
        self.numbers().into_iter().filter_map(Pid::from_raw).collect()
    }

    /// Kills all of it at once. A process that starts others meanwhile is killed again, for a limited time.
    fn kill(&self) {
        wait_until(LEFT_MAX, || {
            let living = self.living();
            signal(&living, Signal::KILL);
            living.is_empty()
        });
    }
}

/// Between the lookup of a process and its signal it may end, and its pid may be reused: the pids would have to wrap around within that
/// moment.
fn signal(processes: &[Pid], signal: Signal) {
    for process in processes {
        let _ = kill_process(*process, signal);
    }
}

/// Polls a condition for a limited time. True: it holds.
fn wait_until(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() >= patience {
            return false;
        }
        thread::sleep(LOOK_EVERY);
    }
    true
}

/// A free port, for a server that is told its port.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}
