use std::{os::unix::fs::symlink, process::Command};

use forebay_testkit::Folder;

use crate::run::{Serving, ended, forebay, node, run, workspace};

#[test]
fn a_new_folder_checks_and_serves_at_once() {
    let folder = Folder::new();
    let ended = run(folder.path(), &["new", "apps/first"]);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    assert!(
        ended.out.ends_with("next: cd apps/first && forebay serve\n"),
        "{}",
        ended.out
    );
    let app = folder.path().join("apps/first");
    assert_eq!(run(&app, &["check"]).code, 0);
    let config = folder.read("apps/first/forebay.toml").unwrap();
    assert!(config.starts_with("#:schema ./forebay.schema.json\n"), "{config}");
    let schema = run(&app, &["check", "--schema"]).out;
    assert_eq!(folder.read("apps/first/forebay.schema.json").unwrap(), schema);
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    assert!(schema["properties"]["route"].is_object());
    let serving = Serving::start(&app, &[]);
    assert_eq!(serving.get("/").text(), "{\"hello\":\"world\"}");
    assert_eq!(serving.get("/hello/ada").text(), "{\"hello\":\"ada\"}");
    assert_eq!(
        serving.get("/local").text(),
        "{\"status\":\"success\",\"result\":\"local\"}"
    );
    let mut client = serving.connect();
    client.post("/sum", b"[1, 2, 3]");
    assert_eq!(client.response().text(), "{\"sum\":6}");
}

#[test]
fn nothing_is_ever_overwritten() {
    let folder = Folder::new();
    folder.write("app/notes.txt", "mine");
    let ended = run(folder.path(), &["new", "app"]);
    assert_eq!(ended.code, 1);
    assert_eq!(
        ended.err,
        "error: app is not empty, and nothing is ever overwritten\n"
    );
    assert_eq!(folder.read("app/notes.txt").unwrap(), "mine");
    assert!(folder.read("app/forebay.toml").is_none());
    folder.write("file", "");
    assert!(
        run(folder.path(), &["new", "file"])
            .err
            .starts_with("error: cannot write to file\n  because: ")
    );
}

#[test]
fn the_folder_one_is_in_will_do_when_it_is_empty() {
    let folder = Folder::new();
    let ended = run(folder.path(), &["new", "."]);
    assert_eq!(ended.code, 0);
    assert!(ended.out.ends_with("next: forebay serve\n"), "{}", ended.out);
    assert!(folder.read("handlers/api.mjs").is_some());
}

#[test]
fn whoever_has_the_command_from_npx_is_told_to_go_on_with_it() {
    let folder = Folder::new();
    let mut command = forebay(folder.path(), &["new", "app"]);
    let ended = ended(&command.env("npm_command", "exec").output().unwrap());
    assert!(
        ended.out.ends_with("next: cd app && npx forebay serve\n"),
        "{}",
        ended.out
    );
}

#[test]
fn a_new_folder_in_python_serves_and_passes_its_test() {
    let folder = Folder::new();
    let made = run(folder.path(), &["new", "app", "--template", "python"]);
    assert_eq!((made.code, made.err.as_str()), (0, ""));
    let app = folder.path().join("app");
    assert_eq!(run(&app, &["check"]).code, 0);
    let serving = Serving::start(&app, &[]);
    assert_eq!(serving.get("/hello/ada").text(), "{\"hello\":\"ada\"}");
    let mut client = serving.connect();
    client.post("/sum", b"[1, 2, 3]");
    assert_eq!(client.response().text(), "{\"sum\":6}");
    client.post("/sum", b"[\"a\"]");
    assert_eq!(client.response().status, 400);

    // In place of `pip install`.
    let python = workspace().join("examples/showcase/.venv/bin/python");
    let mut tests = Command::new(python);
    tests
        .args(["-m", "unittest"])
        .current_dir(&app)
        .env("PYTHONPATH", workspace().join("sdk/python"));
    let output = tests.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("Ran 2 tests"), "{text}");
}

#[test]
fn the_templates_are_listed_with_what_they_are() {
    let folder = Folder::new();
    let ended = run(folder.path(), &["new", "--list"]);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    let names: Vec<_> = ended
        .out
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names, ["api", "typescript", "python", "records"]);
}

