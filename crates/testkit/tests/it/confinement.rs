//! `[pool.NAME.confine]`: a worker whose code was taken over does what it may and nothing else, and goes on answering.

use std::{
    fs,
    net::TcpListener,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::UnixListener,
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use forebay_testkit::{Process, Server, Setup, blocks, command, wait_for, wait_until};

use crate::support::ONE_WORKER;

/// Users that no other process of the machine has.
const USER: u32 = 64_321;
const USER_OF_FORKS: u32 = 64_322;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Language {
    Node,
    Bun,
    Python,
}

impl Language {
    const ALL: [Self; 3] = [Self::Node, Self::Bun, Self::Python];

    /// A pool `api` with one worker that runs what it is sent, and what `[pool.api.confine]` says. Its handler is in a folder of its own.
    fn pool(self, confine: &str) -> Setup {
        let (file, source, runtime) = match self {
            Self::Node => ("app/api.mjs", include_str!("handlers/confined.mjs"), "node"),
            Self::Bun => ("app/api.mjs", include_str!("handlers/confined.mjs"), "bun"),
            Self::Python => ("app/api.py", include_str!("handlers/confined.py"), "python"),
        };
        let setup = Setup::new(&format!(
            "[pool.api]\nhandler = \"{file}\"\nruntime = \"{runtime}\"\n{ONE_WORKER}\n{confine}\n\
             [[route]]\npath = \"/*\"\npool = \"api\"\n"
        ));
        setup.file(file, source)
    }

    /// Code that reads a file.
    fn read(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Node | Self::Bun => format!("return fs.readFileSync('{path}', 'utf8').length"),
            Self::Python => format!("result = len(open('{path}').read())"),
        }
    }

    /// Code that adds to a file, or makes it.
    fn write(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Node | Self::Bun => format!("fs.appendFileSync('{path}', 'x'); return 1"),
            Self::Python => format!("open('{path}', 'a').write('x'); result = 1"),
        }
    }

    fn truncate(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Node | Self::Bun => format!("fs.truncateSync('{path}', 0); return 1"),
            Self::Python => format!("import os; os.truncate('{path}', 0); result = 1"),
        }
    }

    /// Code that has a child process print a file; the result is the child's exit code.
    fn child_reads(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Node | Self::Bun => format!("return child.spawnSync('/bin/cat', ['{path}']).status"),
            Self::Python => {
                format!(
                    "import subprocess; result = subprocess.call(['/bin/cat', '{path}'], stdout=-3, stderr=-3)"
                )
            }
        }
    }

    /// Code that connects to a port, or to a Unix socket.
    fn connect(self, to: &str) -> String {
        match self {
            Self::Node | Self::Bun => format!(
                "return new Promise((done, failed) => {{ const socket = net.connect({to}); \
                 socket.on('connect', () => {{ socket.destroy(); done(1); }}); socket.on('error', failed); }})"
            ),
            Self::Python if to.starts_with('\'') => {
                format!(
                    "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect({to}); result = 1"
                )
            }
            Self::Python => {
                format!("import socket; socket.create_connection(('127.0.0.1', {to})); result = 1")
            }
        }
    }

    /// Code for a Python expression, or its JavaScript equivalent.
    fn value(self, python: &str, javascript: &str) -> String {
        match self {
            Self::Node | Self::Bun => format!("return {javascript}"),
            Self::Python => format!("import os; result = {python}"),
        }
    }

    fn tmp(self) -> String {
        self.value("os.environ.get('TMPDIR')", "process.env.TMPDIR")
    }
}

/// Another pool, whose worker no more is allowed than others of the same user.
const NEIGHBOUR: &str =
    "[pool.neighbour]\ncommand = \"/bin/cat\"\nprotocol = \"jsonl\"\n[pool.neighbour.confine]";

/// Has the worker run code; returns `did RESULT`, or the name of the error.
fn run(server: &Server, code: &str) -> String {
    let answer = server.post("/run", code.as_bytes());
    assert_eq!(answer.status, 200, "{code}: {}", answer.text());
    answer.text().to_owned()
}

/// The private temporary folder of the worker.
fn tmp(server: &Server, language: Language) -> PathBuf {
    let said = run(server, &language.tmp());
    let folder = said.strip_prefix("did ").expect("there is a folder").into();
    assert_ne!(folder, std::env::temp_dir());
    folder
}

