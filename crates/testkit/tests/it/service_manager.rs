//! The server under a service manager: sockets that it is passed, what it says, its log, and its user.

use std::{
    fs,
    net::TcpListener,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        net::{UnixDatagram, UnixListener},
    },
    process::Stdio,
};

use forebay_testkit::{Client, Process, Server, Setup, wait_until};
use rustix::process::Signal;

use crate::{
    certificates::{for_localhost, issuer},
    support::{TOOLBOX, wait_until_ready},
};

const HERE: &str = "[[route]]\npath = \"/here\"\nrespond = { text = \"here\" }\n";

/// Starts the program with its standard input as descriptor 3, as `sd_listen_fds(3)` says. A shell keeps its process id for the program.
const ACTIVATE: [&str; 3] = [
    "sh",
    "-c",
    "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web; exec \"$0\" \"$@\"",
];

/// What the service manager has been told, message by message.
struct Notifications(UnixDatagram);

impl Notifications {
    fn at(setup: &Setup) -> Self {
        let path = setup.folder().path().join("notify");
        let socket = UnixDatagram::bind(path).expect("the folder is the test's own");
        socket
            .set_read_timeout(Some(forebay_testkit::PATIENCE))
            .expect("a socket has a time limit");
        Self(socket)
    }

    fn next(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.0.recv(&mut bytes).expect("the server says something");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }
}

fn notified(setup: Setup) -> (Server, Notifications) {
    let notifications = Notifications::at(&setup);
    let path = setup.folder().path().join("notify").display().to_string();
    (setup.env("NOTIFY_SOCKET", &path).start(), notifications)
}

#[test]
fn the_service_manager_is_told_of_each_step() {
    let (server, told) = notified(Setup::new(HERE).admin());
    let serving = format!("READY=1\nSTATUS=serving {}\n", server.urls()[0]);
    assert_eq!(told.next(), serving);
    let reloading = |what: &str| {
        let message = told.next();
        let mut lines = message.lines();
        assert_eq!(lines.next(), Some("RELOADING=1"));
        let time = lines.next().and_then(|line| line.strip_prefix("MONOTONIC_USEC="));
        let time: u64 = time.expect("the second line").parse().expect("a number");
        assert!(time > 0);
        assert_eq!(lines.next(), Some(&*format!("STATUS={what}")));
    };
    server.hang_up();
    reloading("reloading");
    assert_eq!(told.next(), serving);
    server.reconfigure("[[route]]\npath = 1\n");
    server.hang_up();
    reloading("reloading");
    let refused = told.next();
    assert!(refused.starts_with("READY=1\nSTATUS=not reloaded: "), "{refused}");
    assert_eq!(refused.lines().count(), 2, "{refused}");
    let upgraded = server.command(&["upgrade"]);
    assert!(!upgraded.status.success());
    reloading("upgrading");
    let refused = told.next();
    assert!(
        refused.starts_with("READY=1\nSTATUS=upgrade failed: process "),
        "{refused}"
    );
    server.reconfigure(HERE);
    assert!(server.command(&["upgrade"]).status.success());
    reloading("upgrading");
    let after = server.serving();
    assert_eq!(told.next(), format!("MAINPID={}\nREADY=1\n", after.pid));
    // From then on only the new process speaks, so the old one does not say that it stops.
    assert_eq!(told.next(), serving);
    wait_until("the process before to end", || !server.process().is_alive());
    after.signal(Signal::TERM);
    let stopping = told.next();
    assert!(stopping.starts_with("STOPPING=1\n"), "{stopping}");
    wait_until("the server to end", || !after.is_alive());
}

#[test]
fn the_watchdog_is_told_only_while_the_io_threads_turn() {
    // One call of the language itself, which nothing interrupts, holds up an I/O thread.
    let handler = "
        import { router } from 'forebay';
        const app = router();
        app.get('/find', (request) => {
          const half = 'a'.repeat(request.query.get('n') / 2);
          return String((half + half).indexOf(half + 'b'));
        });
        export default app;
    ";
    let config = "[script.s]\nhandler = \"s.mjs\"\non = \"io\"\nexecutors = 1\ncpu_max = \"20s\"\ntime_max = \"20s\"\n\
                  [[route]]\npath = \"/*\"\nscript = \"s\"\n";
    let setup = Setup::new(config)
        .threads(2)
        .file("s.mjs", handler)
        .env("WATCHDOG_USEC", "200000");
    let (server, told) = notified(setup);
    assert!(told.next().starts_with("READY=1\n"));
    for _ in 0..3 {
        assert_eq!(told.next(), "WATCHDOG=1\n");
    }
    let mut client = server.connect();
    for _ in 0..8 {
        assert_eq!(client.get("/find?n=2").text(), "-1");
    }
    client.request("GET", "/find?n=100000");
    let hanging = |count: usize| {
        wait_until("the hanging thread to be logged", || {
            server.log().matches("I/O threads have been blocked").count() >= count
        });
    };
    hanging(1);
    server.wait_for_log(&["I/O threads have been blocked", "\"threads\":\"io-"]);
    // What was said before waits here.
    told.0.set_nonblocking(true).expect("a socket can be polled");
    let drained = || {
        let mut bytes = [0; 64];
        let mut count = 0;
        while told.0.recv(&mut bytes).is_ok() {
            count += 1;
        }
        count
    };
    drained();
    hanging(3);
    assert_eq!(drained(), 0, "nothing is said while a thread hangs");
    assert_eq!(client.response().status, 200);
    wait_until("the watchdog to be told again", || drained() > 0);
}

