//! `forebay/sql` in pools: handlers of Node, Bun and Python whose statements run on the server's connections.

use std::{thread, time::Instant};

use forebay_testkit::{Postgres, Server, Setup, wait_until};
use serde_json::{Value, json};

use crate::support::{Runtime, open, wait_for_note};

/// Responds at `/NAME?json` with the result of one of these functions. The file is a script as well.
const HANDLER: &str = r#"
import { sql, SqlError } from 'forebay/sql';

const said = ({ name, code, message, constraint, position }) => ({ name, code, message, constraint, position });
const { main, other } = sql;
const answers = {
  async values() {
    return main.row(
      'select $1::int as a, $2::text as b, $3::numeric as c, $4::int8 as d, $5::bool as e, $6::timestamptz as f, $7::bytea as g, $8::jsonb as h, $9::text[] as i, $10::text as j',
      [1, "a'b\u{1F600}", '0.10', 9007199254740993n, true, new Date('2020-01-02T03:04:05.678Z'), new Uint8Array([0, 255]), { x: [1, 'y'] }, ['a "b"', null], undefined],
    );
  },
  async shapes() {
    const tagged = await main`select ${"Robert'); drop table students;--"}::text as name, ${2}::int + 1 as three`;
    const none = await main.row('select 1 where false');
    const count = await main.value('select count(*) from generate_series(1, 3)');
    return { tagged, rows: tagged.count, count, none: none ?? null };
  },
  async pipeline() {
    const results = await main.pipeline([...Array.from({ length: 20 }, (_, index) => ['select $1::int as it', [index]]), 'select 99 as it']);
    return results.map(([{ it }]) => it);
  },
  async together() {
    return Promise.all(Array.from({ length: 50 }, (_, index) => main.value('select $1::int', [index])));
  },
  async errors() {
    const failing = (run) => run().then(() => 'no error', said);
    return [
      await failing(() => main.query('select 1/0')),
      await failing(() => main.query('selec 1')),
      await failing(() => main.query('select $1::int', ['x'])),
      await failing(() => main.pipeline(['select 1', 'select 1/0', 'select 2'])),
      await failing(() => main.query('begin')),
      await main.value('select 5'),
      (await main.query('select 1/0').catch((error) => error)) instanceof SqlError,
    ];
  },
};
export default (request) => answers[request.path.slice(1)]();
"#;

/// A pool `api` of such a handler at every path, whose handlers may reach `main`.
fn pool(runtime: Runtime, source: &str, keys: &str) -> Setup {
    let url = Postgres::shared().url();
    let keys = format!(
        "sql = [\"main\"]\n{keys}\n[sql.main]\nurl = \"{url}\"\nacquire_timeout = \"30s\"\n[sql.other]\nurl = \"{url}\"\n"
    );
    runtime.pool(source, &keys)
}

/// Number of statements with this text that run in the database.
pub(crate) fn running(mark: &str) -> i64 {
    let query = "select count(*) from pg_stat_activity where state = 'active' and query like $1 and pid <> pg_backend_pid()";
    let row = Postgres::shared()
        .admin()
        .query_one(query, &[&format!("%{mark}%")]);
    row.expect("the database answers").get(0)
}

pub(crate) fn get(server: &Server, path: &str) -> (u16, Value) {
    let answer = server.get(path);
    (answer.status, answer.json())
}

#[test]
fn a_handler_gives_the_same_bytes_in_a_script_and_in_a_pool() {
    let paths = ["/values", "/shapes", "/pipeline", "/together", "/errors"];
    let url = Postgres::shared().url();
    let script = Setup::new(&format!(
        "[sql.main]\nurl = \"{url}\"\nacquire_timeout = \"30s\"\n[script.s]\nhandler = \"s.mjs\"\nallow = {{ sql = [\"main\"] }}\n\
         [[route]]\npath = \"/*\"\nscript = \"s\"\n"
    ))
    .file("s.mjs", HANDLER)
    .start();
    let expected: Vec<_> = paths.iter().map(|path| script.get(path)).collect();
    assert_eq!(expected[0].json()["d"], "9007199254740993");
    assert_eq!(expected[4].json()[0]["code"], "22012");
    for runtime in Runtime::BOTH {
        let server = pool(runtime, HANDLER, "concurrency = 4").start();
        for (path, expected) in paths.iter().zip(&expected) {
            let answer = server.get(path);
            assert_eq!(
                (answer.status, answer.text()),
                (expected.status, expected.text()),
                "{runtime:?} {path}"
            );
        }
    }
}

