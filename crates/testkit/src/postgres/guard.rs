//! The process between tests and their PostgreSQL. It takes orders on its standard input; when that ends, however the tests have ended, it
//! ends the server and removes its folder.

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use rustix::process::Signal;

use super::{Error, cluster::Cluster};
use crate::Process;

/// Its arguments are the server's folder and command; its orders are `start PORT`, answered with the server's pid, and `stop`.
const SCRIPT: &str = r#"
folder=$1
shift
while read -r order port; do
  case $order in
    start) "$@" -p "$port" </dev/null >>"$folder/log" 2>&1 & server=$!; echo "$server" ;;
    stop) kill -s INT "$server"; wait "$server" ;;
  esac
done
kill -s QUIT "$server"
wait "$server"
rm -rf "$folder"
"#;

const SHELL: &str = "/bin/sh";

/// A guard process, with the server that it runs.
#[derive(Debug)]
pub(super) struct Guard {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    server: Option<Process>,
}

impl Guard {
    /// Has a cluster guarded. It runs as the server's user, in a group of its own, so that a key that ends the tests does not end it first.
    pub(super) fn over(cluster: &Cluster) -> Result<Self, Error> {
        let server = cluster.command();
        let mut command = cluster.programs().command(SHELL, cluster.folder());
        let mut child = command
            .arg("-c")
            .arg(SCRIPT)
            .arg("forebay-postgres-guard")
            .arg(cluster.folder())
            .arg(server.get_program())
            .args(server.get_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|source| Error::Run {
                path: PathBuf::from(SHELL),
                source,
            })?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Self {
            child,
            orders,
            answers,
            server: None,
        })
    }

    /// Starts the server, and returns its process before it accepts connections.
    pub(super) fn start(&mut self, port: u16) -> Result<Process, Error> {
        self.order(&format!("start {port}"))?;
        let mut answer = String::new();
        let process = self.answers.read_line(&mut answer).ok().and_then(|_| {
            let pid = answer.trim().parse().ok()?;
            Process::with_pid(pid)
        });
        let ended = || Error::Ended { log: String::new() };
        self.server = process;
        process.ok_or_else(ended)
    }

    /// Stops the server, which ends all its connections, and waits until it has ended.
    pub(super) fn stop(&mut self) -> Result<(), Error> {
        let Some(server) = self.server.take() else {
            return Ok(());
        };
        self.order("stop")?;
        Cluster::wait_for_end(server)
    }

    /// Kills the server without warning, as a crash of the machine would.
    pub(super) fn kill(&mut self) -> Result<(), Error> {
        let Some(server) = self.server.take() else {
            return Ok(());
        };
        let children = Process::children_of(server.pid);
        for process in [server].into_iter().chain(children) {
            process.signal(Signal::KILL);
            Cluster::wait_for_end(process)?;
        }
        Ok(())
    }

    fn order(&mut self, order: &str) -> Result<(), Error> {
        let orders = self.orders.as_mut().expect("it is open until it is dropped");
        writeln!(orders, "{order}").map_err(|source: io::Error| Error::Run {
            path: PathBuf::from(SHELL),
            source,
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.orders = None;
        // It ends: a server that is told to do so at once kills, after seconds, those of its processes that do not.
        let _ = self.child.wait();
    }
}
