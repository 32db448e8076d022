//! The target `sql`: statements on a real PostgreSQL, with both drivers.

use forebay_testkit::{Client, Postgres, Server, Setup, wait_until};
use serde_json::{Value, json};

use crate::{reload::reload, store::ask, support::metric};

const DRIVERS: [&str; 2] = ["async", "blocking"];

/// A table for each test, and a server with routes to it.
fn server(postgres: &Postgres, driver: &str, table: &str) -> Server {
    server_with(postgres, driver, table, "30s")
}

fn server_with(postgres: &Postgres, driver: &str, table: &str, statement_timeout: &str) -> Server {
    let mut admin = postgres.admin();
    admin
        .batch_execute(&format!(
            "drop table if exists {table}; \
             create table {table} (id int primary key, name text not null check (name <> 'nobody'), born date, score numeric, tags text[], more jsonb); \
             insert into {table} values (7, 'Ada \"L\"', '1815-12-10', 0.1, '{{a,\"b c\",NULL}}', '{{\"x\": [1, 2]}}'), (8, 'Bob', null, null, null, null); \
             grant all on {table} to public"
        ))
        .expect("the table is made");
    let route = |path: &str, method: &str, query: &str, result: &str| {
        format!(
            "[[route]]\npath = \"{path}\"\nmethods = [\"{method}\"]\n\
             sql = {{ source = \"main\", query = '''{query}''', result = \"{result}\", optional = [{}] }}\n",
            if query.contains(":most") { "'most'" } else { "" }
        )
    };
    let routes = [
        route(
            "/one/:id",
            "GET",
            &format!("select * from {table} where id = :id"),
            "row",
        ),
        route(
            "/like",
            "GET",
            &format!(
                "select id, name from {table} where name like :like order by id limit coalesce(:most::int, 10)"
            ),
            "rows",
        ),
        route("/count", "GET", &format!("select count(*) from {table}"), "value"),
        route(
            "/add",
            "POST",
            &format!("insert into {table} (id, name, more) values (:id, :name, :more)"),
            "rows",
        ),
        route(
            "/rename/:id",
            "PUT",
            &format!("update {table} set name = :name where id = :id"),
            "row",
        ),
        route("/echo", "POST", "select :it::text as it", "value"),
        route(
            "/sleep/:seconds",
            "GET",
            "select pg_sleep(:seconds::float)::text",
            "value",
        ),
        route(
            "/raise/:text",
            "GET",
            "select * from no_such_table where a = :text",
            "value",
        ),
    ];
    Setup::new(&format!(
        "[sql.main]\nurl = \"{}\"\nacquire_timeout = \"30s\"\ndriver = \"{driver}\"\nstatement_timeout = \"{statement_timeout}\"\nin_flight_max = 8\nconnections_max = 4\n{}",
        postgres.url(),
        routes.concat()
    ))
    .admin()
    .start()
}

fn get(server: &Server, path: &str) -> (u16, Value) {
    let answer = server.get(path);
    let body = if answer.body.is_empty() {
        Value::Null
    } else {
        answer.json()
    };
    (answer.status, body)
}

fn send(client: &mut Client, method: &str, path: &str, body: &str) -> (u16, Value) {
    let answer = ask(
        client,
        method,
        path,
        &[("content-type", "application/json")],
        body.as_bytes(),
    );
    let body = if answer.body.is_empty() {
        Value::Null
    } else {
        answer.json()
    };
    (answer.status, body)
}

