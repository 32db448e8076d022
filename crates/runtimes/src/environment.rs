//! The environment of a process: variables, installed programs, cores.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Everything a configuration depends on besides its text and the files it names; also the environment workers are started in.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// The value of an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Finds a program by name in `PATH`, as a shell would; returns an absolute path.
    pub find_program: &'a dyn Fn(&str) -> Option<PathBuf>,
    /// The value of `0 = one per core`; at least 1.
    pub cores: usize,
    /// The I/O threads of the server that reads the configuration again: it keeps them unless the text names another number.
    pub io_threads: Option<usize>,
}

impl fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("cores", &self.cores)
            .finish_non_exhaustive()
    }
}

impl Environment<'static> {
    /// This process's environment, its `PATH`, and the cores it may use.
    pub fn current() -> Self {
        Self {
            env: &|name| std::env::var(name).ok(),
            find_program: &find_in_path,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            io_threads: None,
        }
    }
}

fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    folders
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

/// Whether this is a file with any execute bit set.
pub fn is_executable(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
