//! The program under test: its path, and its command line, which only this module knows.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The command that serves a configuration with this program, or works for it as `words` say, started by a launcher, if there is one: a
/// command line before the program's.
pub(crate) fn serve(program: &Path, launcher: &[String], words: &[&str], config: &Path) -> Command {
    let mut command = match launcher {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command.args(words).arg("-c").arg(config);
    command
}

/// The program under test with these arguments.
pub fn command(words: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(words);
    command
}

/// A subcommand on a configuration.
pub(crate) fn about(words: &[&str], config: &Path) -> Command {
    let mut command = command(words);
    command.arg("-c").arg(config);
    command
}

/// The binary that `FOREBAY_BINARY` names, as `make test` does; else that of the test's own profile, which is built once if it is not up to
/// date.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(binary) = std::env::var_os("FOREBAY_BINARY") {
            return binary.into();
        }
        let test = std::env::current_exe().expect("a test knows its own file");
        // target/PROFILE/deps/TEST
        let folder = test
            .ancestors()
            .nth(2)
            .expect("a test lies in a folder of target");
        let profile = match folder.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--quiet", "--package", "forebay", "--profile", profile])
            .current_dir(workspace())
            .status()
            .expect("cargo can be run");
        assert!(built.success(), "forebay does not build");
        folder.join("forebay")
    })
}

/// The folder of all sources.
pub(crate) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this crate lies in crates/")
}

/// The Node that `make deps` installs: the system's may be older than workers need.
pub fn node() -> PathBuf {
    workspace().join("crates/testkit/node/node_modules/.bin/node")
}

/// The Bun in the SDK's development packages.
pub fn bun() -> PathBuf {
    workspace().join("sdk/node/node_modules/bun/bin/bun.exe")
}

/// The Python of the virtual environment with the packages of the SDK's tests.
pub fn python() -> PathBuf {
    workspace().join("sdk/python/tests/.venv/bin/python")
}

/// Cache in which the servers of all tests store the SDK.
pub(crate) fn cache_folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    test.ancestors()
        .nth(2)
        .expect("a test lies in a folder of target")
        .join("testkit-cache")
}

/// The build folder of the workspace.
pub(crate) fn target_folder() -> PathBuf {
    workspace().join("target")
}