#[test]
fn rows_are_answered_as_json_the_same_by_both_drivers() {
    for driver in DRIVERS {
        let server = server(Postgres::shared(), driver, &format!("shapes_{driver}"));
        let ada = server.get("/one/7");
        assert_eq!(
            (ada.status, String::from_utf8_lossy(&ada.body).into_owned()),
            (200, r#"{"id":7,"name":"Ada \"L\"","born":"1815-12-10","score":0.1,"tags":["a","b c",null],"more":{"x": [1, 2]}}"#.to_owned())
        );
        assert_eq!(get(&server, "/one/9").0, 404);
        assert_eq!(
            get(&server, "/like?like=%25b%25"),
            (200, json!([{"id": 8, "name": "Bob"}]))
        );
        assert_eq!(get(&server, "/like?like=x"), (200, json!([])));
        assert_eq!(get(&server, "/count"), (200, json!(2)));
    }
}

#[test]
fn parameters_come_from_the_path_else_the_query_else_the_body() {
    for driver in DRIVERS {
        let server = server(Postgres::shared(), driver, &format!("given_{driver}"));
        let mut client = server.connect();
        assert_eq!(
            send(
                &mut client,
                "POST",
                "/add",
                r#"{"id": 9, "name": "Cy", "more": {"a": [1, "b"]}}"#
            ),
            (204, Value::Null)
        );
        assert_eq!(get(&server, "/one/9").1["more"], json!({"a": [1, "b"]}));
        assert_eq!(
            send(
                &mut client,
                "POST",
                "/add?id=10",
                r#"{"id": 11, "name": "Di", "more": null}"#
            )
            .0,
            204
        );
        assert_eq!(get(&server, "/one/10").1["name"], "Di");
        assert_eq!(get(&server, "/one/11").0, 404);
        assert_eq!(
            send(&mut client, "PUT", "/rename/7?id=8", r#"{"name": "Eve"}"#).0,
            204
        );
        assert_eq!(get(&server, "/one/7").1["name"], "Eve");
        assert_eq!(
            send(&mut client, "PUT", "/rename/70", r#"{"name": "Eve"}"#).0,
            404
        );
        // More digits than a floating-point number can hold.
        let long = "12345678901234567890.1234567890123456789";
        assert_eq!(
            send(&mut client, "POST", "/echo", &format!("{{\"it\": {long}}}")),
            (200, json!(long))
        );
    }
}

#[test]
fn what_is_wrong_with_a_parameter_is_a_400_that_names_it() {
    for driver in DRIVERS {
        let server = server(Postgres::shared(), driver, &format!("wrong_{driver}"));
        let mut client = server.connect();
        for (method, path, body, status, detail) in [
            (
                "GET",
                "/one/abc",
                "",
                400,
                "parameter \"id\": invalid input syntax for type integer: \"abc\"",
            ),
            (
                "GET",
                "/one/99999999999",
                "",
                400,
                "parameter \"id\": value \"99999999999\" is out of range for type integer",
            ),
            ("GET", "/like", "", 400, "parameter \"like\": it is missing"),
            (
                "GET",
                "/like?like=%ff",
                "",
                400,
                "query parameter \"like\": it is not percent-encoded UTF-8",
            ),
            (
                "POST",
                "/add",
                "[1]",
                400,
                "the body is not a JSON object of parameters",
            ),
            (
                "POST",
                "/add",
                "{\"id\": 5",
                400,
                "the body is not a JSON object of parameters",
            ),
            (
                "POST",
                "/add",
                r#"{"id": 5, "name": "F"}"#,
                400,
                "parameter \"more\": it is missing",
            ),
            (
                "POST",
                "/echo",
                r#"{"it": "a\u0000b"}"#,
                400,
                "parameter \"it\": invalid byte sequence",
            ),
            (
                "POST",
                "/add",
                r#"{"id": 7, "name": "F", "more": null}"#,
                409,
                "duplicate key value violates unique constraint",
            ),
            (
                "POST",
                "/add",
                r#"{"id": 5, "name": null, "more": null}"#,
                409,
                "violates not-null constraint",
            ),
            (
                "POST",
                "/add",
                r#"{"id": 5, "name": "nobody", "more": null}"#,
                409,
                "violates check constraint",
            ),
            (
                "GET",
                "/raise/x",
                "",
                500,
                "the statement fails; the log says why",
            ),
            ("POST", "/one/7", "", 405, "allowed"),
        ] {
            let (got, problem) = send(&mut client, method, path, body);
            let told = problem["detail"].as_str().unwrap_or_default();
            assert!(
                got == status && told.contains(detail),
                "{driver} {method} {path} {body}: {got} {problem}"
            );
        }
        for (outcome, count) in [("data", 3), ("constraint", 3), ("server", 1), ("done", 0)] {
            let name = format!("forebay_sql_statements_total{{database=\"main\",outcome=\"{outcome}\"}}");
            assert_eq!(metric(&server, &name), count, "{driver} {outcome}");
        }
        let (_, problem) = send(&mut client, "GET", "/one/abc", "");
        assert_eq!(
            (&problem["sqlstate"], &problem["parameter"]),
            (&json!("22P02"), &json!("id"))
        );
        let text = ask(
            &mut client,
            "POST",
            "/echo",
            &[("content-type", "text/plain")],
            b"it",
        );
        assert_eq!(text.status, 415);
    }
}

#[test]
fn what_looks_like_sql_stays_a_value() {
    for driver in DRIVERS {
        let server = server(Postgres::shared(), driver, &format!("inject_{driver}"));
        let mut client = server.connect();
        for text in [
            "' or '1'='1",
            "x'; drop table world; --",
            "$1",
            "\\'; select 1",
            ":id",
            "/* */ or true",
        ] {
            let body = json!({ "it": text }).to_string();
            assert_eq!(send(&mut client, "POST", "/echo", &body), (200, json!(text)));
            let encoded = text
                .bytes()
                .fold(String::new(), |text, byte| format!("{text}%{byte:02x}"));
            assert_eq!(get(&server, &format!("/like?like={encoded}")), (200, json!([])));
        }
        assert_eq!(get(&server, "/count"), (200, json!(2)));
    }
}

#[test]
fn a_statement_that_takes_too_long_is_a_504_and_holds_nobody_up_for_good() {
    for driver in DRIVERS {
        let server = server_with(Postgres::shared(), driver, &format!("long_{driver}"), "300ms");
        let (status, problem) = get(&server, "/sleep/30");
        assert_eq!(status, 504, "{problem}");
        wait_until("the next statement to be answered", || {
            get(&server, "/count").0 == 200
        });
    }
}

#[test]
fn a_database_that_is_gone_is_a_503_and_is_used_again_when_it_is_back() {
    for driver in DRIVERS {
        let mut postgres = Postgres::start();
        let server = server(&postgres, driver, "gone");
        assert_eq!(get(&server, "/count"), (200, json!(2)));
        assert!(postgres.kill_backends() > 0);
        wait_until("an answer after the connections were cut", || {
            get(&server, "/count").0 == 200
        });
        postgres.stop();
        wait_until("the server to notice", || get(&server, "/count").0 == 503);
        assert_eq!(server.get("/count").header("retry-after"), Some("1"));
        postgres.start_again();
        wait_until("the database to be used again", || {
            get(&server, "/count").0 == 200
        });
    }
}

#[test]
fn each_of_many_clients_gets_its_own_answer() {
    for driver in DRIVERS {
        let server = server(Postgres::shared(), driver, &format!("many_{driver}"));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let server = &server;
                scope.spawn(move || {
                    let mut client = server.connect();
                    for number in 0..100 {
                        let marker = format!("{driver} {thread} {number}");
                        let body = json!({ "it": marker }).to_string();
                        assert_eq!(send(&mut client, "POST", "/echo", &body), (200, json!(marker)));
                    }
                });
            }
        });
    }
}

