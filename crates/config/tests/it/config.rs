//! The configuration through its public API: the result of valid files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_config::{
    Compress, Config, ConfigError, Environment, Files, Listen, LogFormat, Respond, Retry, Runtime, Secret,
    Target, Worker, Workers,
};

/// A temporary folder with the files that these configurations refer to; removed at the end.
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
        let environment = Environment {
            env: &env,
            find_program: &find_program,
            cores: 4,
            io_threads: None,
        };
        Config::parse(text, &self.folder.join("forebay.toml"), &environment)
    }

    pub(crate) fn good(&self, text: &str) -> Config {
        self.parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The errors of a file, with its folder written as `.`.
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

/// A configuration that uses every key.
pub(crate) const EVERYTHING: &str = r#"
[server]
listen = ["127.0.0.1:8080", "[::1]:8080", "unix:web.sock", "localhost:0", "localhost:0"]
threads = 3
header_bytes_max = "16KiB"
body_bytes_max = "2MB"
header_timeout = "5s"
body_timeout = "1m"
compress = "public"
compress_bytes_min = "2KiB"
compress_cpu_max = 0.5
idle_timeout = "1h"
connections_max = "${CONNECTIONS:-500}"
deadline = "20s"
drain_max = "0s"

[admin]
listen = "off"
socket = "run.sock"

[trace]
otlp = "https://collector.example/otel/"
share = "${SHARE:-0.25}"
headers = { Authorization = "Bearer x" }
service = "shop"
queue_max = 100
metrics_interval = "15s"
logs = true

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

[mail.office]
host = "mail.example.org"
tls = "implicit"
user = "shop"
password = "HOST"
from = '"Größe, the shop" <shop@example.org>'
to = ["*@example.org", "boss@other.example", "*"]
recipients_max = 3

[kafka.events]
brokers = ["a.example.org:9092", "127.0.0.1:9093"]
tls = true
user = "shop"
password = "HOST"
topics = ["orders", "x.y_z-1"]
acks = "leader"

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
cache_control = "public, max-age=60"
precompressed = true
compress = "always"
cors = { origins = "*", headers = ["content-type"] }

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

pub(crate) fn everything() -> Project {
    let mut project = Project::new();
    project.env.push(("HOST", "db".to_owned()));
    project.env.push(("COOKIES", "s3cret".repeat(6)));
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
            port: 8080,
            tls: false,
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
        (None, 1024, 64 << 20)
    );
    assert_eq!(pool.queue_timeout, Duration::from_secs(10));
    assert_eq!(pool.run_timeout, Duration::from_secs(30));
    assert_eq!(pool.kill_grace, Duration::from_millis(300));
    assert_eq!(pool.idle_retire, Duration::from_mins(5));
    assert_eq!(
        (pool.recycle.jobs, pool.recycle.age, pool.recycle.rss),
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
        (config.server.compress_bytes_min, config.server.compress_cpu_max),
        (2048, 0.5)
    );
    assert_eq!(
        (config.admin.listen, config.admin.socket),
        (None, Some(project.folder.join("run.sock")))
    );
    assert_eq!((config.log.rotate.size, config.log.rotate.keep), (1 << 20, 3));
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
        (&*api.sql, config.sql["main"].direct),
        (&["main".to_owned()][..], true)
    );
    assert_eq!(api.env["GREETING"], "tab\there \"${x}\" \u{7f} é");
    assert_eq!(api.env["URL"], "http://db/");
    assert_eq!((api.retry, api.recycle.rss), (Retry::Idempotent, 512 << 20));
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
        (routes[0].methods().join(" "), routes[0].host.as_deref()),
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
            folder: project.folder.join("public"),
            cache_control: Some("public, max-age=60".to_owned()),
            precompressed: true,
        })
    );
    assert_eq!(
        (routes[4].compress, routes[5].compress),
        (Compress::Always, Compress::Public)
    );
    assert_eq!(routes[6].target, Target::Pool("api".into()));
    assert_eq!(
        (routes[6].queue_timeout, routes[6].run_timeout, routes[6].retry),
        (
            Some(Duration::from_secs(1)),
            Some(Duration::from_millis(1500)),
            Some(Retry::Never)
        )
    );
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
fn hashes_of_secrets_are_not_printed() {
    let (hash, digest) = (
        "TupL9WOXNxrbaKIRhq0gKR/iidzxqxhUg/xf9NlQXf4",
        "7595e8026fb4b6cf2a06bda9d72a318764d41d1cd7037638091a800307161988",
    );
    let config = everything().good(&format!(
        "[auth.people.basic.ada]\npassword = '$argon2id$v=19$m=1024,t=2,p=1$5sCFINnK4LaXhKEWwRai7A${hash}'\n\
         [auth.programs.api_keys.robot]\nsha256 = '{digest}'\n"
    ));
    let printed = config.to_toml();
    assert!(
        printed.contains("\"ada\" = { password = \"***\"")
            && printed.contains("\"robot\" = { sha256 = \"***\""),
        "{printed}"
    );
    for said in [printed, format!("{config:?}")] {
        assert!(
            !said.contains("argon2id") && !said.contains(hash) && !said.contains(&digest[..16]),
            "{said}"
        );
    }
}

/// The configuration as read back after printing, in which literal secrets are hidden.
pub(super) fn without_literals(mut config: Config) -> Config {
    for (_, value) in config.trace.iter_mut().flat_map(|trace| &mut trace.headers) {
        *value = Secret::literal("***");
    }
    config
}

#[test]
fn the_effective_configuration_reads_back_as_an_equal_one() {
    let project = everything();
    for text in ["", EVERYTHING] {
        let config = project.good(text);
        let printed = config.to_toml();
        assert!(!printed.contains("Bearer x") && !format!("{config:?}").contains("Bearer x"));
        assert_eq!(project.good(&printed), without_literals(config), "{printed}");
        assert_eq!(project.good(&printed).to_toml(), printed);
    }
}

#[test]
fn a_database_to_which_pools_connect_themselves_has_no_thread_for_them() {
    let project = everything();
    let with = |direct: bool, connections_max: usize| {
        format!(
            "[server]\nthreads = 2\n[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'\ndirect = {direct}\nconnections_max = {connections_max}\n\
             [pool.api]\nhandler = 'api.mjs'\nsql = ['main']\n"
        )
    };
    assert_eq!(project.good(&with(false, 4)).sql_threads("main"), 3);
    let errors = project.errors(&with(false, 3));
    assert!(errors.contains("found 3, expected at least 4: "), "{errors}");
    assert_eq!(project.good(&with(true, 3)).sql_threads("main"), 2);
    let errors = project.errors(&with(true, 2));
    assert!(errors.contains("found 2, expected at least 3: "), "{errors}");
}
