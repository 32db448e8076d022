//! `forebay.sql`: cursors, copies and notifications, and transactions that are retried.

use std::thread;

use forebay_testkit::{Postgres, Server, Setup, wait_until};
use serde_json::{Value, json};

use crate::{
    sql_handlers::{make, number},
    sql_pools::get,
};

/// In blocks that wait; what `ASYNC` adds is the same for coroutines.
const BLOCKING: &str = r#"
from forebay import App, reply
from forebay.sql import SqlError, sql

app = App()
main = sql.main
ENDLESS = "select generate_series(1, 1000000000) as i /* python endless */"
RUNNING = "select count(*) from pg_stat_activity where query like '%/* python endless */%' and state <> 'idle' and pid <> pg_backend_pid()"

def said(run):
    try:
        return run()
    except SqlError as error:
        return error.code
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"

@app.get("/cursor")
def cursor():
    total = sum(row["i"] for row in main.cursor("select i from generate_series(1, $1::int) as i", [100_000], batch=2000))
    early = 0
    for row in main.cursor(ENDLESS):
        early += 1
        if early == 300:
            break
    while main.value(RUNNING):
        pass
    with main.tx(read_only=True) as t:
        seen = [t.value("select $1::int * 2", [row["i"]]) for row in t.cursor("select i from generate_series(1, 7) as i", batch=3)]
        for row in t.cursor("select i from generate_series(1, 7) as i", batch=3):
            if row["i"] == 4:
                break
        seen.append(t.value("select 99"))
    bytea = [list(row["b"]) for row in main.cursor("select '\\x00ff'::bytea as b")]
    wrong = [said(lambda: list(main.cursor(text, batch=batch))) for text, batch in [("selec", 1), ("select 1", 0), ("select 1/0", 1)]]
    return [total, early, seen, bytea, list(main.cursor("select 1 where false")), wrong]

@app.get("/lines")
def lines():
    return (f"{row['i']}\n" for row in main.cursor("select i from generate_series(1, 3) as i"))

@app.get("/copy/:table")
def copy(request):
    table = request.params["table"]
    into = f"copy {table} from stdin (format csv)"
    counts = [main.copy_in(into, "1,a\n2,b\n"), main.copy_in(into, (f"{n},c\n" for n in range(3, 30_003))), main.copy_in(into, b"30003,\xc3\xa9\n")]

    def broken():
        yield "0,x\n"
        raise ValueError("no more")

    refused = [said(lambda: main.copy_in(into, broken())), said(lambda: main.copy_in(into, "x,y\n")), said(lambda: main.copy_in(into, [1])), said(lambda: main.copy_in("select 1", ""))]
    text = "".join(main.copy_out(f"copy (select * from {table} where n in (1, 30003) order by n) to stdout"))
    binary = b"".join(main.copy_out(f"copy {table} to stdout (format binary)"))
    pieces = main.copy_out(f"copy {table} to stdout")
    first = next(pieces)[:2]
    del pieces
    with main.tx() as t:
        within = [t.copy_in(into, "-1,z\n"), len("".join(t.copy_out(f"copy (select n from {table} where n < 0) to stdout"))), t.value("select 1")]
    return [counts, refused, text, binary[:6].decode("latin-1"), len(binary) > 30_000 * 10, first, within, main.value(f"select count(*) from {table}")]

@app.get("/out/:table")
def out(request):
    return reply(main.copy_out(f"copy {request.params['table']} to stdout (format csv, header)"), headers={"content-type": "text/csv"})

@app.get("/again")
def again():
    runs = []

    def add(t):
        runs.append(1)
        n = t.value("select n from python_counts where id = 1")
        t.query("update python_counts set n = $1 where id = 1", [n + 1])
        return len(runs)

    return main.tx(add, isolation="serializable", retries=100)

@app.get("/checks")
def checks():
    def swallowed(t):
        n = t.value("select n from python_counts where id = 2")
        main.query("update python_counts set n = $1 where id = 2", [n])
        try:
            t.query("update python_counts set n = $1 where id = 2", [n])
        except SqlError:
            pass

    async def coroutine(t):
        pass

    def outer(t):
        with t.tx() as u:
            u.query("select 1")
            return said(lambda: t.query("select 1"))

    later = []
    main.tx(later.append)
    return [
        main.tx(lambda t: t.row("select current_setting('transaction_isolation') as isolation, current_setting('transaction_read_only') as reads"), isolation="serializable", read_only=True),
        said(lambda: main.tx(swallowed, isolation="repeatable read", retries=0)),
        said(lambda: main.tx(coroutine)),
        said(lambda: main.tx("select 1")),
        said(lambda: main.tx(outer, retries=-1)),
        said(lambda: main.tx(outer, retries=101)),
        said(lambda: main.tx(outer, isolation="chaos")),
        said(lambda: main.tx(retries=1)),
        main.tx(outer),
        said(lambda: later[0].query("select 1")),
        said(lambda: list(later[0].cursor("select 1"))),
        said(lambda: main.query(1)),
    ]
