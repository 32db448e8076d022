//! Access of rules to systems outside their own engine: the store, databases and other systems, each denied until it is configured.

use std::io::{BufRead as _, BufReader};

use forebay_testkit::{Folder, Postgres, Server, Setup, wait_until};
use serde_json::{Value, json};

use crate::{
    certificates::{for_localhost, issuer},
    sql_handlers::{make, number},
    workflows::{logged_failure, rules, run},
};

/// The values that a workflow returns.
pub(crate) fn values(server: &Server, name: &str, args: &Value) -> Value {
    let (status, answer) = run(server, &format!("/workflow/{name}"), args);
    assert_eq!(status, 200, "{answer}");
    answer["valueMap"].clone()
}

#[test]
fn rules_read_and_write_the_store_as_far_as_they_are_allowed() {
    let server = rules(
        "allow = { store = [\"Order\"] }\n[store]\npath = \"data\"",
        &[
            (
                "order",
                "const { id, amount } = context.getArgs();
                const sum = store.transaction(() => {
                    store.set('Order', id, { amount });
                    return store.node('Order', 'sum').increment(amount);
                });
                return new ScriptResult(true, { sum: Number(sum) });",
            ),
            (
                "look",
                "return new ScriptResult(true, store.get('Order', context.getArgs().id));",
            ),
            (
                "secret",
                "store.set('Secret', 1, 2); return new ScriptResult(true);",
            ),
        ],
    )
    .start();
    let order = |id: u32| values(&server, "order", &json!({"id": id, "amount": 7}));
    assert_eq!(order(1), json!({"sum": 7}));
    assert_eq!(order(2), json!({"sum": 14}));
    assert_eq!(values(&server, "look", &json!({"id": 2})), json!({"amount": 7}));
    let told = logged_failure(&server, "/workflow/secret", &json!({}));
    assert!(told.contains("may not reach global `Secret`"), "{told}");
}

#[test]
fn rules_ask_databases_and_what_a_run_has_open_ends_with_it() {
    let postgres = Postgres::start();
    make(
        &postgres,
        "create table rule_marks (id int primary key); grant all on rule_marks to public",
    );
    let keys = format!(
        "timeout = \"1s\"\nallow = {{ sql = [\"main\"] }}\n[sql.main]\nurl = \"{}\"\nacquire_timeout = \"30s\"",
        postgres.url()
    );
    let server = rules(
        &keys,
        &[
            (
                "mark",
                "return (async () => {
                    const { id } = context.getArgs();
                    const count = await sql.main.tx(async (t) => {
                        await t`insert into rule_marks values (${id})`;
                        return t.value('select count(*)::int from rule_marks');
                    });
                    const ids = [];
                    for await (const row of sql.main.cursor('select id from rule_marks order by id')) ids.push(row.id);
                    return new ScriptResult(true, { count, ids });
                })();",
            ),
            (
                "hang",
                "return sql.main.tx(async (t) => {
                    await t`insert into rule_marks values (99)`;
                    await new Promise(() => {});
                });",
            ),
            ("other", "return sql.other.value('select 1').then((one) => new ScriptResult(true, { one }));"),
        ],
    )
    .start();
    assert_eq!(
        values(&server, "mark", &json!({"id": 1})),
        json!({"count": 1, "ids": [1]})
    );
    let (status, _) = run(&server, "/workflow/hang", &json!({}));
    assert_eq!(status, 504);
    assert_eq!(
        values(&server, "mark", &json!({"id": 2})),
        json!({"count": 2, "ids": [1, 2]})
    );
    wait_until("the transaction of the run is gone", || {
        number(
            &postgres,
            "select count(*) from pg_stat_activity where state like 'idle in transaction%'",
        ) == 0
    });
    let told = logged_failure(&server, "/workflow/other", &json!({}));
    assert!(told.contains("database `other` may not be reached"), "{told}");
}

