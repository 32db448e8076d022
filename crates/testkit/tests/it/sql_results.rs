//! Streamed results of the target `sql`, transactions, and parameters from bodies, with both drivers.

use forebay_testkit::{Client, Postgres, Response, Server, Setup, wait_until};
use serde_json::{Value, json};

use crate::store::ask;

const DRIVERS: [&str; 2] = ["async", "blocking"];

/// A server with routes of a path, a method, and the keys in `sql` besides `source`.
fn server(postgres: &Postgres, driver: &str, keys: &str, routes: &[(&str, &str, &str)]) -> Server {
    let routes: Vec<String> = routes
        .iter()
        .map(|(path, method, sql)| {
            format!(
                "[[route]]\npath = \"{path}\"\nmethods = [\"{method}\"]\nsql = {{ source = \"main\", {sql} }}\n"
            )
        })
        .collect();
    Setup::new(&format!(
        "[sql.main]\nurl = \"{}\"\nacquire_timeout = \"30s\"\ndriver = \"{driver}\"\n{keys}\n{}",
        postgres.url(),
        routes.concat()
    ))
    .admin()
    .start()
}

fn send(client: &mut Client, path: &str, body: &Value) -> (u16, Value) {
    let fields = [("content-type", "application/json")];
    let answer = ask(client, "POST", path, &fields, body.to_string().as_bytes());
    let body = if answer.body.is_empty() {
        Value::Null
    } else {
        answer.json()
    };
    (answer.status, body)
}

fn text(answer: &Response) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

/// Number of other backends with an unfinished statement that has this mark.
fn running(postgres: &Postgres, mark: &str) -> i64 {
    let count = "select count(*) from pg_stat_activity where pid <> pg_backend_pid() and state <> 'idle' and strpos(query, $1) > 0";
    let row = postgres.admin().query_one(count, &[&mark]);
    row.expect("the view is there").get(0)
}

#[test]
fn rows_come_as_lines_of_json_and_as_csv() {
    const ROWS: &str = r#"select a, b as "say ""b""", c, d from (values (1, 'x,y', null, '{1,2}'::int[]), (2, '', 'q"', null), (3, E'l\r\nm', ' s', '{}')) v (a, b, c, d)"#;
    for driver in DRIVERS {
        let lines = format!("query = '''{ROWS}''', result = \"ndjson\"");
        let csv = format!("query = '''{ROWS}''', result = \"csv\"");
        let server = server(
            Postgres::shared(),
            driver,
            "",
            &[
                ("/lines", "GET", &lines),
                ("/csv", "GET", &csv),
                (
                    "/none",
                    "GET",
                    "query = \"select 1 as a where false\", result = \"ndjson\"",
                ),
                (
                    "/named",
                    "GET",
                    "query = \"select 1 as a, 2 as b where false\", result = \"csv\"",
                ),
                ("/wrong", "GET", "query = \"select :n::int\", result = \"csv\""),
                (
                    "/nothing",
                    "GET",
                    "query = \"update world set id = id where id < 0\", result = \"csv\"",
                ),
            ],
        );
        let answer = server.get("/lines");
        assert_eq!(
            (
                answer.status,
                answer.header("content-type"),
                text(&answer).as_str()
            ),
            (
                200,
                Some("application/x-ndjson"),
                "{\"a\":1,\"say \\\"b\\\"\":\"x,y\",\"c\":null,\"d\":[1,2]}\n{\"a\":2,\"say \\\"b\\\"\":\"\",\"c\":\"q\\\"\",\"d\":null}\n{\"a\":3,\"say \\\"b\\\"\":\"l\\r\\nm\",\"c\":\" s\",\"d\":[]}\n"
            ),
            "{driver}"
        );
        let answer = server.get("/csv");
        assert_eq!(
            (
                answer.status,
                answer.header("content-type"),
                text(&answer).as_str()
            ),
            (
                200,
                Some("text/csv; charset=utf-8; header=present"),
                "a,\"say \"\"b\"\"\",c,d\r\n1,\"x,y\",,\"{1,2}\"\r\n2,\"\",\"q\"\"\",\r\n3,\"l\r\nm\", s,{}\r\n"
            ),
            "{driver}"
        );
        for (path, status, body) in [
            ("/none", 200, ""),
            ("/named", 200, "a,b\r\n"),
            ("/nothing", 204, ""),
        ] {
            let answer = server.get(path);
            assert_eq!(
                (answer.status, text(&answer).as_str()),
                (status, body),
                "{driver} {path}"
            );
        }
        let answer = server.get("/wrong?n=x");
        assert_eq!((answer.status, &answer.json()["parameter"]), (400, &json!("n")));
        let mut client = server.connect();
        client.request("HEAD", "/csv");
        assert_eq!(client.response_to("HEAD").status, 200);
        assert_eq!(client.get("/named").status, 200);
    }
}