/// The value of a line of `/proc/PID/status`.
fn status(pid: &str, line: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let value = text.lines().find_map(|one| one.strip_prefix(line));
    value.expect("the kernel says so").trim().to_owned()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A program that does not outlive its test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended, unless the test fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has `check` and `serve` run on a configuration that this machine does not grant, and returns what they say.
fn refusal(setup: &Setup, config: &str, user: Option<u32>) -> (String, String) {
    setup.folder().write("forebay.toml", config);
    let file = setup.folder().path().join("forebay.toml");
    let said = |words: &[&str]| {
        let mut command = command(words);
        command.arg("-c").arg(&file).current_dir("/");
        command.env("FOREBAY_CACHE_DIR", setup.folder().path().join("cache"));
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let log = setup.folder().path().join("said");
        command.stdout(Stdio::null());
        command.stderr(fs::File::create(&log).expect("the folder is writable"));
        let mut program = Program(command.spawn().expect("the program can be started"));
        let status = wait_for("the program to end", || {
            program.0.try_wait().expect("it is our child")
        });
        (status.code(), fs::read_to_string(&log).expect("it was written"))
    };
    let (code, checked) = said(&["check"]);
    assert_eq!(code, Some(0), "{checked}");
    let (code, served) = said(&["serve"]);
    assert_eq!(code, Some(1), "{served}");
    (checked, served)
}

#[test]
fn a_worker_reaches_the_files_that_it_is_given_and_what_it_needs_to_answer() {
    for language in Language::ALL {
        let server = language
            .pool("[pool.api.confine]\nread = [\"shared\"]\nwrite = [\"uploads\"]")
            .file("secret", "secret")
            .file("shared/page", "page")
            .file("uploads/old", "old")
            .env("TOKEN", "of the server")
            .start();
        let path = |name| server.folder().path().join(name);
        let tmp = tmp(&server, language);
        let environment = PathBuf::from(format!("/proc/{}/environ", server.process().pid));
        for (code, outcome) in [
            (language.read(&path("shared/page")), "did 4"),
            (language.write(&path("uploads/old")), "did 1"),
            (language.write(&path("uploads/new")), "did 1"),
            (language.write(&tmp.join("own")), "did 1"),
            (language.child_reads(&path("shared/page")), "did 0"),
            (language.read(&path("secret")), "EACCES"),
            (language.read(&path("forebay.toml")), "EACCES"),
            (language.read(&environment), "EACCES"),
            (language.truncate(&path("secret")), "EACCES"),
            (language.write(&path("shared/page")), "EACCES"),
            (language.write(&path("shared/new")), "EACCES"),
            (language.write(&path("app/new")), "EACCES"),
            (
                language.write(&std::env::temp_dir().join("forebay-test-left")),
                "EACCES",
            ),
            (language.child_reads(&path("secret")), "did 1"),
            (
                language.value("os.environ.get('TOKEN')", "process.env.TOKEN ?? 'None'"),
                "did None",
            ),
        ] {
            assert_eq!(run(&server, &code), outcome, "{language:?}: {code}");
        }
        assert_eq!(server.folder().read("secret").as_deref(), Some("secret"));
        assert_eq!(server.folder().read("shared/page").as_deref(), Some("page"));
    }
}

#[test]
fn typescript_packages_and_the_store_are_within_reach_of_a_confined_worker() {
    let source = "import { router } from 'forebay';\nimport { store } from 'forebay/store';\nimport { word } from 'words';\nconst text: string = word;\n\
        export default router().get('/', () => { store.set('Word', text); return store.get('Word') as string; });\n";
    let server = Setup::new(
        "[store]\npath = \"data\"\n[pool.api]\nhandler = \"app/api.ts\"\n[pool.api.confine]\nread = []\nnetwork = false\n\
         [[route]]\npath = \"/*\"\npool = \"api\"\n",
    )
    .file("app/api.ts", source)
    .file("package.json", "{\"type\": \"module\"}")
    .file("node_modules/words/package.json", "{\"name\": \"words\", \"main\": \"index.js\"}")
    .file("node_modules/words/index.js", "exports.word = 'found';")
    .start();
    let answer = server.get("/");
    assert_eq!((answer.status, answer.text()), (200, "found"));
}

#[test]
fn a_worker_without_network_connects_to_nothing_and_takes_no_other_process_over() {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port_number = port.local_addr().expect("it is bound").port().to_string();
    for language in Language::ALL {
        for (confine, outcome) in [("network = false", None), ("", Some("did 1"))] {
            let setup = language.pool(&format!("[pool.api.confine]\n{confine}\n{NEIGHBOUR}"));
            let service = setup.folder().path().join("service");
            let _listening = UnixListener::bind(&service).expect("the folder is there");
            let server = setup.start();
            let service = format!("'{}'", service.display());
            for to in [&port_number, &service] {
                let said = run(&server, &language.connect(to));
                match outcome {
                    Some(outcome) => assert_eq!(said, outcome, "{language:?} {to}"),
                    // Bun calls it ECONNREFUSED.
                    None => assert!(
                        ["EPERM", "ECONNREFUSED", "FailedToOpenSocket"].contains(&&*said),
                        "{said}"
                    ),
                }
            }
            let neighbour = server.workers().into_iter().find(|worker| {
                fs::read_to_string(format!("/proc/{}/comm", worker.pid)).is_ok_and(|name| name == "cat\n")
            });
            let neighbour = neighbour.expect("the other pool has a worker").pid;
            let said = run(
                &server,
                &language.read(format!("/proc/{neighbour}/environ").as_ref()),
            );
            match outcome {
                Some(_) => assert!(said.starts_with("did "), "{language:?}: {said}"),
                None => assert_eq!(said, "EACCES", "{language:?}"),
            }
        }
    }
    port.set_nonblocking(true).expect("it is a socket");
    let connected = std::iter::from_fn(|| port.accept().ok()).count();
    assert_eq!(connected, Language::ALL.len(), "only those with network");
}

#[test]
fn workers_run_as_the_user_that_the_pool_names_or_the_server_says_what_it_lacks() {
    let pool = |language: Language| {
        language.pool(&format!(
            "[pool.api.confine]\nuser = \"{USER}\"\ngroup = \"{USER}\""
        ))
    };
    if is_root() {
        let setup = pool(Language::Node);
        // The cache of other tests may be closed to other users.
        let cache = setup.folder().path().join("cache").display().to_string();
        let mut server = setup
            .file("secret", "secret")
            .env("FOREBAY_CACHE_DIR", &cache)
            .start();
        let secret = server.folder().path().join("secret");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("it is ours");
        assert_eq!(run(&server, &Language::Node.read(&secret)), "EACCES");
        assert_eq!(
            run(&server, "return child.spawnSync('/bin/true').status"),
            "did 0"
        );
        let worker = server.wait_for_workers(1)[0].pid.to_string();
        assert_eq!(status(&worker, "Uid:"), [USER.to_string().as_str(); 4].join("\t"));
        assert_eq!(status(&worker, "Gid:"), [USER.to_string().as_str(); 4].join("\t"));
        assert_eq!(status(&worker, "Groups:"), USER.to_string());
        for set in ["CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(status(&worker, set), "0000000000000000", "{set}");
        }
        let tmp = tmp(&server, Language::Node);
        assert_eq!(fs::metadata(&tmp).expect("it is there").uid(), USER);
        // A change of user must not take away the signal at the server's death: `kill` waits for the worker's end.
        server.kill();
        wait_until("the folder to be removed", || !tmp.exists());
    }
    let setup = pool(Language::Python);
    fs::set_permissions(setup.folder().path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"off\"\nsocket = \"off\"\n[pool.api]\ncommand = \"/bin/cat\"\n\
         protocol = \"jsonl\"\n[pool.api.confine]\nuser = \"{USER}\"\ngroup = \"{USER}\"\n[[route]]\npath = \"/*\"\npool = \"api\"\n"
    );
    let (checked, served) = refusal(&setup, &config, is_root().then_some(USER_OF_FORKS));
    for said in [checked, served] {
        let lacks = "pool.api.confine.user: the server lacks CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_CHOWN, CAP_DAC_OVERRIDE; run";
        assert!(said.contains(lacks), "{said}");
    }
}

#[test]
fn a_worker_stays_within_its_limits_and_goes_on() {
    let keys = "[pool.api.confine]\naddress_space_max = \"1GiB\"\nopen_files_max = 64\nfile_size_max = \"1MiB\"\ncore_max = 0\n\
        cpu_time_max = \"2s\"";
    let language = Language::Python;
    let server = language.pool(keys).start();
    let file = tmp(&server, language).join("large");
    for (code, outcome) in [
        ("result = len(bytearray(2 << 30))".to_owned(), "MemoryError"),
        (
            "files = [open('/dev/null') for _ in range(100)]".to_owned(),
            "EMFILE",
        ),
        (
            format!("open('{}', 'wb').write(bytes(2 << 20))", file.display()),
            "EFBIG",
        ),
        (
            "import resource; result = resource.getrlimit(resource.RLIMIT_CORE)".to_owned(),
            "did (0, 0)",
        ),
        (
            "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))".to_owned(),
            "ValueError",
        ),
        ("result = 1".to_owned(), "did 1"),
    ] {
        assert_eq!(run(&server, &code), outcome, "{code}");
    }
    let worker = server.wait_for_workers(1)[0];
    let spinning = server.post("/run", b"while True: pass");
    assert_eq!(spinning.status, 502, "{}", spinning.text());
    wait_until("the worker to end", || !worker.is_alive());
    assert_eq!(run(&server, "result = 1"), "did 1", "another worker answers");
}

#[test]
fn a_worker_that_forks_without_end_is_stopped_by_the_limit_of_its_user() {
    let keys = "processes_max = 20";
    let confine = format!("user = \"{USER_OF_FORKS}\"\ngroup = \"{USER_OF_FORKS}\"\n{keys}");
    let (refused, reason) = if is_root() {
        let setup = Language::Node.pool(&format!("[pool.api.confine]\n{confine}"));
        let cache = setup.folder().path().join("cache").display().to_string();
        let server = setup.env("FOREBAY_CACHE_DIR", &cache).start();
        let forks = "let count = 0; for (; count < 100; count++) { const one = child.spawn('/bin/sleep', ['60']); \
            if (one.pid === undefined) { one.on('error', () => {}); break; } } return count";
        let said = run(&server, forks);
        let count: u32 = said
            .strip_prefix("did ")
            .and_then(|count| count.parse().ok())
            .expect("a number");
        assert!((1..20).contains(&count), "{count}");
        assert_eq!(run(&server, "return 1"), "did 1");
        // Root is not held to the limit, so a pool of root's has none.
        (
            format!("user = \"root\"\n{keys}"),
            "processes_max: the kernel does not hold root",
        )
    } else {
        (confine, "user: the server lacks CAP_SETUID, CAP_SETGID, CAP_KILL")
    };
    let (checked, served) = refusal(&Language::Python.pool(""), &minimal(&refused), None);
    for said in [checked, served] {
        assert!(said.contains(&format!("pool.api.confine.{reason}")), "{said}");
    }
}

/// A configuration of a pool that never has to answer.
fn minimal(confine: &str) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"off\"\nsocket = \"off\"\n[pool.api]\ncommand = \"/bin/cat\"\n\
         protocol = \"jsonl\"\n[pool.api.confine]\n{confine}\n[[route]]\npath = \"/*\"\npool = \"api\"\n"
    )
}

