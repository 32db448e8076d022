//! Modules that rules and functions of decisions require, and custom nodes of decisions.

use forebay_testkit::{Server, Setup};
use serde_json::{Value, json};

use crate::workflows::{rules, run};

/// The values that a workflow returns without arguments.
fn values(server: &Server, name: &str) -> Value {
    let (status, answer) = run(server, &format!("/workflow/{name}"), &json!({}));
    assert_eq!(status, 200, "{answer}");
    answer["valueMap"].clone()
}

/// Adds these files, by their paths among those of workflows.
fn with(setup: Setup, files: &[(&str, &str)]) -> Setup {
    files.iter().fold(setup, |setup, (path, text)| {
        setup.file(&format!("flows/{path}"), text)
    })
}

/// A decision with this one node between its input and its output.
pub(crate) fn decision(node: &Value) -> String {
    let mut node = node.clone();
    node["id"] = json!("it");
    node["name"] = json!("it");
    json!({
        "nodes": [{"id": "in", "name": "in", "type": "inputNode"}, node, {"id": "out", "name": "out", "type": "outputNode"}],
        "edges": [{"id": "1", "sourceId": "in", "targetId": "it"}, {"id": "2", "sourceId": "it", "targetId": "out"}],
    })
    .to_string()
}

const COUNTER: &str =
    "let count = 0;\nexports.next = () => ++count;\nexports.seen = [];\nmodule.exports.name = 'counter';\n";

#[test]
fn rules_require_modules_and_modules_others() {
    let all = "const { twice } = require('./lib.js');
        const again = require('lib');
        const shapes = require(`shapes`);
        return new ScriptResult(true, { twice: twice(4), same: again.twice === twice, area: shapes.square.area(3), own: typeof exports, first: require('first').name() });";
    let setup = rules("", &[("all", all)]).file("flows/imports.json", graph("imports"));
    let server = with(
        setup,
        &[
            ("modules/lib.js", "exports.twice = (n) => 2 * n;\n"),
            ("modules/shapes/index.ts", "import { area } from './square';\nmodule.exports = { square: { area } };\n"),
            ("modules/shapes/square.ts", "import lib, { twice } from '../lib.js';\nexports.area = (n: number): number => lib.twice(n) * n / twice(1);\n"),
            // Each requires the other.
            ("modules/first.js", "exports.name = () => 'first of ' + require('./second').name();\n"),
            ("modules/second.js", "const first = require('first');\nexports.name = () => 'second, ' + typeof first.name;\n"),
            (
                "rules/imports.ts",
                "import lib from 'lib';\nimport * as whole from './lib.js';\nimport {\n  twice as double,\n} from \"lib\";\nimport 'shapes';\n\nfunction process(context: ScriptContext): ScriptResult {\n  return new ScriptResult(true, { all: [lib.twice(1), whole.twice(2), double(3)] });\n}\n",
            ),
        ],
    )
    .start();
    let right = json!({"twice": 8, "same": true, "area": 9, "own": "undefined", "first": "first of second, function"});
    for _ in 0..2 {
        assert_eq!(values(&server, "all"), right);
        assert_eq!(values(&server, "imports"), json!({"all": [2, 4, 6]}));
    }
}

/// A graph of one rule.
fn graph(rule: &str) -> String {
    json!({"nodes": [{"@type": "BOOT", "id": "0"}, {"@type": "RUN", "id": "1", "ruleId": rule}], "edges": [{"from": "0", "to": "1"}]})
        .to_string()
}

#[test]
fn what_a_run_changes_in_a_module_no_other_run_sees() {
    let counts = "const counter = require('counter');
        counter.seen.push(counter.next());
        counter.left = (counter.left ?? 0) + 1;
        require('counter').next.own = 1;
        return new ScriptResult(true, { count: require('./counter.js').next(), seen: counter.seen, left: counter.left, name: counter.name });";
    let keys = "executors = 1\nengines_max = 1";
    let server = with(
        rules(keys, &[("counts", counts)]),
        &[("modules/counter.js", COUNTER)],
    )
    .start();
    for _ in 0..3 {
        let right = json!({"count": 2, "seen": [1], "left": 1, "name": "counter"});
        assert_eq!(values(&server, "counts"), right);
    }
}

#[test]
fn a_module_fails_where_it_stands_and_is_not_kept() {
    let tries = "const told = [];
        for (let n = 0; n < 2; n++) try { require('broken'); } catch (error) { told.push(error.message); }
        for (const name of ['no' + 'ne', '../lib', 'a/../../lib', '', 7, 'index.json']) try { require(name); } catch (error) { told.push(error.message.split(': modules')[0]); }
        return new ScriptResult(true, { told });";
    let setup = rules(
        "",
        &[("tries", tries), ("fails", "return require('lib').fail();")],
    );
    let server = with(
        setup,
        &[
            (
                "modules/lib.js",
                "\nexports.fail = () => {\n  throw new Error('no');\n};\n",
            ),
            (
                "modules/broken.js",
                "globalThis.times = (globalThis.times ?? 0) + 1;\nthrow new Error('broken ' + times);\n",
            ),
        ],
    )
    .start();
    let none = |name: &str| format!("require(\"{name}\"): there is no module `{name}`");
    let told = [
        "broken 1".to_owned(),
        "broken 2".to_owned(),
        none("none"),
        none("../lib"),
        none("a/../../lib"),
        none(""),
        "require takes the name of a module, not number".to_owned(),
        none("index.json"),
    ];
    assert_eq!(values(&server, "tries"), json!({"told": told}));
    let (status, answer) = run(&server, "/workflow/fails", &json!({}));
    assert_eq!(
        (status, &answer["detail"]),
        (500, &json!("node `1` failed: Error: no"))
    );
    server.wait_for_log(&["modules/lib.js:3:"]);
}

