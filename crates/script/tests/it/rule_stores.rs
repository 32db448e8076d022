//! The store in rules: apart from values, no change that a run makes to the store's objects is visible to another run.

#![allow(clippy::unwrap_used, reason = "tests")]

use forebay_script::{Allow, Limits, Program, StoreOptions};
use forebay_store::Store;
use serde_json::json;

use crate::{
    rules::Rules,
    scripts::{LIMITS, options_of},
};

/// A single engine that may access these globals of a store.
fn rules(globals: &[&str]) -> (Rules, Store, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        executors: 1,
        engines_max: 1,
        ..LIMITS
    };
    let allow = Allow {
        store: globals.iter().map(|&global| global.to_owned()).collect(),
        ..Allow::default()
    };
    let mut options = options_of(Program::Rules, limits, allow);
    let store = StoreOptions {
        folder: folder.path().join("data"),
        options: forebay_store::Options::default(),
        records: forebay_records::Settings::default().to_text(),
    };
    let open = Store::open(&store.folder, &store.options).unwrap();
    options.store = Some(store);
    (Rules::of(options), open, folder)
}

fn rule(body: &str) -> String {
    format!("function process(context) {{ {body} }}")
}

#[tokio::test]
async fn rules_read_and_write_the_globals_that_are_allowed() {
    let (rules, _store, _folder) = rules(&["Person"]);
    let write = rule(
        "store.set('Person', 1, { name: 'Ada' });
        const id = store.transaction(() => store.node('Person', 'next').increment(5));
        return new ScriptResult(true, { id: Number(id) });",
    );
    let read = rule(
        "return new ScriptResult(true, { name: store.get('Person', 1, 'name'), next: store.get('Person', 'next') });",
    );
    let answer = rules.run(&[&write]).await.unwrap();
    assert_eq!(answer["values"], json!({"id": 5}));
    let answer = rules.run(&[&read]).await.unwrap();
    assert_eq!(answer["values"], json!({"name": "Ada", "next": 5}));
    let refused = rules.failure(&rule("store.get('Secret', 1);")).await;
    assert!(
        refused.contains("`[workflow]` may not reach global `Secret`: its `allow` does not name it"),
        "{refused}"
    );
    let refused = rules.failure(&rule("sql.main.query('select 1');")).await;
    assert!(!refused.is_empty());
}

#[tokio::test]
async fn what_a_run_does_to_the_store_itself_is_not_there_for_the_next() {
    let (rules, _store, _folder) = rules(&["*"]);
    let look = rule(
        "const found = [];
        const see = (name, is) => { if (is) found.push(name); };
        const node = store.node('A', 1);
        // The path that was asked for last ends at this byte of the memory that is shared with the server.
        try { see('path', store.native.get(48) !== undefined); } catch {}
        const all = [store, node, store.native, store.native.get, node.constructor, store.constructor, Object.getPrototypeOf(store.query('none')), sql, store.globals];
        see('changed', all.some((each) => 'left' in each));
        see('transaction', store.native.level() > 0);
        see('closed', store.get('A', 1) !== undefined);
        try { store.native.commit(-1); see('commit', true); } catch {}
        see('lock', !store.node('A', 'lock').lock(0));
        return new ScriptResult(true, { found });",
    );
    for left in [
        "store.left = 1; store.native.left = 1; store.native.get.left = 1",
        "store.constructor.prototype.left = 1; store.node('A').constructor.prototype.left = 1; sql.left = 1",
        "Object.getPrototypeOf(store.query('none')).left = 1; store.globals.left = 1",
        "store.native.get = () => 1",
        "store.native.begin(0)",
        "store.native.begin(1)",
        "store.native.beginSnapshot()",
        "store.native.begin(1); store.native.commit(-1)",
        "store.close(); store.close()",
        "try { store.native.close(); } catch {}",
        "store.set('A', 'a subscript of thirty-five letters.', 1)",
        "store.node('A', 'lock').lock()",
        "store.transaction(() => { store.set('A', 1, 2); throw new Error('left'); })",
        "store.snapshot(() => { throw new Error('left'); })",
    ] {
        drop(
            rules
                .run(&[&rule(&format!("{left}; return new ScriptResult(true);"))])
                .await,
        );
        let answer = rules.run(&[&look]).await.unwrap();
        assert_eq!(answer["values"]["found"], json!([]), "{left}: {answer}");
    }
}

#[tokio::test]
async fn rules_that_may_reach_no_store_and_no_database_are_told_so() {
    let rules = Rules::of(options_of(Program::Rules, LIMITS, Allow::default()));
    for (body, told) in [
        (
            "store.get('A')",
            "`store`: `allow` of `[workflow]` names no global in `store`",
        ),
        (
            "sql.main.query('select 1')",
            "`sql`: `allow` of `[workflow]` names no database in `sql`",
        ),
    ] {
        let failure = rules.failure(&rule(body)).await;
        assert!(failure.contains(told), "{failure}");
    }
}