#[test]
fn temporary_folders_are_private_and_go_with_their_worker_however_it_ends() {
    for language in Language::ALL {
        let mut server = language.pool("[pool.api.confine]").start();
        let first = tmp(&server, language);
        assert_eq!(
            fs::metadata(&first).expect("it is there").permissions().mode() & 0o777,
            0o700
        );
        run(&server, &language.write(&first.join("file")));
        let worker = server.wait_for_workers(1)[0];
        worker.kill();
        wait_until("the folder of a worker that crashed to be removed", || {
            !first.exists()
        });
        let second = wait_for("another worker", || {
            let answer = server.post("/run", language.tmp().as_bytes());
            (answer.status == 200).then(|| PathBuf::from(&answer.text()[4..]))
        });
        assert_ne!(first, second);
        run(&server, &language.write(&second.join("file")));
        server.kill();
        wait_until("the folder of a server that was killed to be removed", || {
            !second.exists()
        });
    }
    let mut server = Language::Python.pool("[pool.api.confine]").start();
    let folder = tmp(&server, Language::Python);
    server.terminate();
    assert!(server.wait().success());
    assert!(!folder.exists());
}

#[test]
fn a_pool_that_cannot_be_confined_does_not_start_and_says_what_is_missing() {
    let setup = Language::Python.pool("");
    for (confine, said) in [
        ("read = [\"missing\"]", "pool.api.confine.read: cannot allow"),
        (
            "user = \"nobody-has-this-name\"",
            "pool.api.confine.user: there is no user `nobody-has-this-name`",
        ),
        (
            "group = \"nobody-has-this-name\"",
            "pool.api.confine.group: there is no group `nobody-has-this-name`",
        ),
    ] {
        let (checked, served) = refusal(&setup, &minimal(confine), None);
        assert!(
            checked.contains(said) && served.contains(said),
            "{checked}\n{served}"
        );
    }
}

