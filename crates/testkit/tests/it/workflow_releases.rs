//! Releases of workflows in the store: what requests get while others publish, and folders that are watched.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    process::Output,
};

use forebay_testkit::{Response, Server, Setup, wait_for, wait_until};
use serde_json::{Value, json};

const ROUTES: &str = "[[route]]\npath = \"/workflow/*\"\nworkflow = {}\n\
    [[route]]\npath = \"/first/*\"\nworkflow = { release = 1 }\n\
    [[route]]\npath = \"/execute/internal/workflow\"\nworkflow = {}\n";

fn setup(keys: &str) -> Setup {
    Setup::new(&format!(
        "[store]\npath = \"data\"\n[workflow]\nstore = \"Workflow\"\n{keys}\n{ROUTES}"
    ))
    .threads(1)
}

/// A graph of these rules, one behind another.
pub(crate) fn chain(rules: &[&str]) -> String {
    let mut nodes = vec![json!({"@type": "BOOT", "id": "0"})];
    let mut edges = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        nodes.push(json!({"@type": "PROCESS", "id": (at + 1).to_string(), "ruleId": rule}));
        edges.push(json!({"from": at.to_string(), "to": (at + 1).to_string()}));
    }
    json!({"nodes": nodes, "edges": edges}).to_string()
}

pub(crate) fn rule(body: &str) -> String {
    format!("function process(context) {{\n{body}\n}}\n")
}

/// A folder of workflows whose one rule says which version it is, with a test that expects `expected`.
pub(crate) fn write_version(server: &Server, folder: &str, version: u32, expected: u32) {
    let write = |name: &str, text: String| server.folder().write(&format!("{folder}/{name}"), text);
    write("version.json", chain(&["version"]));
    write(
        "rules/version.js",
        rule(&format!(
            "return new ScriptResult(true, {{ version: {version} }});"
        )),
    );
    let test = json!([{"name": "it says so", "workflow": "version", "expect": {"state": true, "valueMap": {"version": expected}}}]);
    write("tests/version.json", test.to_string());
}

pub(crate) fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap_or(-1),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// `forebay workflow` with these words, which must go well; what it printed.
pub(crate) fn workflow(server: &Server, words: &[&str]) -> String {
    let (code, out, err) = told(&server.command(&[&["workflow"], words].concat()));
    assert_eq!(code, 0, "{words:?}: {out}{err}");
    out
}

/// Makes a release of a version; its number.
pub(crate) fn import(server: &Server, version: u32) -> u64 {
    let folder = format!("v{version}");
    write_version(server, &folder, version, version);
    let path = server.folder().path().join(folder);
    let out = workflow(
        server,
        &[
            "import",
            path.to_str().expect("folders of tests are text"),
            "--json",
            "--by",
            "ada",
        ],
    );
    let told: Value = serde_json::from_str(&out).expect("it prints JSON");
    told["release"].as_u64().expect("a release has a number")
}

/// The version and the release that answer.
fn answered(response: &Response) -> Option<(u64, String)> {
    let version = response.json()["valueMap"]["version"].as_u64()?;
    Some((version, response.header("workflow-release")?.to_owned()))
}

fn version(server: &Server, target: &str) -> Option<(u64, String)> {
    answered(&server.post(target, b"{}"))
}

fn is(version: u64, release: u64) -> (u64, String) {
    (version, release.to_string())
}

fn detail(response: &Response) -> String {
    response.json()["detail"].as_str().unwrap_or_default().to_owned()
}

/// The version that answers a request with this id.
fn version_for(server: &Server, id: &str) -> u64 {
    let mut client = server.connect();
    client.send(format!(
        "POST /workflow/version HTTP/1.1\r\nhost: test\r\nx-request-id: {id}\r\ncontent-length: 2\r\n\r\n{{}}"
    ));
    answered(&client.response()).expect("it answers").0
}

