//! Calls of controllers to the server.

use forebay_testkit::{Client, Response, Setup, wait_until};
use serde_json::{Value, json};

use super::Dialect;
use crate::{store::turns::fill, support::metric};

/// Has the server execute the request's body.
const ASKING: &str = "import { callTql } from 'forebay/stdio';\n\
    export default async (request) => callTql(await request.json());\n";

/// Pools of that handler which may write, only read, or do neither.
fn asking(dialect: Dialect, keys: &str) -> Setup {
    let name = dialect.name();
    let pools = ["rw", "ro", "none"].map(|mode| {
        format!(
            "[pool.{mode}]\nhandler = \"asking.mjs\"\nprotocol = \"{name}\"\nstore = \"{mode}\"\nconcurrency = 8\n\
             workers = {{ min = 1, max = 2 }}\n{keys}\n[[route]]\npath = \"/{mode}\"\npool = \"{mode}\"\n"
        )
    });
    Setup::new(&format!("[store]\npath = \"data\"\n{}", pools.concat())).file("asking.mjs", ASKING)
}

fn ask(client: &mut Client, path: &str, statement: &Value) -> Response {
    client.post(path, statement.to_string().as_bytes());
    client.response()
}

#[test]
fn a_controller_asks_the_store_in_the_middle_of_a_request() {
    for dialect in Dialect::BOTH {
        let server = asking(dialect, "").start();
        let mut client = server.connect();
        let mut ask = |path: &str, statement: Value| {
            let answer = ask(&mut client, path, &statement);
            (answer.status, answer.json())
        };
        let note = json!({"kind": "Note", "title": "tea", "price": 2});
        let (_, made) = ask("/rw", json!({"insert": note}));
        assert_eq!(made["code"], 0, "{made}");
        let reference = made["ref"].clone();
        for path in ["/rw", "/ro"] {
            let (status, found) = ask(path, json!({"where": reference, "select": "$"}));
            assert_eq!(
                (status, &found),
                (200, &json!({"code": 0, "results": [note]})),
                "{path}"
            );
        }
        let (_, friendly) = ask("/ro", json!("where eq(title 'tea') select $ref"));
        assert_eq!(friendly, json!({"code": 0, "results": [reference]}));
        // A rejection by the store is returned with the code that WABuR defines.
        let twice = json!({"where": ["EQ", "title", "'tea"], "insert": note});
        let (status, refused) = ask("/rw", twice);
        assert_eq!(refused["code"], 17, "{refused}");
        let expected = if dialect == Dialect::Wabur { 409 } else { 200 };
        assert_eq!(
            status, expected,
            "a code has a status where the protocol has codes"
        );
        for (path, statement, error) in [
            ("/ro", json!({"insert": note}), "for reading only"),
            ("/none", json!({"select": "$"}), "this pool has no store"),
            ("/rw", json!({"where": ["ÄQ", 1]}), ""),
            ("/rw", json!(7), ""),
        ] {
            let (_, refused) = ask(path, statement);
            assert_eq!(refused["code"], -1, "{path}: {refused}");
            let text = refused["error"].as_str().expect("a text");
            assert!(text.contains(error), "{path}: {text}");
        }
    }
}

#[test]
fn calls_of_many_requests_at_a_time_each_get_their_own_result() {
    for dialect in Dialect::BOTH {
        let server = asking(dialect, "").start();
        let references: Vec<Value> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|number| {
                    let server = &server;
                    scope.spawn(move || {
                        let mut client = server.connect();
                        let each = |turn| {
                            let name = format!("{number}.{turn}");
                            let made = ask(
                                &mut client,
                                "/rw",
                                &json!({"insert": {"kind": "Note", "name": name}}),
                            );
                            let reference = made.json()["ref"].clone();
                            let statement = json!({"where": reference, "select": "name"});
                            let found = ask(&mut client, "/rw", &statement).json();
                            assert_eq!(found["results"], json!([name]), "{found}");
                            reference
                        };
                        (0..50).map(each).collect::<Vec<_>>()
                    })
                })
                .collect();
            clients
                .into_iter()
                .flat_map(|client| client.join().expect("a client does not panic"))
                .collect()
        });
        let mut distinct: Vec<_> = references.iter().map(Value::as_u64).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 400, "each was made once");
    }
}