#[test]
fn modules_that_are_not_there_or_cannot_be_read_are_named_by_a_check() {
    let function = json!({"type": "functionNode", "content": {"source": "import a from 'a';\nimport luxon from 'luxon';\nexport const handler = () => a;\n"}});
    let custom = json!({"type": "customNode", "content": {"kind": "score"}});
    let server = rules("", &[("good", "return new ScriptResult(true);")])
        .file("flows/modules/a.js", "exports.a = 1;\n")
        .start();
    let files = [
        (
            "rules/bad.js",
            "// require('x')\nconst b = require('b');\nfunction process() { return require('./a').c; }\n"
                .to_owned(),
            "rules/bad.js:2: there is no module `b`",
        ),
        (
            "modules/c.js",
            "const a = require('./a');\nconst d = require('../d');\n".to_owned(),
            "modules/c.js:2: there is no module `../d`",
        ),
        ("modules/e.js", "exports.e = ;\n".to_owned(), "modules/e.js:1"),
        (
            "modules/f.js",
            "exports.f = 1;\n}); globalThis.x = 1; (() => {\n".to_owned(),
            "modules/f.js:2",
        ),
        (
            "modules/a.ts",
            "exports.a = 2;\n".to_owned(),
            "`a` is there twice",
        ),
        (
            "function.json",
            decision(&function),
            "function.json: node `it`:2: there is no module `luxon`",
        ),
        (
            "custom.json",
            decision(&custom),
            "node `it`: there is no `nodes/score.js` for its kind",
        ),
        (
            "nodes/g.js",
            "export const handler = ({ input }) => require('h');\n".to_owned(),
            "nodes/g.js:1: there is no module `h`",
        ),
    ];
    for (path, text, told) in files {
        assert!(server.command(&["check"]).status.success(), "before {path}");
        let file = format!("flows/{path}");
        server.folder().write(&file, text);
        let checked = server.command(&["check"]);
        let errors =
            String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
        assert!(
            !checked.status.success() && errors.contains(told),
            "{path}: {errors}"
        );
        std::fs::remove_file(server.folder().path().join(file)).unwrap();
    }
}

#[test]
fn functions_of_decisions_import_modules_and_custom_nodes_are_rules_of_their_own() {
    let function = json!({"type": "functionNode", "content": {"source": "import { twice } from 'lib';\nexport const handler = async (input: { n: number }) => ({ n: twice(input.n) });\n"}});
    let custom = json!({"type": "customNode", "content": {"kind": "add", "config": {"by": 5}}});
    let server = with(
        rules("", &[("good", "return new ScriptResult(true);")]),
        &[
            ("modules/lib.js", "exports.twice = (n) => 2 * n;\n"),
            ("nodes/add.ts", "import { twice } from 'lib';\n\nlet calls = 0;\n\nexport const handler = async ({ input, config }: { input: { n: number }; config: { by: number } }) => {\n  if (input.n < 0) throw new RangeError('below 0');\n  return { n: twice(input.n) + config.by, calls: ++calls };\n};\n"),
            ("function.json", &decision(&function)),
            ("custom.json", &decision(&custom)),
        ],
    )
    .start();
    for (name, n, right) in [
        ("function", 4, json!({"n": 8})),
        ("custom", 4, json!({"n": 13, "calls": 1})),
        ("custom", 5, json!({"n": 15, "calls": 1})),
    ] {
        let (status, answer) = run(&server, &format!("/workflow/{name}"), &json!({"n": n}));
        assert_eq!((status, &answer["result"]), (200, &right), "{answer}");
    }
    let (status, answer) = run(&server, "/workflow/custom", &json!({"n": -1}));
    assert_eq!(status, 500);
    assert_eq!(answer["detail"], "node `it` failed: RangeError: below 0");
}

#[test]
fn rules_import_nothing_while_they_run() {
    let import = "const load = context.getArgs().evaluated ? new Function('name', 'return import(name)') : (name) => import(name);
        return load(context.getArgs().name).then(
            (module) => { module.HttpError ? (module.HttpError.leak = 'A') : 0; return new ScriptResult(true, { found: JSON.stringify(module), leak: module.HttpError?.leak }); },
            (error) => new ScriptResult(true, { error: `${error.message}\\n${error.stack}` }));";
    let setup = rules("memory_max = \"32MiB\"\ntimeout = \"3s\"", &[("import", import)]);
    let setup = with(setup, &[("modules/lib.js", "exports.a = 1;\n")])
        .file("secret.json", r#"{"password": "hunter2"}"#);
    let secret = setup.folder().path().join("secret.json");
    let server = setup.start();
    let path = secret.to_str().unwrap();
    for name in [
        path,
        "/dev/zero",
        "../secret.json",
        "sdk:dist/rules/main.js",
        "sdk:dist/script/main.js",
        "./modules/lib.js",
        "lib",
        "forebay",
        "forebay/rules",
        "",
    ] {
        for evaluated in [false, true] {
            let (status, answer) = run(
                &server,
                "/workflow/import",
                &json!({"name": name, "evaluated": evaluated}),
            );
            assert_eq!(status, 200, "{name}: {answer}");
            let error = answer["valueMap"]["error"]
                .as_str()
                .unwrap_or_else(|| panic!("{name}: {answer}"));
            assert!(
                error.contains("`require`") && !error.contains("hunter2"),
                "{name}: {error}"
            );
        }
    }
}
