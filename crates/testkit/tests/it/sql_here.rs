//! Calls of scripts that wait for statements on the thread that has read the request.

use std::{collections::HashSet, sync::Mutex, thread};

use forebay_testkit::{Postgres, Server, Setup, wait_until};
use serde_json::json;

use crate::{
    sql_handlers::{DRIVERS, configuration, get, make, module, number, server},
    support::metric,
};

/// Number of requests of one kind after which I/O threads answer it: each of the two may have to learn it.
const ENOUGH: usize = 24;

fn answered(server: &Server, place: &str) -> u64 {
    metric(
        server,
        &format!("forebay_script_calls_answered_total{{script=\"s\",place=\"{place}\"}}"),
    )
}

fn handed_over(server: &Server) -> u64 {
    metric(server, "forebay_script_calls_handed_over_total{script=\"s\"}")
}

const QUICK: &str = r"
  async row({ query }) { return main.row('select $1::int as id', [Number(query.get('id'))]); },
  async some({ query }) {
    const id = Number(query.get('id'));
    const [one, two] = await Promise.all([main.value('select $1::int + 1', [id]), main.pipeline([['select $1::int', [id]], 'select 2'])]);
    const three = await main.value('select $1::int', [one + 1]);
    return [one, two[0].length, two[1].count, three];
  },
  async wrong() { return [await failing(() => main.query('select 1 / (1 - 1)')), await main.value('select 5')]; },
";

#[test]
fn statements_that_change_nothing_are_waited_for_where_the_request_was_read() {
    for driver in DRIVERS {
        let server = server(Postgres::shared(), driver, QUICK, "");
        for id in 0..ENOUGH {
            assert_eq!(get(&server, &format!("/row?id={id}")), json!({ "id": id }));
            assert_eq!(
                get(&server, &format!("/some?id={id}")),
                json!([id + 1, 1, 1, id + 2]),
                "{driver}"
            );
            let answer = get(&server, "/wrong");
            assert_eq!(
                (&answer[0]["code"], &answer[1]),
                (&json!("22012"), &json!(5)),
                "{driver}"
            );
        }
        let here = answered(&server, "io");
        assert!(here > 3 * 8, "{driver}: {here}");
        assert_eq!(handed_over(&server), 0, "{driver}");
        assert_eq!(
            here + answered(&server, "executor"),
            3 * ENOUGH as u64,
            "{driver}"
        );
    }
}

const CHANGES: &str = r"
  async visit() { return main.value('insert into here_visits values (1) returning 1'); },
  async call() { return main.value('select here_visit()'); },
  async sometimes({ query }) {
    const id = await main.value('select $1::int', [Number(query.get('id'))]);
    if (id > 100) await main.query('insert into here_visits values ($1)', [id]);
    return [id];
  },
";

#[test]
fn what_changes_something_takes_effect_once_and_elsewhere() {
    let postgres = Postgres::start();
    make(
        &postgres,
        "create table here_visits (id int); grant all on here_visits to public; \
         create function here_visit() returns int language sql volatile as 'insert into here_visits values (2) returning 2'",
    );
    let server = server(&postgres, "async", CHANGES, "");
    for _ in 0..ENOUGH {
        get(&server, "/visit");
        get(&server, "/call");
    }
    assert_eq!((answered(&server, "io"), handed_over(&server)), (0, 0));
    for id in 0..ENOUGH {
        get(&server, &format!("/sometimes?id={id}"));
    }
    let here = answered(&server, "io");
    assert!(here > 8, "{here}");
    for id in 101..=108 {
        assert_eq!(get(&server, &format!("/sometimes?id={id}")), json!([id]));
    }
    let handed = handed_over(&server);
    assert!((1..=2).contains(&handed), "once by each thread: {handed}");
    let visits = |id: &str| {
        number(
            &postgres,
            &format!("select count(*) from here_visits where id {id}"),
        )
    };
    let enough = i64::try_from(ENOUGH).unwrap();
    assert_eq!(
        (visits("= 1"), visits("= 2"), visits("> 100")),
        (enough, enough, 8)
    );
}

const LATER: &str = r"
  async long({ query }) {
    const turns = await main.value('select $1::int', [Number(query.get('turns'))]);
    let sum = 0;
    for (let turn = 0; turn < turns; turn++) sum += turn;
    return [sum];
  },
  async *pieces({ query }) {
    for (const row of await main.query('select 1 as a')) yield String(row.a);
    if (query.has('more')) { await sleep(1); yield 'more'; }
  },
  async timer({ query }) {
    await main.value('select 1');
    if (query.has('more')) await sleep(1);
    return ['done'];
  },
";

#[test]
fn a_call_that_comes_to_more_is_done_again_by_an_executor() {
    let server = server(Postgres::shared(), "async", LATER, "cpu_max = \"20s\"");
    // One connection, so one thread.
    let mut client = server.connect();
    let mut get = |target: &str| client.get(target).json();
    for _ in 0..ENOUGH {
        assert_eq!(get("/long?turns=10"), json!([45]));
        assert_eq!(get("/timer"), json!(["done"]));
    }
    let here = answered(&server, "io");
    assert!(here > 8);
    assert_eq!(get("/long?turns=3000000"), json!([4_499_998_500_000_i64]));
    assert_eq!(handed_over(&server), 1);
    // That has cost the thread its engine; it makes another after a pause.
    wait_until("the thread to answer by itself again", || {
        assert_eq!(get("/timer"), json!(["done"]));
        answered(&server, "io") > here
    });
    assert_eq!(get("/timer?more"), json!(["done"]));
    assert_eq!(server.get("/pieces").text(), "1");
    assert_eq!(server.get("/pieces?more").text(), "1more");
    assert_eq!(handed_over(&server), 2);
}