#[test]
fn a_result_far_larger_than_may_be_gathered_is_sent_in_little_memory() {
    const ROWS: usize = 60_000;
    const MIB: u64 = 1 << 20;
    let query = "select n, repeat('x', 1000) as x from generate_series(1, :rows::int) n";
    for driver in DRIVERS {
        let of = |result: &str| format!("query = \"{query}\", result = \"{result}\"");
        let server = server(
            Postgres::shared(),
            driver,
            "result_bytes_max = \"1MiB\"",
            &[
                ("/rows", "GET", &of("rows")),
                ("/ndjson", "GET", &of("ndjson")),
                ("/csv", "GET", &of("csv")),
                ("/row", "GET", &of("row")),
            ],
        );
        assert_eq!(
            server.get("/rows?rows=1").json(),
            json!([{"n": 1, "x": "x".repeat(1000)}])
        );
        let before = server.process().rss_bytes();
        let whole = server.get(&format!("/rows?rows={ROWS}"));
        assert_eq!(whole.json().as_array().unwrap().len(), ROWS, "{driver}");
        for path in ["/ndjson", "/csv"] {
            let answer = server.get(&format!("{path}?rows={ROWS}"));
            let lines = text(&answer).matches('\n').count();
            assert_eq!(lines, ROWS + usize::from(path == "/csv"), "{driver} {path}");
        }
        let grown = server.process().rss_bytes().saturating_sub(before);
        assert!(grown < 24 * MIB, "{driver}: {grown} bytes for results of 60 MiB");
        let answer = server.get(&format!("/row?rows={ROWS}"));
        assert_eq!(answer.status, 500);
        server.wait_for_log(&["the result is larger than 1048576 bytes (result_bytes_max)"]);
    }
}

#[test]
fn an_error_in_the_middle_cuts_the_answer_off_and_is_told_in_the_log() {
    for driver in DRIVERS {
        for result in ["ndjson", "csv"] {
            let sql = format!(
                "query = \"select 1 / (50000 - n) as x from generate_series(1, 100000) n\", result = \"{result}\""
            );
            let server = server(Postgres::shared(), driver, "", &[("/cut", "GET", &sql)]);
            let mut client = server.connect();
            client.request("GET", "/cut");
            let answer = client.try_response("GET").unwrap();
            assert_eq!((answer.status, answer.whole), (200, false), "{driver} {result}");
            assert!(answer.body.len() > 100_000, "{driver} {result}");
            server.wait_for_log(&["an answer is cut off", "division by zero"]);
        }
    }
}

#[test]
fn a_client_that_does_not_read_holds_its_statement_and_one_that_goes_ends_it() {
    let postgres = Postgres::shared();
    for driver in DRIVERS {
        let mark = format!("endless {driver}");
        let sql = format!(
            "query = \"select generate_series(1, 1000000000) as n, repeat('x', 1000) as x /* {mark} */\", result = \"ndjson\""
        );
        let asleep = format!(
            "query = \"select repeat('x', 20000) as x, pg_sleep(case n when 3 then 1000 else 0 end) from generate_series(1, 5) n /* asleep {mark} */\", result = \"ndjson\""
        );
        let routes = [("/endless", "GET", &*sql), ("/asleep", "GET", &*asleep)];
        let server = server(postgres, driver, "connections_max = 4", &routes);
        for path in ["/endless", "/asleep"] {
            let before = server.process().rss_bytes();
            let mut client = server.connect();
            client.request("GET", path);
            assert_eq!(client.head().unwrap().status, 200);
            wait_until("the statement to run", || running(postgres, &mark) == 1);
            if path == "/endless" {
                // It waits for the client: no more rows arrive, and none are buffered.
                let waits = "select count(*) from pg_stat_activity where strpos(query, $1) > 0 and wait_event = 'ClientRead' and state <> 'idle'";
                wait_until("the statement to wait for its reader", || {
                    postgres
                        .admin()
                        .query_one(waits, &[&mark])
                        .unwrap()
                        .get::<_, i64>(0)
                        == 1
                });
                let grown = server.process().rss_bytes().saturating_sub(before);
                assert!(grown < 24 << 20, "{driver}: {grown} bytes");
            }
            drop(client);
            wait_until("the statement to be ended", || running(postgres, &mark) == 0);
        }
    }
}