/// A script that sends statements.
const SCRIPT: &str = r#"
import { sql, SqlError } from 'forebay/sql';

const said = ({ name, code, message, constraint, position }) => ({ name, code, message, constraint, position });
const failing = (run) => run().then(() => 'no error', said);

const { main, other } = sql;
const answers = {
  async values() {
    const bytes = new Uint8Array([0, 255]);
    const date = new Date('2020-01-02T03:04:05.678Z');
    const row = await main.row(
      'select $1::int as a, $2::text as b, $3::numeric as c, $4::int8 as d, $5::bool as e, $6::timestamptz as f, $7::bytea as g, $8::jsonb as h, $9::text[] as i, $10::int[][] as j, $11::text as k, $12::uuid as l, $13::json as m, $14::date as n, $15::bytea[] as o, $16::float8 as p, $17::timestamp as q, $18::int8 as r, $19::numeric[] as s',
      [1, "a'b", '0.10', 9007199254740993n, true, date, bytes, { x: [1, 'y'] }, ['a "b"', null, 'c\\'], [[1, 2], [3, 4]], undefined, '5b7a1d1e-0000-4000-8000-0123456789ab', 'null', '2020-02-29', [bytes, null], NaN, '2020-01-02 03:04:05.678', 7, ['1.10', null]],
    );
    return { ...row, o: row.o.map((it) => it && [...it]), g: row.g instanceof Uint8Array && [...row.g] };
  },
  async shapes() {
    const name = "Robert'); drop table students;--";
    const tagged = await main`select ${name}::text as name, ${2}::int + 1 as three`;
    const none = await main.row('select 1 where false');
    const count = await main.value('select count(*) from generate_series(1, 3)');
    const created = await main.query('create temporary table if not exists gone (a int)');
    return { tagged, count, none: none ?? null, changed: created.count, rows: created.length };
  },
  async pipeline() {
    const results = await main.pipeline([...Array.from({ length: 20 }, (_, index) => ['select $1::int as it', [index]]), 'select 99 as it']);
    return results.map(([{ it }]) => it);
  },
  async together() {
    const values = await Promise.all(Array.from({ length: 20 }, (_, index) => main.value('select $1::int', [index])));
    return values;
  },
  async errors() {
    return [
      await failing(() => main.query('select 1/0')),
      await failing(() => main.query('selec 1')),
      await failing(() => main.query('select $1::int', ['x'])),
      await failing(() => other.query('select 1')),
      await failing(() => main.query('select $1::int', [Symbol('x')])),
      await failing(() => main.pipeline(['select 1', 'select 1/0', 'select 2'])),
      await main.value('select 5'),
      (await main.query('select 1/0').catch((error) => error)) instanceof SqlError,
    ];
  },
};
export default (request) => answers[request.path.slice(1)]();
"#;

