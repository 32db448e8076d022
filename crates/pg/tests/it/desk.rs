//! Operations of handlers.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use forebay_pg::{Desk, Source};
use forebay_testkit::Postgres;
use serde_json::{Value, json};

use crate::rig::{BOTH, PATIENCE, run, settings};

pub(crate) fn desk_of(source: &Source) -> Desk {
    Desk::new(Arc::new(BTreeMap::from([("main".to_owned(), source.clone())])))
}

pub(crate) async fn call(desk: &Desk, operation: Value) -> Value {
    let outcome = desk
        .call(operation.to_string().as_bytes(), Instant::now() + PATIENCE)
        .await;
    serde_json::from_slice(&outcome).unwrap()
}

#[test]
fn each_statement_has_an_outcome_of_its_own() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = Source::new("main", settings(&postgres.url(), driver), 1);
            let desk = desk_of(&source);
            let statements = json!({
                "op": "statements",
                "source": "main",
                "statements": [["select $1::int as a, $2 as b", ["1", null]], ["select 1/0", []], ["select 'x' where false", []]],
            });
            let outcome = call(&desk, statements).await;
            assert_eq!(outcome[0], json!({"rows": [{"a": 1, "b": null}], "count": 1}));
            assert_eq!(
                outcome[1],
                json!({"error": {"message": "division by zero", "code": "22012"}})
            );
            assert_eq!(outcome[2], json!({"rows": [], "count": 0}));
        }
    });
}

#[test]
fn an_operation_that_is_none_is_told_what_is_wrong_with_it() {
    run(async {
        let settings = settings("postgres://nobody@127.0.0.1:1/none", BOTH[0]);
        let desk = desk_of(&Source::new("main", settings, 1));
        for (operation, code, message) in [
            (
                "{\"op\":\"statements\",\"source\":\"other\",\"statements\":[]}",
                "not_allowed",
                "database `other` may not be reached: its `allow` names main",
            ),
            (
                "{\"op\":\"fly\",\"wings\":2}",
                "unknown_operation",
                "there is no operation `fly` on databases",
            ),
            (
                "{\"op\":\"statements\",\"source\":\"main\"}",
                "malformed",
                "missing field `statements`",
            ),
            (
                "{\"op\":\"statements\",\"source\":\"main\",\"statements\":[[1]]}",
                "malformed",
                "invalid type: integer `1`, expected a string at line 1 column 51",
            ),
            (
                "{\"op\":\"statements\",\"source\":\"main\",\"statements\":[],\"x\":1}",
                "malformed",
                "unknown field `x`",
            ),
            ("[", "malformed", "cannot be read"),
            ("", "malformed", "cannot be read"),
            ("\u{ff}", "malformed", "cannot be read"),
        ] {
            let outcome = desk.call(operation.as_bytes(), Instant::now() + PATIENCE).await;
            let outcome: Value = serde_json::from_slice(&outcome).unwrap();
            let error = &outcome["error"];
            assert_eq!(error["code"], code, "{operation}: {outcome}");
            assert!(
                error["message"].as_str().unwrap().contains(message),
                "{operation}: {outcome}"
            );
        }
    });
}
