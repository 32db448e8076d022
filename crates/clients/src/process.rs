//! Runs programs: without a shell, and with an environment of `PATH` alone.

use std::{path::Path, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    time::timeout,
};

use crate::{ClientError, Options};

/// The process group of a program, killed when this is dropped.
#[derive(Debug)]
struct Group {
    child: Child,
    /// The group id, which is the program's process id.
    number: Option<Pid>,
}

impl Group {
    /// Kills the group.
    fn end(&mut self) {
        if let Some(number) = self.number.take() {
            // It may have ended by itself.
            let _ = kill_process_group(number, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs a permitted program. Returns `{"exitCode", "stdout", "stderr"}`.
pub(crate) async fn run(
    options: &Options,
    program: &str,
    arguments: &[String],
    stdin: String,
    time_ms: u64,
) -> Result<Value, ClientError> {
    if !options
        .programs
        .iter()
        .any(|allowed| allowed == Path::new(program))
    {
        return Err(ClientError::NotAllowed {
            what: format!("program `{program}`"),
            key: "process",
            allowed: options
                .programs
                .iter()
                .map(|program| program.display().to_string())
                .collect(),
        });
    }
    let what = format!("program `{program}`");
    let time = Duration::from_millis(time_ms);
    let mut group = start(program, arguments).map_err(|error| failed(&what, &error))?;
    // Dropped when its time is over, which ends it.
    let ended = timeout(
        time,
        to_its_end(&mut group, stdin, options.output_bytes_max, &what),
    );
    ended.await.map_err(|_| ClientError::Time {
        what,
        time,
        limit: "timeoutMs",
    })?
}

fn start(program: &str, arguments: &[String]) -> std::io::Result<Group> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    let child = command.spawn()?;
    let number = child.id().and_then(|number| Pid::from_raw(number.cast_signed()));
    Ok(Group { child, number })
}

async fn to_its_end(
    group: &mut Group,
    stdin: String,
    bytes_max: usize,
    what: &str,
) -> Result<Value, ClientError> {
    let input = group.child.stdin.take();
    let (output, errors) = (group.child.stdout.take(), group.child.stderr.take());
    let write = async move {
        if let Some(mut input) = input {
            // A program need not read what it is given.
            let _ = input.write_all(stdin.as_bytes()).await;
        }
        Ok(())
    };
    let wait = async {
        let status = group.child.wait().await.map_err(|error| failed(what, &error))?;
        // Its children must not stay behind or hold its output open. The id is not reused while the group has processes.
        group.end();
        Ok(status)
    };
    let ((), status, stdout, stderr) = tokio::try_join!(
        write,
        wait,
        read(output, bytes_max, "standard output", what),
        read(errors, bytes_max, "standard error", what),
    )?;
    Ok(json!({ "exitCode": status.code(), "stdout": stdout, "stderr": stderr }))
}

/// Reads all output, within the limit. Invalid UTF-8 becomes U+FFFD.
async fn read(
    pipe: Option<impl AsyncRead + Unpin>,
    bytes_max: usize,
    name: &str,
    what: &str,
) -> Result<String, ClientError> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let read = pipe.take(bytes_max as u64 + 1).read_to_end(&mut bytes).await;
        read.map_err(|error| failed(what, &error))?;
    }
    if bytes.len() > bytes_max {
        return Err(ClientError::Long {
            what: format!("{name} of {what}"),
            bytes_max,
            limit: "process_output_max",
        });
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn failed(what: &str, error: &std::io::Error) -> ClientError {
    ClientError::Failed {
        what: what.to_owned(),
        reason: error.to_string(),
    }
}
