//! Folders, programs and placeholders: everything that suites refer to by name.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::AtomicBool,
    time::Duration,
};

use forebay_load::report::format::plain;
use forebay_runtimes::{Environment, Runtime, find_python, find_runtime, is_executable};
use tempfile::TempDir;

use super::{
    LadderError,
    run::Settings,
    site::{FASTAPI_HELLO_PY, HELLO_MJS, HELLO_PY, TABLE},
    suite::Program,
};
use crate::process::Process;

/// Longest time that a peer's program may take.
const PROGRAM_MAX: Duration = Duration::from_mins(6);

/// Characters of a line of output in an error.
const LINE_MAX: usize = 300;

/// Folders of programs beside those of `PATH`: where Debian installs nginx.
const SYSTEM_PROGRAMS: &str = "/usr/sbin";

/// Where everything is: a folder for temporary files, and the programs of this machine.
#[derive(Debug)]
pub(super) struct Place {
    folder: TempDir,
    server: PathBuf,
    peers: PathBuf,
    pub(super) path: OsString,
    pub(super) postgres: Option<String>,
    pub(super) keep_alive: bool,
}

impl Place {
    pub(super) fn prepare(settings: &Settings) -> Result<Self, LadderError> {
        let failed = |source| LadderError::Files {
            path: std::env::temp_dir(),
            source,
        };
        let folder = tempfile::Builder::new()
            .prefix("forebay-ladder-")
            .tempdir()
            .map_err(failed)?;
        let peers = std::path::absolute(&settings.peers_folder).map_err(failed)?;
        // The pinned Bun comes first.
        let mut folders = vec![peers.join("node_modules/.bin")];
        folders.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
        folders.push(SYSTEM_PROGRAMS.into());
        let path = std::env::join_paths(folders).unwrap_or_default();
        Ok(Self {
            folder,
            server: settings.server.clone(),
            peers,
            path,
            postgres: settings.postgres.clone(),
            keep_alive: settings.keep_alive,
        })
    }

    /// The folder of temporary files.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Whether temporary files lie in memory, where nothing is durable.
    pub(super) fn is_in_memory(&self) -> bool {
        const TMPFS: i64 = 0x0102_1994;
        rustix::fs::statfs(self.folder.path()).is_ok_and(|found| found.f_type == TMPFS)
    }

    /// A program by its name or path.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let mut folders = std::env::split_paths(&self.path);
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|file| is_executable(file));
        }
        folders.find_map(|folder| Some(folder.join(name)).filter(|file| is_executable(file)))
    }

    /// The value of a need or a placeholder; an error says how to get it.
    pub(super) fn value(&self, name: &str) -> Result<String, String> {
        let environment = Environment::current();
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        match name {
            "node" => find_runtime(Runtime::Node, &self.peers, &environment)
                .map(text)
                .map_err(|error| error.to_string()),
            "bun" => find_runtime(Runtime::Bun, &self.peers, &environment)
                .map(text)
                .map_err(|error| error.to_string()),
            "python" => find_python(None, self.folder.path(), &environment)
                .map(text)
                .map_err(|error| error.to_string()),
            "forebay" => Ok(text(self.server.clone())),
            "peers" => Ok(text(self.peers.clone())),
            "pg" => self.postgres.clone().ok_or_else(|| {
                "no PostgreSQL: `make postgres` starts one, or say in FOREBAY_PG_URL where one is".to_owned()
            }),
            // A user without a password, for drivers that do not know SCRAM: `make postgres` creates it.
            "trusting_pg" => {
                let url = self.value("pg")?;
                let (_, place) = url
                    .split_once('@')
                    .unwrap_or(("", url.trim_start_matches("postgres://")));
                Ok(format!("postgres://trustuser:none@{place}"))
            }
            "hello.mjs" => Ok(HELLO_MJS.to_owned()),
            "hello.py" => Ok(HELLO_PY.to_owned()),
            "fastapi_hello.py" => Ok(FASTAPI_HELLO_PY.to_owned()),
            "table.json" => Ok(TABLE.to_owned()),
            other => Err(format!("there is no placeholder {{{other}}}")),
        }
    }

    /// Replaces the placeholders of a text; `own` has those of one peer.
    pub(super) fn fill(&self, text: &str, own: &[(&str, String)]) -> Result<String, String> {
        let mut filled = text.to_owned();
        for (name, value) in own {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        for name in [
            "forebay",
            "node",
            "bun",
            "python",
            "peers",
            "pg",
            "trusting_pg",
            "hello.mjs",
            "hello.py",
            "fastapi_hello.py",
            "table.json",
        ] {
            let placeholder = format!("{{{name}}}");
            if filled.contains(&placeholder) {
                filled = filled.replace(&placeholder, &self.value(name)?);
            }
        }
        Ok(filled)
    }

    /// Why a need is not met, or a command's program not there.
    pub(super) fn lacks(&self, need: &str) -> Option<String> {
        match need.trim_matches(['{', '}']) {
            name @ ("forebay" | "node" | "bun" | "python" | "pg") => self.value(name).err(),
            _ if need.contains('/') => {
                let path = self.fill(need, &[]).unwrap_or_default();
                (!Path::new(&path).exists()).then(|| format!("{path} is not there"))
            }
            program => self
                .program(program)
                .is_none()
                .then(|| format!("{program} is not installed")),
        }
    }

    /// Runs a command of a peer's to its end, unless the run is stopped before, and returns what it printed.
    pub(super) fn run(
        &self,
        words: &[String],
        own: &[(&str, String)],
        stop: &AtomicBool,
    ) -> Result<String, String> {
        let mut command = self.command(words, own)?;
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |why: &dyn std::fmt::Display| format!("{program}: {why}");
        let process = Process::start(&mut command).map_err(|error| failed(&error))?;
        let (status, printed) = process.wait(PROGRAM_MAX, stop).map_err(|why| failed(&why))?;
        if status.success() {
            return Ok(printed);
        }
        Err(failed(&format_args!(
            "{status}: {}",
            last_line(&printed).unwrap_or_default()
        )))
    }

    /// Versions of the programs that this machine has.
    pub(super) fn versions(
        &self,
        programs: &[Program],
        peers: bool,
        stop: &AtomicBool,
    ) -> Vec<(String, String)> {
        let version = |program: &Program| {
            let printed = self.run(&program.version, &[], stop).ok()?;
            Some((program.name.clone(), Program::find(&printed)?))
        };
        let wanted = programs.iter().filter(|program| peers || !program.is_peer);
        wanted.filter_map(version).collect()
    }

    pub(super) fn command(&self, words: &[String], own: &[(&str, String)]) -> Result<Command, String> {
        let filled: Result<Vec<String>, String> = words.iter().map(|word| self.fill(word, own)).collect();
        let filled = filled?;
        let program = self
            .program(&filled[0])
            .ok_or_else(|| format!("{} is not installed", filled[0]))?;
        let mut command = Command::new(program);
        command
            .args(&filled[1..])
            .env("PATH", &self.path)
            .env("NODE_ENV", "production");
        Ok(command)
    }
}

/// The last line that a program has printed.
pub(super) fn last_line(printed: &str) -> Option<String> {
    let line = printed.lines().rfind(|line| !line.trim().is_empty())?;
    Some(plain(line, LINE_MAX))
}
