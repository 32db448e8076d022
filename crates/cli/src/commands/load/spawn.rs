//! Starts the server of `--vs-cmd`, waits until it listens, and stops it with its process group. Processes that leave the group keep running.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Pid;

use super::interrupt::Interrupt;

/// Longest time until a command must listen.
const START_MAX: Duration = Duration::from_mins(1);
/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(10);

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
    #[error("`{command}` does not listen on {address} after {} s", START_MAX.as_secs())]
    Silent { command: String, address: SocketAddr },
    /// Interrupted by Ctrl-C.
    #[error("interrupted before `{command}` listened")]
    Interrupted { command: String },
}

/// A server started here. It is stopped on drop.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    group: Pid,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a shell command in a process group of its own, so that Ctrl-C reaches it only through this process, and waits until it
    /// listens on the port that it finds in `PORT`. Its output goes to standard error: standard output is reserved for the result.
    pub(crate) fn start(command: &str, interrupt: &Interrupt) -> Result<Self, SpawnError> {
        let command = command.to_owned();
        let mut server = Self::spawn(&command).map_err(|source| SpawnError::Start {
            command: command.clone(),
            source,
        })?;
        interrupt.kills(server.group);
        let (address, begun) = (server.address, Instant::now());
        while TcpStream::connect_timeout(&address, START_MAX).is_err() {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(SpawnError::Ended { command, status });
            }
            if interrupt.came() {
                return Err(SpawnError::Interrupted { command });
            }
            if begun.elapsed() >= START_MAX {
                return Err(SpawnError::Silent { command, address });
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(server)
    }

    fn spawn(command: &str) -> io::Result<Self> {
        // Closed again at once: the command takes the port.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let child = Command::new("sh")
            .args(["-c", command])
            .env("PORT", address.port().to_string())
            .stdin(Stdio::null())
            .stdout(io::stderr().as_fd().try_clone_to_owned()?)
            .process_group(0)
            .spawn()?;
        Ok(Self {
            group: Pid::from_child(&child),
            child,
            address,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        forebay_bench::end_group(&mut self.child);
    }
}