#[test]
fn scripts_run_statements_with_both_drivers() {
    for driver in DRIVERS {
        let server = Setup::new(&format!(
            "[sql.main]\nurl = \"{url}\"\nacquire_timeout = \"30s\"\ndriver = \"{driver}\"\n[sql.other]\nurl = \"{url}\"\n\
             [script.s]\nhandler = \"s.mjs\"\nallow = {{ sql = [\"main\"] }}\n[[route]]\npath = \"/*\"\nscript = \"s\"\n",
            url = Postgres::shared().url()
        ))
        .file("s.mjs", SCRIPT)
        .start();
        assert_eq!(
            get(&server, "/values"),
            (
                200,
                json!({
                    "a": 1, "b": "a'b", "c": "0.10", "d": "9007199254740993", "e": true, "f": "2020-01-02T03:04:05.678+00:00",
                    "g": [0, 255], "h": {"x": [1, "y"]}, "i": ["a \"b\"", null, "c\\"], "j": [[1, 2], [3, 4]], "k": null,
                    "l": "5b7a1d1e-0000-4000-8000-0123456789ab", "m": null, "n": "2020-02-29", "o": [[0, 255], null], "p": "NaN",
                    "q": "2020-01-02T03:04:05.678", "r": 7, "s": ["1.10", null]
                })
            ),
            "{driver}"
        );
        assert_eq!(
            get(&server, "/shapes"),
            (
                200,
                json!({"tagged": [{"name": "Robert'); drop table students;--", "three": 3}], "count": 3, "none": null, "changed": 0, "rows": 0})
            ),
            "{driver}"
        );
        let to_20: Vec<u32> = (0..20).collect();
        let (status, mut pipelined) = get(&server, "/pipeline");
        assert_eq!(pipelined.as_array_mut().and_then(Vec::pop), Some(json!(99)));
        assert_eq!((status, pipelined), (200, json!(to_20)));
        assert_eq!(get(&server, "/together"), (200, json!(to_20)));
        let (_, errors) = get(&server, "/errors");
        for (index, (code, message)) in [
            ("22012", "division by zero"),
            ("42601", "syntax error at or near \"selec\""),
            ("22P02", "invalid input syntax for type integer: \"x\""),
            (
                "",
                "script `s`: database `other` may not be reached: its `allow` names main",
            ),
            ("", "a parameter is text, a number"),
            ("22012", "division by zero"),
        ]
        .into_iter()
        .enumerate()
        {
            let error = &errors[index];
            assert!(
                error["message"]
                    .as_str()
                    .is_some_and(|text| text.contains(message))
                    && error["code"].as_str().unwrap_or_default() == code,
                "{driver}: {error}"
            );
        }
        assert_eq!(
            (&errors[1]["position"], &errors[6], &errors[7]),
            (&json!(1), &json!(5), &json!(true))
        );
    }
}

#[test]
fn a_database_keeps_its_connections_over_a_reload_until_the_configuration_has_it_no_more() {
    for driver in DRIVERS {
        let postgres = Postgres::shared();
        let mark = format!("reload_{driver}");
        let config = |more: &str| {
            format!(
                "[sql.main]\nurl = \"{}&application_name={mark}\"\nacquire_timeout = \"30s\"\ndriver = \"{driver}\"\n\
                 [[route]]\npath = \"/one\"\nmethods = [\"GET\"]\nsql = {{ source = \"main\", query = \"select 1\", result = \"value\" }}\n{more}",
                postgres.url()
            )
        };
        let server = Setup::new(&config("")).admin().start();
        assert_eq!(get(&server, "/one"), (200, json!(1)));
        let mut admin = postgres.admin();
        let mut processes = || -> Vec<i32> {
            let rows = admin.query(
                "select pid from pg_stat_activity where application_name = $1 order by pid",
                &[&mark],
            );
            rows.expect("the server answers")
                .iter()
                .map(|row| row.get(0))
                .collect()
        };
        let before = processes();
        assert!(!before.is_empty(), "{driver}");
        server.reconfigure(&config("[[route]]\npath = \"/two\"\nrespond = {}\n"));
        assert_eq!(reload(&server).status, 200);
        assert_eq!(get(&server, "/one"), (200, json!(1)));
        assert!(before.iter().all(|pid| processes().contains(pid)), "{driver}");
        server.reconfigure("[[route]]\npath = \"/two\"\nrespond = {}\n");
        assert_eq!(reload(&server).status, 200);
        wait_until("the connections to end", || processes().is_empty());
    }
}
