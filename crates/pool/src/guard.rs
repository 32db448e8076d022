//! A process that outlives a server killed with SIGKILL, to kill the processes that its workers have started.
//!
//! A worker itself dies with the server (`PR_SET_PDEATHSIG`), but its children do not. They are in the worker's process group, so the
//! server tells the guard about each group through a pipe: `+PID` after a worker's start, `-PID` before it is reaped. Of a confined worker it
//! also says what to remove: `+PID\tFOLDER\tCGROUP`. The kernel closes the pipe however the server ends, and the guard then kills the
//! remaining groups. The guard is not a child of the server and has its own
//! session, so a signal to the server's group or terminal does not reach it.

use std::{
    collections::HashMap,
    ffi::OsString,
    io::{self, BufRead as _, BufReader, Write as _},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use parking_lot::Mutex;

use crate::{confinement::Leftovers, sys};

/// A link to the running program, valid even if its file was replaced or removed.
const THIS_PROGRAM: &str = "/proc/self/exe";

static GUARD: Mutex<Guard> = Mutex::new(Guard::Off);

#[derive(Debug)]
enum Guard {
    Off,
    /// The arguments with which this program calls [`detach`].
    Asked(Vec<OsString>),
    Running(io::PipeWriter),
}

/// Requests that a guard is started together with the first worker: this program with `arguments`, which must call [`detach`].
pub fn enable(arguments: impl IntoIterator<Item = impl Into<OsString>>) {
    *GUARD.lock() = Guard::Asked(arguments.into_iter().map(Into::into).collect());
}

/// Starts this program with `arguments`, which must call [`run`], on the same standard input, and returns at once.
///
/// # Errors
/// The process cannot be started.
pub fn detach(arguments: &[&str]) -> io::Result<()> {
    Command::new(THIS_PROGRAM)
        .args(arguments)
        .current_dir("/")
        .spawn()?;
    Ok(())
}

/// Reads the server's messages about its workers from standard input until the server is gone, then kills the process groups that were not
/// withdrawn.
///
/// # Errors
/// The process cannot leave the server's session.
pub fn run() -> io::Result<()> {
    rustix::process::setsid()?;
    let mut groups = HashMap::new();
    for line in BufReader::new(io::stdin()).lines() {
        let Ok(line) = line else { break };
        let Some((sign, rest)) = line.split_at_checked(1) else {
            continue;
        };
        let mut words = rest.split('\t');
        let Some(Ok(group)) = words.next().map(str::parse::<u32>) else {
            continue;
        };
        let mut path = || words.next().filter(|path| !path.is_empty()).map(PathBuf::from);
        match sign {
            "+" => groups.insert(
                group,
                Leftovers {
                    tmp: path(),
                    cgroup: path(),
                },
            ),
            _ => groups.remove(&group),
        };
    }
    for group in groups.keys() {
        sys::signal_group(*group, libc::SIGKILL);
    }
    groups.values().for_each(Leftovers::remove);
    Ok(())
}

/// Registers the process group of a process that was started.
pub fn add(pid: u32) {
    add_worker(pid, &Leftovers::default());
}

/// Registers the process group of a worker that was started, and what it will leave behind.
pub(crate) fn add_worker(pid: u32, leftovers: &Leftovers) {
    let mut guard = GUARD.lock();
    if let Guard::Asked(arguments) = &*guard {
        *guard = match start(arguments) {
            Ok(pipe) => Guard::Running(pipe),
            Err(error) => {
                tracing::warn!(
                    target: "forebay::pool",
                    "what workers start will outlive a server that is killed: the process that would end it did not start: {error}"
                );
                Guard::Off
            }
        };
    }
    let path = |path: &Option<PathBuf>| {
        let text = path.as_deref().and_then(Path::to_str).unwrap_or_default();
        // It would end the line.
        if text.contains(char::is_control) { "" } else { text }.to_owned()
    };
    let (tmp, cgroup) = (path(&leftovers.tmp), path(&leftovers.cgroup));
    tell(&mut guard, &format!("+{pid}\t{tmp}\t{cgroup}\n"));
}

/// Withdraws the group of a worker that has ended, after the group was killed. Once the worker is reaped, its number may be reused.
pub fn remove(pid: u32) {
    tell(&mut GUARD.lock(), &format!("-{pid}\n"));
}

fn start(arguments: &[OsString]) -> io::Result<io::PipeWriter> {
    let (stdin, pipe) = io::pipe()?;
    // A guard that was stopped by a signal must not block the server.
    rustix::io::ioctl_fionbio(pipe.as_fd(), true)?;
    let status = Command::new(THIS_PROGRAM)
        .args(arguments)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() {
        Ok(pipe)
    } else {
        Err(io::Error::other(format!("it ended with {status}")))
    }
}

/// Each line is short enough that the kernel writes it to the pipe atomically.
fn tell(guard: &mut Guard, line: &str) {
    if let Guard::Running(pipe) = guard
        && let Err(error) = pipe.write_all(line.as_bytes())
    {
        tracing::warn!(
            target: "forebay::pool",
            "what workers start will outlive a server that is killed: the process that would end it is gone: {error}"
        );
        *guard = Guard::Off;
    }
}