"#;

const ASYNC: &str = r#"
import asyncio

async def asaid(awaitable):
    try:
        return await awaitable
    except SqlError as error:
        return error.code
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"

async def collected(rows):
    return [row async for row in rows]

@app.get("/async/cursor")
async def acursor():
    total = 0
    async for row in main.acursor("select i from generate_series(1, $1::int) as i", [100_000], batch=2000):
        total += row["i"]
    early = 0
    async for row in main.acursor(ENDLESS):
        early += 1
        if early == 300:
            break
    while await main.avalue(RUNNING):
        pass
    async with main.atx(read_only=True) as t:
        seen = []
        async for row in t.acursor("select i from generate_series(1, 7) as i", batch=3):
            seen.append(await t.avalue("select $1::int * 2", [row["i"]]))
        left = t.acursor("select i from generate_series(1, 7) as i", batch=3)
        async for row in left:
            if row["i"] == 4:
                break
        await left.aclose()
        seen.append(await t.avalue("select 99"))
    bytea = [list(row["b"]) for row in await collected(main.acursor("select '\\x00ff'::bytea as b"))]
    wrong = [await asaid(collected(main.acursor(text, batch=batch))) for text, batch in [("selec", 1), ("select 1", 0), ("select 1/0", 1)]]
    return [total, early, seen, bytea, await collected(main.acursor("select 1 where false")), wrong]

@app.get("/async/lines")
async def alines():
    async for row in main.acursor("select i from generate_series(1, 3) as i"):
        yield f"{row['i']}\n"

@app.get("/async/copy/:table")
async def acopy(request):
    table = request.params["table"]
    into = f"copy {table} from stdin (format csv)"

    async def numbers():
        for n in range(3, 30_003):
            yield f"{n},c\n"

    counts = [await main.acopy_in(into, "1,a\n2,b\n"), await main.acopy_in(into, numbers()), await main.acopy_in(into, [b"30003,\xc3", b"\xa9\n"])]

    async def broken():
        yield "0,x\n"
        raise ValueError("no more")

    refused = [await asaid(main.acopy_in(into, broken())), await asaid(main.acopy_in(into, "x,y\n")), await asaid(main.acopy_in(into, [1])), await asaid(main.acopy_in("select 1", ""))]
    text = "".join(await collected(main.acopy_out(f"copy (select * from {table} where n in (1, 30003) order by n) to stdout")))
    binary = b"".join(await collected(main.acopy_out(f"copy {table} to stdout (format binary)")))
    pieces = main.acopy_out(f"copy {table} to stdout")
    first = (await pieces.__anext__())[:2]
    await pieces.aclose()
    async with main.atx() as t:
        within = [await t.acopy_in(into, "-1,z\n"), len("".join(await collected(t.acopy_out(f"copy (select n from {table} where n < 0) to stdout")))), await t.avalue("select 1")]
    return [counts, refused, text, binary[:6].decode("latin-1"), len(binary) > 30_000 * 10, first, within, await main.avalue(f"select count(*) from {table}")]

@app.get("/async/out/:table")
async def aout(request):
    return reply(main.acopy_out(f"copy {request.params['table']} to stdout (format csv, header)"), headers={"content-type": "text/csv"})

@app.get("/async/again")
async def aagain():
    runs = []

    async def add(t):
        runs.append(1)
        n = await t.avalue("select n from python_counts where id = 1")
        await asyncio.sleep(0)
        await t.aquery("update python_counts set n = $1 where id = 1", [n + 1])
        return len(runs)

    return await main.atx(add, isolation="serializable", retries=100)

@app.get("/async/forgotten")
async def forgotten():
    tasks = []

    async def work(t):
        async def slow():
            await t.aquery("select pg_sleep(0.05)")
            return "waited for"

        tasks.append(asyncio.ensure_future(slow()))
        await asyncio.sleep(0)
        return t

    t = await main.atx(work)
    return [await tasks[0], await asaid(t.aquery("select 1"))]

