//! The first minute of README.md, as it is written there.

use forebay_testkit::Folder;

use crate::run::{Serving, run, workspace};

/// The blocks of a document that show a terminal: each command, and what it printed.
fn sessions(document: &str) -> Vec<(String, String)> {
    let blocks = document
        .split("```console\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap());
    let commands = blocks.flat_map(|block| {
        block
            .split("$ ")
            .skip(1)
            .map(|part| part.split_once('\n').unwrap())
    });
    commands
        .map(|(command, printed)| (command.to_owned(), printed.trim().to_owned()))
        .collect()
}

/// The text without what differs from run to run: digits and letters of ids, times and addresses.
fn shape(text: &str) -> String {
    let mut shape = text.split("\"request_id\"").next().unwrap().to_owned();
    shape.retain(|c| !c.is_ascii_digit());
    shape
}

#[test]
fn the_first_minute_goes_as_the_readme_tells_it() {
    let readme = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    let sessions = sessions(&readme);
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
        let answer = match request.split_once(" -d ") {
            None => serving.get(request),
            Some((target, body)) => {
                let mut client = serving.connect();
                client.post(target, body.trim_matches('\'').as_bytes());
                client.response()
            }
        };
        assert_eq!(shape(answer.text()), shape(printed), "{command}");
        asked += 1;
    }
    assert_eq!(asked, 3);
    let handler = folder.read("app/handlers/api.mjs").unwrap();
    assert!(
        readme.contains(&format!("```js\n{handler}```")),
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
fn the_handler_that_uses_the_store_does_what_the_readme_says() {
    let readme = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    let block = |kind: &str, begin: &str| {
        let blocks = readme
            .split(&format!("```{kind}\n"))
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>();
        let block = blocks.iter().find(|block| block.starts_with(begin)).unwrap();
        block.split("```").next().unwrap().to_owned()
    };
    let folder = Folder::new();
    let config = block("toml", "[store]");
    folder.write(
        "forebay.toml",
        format!(
            "[server]\nlisten = [\"127.0.0.1:8080\"]\n[admin]\nlisten = \"127.0.0.1:8081\"\n{config}[pool.api]\nhandler = \"api.mjs\"\n\
             [[route]]\npath = \"/*\"\npool = \"api\"\n"
        ),
    );
    folder.write("api.mjs", block("js", "import { router, store }"));
    let serving = Serving::start(folder.path(), &[]);
    let mut client = serving.connect();
    client.post("/people", b"{\"name\":\"Ada\"}");
    assert_eq!(client.response().text(), "{\"saved\":true,\"id\":1}");
    assert_eq!(serving.get("/people/1").text(), "{\"name\":\"Ada\"}");
}