#[test]
fn a_listening_socket_that_is_passed_is_used_and_outlives_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let start = || {
        let socket = listener.try_clone().expect("a socket can be copied");
        Setup::new(HERE)
            .listen(&format!("\"{address}\""))
            .admin()
            .launched_by(&ACTIVATE, Stdio::from(std::os::fd::OwnedFd::from(socket)))
            .start()
    };
    let mut server = start();
    assert_eq!(server.address(), address);
    assert_eq!(server.get("/here").text(), "here");
    // Another process of the server has it as well.
    assert!(server.command(&["upgrade"]).status.success());
    let after = server.serving();
    assert!(server.wait().success());
    assert_eq!(server.get("/here").text(), "here");
    after.signal(Signal::TERM);
    wait_until("the server to end", || !after.is_alive());
    // Nobody serves, and yet a client can connect: the next server answers it.
    let mut early = Client::tcp(address);
    early.request("GET", "/here");
    let _next = start();
    assert_eq!(early.response().text(), "here");
}

#[test]
fn a_unix_socket_that_is_passed_keeps_its_file() {
    let setup = Setup::new(HERE).listen("\"unix:here.sock\"");
    let path = setup.folder().path().join("here.sock");
    let listener = UnixListener::bind(&path).expect("the folder is the test's own");
    let mut server = setup
        .launched_by(&ACTIVATE, Stdio::from(std::os::fd::OwnedFd::from(listener)))
        .start();
    assert_eq!(Client::unix(&path).get("/here").text(), "here");
    server.terminate();
    assert!(server.wait().success());
    assert!(path.exists());
}

#[test]
fn a_passed_socket_that_is_not_configured_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let folder = forebay_testkit::Folder::new();
    folder.write(
        "forebay.toml",
        format!("[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"off\"\nsocket = \"off\"\n{HERE}"),
    );
    // A server that starts all the same is ended.
    let output = std::process::Command::new("timeout")
        .arg("20")
        .args(ACTIVATE)
        .arg(forebay_testkit::program())
        .args(["serve", "-c"])
        .arg(folder.path().join("forebay.toml"))
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)))
        .output()
        .expect("a shell runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = format!(
        "the service manager passes a socket for {address} (`web`), but no address in server.listen or [admin] matches it"
    );
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn the_log_is_opened_anew_when_it_was_renamed() {
    let server = Setup::new(&format!("[log]\nfile = \"server.log\"\naccess = true\n{HERE}")).start();
    let path = |name: &str| server.folder().path().join(name);
    let ask = |id: &str| {
        let mut client = server.connect();
        client.send(format!(
            "GET /here HTTP/1.1\r\nhost: test\r\nx-request-id: {id}\r\n\r\n"
        ));
        assert_eq!(client.response().status, 200);
    };
    let has = |name: &str, id: &str| {
        fs::read_to_string(path(name)).is_ok_and(|text| text.contains(&format!("\"request_id\":\"{id}\"")))
    };
    ask("first");
    wait_until("the first line", || has("server.log", "first"));
    fs::rename(path("server.log"), path("renamed.log")).expect("it is there");
    ask("second");
    wait_until("the second line", || has("renamed.log", "second"));
    server.process().signal(Signal::USR1);
    wait_until("a new file", || path("server.log").exists());
    ask("third");
    wait_until("the third line", || has("server.log", "third"));
    assert!(!has("renamed.log", "third"));
    // A file that cannot be opened does not end the log.
    fs::rename(path("server.log"), path("again.log")).expect("it is there");
    fs::create_dir(path("server.log")).expect("the name is free");
    server.process().signal(Signal::USR1);
    wait_until("the error to be logged", || {
        fs::read_to_string(path("again.log")).is_ok_and(|text| text.contains("cannot reopen the log file"))
    });
    ask("fourth");
    wait_until("the fourth line", || has("again.log", "fourth"));
}

/// A line of `/proc/PID/task/TASK/status`.
fn line(process: Process, task: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{}/task/{task}/status", process.pid)).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.expect("the line is there").trim().to_owned()
}