#[test]
fn transactions_and_cursors_are_a_requests_own() {
    let source = r"
import { sql } from 'forebay/sql';
const { main } = sql;
const held = {};
export default async (request) => {
  const table = request.query.get('table');
  const count = () => main.value(`select count(*) from ${table}`);
  switch (request.path) {
    case '/make':
      await main.tx(async (t) => {
        await t.query(`create table ${table} (it int)`);
        await t`select 1`;
      });
      return count();
    case '/undone':
      await main.tx(async (t) => {
        await t.query(`insert into ${table} values (1)`);
        throw new Error('undone');
      }).catch(() => {});
      return count();
    case '/left': {
      // Its request is over before it is committed.
      const begun = new Promise((go) => (held.begun = go));
      main.tx(async (t) => {
        await t.query(`insert into ${table} values (2)`);
        held.begun();
        await new Promise(() => {});
      });
      await begun;
      return 'left';
    }
    case '/cursor': {
      let sum = 0;
      for await (const { it } of main.cursor('select it from generate_series(1, 10000) as it')) {
        sum += it;
        if (it === 5000) break;
      }
      return { sum };
    }
  }
  return count();
};
";
    for runtime in Runtime::BOTH {
        let table = format!("tx_{runtime:?}").to_lowercase();
        let mut admin = Postgres::shared().admin();
        admin
            .batch_execute(&format!("drop table if exists {table}"))
            .unwrap();
        let server = pool(runtime, source, "workers = { min = 1, max = 1 }\nconcurrency = 4").start();
        for path in ["/make", "/undone"] {
            assert_eq!(
                get(&server, &format!("{path}?table={table}")),
                (200, json!(0)),
                "{path}"
            );
        }
        assert_eq!(server.get(&format!("/left?table={table}")).text(), "left");
        let open =
            "select count(*) from pg_stat_activity where state like 'idle in transaction%' and query like $1";
        let mut open = || -> i64 {
            let row = admin.query_one(open, &[&format!("insert into {table} %")]);
            row.unwrap().get(0)
        };
        wait_until("the transaction to be rolled back", || open() == 0);
        assert_eq!(get(&server, &format!("/count?table={table}")), (200, json!(0)));
        assert_eq!(
            get(&server, "/cursor"),
            (200, json!({"sum": 12_502_500})),
            "{runtime:?}"
        );
    }
}

#[test]
fn a_handler_that_blocks_stands_still_until_its_rows_are_there() {
    let source = r"
import { sql } from 'forebay/sql';
const { main } = sql;
export default (request) => {
  switch (request.path) {
    case '/one':
      return main.rowSync('select $1::int as a, $2::text as b', [7, 'x\u{1F600}']);
    case '/loop': {
      let sum = 0;
      for (let index = 0; index < 100; index++) sum += main.valueSync('select $1::int', [index]);
      return { sum };
    }
    case '/pipeline':
      return main.pipelineSync(['select 1 as it', ['select $1::int as it', [2]]]).flat().map(({ it }) => it);
    case '/large':
      return { length: main.valueSync(`select repeat('\u00e9', 3000000)`).length };
    case '/error':
      try {
        return main.querySync('select 1/0');
      } catch ({ name, code }) {
        return { name, code };
      }
  }
};
";
    for runtime in Runtime::BOTH {
        let server = pool(runtime, source, "").start();
        for (path, answer) in [
            ("/one", json!({"a": 7, "b": "x😀"})),
            ("/loop", json!({"sum": 4950})),
            ("/pipeline", json!([1, 2])),
            ("/large", json!({"length": 3_000_000})),
            ("/error", json!({"name": "SqlError", "code": "22012"})),
            ("/one", json!({"a": 7, "b": "x😀"})),
        ] {
            assert_eq!(get(&server, path), (200, answer), "{runtime:?} {path}");
        }
    }
}