#[test]
fn a_cgroup_holds_the_memory_of_a_worker_or_the_server_does_not_start() {
    let keys = "cgroup_memory_max = \"300MiB\"\ncgroup_cpu_percent_max = 90\ncgroup_processes_max = 50";
    let setup = Language::Python.pool("");
    setup.folder().write("forebay.toml", minimal(keys));
    let checked = command(&["check", "-c"])
        .arg(setup.folder().path().join("forebay.toml"))
        .output()
        .expect("the program runs");
    let checked = String::from_utf8_lossy(&checked.stderr);
    if checked.contains(
        "grants no_new_privs, private_tmp, cgroup_memory_max, cgroup_cpu_percent_max, cgroup_processes_max",
    ) {
        let server = Language::Python
            .pool(&format!("[pool.api.confine]\n{keys}"))
            .start();
        let worker = server.wait_for_workers(1)[0];
        assert_eq!(server.post("/run", b"x = bytearray(1 << 30)").status, 502);
        assert!(!worker.is_alive());
        assert_eq!(
            run(
                &server,
                "import os; [os.fork() or os._exit(0) for _ in range(100)]"
            ),
            "EAGAIN"
        );
        assert_eq!(run(&server, "result = 1"), "did 1");
        return;
    }
    let (_, served) = refusal(&setup, &minimal(keys), None);
    for said in [&*checked, &served] {
        assert!(said.contains("pool.api.confine.cgroup_memory_max: "), "{said}");
        assert!(
            said.contains("; the server must be in a leaf of a delegated cgroup; under systemd: `Delegate="),
            "{said}"
        );
    }
}