#[test]
fn a_call_is_answered_while_requests_are_under_way() {
    for dialect in Dialect::BOTH {
        let server = dialect
            .odd("workers = { min = 1, max = 1 }\nconcurrency = 8")
            .start();
        let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
        for _ in 0..5 {
            for client in &mut clients {
                client.request("GET", "/call");
            }
            for client in &mut clients {
                let answer = client.response();
                let (code, error) = (&answer.json()["code"], &answer.json()["error"]);
                assert_eq!(
                    (code.as_i64(), error.as_str()),
                    (Some(-1), Some("this server answers no calls"))
                );
            }
        }
    }
}

#[test]
fn a_long_record_comes_whole_or_not_at_all() {
    for dialect in Dialect::BOTH {
        let server = asking(dialect, "message_bytes_max = \"1MiB\"").start();
        let list =
            |length: usize| format!(r#"{{"kind":"Note","list":{:?}}}"#, vec![7; length]).replace(' ', "");
        let (long, too_long) = (list(200_000), list(600_000));
        let record = |reference: &str, document: &str| ("Note", reference.to_owned(), document.to_owned());
        fill(&server, [record("1", &long), record("2", &too_long)]);
        let mut client = server.connect();
        let mut ask = |reference: u64| {
            let call = format!(r#"{{"record":{reference},"kind":"Note"}}"#);
            client.post("/ro", call.as_bytes());
            client.response()
        };
        let found = ask(1);
        assert!(
            found.text().ends_with(&format!("\"results\":[{long}]}}")),
            "{}",
            found.status
        );
        let refused = ask(2).json();
        assert!(
            refused["error"]
                .as_str()
                .is_some_and(|error| error.contains("message_bytes_max")),
            "{refused}"
        );
        assert_eq!(ask(3).json()["results"], json!([]));
    }
}

#[test]
fn what_a_worker_has_written_is_done_though_it_ends_without_waiting_for_it() {
    let config = "[store]\npath = \"data\"\n[store.access]\nNote = { read = \"public\" }\n[pool.api]\ncommand = [\"sh\", \"write.sh\"]\nprotocol = \"jsonl\"\n\
        workers = { min = 1, max = 1 }\n[[route]]\npath = \"/write\"\npool = \"api\"\n[[route]]\npath = \"/tql\"\ntql = {}\n";
    let script = r#"read -r request; calls=; i=0
        while [ $i -lt 200 ]; do calls="$calls"'{"call":'$i',"tql":{"insert":{"kind":"Note"}}}
'; i=$((i + 1)); done
        printf %s "$calls"
    "#;
    let server = Setup::new(config).file("write.sh", script).start();
    assert_eq!(server.get("/write").status, 502);
    let mut client = server.connect();
    wait_until("all records to be there", || {
        let all = json!({"where": ["EQ", "kind", "'Note"], "select": "$ref"});
        let found = ask(&mut client, "/tql", &all).json();
        found["results"]
            .as_array()
            .is_some_and(|found| found.len() == 200)
    });
}

#[test]
fn a_controller_that_calls_and_never_listens_is_stopped() {
    for dialect in Dialect::BOTH {
        let server = dialect
            .odd("workers = { min = 1, max = 1 }\nmessage_bytes_max = \"64KiB\"")
            .start();
        assert_eq!(server.get("/calls").status, 502);
        server.wait_for_log(&["does not read the answers to its calls", "\"worker\":1"]);
        wait_until("its end to be counted", || {
            metric(
                &server,
                "forebay_pool_workers_ended_total{pool=\"api\",cause=\"protocol\"}",
            ) == 1
        });
        assert_eq!(server.post("/echo", b"1").status, 200);
    }
}