#[test]
fn databases_are_asked_under_the_names_of_jdbc() {
    let postgres = Postgres::start();
    make(
        &postgres,
        "create table jdbc_marks (id int primary key, note text); grant all on jdbc_marks to public",
    );
    let keys = format!(
        "allow = {{ sql = [\"main\"] }}\n[sql.main]\nurl = \"{}\"\nacquire_timeout = \"30s\"",
        postgres.url()
    );
    let server = rules(
        &keys,
        &[(
            "jdbc",
            r#"return (async () => {
                const main = context.getDataService().obtainJdbcDSFacade('main');
                const made = await main.insert("insert into jdbc_marks values (?, ?) returning id, note", [1, 'a?b']);
                const none = await main.insert("insert into jdbc_marks values (?, '?''?')", 2);
                const batch = await main.insertBatch('insert into jdbc_marks values (?, ?)', [[3, 'c'], [4, null]]);
                const again = await main.batch('insert into jdbc_marks values (?, ?)', [[5, 'e'], [1, 'taken']]).catch((error) => error.code);
                const changed = await main.update('update jdbc_marks set note = $1 where id > $2', 'x', 2);
                const list = await main.findList(`select id, note, e'\\'?' as text, $q$?$q$ as body, '{"a":1}'::jsonb ?? 'a' as has -- ?
                    /* ? */ from jdbc_marks where id < ? order by id`, [5]);
                return new ScriptResult(true, { made, none, batch, again, changed, ids: list.map(({ id }) => id), first: list[0], second: list[1].note });
            })();"#,
        )],
    )
    .start();
    assert_eq!(
        values(&server, "jdbc", &json!({})),
        json!({
            "made": {"id": 1, "note": "a?b"}, "none": null, "batch": [1, 1], "again": "23505", "changed": 2, "ids": [1, 2, 3, 4],
            "first": {"id": 1, "note": "a?b", "text": "'?", "body": "?", "has": true}, "second": "?'?",
        })
    );
}

#[test]
fn http_is_asked_under_the_names_of_rengine() {
    let other = Setup::new(
        "[script.echo]\nhandler = \"echo.mjs\"\n[[route]]\npath = \"/*\"\nscript = \"echo\"\n",
    )
    .file(
        "echo.mjs",
        "export default async (request) => {
            if (request.path === '/long') return 'x'.repeat(3 << 20);
            if (request.path === '/slow') await new Promise((resolve) => setTimeout(resolve, 2000));
            if (request.path === '/no') return new Response('not here', { status: 404, headers: { 'x-why': 'no' } });
            const type = request.headers.get('content-type');
            const text = await request.text();
            const body = type?.startsWith('multipart/') ? [text.includes('name=\"part\"; filename=\"up.txt\"'), text.includes('\\r\\nfour\\r\\n')] : text;
            return { method: request.method, type: type?.split(';')[0] ?? null, own: request.headers.get('x-own'), body };
        };",
    )
    .start();
    let keys = format!(
        "allow = {{ fetch = [\"{}\"], files = [\"files\"] }}",
        other.address()
    );
    let server = rules(
        &keys,
        &[(
            "http",
            "return (async () => {
                const { base } = context.getArgs();
                const http = context.getDataService().getDefaultHttpClient();
                const failure = (promise) => promise.then(() => 'none', (error) => `${error.name}: ${error.message}`);
                const HttpClient = http.constructor;
                const exchanged = await http.exchange(`${base}/no`, 'get', null, { 'x-own': 1 });
                Files.writeFromString('up.txt', 'four');
                return new ScriptResult(true, {
                    text: JSON.parse(await http.getForText(`${base}/`)),
                    json: await http.postForJson(`${base}/`, { a: 1 }),
                    own: await http.postForJson(`${base}/`, { 'x-own': 'mine' }, 'plain'),
                    exchanged: [exchanged.getStatusCodeValue(), exchanged.getHeaders()['x-why'], exchanged.getBody()],
                    upload: JSON.parse(await http.upload(`${base}/`, 'part', 'up.txt')),
                    download: [await http.download(`${base}/`, 'down.json'), JSON.parse(Files.readToString('down.json')).method],
                    refused: await failure(http.getForText(`${base}/no`)),
                    long: await failure(http.getForText(`${base}/long`)),
                    slow: await failure(new HttpClient(100, 100).getForText(`${base}/slow`)),
                    bounds: await failure((async () => new HttpClient(1))()),
                });
            })();",
        )],
    )
    .file("files/.keep", "")
    .start();
    let base = format!("http://{}", other.address());
    let values = values(&server, "http", &json!({ "base": base }));
    assert_eq!(
        values,
        json!({
            "text": {"method": "GET", "type": null, "own": null, "body": ""},
            "json": {"method": "POST", "type": "application/json", "own": null, "body": "{\"a\":1}"},
            "own": {"method": "POST", "type": "text/plain", "own": "mine", "body": "plain"},
            "exchanged": [404, "no", "not here"],
            "upload": {"method": "POST", "type": "multipart/form-data", "own": null, "body": [true, true]},
            "download": ["down.json", "GET"],
            "refused": format!("Error: {base}/no has answered 404: not here"),
            "long": format!("RangeError: the answer of {base}/long is longer than 2097152 bytes (maxResponseSize)"),
            "slow": format!("TimeoutError: {base}/slow has not answered in full after 200 ms"),
            "bounds": "RangeError: `connectTimeout` is a whole number from 100 to 300000, and not 1",
        })
    );
}

