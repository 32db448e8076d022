//! What rules reach beside their own engine: the store, databases and other systems, each denied until it is configured.

use forebay_testkit::{Postgres, Server, wait_until};
use serde_json::{Value, json};

use crate::{
    sql_handlers::{make, number},
    workflows::{rules, run},
};

/// The values that a workflow has come to.
fn values(server: &Server, name: &str, args: &Value) -> Value {
    let (status, answer) = run(server, &format!("/workflow/{name}"), args);
    assert_eq!(status, 200, "{answer}");
    answer["valueMap"].clone()
}

#[test]
fn rules_read_and_write_the_store_as_far_as_they_are_allowed() {
    let server = rules(
        "allow = { store = [\"Order\"] }\n[store]\npath = \"data\"",
        &[
            (
                "order",
                "const { id, amount } = context.getArgs();
                const sum = store.transaction(() => {
                    store.set('Order', id, { amount });
                    return store.node('Order', 'sum').increment(amount);
                });
                return new ScriptResult(true, { sum: Number(sum) });",
            ),
            (
                "look",
                "return new ScriptResult(true, store.get('Order', context.getArgs().id));",
            ),
            (
                "secret",
                "store.set('Secret', 1, 2); return new ScriptResult(true);",
            ),
        ],
    )
    .start();
    let order = |id: u32| values(&server, "order", &json!({"id": id, "amount": 7}));
    assert_eq!(order(1), json!({"sum": 7}));
    assert_eq!(order(2), json!({"sum": 14}));
    assert_eq!(values(&server, "look", &json!({"id": 2})), json!({"amount": 7}));
    let (status, answer) = run(&server, "/workflow/secret", &json!({}));
    assert_eq!(status, 500);
    let told = answer.to_string();
    assert!(told.contains("may not reach global `Secret`"), "{told}");
}

#[test]
fn rules_ask_databases_and_what_a_run_has_open_ends_with_it() {
    let postgres = Postgres::start();
    make(
        &postgres,
        "create table rule_marks (id int primary key); grant all on rule_marks to public",
    );
    let keys = format!(
        "timeout = \"1s\"\nallow = {{ sql = [\"main\"] }}\n[sql.main]\nurl = \"{}\"",
        postgres.url()
    );
    let server = rules(
        &keys,
        &[
            (
                "mark",
                "return (async () => {
                    const { id } = context.getArgs();
                    const count = await sql.main.tx(async (t) => {
                        await t`insert into rule_marks values (${id})`;
                        return t.value('select count(*)::int from rule_marks');
                    });
                    const ids = [];
                    for await (const row of sql.main.cursor('select id from rule_marks order by id')) ids.push(row.id);
                    return new ScriptResult(true, { count, ids });
                })();",
            ),
            (
                "hang",
                "return sql.main.tx(async (t) => {
                    await t`insert into rule_marks values (99)`;
                    await new Promise(() => {});
                });",
            ),
            ("other", "return sql.other.value('select 1').then((one) => new ScriptResult(true, { one }));"),
        ],
    )
    .start();
    assert_eq!(
        values(&server, "mark", &json!({"id": 1})),
        json!({"count": 1, "ids": [1]})
    );
    let (status, _) = run(&server, "/workflow/hang", &json!({}));
    assert_eq!(status, 504);
    assert_eq!(
        values(&server, "mark", &json!({"id": 2})),
        json!({"count": 2, "ids": [1, 2]})
    );
    wait_until("the transaction of the run is gone", || {
        number(
            &postgres,
            "select count(*) from pg_stat_activity where state like 'idle in transaction%'",
        ) == 0
    });
    let (status, answer) = run(&server, "/workflow/other", &json!({}));
    assert_eq!(status, 500);
    let told = answer.to_string();
    assert!(told.contains("database `other` may not be reached"), "{told}");
}