#[test]
fn a_release_answers_from_when_it_is_published_until_it_is_rolled_back() {
    let server = setup("").start();
    let response = server.post("/workflow/version", b"{}");
    assert_eq!(response.status, 404);
    let told = detail(&response);
    assert!(
        told.contains("no release of the workflows is published in the global `Workflow`"),
        "{told}"
    );
    assert!(told.contains("`forebay workflow publish`"), "{told}");

    assert_eq!(import(&server, 1), 1);
    assert_eq!(server.post("/workflow/version", b"{}").status, 404);
    assert_eq!(
        workflow(&server, &["publish", "1"]),
        "release 1 is published; its stored test holds\n"
    );
    wait_until("release 1 to answer", || {
        version(&server, "/workflow/version") == Some(is(1, 1))
    });

    assert_eq!(import(&server, 2), 2);
    let response = server.post("/workflow/version?release=2", b"{}");
    assert_eq!(response.status, 404, "a draft is for nobody");
    assert!(
        detail(&response).starts_with("requests cannot use release 2"),
        "{}",
        detail(&response)
    );
    workflow(&server, &["state", "2", "test"]);
    wait_until("release 2 to be there for those who ask", || {
        version(&server, "/workflow/version?release=2") == Some(is(2, 2))
    });
    assert_eq!(version(&server, "/workflow/version"), Some(is(1, 1)));
    assert_eq!(version(&server, "/workflow/version?release=1"), Some(is(1, 1)));

    assert_eq!(
        workflow(&server, &["publish", "2"]),
        "release 2 is published, after release 1; its stored test holds\n"
    );
    wait_until("release 2 to answer", || {
        version(&server, "/workflow/version") == Some(is(2, 2))
    });
    assert_eq!(
        version(&server, "/first/version"),
        Some(is(1, 1)),
        "a route that names its release"
    );
    let scenes = json!({"requestId": "r", "clientId": "c", "clientSecret": "s", "scenesCodes": ["version"]});
    let response = server.post("/execute/internal/workflow", scenes.to_string().as_bytes());
    assert_eq!(response.json()["data"]["results"][0]["valueMap"]["version"], 2);
    assert_eq!(response.header("workflow-release"), Some("2"));

    assert_eq!(
        workflow(&server, &["rollback"]),
        "release 1 is published again, in the place of release 2\n"
    );
    wait_until("release 1 to answer again", || {
        version(&server, "/workflow/version") == Some(is(1, 1))
    });
    server.hang_up();
    server.wait_for_log(&["configuration reloaded"]);
    assert_eq!(version(&server, "/workflow/version"), Some(is(1, 1)));
    for (target, what) in [
        ("/workflow/version?release=two", "it is the number of a release"),
        ("/first/version?release=2", "the route has a release of its own"),
    ] {
        let response = server.post(target, b"{}");
        assert_eq!(response.status, 400, "{target}");
        assert!(detail(&response).contains(what), "{}", detail(&response));
    }
}

#[test]
fn a_share_of_the_runs_has_the_canary_and_each_request_the_same_again() {
    let server = setup("").start();
    for number in [1, 2] {
        import(&server, number);
    }
    let (code, _, err) = told(&server.command(&["workflow", "publish", "1", "--canary", "30%"]));
    assert_eq!(code, 1);
    assert!(err.contains("no other release is published"), "{err}");
    workflow(&server, &["publish", "1"]);
    assert_eq!(
        workflow(&server, &["publish", "2", "--canary", "30%"]),
        "release 2 has 30% of the runs, release 1 the others; its stored test holds\n"
    );
    server.wait_for_log(&["release 1 of the workflows is in force, and release 2 for 30% of the runs"]);
    let ids: Vec<String> = (0..300).map(|at| format!("request-{at}")).collect();
    let once: Vec<u64> = ids.iter().map(|id| version_for(&server, id)).collect();
    let share = once.iter().filter(|version| **version == 2).count();
    assert!((60..=120).contains(&share), "{share} of 300");
    let again: Vec<u64> = ids.iter().map(|id| version_for(&server, id)).collect();
    assert_eq!(once, again);
    assert_eq!(version(&server, "/workflow/version?release=2"), Some(is(2, 2)));

    assert_eq!(
        workflow(&server, &["rollback"]),
        "release 2 has no share of the runs any more\n"
    );
    wait_until("release 1 to have all runs", || {
        ids.iter().take(40).all(|id| version_for(&server, id) == 1)
    });
}

#[test]
fn a_release_whose_tests_do_not_hold_is_not_published() {
    let server = setup("").start();
    import(&server, 1);
    workflow(&server, &["publish", "1"]);
    write_version(&server, "wrong", 2, 3);
    let path = server.folder().path().join("wrong");
    workflow(
        &server,
        &["import", path.to_str().expect("folders of tests are text")],
    );
    let (code, _, err) = told(&server.command(&["workflow", "publish", "2"]));
    assert_eq!(code, 3);
    for part in [
        "tests/version.json: it says so",
        "valueMap.version: expected 3, found 2",
        "1 of 1 stored tests do not hold, and release 2 is not published",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let list: Value = serde_json::from_str(&workflow(&server, &["list", "--json"])).unwrap();
    assert_eq!(list["published"], 1);
    assert_eq!(list["releases"][1]["state"], "draft");
    wait_until("release 1 to answer", || {
        version(&server, "/workflow/version") == Some(is(1, 1))
    });
}

#[test]
fn a_run_that_has_begun_ends_with_the_release_that_it_began_with() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let server = setup(&format!("allow = {{ fetch = [\"{address}\"] }}\n")).start();
    for number in [1, 2] {
        let write = |name: &str, text: String| server.folder().write(&format!("v{number}/{name}"), text);
        write("slow.json", chain(&["wait", "version"]));
        write(
            "rules/wait.js",
            format!(
                "async function process(context) {{\nawait fetch('http://{address}/');\nreturn new ScriptResult(true);\n}}"
            ),
        );
        import(&server, number);
    }
    workflow(&server, &["publish", "1"]);
    wait_until("release 1 to answer", || {
        version(&server, "/workflow/version") == Some(is(1, 1))
    });
    let mut slow = server.connect();
    slow.post("/workflow/slow", b"{}");
    let (mut fetched, _) = other.accept().unwrap();
    workflow(&server, &["publish", "2"]);
    wait_until("release 2 to answer", || {
        version(&server, "/workflow/version") == Some(is(2, 2))
    });
    let mut head = [0; 1024];
    assert!(fetched.read(&mut head).unwrap() > 0);
    fetched
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        .unwrap();
    assert_eq!(answered(&slow.response()), Some(is(1, 1)));
}

