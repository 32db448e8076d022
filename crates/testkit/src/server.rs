//! A running server, and the actions of a test on it.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, ExitStatus, Stdio},
    sync::Arc,
    sync::Mutex,
    thread,
    time::Instant,
};

use rustix::process::Signal;

use crate::{Client, Folder, Process, Response, binary, wait_for, wait_until};

/// The settings that a server is started with.
#[derive(Debug)]
pub struct Setup {
    folder: Folder,
    config: String,
    listen: String,
    server_keys: String,
    threads: usize,
    admin: String,
    arguments: Vec<String>,
    env: Vec<(String, String)>,
    program: PathBuf,
    launcher: Vec<String>,
    stdin: Stdio,
    /// The pool of a worker host.
    works_on: Option<String>,
}

/// `[admin]` without admin listener and control socket.
const ADMIN_OFF: &str = "listen = \"off\"\nsocket = \"off\"";
/// `[admin]` with both, as sockets in the server's folder.
const ADMIN_ON: &str = "listen = \"unix:admin.sock\"\nsocket = \"control.sock\"";

impl Setup {
    /// A configuration without its `[server]` and `[admin]` sections: those are generated, so that all ports are free ones.
    pub fn new(config: &str) -> Self {
        Self {
            folder: Folder::new(),
            config: config.to_owned(),
            listen: "\"127.0.0.1:0\"".to_owned(),
            server_keys: String::new(),
            threads: 2,
            admin: ADMIN_OFF.to_owned(),
            arguments: Vec::new(),
            env: Vec::new(),
            program: binary::program().to_owned(),
            launcher: Vec::new(),
            stdin: Stdio::null(),
            works_on: None,
        }
    }

    /// Starts the program under this path instead, such as a link to it.
    #[must_use]
    pub fn program(mut self, path: PathBuf) -> Self {
        self.program = path;
        self
    }

    /// Starts the program with a command that gets its command line as further arguments, and with this as its standard input.
    #[must_use]
    pub fn launched_by(mut self, command: &[&str], stdin: Stdio) -> Self {
        self.launcher = command.iter().map(|&word| word.to_owned()).collect();
        self.stdin = stdin;
        self
    }

    /// Starts a worker host that runs this pool, in the place of a server.
    #[must_use]
    pub fn work_on(mut self, pool: &str) -> Self {
        self.works_on = Some(pool.to_owned());
        self
    }

    /// Adds an admin listener and a control socket: see [`Server::admin`] and [`Server::control`].
    #[must_use]
    pub fn admin(mut self) -> Self {
        ADMIN_ON.clone_into(&mut self.admin);
        self
    }

    /// Sets the keys of `[admin]`.
    #[must_use]
    pub fn admin_keys(mut self, keys: &str) -> Self {
        keys.clone_into(&mut self.admin);
        self
    }

    /// Adds an argument to the command line.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a file beside the configuration.
    #[must_use]
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        self.folder.write(name, content);
        self
    }

    /// Folder of the server's files.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Adds keys to the section `[server]`, such as `header_timeout = "1s"`.
    #[must_use]
    pub fn server(mut self, keys: &str) -> Self {
        self.server_keys.push_str(keys);
        self.server_keys.push('\n');
        self
    }

    /// Listens at these addresses, a list in TOML without its brackets, instead of a free TCP port.
    #[must_use]
    pub fn listen(mut self, addresses: &str) -> Self {
        addresses.clone_into(&mut self.listen);
        self
    }

    /// I/O threads of the server; 2 by default.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Starts the server and waits for its ready line.
    pub fn start(self) -> Server {
        let Self {
            folder,
            config,
            listen,
            server_keys,
            threads,
            admin,
            arguments,
            env,
            program,
            launcher,
            stdin,
            works_on,
        } = self;
        let fixed =
            format!("[server]\nlisten = [{listen}]\nthreads = {threads}\n{server_keys}\n[admin]\n{admin}\n");
        folder.write("forebay.toml", format!("{fixed}{config}"));
        let words = match &works_on {
            None => vec!["serve"],
            Some(pool) => vec!["work", "--pool", pool],
        };
        let mut child = binary::serve(&program, &launcher, &words, &folder.path().join("forebay.toml"))
            .args(arguments)
            .current_dir(folder.path())
            .env("FOREBAY_NODE", binary::node())
            .env("FOREBAY_BUN", binary::bun())
            .env("FOREBAY_PYTHON", binary::python())
            .env("FOREBAY_CACHE_DIR", binary::cache_folder())
            .envs(env)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("forebay can be started");
        let process = Process::with_pid(child.id()).expect("a child that was not waited for is there");
        let printed = Lines::of(child.stdout.take().expect("it is piped"));
        let log = Lines::of(child.stderr.take().expect("it is piped"));
        let ready = wait_for("the server's ready line", || {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                panic!("the server ended with {status}: {}", log.text());
            }
            printed.first()
        });
        let urls = match (ready.split_once("listening on "), &works_on) {
            (Some((_, urls)), None) => urls.split(", ").map(str::to_owned).collect(),
            (None, Some(pool)) if ready.ends_with(&format!("working on {pool}")) => Vec::new(),
            _ => panic!("the ready line names neither addresses nor the pool: {ready}"),
        };
        Server {
            child,
            process,
            urls,
            ready,
            log,
            folder,
            fixed,
        }
    }
}