/// Sleeps in the database, by the path: with or without waiting for it, forever.
const SLEEPER: &str = r#"
import { sql } from 'forebay/sql';
import { existsSync, writeFileSync } from 'node:fs';
const { main } = sql;
const said = ({ name, code }) => ({ name, code });
const opened = async (gate) => {
  while (!existsSync(gate)) await new Promise((go) => setTimeout(go, 5));
};
export default async (request) => {
  const mark = request.query.get('mark');
  const sleep = `select pg_sleep(600) as "${mark}"`;
  switch (request.path) {
    case '/waits':
      return main.query(sleep).catch(said);
    case '/stands':
      return main.querySync(sleep);
    case '/leaves':
      main.query(sleep);
      await opened(`${mark} gate`);
      return 'left';
    case '/notes':
      await main.query(sleep).catch((error) => writeFileSync(mark, `${error.code}\n`));
      return 'nobody reads this';
    case '/exits':
      main.query(sleep);
      await opened(`${mark} gate`);
      process.exit(1);
  }
  return process.pid;
};
"#;

#[test]
fn what_nobody_waits_for_any_more_ends_in_the_database() {
    for runtime in Runtime::BOTH {
        let server = pool(
            runtime,
            SLEEPER,
            "workers = { min = 1, max = 1 }\nconcurrency = 4",
        )
        .start();
        let mark = |path: &str| format!("{runtime:?} {path}").replace(['/', ' '], "_");
        // The handler responds without waiting for its statement, or its process ends.
        for (path, status) in [("leaves", 200), ("exits", 502)] {
            let pid = server.get("/pid").text().to_owned();
            let mark = mark(path);
            thread::scope(|scope| {
                let client = scope.spawn(|| server.get(&format!("/{path}?mark={mark}")).status);
                wait_until("the statement to run", || running(&mark) == 1);
                open(&server, &format!("{mark} gate"));
                assert_eq!(client.join().unwrap(), status);
            });
            wait_until("the statement to end", || running(&mark) == 0);
            assert_eq!(server.get("/pid").text() == pid, status == 200);
        }
        // The client disconnects.
        let mut client = server.connect();
        client.send(format!("GET /notes?mark={} HTTP/1.1\r\nhost: a\r\n\r\n", mark("notes")).as_bytes());
        wait_until("the statement to run", || running(&mark("notes")) == 1);
        drop(client);
        wait_until("the statement to end", || running(&mark("notes")) == 0);
        wait_until("the handler to hear of it", || {
            server.folder().read(&mark("notes")).as_deref() == Some("over\n")
        });
    }
}

#[test]
fn a_deadline_ends_a_call_and_its_worker_goes_on() {
    for runtime in Runtime::BOTH {
        let url = Postgres::shared().url();
        let keys = format!(
            "workers = {{ min = 1, max = 1 }}\nrun_timeout = \"1s\"\nsql = [\"main\"]\n[sql.main]\nurl = \"{url}\"\nacquire_timeout = \"30s\"\n"
        );
        let server = runtime.pool(SLEEPER, &keys).start();
        wait_until("the pool to answer", || server.get("/pid").status == 200);
        let pid = server.get("/pid").text().to_owned();
        for path in ["waits", "stands"] {
            let mark = format!("deadline_{runtime:?}_{path}");
            assert_eq!(server.get(&format!("/{path}?mark={mark}")).status, 504);
            wait_until("the statement to end", || running(&mark) == 0);
            assert_eq!(server.get("/pid").text(), pid, "{runtime:?} {path}");
        }
    }
}

#[test]
fn a_worker_that_is_killed_leaves_nothing_in_the_database() {
    for runtime in Runtime::BOTH {
        let server = pool(runtime, SLEEPER, "workers = { min = 1, max = 1 }").start();
        for path in ["waits", "stands"] {
            let mark = format!("killed_{runtime:?}_{path}");
            thread::scope(|scope| {
                let client = scope.spawn(|| server.get(&format!("/{path}?mark={mark}")).status);
                wait_until("the statement to run", || running(&mark) == 1);
                server.wait_for_workers(1)[0].kill();
                assert_eq!(client.join().unwrap(), 502, "{runtime:?} {path}");
            });
            wait_until("the statement to end", || running(&mark) == 0);
        }
    }
}

