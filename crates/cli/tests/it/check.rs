use std::{collections::BTreeSet, ffi::OsString, fmt::Write as _};

use forebay_testkit::{Folder, Postgres};
use serde_json::{Value, json};

use crate::run::{ended, forebay, run};

const CONFIG: &str = r#"
[server]
listen = ["127.0.0.1:${CHECK_PORT:-8080}"]

[pool.api]
command = ["sh", "-c", "exec api --key ${CHECK_SECRET}"]
env = { TOKEN = "${CHECK_SECRET}", PRICE = "5$", PORT = "${CHECK_PORT:-8080}" }

[policy.shared]
headers = { x-answer = "${CHECK_SECRET}" }
request_headers = { x-ask = "by ${CHECK_SECRET}" }

[[route]]
path = "/api"
pool = "api"
headers = { authorization = "Bearer ${CHECK_SECRET}" }

[[route]]
path = "/secret"
respond = { text = "it is ${CHECK_SECRET}, é" }
"#;

#[test]
fn what_is_printed_is_the_whole_configuration_and_reads_back_as_the_same() {
    let folder = Folder::new();
    folder.write("forebay.toml", CONFIG);
    let check = |file: &str| {
        let output = forebay(folder.path(), &["check", "-c", file])
            .env("CHECK_SECRET", "open sesame")
            .output();
        ended(&output.unwrap())
    };
    let first = check("forebay.toml");
    assert_eq!((first.code, first.err.as_str()), (0, ""));
    for line in [
        "listen = [\"127.0.0.1:8080\"]",
        "queue_max = 1024",
        "deadline = \"30s\"",
    ] {
        assert!(first.out.contains(line), "{line} is not in\n{}", first.out);
    }
    folder.write("printed.toml", &first.out);
    assert_eq!(check("printed.toml").out, first.out);
}

#[test]
fn values_of_the_environment_are_printed_by_their_names_where_secrets_may_stand() {
    let folder = Folder::new();
    folder.write("forebay.toml", CONFIG);
    let mut command = forebay(folder.path(), &["check"]);
    let printed = ended(
        &command
            .env("CHECK_SECRET", "open sesame")
            .env("CHECK_PORT", "8090")
            .output()
            .unwrap(),
    )
    .out;
    assert!(!printed.contains("sesame"), "{printed}");
    for line in [
        "listen = [\"127.0.0.1:8090\"]",
        "TOKEN = \"${CHECK_SECRET}\"",
        "PRICE = \"5$$\"",
        "PORT = \"${CHECK_PORT}\"",
        "exec api --key ${CHECK_SECRET}",
        "\"authorization\" = \"Bearer ${CHECK_SECRET}\"",
        "\"x-answer\" = \"${CHECK_SECRET}\"",
        "\"x-ask\" = \"by ${CHECK_SECRET}\"",
        "it is ${CHECK_SECRET}, é",
    ] {
        let bare = line.replace('"', "");
        assert!(
            printed.replace('"', "").contains(&bare),
            "{line} is not in\n{printed}"
        );
    }
}

#[test]
fn a_runtime_that_is_not_installed_is_a_problem_with_its_line() {
    let folder = Folder::new();
    folder.write("api.mjs", "export default () => 1;");
    folder.write(
        "forebay.toml",
        "[pool.api]\nhandler = \"api.mjs\"\nruntime = \"node\"\n",
    );
    let mut command = forebay(folder.path(), &["check"]);
    let ended = ended(
        &command
            .env("PATH", "/nowhere")
            .env_remove("FOREBAY_NODE")
            .output()
            .unwrap(),
    );
    assert_eq!(ended.code, 3);
    assert!(
        ended
            .err
            .contains("forebay.toml:3: pool.api.runtime: node is not installed"),
        "{ended:?}"
    );
    assert_eq!(run(folder.path(), &["check"]).code, 0);
}

/// Writes a configuration with one script for each of these files.
fn write_scripts(folder: &Folder, extra: &str, files: &[(&str, &str)]) {
    let mut config = extra.to_owned();
    for (file, source) in files {
        folder.write(file, source);
        let name = file.split('.').next().unwrap();
        write!(config, "[script.{name}]\nhandler = \"{file}\"\n").unwrap();
        if source.contains("store") {
            config.push_str("allow = { store = [\"*\"] }\n");
        }
        write!(config, "[[route]]\npath = \"/{name}\"\nscript = \"{name}\"\n").unwrap();
    }
    folder.write("forebay.toml", &config);
}