@app.get("/async/given-up")
async def given_up():
    async def give_up(work):
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    async def first(rows):
        async for row in rows:
            return row

    async def nothing(t):
        pass

    async def nothing_is_open():
        text = "select count(*) from pg_stat_activity where backend_type = 'client backend' and state <> 'idle' and pid <> pg_backend_pid()"
        while await main.avalue(text):
            pass

    given = []
    for _ in range(3):
        for work in (main.atx(nothing), first(main.acursor(ENDLESS)), main.acopy_in("copy python_given_up from stdin", "0\\n"), first(main.acopy_out(f"copy ({ENDLESS}) to stdout"))):
            given.append(await give_up(work))
        await nothing_is_open()
    # More than may be open at a time.
    for _ in range(33):
        given.append(await give_up(main.listen("python_given_up").ready()))
        await main.aquery("select 1")
    async with main.atx() as t:
        async def part(n):
            async with t.atx() as u:
                await u.aquery("insert into python_given_up values ($1)", [n])
                raise KeyError

        async def raised():
            try:
                await part(1)
            except KeyError:
                return "undone"

        together = await asyncio.gather(raised(), asaid(t.aquery("insert into python_given_up values (2)")))
        for work in (part(3), first(t.acursor(ENDLESS))):
            given.append(await give_up(work))
        await t.aquery("insert into python_given_up values (4)")
    await nothing_is_open()
    return [all(given), together, [row["n"] for row in await main.aquery("select n from python_given_up")]]

@app.get("/async/heard")
async def heard():
    listening = main.listen("python_some")
    await listening.ready()
    await main.apipeline([("select pg_notify('python_some', $1)", [text]) for text in ["one", "two", "three"]])
    seen = []
    async for payload, lost in listening:
        seen.append([payload, lost])
        if payload == "three":
            break
    await listening.close()
    closed = main.listen("python_some")
    await closed.ready()
    await closed.close()
    return [seen, await collected(closed), await asaid(main.listen("").ready()), await asaid(main.listen("x").events("a\nb"))]

@app.get("/async/events/:name")
async def events(request):
    return await main.listen("python_news").events(None if request.params["name"] == "plain" else request.params["name"])
"#;

fn python(postgres: &Postgres, source: &str, keys: &str) -> Server {
    Setup::new(&format!(
        "[sql.main]\nurl = \"{}\"\nacquire_timeout = \"30s\"\n[pool.api]\nhandler = \"app.py\"\nsql = [\"main\"]\n{keys}\n[[route]]\npath = \"/*\"\npool = \"api\"\n",
        postgres.url()
    ))
    .file("app.py", source)
    .start()
}

/// A server for each way in which Python handlers run, with the first part of their paths.
fn ways(postgres: &Postgres) -> Vec<(Server, &'static str)> {
    let both = format!("{BLOCKING}{ASYNC}");
    vec![
        (python(postgres, BLOCKING, ""), ""),
        (python(postgres, BLOCKING, "concurrency = 4"), ""),
        (python(postgres, &both, "concurrency = 8"), ""),
        (python(postgres, &both, "concurrency = 8"), "/async"),
    ]
}

#[test]
fn rows_come_part_by_part_and_a_loop_that_is_left_ends_its_statement() {
    let postgres = Postgres::start();
    for (server, way) in ways(&postgres) {
        let told = json!([
            5_000_050_000_i64,
            300,
            [2, 4, 6, 8, 10, 12, 14, 99],
            [[0, 255]],
            [],
            ["42601", "malformed", "22012"]
        ]);
        assert_eq!(
            get(&server, &format!("{way}/cursor")),
            (200, told),
            "{way}\n{}",
            server.log()
        );
        assert_eq!(server.get(&format!("{way}/lines")).text(), "1\n2\n3\n");
    }
}

#[test]
fn rows_are_copied_in_and_out_and_not_at_all_when_something_is_wrong() {
    let postgres = Postgres::start();
    for (turn, (server, way)) in ways(&postgres).into_iter().enumerate() {
        let table = format!("python_copies_{turn}");
        make(
            &postgres,
            &format!("create table {table} (n int, note text); grant all on {table} to public"),
        );
        let told = json!([
            [2, 30_000, 1],
            [
                "ValueError: no more",
                "22P02",
                "TypeError: copy_in() takes str and bytes, not int",
                "not_sendable"
            ],
            "1\ta\n30003\té\n",
            "PGCOPY",
            true,
            "1\t",
            [1, 3, 1],
            30_004
        ]);
        assert_eq!(
            get(&server, &format!("{way}/copy/{table}")),
            (200, told),
            "{way}\n{}",
            server.log()
        );
        let out = server.get(&format!("{way}/out/{table}"));
        assert_eq!(out.header("content-type"), Some("text/csv"));
        assert!(out.text().starts_with("n,note\n1,a\n") && out.text().lines().count() == 30_005);
    }
}