#[test]
fn statements_of_a_transaction_take_effect_together_or_not_at_all() {
    let postgres = Postgres::shared();
    for driver in DRIVERS {
        let table = format!("accounts_{driver}");
        postgres
            .admin()
            .batch_execute(&format!(
                "drop table if exists {table}; create table {table} (id int primary key, balance int not null check (balance >= 0)); \
                 insert into {table} values (1, 100), (2, 0); grant all on {table} to public"
            ))
            .unwrap();
        let transfer = format!(
            "statements = [\"update {table} set balance = balance + :amount::int where id = :to\", \"update {table} set balance = balance - :amount where id = :from returning balance\"], result = \"value\""
        );
        let balances = format!("query = \"select balance from {table} order by id\"");
        let server = server(
            postgres,
            driver,
            "",
            &[
                ("/transfer/:from/:to", "POST", &transfer),
                ("/balances", "GET", &balances),
            ],
        );
        let mut client = server.connect();
        let balances = || -> Vec<i64> {
            let rows = server.get("/balances").json();
            rows.as_array()
                .unwrap()
                .iter()
                .map(|row| row["balance"].as_i64().unwrap())
                .collect()
        };
        assert_eq!(
            send(&mut client, "/transfer/1/2", &json!({"amount": 30})),
            (200, json!(70))
        );
        assert_eq!(balances(), [70, 30], "{driver}");
        // The second statement violates a constraint, finds no row, or has a parameter of another type: the first has had no effect.
        for (path, amount, status) in [
            ("/transfer/1/2", json!(71), 409),
            ("/transfer/9/2", json!(1), 404),
            ("/transfer/x/2", json!(1), 400),
        ] {
            let (got, problem) = send(&mut client, path, &json!({ "amount": amount }));
            assert_eq!(got, status, "{driver} {path} {problem}");
            if status == 400 {
                assert_eq!(problem["parameter"], "from");
            }
            assert_eq!(balances(), [70, 30], "{driver} {path}");
        }
    }
}

#[test]
fn transactions_that_stand_in_each_others_way_are_run_again() {
    const THREADS: usize = 4;
    const TURNS: usize = 25;
    let postgres = Postgres::shared();
    for driver in DRIVERS {
        let table = format!("counters_{driver}");
        postgres
            .admin()
            .batch_execute(&format!(
                "drop table if exists {table}; create table {table} (id int primary key, n int); \
                 insert into {table} values (1, 0), (2, 0); grant all on {table} to public"
            ))
            .unwrap();
        let read = format!("query = \"select sum(n) from {table}\", result = \"value\"");
        let add = format!(
            "statements = [\"select sum(n) from {table}\", \"update {table} set n = n + 1 where id = :id returning n\"], isolation = \"serializable\", result = \"value\""
        );
        // These take two locks in either order.
        let both = format!(
            "statements = [\"update {table} set n = n + 1 where id = :a\", \"update {table} set n = n + 1 where id = :b returning n\"], result = \"value\""
        );
        let routes = [
            ("/sum", "GET", &*read),
            ("/add/:id", "POST", &*add),
            ("/both/:a/:b", "POST", &*both),
        ];
        let server = server(postgres, driver, "", &routes);
        let done: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let server = &server;
                    scope.spawn(move || {
                        let mut client = server.connect();
                        let mut done = 0;
                        for turn in 0..TURNS {
                            let (path, added) = match (thread + turn) % 4 {
                                0 => ("/add/1", 1),
                                1 => ("/add/2", 1),
                                2 => ("/both/1/2", 2),
                                _ => ("/both/2/1", 2),
                            };
                            match send(&mut client, path, &json!({})) {
                                (200, _) => done += added,
                                (503, problem) => assert!(
                                    ["40001", "40P01"]
                                        .contains(&problem["sqlstate"].as_str().unwrap_or_default()),
                                    "{problem}"
                                ),
                                other => panic!("{driver} {path}: {other:?}"),
                            }
                        }
                        done
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(server.get("/sum").json(), json!(done), "{driver}");
    }
}

#[test]
fn members_of_a_body_become_what_their_parameters_take() {
    for driver in DRIVERS {
        let query = "query = \"select :tags::text[] as tags, :grid::int[][] as grid, :more::jsonb as more, :ids::bigint[] as ids, :text::text as text, :mood::text as mood\", result = \"row\"";
        let server = server(Postgres::shared(), driver, "", &[("/echo", "POST", query)]);
        let mut client = server.connect();
        for more in [
            json!({"a": [1]}),
            json!([1, "x"]),
            json!("text"),
            json!(1.5),
            json!(true),
        ] {
            let sent = json!({
                "tags": ["a b", null, "q\"\\", "", "NULL", "{x}"],
                "grid": [[1, 2], [3, 4]],
                "more": more,
                "ids": [1, 9_007_199_254_740_993_u64],
                "text": "it's",
                "mood": null,
            });
            assert_eq!(send(&mut client, "/echo", &sent), (200, sent.clone()), "{driver}");
        }
        let wrong =
            json!({"tags": [], "grid": [[1], [2, 3]], "more": null, "ids": ["x"], "text": "", "mood": ""});
        let (status, problem) = send(&mut client, "/echo", &wrong);
        assert_eq!(status, 400, "{driver} {problem}");
        // An array in PostgreSQL's own syntax is passed through.
        let own = json!({"tags": "{a,b}", "grid": "{}", "more": {}, "ids": "{}", "text": "", "mood": ""});
        let (status, row) = send(&mut client, "/echo", &own);
        assert_eq!(
            (status, &row["tags"]),
            (200, &json!(["a", "b"])),
            "{driver} {row}"
        );
    }
}