/// The output of a process, collected line by line.
#[derive(Clone, Debug)]
struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Lines {
    fn of(output: impl Read + Send + 'static) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let taking = lines.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n') {
                let Ok(line) = line else { return };
                let line = String::from_utf8_lossy(&line).into_owned();
                taking.lock().expect("nobody panics with the lines").push(line);
            }
        });
        Self { lines }
    }

    fn first(&self) -> Option<String> {
        self.lines
            .lock()
            .expect("nobody panics with the lines")
            .first()
            .cloned()
    }

    fn text(&self) -> String {
        self.lines
            .lock()
            .expect("nobody panics with the lines")
            .join("\n")
    }
}

/// A running server, killed on drop. Its workers must then be gone too, or the test fails.
#[derive(Debug)]
pub struct Server {
    child: Child,
    process: Process,
    urls: Vec<String>,
    ready: String,
    log: Lines,
    folder: Folder,
    /// The sections of its configuration that were generated.
    fixed: String,
}

impl Server {
    /// Writes another configuration, again without `[server]` and `[admin]`.
    pub fn reconfigure(&self, config: &str) {
        self.folder
            .write("forebay.toml", format!("{}{config}", self.fixed));
    }

    /// A new connection to its admin listener; it was set up with [`Setup::admin`].
    pub fn admin(&self) -> Client {
        Client::unix(&self.folder.path().join("admin.sock"))
    }

    /// A new connection to its control socket; it was set up with [`Setup::admin`].
    pub fn control(&self) -> Client {
        Client::unix(&self.folder.path().join("control.sock"))
    }

    /// The line it printed when it was ready.
    pub fn ready_line(&self) -> &str {
        &self.ready
    }

    /// The addresses it listens on, as its ready line names them.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Its folder, with configuration and handlers.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Runs a subcommand of the program with this server's configuration, to its end.
    pub fn command(&self, words: &[&str]) -> std::process::Output {
        binary::about(words, &self.folder.path().join("forebay.toml"))
            .output()
            .expect("the program runs")
    }

    /// The server's process.
    pub fn process(&self) -> Process {
        self.process
    }

    /// The log so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// The first TCP address it listens on.
    pub fn address(&self) -> SocketAddr {
        let tcp = self.urls.iter().find_map(|url| url.strip_prefix("http://"));
        tcp.expect("it listens on TCP")
            .parse()
            .expect("the ready line has an IP address and a port")
    }

    /// A new connection to [`Server::address`].
    pub fn connect(&self) -> Client {
        Client::tcp(self.address())
    }

    /// One GET on a connection of its own.
    pub fn get(&self, target: &str) -> Response {
        self.connect().get(target)
    }

    /// One POST on a connection of its own.
    pub fn post(&self, target: &str, body: &[u8]) -> Response {
        let mut client = self.connect();
        client.post(target, body);
        client.response()
    }

    /// Its worker processes, oldest first.
    pub fn workers(&self) -> Vec<Process> {
        Process::children_of(self.process.pid)
    }

    /// Waits until it has `count` workers, and returns them.
    pub fn wait_for_workers(&self, count: usize) -> Vec<Process> {
        wait_for(&format!("{count} workers"), || {
            Some(self.workers()).filter(|workers| workers.len() == count)
        })
    }

    /// Waits until its log has a line that holds all of `parts`, and returns the line.
    pub fn wait_for_log(&self, parts: &[&str]) -> String {
        wait_for(&format!("a log line with {parts:?}"), || {
            let log = self.log();
            log.lines()
                .find(|line| parts.iter().all(|part| line.contains(part)))
                .map(str::to_owned)
        })
    }

    /// The process that answers on its control socket: another one than [`Server::process`] after an upgrade. It was set up with
    /// [`Setup::admin`].
    pub fn serving(&self) -> Process {
        let pid = self.control().get("/status").json()["pid"].as_u64();
        let pid = pid.and_then(|pid| u32::try_from(pid).ok());
        Process::with_pid(pid.expect("the status has a process id")).expect("it has just answered")
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.process.signal(Signal::TERM);
    }

    /// Sends SIGHUP.
    pub fn hang_up(&self) {
        self.process.signal(Signal::HUP);
    }

    /// Sends SIGINT.
    pub fn interrupt(&self) {
        self.process.signal(Signal::INT);
    }

    /// Waits until it has ended by itself; its workers must be gone by then.
    pub fn wait(&mut self) -> ExitStatus {
        let status = wait_for("the server to end", || {
            self.child.try_wait().expect("a child can be waited for")
        });
        let left = self.workers();
        assert!(left.is_empty(), "workers outlive the server: {left:?}");
        status
    }

    /// Kills it with SIGKILL and waits until its workers are gone. Returns how long that took.
    pub fn kill(&mut self) -> std::time::Duration {
        let workers = self.workers();
        self.process.kill();
        let killed = Instant::now();
        self.child.wait().expect("a child can be waited for");
        wait_until("the workers of a killed server to end", || {
            workers.iter().all(|worker| !worker.is_alive())
        });
        killed.elapsed()
    }
}

#[expect(clippy::print_stderr, reason = "a test that fails shows what the server said")]
impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            self.process.kill();
            let _ = self.child.wait();
            eprintln!("the server's log:\n{}", self.log());
        } else if self.process.is_alive() {
            self.kill();
        }
    }
}
