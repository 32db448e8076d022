//! Statements of every kind in `forebay explain` and in the metrics.

use forebay_testkit::{Postgres, Server, Setup};
use serde_json::{Value, json};

use crate::{
    explain::{assert_adds_up, end, explained, spans, us},
    support::metric,
};

/// Responds at `/WHO/NAME` by one of these functions, whatever runs it.
const HANDLER: &str = r"
import { sql } from 'forebay/sql';
const { main } = sql;
const all = async (rows) => { const seen = []; for await (const row of rows) seen.push(row); return seen.length; };
const answers = {
  tx: () => main.tx(async (t) => {
    await t.query('select 1 as slow from pg_sleep(0.02)');
    await t.pipeline(['select 2', 'select 3', 'select 2', 'select 3']);
    await t.tx((u) => u.query('select 4'));
    return 'kept';
  }, { isolation: 'serializable' }),
  undone: () => main.tx(async () => { throw new Error('enough'); }).catch(() => 'undone'),
  // The second waits for the connection of the first.
  two: () => Promise.all([1, 2].map(() => main.tx((t) => t.query('select 1 as slow from pg_sleep(0.02)')))).then(() => 'both'),
  cursor: async () => ({ rows: await all(main.cursor('select n, pg_sleep(0.0001) from generate_series(1, 300) as n', [], { batch: 100 })) }),
  within: () => main.tx(async (t) => ({ rows: await all(t.cursor('select 1 from generate_series(1, 3)', [], { batch: 2 })) }), { readOnly: true }),
  copies: async () => ({
    count: await main.copyIn('copy told from stdin', ['1\n2\n', '3\n']),
    pieces: await all(main.copyOut('copy (select n from generate_series(1, 5) as n) to stdout')),
  }),
  copied: () => main.tx(async (t) => ({
    count: await t.copyIn('copy told from stdin', '4\n'),
    pieces: await all(t.copyOut('copy (select 1) to stdout')),
  })),
  async listen() {
    const listening = main.listen('told');
    await listening.ready();
    await listening.close();
    return 'heard nothing';
  },
};
export default (request) => answers[request.path.split('/').pop()]();
";

/// The statements that each function sends, in order.
fn expected(name: &str) -> Vec<&'static str> {
    let slow = "select 1 as slow from pg_sleep(0.02)";
    match name {
        "tx" => vec![
            "begin isolation level serializable",
            slow,
            "select 2",
            "select 3",
            "select 2",
            "select 3",
            "savepoint s1",
            "select 4",
            "release savepoint s1",
            "commit",
        ],
        "undone" => vec!["begin", "rollback"],
        "two" => vec!["begin", "begin", slow, "commit", slow, "commit"],
        "cursor" => vec!["select n, pg_sleep(0.0001) from generate_series(1, 300) as n"],
        "within" => vec![
            "begin read only",
            "declare c1 no scroll cursor for select 1 from generate_series(1, 3)",
            "fetch 2 from c1",
            "fetch 2 from c1",
            "close c1",
            "commit",
        ],
        "copies" => vec![
            "copy told from stdin",
            "copy (select n from generate_series(1, 5) as n) to stdout",
        ],
        "copied" => vec![
            "begin",
            "copy told from stdin",
            "copy (select 1) to stdout",
            "commit",
        ],
        "listen" => vec!["listen told"],
        "lines" => vec!["select n from generate_series(1, 1000) as n"],
        "whole" => vec![
            "begin isolation level read committed",
            "select 1",
            "select 2 as it",
            "commit",
        ],
        other => panic!("no {other}"),
    }
}

const NAMES: [&str; 8] = [
    "tx", "undone", "two", "cursor", "within", "copies", "copied", "listen",
];

