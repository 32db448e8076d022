//! The complete text of each configuration error.

use crate::config::Project;

#[test]
fn each_error_names_its_place_what_was_found_and_what_is_accepted() {
    let project = Project::new();
    let api = "[pool.api]\nhandler = 'api.mjs'\n";
    let route = "[[route]]\npath = '/a'\n";
    let digest = "00".repeat(32);
    let auth =
        &format!("[auth.a.api_keys.x]\nsha256 = '{digest}'\n[auth.b.api_keys.x]\nsha256 = '{digest}'\n");
    for (text, expected) in [
        (
            "[server]\nlisten = [",
            "2: not TOML: unclosed array, expected `]`",
        ),
        ("[server]\nthreads = 1\nthreads = 2", "3: not TOML: duplicate key"),
        (
            "[server]\nlisen = []",
            "2: server.lisen: no such key (did you mean `listen`?); accepted: listen, client_ca, client_crl, client_certificates, trusted_proxies, forwarded, https_only, hsts, policy, unix_mode, threads, header_bytes_max, body_bytes_max, header_timeout, body_timeout, body_buffer_max, answer_buffer_max, answer_spool_max, buffers_max, min_rate, min_rate_grace, compress, compress_bytes_min, compress_cpu_max, idle_timeout, connections_max, deadline, drain_max, upgrade_timeout, user, group",
        ),
        (
            "[server]\ntls = { cert = 'a' }",
            "2: server.tls: no such key; accepted: listen, client_ca, client_crl, client_certificates, trusted_proxies, forwarded, https_only, hsts, policy, unix_mode, threads, header_bytes_max, body_bytes_max, header_timeout, body_timeout, body_buffer_max, answer_buffer_max, answer_spool_max, buffers_max, min_rate, min_rate_grace, compress, compress_bytes_min, compress_cpu_max, idle_timeout, connections_max, deadline, drain_max, upgrade_timeout, user, group",
        ),
        (
            "[severr]",
            "1: severr: no such section (did you mean `server`?); this version has [server], [tls.NAME], [auth.NAME], [admin], [log], [trace], [store], [records], [cluster], [pool.NAME], [proxy.NAME], [script.NAME], [sql.NAME], [redis.NAME], [s3.NAME], [mail.NAME], [kafka.NAME], [workflow], [policy.NAME], [openapi], [[route]]",
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
            "2: server.listen: found [], expected a text or a list of at least 1 text",
        ),
        (
            "[server]\nlisten = ['a:1',\n  7]",
            "3: server.listen: found 7 in the list, expected text",
        ),
        (
            "[server]\nlisten = ['a:1',\n  '8080']",
            "3: server.listen: found \"8080\", expected an address such as \"127.0.0.1:8080\", \"[::1]:8080\", \"https://0.0.0.0:8443\" or \"unix:forebay.socket\"",
        ),
        (
            "[server]\nhttps_only = true",
            "2: server.https_only: no address of `listen` begins with `https://`",
        ),
        (
            "[server]\nlisten = 'https://a:1'",
            "2: server.listen: `https://a:1` needs a certificate: add [tls.NAME] with `cert` and `key`, or with `acme`",
        ),
        (
            "[tls.a]\ncert = 'none'",
            "1: tls.a.key: it is required: a certificate has `cert` and `key`, or `acme`\n./forebay.toml:2: tls.a.cert: there is no file `./none`",
        ),
        (
            "[tls.a]\nkey = 'api.mjs'\nacme = { domains = ['a.example'] }",
            "2: tls.a.key: it is not for a certificate that `acme` obtains\n./forebay.toml:3: tls.a.acme.agree_to_terms: authorities give certificates only to those who agree to their terms of service: expected true",
        ),
        (
            "[tls.a.acme]\nagree_to_terms = true\ndomains = ['*.a.example', '192.0.2.1',\n  'ä.example']",
            "3: tls.a.acme.domains: found \"*.a.example\": authorities give certificates with `*` only by `dns-01`, which this server does not have\n./forebay.toml:3: tls.a.acme.domains: found \"192.0.2.1\", expected a name such as \"www.example.org\" (not an address; with other letters than a to z, its form that begins with `xn--`)\n./forebay.toml:4: tls.a.acme.domains: found \"ä.example\", expected a name such as \"www.example.org\" (not an address; with other letters than a to z, its form that begins with `xn--`)",
        ),
        (
            "[server]\nlisten = 'https://a:1'\n[tls.a.acme]\nagree_to_terms = true\ndomains = ['a.example']\nchallenge = 'http-01'\ncontact = 'me'\ndirectory = 'http://a'",
            "6: tls.a.acme.challenge: `http-01` needs an address in server.listen that does not begin with `https://`, which port 80 of the names leads to\n./forebay.toml:7: tls.a.acme.contact: found \"me\", expected an address such as \"mailto:ops@example.org\"\n./forebay.toml:8: tls.a.acme.directory: found \"http://a\", expected a URL that begins with `https://`",
        ),
        (
            "[server]\ntrusted_proxies = ['10.0.0.0/33']",
            "2: server.trusted_proxies: found \"10.0.0.0/33\", expected an IP address such as \"192.0.2.7\", or a range such as \"10.0.0.0/8\" or \"fd00::/8\", or \"unix\"",
        ),
        (
            "[server]\nclient_crl = []",
            "2: server.client_crl: it says something only beside `client_ca`",
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
            "[trace]\nshare = 1.5\nservice = ''\nheaders = { Host = 'a', b = 'c ' }",
            "1: trace.otlp: missing; expected text without NUL\n./forebay.toml:2: trace.share: found 1.5, expected a number from 0 to 1, such as 0.1",
        ),
        (
            "[trace]\notlp = 'http://u:secret@h'\nservice = ''\nheaders = { Host = 'a', b = 'c ' }",
            "2: trace.otlp: what is written there is no address: expected `http://` or `https://`, a host, and neither a user nor a query, such as `http://127.0.0.1:4318`\n./forebay.toml:3: trace.service: found \"\", expected a name\n./forebay.toml:4: trace.headers.Host: the server sets this header itself\n./forebay.toml:4: trace.headers.b: expected printable ASCII without a space at either end",
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
            "1: route: found none; a route has exactly one target: respond, redirect, rewrite, files, store, records, tql, sql, pool, proxy, script, workflow or openapi",
        ),
        (
            "[[route]]\npath = '/a'\nfiles = 'public'\nrespond = {}",
            "1: route: found respond and files; a route has exactly one target: respond, redirect, rewrite, files, store, records, tql, sql, pool, proxy, script, workflow or openapi",
        ),
        (
            "[[route]]\npath = '/a'\nproxy = 'app'",
            "3: route.proxy: there is no proxy `app`: the file has no [proxy.app]",
        ),
        (
            "[workflow]\npath = 'nowhere'",
            "2: workflow.path: there is no folder `./nowhere`",
        ),
        (
            "[workflow]\npath = '.'\n[[route]]\npath = '/a'\nworkflow = { api = 'named' }",
            "4: route.path: found \"/a\"; a route with `workflow = { api = \"named\" }` ends with `/*`, which names the workflow",
        ),
        (
            "[workflow]\npath = '.'\n[[route]]\npath = '/a'\nworkflow = { api = 'graph' }",
            "5: route.workflow.api: found 'graph', expected one of \"named\", \"scenes\", \"rulescript\", \"custom\", \"releases\"",
        ),
        (
            "[workflow]\npath = '.'\nallow = { files = ['nowhere'] }",
            "3: workflow.allow.files: there is no folder `./nowhere`",
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
            "[redis.a]\nurl = 'http://u:secret@h'",
            "2: redis.a.url: what is written there is not a URL such as \"redis://user:password@host:6379/0\", or with `rediss:` for TLS: it begins with \"http\"",
        ),
        (
            "[workflow]\npath = '.'\nallow = { redis = ['a'], process = ['sh'] }",
            "3: workflow.allow.redis: there is no redis `a`: the file has no [redis.a]\n./forebay.toml:3: workflow.allow.process: found \"sh\", expected the absolute path of a program that is there",
        ),
        (
            "[kafka.a]\nbrokers = ['localhost']\nuser = 'u'\ntopics = ['a b']",
            "2: kafka.a.brokers: found \"localhost\", expected `host:port`\n./forebay.toml:3: kafka.a.user: `user` and `password` are written together, or neither of them\n./forebay.toml:3: kafka.a.user: a password is sent over connections that are encrypted alone (`tls`)\n./forebay.toml:4: kafka.a.topics: found \"a b\", expected the name of a topic: 1 to 249 letters, digits, `.`, `_` and `-`",
        ),
        (
            "[cluster]\nnats = 'http://u:secret@h'\nname = 'a.b'\ncert = 'api.mjs'\ncredentials = 'api.mjs'",
            "2: cluster.nats: what is written there is not a URL such as \"nats://user:password@host:4222\", nor several with commas between: invalid scheme for NATS server URL: http\n./forebay.toml:3: cluster.name: found \"a.b\", expected 1 to 64 letters, digits, `-` and `_`\n./forebay.toml:4: cluster.cert: `cert` and `key` are written together, or neither of them\n./forebay.toml:5: cluster.credentials: the URL of `nats` has a login already: use one of the two",
        ),
        (
            "[pool.a]\nat = 'cluster'\ncommand = ['ruby']\nprotocol = 'jsonl'\nsticky = 'cookie'\nstore = 'rw'\n[store]\npath = 'db'",
            "2: pool.a.at: found \"cluster\", and the file has no [cluster]\n./forebay.toml:4: pool.a.protocol: a pool with `at = \"cluster\"` has \"framed\"\n./forebay.toml:5: pool.a.sticky: a pool with `at = \"cluster\"` has no client that stays with one worker\n./forebay.toml:6: pool.a.store: the store is in a folder of one machine (store.path): a pool with `at = \"cluster\"` has `store = \"none\"`, or the store a `url`",
        ),
        (
            "[mail.a]\nhost = 'a b'\ntls = 'none'\nuser = 'u'\nfrom = 'Shop'\nto = ['*example.org']",
            "2: mail.a.host: found \"a b\", expected the name of a server\n./forebay.toml:4: mail.a.user: `user` and `password` are written together, or neither of them\n./forebay.toml:4: mail.a.user: a password is sent over connections that are encrypted alone (`tls`)\n./forebay.toml:5: mail.a.from: \"Shop\" is no address such as \"shop@example.org\" or \"Shop <shop@example.org>\": Invalid input\n./forebay.toml:6: mail.a.to: \"*example.org\" is no address such as \"shop@example.org\" or \"Shop <shop@example.org>\": nothing but `@` follows `*`; `*@example.org` is all of a domain, and `*` is everybody",
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
            "6: route.sql.query: `set` affects the whole connection, which routes share",
        ),
        (
            "[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'\n[[route]]\npath = '/a'\nmethods = ['GET']\nsql = { source = 'main', query = 'select 1', statements = ['select 2'] }",
            "6: route.sql.query: found both; a route has `query`, which is one statement, or `statements`, which are a transaction",
        ),
        (
            "[sql.main]\nurl = 'postgres://u@h/d?sslmode=disable'\n[[route]]\npath = '/a'\nmethods = ['GET']\nsql = { source = 'main', statements = [\n'select 2',\n'commit'] }",
            "8: route.sql.statements: `commit` affects the whole connection, which routes share",
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
            &format!("{route}respond = {{}}\npolicy = 'aip'\n[policy.api]"),
            "4: route.policy: there is no policy `aip` (did you mean `api`?); the file has api",
        ),
        (
            &format!("{route}redirect = {{ to = '/new/:id', status = 300 }}"),
            "3: route.redirect.status: found 300, expected a whole number from 301 to 308",
        ),
        (
            &format!("{route}redirect = {{ to = '/', status = 304 }}"),
            "3: route.redirect.status: found 304, expected 301, 302, 303, 307 or 308",
        ),
        (
            &format!("{route}redirect = {{ to = '/new/:id' }}"),
            "3: route.redirect: found \"/new/:id\": the path of the route has no `:id`",
        ),
        (
            &format!("{route}rewrite = 'https://example.org/'"),
            "3: route.rewrite: found \"https://example.org/\", expected a path of this server, such as \"/internal/*\"",
        ),
        (
            &format!("{route}rewrite = '/b'"),
            "3: route.rewrite: no route answers GET `/b`",
        ),
        (
            "[[route]]\npath = '/a/:id'\nrewrite = '/b/:id'\n[[route]]\npath = '/b/*'\nrewrite = '/c/*'\n[[route]]\npath = '/c/*'\nrespond = {}",
            "3: route.rewrite: `/b/:id` is answered by a rewrite, the route on line 5; a request is rewritten once",
        ),
        (
            &format!("{route}rewrite = '/b'\ndeadline = '1s'\n[[route]]\npath = '/b'\nrespond = {{}}"),
            "4: route.deadline: a route with `rewrite` has those of the route that answers",
        ),
        (
            "[pool.api]\nhandler = 'api.mjs'\nsticky = 'x y'",
            "3: pool.api.sticky: found \"x y\", expected \"cookie\", \"address\" or the name of a header field",
        ),
        (
            "[policy.a]\nallow = 'localhost'",
            "2: policy.a.allow: found \"localhost\", expected an IP address such as \"192.0.2.7\", or a range such as \"10.0.0.0/8\" or \"fd00::/8\"",
        ),
        (
            "[policy.a]\nrate_limits = ['1/1m', '0/1m']",
            "2: policy.a.rate_limits: found \"0/1m\", expected a number of requests and a time up to 24h, such as \"100/1m\", \"1000/1h by user\" or \"1000/1h by x-api-key\"",
        ),
        (
            &format!("{auth}[policy.p]\nauth = 'a'\n{route}auth = 'b'\npolicy = 'p'\nrespond = {{}}"),
            "9: route.auth: nobody could prove who it is: only ways that are in each `auth` of a route and its policies are accepted, and none is in a and in b",
        ),
        (
            &format!(
                "{auth}[server]\npolicy = ['p', 'q']\n[policy.p]\nauth = 'a'\n[policy.q]\nauth = 'b'\n{route}respond = {{}}"
            ),
            "6: server.policy: nobody could prove who it is: only ways that are in each `auth` of a route and its policies are accepted, and none is in a and in b",
        ),
        (
            &format!("{route}scopes = 'read'\nrespond = {{}}"),
            "3: route.scopes: the scope `read` is asked for, but not who the client is: `auth` of the route or of a policy names the ways to prove that",
        ),
        (
            &format!("[policy.p]\nscopes = 'read'\n{route}policy = 'p'\nrespond = {{}}"),
            "5: route.policy: the scope `read` is asked for, but not who the client is: `auth` of the route or of a policy names the ways to prove that",
        ),
        (
            "[policy.a]\nremove_headers = ['date']",
            "2: policy.a.remove_headers: \"date\": the server sets this header itself",
        ),
        (
            "[policy.a]\nremove_request_headers = ['cookie', 'X-Forwarded-For']",
            "2: policy.a.remove_request_headers: \"X-Forwarded-For\": expected another field than those that delimit a request, are about its connection, or come from this server: connection, content-length, expect, forwarded, host, keep-alive, proxy-connection, sec-websocket-key, te, traceparent, trailer, transfer-encoding, upgrade, x-forwarded-for, x-forwarded-host, x-forwarded-port, x-forwarded-proto, x-real-ip, x-request-id",
        ),
        (
            "[policy.a]\nrequest_headers = { x_user = 'a' }",
            "2: policy.a.request_headers.x_user: write `-` instead of `_`: programs that read one as the other get neither from clients",
        ),
        (
            "[policy.a]\nrequest_headers = { x-user = \"a\\r\\nb\" }",
            "2: policy.a.request_headers.x-user: found \"a\\r\\nb\", expected printable ASCII without a space at either end",
        ),
        (
            "[policy.a]\nrequest_headers = { X-User = 'a' }\nremove_request_headers = 'x-user'",
            "3: policy.a.remove_request_headers: \"x-user\": `request_headers` sets it, which replaces what clients send",
        ),
        (
            "[policy.a]\nerror_pages = { 200 = 'no.html' }",
            "2: policy.a.error_pages.200: expected a status from 400 to 599, or \"4xx\" or \"5xx\"",
        ),
        (
            "[policy.a]\ncache = { bytes_max = '2MiB' }",
            "2: policy.a.cache.response_bytes_max: found 1MiB, expected at most a quarter of `bytes_max` (2MiB)",
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
    let text = "[log]\nfromat = 'text'\n[server]\nthreads = 999\n[[route]]\npath = '/'\nproxy = {}\n";
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