/// A rule that calls clients as Rengine's examples do: without `await`, with each error caught and thrown again.
const SYNCHRONOUS: &str = "
    const { base, denied } = context.getArgs();
    try {
        if (denied) context.getDataService().getDefaultS3Client().getObjectAsString('test1/foobar.txt');
        const json = new ScriptHttpClient().postForJson(`${base}/json`, { a: 1 });
        const texts = ['a', 'b'].map((name) => context.getDataService().getDefaultHttpClient().getForText(`${base}/${name}`));
        const exchanged = context.getDataService().getDefaultHttpClient().exchange(`${base}/no`, 'GET', null, null);
        return new ScriptResult(json.path === '/json')
            .addValue('json', json).addValue('texts', texts).addValue('status', exchanged.getStatusCodeValue());
    } catch (e) {
        console.error('client >>>', e);
        throw e;
    }";

#[test]
fn synchronous_rules_of_rengine_decide_on_values_or_fail() {
    let other = Setup::new(
        "[script.echo]\nhandler = \"echo.mjs\"\n[[route]]\npath = \"/*\"\nscript = \"echo\"\n",
    )
    .file(
        "echo.mjs",
        "export default async (request) => request.path === '/no' ? new Response('', { status: 404 }) : { path: request.path, body: await request.text() };",
    )
    .start();
    let base = format!("http://{}", other.address());
    let decide = |compat: &str, denied: bool| {
        let keys = format!(
            "compat = \"{compat}\"\nallow = {{ fetch = [\"{}\"] }}",
            other.address()
        );
        let server = rules(&keys, &[("decide", SYNCHRONOUS)]).start();
        run(
            &server,
            "/workflow/decide",
            &json!({"base": base, "denied": denied}),
        )
    };
    let (status, answer) = decide("rengine", false);
    assert_eq!(
        (status, answer),
        (
            200,
            json!({"state": true, "valueMap": {
                "json": {"path": "/json", "body": "{\"a\":1}"},
                "texts": ["{\"path\":\"/a\",\"body\":\"\"}", "{\"path\":\"/b\",\"body\":\"\"}"],
                "status": 404,
            }})
        )
    );
    let (status, answer) = decide("rengine", true);
    assert_eq!(status, 500, "{answer}");
    let (status, answer) = decide("none", false);
    assert_eq!(status, 500, "{answer}");
}