#[test]
fn workers_of_a_pool_without_confinement_are_as_they_were() {
    for language in Language::ALL {
        let server = language.pool("").start();
        assert_eq!(
            run(
                &server,
                &language.value("os.environ.get('TMPDIR')", "process.env.TMPDIR ?? 'None'")
            ),
            "did None"
        );
        let worker: Process = server.wait_for_workers(1)[0];
        for line in ["Uid:", "Gid:", "Groups:", "CapEff:", "NoNewPrivs:", "Seccomp:"] {
            let own = status("self", line);
            assert_eq!(status(&worker.pid.to_string(), line), own, "{language:?} {line}");
        }
        assert_eq!(
            run(&server, &language.write(&server.folder().path().join("app/new"))),
            "did 1"
        );
    }
}

#[test]
fn the_example_of_the_guide_is_granted_and_holds() {
    let guide = include_str!("../../../../docs/guide/confinement.md");
    let setup = Setup::new(blocks(guide, "toml")[0])
        .file("app/api.mjs", include_str!("handlers/confined.mjs"))
        .file("templates/page", "page")
        .file("uploads/old", "")
        .env("API_TOKEN", "of this pool")
        .env("TOKEN", "of the server");
    let server = setup.start();
    let checked = server.command(&["check"]);
    assert_eq!(String::from_utf8_lossy(&checked.stderr), blocks(guide, "text")[0]);
    let path = |name| server.folder().path().join(name);
    for (code, outcome) in [
        (Language::Node.read(&path("templates/page")), "did 4"),
        (Language::Node.write(&path("uploads/new")), "did 1"),
        (Language::Node.write(&path("templates/page")), "EACCES"),
        (Language::Node.read(&path("forebay.toml")), "EACCES"),
        (Language::Node.connect("1"), "EPERM"),
        (
            "return [process.env.API_TOKEN, process.env.TOKEN]".to_owned(),
            "did of this pool,",
        ),
    ] {
        assert_eq!(run(&server, &code), outcome, "{code}");
    }
}
