//! The configuration through its public face: what a good file becomes, and the whole text of each error.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_server::config::{
    Config, ConfigError, Files, Listen, LogFormat, PoolRoute, Respond, Retry, Runtime, Surroundings, Target,
    Worker, Workers,
};

/// A folder with what the configurations of these tests name; removed at the end.
pub(crate) struct Project {
    pub(crate) folder: PathBuf,
    pub(crate) env: Vec<(&'static str, String)>,
    pub(crate) programs: Vec<&'static str>,
}

impl Project {
    pub(crate) fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("fbc-{}-{:x}", std::process::id(), unique()));
        for name in ["public", "node_modules"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        for name in ["api.mjs", "start.mjs", "page.html", "app.rb"] {
            fs::write(folder.join(name), "<p>hello</p>").unwrap();
        }
        Self {
            folder,
            env: Vec::new(),
            programs: vec!["node", "ruby"],
        }
    }

    pub(crate) fn executable(&self, name: &str) -> PathBuf {
        let file = self.folder.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    pub(crate) fn parse(&self, text: &str) -> Result<Config, ConfigError> {
        let env = |name: &str| {
            self.env
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, v)| v.clone())
        };
        let find_program = |name: &str| {
            self.programs
                .contains(&name)
                .then(|| Path::new("/bin").join(name))
        };
        let surroundings = Surroundings {
            env: &env,
            find_program: &find_program,
            cores: 4,
        };
        Config::parse(text, &self.folder.join("forebay.toml"), &surroundings)
    }

    pub(crate) fn good(&self, text: &str) -> Config {
        self.parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The errors of a file, its folder written as `.`.
    pub(crate) fn errors(&self, text: &str) -> String {
        let error = self.parse(text).expect_err("the configuration is accepted");
        error
            .to_string()
            .replace(&format!("{}/", self.folder.display()), "./")
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Uses every key.
const EVERYTHING: &str = r#"
[server]
listen = ["127.0.0.1:8080", "[::1]:8080", "unix:web.sock", "localhost:0", "localhost:0"]
threads = 3
header_bytes_max = "16KiB"
body_bytes_max = "2MB"
header_timeout = "5s"
body_timeout = "1m"
idle_timeout = "1h"
connections_max = "${CONNECTIONS:-500}"
deadline = "20s"
drain_max = "0s"

[admin]
listen = "off"
socket = "run.sock"

[log]
level = "info,forebay::pool=debug"
format = "json"
file = "forebay.log"
rotate = { size = "1MiB", keep = 3 }
access = true

[pool.api]
handler = "api.mjs"
runtime = "node"
start = "start.mjs"
protocol = "framed"
workers.min = 2
workers.max = 8
concurrency = 4
queue_max = 10
queue_bytes_max = 1048576
queue_timeout = "2s"
run_timeout = "3s"
kill_grace = "100ms"
idle_retire = "0s"
recycle = { jobs = 1000, age = "1h", rss = "512MiB" }
retry = "idempotent"
env = { GREETING = "tab\there \"$${x}\" \u007f é", URL = "http://${HOST}/" }
env_pass = ["HTTP_PROXY"]
cwd = "public"
sql = ["main"]

[store]
path = "db"
durability = "sync"
flush_interval = "5ms"
map_max = "1GiB"
reader_age_max = "5s"
value_bytes_max = "1MiB"
queue_max = 7
queue_bytes_max = "1MiB"

[store.access]
Person = { read = "public", write = "token:HOST" }
"%Zé.1" = { read = "none" }

[pool.ruby]
command = ["ruby", "app.rb"]
store = "ro"

[script.e1]
handler = "api.mjs"
on = "executor"
io_input_max = "1KiB"
io_cpu_max = "5ms"
cpu_max = "2s"
time_max = "3s"
memory_max = "8MiB"
output_max = "1MiB"
in_flight_max = 9
queue_bytes_max = "2MiB"
executors = 3
engines_max = 5
isolated = true
allow = { store = ["Article", "*"], sql = ["main"] }

[[route]]
path = "/local"
methods = ["GET", "POST"]
host = "Example.com"
headers = { X-From = "memory", cache-control = "no-store" }
respond = { json = { status = "success", result = ["local", 1, 2.5, true, { a = "${HOST}" }] } }

[[route]]
path = "/text"
respond = { status = 418, text = "tea\n", content_type = "text/x-tea", headers = { x-tea = "green" } }

[[route]]
path = "/page"
respond.file = "page.html"

[[route]]
path = "/gone"
respond = { status = 204 }

[[route]]
path = "/static/*"
files = "public"

[[route]]
path = "/store/*"
store = {}

[[route]]
path = "/users/:id"
pool = "api"
deadline = "5s"
body_bytes_max = 0
queue_timeout = "1s"
run_timeout = "1500ms"
retry = "never"

[[route]]
path = "/*"
pool = "ruby"

[sql.main]
url = "postgres://forebay@db.example.com:6000/app?sslmode=disable&application_name=all"
driver = "blocking"
direct = true
connections_max = 4
connections_min = 2
connection_age_max = "1h"
idle_timeout = "5m"
leak_warning = "2m"
in_flight_max = 99
result_bytes_max = "1MiB"
acquire_timeout = "1s"
connect_timeout = "3s"
statement_timeout = "4s"
slow_query = "500ms"

[[route]]
path = "/users/:id"
methods = ["GET"]
sql = { source = "main", query = "select name from users where id = :id and name like :like", optional = ["like"], result = "row" }

[[route]]
path = "/moves"
methods = ["POST"]
sql = { source = "main", statements = ["delete from a where id = :id", "insert into b values (:id, :name) returning id"], optional = ["name"], isolation = "serializable", result = "value" }
"#;

fn everything() -> Project {
    let mut project = Project::new();
    project.env.push(("HOST", "db".to_owned()));
    project
}

#[test]
fn an_empty_file_has_every_default() {
    let project = Project::new();
    let config = project.good("");
    assert_eq!(
        config.server.listen,
        [Listen::Tcp {
            host: "127.0.0.1".into(),
            port: 8080
        }]
    );
    assert_eq!(config.server.threads, 4);
    let with_pool = "[pool.api]\nhandler = 'api.mjs'";
    assert_eq!(
        project.good(with_pool).server.threads,
        2,
        "workers need cores too"
    );
    assert_eq!(config.server.header_bytes_max, 32 * 1024);
    assert_eq!(config.server.body_bytes_max, 1024 * 1024);
    assert_eq!(config.server.header_timeout, Duration::from_secs(10));
    assert_eq!(config.server.idle_timeout, Duration::from_secs(75));
    assert_eq!(config.server.connections_max, 10_000);
    assert_eq!(config.server.deadline, Duration::from_secs(30));
    assert_eq!(config.admin.listen.unwrap().to_string(), "127.0.0.1:8081");
    assert_eq!(config.admin.socket.unwrap(), project.folder.join("forebay.sock"));
    assert_eq!(
        (config.log.level.as_str(), config.log.format),
        ("info", LogFormat::Auto)
    );
    assert!(config.pools.is_empty() && config.routes.is_empty() && !config.log.access);
}

#[test]
fn a_pool_of_one_line_has_every_default() {
    let project = Project::new();
    let config = project.good("[pool.api]\nhandler = 'api.mjs'");
    let pool = &config.pools["api"];
    assert_eq!(pool.workers, Workers { min: 1, max: 4 });
    assert_eq!(
        (pool.concurrency, pool.queue_max, pool.queue_bytes_max),
        (1, 1024, 64 << 20)
    );
    assert_eq!(pool.queue_timeout, Duration::from_secs(10));
    assert_eq!(pool.run_timeout, Duration::from_secs(30));
    assert_eq!(pool.kill_grace, Duration::from_millis(300));
    assert_eq!(pool.idle_retire, Duration::from_mins(5));
    assert_eq!(
        (pool.recycle.jobs, pool.recycle.age, pool.recycle.rss_bytes),
        (0, Duration::ZERO, 0)
    );
    assert_eq!(
        (pool.retry, pool.cwd.to_str()),
        (Retry::Never, project.folder.to_str())
    );
}

#[test]
fn as_many_workers_as_cores_are_never_fewer_than_the_least() {
    let project = Project::new();
    let config = project.good("[pool.api]\nhandler = 'api.mjs'\nworkers = { min = 8 }");
    assert_eq!(config.pools["api"].workers, Workers { min: 8, max: 8 });
}

#[test]
fn routes_may_be_written_as_one_list() {
    let project = Project::new();
    let config = project.good("route = [{ path = '/a', respond = {} },\n{ path = '/b', respond = {} }]");
    assert_eq!(config.routes[1].path, "/b");
    let errors = project.errors("route = [{ path = '/a', respond = {} },\n{ path = '/b' }]");
    assert!(
        errors.starts_with("./forebay.toml:2: route: found none; a route has exactly one target"),
        "{errors}"
    );
    let errors = project.errors("route = [1]");
    assert_eq!(
        errors,
        "./forebay.toml:1: route: found [1], expected tables that each begin with [[route]]"
    );
}

#[test]
fn every_key_reaches_its_place() {
    let project = everything();
    let config = project.good(EVERYTHING);
    assert_eq!(
        config.server.listen[2],
        Listen::Unix(project.folder.join("web.sock"))
    );
    assert_eq!((config.server.threads, config.server.connections_max), (3, 500));
    assert_eq!(config.server.body_bytes_max, 2_000_000);
    assert_eq!(
        (config.admin.listen, config.admin.socket),
        (None, Some(project.folder.join("run.sock")))
    );
    assert_eq!(
        (config.log.rotate.size_bytes, config.log.rotate.keep),
        (1 << 20, 3)
    );
    let api = &config.pools["api"];
    let (program, folder) = (PathBuf::from("/bin/node"), &project.folder);
    let (handler, start) = (folder.join("api.mjs"), Some(folder.join("start.mjs")));
    assert_eq!(
        api.worker,
        Worker::Script {
            runtime: Runtime::Node,
            program,
            handler,
            start,
            runtime_flags: Vec::new(),
        }
    );
    assert_eq!(
        (&*api.sql, config.sql_direct.contains("main")),
        (&["main".to_owned()][..], true)
    );
    assert_eq!(api.env["GREETING"], "tab\there \"${x}\" \u{7f} é");
    assert_eq!(api.env["URL"], "http://db/");
    assert_eq!((api.retry, api.recycle.rss_bytes), (Retry::Idempotent, 512 << 20));
    let command = vec!["ruby".to_owned(), "app.rb".to_owned()];
    assert_eq!(
        config.pools["ruby"].worker,
        Worker::Command {
            program: "/bin/ruby".into(),
            command
        }
    );
}

#[test]
fn every_route_reaches_its_target() {
    let project = everything();
    let routes = project.good(EVERYTHING).routes;
    assert_eq!(
        (routes[0].methods.join(" "), routes[0].host.as_deref()),
        ("GET POST".into(), Some("example.com"))
    );
    assert_eq!(routes[0].headers[0], ("x-from".to_owned(), "memory".to_owned()));
    let respond = |at: usize| match &routes[at].target {
        Target::Respond(respond) => respond.clone(),
        other => panic!("{other:?}"),
    };
    let json = r#"{"status":"success","result":["local",1,2.5,true,{"a":"db"}]}"#;
    assert_eq!(respond(0).body, json.as_bytes());
    assert_eq!(respond(0).content_type.as_deref(), Some("application/json"));
    assert_eq!(
        (respond(1).status, respond(1).content_type.as_deref()),
        (418, Some("text/x-tea"))
    );
    assert_eq!(respond(2).body, b"<p>hello</p>");
    assert_eq!(
        respond(2).content_type.as_deref(),
        Some("text/html; charset=utf-8")
    );
    let gone = Respond {
        status: 204,
        content_type: None,
        headers: Vec::new(),
        body: Vec::new(),
        file: None,
    };
    assert_eq!(respond(3), gone);
    assert_eq!(
        routes[4].target,
        Target::Files(Files {
            folder: project.folder.join("public")
        })
    );
    let narrowed = PoolRoute {
        pool: "api".into(),
        queue_timeout: Duration::from_secs(1),
        run_timeout: Duration::from_millis(1500),
        retry: Retry::Never,
    };
    assert_eq!(routes[6].target, Target::Pool(narrowed));
    assert_eq!(
        (routes[6].deadline, routes[6].body_bytes_max),
        (Duration::from_secs(5), 0)
    );
    assert_eq!(
        (routes[7].deadline, routes[7].body_bytes_max),
        (Duration::from_secs(20), 2_000_000)
    );
}

#[test]
fn the_password_of_a_database_is_not_printed() {
    let project = everything();
    let text = "[sql.main]\nurl = 'postgres://u:s3cret@h/d?sslmode=disable'\n";
    let config = project.good(text);
    assert!(config.to_toml().contains("postgres://u@h:5432/d?sslmode=disable"));
    assert!(!format!("{}{config:?}", config.to_toml()).contains("s3cret"));
}

#[test]
fn the_effective_configuration_reads_back_as_an_equal_one() {
    let project = everything();
    for text in ["", EVERYTHING] {
        let config = project.good(text);
        let printed = config.to_toml();
        assert_eq!(project.good(&printed), config, "{printed}");
        assert_eq!(project.good(&printed).to_toml(), printed);
    }
}

#[test]
fn each_error_names_its_place_what_was_found_and_what_is_accepted() {
    let project = Project::new();
    let api = "[pool.api]\nhandler = 'api.mjs'\n";
    let route = "[[route]]\npath = '/a'\n";
    for (text, expected) in [
        (
            "[server]\nlisten = [",
            "2: not TOML: unclosed array, expected `]`",
        ),
        ("[server]\nthreads = 1\nthreads = 2", "3: not TOML: duplicate key"),
        (
            "[server]\nlisen = []",
            "2: server.lisen: no such key (did you mean `listen`?); accepted: listen, threads, header_bytes_max, body_bytes_max, header_timeout, body_timeout, idle_timeout, connections_max, deadline, drain_max",
        ),
        (
            "[server]\ntls = { cert = 'a' }",
            "2: server.tls: no such key; accepted: listen, threads, header_bytes_max, body_bytes_max, header_timeout, body_timeout, idle_timeout, connections_max, deadline, drain_max",
        ),
        (
            "[severr]",
            "1: severr: no such section (did you mean `server`?); this version has [server], [admin], [log], [store], [records], [pool.NAME], [script.NAME], [sql.NAME], [[route]]",
        ),
        (
            "server = 1",
            "1: server: found 1, expected a table that begins with [server]",
        ),
        (
            "[pool]\napi = 'x'",
            "2: pool.api: found 'x', expected a table that begins with [pool.NAME]",
        ),
        (
            "[route]\npath = '/'",
            "1: route: found a table, expected tables that each begin with [[route]]",
        ),
        (
            "[server]\nthreads = -1",
            "2: server.threads: found -1, expected a whole number from 0 to 256",
        ),
        (
            "[server]\nthreads = 257",
            "2: server.threads: found 257, expected a whole number from 0 to 256",
        ),
        (
            "[server]\nthreads = 1.5",
            "2: server.threads: found 1.5, expected a whole number from 0 to 256",
        ),
        (
            "[server]\nthreads = '${N:-many}'",
            "2: server.threads: found '${N:-many}', which is \"many\" here; expected a whole number from 0 to 256",
        ),
        (
            "[server]\nthreads = '${N}'",
            "2: server.threads: the environment has no `N`; set it, or write `${N:-default}`",
        ),
        (
            "[server]\nheader_bytes_max = '512B'",
            "2: server.header_bytes_max: found '512B', expected a number of bytes from 1KiB to 256KiB, such as \"64KiB\", \"1MB\" or 4096",
        ),
        (
            "[server]\ndeadline = 5",
            "2: server.deadline: found 5, expected a duration from 1ms to 24h, such as \"300ms\", \"10s\", \"5m\" or \"1h\"",
        ),
        (
            "[server]\ndeadline = '0s'",
            "2: server.deadline: found '0s', expected a duration from 1ms to 24h, such as \"300ms\", \"10s\", \"5m\" or \"1h\"",
        ),
        (
            "[server]\nlisten = []",
            "2: server.listen: found [], expected a list of at least 1 text",
        ),
        (
            "[server]\nlisten = ['a:1',\n  7]",
            "3: server.listen: found 7 in the list, expected text",
        ),
        (
            "[server]\nlisten = ['a:1',\n  '8080']",
            "3: server.listen: found \"8080\", expected an address such as \"127.0.0.1:8080\", \"[::1]:8080\" or \"unix:forebay.socket\"",
        ),
        (
            "[server]\nlisten = ['a:1', 'a:1']",
            "2: server.listen: `a:1` is listed twice",
        ),
        (
            "[server]\nlisten = ['127.0.0.1:8081']",
            "1: admin.listen: `127.0.0.1:8081` is an address of server.listen too",
        ),
        (
            "[admin]\nsocket = 'no/a.sock'",
            "2: admin.socket: there is no folder `./no`",
        ),
        (
            "[log]\nlevel = 'loud'",
            "2: log.level: found \"loud\", expected one of error, warn, info, debug, trace, off, or a list such as \"info,forebay::pool=debug\"",
        ),
        (
            "[log]\nformat = 'xml'",
            "2: log.format: found 'xml', expected one of \"auto\", \"text\", \"json\"",
        ),
        (
            "[log]\naccess = 'yes'",
            "2: log.access: found 'yes', expected true or false",
        ),
        (
            "[log]\nrotate = 5",
            "2: log.rotate: found 5, expected a table with size, keep",
        ),
        (
            "[log.rotate]\nkeep = 0",
            "2: log.rotate.keep: found 0, expected a whole number from 1 to 1000",
        ),
        (
            "[pool.'a b']\nhandler = 'api.mjs'",
            "1: pool.a b: a pool's name has 1 to 64 letters, digits, `-` and `_`",
        ),
        (
            "[pool.api]",
            "1: pool.api.handler: found neither; a pool has either a `handler` or a `command`",
        ),
        (
            "[pool.api]\nhandler = 'api.mjs'\ncommand = ['ruby']",
            "2: pool.api.handler: found both; a pool has either a `handler` or a `command`",
        ),
        (
            "[pool.api]\nhandler = 'apy.mjs'",
            "2: pool.api.handler: there is no file `./apy.mjs`",
        ),
        (
            "[pool.api]\nhandler = 'app.rb'",
            "1: pool.api.runtime: \"auto\" knows handlers that end with .mjs, .js, .ts, .mts, .cjs, .cts or .py, found `./app.rb`; name a runtime (\"node\", \"bun\", \"python\") or give a command",
        ),
        (
            "[pool.api]\nhandler = 'api.mjs'\nruntime = 'bun'",
            "3: pool.api.runtime: bun is not installed: there is no `bun` in node_modules/.bin or PATH, and FOREBAY_BUN is not set",
        ),
        (
            "[pool.api]\nhandler = 'api.mjs'\nruntime = 'deno'",
            "3: pool.api.runtime: found 'deno', expected one of \"auto\", \"node\", \"bun\", \"python\"",
        ),
        (
            "[pool.api]\ncommand = ['ruby']\nprotocol = 'json'",
            "3: pool.api.protocol: found 'json', expected one of \"framed\", \"jsonl\", \"wabur\"",
        ),
        (
            "[pool.api]\ncommand = ['ruby']\nprotocol = 'wabur'\nlink = 'socket'",
            "4: pool.api.link: found \"socket\"; `protocol = \"wabur\"` is spoken on \"stdio\" only",
        ),
        (
            "[pool.api]\ncommand = ['ruby']\nprotocol = 'jsonl'\ncompat = 'wabur'",
            "4: pool.api.compat: only a pool with `protocol = \"wabur\"` has it",
        ),
        (
            "[pool.api]\ncommand = ['ruby']\nmessage_bytes_max = '1MiB'",
            "3: pool.api.message_bytes_max: only a pool whose protocol is \"jsonl\" or \"wabur\" has it: frames come in pieces",
        ),
        (
            "[pool.api]\ncommand = ['perl']",
            "2: pool.api.command: there is no program `perl`",
        ),
        (
            "[pool.api]\ncommand = ['./app.rb']",
            "2: pool.api.command: there is no program `./app.rb`",
        ),
        (
            "[pool.api]\ncommand = ['ruby']\nruntime = 'node'",
            "3: pool.api.runtime: only a pool with a `handler` has it",
        ),
        (
            "[pool.api]\nhandler = 'api.mjs'\nworkers = { min = 3, max = 2 }",
            "3: pool.api.workers.min: found 3, which is more than max (2)",
        ),
        (
            "[pool.api]\nhandler = 'api.mjs'\nworkers = { mni = 3 }",
            "3: pool.api.workers.mni: no such key (did you mean `min`?); accepted: min, max",
        ),
        (
            "[pool.api]\nhandler = 'api.mjs'\nenv = { 'A B' = '', FOREBAY_LINK_FD = '3' }",
            "3: pool.api.env.A B: \"A B\" is not a variable's name: expected letters, digits and `_`, no digit first\n./forebay.toml:3: pool.api.env.FOREBAY_LINK_FD: the worker protocol sets FOREBAY_LINK_FD itself",
        ),
        (
            "[pool.api]\nhandler = 'api.mjs'\nenv = { A = 1 }",
            "3: pool.api.env.A: found 1, expected text without NUL",
        ),
        (
            "[pool.api]\nhandler = 'api.mjs'\nenv_pass = ['1A']",
            "3: pool.api.env_pass: \"1A\" is not a variable's name: expected letters, digits and `_`, no digit first",
        ),
        (
            "[pool.api]\nhandler = 'api.mjs'\ncwd = 'nowhere'",
            "3: pool.api.cwd: there is no folder `./nowhere`",
        ),
        (
            "[[route]]\nrespond = {}",
            "1: route.path: missing; expected text without NUL",
        ),
        (
            "[[route]]\npath = '/a'",
            "1: route: found none; a route has exactly one target: respond, files, store, records, tql, sql, pool or script",
        ),
        (
            "[[route]]\npath = '/a'\nfiles = 'public'\nrespond = {}",
            "1: route: found respond and files; a route has exactly one target: respond, files, store, records, tql, sql, pool or script",
        ),
        (
            "[[route]]\npath = '/a'\nworkflow = {}",
            "3: route.workflow: this version has no target `workflow`; it has respond, files, store, records, tql, sql, pool or script",
        ),
        (
            "[sql.main]\nurl = 'postgres://u:secret@h/d?sslmode=prefer'",
            "2: sql.main.url: what is written there has sslmode=prefer; known are \"verify-full\", which is the default, and \"disable\"",
        ),
        (
            "[sql.main]\nurl = 'u:secret@h'",
            "2: sql.main.url: what is written there is not a URL such as \"postgres://user:password@host:5432/database\": it begins with \"u\"",
        ),
        (
            "[pool.a]\ncommand = ['ruby']\nsql = ['main', 'other']\n[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'",
            "3: pool.a.sql: there is no sql `other`; the file has main",
        ),
        (
            "[pool.a]\ncommand = ['ruby']\nprotocol = 'wabur'\nsql = ['main']\n[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'",
            "4: pool.a.sql: only a pool whose protocol is \"framed\" has it",
        ),
        (
            "[[route]]\npath = '/a'\nmethods = ['GET']\nsql = { source = 'main', query = 'select 1' }",
            "4: route.sql.source: there is no sql `main`: the file has no [sql.main]",
        ),
        (
            "[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'\n[[route]]\npath = '/a'\nsql = { source = 'main', query = 'select 1' }",
            "5: route.sql: a route with `sql` says which methods it answers, such as [\"GET\"]: one that changes something is not for GET",
        ),
        (
            "[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'\n[[route]]\npath = '/a'\nmethods = ['GET']\nsql = { source = 'main', query = \"select 'x\" }",
            "6: route.sql.query: a string that begins at byte 7 does not end",
        ),
        (
            "[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'\n[[route]]\npath = '/a'\nmethods = ['GET']\nsql = { source = 'main', query = 'select :a', optional = ['b'] }",
            "6: route.sql.optional: the statement has no parameter `:b`",
        ),
        (
            "[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'\n[[route]]\npath = '/a'\nmethods = ['GET']\nsql = { source = 'main', query = \" -- x\\nset role a\" }",
            "6: route.sql.query: `set` is about a whole connection, and statements of routes share theirs",
        ),
        (
            "[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'\n[[route]]\npath = '/a'\nmethods = ['GET']\nsql = { source = 'main', query = 'select 1', statements = ['select 2'] }",
            "6: route.sql.query: found both; a route has `query`, which is one statement, or `statements`, which are a transaction",
        ),
        (
            "[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'\n[[route]]\npath = '/a'\nmethods = ['GET']\nsql = { source = 'main', statements = [\n'select 2',\n'commit'] }",
            "8: route.sql.statements: `commit` is about a whole connection, and statements of routes share theirs",
        ),
        (
            "[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'\n[[route]]\npath = '/a'\nmethods = ['GET']\nsql = { source = 'main', statements = ['select 2'], result = 'csv' }",
            "6: route.sql.result: a transaction is over before it is answered, so its rows are not sent as they come: \"rows\", \"row\" and \"value\" are accepted with `statements`",
        ),
        (
            "[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'\n[[route]]\npath = '/a'\nmethods = ['GET']\nsql = { source = 'main', query = 'select 2', isolation = 'serializable' }",
            "6: route.sql.isolation: only `statements` have it: a `query` sees one state of the database at any rate",
        ),
        (
            "[server]\nthreads = 3\n[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'\nconnections_max = 3",
            "5: sql.main.connections_max: found 3, expected at least 4: with driver = \"async\" each of the 3 threads that run statements has one, and streams and transactions have one; with \"blocking\" threads share theirs",
        ),
        (
            "[[route]]\npath = 'a'\nrespond = {}",
            "2: route.path: found \"a\": it must start with `/`",
        ),
        (
            "[[route]]\npath = '/a'\nhost = 'a:80'\nrespond = {}",
            "3: route.host: `a:80` is not a host: expected a name such as `example.com` or `*.example.com`, without a port",
        ),
        (
            "[[route]]\npath = '/a'\nfiles = 'public'",
            "2: route.path: found \"/a\"; a route with `files` ends with `/*`, which names the file",
        ),
        (
            "[[route]]\npath = '/*'\nfiles = 'nowhere'",
            "3: route.files: there is no folder `./nowhere`",
        ),
        (
            "[[route]]\npath = '/a'\nmethods = ['get']\nrespond = {}",
            "3: route.methods: found \"get\", expected a method in capitals, such as \"GET\"",
        ),
        (
            "[[route]]\npath = '/a'\nmethods = ['GET', 'GET']\nrespond = {}",
            "3: route.methods: `GET` is listed twice",
        ),
        (
            "[[route]]\npath = '/a'\npool = 'api'",
            "3: route.pool: there is no pool `api`: the file has no [pool.api]",
        ),
        (
            "[[route]]\npath = '/a'\nscript = 'e1'",
            "3: route.script: there is no script `e1`: the file has no [script.e1]",
        ),
        (
            "[script.e1]\nhandler = 'nowhere.mjs'",
            "2: script.e1.handler: there is no file `./nowhere.mjs`",
        ),
        (
            "[script.e1]\nhandler = 'api.mjs'\nallow = { store = ['Person'] }",
            "3: script.e1.allow.store: there is no store: the file has no [store]",
        ),
        (
            "[script.e1]\nhandler = 'api.mjs'\nallow = { sql = ['main'] }",
            "3: script.e1.allow.sql: there is no sql `main`: the file has no [sql.main]",
        ),
        (
            "[script.'e 1']\nhandler = 'api.mjs'",
            "1: script.e 1: a script's name has 1 to 64 letters, digits, `-` and `_`",
        ),
        (
            "[script.e1]\nhandler = 'api.mjs'\non = 'thread'",
            "3: script.e1.on: found 'thread', expected one of \"auto\", \"io\", \"executor\"",
        ),
        (
            &format!("{api}{route}pool = 'apy'"),
            "5: route.pool: there is no pool `apy` (did you mean `api`?); the file has api",
        ),
        (
            &format!("{api}{route}pool = 'api'\nrun_timeout = '1m'"),
            "6: route.run_timeout: found 1m, which is more than pool.api.run_timeout (30s); a route may only narrow it",
        ),
        (
            &format!("{api}{route}pool = 'api'\nqueue_timeout = '11s'"),
            "6: route.queue_timeout: found 11s, which is more than pool.api.queue_timeout (10s); a route may only narrow it",
        ),
        (
            &format!("{route}respond = {{}}\ndeadline = '31s'"),
            "4: route.deadline: found 31s, which is more than server.deadline (30s); a route may only narrow it",
        ),
        (
            &format!("{route}respond = {{}}\nbody_bytes_max = '2MiB'"),
            "4: route.body_bytes_max: found 2MiB, which is more than server.body_bytes_max (1MiB); a route may only narrow it",
        ),
        (
            &format!("{route}respond = {{}}\nretry = 'never'"),
            "4: route.retry: only a route with `pool` has it",
        ),
        (
            &format!("{route}headers = {{ 'a b' = '' }}\nrespond = {{}}"),
            "3: route.headers.a b: this is not a header's name (RFC 9110, 5.1)",
        ),
        (
            &format!("{route}headers = {{ Date = 'now' }}\nrespond = {{}}"),
            "3: route.headers.Date: the server sets this header itself",
        ),
        (
            &format!("{route}headers = {{ content-type = 'a/b' }}\nrespond = {{}}"),
            "3: route.headers.content-type: the target sets it; use `respond.content_type`",
        ),
        (
            &format!("{route}headers = {{ x = \"a\\r\\nb\" }}\nrespond = {{}}"),
            "3: route.headers.x: found \"a\\r\\nb\", expected printable ASCII without a space at either end",
        ),
        (
            &format!("{route}respond = {{ status = 100 }}"),
            "3: route.respond.status: found 100, expected a whole number from 200 to 599",
        ),
        (
            &format!("{route}respond = {{ text = 'a', json = 1 }}"),
            "3: route.respond.text: found json and text; a body comes from at most one of them",
        ),
        (
            &format!("{route}respond = {{ status = 204, text = '' }}"),
            "3: route.respond.text: an answer with status 204 has no body",
        ),
        (
            &format!("{route}respond = {{ content_type = 'a/b' }}"),
            "3: route.respond.content_type: this answer has no body",
        ),
        (
            &format!("{route}respond = {{ text = '', content_type = 'é' }}"),
            "3: route.respond.content_type: found \"é\", expected a media type such as \"text/html\"",
        ),
        (
            &format!("{route}respond = {{ file = 'no.html' }}"),
            "3: route.respond.file: there is no file `./no.html`",
        ),
        (
            &format!("{route}respond = {{ json = {{ a = [inf] }} }}"),
            "3: route.respond.json.a: found inf, which JSON has no way to say",
        ),
        (
            &format!(
                "{route}respond = {{}}\n[[route]]\nmethods = ['GET']\npath = '/a'\nrespond = {{}}\n[[route]]\npath = '/a'\nrespond = {{}}"
            ),
            "9: route.path: `/a` answers every method already, by the route on line 2",
        ),
        (
            &format!(
                "{route}methods = ['GET']\nrespond = {{}}\n{route}methods = ['PUT', 'GET']\nrespond = {{}}"
            ),
            "6: route.path: `/a` answers GET already, by the route on line 2",
        ),
    ] {
        assert_eq!(
            project.errors(text),
            format!("./forebay.toml:{expected}"),
            "in:\n{text}"
        );
    }
}

#[test]
fn all_problems_of_a_file_are_reported_together() {
    let project = Project::new();
    let text = "[log]\nfromat = 'text'\n[server]\nthreads = 999\n[[route]]\npath = '/'\nworkflow = {}\n";
    let lines: Vec<String> = project
        .errors(text)
        .lines()
        .map(|line| line[..18].to_owned())
        .collect();
    assert_eq!(
        lines,
        ["./forebay.toml:2: ", "./forebay.toml:4: ", "./forebay.toml:7: "]
    );
}

#[test]
fn a_socket_path_that_the_kernel_would_cut_is_refused() {
    let project = Project::new();
    let long = "x".repeat(108);
    let errors = project.errors(&format!("[server]\nlisten = ['unix:/{long}']"));
    assert_eq!(
        errors,
        format!(
            "./forebay.toml:2: server.listen: `/{long}` has 109 bytes, a Unix socket's path has at most 107"
        )
    );
}

#[test]
fn auto_takes_node_and_else_bun() {
    let mut project = Project::new();
    let runtime = |project: &Project| {
        let config = project.good("[pool.api]\nhandler = 'api.mjs'");
        match &config.pools["api"].worker {
            Worker::Script { runtime, program, .. } => (*runtime, program.clone()),
            other @ (Worker::Command { .. } | Worker::Python { .. }) => panic!("{other:?}"),
        }
    };
    assert_eq!(runtime(&project), (Runtime::Node, "/bin/node".into()));
    project.programs = vec!["bun"];
    assert_eq!(runtime(&project), (Runtime::Bun, "/bin/bun".into()));
    let local = project.executable("node_modules/.bin/bun");
    assert_eq!(runtime(&project), (Runtime::Bun, local));
    let named = project.executable("my-bun");
    project.env.push(("FOREBAY_BUN", named.display().to_string()));
    assert_eq!(runtime(&project), (Runtime::Bun, named));
}

#[test]
fn a_runtime_that_is_not_there_is_a_clear_error() {
    let mut project = Project::new();
    project.programs.clear();
    let text = "[pool.api]\nhandler = 'api.mjs'";
    assert_eq!(
        project.errors(text),
        "./forebay.toml:1: pool.api.runtime: neither node nor bun is installed: there is no `node` in PATH and no `bun` in \
         node_modules/.bin or PATH, and neither FOREBAY_NODE nor FOREBAY_BUN is set"
    );
    project.env.push(("FOREBAY_NODE", "api.mjs".to_owned()));
    assert_eq!(
        project.errors(text),
        "./forebay.toml:1: pool.api.runtime: FOREBAY_NODE is \"./api.mjs\", which is not an executable file"
    );
}

#[test]
fn a_file_is_read_in_the_surroundings_of_this_process() {
    let project = Project::new();
    let file = project.folder.join("own.toml");
    let text = "[pool.sh]\ncommand = ['sh']\nenv = { HOME = '${HOME:-/}' }\n[[route]]\npath = '/*'\nfiles = 'public'\n";
    fs::write(&file, text).unwrap();
    let config = Config::load(&file).unwrap();
    assert_eq!((&config.file, &config.folder), (&file, &project.folder));
    let Worker::Command { program, .. } = &config.pools["sh"].worker else {
        panic!("not a command")
    };
    assert!(program.is_absolute() && program.ends_with("sh"), "{program:?}");
    fs::write(&file, " ".repeat((4 << 20) + 1)).unwrap();
    let source = std::error::Error::source(&Config::load(&file).unwrap_err())
        .unwrap()
        .to_string();
    assert_eq!(source, "it is larger than 4194304 bytes");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let project = Project::new();
    let missing = project.folder.join("no.toml");
    let error = Config::load(&missing).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot read the configuration `{}`", missing.display())
    );
    assert!(std::error::Error::source(&error).is_some());
}

/// A small generator of repeatable noise (xorshift64*, Vigna 2016).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

#[test]
fn garbage_and_mutated_files_never_panic() {
    let project = everything();
    let pieces = [
        "[[route]]",
        "[pool.api]",
        "=",
        "{",
        "}",
        "\"",
        "'",
        "${",
        "}",
        "\n",
        "-1",
        "9e999",
        "é",
        "\0",
        "/:",
        "*",
        "[",
        "]",
        "inf",
        "server.",
    ];
    for seed in 1..=3000 {
        let mut noise = Noise(seed);
        let mut bytes = if seed % 10 == 0 {
            (0..noise.below(400)).map(|_| noise.next() as u8).collect()
        } else {
            EVERYTHING.as_bytes().to_vec()
        };
        for _ in 0..=noise.below(4) {
            let at = noise.below(bytes.len() + 1);
            let end = (at + noise.below(12)).min(bytes.len());
            let piece = pieces[noise.below(pieces.len())];
            bytes.splice(at..end, piece.bytes());
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(config) = project.parse(&text) {
            assert_eq!(project.good(&config.to_toml()), config, "seed {seed}:\n{text}");
        }
    }
}