#[test]
fn many_clients_get_their_own_answers_and_nobody_elses() {
    const CLIENTS: usize = 512;
    let source = r"
import { sql } from 'forebay/sql';
const { main } = sql;
let turn = 0;
export default async (request) => {
  const marker = request.query.get('it');
  if (turn++ % 16 === 0) return { it: main.valueSync('select $1::text', [marker]) };
  const [[first], [second]] = await main.pipeline([['select $1::text as it', [marker]], ['select $1::text as it from pg_sleep(0.001)', [marker]]]);
  return first.it === second.it ? { it: await main.value('select $1::text', [second.it]) } : { first, second };
};
";
    for runtime in Runtime::BOTH {
        let server = pool(
            runtime,
            source,
            "workers = { min = 2, max = 2 }\nconcurrency = 64\nqueue_max = 1000",
        )
        .start();
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let server = &server;
                scope.spawn(move || {
                    let mut connection = server.connect();
                    for turn in 0..4 {
                        let marker = format!("{client}-{turn}");
                        let answer = connection.get(&format!("/?it={marker}"));
                        assert_eq!(
                            (answer.status, answer.json()),
                            (200, json!({ "it": marker })),
                            "{runtime:?}"
                        );
                    }
                });
            }
        });
    }
}

#[test]
fn a_large_result_comes_whole_while_others_are_answered() {
    let source = r#"
import { sql } from 'forebay/sql';
const { main } = sql;
export default async (request) => {
  if (request.path === '/small') return { it: await main.value('select 1') };
  const rows = await main.query("select n, repeat('\u{1F600}', 1000) as text from generate_series(1, 4000) as n");
  return { rows: rows.length, length: rows.reduce((sum, { text }) => sum + text.length, 0), last: rows.at(-1).n };
};
"#;
    for runtime in Runtime::BOTH {
        let server = pool(runtime, source, "workers = { min = 1, max = 1 }\nconcurrency = 4").start();
        thread::scope(|scope| {
            let large = scope.spawn(|| get(&server, "/large"));
            for _ in 0..20 {
                assert_eq!(get(&server, "/small"), (200, json!({"it": 1})));
            }
            let whole = json!({"rows": 4000, "length": 8_000_000, "last": 4000});
            assert_eq!(large.join().unwrap(), (200, whole), "{runtime:?}");
        });
    }
}

#[test]
fn a_start_module_a_timer_and_a_stop_hook_reach_the_database() {
    let source = r#"
import { sql } from 'forebay/sql';
import { appendFileSync } from 'node:fs';
const first = await sql.main.value('select 41 + 1');
const second = sql.main.valueSync('select 43');
let third = null;
setTimeout(async () => { third = await sql.main.value('select 44'); }, 1);
export const onStop = async () => { appendFileSync('ran', `${await sql.main.value("select 'stopped'")}\n`); };
export default () => [first, second, third];
"#;
    for runtime in Runtime::BOTH {
        let mut server = pool(runtime, source, "workers = { min = 1, max = 1 }").start();
        wait_until("the timer to have run", || {
            get(&server, "/") == (200, json!([42, 43, 44]))
        });
        server.terminate();
        assert!(server.wait().success());
        wait_for_note(&server, "stopped");
    }
}

#[test]
fn a_pool_reaches_only_what_it_may() {
    let source = r"
import { sql } from 'forebay/sql';
const said = ({ name, code, message }) => ({ name, code, message });
export default async () => {
  let other;
  try { other = sql.other.querySync('select 1'); } catch (error) { other = said(error); }
  return [await sql.other.query('select 1').catch(said), other];
};
";
    for runtime in Runtime::BOTH {
        let allowed = pool(runtime, source, "").start();
        let told = json!({"name": "SqlError", "code": "not_allowed", "message": "pool `api` may not reach database `other`: its `sql` names main"});
        assert_eq!(get(&allowed, "/"), (200, json!([told, told])), "{runtime:?}");
        let none = runtime.pool(source, "").start();
        let told =
            json!({"name": "TypeError", "message": "pool `api` reaches no database: its `sql` names none"});
        assert_eq!(get(&none, "/"), (200, json!([told, told])), "{runtime:?}");
    }
}

#[test]
fn a_database_that_is_gone_is_an_error_at_once_and_used_again_when_it_is_back() {
    let source = r"
import { sql } from 'forebay/sql';
export default async () => ({ it: await sql.main.value('select 1').catch(({ code }) => code) });
";
    let mut postgres = Postgres::start();
    let keys = format!(
        "sql = [\"main\"]\n[sql.main]\nurl = \"{}\"\nacquire_timeout = \"30s\"\n",
        postgres.url()
    );
    let server = Runtime::Node.pool(source, &keys).start();
    assert_eq!(get(&server, "/"), (200, json!({"it": 1})));
    postgres.stop();
    let begun = Instant::now();
    wait_until("an error", || get(&server, "/").1 == json!({"it": "unreachable"}));
    assert!(begun.elapsed().as_secs() < 5);
    postgres.start_again();
    wait_until("the database to be used again", || {
        get(&server, "/") == (200, json!({"it": 1}))
    });
}

