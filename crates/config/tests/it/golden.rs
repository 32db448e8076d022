//! The printed form of whole configurations, and the errors of wrong ones, compared with what is checked in beside this file.

use std::{fmt::Write, fs, path::Path};

use crate::config::{EVERYTHING, Project, everything};

/// The sections and keys that [`EVERYTHING`] does not have.
const OTHERS: &str = r#"
[server]
listen = ["https://0.0.0.0:8443", "unix:web.sock"]
trusted_proxies = ["10.0.0.0/8", "fd00::/8", "unix"]
forwarded = "forwarded"
client_ca = "start.mjs"
client_crl = ["page.html", "app.rb"]
client_certificates = "optional"
https_only = true
hsts = "8760h"
unix_mode = "660"
[tls.first]
cert = "api.mjs"
key = "page.html"
[tls.second]
cert = "api.mjs"
key = "page.html"
ocsp = "app.rb"
[tls.third.acme]
domains = ["Shop.example", "www.shop.example"]
agree_to_terms = true
contact = "mailto:ops@shop.example"
challenge = "http-01"
directory_ca = "page.html"
[auth.issuer.jwt]
issuer = "https://id.example.org/"
audience = ["shop", "api"]
jwks = "https://id.example.org/keys"
jwks_ca = "page.html"
algorithms = ["ES256", "EdDSA"]
claims = ["email"]
[auth.offline.jwt]
issuer = "https://id.example.org/"
audience = "shop"
jwks_file = "page.html"
leeway = "0s"
[auth.jobs.tokens.nightly]
token = "HOST"
scopes = ["write"]
[auth.people.basic."Jürgen M."]
password = "$argon2id$v=19$m=1024,t=2,p=1$5sCFINnK4LaXhKEWwRai7A$TupL9WOXNxrbaKIRhq0gKR/iidzxqxhUg/xf9NlQXf4"
[auth.keys]
header = "X-Key"
[auth.keys.api_keys.robot]
sha256 = "7595E8026fb4b6cf2a06bda9d72a318764d41d1cd7037638091a800307161988"
[auth.devices]
certificate = { name = "uri" }
[auth.browsers.oidc]
issuer = "https://id.example.org/realms/shop"
issuer_ca = "page.html"
client_id = "shop"
client_secret = "HOST"
cookie_secret = "COOKIES"
callback = "/login/callback"
logout = "/logout"
scopes = ["email", "profile"]
claims = ["email"]
session = "30m"
algorithms = ["RS256", "EdDSA"]
[admin]
listen = "unix:admin.sock"
unix_mode = "0600"
hosts = ["status.example.org"]
socket = "off"
[trace]
otlp = "http://127.0.0.1:4318"
[log]
[store]
[store.access]
Other = {}
Person = { read = "public", write = "token:HOST" }
[store.index."by name"]
records = "Person/the%20data"
fields = ["lastName", 'a."b.c"', "tags.*"]
unique = true
[store.index.by-age]
records = "Person"
fields = "age"
[records]
type_key = "meta.kind"
default_kind = "Thing"
detect = { uuid = false, time_number = true, time_number_max = 1600000000, time_number_decimals = 9 }
time_format = "DATE"
time_zone = "-03:30"
examined_max = 5
rows_max = 6
answer_bytes_max = "2KiB"
change_time_max = "2s"
[pool.python]
handler = "app.py:make()"
interface = "wsgi"
mount = "/py"
encoded_slashes = "decode"
start = "app.py"
[pool.module]
handler = "package.module:app"
store = "none"
[pool.lines]
command = ["ruby", "-x"]
protocol = "jsonl"
message_bytes_max = "1MiB"
[pool.wabur]
command = ["ruby"]
protocol = "wabur"
compat = "wabur"
[pool.stdio]
command = ["ruby"]
link = "stdio"
sql = "main"
[sql.main]
url = "postgres://u:s3cret@h/d?sslmode=disable"
[redis.cache]
url = "rediss://u:s3cret@redis.example.org:6380/2"
connections_max = 2
connect_timeout = "1s"
command_timeout = "2s"
reply_bytes_max = "1MiB"
[s3.files]
endpoint = "https://s3.example.org/base"
bucket = "things"
access_key = "me$1"
secret_key = "HOST"
[mail.plain]
host = "mail.example.org"
port = 2525
tls = "none"
from = "shop@example.org"
to = "*"
[cluster]
nats = "nats://u:s3cret@a,tls://[::1]:4223"
name = "one-2"
[pool.away]
at = "cluster"
command = ["ruby"]
[kafka.plain]
brokers = "[::1]:9092"
topics = "orders"
[proxy.app]
servers = ["http://127.0.0.1:3000", "https://app.example", "h2c://[::1]:3001", "unix:app.socket"]
balance = "path"
host = "app.example"
ca = "page.html"
in_flight_max = 5
connect_timeout = "1s"
read_timeout = "2s"
tunnel_timeout = "3s"
idle_timeout = "4s"
idle_max = 0
retry = "never"
fails_max = 0
fail_timeout = "5s"
check = { path = "/health" }
[proxy.plain]
servers = "unix:/run/app.socket"
[script.small]
handler = "api.mjs"
modules = "."
allow = { fetch = ["api.example.org", "*.example.com"], files = ["public"] }
[workflow]
path = "public"
watch = true
compat = "rengine"
timeout = "1s"
executors = 2
logs = "logs"
logs_rotate = { size = "1MiB", keep = 2 }
allow = { store = "*", sql = "main", redis = "cache", s3 = "files", mail = "plain", kafka = "plain", pool = ["lines"], process = ["/bin/sh"], fetch = "127.0.0.1:9000", files = "public" }
runs = { global = "Runs", kept = "1h" }
[workflow.clients.shop]
secret = "HOST"
runs_max = 3
runs_per_second = 100
priority = "high"
[workflow.clients."a b"]
token = "HOST"
workflows = ["x", "y"]
[workflow.scenes.x]
runs_max = 2
queue_max = 0
timeout = "50ms"
priority = "low"
[workflow.scenes.y]
[openapi]
title = "Shop"
version = "1.4.0"
description = "Orders."
[[route]]
path = "/docs"
openapi = {}
[[route]]
path = "/hidden"
redirect = { to = "/docs" }
doc = { summary = "Leads to the documents", description = "It \"does\".", tags = ["a", "b"], hidden = true }
[[route]]
path = "/json/*"
records = {}
origins = ["https://example.org"]
[[route]]
path = "/tql"
tql = {}
cors = { origins = ["https://example.org"], credentials = true }
[[route]]
path = "/run/*"
workflow = {}
[[route]]
path = "/scenes"
workflow = {}
[[route]]
path = "/script"
script = "small"
auth = ["issuer", "people"]
scopes = ["read", "write"]
[[route]]
path = "/lines"
pool = "lines"
[[route]]
path = "/mails"
pool = "lines"
durable = { schedule = "*/10 30 3 * * MON-FRI", time_zone = "Europe/Zurich" }
[[route]]
path = "/imports/*"
pool = "lines"
methods = ["PUT"]
durable = { attempts = 3, backoff = "1s", timeout = "2h", kept = "168h", at_a_time = 1, priority = "low", open_max = 10, bytes_max = "1MiB" }
[[route]]
path = "/old/*"
proxy = "app"
upstream_path = "/"
compress = "always"
[[route]]
path = "/new"
proxy = "plain"
[[route]]
path = "/page"
respond = { file = "page.html", headers = { X-A = "b" } }
[[route]]
path = "/rows"
methods = "GET"
sql = { source = "main", query = "select 1", result = "csv" }
"#;

