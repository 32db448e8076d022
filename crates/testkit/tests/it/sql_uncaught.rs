//! The response when a handler lets a `SqlError` through: the same as of a route that is the statement itself.

use forebay_testkit::{Postgres, Response, Server, Setup, wait_until};
use serde_json::{Value, json};

use crate::support::metric;

/// Failing statements: path, text, database, and status of the response.
const STATEMENTS: [(&str, &str, &str, u16); 6] = [
    (
        "data",
        "main",
        "select 1 / n as it from uncaught where n = 0",
        400,
    ),
    ("constraint", "main", "insert into uncaught values (0)", 409),
    ("raised", "main", "select uncaught_raise('P0001')", 422),
    ("conflict", "main", "select uncaught_raise('40001')", 503),
    ("slow", "hasty", "select pg_sleep(600)", 504),
    ("wrong", "main", "select uncaught_raise('42P20')", 500),
];

/// The places where handlers run, by the first part of the path.
const HANDLERS: [&str; 5] = ["script", "node", "bun", "python", "coroutine"];

fn server(postgres: &Postgres) -> Server {
    let statements: Vec<_> = STATEMENTS
        .iter()
        .map(|(name, database, text, _)| json!([name, [database, text]]))
        .collect();
    let statements = Value::from(statements);
    let mut keys = format!(
        "[sql.main]
url = \"{url}\"
[sql.hasty]
url = \"{url}\"
statement_timeout = \"300ms\"
\
         [script.script]
handler = \"api.mjs\"
allow = {{ sql = [\"main\", \"hasty\"] }}
[[route]]
path = \"/script/:name\"
script = \"script\"
",
        url = postgres.url()
    );
    let pools = [
        ("node", "api.mjs", "node"),
        ("bun", "api.mjs", "bun"),
        ("python", "blocking.py", "python"),
        ("coroutine", "coroutine.py", "python"),
    ];
    keys.extend(pools.map(|(pool, file, runtime)| {
        format!(
            "[pool.{pool}]\nhandler = \"{file}\"\nruntime = \"{runtime}\"\nsql = [\"main\", \"hasty\"]\nworkers = {{ min = 1, max = 1 }}\n\
             [[route]]\npath = \"/{pool}/:name\"\npool = \"{pool}\"\n"
        )
    }));
    keys.extend(STATEMENTS.map(|(name, database, text, _)| {
        format!(
            "[[route]]\npath = \"/route/{name}\"\nmethods = [\"GET\"]\nsql = {{ source = \"{database}\", query = {text:?} }}\n"
        )
    }));
    let javascript = format!(
        "import {{ sql }} from 'forebay/sql';\nconst statements = Object.fromEntries({statements});\n\
         export default (request) => {{ const [database, text] = statements[request.params.name]; return sql[database].query(text); }};\n"
    );
    let python = |define: &str, query: &str| {
        format!(
            "from forebay import App\nfrom forebay.sql import sql\n\napp = App()\nstatements = dict({statements})\n\n\
             @app.get(\"/:pool/:name\")\n{define} handler(request):\n    database, text = statements[request.params[\"name\"]]\n    return {query}(text)\n"
        )
    };
    Setup::new(&keys)
        .file("api.mjs", javascript)
        .file("blocking.py", python("def", "sql[database].query"))
        .file("coroutine.py", python("async def", "await sql[database].aquery"))
        .admin()
        .start()
}

/// The problem document without the parts that differ for each request.
fn told(answer: &Response) -> Value {
    let mut problem = answer.json();
    problem.as_object_mut().expect("a problem").remove("request_id");
    json!([
        answer.status,
        answer.header("content-type"),
        answer.header("retry-after"),
        problem
    ])
}

#[test]
fn a_failure_that_a_handler_lets_through_is_told_as_a_route_of_the_statement_tells_it() {
    let mut postgres = Postgres::start();
    postgres
        .admin()
        .batch_execute(
            "create table uncaught (n int primary key); insert into uncaught values (0); grant all on uncaught to public;
             create function uncaught_raise(state text) returns void language plpgsql as
             $$ begin raise exception 'enough' using errcode = state, detail = 'a secret'; end $$",
        )
        .unwrap();
    let server = server(&postgres);
    for (name, .., status) in STATEMENTS {
        let expected = server.get(&format!("/route/{name}"));
        assert_eq!(expected.status, status, "{name}: {}", expected.text());
        for handler in HANDLERS {
            let mut expected = told(&expected);
            if status == 500 {
                expected[3]["detail"] = "the handler failed".into();
            }
            assert_eq!(
                told(&server.get(&format!("/{handler}/{name}"))),
                expected,
                "{handler} {name}"
            );
        }
    }
    // Two are for the log, and count as failed handlers: the one that took too long and the one that is wrong.
    for pool in &HANDLERS[1..] {
        let faulted = format!("forebay_pool_jobs_faulted_total{{pool=\"{pool}\"}}");
        wait_until("all to be counted", || metric(&server, &faulted) == 2);
    }
    assert_eq!(
        metric(&server, "forebay_script_calls_faulted_total{script=\"script\"}"),
        2
    );
    for handler in HANDLERS {
        let counts = || {
            let log = server.log();
            STATEMENTS.map(|(name, ..)| {
                let path = format!(" /{handler}/{name} ");
                let failed = |line: &&str| line.contains(&path) && line.contains("failed");
                log.lines().filter(failed).count()
            })
        };
        // A worker's lines arrive a moment after its answer.
        wait_until(&format!("the failures of {handler} to be logged"), || {
            counts()[4..] == [1, 1]
        });
        assert_eq!(counts(), [0, 0, 0, 0, 1, 1], "{handler}\n{}", server.log());
    }
    postgres.stop();
    for handler in HANDLERS {
        let of = |answer: &Response| answer.detail() == "database `main` cannot be reached";
        wait_until("the server to notice", || of(&server.get("/route/data")));
        let expected = told(&server.get("/route/data"));
        assert_eq!((&expected[0], &expected[2]), (&json!(503), &json!("1")));
        wait_until("the database to be away", || {
            told(&server.get(&format!("/{handler}/data"))) == expected
        });
    }
}