#[test]
fn a_script_that_cannot_be_loaded_is_a_problem_with_its_file_and_line() {
    let folder = Folder::new();
    folder.write(
        "names.ts",
        "export const a = 1;\n  namespace A { export const x = 1 }\n",
    );
    folder.write("broken.js", "const = 3;\n");
    write_scripts(
        &folder,
        "",
        &[
            ("fine.ts", "export default (): number => 1;\n"),
            ("syntax.js", "export default () => {\n  let a = ;\n};\n"),
            (
                "missing.js",
                "// first\nimport { a } from './none.js';\nexport default () => a;\n",
            ),
            (
                "package.js",
                "import a from \"left-pad\";\nexport default () => a;\n",
            ),
            (
                "types.js",
                "import { a } from './names.ts';\nexport default () => a;\n",
            ),
            ("beside.js", "import './broken.js';\nexport default () => 1;\n"),
            (
                "throws.js",
                "function f() {\n  throw new Error('not today');\n}\nf();\nexport default () => 1;\n",
            ),
            (
                "goes-on.js",
                "try { await import('./none.js'); } catch {}\nnull.x;\nexport default () => 1;\n",
            ),
            (
                "hook.js",
                "export const onStart = () => {\n  throw new RangeError('no start');\n};\nexport default () => 1;\n",
            ),
            ("nothing.js", "export const a = 1;\n"),
            (
                "timer.js",
                "\nsetTimeout(() => {}, 1);\nexport default () => 1;\n",
            ),
        ],
    );
    let checked = run(folder.path(), &["check"]);
    assert_eq!((checked.code, checked.out.as_str()), (3, ""));
    let found: Vec<_> = checked
        .err
        .lines()
        .map(|line| line.trim_start_matches("error: "))
        .collect();
    let expected = [
        ("beside.js", "broken.js:1:7: script.beside: SyntaxError: "),
        (
            "goes-on.js",
            "goes-on.js:2:1: script.goes-on: TypeError: cannot read property 'x' of null",
        ),
        ("hook.js", "hook.js:2:"),
        (
            "missing.js",
            "missing.js:2: script.missing: cannot import `./none.js`: No such file",
        ),
        ("nothing.js", "nothing.js: script.nothing: TypeError: "),
        (
            "package.js",
            "package.js:1: script.package: `left-pad` cannot be imported by a script",
        ),
        ("syntax.js", "syntax.js:2:"),
        ("throws.js", "throws.js:2:"),
        (
            "timer.js",
            "timer.js:2:1: script.timer: TypeError: timers, fetches and statements belong to a request",
        ),
        (
            "types.js",
            "names.ts:2:3: script.types: a namespace with values is more than types",
        ),
    ];
    assert_eq!(found.len(), expected.len(), "{checked:?}");
    for (line, (script, start)) in found.iter().zip(expected) {
        let start = format!("{}/{start}", folder.path().display());
        assert!(line.starts_with(&start), "{script}: {line}\nnot {start}");
    }
    assert!(
        checked.err.contains("script.throws: Error: not today"),
        "{checked:?}"
    );
    assert!(
        checked.err.contains("script.hook: RangeError: no start"),
        "{checked:?}"
    );
}

#[test]
fn a_handler_that_cannot_be_loaded_is_a_problem_with_its_file_and_line() {
    let folder = Folder::new();
    let handlers = [
        (
            "fine.ts",
            "node",
            "enum A { B }\nexport default (): number => A.B;\n",
        ),
        ("fine.js", "bun", "module.exports = () => <p>hello</p>;\n"),
        ("fine.cjs", "node", "exports.handler = () => 1;\n"),
        ("forward.mjs", "node", "export { default } from './none.mjs';\n"),
        ("nothing.mjs", "node", "export const onStart = () => 1;\n"),
        ("syntax.mjs", "node", "export default () => {\n  let a = ;\n};\n"),
        ("syntax.js", "bun", "export default () => {\n  let a = ;\n};\n"),
        (
            "types.ts",
            "node",
            "export default () => 1;\n  namespace A { export const x = 1 }\n",
        ),
        (
            "types.mts",
            "bun",
            "export default () => 1;\n  namespace A { export const x = 1 }\n",
        ),
        (
            "fine.py",
            "python",
            "try:\n    from flask import Flask as app\nexcept ImportError:\n    app = None\n",
        ),
        ("syntax.py", "python", "def app(request):\n  return = 1\n"),
    ];
    let mut config = String::new();
    for (file, runtime, source) in handlers {
        folder.write(file, source);
        let name = file.replace('.', "-");
        write!(
            config,
            "[pool.{name}]\nhandler = \"{file}\"\nruntime = \"{runtime}\"\n"
        )
        .unwrap();
    }
    folder.write("forebay.toml", config);
    let expected = [
        "nothing.mjs:1:1: pool.nothing-mjs: exports no handler and does not listen: expected",
        "syntax.js:2:11: pool.syntax-js: SyntaxError: ",
        "syntax.mjs:2:11: pool.syntax-mjs: SyntaxError: ",
        "syntax.py:2:10: pool.syntax-py: SyntaxError: ",
        "types.mts:2:3: pool.types-mts: a namespace with values is more than types",
        "types.ts:2:3: pool.types-ts: a namespace with values is more than types",
    ];
    for command in ["check", "serve"] {
        let refused = run(folder.path(), &[command]);
        assert_eq!(
            (refused.code, refused.out.as_str()),
            (if command == "check" { 3 } else { 1 }, "")
        );
        let lines: Vec<_> = refused
            .err
            .lines()
            .map(|line| line.trim_start_matches("error: "))
            .collect();
        assert_eq!(lines.len(), expected.len(), "{refused:?}");
        for (line, start) in lines.iter().zip(expected) {
            let start = format!("{}/{start}", folder.path().display());
            assert!(line.starts_with(&start), "{line}\nnot {start}");
        }
    }
}

