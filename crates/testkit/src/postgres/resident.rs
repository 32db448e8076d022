//! The server of `make postgres`: it runs in the background until `make postgres-stop`, whichever process started it. It belongs to a
//! folder, `target/`, whose file `postgres.env` holds its address.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use rustix::process::Signal;

use super::{Error, Process, cluster::Cluster, programs::Programs, template};

/// The variable that `postgres.env` sets.
const VARIABLE: &str = "FOREBAY_PG_URL";

/// Result of a start.
#[derive(Debug)]
#[non_exhaustive]
pub struct Resident {
    /// Address for users of the benchmarks' database.
    pub url: String,
    /// The file that sets `FOREBAY_PG_URL` to it.
    pub env_file: PathBuf,
    /// Process ID of the server.
    pub pid: u32,
    /// Whether it was running before.
    pub ran_before: bool,
}

/// The record of the running server in a file: its process, its port and its folder, one per line.
struct Record {
    process: Process,
    port: u16,
    folder: PathBuf,
}

/// Starts the server of a folder, unless it runs, and waits until it accepts connections.
pub fn start(of: &Path) -> Result<Resident, Error> {
    let _lock = lock(of)?;
    let programs = Programs::find()?;
    if let Some(record) = Record::read(of) {
        let cluster = Cluster::at(programs, record.folder, record.port);
        cluster.admin("hello_world")?.simple_query("select 1")?;
        return finish(of, &cluster, record.process, true);
    }
    let mut cluster = template::instance(&programs)?;
    let started = cluster.start(spawn);
    match started {
        Ok(process) => {
            Record::write(of, &cluster, process)?;
            finish(of, &cluster, process, false)
        }
        Err(error) => {
            let _ = fs::remove_dir_all(cluster.folder());
            Err(error)
        }
    }
}

/// Ends the server of a folder and removes its data; false when none runs.
pub fn stop(of: &Path) -> Result<bool, Error> {
    let _lock = lock(of)?;
    let Some(record) = Record::read(of) else {
        return Ok(false);
    };
    record.process.signal(Signal::INT);
    Cluster::wait_for_end(record.process)?;
    fs::remove_dir_all(&record.folder).map_err(Error::file("remove", &record.folder))?;
    for file in [record_file(of), env_file(of)] {
        fs::remove_file(&file).map_err(Error::file("remove", &file))?;
    }
    Ok(true)
}

fn spawn(cluster: &Cluster) -> Result<Process, Error> {
    let log = cluster.log_file()?;
    let errors = log
        .try_clone()
        .map_err(Error::file("write", cluster.folder().join("log")))?;
    let mut command = cluster.command();
    let child = command
        .args(["-p", &cluster.port().to_string()])
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(|source| Error::Run {
            path: cluster.programs().path("postgres"),
            source,
        })?;
    Process::with_pid(child.id()).ok_or_else(|| Error::Ended { log: cluster.log() })
}

fn finish(of: &Path, cluster: &Cluster, process: Process, ran_before: bool) -> Result<Resident, Error> {
    let url = cluster.url();
    let env_file = env_file(of);
    fs::write(&env_file, format!("{VARIABLE}={url}\n")).map_err(Error::file("write", &env_file))?;
    Ok(Resident {
        url,
        env_file,
        pid: process.pid,
        ran_before,
    })
}

fn env_file(of: &Path) -> PathBuf {
    of.join("postgres.env")
}

fn record_file(of: &Path) -> PathBuf {
    of.join("postgres.running")
}

fn lock(of: &Path) -> Result<File, Error> {
    template::lock(&of.join("postgres.lock"))
}

impl Record {
    /// The record of a running server. The files of one that was killed are removed.
    fn read(of: &Path) -> Option<Self> {
        let path = record_file(of);
        let text = fs::read_to_string(&path).ok()?;
        let mut lines = text.lines();
        let pid: Option<u32> = lines.next().and_then(|line| line.parse().ok());
        let port = lines.next().and_then(|line| line.parse().ok());
        let folder = lines.next().map(PathBuf::from);
        let (Some(pid), Some(port), Some(folder)) = (pid, port, folder) else {
            return None;
        };
        if let Some(process) = Process::with_pid(pid).filter(|_| serves(pid, &folder)) {
            return Some(Self {
                process,
                port,
                folder,
            });
        }
        let _ = fs::remove_dir_all(&folder);
        let _ = fs::remove_file(&path);
        None
    }

    fn write(of: &Path, cluster: &Cluster, process: Process) -> Result<(), Error> {
        let path = record_file(of);
        let text = format!(
            "{}\n{}\n{}\n",
            process.pid,
            cluster.port(),
            cluster.folder().display()
        );
        fs::write(&path, text).map_err(Error::file("write", path))
    }
}

/// Whether this process serves the folder, and is not another one with a reused pid.
fn serves(pid: u32, folder: &Path) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command
        .split(|byte| *byte == 0)
        .any(|argument| argument == folder.as_os_str().as_encoded_bytes())
}
