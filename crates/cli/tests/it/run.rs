//! Runs the binary: to its end, or as a server.

use std::{
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
};

use forebay_testkit::{Client, Folder, Process, Response, wait_for};

/// The workspace's folder.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The Node that `make deps` installs.
pub(crate) fn node() -> PathBuf {
    workspace().join("crates/testkit/node/node_modules/.bin/node")
}

/// The command in a folder, with an environment of its own.
pub(crate) fn forebay(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .env_remove("FOREBAY_WORKERS")
        .env_remove("FOREBAY_PG_URL")
        .env("FOREBAY_NODE", node())
        .env(
            "FOREBAY_BUN",
            workspace().join("sdk/node/node_modules/bun/bin/bun.exe"),
        )
        .env(
            "FOREBAY_PYTHON",
            workspace().join("examples/showcase/.venv/bin/python"),
        )
        .env(
            "FOREBAY_CACHE_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"),
        );
    command
}

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a command to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Ended {
    ended(&forebay(folder, arguments).output().unwrap())
}

pub(crate) fn ended(output: &Output) -> Ended {
    Ended {
        code: output.status.code().expect("it ended by itself"),
        out: String::from_utf8(output.stdout.clone()).unwrap(),
        err: String::from_utf8(output.stderr.clone()).unwrap(),
    }
}

/// A running `forebay serve`; it is stopped when dropped.
#[derive(Debug)]
pub(crate) struct Serving {
    child: Child,
    folder: PathBuf,
    logs: Folder,
}

impl Serving {
    /// Runs `forebay serve` in a folder on a free port, and waits for its ready line.
    pub(crate) fn start(folder: &Path, options: &[&str]) -> Self {
        let own = ["serve", "--listen", "127.0.0.1:0", "--admin", "off"];
        Self::spawn(folder, forebay(folder, &[&own, options].concat()))
    }

    /// Runs a command that serves, and waits for its ready line.
    pub(crate) fn spawn(folder: &Path, mut command: Command) -> Self {
        let logs = Folder::new();
        let file = |name: &str| File::create(logs.path().join(name)).unwrap();
        let child = command.stdout(file("out")).stderr(file("err")).spawn().unwrap();
        let mut serving = Self {
            child,
            folder: folder.to_owned(),
            logs,
        };
        wait_for("the ready line", || {
            let status = serving.child.try_wait().unwrap();
            assert!(
                status.is_none(),
                "the server ended with {status:?}: {}",
                serving.log()
            );
            serving.printed().ends_with('\n').then_some(())
        });
        serving
    }

    /// Everything on its standard output.
    pub(crate) fn printed(&self) -> String {
        self.logs.read("out").unwrap()
    }

    /// Everything on its standard error.
    pub(crate) fn log(&self) -> String {
        self.logs.read("err").unwrap()
    }

    /// Waits until its log has a line that holds all of these.
    pub(crate) fn wait_for_log(&self, parts: &[&str]) -> String {
        wait_for(&format!("a log line with {parts:?}"), || {
            let log = self.log();
            let found = log
                .lines()
                .find(|line| parts.iter().all(|part| line.contains(part)));
            found.map(str::to_owned)
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let printed = self.printed();
        let url = printed.split_once("http://").expect("it listens on TCP").1;
        url.split([',', '\n']).next().unwrap().parse().unwrap()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::tcp(self.address())
    }

    pub(crate) fn get(&self, target: &str) -> Response {
        self.connect().get(target)
    }

    /// Its workers, once there are so many.
    pub(crate) fn workers(&self, count: usize) -> Vec<Process> {
        wait_for(&format!("{count} workers"), || {
            Some(Process::children_of(self.child.id())).filter(|workers| workers.len() == count)
        })
    }

    pub(crate) fn process(&self) -> Process {
        Process::with_pid(self.child.id()).expect("it runs")
    }

    /// Runs another command in its folder.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        run(&self.folder, arguments)
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for("the server to end", || self.child.try_wait().unwrap())
    }
}

impl Drop for Serving {
    #[expect(clippy::print_stderr, reason = "it helps to see why a test failed")]
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}