/// The IDs in a line: the real, effective, saved and file system's.
fn ids(process: Process, task: u32, name: &str) -> Vec<u32> {
    let line = line(process, task, name);
    line.split_whitespace()
        .map(|id| id.parse().expect("a number"))
        .collect()
}

fn capabilities(process: Process, task: u32, name: &str) -> u64 {
    u64::from_str_radix(&line(process, task, name), 16).expect("hexadecimal digits")
}

#[test]
fn root_gives_up_its_privileges_once_it_listens_and_the_server_works_without_them() {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        let refused = started_as("nobody");
        assert!(refused.contains("only root can"), "{refused}");
        return;
    }
    let issuer = issuer("an authority");
    let (cert, key) = for_localhost(&issuer, 2020..2090);
    let config = format!(
        "[tls.here]\ncert = \"here.pem\"\nkey = \"here.key\"\n[log]\nfile = \"server.log\"\n\
         [store]\npath = \"data\"\n[store.access]\nOpen = {{ read = \"public\", write = \"public\" }}\n\
         [pool.api]\nhandler = \"api.mjs\"\nworkers = {{ min = 1, max = 1 }}\n\
         [[route]]\npath = \"/store/*\"\nstore = {{}}\n[[route]]\npath = \"/*\"\npool = \"api\"\n{HERE}"
    );
    let setup = Setup::new(&config)
        .listen("\"127.0.0.1:0\", \"https://127.0.0.1:0\", \"unix:here.sock\"")
        .server("user = \"nobody\"")
        .file("api.mjs", TOOLBOX)
        .file("here.pem", cert.pem())
        .file("here.key", key.serialize_pem())
        .admin();
    let folder = setup.folder().path().to_owned();
    std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).expect("root may");
    let key = folder.join("here.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("root may");
    let cache = folder.join("cache").display().to_string();
    let mut server = setup.env("FOREBAY_CACHE_DIR", &cache).start();
    wait_until_ready(&server);
    let is_nobody = |process: Process| {
        let tasks = fs::read_dir(format!("/proc/{}/task", process.pid)).expect("it runs");
        for task in tasks {
            let task = task.expect("a thread").file_name();
            let task = task
                .to_str()
                .and_then(|task| task.parse().ok())
                .expect("a number");
            let of = |name: &str| ids(process, task, name);
            assert_eq!(of("Uid:"), [NOBODY; 4]);
            assert_eq!(of("Gid:"), [NOBODY; 4]);
            assert_eq!(of("Groups:"), [NOBODY]);
            for set in ["CapPrm:", "CapEff:"] {
                assert_eq!(capabilities(process, task, set), 0);
            }
        }
    };
    is_nobody(server.process());
    server.workers().into_iter().for_each(is_nobody);
    for name in ["here.sock", "admin.sock", "control.sock", "server.log", "data"] {
        assert_eq!(
            fs::metadata(folder.join(name)).expect(name).uid(),
            NOBODY,
            "{name}"
        );
    }
    let mut client = server.connect();
    client.send("PUT /store/Open/a HTTP/1.1\r\nhost: test\r\ncontent-length: 1\r\n\r\n1");
    assert!(client.response().status < 300);
    assert_eq!(client.get("/store/Open/a").text(), "1");
    // The key can no longer be read, so a reload keeps the certificate, and an upgrade is refused.
    let reloaded = server.command(&["reload"]);
    assert!(reloaded.status.success(), "{reloaded:?}");
    let log = fs::read_to_string(folder.join("server.log")).expect("it is there");
    assert!(
        log.contains("keeping the certificate that was read at startup"),
        "{log}"
    );
    wait_until_ready(&server);
    let refused = server.command(&["upgrade"]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("here.key cannot be read"),
        "{refused:?}"
    );
    std::os::unix::fs::chown(&key, Some(NOBODY), None).expect("root may");
    let upgraded = server.command(&["upgrade"]);
    assert!(upgraded.status.success(), "{upgraded:?}");
    let after = server.serving();
    assert!(server.wait().success());
    is_nobody(after);
    wait_until_ready(&server);
    after.signal(Signal::TERM);
    wait_until("the server to end", || !after.is_alive());
    assert!(!folder.join("here.sock").exists());
    let refused = started_as("nobody-at-all");
    let reason = "there is no user `nobody-at-all` on this machine (server.user)";
    assert!(refused.contains(reason), "{refused}");
}

/// What a server says that is to become this user, and does not start.
fn started_as(user: &str) -> String {
    let folder = forebay_testkit::Folder::new();
    folder.write(
        "forebay.toml",
        format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nuser = \"{user}\"\n[admin]\nlisten = \"off\"\nsocket = \"off\"\n{HERE}"
        ),
    );
    let output = forebay_testkit::command(&["serve", "-c"])
        .arg(folder.path().join("forebay.toml"))
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}
