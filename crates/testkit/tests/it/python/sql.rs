//! `forebay.sql`: statements of Python handlers on the server's connections.

use std::thread;

use forebay_testkit::{Postgres, Setup, wait_until};
use serde_json::json;

use crate::sql_pools::{get, running};

/// A pool of Python, of one module at every path.
fn python(source: &str, keys: &str) -> Setup {
    let url = Postgres::shared().url();
    Setup::new(&format!(
        "[sql.main]\nurl = \"{url}\"\nacquire_timeout = \"30s\"\n[sql.other]\nurl = \"{url}\"\n[pool.api]\nhandler = \"app.py\"\nsql = [\"main\"]\n{keys}\n\
         [[route]]\npath = \"/*\"\npool = \"api\"\n"
    ))
    .file("app.py", source)
}

const PYTHON: &str = r#"
import datetime, decimal, uuid
from forebay import App
from forebay.sql import SqlError, sql

app = App()
main = sql.main

@app.get("/values")
def values():
    row = main.row(
        "select $1::int as a, $2::text as b, $3::numeric as c, $4::int8 as d, $5::bool as e, $6::timestamptz as f, $7::bytea as g, $8::jsonb as h, $9::text[] as i, $10::text as j, $11::uuid as k",
        [1, "a'b😀", decimal.Decimal("0.10"), 9007199254740993, True,
         datetime.datetime(2020, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.timezone.utc), b"\x00\xff", {"x": [1, "y"]},
         ['a "b"', None], None, uuid.UUID(int=7)])
    return {**row, "g": list(row["g"])}

@app.get("/pipeline")
def pipeline():
    results = main.pipeline([*(("select $1::int as it", [n]) for n in range(20)), "select 99 as it"])
    return [row["it"] for rows in results for row in rows]

@app.get("/error")
def error():
    try:
        main.query("select 1/0")
    except SqlError as error:
        first = [error.code, str(error)]
    try:
        sql.other.query("select 1")
    except SqlError as error:
        return [*first, error.code, str(error)]

@app.get("/large")
def large():
    return len(main.value("select repeat('é', 3000000)"))

@app.get("/count")
def count():
    rows = main.query("select n from generate_series(1, 3) as n")
    return [rows.count, len(rows), main.row("select 1 where false"), main.value("select 1 where false")]

@app.get("/it/:marker")
def it(request):
    return main.value("select $1::text from pg_sleep(0.001)", [request.params["marker"]])

@app.get("/tx/:table")
def tx(request):
    table = request.params["table"]
    with main.tx(isolation="serializable") as t:
        t.query(f"create table {table} (it int)")
        t.query(f"insert into {table} values (1)")
        try:
            with t.tx() as u:
                u.query(f"insert into {table} values (2)")
                raise KeyError
        except KeyError:
            pass
        with t.tx() as u:
            u.query(f"insert into {table} values (3)")
    try:
        with main.tx() as t:
            t.query(f"insert into {table} values (4)")
            t.query("select 1/0")
    except SqlError as error:
        code = error.code
    try:
        main.query("begin")
    except SqlError as error:
        return [code, error.code, [row["it"] for row in main.query(f"table {table} order by it")]]

@app.get("/sleep/:mark")
def sleep(request):
    return main.query(f"select pg_sleep(600) as {request.params['mark']}")
"#;

const PYTHON_ASYNC: &str = r#"

@app.get("/async/it/:marker")
async def async_it(request):
    return await main.avalue("select $1::text from pg_sleep(0.001)", [request.params["marker"]])

@app.get("/async/together")
async def together():
    import asyncio
    return await asyncio.gather(*(main.avalue("select $1::int", [n]) for n in range(50)))

@app.get("/async/tx")
async def async_tx():
    async with main.atx() as t:
        await t.aquery("create temporary table gone (it int) on commit drop")
        try:
            async with t.atx() as u:
                await u.aquery("insert into gone values (1)")
                await u.aquery("select 1/0")
        except SqlError as error:
            return [error.code, await t.avalue("select count(*) from gone")]