#[test]
fn what_cannot_be_read_leaves_what_is_in_force() {
    let server = setup(
        "[store.access.Workflow]\nread = \"public\"\nwrite = \"public\"\n\
         [[route]]\npath = \"/store/*\"\nstore = {}\n",
    )
    .start();
    import(&server, 1);
    workflow(&server, &["publish", "1"]);
    wait_until("release 1 to answer", || {
        version(&server, "/workflow/version") == Some(is(1, 1))
    });
    let set = |text: &str| {
        let fields = "content-type: application/json\r\n";
        let response = server.connect().ask("PUT", "/store/Workflow/state", fields, text);
        assert!((200..300).contains(&response.status), "{response:?}");
    };
    set("{\"published\":9}");
    server.wait_for_log(&[
        "a release of the workflows cannot be used",
        "there is no release 9",
    ]);
    assert_eq!(version(&server, "/workflow/version"), Some(is(1, 1)));
    // It comes to be later.
    import(&server, 2);
    set("{\"published\":3}");
    server.wait_for_log(&["there is no release 3"]);
    import(&server, 3);
    wait_until("release 3 to answer", || {
        version(&server, "/workflow/version") == Some(is(3, 3))
    });
    let log = server.log();
    let times = |what: &str| log.matches(what).count();
    for missing in [
        "no release 9 in the global `Workflow`; the newest is 1",
        "no release 3 in the global `Workflow`; the newest is 2",
    ] {
        assert_eq!(times(missing), 1, "{log}");
    }
    assert_eq!(times("release 9 of the workflows is in force"), 0, "{log}");
    assert_eq!(times("release 1 of the workflows is in force"), 1, "{log}");
    set("\"anything\"");
    server.wait_for_log(&[
        "the releases of the workflows cannot be looked at",
        "is no part of a release",
    ]);
    assert_eq!(version(&server, "/workflow/version"), Some(is(3, 3)));
    set("{\"published\":2}");
    wait_until("release 2 to answer", || {
        version(&server, "/workflow/version") == Some(is(2, 2))
    });
}

#[test]
fn a_folder_that_is_watched_is_in_force_as_it_is_saved() {
    let config = format!(
        "[workflow]\npath = \"flows\"\nwatch = true\n{}",
        ROUTES.replace("{ release = 1 }", "{}")
            + "[[route]]\npath = \"/execute/custom\"\nworkflow = { api = \"custom\" }\n"
    );
    let server = Setup::new(&config)
        .threads(1)
        .file("flows/version.json", chain(&["version"]))
        .file(
            "flows/rules/version.js",
            rule("return new ScriptResult(true, { version: 1 });"),
        )
        .start();
    let current = || {
        let response = server.post("/workflow/version", b"{}");
        assert_eq!(response.header("workflow-release"), None);
        response.json()["valueMap"]["version"].as_u64()
    };
    assert_eq!(current(), Some(1));
    write_version(&server, "flows", 2, 2);
    wait_until("the second version", || current() == Some(2));
    server.folder().write(
        "flows/rules/version.js",
        "function process() {\n  return 1 +;\n}\n",
    );
    let log = server.wait_for_log(&["workflows not read again, those in force stay"]);
    assert!(log.contains("version.js:2:"), "{log}");
    assert_eq!(current(), Some(2));
    write_version(&server, "flows", 3, 3);
    wait_until("the third version", || current() == Some(3));
    // A graph, too.
    server.folder().write("flows/more.json", chain(&["version"]));
    let more = wait_for("the new graph", || {
        let response = server.post("/workflow/more", b"{}");
        (response.status == 200).then_some(response)
    });
    assert_eq!(more.json()["valueMap"]["version"], 3);
    // And a template, which is there in the next answer.
    let template = |text: &str| server.folder().write("flows/templates/page.html", text);
    // {"format":"json"} and {"templateKey":"page"}.
    let page = || {
        let settings =
            "reqSettings=eyJmb3JtYXQiOiJqc29uIn0%3D&respSettings=eyJ0ZW1wbGF0ZUtleSI6InBhZ2UifQ%3D%3D";
        let target = format!("/execute/custom?{settings}&clientId=c&clientSecret=s&scenesCodes=version");
        String::from_utf8_lossy(&server.post(&target, b"{}").body).into_owned()
    };
    template("<p>one</p>");
    wait_until("the template", || page() == "<p>one</p>");
    template("<p>another</p>");
    wait_until("the template that was saved again", || page() == "<p>another</p>");
    let response = server.post("/workflow/version?release=1", b"{}");
    assert_eq!(response.status, 400);
    assert!(
        detail(&response).contains("a folder, which has no releases"),
        "{}",
        detail(&response)
    );
}