#[test]
fn a_new_folder_in_typescript_serves_has_right_types_and_passes_its_test() {
    let folder = Folder::new();
    let ended = run(folder.path(), &["new", "notes", "--template", "typescript"]);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    let app = folder.path().join("notes");
    assert_eq!(run(&app, &["check"]).code, 0);
    let serving = Serving::start(&app, &[]);
    let mut client = serving.connect();
    client.post("/notes", br#"{"text":"Buy milk"}"#);
    assert_eq!(client.response().text(), "{\"id\":1}");
    assert_eq!(serving.get("/notes/1").text(), "{\"text\":\"Buy milk\"}");

    // In place of `npm install`.
    let sdk = workspace().join("sdk/node");
    let modules = app.join("node_modules");
    std::fs::create_dir(&modules).unwrap();
    symlink(&sdk, modules.join("forebay")).unwrap();
    symlink(sdk.join("node_modules/@types"), modules.join("@types")).unwrap();
    let types = sdk.join("node_modules/typescript/bin/tsc");
    let passes = |arguments: &[&str]| {
        let output = Command::new(node())
            .args(arguments)
            .current_dir(&app)
            .output()
            .unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text)
    };
    let (is_right, text) = passes(&[types.to_str().unwrap()]);
    assert!(is_right, "{text}");
    let (passed, text) = passes(&["--test"]);
    assert!(passed && text.contains("pass 2"), "{text}");

    let handler = folder.read("notes/handlers/api.ts").unwrap();
    folder.write(
        "notes/handlers/api.ts",
        handler.replace("params.id", "params.name"),
    );
    let (is_right, text) = passes(&[types.to_str().unwrap()]);
    assert!(!is_right && text.contains("handlers/api.ts"), "{text}");
}

#[test]
fn a_new_folder_of_records_answers_as_its_readme_says() {
    let folder = Folder::new();
    let ended = run(
        folder.path(),
        &[
            "new",
            "library",
            "--template",
            "records",
            "--kinds",
            "Book,Author",
        ],
    );
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    let app = folder.path().join("library");
    assert!(
        folder.read("library/seed.ndjson").is_none(),
        "nothing is known of books"
    );
    assert_eq!(run(&app, &["check"]).code, 0);
    let serving = Serving::start(&app, &[]);
    let readme = folder.read("library/README.md").unwrap();
    let mut asked = Vec::new();
    for line in readme
        .lines()
        .filter_map(|line| line.trim().strip_prefix("curl "))
    {
        let (request, body) = line.split_once(" -d ").unwrap_or((line, ""));
        let body = body.trim_matches(['\'', '"']);
        let (method, url) = match request.strip_prefix("-X ") {
            Some(request) => request.split_once(' ').unwrap(),
            None if body.is_empty() => ("GET", request),
            None => ("POST", request),
        };
        let target = url.strip_prefix("http://127.0.0.1:8080").unwrap();
        let answer = serving.connect().ask(method, target, "", body);
        asked.push((answer.status, answer.text().to_owned()));
    }
    let record =
        "{\"code\":0,\"results\":[{\"id\":1,\"data\":{\"kind\":\"Book\",\"name\":\"A first one\"}}]}";
    let expected = [
        (201, "{\"code\":0,\"ref\":1}"),
        (200, record),
        (200, record),
        (200, "{\"code\":0,\"deleted\":[1]}"),
    ];
    assert_eq!(asked, expected.map(|(status, text)| (status, text.to_owned())));
    for kind in ["Book", "Author"] {
        assert_eq!(serving.get(&format!("/v1/{kind}")).status, 200, "{kind}");
    }
    assert_eq!(serving.get("/v1/Article").status, 404);
}

#[test]
fn the_controller_of_records_moves_to_a_pool_by_the_lines_of_the_readme() {
    let folder = Folder::new();
    assert_eq!(
        run(folder.path(), &["new", "app", "--template", "records"]).code,
        0
    );
    let readme = folder.read("app/README.md").unwrap();
    assert!(
        readme.contains("    [pool.records]\n    handler = \"handlers/records.mjs\"\n"),
        "{readme}"
    );
    let config = folder.read("app/forebay.toml").unwrap();
    let (before, script) = config.split_once("[script.records]").unwrap();
    let (_, routes) = script.split_once("[[route]]").unwrap();
    let pool = "[pool.records]\nhandler = \"handlers/records.mjs\"\n\n[[route]]";
    let moved = format!("{before}{pool}{routes}").replace("script = \"records\"", "pool = \"records\"");
    folder.write("app/forebay.toml", moved);
    let app = folder.path().join("app");
    assert_eq!(run(&app, &["store", "import", "seed.ndjson"]).code, 0);
    let serving = Serving::start(&app, &[]);
    let answer = serving.get("/v1/Person/7");
    assert!(answer.text().contains("Ada Marlow"), "{answer:?}");
}

#[test]
fn kinds_that_cannot_be_are_a_wrong_command_line() {
    let folder = Folder::new();
    for (arguments, error) in [
        (
            ["new", "app", "--template", "records", "--kinds", "A-B"],
            "error: `A-B` cannot be a kind: a name has letters, digits and `_`, and begins with a letter\n",
        ),
        (
            ["new", "app", "--template", "api", "--kinds", "A"],
            "error: --kinds goes with --template records\n",
        ),
    ] {
        let ended = run(folder.path(), &arguments);
        assert_eq!((ended.code, ended.err.as_str()), (2, error));
    }
    assert_eq!(run(folder.path(), &["new"]).code, 2);
    let unknown = run(folder.path(), &["new", "app", "--template", "blog"]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.err.contains("api, typescript, python, records"),
        "{}",
        unknown.err
    );
    assert!(folder.read("app/forebay.toml").is_none());
}