#[test]
fn a_rule_that_forgets_to_await_fails_and_names_the_call_and_its_line() {
    let server = rules(
        "allow = { fetch = [\"127.0.0.1:1\"] }",
        &[(
            "forgets",
            "const http = context.getDataService().getDefaultHttpClient();\nconst found = http.getForJson('http://127.0.0.1:1/');\nreturn new ScriptResult(found.length > 0);",
        )],
    )
    .start();
    let (status, answer) = run(&server, "/workflow/forgets", &json!({}));
    assert_eq!(status, 500);
    let expected = "`HttpClient.getForJson` was not awaited";
    assert!(answer.to_string().contains(expected), "{answer}");
    let log = server.wait_for_log(&[expected, "forgets"]);
    assert!(log.contains("forgets.js:3"), "{log}");
}

#[test]
fn statements_and_requests_that_a_rule_forgets_to_await_fail_it_under_compat_too() {
    let postgres = Postgres::start();
    for compat in ["none", "rengine"] {
        let keys = format!(
            "compat = \"{compat}\"\nallow = {{ sql = [\"main\"], fetch = [\"127.0.0.1:1\"] }}\n[sql.main]\nurl = \"{}\"",
            postgres.url()
        );
        let calls = [
            (
                "query",
                "sql.main.query('select pg_sleep(0.2)');",
                "`sql.main.query`",
            ),
            ("tag", "sql.main`select pg_sleep(0.2)`;", "`sql.main`"),
            ("tx", "sql.main.tx(() => 1);", "`sql.main.tx`"),
            ("fetch", "fetch('http://127.0.0.1:1/');", "`fetch`"),
            ("body", "new Response('{}').json();", "`Response.json`"),
        ];
        let bodies =
            calls.map(|(name, call, _)| (name, format!("1;\n{call}\nreturn new ScriptResult(true);")));
        let bodies: Vec<_> = bodies.iter().map(|(name, body)| (*name, &**body)).collect();
        let server = rules(&keys, &bodies).start();
        for (name, _, call) in calls {
            let told = logged_failure(&server, &format!("/workflow/{name}"), &json!({}));
            assert!(
                told.contains(&format!("{call} was not awaited")),
                "{compat}: {told}"
            );
            assert!(told.contains(&format!("{name}.js:3")), "{compat}: {told}");
        }
    }
}

/// A Redis server of one test.
struct Redis {
    process: Running,
    port: u16,
}

impl Redis {
    const PASSWORD: &str = "not for the log";

    fn start() -> Self {
        Self::listening("--port", &[])
    }

    /// A server that listens as `port_argument` says, with more arguments.
    fn listening(port_argument: &str, more: &[&str]) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("there is a free port").port();
        let process =
            std::process::Command::new(std::env::var("FOREBAY_REDIS").unwrap_or("redis-server".into()))
                .args(more)
                .args([port_argument, &port.to_string(), "--bind", "127.0.0.1"])
                .args([
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                    "--requirepass",
                    Self::PASSWORD,
                ])
                .stdout(std::process::Stdio::null())
                .spawn()
                .expect("redis-server is there: `make redis` installs it, and FOREBAY_REDIS names another");
        let redis = Self {
            process: Running(process),
            port,
        };
        wait_until("Redis listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        redis
    }

    fn section(&self) -> String {
        format!(
            "[redis.cache]\nurl = \"redis://:${{PASSWORD}}@127.0.0.1:{}/3\"\n",
            self.port
        )
    }

    /// A server whose rules may use this Redis.
    fn server(&self, keys: &str, bodies: &[(&str, &str)]) -> Server {
        let keys = format!("{keys}\nallow = {{ redis = [\"cache\"] }}\n{}", self.section());
        let bodies: Vec<(&str, String)> = bodies
            .iter()
            .map(|(name, body)| {
                let body = format!("const data = context.getDataService(); const redis = data.obtainRedisDSFacade('cache'); return (async () => {{ {body} }})();");
                (*name, body)
            })
            .collect();
        let bodies: Vec<(&str, &str)> = bodies.iter().map(|(name, body)| (*name, body.as_str())).collect();
        rules(&keys, &bodies)
            .env("PASSWORD", "not%20for%20the%20log")
            .start()
    }
}