const RELEASES: &str = r#"
[store]
[workflow]
store = "Rules"
[workflow.clients.ci]
token = "HOST"
releases = true
[[route]]
path = "/releases/*"
workflow = { api = "releases" }
[[route]]
path = "/first/*"
workflow = { release = 1 }
"#;

/// Wrong configurations, apart from those whose errors other tests have.
const WRONG: &[&str] = &[
    "[server]\nhttps_only = true\nunix_mode = '888'\ntrusted_proxies = ['10.0.0.0/33',\n'all']\nclient_crl = 'no.pem'\nclient_certificates = 'optional'",
    "[server]\nclient_ca = 'no.pem'\nclient_crl = ['page.html',\n'no.pem']\nlisten = ['a', '127.0.0.1:1',\n'127.0.0.1:1', 'https://127.0.0.1:1']",
    "[server]\nlisten = 'https://127.0.0.1:1'",
    "[tls.'a b']\ncert = 'no.pem'\n[admin]\nlisten = 'https://127.0.0.1:1'\nunix_mode = '1777'\nsocket = 'nowhere/a.sock'",
    "[tls.a]\ncert = 'no.pem'\nkey = 'api.mjs'\nocsp = 'nowhere'\n[admin]\nlisten = 'a'\n",
    "[admin]\nlisten = '127.0.0.1:8080'\n[log]\nlevel = 'loud'\nfile = 'nowhere/a.log'",
    "[trace]\notlp = 'http://u:secret@h'\nservice = ''\nheaders = { 'a b' = '', host = 'a', x = ' secret' }",
    "[trace]\nshare = 2\nheaders = { x = 1 }",
    "[proxy.'a b']\nservers = ['ftp://a',\n'http://a:1']\nhost = ''\nca = 'no.pem'\ncheck = { path = 'health' }\n[[route]]\npath = '/a'\nproxy = 'app'\nupstream_path = 'b'\n[[route]]\npath = '/b/*'\nfiles = 'public'\nupstream_path = '/'",
    "[auth.'a b']\n[auth.b]\njwt = { issuer = 'a', audience = 'a' }\ntokens = {}\nheader = 'a'\n[auth.d.basic.'a:b']\npassword = 'secret'\n[auth.e]\nheader = 'Authorization'\n[auth.e.api_keys.a]\nsha256 = 'abc'\n[auth.f.tokens.a]\ntoken = 'NONE'\n[auth.g]\nbasic = {}",
    "[auth.a.jwt]\nissuer = 'a'\naudience = 'a'\njwks = 'http://id.example.org/keys'\njwks_file = 'no.json'\nalgorithms = ['HS256',\n'none']\n[auth.b.jwt]\nissuer = 'a'\naudience = 'a'\njwks_file = 'page.html'\njwks_refresh = '1m'\n[auth.c.jwt]\nissuer = 'a'\naudience = 'a'\njwks = 'a b'",
    "[auth.a.jwt]\nissuer = 'a'\naudience = []\nleeway = '1h'\n[auth.b]\ncertificate = { name = 'cn' }",
    "[auth.a]\ncertificate = {}\n[auth.b.basic.a]\npassword = '$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$T7WIf0iSpR0fZg4y3YsXKCfv2kkKNfYlsL1K4JzrN4k'\n[[route]]\npath = '/a'\nauth = ['c']\nscopes = ['a']\nrespond = {}\n[[route]]\npath = '/b'\nscopes = ['a']\nrespond = {}",
    "[auth.a.oidc]\nsession = '1s'\nalgorithms = []",
    "[auth.a.oidc]\nissuer = 'http://id.example.org'\nclient_id = 'a'\ncookie_secret = 'a b'\ncallback = 'a'\nlogout = '/a/:b'\nscopes = ['a b',\n'']\n[auth.b.oidc]\nissuer = 'https://id.example.org?a'\nclient_id = 'a'\nclient_secret = 'NONE'\ncookie_secret = 'COOKIES'\ncallback = '/b'",
    "[auth.a.oidc]\nissuer = 'https://id.example.org'\nclient_id = 'a'\ncookie_secret = 'HOST'\ncallback = '/a/../b'",
    "[auth.a.oidc]\nissuer = 'https://id.example.org'\nclient_id = 'a'\ncookie_secret = 'COOKIES'\ncallback = '/a'\nlogout = '/b'\n[[route]]\npath = '/b'\nmethods = 'POST'\nhost = 'A.example'\nauth = 'a'\nrespond = {}",
    "[auth.a.oidc]\nissuer = 'https://id.example.org'\nclient_id = 'a'\ncookie_secret = 'COOKIES'\ncallback = '/a'\nlogout = '/a'\n[[route]]\npath = '/*'\nauth = 'a'\nrespond = {}",
    "[records]\ntype_key = 'a..b'\ndefault_kind = 'a b'\nrows_max = 0",
    "[records]\ntype_key = 'a..*'\ndefault_kind = 'a b'\ntime_zone = 'A'",
    "[pool.'a b']\nhandler = 'no.mjs'\ncwd = 'nowhere'\nworkers = { min = 2, max = 1 }\nstore = 'rw'\nsql = 'main'",
    "[pool.a]\n[pool.b]\nhandler = 'api.mjs'\ncommand = 'ruby'\n[pool.c]\nhandler = 'app.rb'\n[pool.d]\nhandler = 'api.mjs'\nstart = 'no.mjs'",
    "[pool.a]\ncommand = 'ruby'\ncompat = 'wabur'\nmessage_bytes_max = '1MiB'\nstart = 'api.mjs'\nruntime = 'node'\nmount = '/a'\ninterface = 'auto'",
    "[pool.a]\ncommand = 'ruby'\nprotocol = 'jsonl'\nlink = 'socket'\nsql = ['main']\ncompat = 'none'\n[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'",
    "[pool.a]\nhandler = 'app.py'\nprotocol = 'jsonl'\n[pool.b]\nhandler = 'app.py'\nlink = 'stdio'\n[pool.c]\nhandler = 'a/b:c'",
    "[script.a]\nhandler = 'api.mjs'\nmodules = 'public'\nallow = { fetch = ['a b'], files = ['public',\n'nowhere'], store = '*', sql = 'main' }",
    "[sql.'a b']\nurl = 'postgres://u@h/d?sslmode=disable'\ndriver = 'blocking'\nconnections_max = 1\nconnections_min = 1",
    "[sql.a]\nurl = 'postgres://u@h/d?sslmode=disable'\nconnections_min = 1",
    "[redis.'a b']\nurl = ''\n[s3.a]\nendpoint = 'https://u@h'\nbucket = 'b'\naccess_key = 'k'\nsecret_key = 'HOST'\n[s3.b]\nendpoint = 'x'\nbucket = 'b'\naccess_key = 'k'\nsecret_key = 'a b'",
    "[mail.'a b']\nhost = ''\npassword = 'HOST'\nfrom = 'a@b.example'\nto = ['*',\n'x']\n[mail.b]\nhost = 'a'\nuser = 'u'\npassword = 'NONE'\nfrom = 'a@b.example'\nto = '*'",
    "[kafka.a]\nbrokers = ['a:1',\n'b:x', 'c d:1']\ntopics = ''\nclient_id = '0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789'",
    "[workflow]\npath = 'public'\nruns = { kept = '1h', open_max = 1 }\nallow = { redis = 'a', s3 = 'b', mail = 'c', kafka = 'd', pool = 'e', sql = 'f', store = 'G' }",
    "[workflow]\npath = 'public'\nruns = { global = 'Runs' }\n[workflow.clients.a]\n[workflow.clients.b]\nsecret = 'NONE'\nreleases = true",
    "[store]\n[workflow]\nstore = 'Runs'\nruns = { global = 'Runs' }",
    "[store]\n[workflow]\nstore = 'Rules'\nruns = { global = 'a b' }",
    "[[route]]\npath = '/a'\nfiles = 'public'\ncache_control = \"a\\nb\"\norigins = ['x',\n'https://a.example']\nretry = 'never'",
    "[[route]]\npath = '/a'\nrespond = { status = 204 }\ncache_control = 'a'\nprecompressed = true\nqueue_timeout = '1s'\ncors = { origins = ['*', 'https://a/b'], headers = ['a b'], credentials = true }",
    "[pool.a]\ncommand = 'ruby'\n[[route]]\npath = '/a/:job'\npool = 'a'\nmethods = ['POST',\n'GET']\nrun_timeout = '1s'\ndurable = {}\n[[route]]\npath = '/b'\nrespond = {}\ndurable = {}",
    "[store]\n[pool.a]\ncommand = 'ruby'\n[[route]]\npath = '/a/:job'\npool = 'a'\nretry = 'never'\ndurable = {}\n[[route]]\npath = '/b/*'\npool = 'a'\nqueue_timeout = '1s'\ndurable = {}",
    "[store]\n[pool.a]\ncommand = 'ruby'\n[[route]]\npath = '/b/:id'\npool = 'a'\ndurable = { schedule = '@hourly' }\n[[route]]\npath = '/c'\npool = 'a'\ndurable = { schedule = '0 0 31 2 *', time_zone = 'Europe/Zurch' }",
    "[store]\n[pool.a]\ncommand = 'ruby'\n[[route]]\npath = '/b'\npool = 'a'\ndurable = true\n[[route]]\npath = '/c'\npool = 'a'\ndurable = { attempts = 0, backoff = '1ms' }",
    "[store]\n[pool.a]\ncommand = 'ruby'\n[[route]]\npath = '/a/jobs/:id'\nmethods = 'GET'\nrespond = {}\n[[route]]\npath = '/a'\npool = 'a'\ndurable = {}",
    "[[route]]\npath = '/a'\nrecords = {}\n[[route]]\npath = '/b'\ntql = {}\n[[route]]\npath = '/c/*'\nworkflow = {}",
    "[[route]]\npath = '/a/*'\nhost = ''\nmethods = ['GET',\n'a b']\nrespond = { text = 'a', file = 'no.html', headers = { date = 'a' } }\nheaders = { Server = 'a', x = 'é' }",
    "[store]\n[store.access]\n'a b' = { read = 'a' }\n[store.index.a]\nrecords = 'P'\nfields = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']",
    "[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'\n[[route]]\npath = '/a'\nmethods = ['GET']\nsql = { source = 'main', statements = ['lock a', \"select 'x\"], optional = 'a' }\n[[route]]\npath = '/b'\nmethods = 'GET'\nsql = { source = 'main', query = 'lock a' }\n[[route]]\npath = '/c'\nmethods = 'GET'\nsql = { source = 'main' }",
];

