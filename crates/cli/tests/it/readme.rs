//! The first minute of README.md, as written there.

use forebay_testkit::{Folder, Response, blocks};

use crate::run::{Serving, run, workspace};

/// The blocks of a document that show a terminal: each command, and its output.
fn sessions(document: &str) -> Vec<(String, String)> {
    let commands = blocks(document, "console").into_iter().flat_map(|block| {
        block
            .split("$ ")
            .skip(1)
            .map(|part| part.split_once('\n').unwrap())
    });
    commands
        .map(|(command, printed)| (command.to_owned(), printed.trim().to_owned()))
        .collect()
}

/// The response to a `curl` of README.md.
fn answer_to(serving: &Serving, request: &str) -> Response {
    match request.split_once(" -d ") {
        None => serving.get(request),
        Some((target, body)) => {
            let mut client = serving.connect();
            client.post(target, body.trim_matches('\'').as_bytes());
            client.response()
        }
    }
}

/// The text without the parts that differ from run to run: digits and letters of ids, times and addresses.
fn shape(text: &str) -> String {
    let mut shape = text.split("\"request_id\"").next().unwrap().to_owned();
    shape.retain(|c| !c.is_ascii_digit());
    shape
}

#[test]
fn the_first_minute_goes_as_the_readme_tells_it() {
    let readme = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    let sessions = sessions(readme.split("\n## The store").next().unwrap());
    let folder = Folder::new();
    let made = run(folder.path(), &["new", "app"]);
    assert_eq!(
        (sessions[0].0.as_str(), sessions[0].1.as_str()),
        ("forebay new app", made.out.trim())
    );
    assert_eq!(sessions[1].0, "cd app && forebay serve");
    let found = readme.find("export PATH=\"$PWD/target/release:$PATH\"");
    assert!(
        found.is_some_and(|at| at < readme.find("$ forebay ").unwrap()),
        "README.md uses `forebay` before a shell finds it"
    );
    let app = folder.path().join("app");
    let serving = Serving::start(&app, &[]);
    assert_eq!(shape(&sessions[1].1), shape(serving.printed().trim()));
    let mut asked = 0;
    for (command, printed) in &sessions {
        let Some(request) = command.strip_prefix("curl http://127.0.0.1:8080") else {
            continue;
        };
        let answer = answer_to(&serving, request);
        assert_eq!(shape(answer.text()), shape(printed), "{command}");
        asked += 1;
    }
    assert_eq!(asked, 3);
    let handler = folder.read("app/handlers/api.mjs").unwrap();
    assert!(
        blocks(&readme, "js").contains(&&*handler),
        "README.md shows another handler"
    );
    let status = sessions
        .iter()
        .find(|(command, _)| command == "forebay status")
        .unwrap();
    let headings = |text: &str| -> Vec<String> {
        let lines = text
            .lines()
            .filter(|line| ["POOL", "ROUTE"].iter().any(|word| line.starts_with(word)));
        lines
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    };
    assert_eq!(headings(&status.1), headings(&serving.run(&["status"]).out));
}

#[test]
fn the_store_answers_handlers_and_curl_as_the_readme_says() {
    let readme = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    let block = |kind: &str, begin: &str| {
        let blocks = blocks(&readme, kind);
        blocks.into_iter().find(|block| block.starts_with(begin)).unwrap()
    };
    let folder = Folder::new();
    // At the end of what `forebay new` writes, as the page has it.
    run(folder.path(), &["new", "app"]);
    let scaffold = folder.read("app/forebay.toml").unwrap();
    let blocks = [block("toml", "[store]"), block("toml", "[store.access]")].concat();
    folder.write("app/forebay.toml", format!("{scaffold}\n{blocks}"));
    folder.write(
        "app/handlers/api.mjs",
        block("js", "import { HttpError, router, store }"),
    );
    let serving = Serving::start(&folder.path().join("app"), &[]);
    let shown = sessions(readme.split("\n## The store").nth(1).unwrap());
    assert_eq!(shown.len(), 3);
    for (command, printed) in &shown {
        let request = command.strip_prefix("curl http://127.0.0.1:8080").unwrap();
        assert_eq!(answer_to(&serving, request).text(), printed, "{command}");
    }
    assert_eq!(serving.get("/people/2").status, 404);
}