/// A process that is killed on drop.
pub(crate) struct Running(pub(crate) std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn redis_keeps_values_as_json_under_the_names_of_rengine() {
    let redis = Redis::start();
    let server = redis.server(
        "",
        &[(
            "all",
            "const failure = (promise) => promise.then(() => 'none', (error) => `${error.code ?? error.name}: ${error.message}`);
            return new ScriptResult(true, {
                nothing: await redis.get('a'),
                set: [await redis.set('a', { b: [1, 'ü'] }), await redis.get('a'), await redis.set('a', null), await redis.get('a')],
                ex: [await redis.setex('e', 1, 100), await redis.expire('e', 50), await redis.expire('none', 50)],
                nx: [await redis.setnx('n', 1), await redis.setnx('n', 2), await redis.setnxex('m', 1, 9), await redis.setnxex('m', 1, 9)],
                ttl: [await redis.eval(\"return redis.call('ttl', KEYS[1])\", 1, 'm'), await redis.eval(\"return {redis.call('ttl', 'e') > 0, ARGV[1], false}\", 0, 'x')],
                hash: [await redis.hset('h', 'f', 1), await redis.hset('h', 'f', 2), await redis.hsetnx('h', 'f', 3), await redis.hset('h', '__proto__', { x: 1 }), await redis.hget('h', 'f'), await redis.hget('h', 'g')],
                hashes: Object.entries(await redis.hgetAll('h')),
                del: [await redis.del('a'), await redis.del('a')],
                lua: await failure(redis.eval('return nonsense(', 0)),
                kind: await failure(redis.get('h')),
                json: await failure(redis.eval(\"return redis.call('set', 'j', 'x')\", 0).then(() => redis.get('j'))),
                other: await failure(data.obtainRedisDSFacade('other').get('a')),
            });",
        )],
    );
    let values = values(&server, "all", &json!({}));
    for (name, expected) in [
        ("nothing", json!(null)),
        ("set", json!(["OK", {"b": [1, "ü"]}, null, {"b": [1, "ü"]}])),
        ("ex", json!(["OK", 1, 0])),
        ("nx", json!([1, 0, 1, 0])),
        ("ttl", json!([9, [1, "x", null]])),
        ("hash", json!([1, 0, 0, 1, 2, null])),
        ("hashes", json!([["f", 2], ["__proto__", {"x": 1}]])),
        ("del", json!([1, 0])),
    ] {
        assert_eq!(values[name], expected, "{name}");
    }
    for (name, told) in [
        (
            "lua",
            "refused: Redis `cache` refused: ERR Error compiling script",
        ),
        ("kind", "refused: Redis `cache` refused: WRONGTYPE"),
        ("json", "SyntaxError: the value of `j` is not JSON"),
        (
            "other",
            "not_allowed: Redis `other` may not be reached: `allow` of `[workflow]` names cache in `redis`",
        ),
    ] {
        let said = values[name].as_str().unwrap_or_default();
        assert!(said.starts_with(told), "{name}: {said}");
    }
    let printed = server.command(&["check", "--print", "forebay.toml"]);
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned() + &server.log();
    assert!(
        !printed.contains(Redis::PASSWORD) && !printed.contains("not%20for"),
        "{printed}"
    );
}

#[test]
fn locks_are_one_runs_at_a_time_and_end_with_it() {
    let redis = Redis::start();
    let server = redis.server(
        "timeout = \"1s\"",
        &[
            (
                "count",
                "const lock = data.getDefaultRedisLockClient().getLock('one');
                await lock.lock();
                const before = (await redis.get('count')) ?? 0;
                await new Promise((resolve) => setTimeout(resolve, 5));
                await redis.set('count', before + 1);
                return new ScriptResult(await lock.unlock(), { before });",
            ),
            (
                "keep",
                "const lock = data.getDefaultRedisLockClient().getLock('one', 60000);
                await lock.lock();
                if (context.getArgs().hang) await new Promise(() => {});
                return new ScriptResult(true, { again: await data.getDefaultRedisLockClient().getLock('one').tryLock(30) });",
            ),
            (
                "late",
                "const lock = data.getDefaultRedisLockClient().getLock('short', 20);
                await lock.lock();
                await new Promise((resolve) => setTimeout(resolve, 60));
                return new ScriptResult(true, { kept: await lock.unlock() });",
            ),
        ],
    );
    let server = &server;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    values(server, "count", &json!({}));
                }
            });
        }
    });
    assert_eq!(values(server, "count", &json!({})), json!({"before": 20}));
    // Neither run releases the lock, and the second is aborted.
    assert_eq!(values(server, "keep", &json!({})), json!({"again": false}));
    assert_eq!(run(server, "/workflow/keep", &json!({"hang": true})).0, 504);
    assert_eq!(values(server, "count", &json!({})), json!({"before": 21}));
    assert_eq!(values(server, "late", &json!({})), json!({"kept": false}));
}