/// Of `correct horse`.
const HASH: &str =
    "$argon2id$v=19$m=1024,t=2,p=1$5sCFINnK4LaXhKEWwRai7A$TupL9WOXNxrbaKIRhq0gKR/iidzxqxhUg/xf9NlQXf4";

fn project() -> Project {
    let mut project = everything();
    project.programs.push("python3");
    fs::write(project.folder.join("app.py"), "").unwrap();
    project
}

/// Compares a text, with the project's folder as `.`, with a file in `golden`, or writes that if `FOREBAY_REFRESH` is set.
fn assert_golden(project: &Project, name: &str, made: &str) {
    let made = made.replace(&project.folder.display().to_string(), ".");
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/golden")
        .join(name);
    if std::env::var_os("FOREBAY_REFRESH").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    let differs = expected
        .lines()
        .zip(made.lines())
        .find(|(expected, made)| expected != made);
    assert!(expected == made, "{name} differs: {differs:?}");
}

#[test]
fn every_section_is_printed_with_all_its_keys() {
    let project = project();
    let mut printed = String::new();
    for text in ["", EVERYTHING, OTHERS, RELEASES] {
        let config = project.good(text);
        assert!(!config.to_toml().contains("s3cret"), "{}", config.to_toml());
        // Hashes of secrets are not printed; any others stand for them.
        let readable = config
            .to_toml()
            .replace("sha256 = \"***\"", &format!("sha256 = \"{}\"", "0".repeat(64)));
        let readable = readable.replace(
            "password = \"***\"",
            &format!("password = \"{}\"", HASH.replace('$', "$$")),
        );
        assert_eq!(project.good(&readable).to_toml(), config.to_toml());
        writeln!(printed, "{}", config.to_toml()).unwrap();
    }
    assert_golden(&project, "printed.toml", &printed);
}

#[test]
fn each_wrong_configuration_has_all_its_errors() {
    let project = project();
    let mut errors = String::new();
    for text in WRONG {
        writeln!(errors, "{}\n", project.errors(text)).unwrap();
    }
    assert_golden(&project, "errors.txt", &errors);
}