const SHARED: &str = r"
  async both() { return (globalThis.shared ??= main.value('select 7').finally(() => delete globalThis.shared)); },
  async row({ query }) { return main.row('select $1::int as id', [Number(query.get('id'))]); },
";

#[test]
fn many_clients_get_their_own_answers_and_share_what_they_wait_for() {
    const CLIENTS: usize = 64;
    let server = server(Postgres::shared(), "async", SHARED, "");
    for id in 0..ENOUGH {
        get(&server, &format!("/row?id={id}"));
        get(&server, "/both");
    }
    let before = answered(&server, "io");
    let strangers = Mutex::new(HashSet::new());
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, strangers) = (&server, &strangers);
            scope.spawn(move || {
                for turn in 0..20 {
                    let id = client * 1000 + turn;
                    if get(server, &format!("/row?id={id}")) != json!({ "id": id })
                        || get(server, "/both") != json!(7)
                    {
                        strangers.lock().unwrap().insert(id);
                    }
                }
            });
        }
    });
    assert_eq!(*strangers.lock().unwrap(), HashSet::new());
    assert!(answered(&server, "io") > before + 20 * CLIENTS as u64);
}

/// Work that the first call of an engine starts for all calls, and that is too long for the thread that started it.
const BEGUN: &str = r"
  async begun() {
    return (globalThis.settings ??= (async () => {
      // Slow enough that other calls wait for it.
      const rows = await main.value('select count(*) from here_many a, here_many b where a.id + b.id < 10');
      await sleep(1);
      return rows > 0 ? 1 : 0;
    })());
  },
  async one() { return [await answers.begun(), await main.value('select 2')]; },
  async two() { return [await answers.begun(), await main.value('select 2')]; },
  async three() { return [await answers.begun(), await main.value('select 2')]; },
";

#[test]
fn what_a_call_has_begun_that_an_executor_has_to_do_keeps_nobody_waiting() {
    let postgres = Postgres::start();
    make(
        &postgres,
        "create table here_many (id int); grant all on here_many to public; insert into here_many select generate_series(1, 3000)",
    );
    let keys = configuration(&postgres, "async", "time_max = \"20s\"");
    let server = Setup::new(&keys)
        .threads(1)
        .file("s.mjs", module(BEGUN))
        .admin()
        .start();
    let paths = ["/one", "/two", "/three"];
    // The first call on the executor sleeps; after four that do not, the I/O thread makes the call itself, where nothing has started yet.
    get(&server, paths[0]);
    for path in paths {
        for _ in 0..4 {
            assert_eq!(get(&server, path), json!([1, 2]), "{path}");
        }
    }
    let before = handed_over(&server);
    thread::scope(|scope| {
        for path in paths {
            let server = &server;
            scope.spawn(move || assert_eq!(get(server, path), json!([1, 2]), "{path}"));
        }
    });
    // One because of its own statement, others because they waited for it.
    let handed = handed_over(&server) - before;
    assert!(handed >= 2, "{handed}");
    for path in paths {
        assert_eq!(get(&server, path), json!([1, 2]), "{path}");
    }
}

const ENDLESS: &str = r"
  async length() { return failing(() => main.pipeline(new Array(2147483647))); },
  async far() { const list = []; list[3000000000] = 'select 1'; return failing(() => main.pipeline(list)); },
  async long() { return failing(() => main.query('select $1::text', [Array(200000).fill('x'.repeat(1 << 20))])); },
  async nulls() { return failing(() => main.query('select $1::text[]', [new Array(4294967295)])); },
";

#[test]
fn what_a_script_asks_for_is_bounded_however_little_it_costs_the_script() {
    let server = server(
        Postgres::shared(),
        "async",
        ENDLESS,
        "memory_max = \"16MiB\"\ncpu_max = \"20s\"",
    );
    let no_text = "a statement is text, not a value of type undefined";
    assert_eq!(get(&server, "/length")["message"], no_text);
    assert_eq!(get(&server, "/far")["message"], no_text);
    let too_long = "the parameters of statements have more than 16777216 bytes (memory_max)";
    for path in ["/long", "/nulls"] {
        let said = get(&server, path);
        assert_eq!(
            (&said["name"], &said["message"]),
            (&json!("RangeError"), &json!(too_long)),
            "{path}"
        );
    }
}

#[test]
fn a_client_that_goes_takes_its_statement_with_it() {
    const ROWS: &str = r"
  async rows({ query }) {
    return main.value('select count(*) from here_rows a, here_rows b, here_rows c where a.id <= $1 and b.id <= $1 and c.id + b.id > a.id', [Number(query.get('to'))]);
  },
";
    let postgres = Postgres::start();
    make(
        &postgres,
        "create table here_rows (id int); grant all on here_rows to public; insert into here_rows select generate_series(1, 3000)",
    );
    let server = server(&postgres, "async", ROWS, "");
    for _ in 0..ENOUGH {
        get(&server, "/rows?to=1");
    }
    assert!(answered(&server, "io") > 4);
    let running = "select count(*) from pg_stat_activity where state = 'active' and query like '%here_rows a%' and pid <> pg_backend_pid()";
    let mut client = server.connect();
    client.send("GET /rows?to=3000 HTTP/1.1\r\nhost: x\r\n\r\n");
    wait_until("the statement to run", || number(&postgres, running) == 1);
    drop(client);
    wait_until("the statement to be cancelled", || {
        number(&postgres, running) == 0
    });
    get(&server, "/rows?to=1");
    wait_until("the call to be counted", || {
        metric(&server, "forebay_script_calls_cancelled_total{script=\"s\"}") == 1
    });
}