#[test]
fn a_redis_that_is_slow_large_or_gone_is_an_error_and_the_next_command_goes_on() {
    let mut redis = Redis::start();
    let server = redis.server(
        "",
        &[
            (
                "get",
                "return new ScriptResult(true, { a: await redis.get('a') });",
            ),
            ("big", "await redis.eval(\"return string.rep('x', 9000000)\", 0);"),
            ("slow", "await redis.eval('while true do end', 0);"),
        ],
    );
    let failed = |name: &str, told: &str| {
        let said = logged_failure(&server, &format!("/workflow/{name}"), &json!({}));
        assert!(said.contains(told), "{name}: {said}");
    };
    assert_eq!(values(&server, "get", &json!({})), json!({"a": null}));
    failed(
        "big",
        "a reply of Redis `cache` is longer than 8388608 bytes (reply_bytes_max)",
    );
    assert_eq!(values(&server, "get", &json!({})), json!({"a": null}));
    failed("slow", "Redis `cache` has taken longer than 5s (command_timeout)");
    redis.process.0.kill().expect("it runs");
    redis.process.0.wait().expect("it has ended");
    failed("get", "Redis `cache` failed: ");
}

#[test]
fn a_redis_is_asked_over_tls_if_its_certificate_is_of_an_authority_that_is_trusted() {
    let authority = issuer("authority of Redis");
    let (certificate, key) = for_localhost(&authority, 2020..2100);
    let folder = Folder::new();
    folder.write("right.pem", authority.pem());
    folder.write("wrong.pem", issuer("another authority").pem());
    folder.write("cert.pem", certificate.pem());
    folder.write("key.pem", key.serialize_pem());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key, trusted) = (path("cert.pem"), path("key.pem"), path("right.pem"));
    let redis = Redis::listening(
        "--tls-port",
        &[
            "--port",
            "0",
            "--tls-auth-clients",
            "no",
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &trusted,
        ],
    );
    let said = |scheme: &str, host: &str, authority: &str| {
        let keys = format!(
            "allow = {{ redis = [\"cache\"] }}\n[redis.cache]\nurl = \"{scheme}://:${{PASSWORD}}@{host}:{}\"\ncommand_timeout = \"2s\"",
            redis.port
        );
        let body = "const redis = context.getDataService().obtainRedisDSFacade('cache');
            return redis.set('a', 'over TLS').then(() => redis.get('a')).catch((error) => `${error.code}: ${error.message}`).then((said) => new ScriptResult(true, { said }));";
        let server = rules(&keys, &[("get", body)])
            .env("PASSWORD", "not%20for%20the%20log")
            .env("SSL_CERT_FILE", &path(authority))
            .start();
        let said = values(&server, "get", &json!({}));
        said["said"].as_str().expect("a text").to_owned()
    };
    assert_eq!(said("rediss", "localhost", "right.pem"), "over TLS");
    for (scheme, host, authority, told) in [
        (
            "rediss",
            "localhost",
            "wrong.pem",
            "failed: Redis `cache` failed: invalid peer certificate: UnknownIssuer",
        ),
        (
            "rediss",
            "127.0.0.1",
            "right.pem",
            "failed: Redis `cache` failed: invalid peer certificate: certificate not valid for name",
        ),
        (
            "redis",
            "localhost",
            "right.pem",
            "failed: Redis `cache` failed: ",
        ),
    ] {
        let said = said(scheme, host, authority);
        assert!(said.starts_with(told), "{scheme} {host} {authority}: {said}");
    }
}