#[test]
fn a_script_that_does_not_end_is_stopped_at_its_time_max() {
    let folder = Folder::new();
    for (source, what) in [
        ("for (;;);", "it is not loaded after 50ms (time_max)"),
        (
            "'a'.repeat(4_000_000).indexOf('a'.repeat(2_000_000) + 'b');",
            "it is not loaded after 50ms (time_max)",
        ),
    ] {
        folder.write("spins.js", source);
        folder.write(
            "forebay.toml",
            "[script.spins]\nhandler = \"spins.js\"\ntime_max = \"50ms\"\n[[route]]\npath = \"/\"\nscript = \"spins\"\n",
        );
        let checked = run(folder.path(), &["check"]);
        assert_eq!(checked.code, 3);
        assert!(
            checked.err.contains("spins.js: script.spins: ") && checked.err.contains(what),
            "{checked:?}"
        );
    }
}

#[test]
fn a_check_opens_no_store_and_says_what_it_has_not_seen_for_that() {
    let folder = Folder::new();
    write_scripts(
        &folder,
        "[store]\n",
        &[
            (
                "later.js",
                "import { store } from 'forebay';\nexport default () => store.get(['a']);\n",
            ),
            (
                "loads.js",
                "import { store } from 'forebay';\nconst a = store.get(['a']);\nexport default () => a.b;\n",
            ),
            (
                "hook.js",
                "import { store } from 'forebay';\nexport const onStart = () => store.set(['a'], 1);\nexport default () => 1;\n",
            ),
        ],
    );
    let before = entries(&folder);
    let checked = run(folder.path(), &["check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let note = |name: &str| {
        format!(
            "note: script `{name}` asks for the store while it is loaded; what it does from there on is not checked\n"
        )
    };
    assert_eq!(checked.err, note("hook") + &note("loads"));
    assert_eq!(entries(&folder), before);
}

/// Names of the entries of a folder.
fn entries(folder: &Folder) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn a_statement_that_its_database_cannot_prepare_is_a_problem_with_its_place() {
    let postgres = Postgres::shared();
    let folder = Folder::new();
    let route = |path: &str, sql: &str| {
        format!("[[route]]\npath = \"{path}\"\nmethods = [\"GET\"]\nsql = {{ source = \"main\", {sql} }}\n")
    };
    let write = |url: &str, routes: &[String]| {
        let database = format!("[sql.main]\nurl = \"{url}\"\n");
        folder.write("forebay.toml", database + &routes.concat());
    };
    let good = route("/a/:id", "query = \"select id from world where id = :id\"");
    write(&postgres.url(), std::slice::from_ref(&good));
    let checked = run(folder.path(), &["check", "--require-databases"]);
    assert_eq!((checked.code, &*checked.err), (0, ""));

    let bad = [
        good.clone(),
        route(
            "/b",
            "query = '''\nselect id\nfrom world where :a::int = 1\nand né = :a'''",
        ),
        route("/c", "statements = [\"select 1\",\n\"selec 2\", \"select 3\"]"),
    ];
    write(&postgres.url(), &bad);
    let checked = run(folder.path(), &["check"]);
    assert_eq!((checked.code, &*checked.out), (3, ""), "{}", checked.err);
    for problem in [
        "forebay.toml:10: route.sql.query: column \"né\" does not exist (SQLSTATE 42703), at line 3, column 5 of the statement",
        "forebay.toml:18: route.sql.statements: syntax error at or near \"selec\" (SQLSTATE 42601), at line 1, column 1 of the statement",
    ] {
        assert!(checked.err.contains(problem), "{problem}\n{}", checked.err);
    }
    assert!(!checked.err.contains(":6:"), "{}", checked.err);

    write("postgres://u:s3cret@127.0.0.1:1/d?sslmode=disable", &[good]);
    let noted = run(folder.path(), &["check"]);
    assert_eq!(noted.code, 0);
    let note = "the statements on database `main` are not checked: cannot connect to";
    assert!(
        noted.err.contains(note) && !noted.err.contains("s3cret"),
        "{}",
        noted.err
    );
    let failed = run(folder.path(), &["check", "--require-databases"]);
    assert_eq!((failed.code, &*failed.out), (4, ""));
    assert!(failed.err.contains(note), "{}", failed.err);
}

#[test]
fn everything_that_is_wrong_with_graphs_and_rules_is_told_with_its_place() {
    let folder = Folder::new();
    folder.write("forebay.toml", "[workflow]\npath = \"flows\"\n");
    folder.write(
        "flows/ring.json",
        r#"{"nodes":[{"@type":"BOOT","id":"0"},{"@type":"PROCESS","id":"1","ruleId":"none"}],"edges":[{"from":"0","to":"1"}]}"#,
    );
    folder.write(
        "flows/sub.json",
        r#"{"nodes":[{"@type":"BOOT","id":"0"},{"@type":"SUBFLOW","id":"1","workflow":"away"}],"edges":[{"from":"0","to":"1"}]}"#,
    );
    folder.write("flows/text.json", "{\n  \"nodes\": [,\n}");
    folder.write("flows/rules/wrong.js", "function process() {\n  return (;\n}");
    let told = run(folder.path(), &["check"]);
    assert_eq!(told.code, 3);
    for part in [
        "flows/ring.json: node `1`: there is no rule `none`",
        "flows/sub.json: node `1`: there is no workflow `away`",
        "flows/text.json:2:13: expected value",
        "flows/rules/wrong.js:2:11: SyntaxError: unexpected token in expression: ';'",
    ] {
        assert!(told.err.contains(part), "{}", told.err);
    }
}

#[test]
fn programs_get_every_problem_with_its_range_and_its_node() {
    let folder = Folder::new();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let problems = || -> (i32, Vec<Value>) {
        let ended = run(folder.path(), &["check", "--json"]);
        let told: Value = serde_json::from_str(&ended.out).unwrap();
        (ended.code, told["problems"].as_array().unwrap().clone())
    };
    folder.write("forebay.toml", "[workflow]\n  \"é\" = 1\npathh = \"flows\"\n");
    let (code, told) = problems();
    let texts = [&told[0]["message"], &told[1]["message"]];
    assert!(texts[1].to_string().contains("did you mean `path`?"), "{told:?}");
    let config = file("forebay.toml");
    assert_eq!(
        (code, &told[..]),
        (
            3,
            &[
                json!({"severity": "error", "file": config, "line": 2, "column": 4, "end_column": 5, "key": "workflow.é", "message": texts[0]}),
                json!({"severity": "error", "file": config, "line": 3, "column": 1, "end_column": 6, "key": "workflow.pathh", "suggestion": "path", "message": texts[1]}),
            ][..]
        )
    );

    folder.write("api.mjs", "export default () => {");
    folder.write(
        "forebay.toml",
        "[pool.api]\nhandler = \"api.mjs\"\n\n[workflow]\npath = \"flows\"\n",
    );
    let graph = "{\"nodes\":[{\"@type\":\"BOOT\",\"id\":\"0\"},\n  {\"ruleId\":\"none\", \"name\":\"1\", \"@type\":\"PROCESS\",\"id\" : \"1\"}],\n\"edges\":[{\"from\":\"0\",\"to\":\"1\"}]}";
    folder.write("flows/graph.json", graph);
    folder.write("flows/rules/wrong.js", "function process() {\n  return (;\n}");
    let (code, mut told) = problems();
    assert_eq!(code, 3);
    told.sort_by_key(|problem| problem["file"].to_string());
    let missing = "node `1`: there is no rule `none`";
    let syntax = told[2]["message"].clone();
    assert_eq!(told[0]["file"], json!(file("api.mjs")), "{told:?}");
    assert_eq!(
        told[1..],
        [
            json!({"severity": "error", "file": file("flows/graph.json"), "line": 2, "column": 58, "end_column": 61, "node": "1", "message": missing}),
            json!({"severity": "error", "file": file("flows/rules/wrong.js"), "line": 2, "column": 11, "message": syntax}),
        ]
    );

    folder.write("api.mjs", "export default () => 1;");
    folder.write(
        "flows/graph.json",
        graph.replace("\"ruleId\":\"none\"", "\"ruleId\":\"right\", \"timeOutMs\": 1"),
    );
    folder.write("flows/rules/right.js", "function process() {}");
    std::fs::remove_file(folder.path().join("flows/rules/wrong.js")).unwrap();
    let (code, told) = problems();
    let found: Vec<_> = told
        .iter()
        .map(|problem| (&problem["severity"], &problem["line"]))
        .collect();
    assert_eq!(
        (code, found),
        (0, vec![(&json!("warning"), &json!(2))]),
        "{told:?}"
    );
}