#[test]
fn a_handler_that_blocks_has_transactions() {
    let source = r"
import { sql, SqlError } from 'forebay/sql';
const { main } = sql;
const failing = (run) => { try { return run(); } catch ({ name, code, message }) { return [name, code ?? message]; } };
export default () => [
  main.txSync((t) => {
    t.querySync('create temporary table gone (it int) on commit drop');
    failing(() => t.txSync((u) => { u.querySync('insert into gone values (1)'); throw new Error('undone'); }));
    t.txSync((u) => u.querySync('insert into gone values (2)'));
    return t.pipelineSync(['select it from gone', 'select 5 as it']).flat().map(({ it }) => it);
  }, { isolation: 'serializable' }),
  failing(() => main.txSync((t) => t.querySync('select 1/0'))),
  failing(() => main.txSync(async () => 1)),
  failing(() => main.querySync('table gone')),
  failing(() => main.txSync(() => 1, { retries: Infinity })),
  failing(() => main.txSync(() => 1, { isolation: 'none' })),
  failing(() => main.txSync('select 1')),
];
";
    for runtime in Runtime::BOTH {
        let server = pool(runtime, source, "").start();
        let told = json!([
            [2, 5],
            ["SqlError", "22012"],
            [
                "TypeError",
                "the function of txSync() returned a promise: use tx() for asynchronous functions"
            ],
            ["SqlError", "42P01"],
            [
                "RangeError",
                "the retries of a transaction are 0 to 100, not Infinity"
            ],
            [
                "RangeError",
                "the isolation of a transaction is one of read committed, repeatable read, serializable, not none"
            ],
            ["TypeError", "a transaction takes a function, not a string"]
        ]);
        assert_eq!(get(&server, "/"), (200, told), "{runtime:?}");
    }
}

#[test]
fn what_a_channel_hears_becomes_server_sent_events_of_a_pool() {
    let source = r"
import { sql } from 'forebay/sql';
export default (request) => sql.main.listen(request.query.get('channel')).events();
";
    for runtime in Runtime::BOTH {
        let server = pool(runtime, source, "run_timeout = \"2s\"\nconcurrency = 10").start();
        let channel = format!("pool_{runtime:?}").to_lowercase();
        let mut client = server.connect();
        client.send(format!("GET /?channel={channel} HTTP/1.1\r\nhost: a\r\n\r\n"));
        assert_eq!(client.head().unwrap().status, 200);
        let mut admin = Postgres::shared().admin();
        let mut heard = String::new();
        for turn in 0..3 {
            admin
                .execute("select pg_notify($1, $2)", &[&channel, &format!("turn {turn}")])
                .unwrap();
            wait_until("the event", || {
                heard.push_str(&String::from_utf8_lossy(&client.some_bytes()));
                heard.contains(&format!("data: turn {turn}\n"))
            });
        }
        drop(client);
        let listening = "select count(*) from pg_stat_activity where query ilike $1";
        wait_until("nobody to listen", || {
            let row = admin.query_one(listening, &[&format!("listen%{channel}%")]);
            row.unwrap().get::<_, i64>(0) == 0
        });
    }
}

#[test]
fn a_direct_database_is_reached_by_a_client_of_the_handlers_own() {
    let source = r"
import { sql } from 'forebay/sql';
const db = new Bun.SQL(sql.own.url);
export default async () => {
  const [{ it }] = await db`select ${6}::int + 1 as it`;
  const refused = await sql.own.query('select 1').catch(({ code, message }) => [code, message]);
  return [it, refused, await sql.main.value('select 8'), sql.main.url ?? null];
};
";
    let url = Postgres::shared().url();
    let keys = format!(
        "sql = [\"own\", \"main\"]\n[sql.main]\nurl = \"{url}\"\nacquire_timeout = \"30s\"\n[sql.own]\nurl = \"{url}\"\ndirect = true\n"
    );
    let server = Runtime::Bun.pool(source, &keys).start();
    let refused = "database `own` has `direct = true`: handlers in pools connect to it with a client of their own, to sql.own.url";
    assert_eq!(get(&server, "/"), (200, json!([7, ["direct", refused], 8, null])));
}