#[test]
fn transactions_that_collide_are_run_again_and_what_they_are_given_is_checked() {
    let postgres = Postgres::start();
    for (turn, (server, way)) in ways(&postgres).into_iter().enumerate() {
        make(
            &postgres,
            "drop table if exists python_counts; create table python_counts (id int primary key, n int); insert into python_counts values (1, 0), (2, 0); grant all on python_counts to public",
        );
        let runs: i64 = thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|_| {
                    let server = &server;
                    scope.spawn(move || {
                        let runs = |_| get(server, &format!("{way}/again")).1.as_i64().expect("a number");
                        (0..10).map(runs).sum::<i64>()
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        });
        assert_eq!(
            number(&postgres, "select n::int8 from python_counts where id = 1"),
            40
        );
        // A single worker with one request at a time has no conflicts.
        assert!(turn == 0 || runs > 40, "{way}: {runs}");
        let within = "TypeError: a transaction within this one has not ended: use the argument of its block or function";
        let ended = "TypeError: the transaction has ended";
        let told = json!([
            {"isolation": "serializable", "reads": "on"},
            "40001",
            "TypeError: the function of tx() returned a coroutine: use atx() for coroutine functions",
            "TypeError: a transaction takes a function, not a str",
            "ValueError: the retries of a transaction are 0 to 100, not -1",
            "ValueError: the retries of a transaction are 0 to 100, not 101",
            "ValueError: the isolation of a transaction is one of read committed, repeatable read, serializable, not chaos",
            "TypeError: a block cannot be run again: `retries` is for a function that tx() is given",
            within,
            ended,
            ended,
            "TypeError: a statement is text, not a int"
        ]);
        assert_eq!(get(&server, "/checks"), (200, told), "{}", server.log());
        if way == "/async" {
            assert_eq!(
                get(&server, "/async/forgotten"),
                (200, json!(["waited for", ended]))
            );
        }
    }
}

#[test]
fn what_a_coroutine_begins_ends_when_it_is_cancelled() {
    let postgres = Postgres::start();
    let server = python(&postgres, &format!("{BLOCKING}{ASYNC}"), "concurrency = 8");
    make(
        &postgres,
        "create table python_given_up (n int); grant all on python_given_up to public",
    );
    let within =
        "TypeError: a transaction within this one has not ended: use the argument of its block or function";
    let told = json!([true, ["undone", within], [4]]);
    assert_eq!(get(&server, "/async/given-up"), (200, told), "{}", server.log());
}

#[test]
fn what_a_channel_is_told_is_heard_and_becomes_server_sent_events() {
    let postgres = Postgres::start();
    let both = format!("{BLOCKING}{ASYNC}");
    let server = python(&postgres, &both, "concurrency = 8\nrun_timeout = \"2s\"");
    let told = json!([
        [["one", false], ["two", false], ["three", false]],
        [],
        "not_sendable",
        "TypeError: the name of events is text in one line"
    ]);
    assert_eq!(get(&server, "/async/heard"), (200, told), "{}", server.log());
    let mut clients: Vec<_> = ["plain", "news"]
        .map(|name| {
            let mut client = server.connect();
            client.request("GET", &format!("/async/events/{name}"));
            let head = client.head().expect("the head of an answer");
            assert_eq!(
                (head.status, head.header("content-type")),
                (200, Some("text/event-stream"))
            );
            (client, name, String::new())
        })
        .into();
    let mut comes = |end: &str| {
        for (client, name, seen) in &mut clients {
            let named = if *name == "plain" || end.contains("lost") {
                ""
            } else {
                "event: news\n"
            };
            let end = format!("{named}{end}");
            while !seen.contains(&end) {
                let some = client.some_bytes();
                assert!(!some.is_empty(), "it ended after {seen:?}");
                seen.push_str(&String::from_utf8_lossy(&some));
            }
        }
    };
    make(&postgres, "select pg_notify('python_news', E'two\\nlines')");
    comes("data: two\ndata: lines\n\n");
    postgres.kill_backends();
    comes("event: lost\ndata:\n\n");
    make(&postgres, "notify python_news, 'again'");
    comes("data: again\n\n");
    drop(clients);
    let listening = "select count(*) from pg_stat_activity where query like 'listen %'";
    wait_until("nobody listens", || number(&postgres, listening) == 0);
    let _: Value = get(&server, "/async/heard").1;
}