fn server(postgres: &Postgres, driver: &str) -> Server {
    let url = postgres.url();
    let mut keys = format!(
        "[sql.main]\nurl = \"{url}\"\nacquire_timeout = \"30s\"\ndriver = \"{driver}\"\nconnections_max = {connections}\n\
         [script.script]\nhandler = \"api.mjs\"\nexecutors = 1\nallow = {{ sql = [\"main\"] }}\n[[route]]\npath = \"/script/*\"\nscript = \"script\"\n\
         [[route]]\npath = \"/lines\"\nmethods = [\"GET\"]\nsql = {{ source = \"main\", query = \"select n from generate_series(1, 1000) as n\", result = \"ndjson\" }}\n\
         [[route]]\npath = \"/whole\"\nmethods = [\"GET\"]\nsql = {{ source = \"main\", statements = [\"select 1\", \"select 2 as it\"] }}\n",
        // Enough that one is left for transactions and streams.
        connections = if driver == "async" { 4 } else { 2 },
    );
    keys.extend(["node", "bun"].map(|runtime| {
        format!(
            "[pool.{runtime}]\nhandler = \"api.mjs\"\nruntime = \"{runtime}\"\nsql = [\"main\"]\nworkers = {{ min = 1, max = 1 }}\n\
             [[route]]\npath = \"/{runtime}/*\"\npool = \"{runtime}\"\n"
        )
    }));
    Setup::new(&keys)
        .threads(1)
        .file("api.mjs", HANDLER)
        .admin()
        .start()
}

fn part(span: &Value, name: &str) -> f64 {
    let parts = span["parts"].as_array().expect("it has parts");
    let of_name = parts.iter().filter(|part| part["name"] == name);
    of_name.map(|part| us(part, "took_us")).sum()
}

fn postgres() -> Postgres {
    let postgres = Postgres::start();
    postgres
        .admin()
        .batch_execute("create table told (n int); grant all on told to public")
        .expect("it is made");
    postgres
}

#[test]
fn every_statement_is_told_whoever_runs_it_and_whatever_it_is_part_of() {
    let postgres = postgres();
    for driver in ["async", "blocking"] {
        let server = server(&postgres, driver);
        for who in ["script", "node", "bun"] {
            for name in NAMES {
                let told = explained(&server, &format!("/{who}/{name}"));
                assert_eq!(told["status"], 200, "{who} {name}: {}", server.log());
                assert_told(&told, name);
                let statements = spans(&told, "statement");
                for statement in &statements {
                    let is_slow = statement["detail"]
                        .as_str()
                        .is_some_and(|text| text.contains("slow"));
                    let server_us = part(statement, "send") + part(statement, "server");
                    assert!(!is_slow || server_us >= 19_000.0, "{statement}");
                }
                if name == "two" {
                    let waited = statements.iter().map(|span| part(span, "wait"));
                    assert!(waited.fold(0.0, f64::max) >= 15_000.0, "one waits: {told}");
                }
                // A handler that waits for a statement does not run.
                for running in spans(&told, "running") {
                    let overlaps = |span: &&Value| {
                        us(span, "from_us") + 1.0 < end(running) && us(running, "from_us") + 1.0 < end(span)
                    };
                    assert!(
                        name == "two" || who == "script" || !statements.iter().any(overlaps),
                        "{running} in {told}"
                    );
                }
            }
        }
        for name in ["lines", "whole"] {
            let told = explained(&server, &format!("/{name}"));
            assert_eq!(told["status"], 200, "{name}");
            assert_told(&told, name);
        }
    }
}

fn assert_told(told: &Value, name: &str) {
    assert_adds_up(told);
    let details: Vec<_> = spans(told, "statement")
        .into_iter()
        .map(|span| span["detail"].as_str().expect("a text").to_owned())
        .collect();
    assert_eq!(details, expected(name), "{told}");
    for statement in spans(told, "statement") {
        assert!(part(statement, "server") > 0.0, "{statement}");
    }
}

#[test]
fn every_statement_is_counted_by_its_database() {
    let postgres = postgres();
    let server = server(&postgres, "async");
    let of = |family: &str, label: &str| {
        metric(
            &server,
            &format!("forebay_sql_{family}{{database=\"main\"{label}}}"),
        )
    };
    let mut done = 0;
    let mut rows = 0;
    for (name, given) in [
        ("tx", 6),
        ("undone", 0),
        ("cursor", 300),
        ("within", 3),
        ("copies", 8),
        ("copied", 2),
        ("listen", 0),
        ("lines", 1000),
        // The second statement's row, because the transaction is counted as a whole.
        ("whole", 1),
    ] {
        let who = if ["lines", "whole"].contains(&name) {
            ""
        } else {
            "/node"
        };
        let answer = server.get(&format!("{who}/{name}"));
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        done += if name == "whole" {
            1
        } else {
            expected(name).len() as u64
        };
        rows += given;
        assert_eq!(
            json!([of("statements_total", ",outcome=\"done\""), of("rows_total", "")]),
            json!([done, rows]),
            "{name}"
        );
    }
    assert_eq!(of("execution_seconds_count", ""), done);
    assert_eq!(of("statements_in_flight", ""), 0);
}
