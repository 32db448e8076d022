//! `forebay workflow import` of a script for the shell of `MongoDB`, such as the one with which a Rengine is set up.

use forebay_testkit::Folder;
use serde_json::{Value, json};

use crate::run::{Ended, run};

const CONFIG: &str = "[store]\npath = \"data\"\n[workflow]\nstore = \"Workflow\"\ncompat = \"rengine\"\n";

/// Written as tools export collections: each in a transaction, one document at a time.
const SEED: &str = r#"/*
 Source Schema : shop
*/
db.getCollection("sys_roles").drop();
db.createCollection("sys_roles");
session = db.getMongo().startSession();
session.startTransaction();
db = session.getDatabase("shop");
db.getCollection("sys_roles").insert([ { _id: NumberLong("1"), nameEn: "admin", updateDate: ISODate("2023-01-02T03:04:05.006Z") } ]);
session.commitTransaction(); session.endSession();

db.getCollection("re_sceneses").drop();
db.createCollection("re_sceneses");
session = db.getMongo().startSession();
session.startTransaction();
db = session.getDatabase("shop");
db.getCollection("re_sceneses").insert([ {
    _id: NumberLong("62208697108652460"), scenesCode: "hello", enable: NumberInt("1"), delFlag: NumberInt("0")
} ]);
db.getCollection("re_sceneses").insert([ { _id: NumberLong("62208697108652461"), scenesCode: "orphan", enable: NumberInt("1"), delFlag: NumberInt("0") } ]);
db.getCollection("re_sceneses").insert([ { _id: NumberLong("62208697108652462"), scenesCode: "lacking", enable: NumberInt("1"), delFlag: NumberInt("0") } ]);
session.commitTransaction(); session.endSession();

db.re_workflows.insertMany([
    { _id: NumberLong("11"), scenesId: NumberLong("62208697108652460"), engine: "STANDARD_GRAPH", enable: 1, delFlag: 0 },
    { _id: NumberLong("12"), scenesId: NumberLong("62208697108652462"), engine: "STANDARD_GRAPH", enable: 1, delFlag: 0 },
]);
for (const workflow of [11, 12]) {
  db.re_workflow_graphs.insertOne({
    _id: new NumberLong(100 + workflow), workflowId: NumberLong(workflow), revision: NumberInt(1), enable: 1, delFlag: 0,
    details: {
      engine: "STANDARD_GRAPH",
      nodes: [{ "@type": "BOOT", id: "0" }, { "@type": "PROCESS", id: "1", ruleId: NumberLong(workflow === 11 ? "31" : "32") }],
      edges: [{ name: "e", from: "0", to: "1" }],
    },
    attributes: { unit: "points" },
  });
}
db.getCollection("re_rules").insert([ { _id: NumberLong("31"), nameEn: "greet", engine: "JS", enable: 1, delFlag: 0 } ]);
db.getCollection("re_rules").insert([ { _id: NumberLong("32"), nameEn: "lost", engine: "JS", enable: 1, delFlag: 0 } ]);
db.getCollection("re_rule_scripts").insert([ { _id: NumberLong("41"), ruleId: NumberLong("31"), revision: 1, entrypointUploadId: NumberLong("51"), uploadIds: [NumberLong("51")], enable: 1, delFlag: 0 } ]);
db.getCollection("sys_uploads").insert([ { _id: NumberLong("51"), uploadType: "LIBJS", objectPrefix: "libjs/0/greet/greet-v1.js", filename: "greet", extension: ".js", enable: 1, delFlag: 0 } ]);
"#;

fn workflow(folder: &Folder, words: &[&str]) -> Ended {
    run(folder.path(), &[&["workflow"], words].concat())
}

fn seeded(seed: &str) -> Folder {
    let folder = Folder::new();
    folder.write("forebay.toml", CONFIG);
    folder.write("seed.js", seed);
    // A folder of scripts alone, without the type of the upload.
    folder.write(
        "scripts/0/greet/greet-v1.js",
        "function process(context) {\n  return new ScriptResult(true, { hello: context.getParameter().getArgs().name });\n}\n",
    );
    folder
}

#[test]
fn the_script_is_imported_as_it_is_and_what_it_lacks_is_named() {
    let folder = seeded(SEED);
    let ended = workflow(&folder, &["import", "seed.js", "--files", "scripts", "--json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(
        (&told["workflows"], &told["files"]),
        (&json!(["hello"]), &json!(2))
    );
    let left_out: Vec<(&str, &str)> = told["leftOut"]
        .as_array()
        .unwrap()
        .iter()
        .map(|left| {
            (
                left["document"].as_str().unwrap(),
                left["reason"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        left_out,
        [
            (
                "re_sceneses 62208697108652461 (orphan)",
                "no workflow belongs to it"
            ),
            ("re_rules 32 (lost)", "it has no script"),
            ("lacking.json", "node `1`: there is no rule `32`"),
        ]
    );
    let ended = workflow(
        &folder,
        &["run", "hello", "--release", "1", "--args", "{\"name\":\"ada\"}"],
    );
    assert_eq!(
        (ended.code, &*ended.out),
        (0, "{\"state\":true,\"valueMap\":{\"hello\":\"ada\"}}\n"),
        "{ended:?}"
    );
    let ended = workflow(&folder, &["import", "seed.js"]);
    assert_eq!(ended.code, 1);
    assert!(
        ended.err.contains("there is no workflow among these files"),
        "{}",
        ended.err
    );
}

#[test]
fn a_script_that_does_something_else_is_an_error_with_its_line_and_reaches_nothing() {
    for (seed, parts) in [
        (
            "db.a.insert([]);\ndb.a.updateMany({}, {});\n",
            &[
                "seed.js:2:",
                "db.a.updateMany is unknown here; known: drop, insert",
            ][..],
        ),
        ("db.a.insert([]);\nconst = 1;\n", &["seed.js:2:"]),
        (
            "const all = [];\nfor (;;) all.push('x'.repeat(1 << 20) + all.length);\n",
            &["memory"],
        ),
        (
            "store.set('Order', 'n', 1);\n",
            &["seed.js:1:", "names no global in `store`"],
        ),
        (
            "db.getCollection('other').insert([{}]);\n",
            &["it is no object with the collections re_sceneses"],
        ),
    ] {
        let folder = seeded(seed);
        let ended = workflow(&folder, &["import", "seed.js"]);
        assert_ne!(ended.code, 0, "{seed}");
        for part in parts {
            assert!(ended.err.contains(part), "{seed}: {part}: {}", ended.err);
        }
        let list = workflow(&folder, &["list", "--json"]);
        assert!(list.out.contains("\"releases\":[]"), "{list:?}");
    }
}