@app.get("/async/stands")
async def stands():
    return main.value("select 5")

@app.get("/async/sleep/:mark")
async def async_sleep(request):
    return await main.aquery(f"select pg_sleep(600) as {request.params['mark']}")
"#;

#[test]
fn handlers_run_statements_one_at_a_time_in_threads_and_on_an_event_loop() {
    let both = format!("{PYTHON}{PYTHON_ASYNC}");
    for (source, keys) in [
        (PYTHON, ""),
        (PYTHON, "concurrency = 8"),
        (&both, "concurrency = 8"),
    ] {
        let server = python(source, keys).start();
        let value = json!({
            "a": 1, "b": "a'b😀", "c": "0.10", "d": "9007199254740993", "e": true, "f": "2020-01-02T03:04:05.678+00:00",
            "g": [0, 255], "h": {"x": [1, "y"]}, "i": ["a \"b\"", null], "j": null, "k": "00000000-0000-0000-0000-000000000007"
        });
        assert_eq!(get(&server, "/values"), (200, value));
        let numbers: Vec<u32> = (0..20).chain([99]).collect();
        assert_eq!(get(&server, "/pipeline"), (200, json!(numbers)));
        let told = json!([
            "22012",
            "division by zero",
            "not_allowed",
            "pool `api` may not reach database `other`: its `sql` names main"
        ]);
        assert_eq!(get(&server, "/error"), (200, told));
        assert_eq!(get(&server, "/large"), (200, json!(3_000_000)));
        assert_eq!(get(&server, "/count"), (200, json!([3, 3, null, null])));
        let table = format!("python_tx_{}", source.len() + keys.len());
        let mut admin = Postgres::shared().admin();
        admin
            .batch_execute(&format!("drop table if exists {table}"))
            .unwrap();
        assert_eq!(
            get(&server, &format!("/tx/{table}")),
            (200, json!(["22012", "session", [1, 3]]))
        );
        let prefixes = if source == PYTHON {
            &["/it"][..]
        } else {
            &["/it", "/async/it"]
        };
        thread::scope(|scope| {
            for client in 0..64 {
                let server = &server;
                let prefix = prefixes[client % prefixes.len()];
                scope.spawn(move || {
                    let mut connection = server.connect();
                    for turn in 0..10 {
                        let marker = format!("{client}-{turn}");
                        assert_eq!(connection.get(&format!("{prefix}/{marker}")).text(), marker);
                    }
                });
            }
        });
    }
    let server = python(&both, "concurrency = 8").start();
    let numbers: Vec<u32> = (0..50).collect();
    assert_eq!(get(&server, "/async/together"), (200, json!(numbers)));
    assert_eq!(get(&server, "/async/stands"), (200, json!(5)));
    assert_eq!(get(&server, "/async/tx"), (200, json!(["22012", 0])));
}

#[test]
fn a_deadline_ends_a_call_and_its_worker_goes_on() {
    let both = format!("{PYTHON}{PYTHON_ASYNC}");
    for (source, keys, paths) in [
        (PYTHON, "", &["/sleep"][..]),
        (&both, "concurrency = 4", &["/sleep", "/async/sleep"]),
    ] {
        let keys = format!("workers = {{ min = 1, max = 1 }}\nrun_timeout = \"1s\"\n{keys}");
        let server = python(source, &keys).start();
        wait_until("the pool to answer", || server.get("/count").status == 200);
        let worker = server.wait_for_workers(1)[0].pid;
        for (turn, path) in paths.iter().enumerate() {
            let mark = format!("python_{}_{turn}", keys.len());
            assert_eq!(server.get(&format!("{path}/{mark}")).status, 504);
            wait_until("the statement to end", || running(&mark) == 0);
            assert_eq!(server.get("/count").status, 200);
            assert_eq!(server.wait_for_workers(1)[0].pid, worker, "{path}");
        }
    }
}