/// An S3 server with the bucket `box`. It does not check signatures, which a test of `crates/clients` compares with those of other
/// implementations.
struct S3 {
    _process: Running,
    address: String,
    _folder: Folder,
}

impl S3 {
    fn start() -> Self {
        let folder = Folder::new();
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/s3/node_modules/.bin/s3rver");
        let mut process = std::process::Command::new("node")
            .args([
                program,
                "--address",
                "127.0.0.1",
                "--port",
                "0",
                "--configure-bucket",
                "box",
            ])
            .arg("--directory")
            .arg(folder.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("node is there");
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let address =
            lines.find_map(|line| Some(line.ok()?.split_once("listening on ")?.1.trim().to_owned()));
        // Keep reading, because it continues to write there.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            _process: Running(process),
            address: address.expect("it says where it listens: `make deps` installs it"),
            _folder: folder,
        }
    }

    fn section(&self, name: &str) -> String {
        format!(
            "[s3.{name}]\nendpoint = \"http://{}\"\nbucket = \"box\"\naccess_key = \"S3RVER\"\nsecret_key = \"S3_SECRET\"\n",
            self.address
        )
    }
}

#[test]
fn objects_in_s3_are_stored_read_and_removed_with_signed_requests() {
    let s3 = S3::start();
    let keys = format!(
        "allow = {{ s3 = [\"main\"], files = [\"files\"] }}\n{}{}",
        s3.section("main"),
        s3.section("other")
    );
    let server = rules(
        &keys,
        &[(
            "s3",
            "return (async () => {
                const data = context.getDataService();
                const s3 = data.getDefaultS3Client();
                const failure = (promise) => promise.then(() => 'none', (error) => `${error.code ?? error.name}: ${error.message}`);
                Files.writeFromString('up.txt', 'four é');
                const stored = await s3.uploadObject('a b/c?d.txt', 'up.txt');
                const { etag, size, lastModified } = await s3.statObject('a b/c?d.txt');
                await s3.downloadObject('a b/c?d.txt', 'down.txt');
                return new ScriptResult(true, {
                    same: stored.etag === etag && etag.length === 32, size, isRecent: Math.abs(lastModified - Date.now() / 1000) < 600,
                    text: await s3.getObjectAsString('a b/c?d.txt'), file: Files.readToString('down.txt'),
                    removed: [await s3.removeObject('a b/c?d.txt'), await failure(s3.getObjectAsString('a b/c?d.txt'))],
                    other: await failure(data.obtainS3Client('other').getObjectAsString('x')),
                    outside: await failure(s3.getObjectAsString('../boxes/x')),
                    fetched: await failure(fetch(`http://${context.getArgs().address}/other/x`)),
                });
            })();",
        )],
    )
    .env("S3_SECRET", "S3RVER")
    .file("files/.keep", "")
    .start();
    let values = values(&server, "s3", &json!({ "address": s3.address }));
    for (name, expected) in [
        ("same", json!(true)),
        ("size", json!(7)),
        ("isRecent", json!(true)),
        ("text", json!("four é")),
        ("file", json!("four é")),
    ] {
        assert_eq!(values[name], expected, "{name}: {values}");
    }
    for (said, told) in [
        (
            &values["removed"][1],
            "Error: S3, which was asked to GET `a b/c?d.txt`, has answered 404",
        ),
        (
            &values["other"],
            "not_allowed: S3 `other` may not be reached: `allow` of `[workflow]` names main in `s3`",
        ),
        (
            &values["outside"],
            "operation: this is no operation of a client: the name of an object has 1 to 1024 bytes",
        ),
        (&values["fetched"], "TypeError: `[workflow]` may not fetch from"),
    ] {
        let said = said.as_str().unwrap_or_default();
        assert!(said.starts_with(told), "{told}: {said}");
        assert!(!said.contains("X-Amz"), "{said}");
    }
}
