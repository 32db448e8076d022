//! `examples/showcase`, copied elsewhere: every route that it has.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use forebay_testkit::{
    Client, Folder, Postgres,
    techempower::{Kind, problems},
};

use crate::run::{Serving, forebay, node, workspace};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, name) = (entry.as_ref().unwrap().path(), entry.unwrap().file_name());
        match from.is_dir() {
            true if ["node_modules", "data", ".venv", "__pycache__"]
                .iter()
                .any(|left_out| name == *left_out) => {}
            true => copy(&from, &to.join(name)),
            // A server that runs there has a socket, too.
            false if from.is_file() => drop(fs::copy(&from, to.join(name)).unwrap()),
            false => {}
        }
    }
}

/// A copy of the examples.
pub(crate) fn examples() -> Folder {
    let folder = Folder::new();
    for example in ["seeds", "showcase", "techempower", "workflows"] {
        copy(
            &workspace().join("examples").join(example),
            &folder.path().join(example),
        );
    }
    let modules = "showcase/node_modules";
    symlink(
        workspace().join("examples").join(modules),
        folder.path().join(modules),
    )
    .unwrap();
    folder
}

fn showcase(options: &[&str]) -> (Folder, Serving) {
    let folder = examples();
    let serving = Serving::start(&folder.path().join("showcase"), options);
    (folder, serving)
}

/// Served as `make run` does, from the folder above the examples.
fn beside_techempower(database: Option<&Postgres>) -> (Folder, Serving) {
    let folder = examples();
    let options = ["-c", "showcase/forebay.toml", "--listen", "127.0.0.1:0"];
    let mut command = forebay(
        folder.path(),
        &[&["serve", "--admin", "off"], &options[..]].concat(),
    );
    if let Some(database) = database {
        command.env("FOREBAY_PG_URL", database.url());
    }
    let serving = Serving::spawn(folder.path(), command);
    (folder, serving)
}

#[test]
fn with_a_database_it_has_the_routes_of_the_benchmarks_too() {
    let database = Postgres::start();
    let (_folder, serving) = beside_techempower(Some(&database));
    for kind in Kind::ALL {
        let problems = problems(serving.address(), &database, kind);
        assert!(problems.is_empty(), "{kind:?}: {problems:?}");
        assert!(serving.get("/").text().contains(kind.path()), "{kind:?}");
    }
    assert_eq!(serving.get("/helloworld").text(), "{\"hello\":\"world\"}");
    assert_eq!(serving.get("/json/0000000000000001").status, 404);
}

#[test]
fn without_a_database_it_says_how_to_have_the_routes_of_the_benchmarks() {
    let (_folder, serving) = beside_techempower(None);
    for kind in Kind::ALL {
        assert_eq!(serving.get(kind.path()).status, 404, "{kind:?}");
    }
    assert!(serving.get("/").text().contains("<code>make postgres</code>"));
}

#[test]
fn make_run_serves_with_the_database_of_make_postgres() {
    let folder = Folder::new();
    // Replaces the program that `run` builds: it prints how it is called.
    let program = "target/debug/forebay";
    folder.write(program, "#!/bin/sh\necho \"<$FOREBAY_PG_URL> $*\"\n");
    fs::set_permissions(folder.path().join(program), Permissions::from_mode(0o755)).unwrap();
    folder.write("examples/showcase/data/store.mdbx", "");
    let last_line = || {
        let made = Command::new("make")
            .args(["--no-print-directory", "--old-file=dev", "run", "-f"])
            .arg(workspace().join("Makefile"))
            .env_remove("FOREBAY_PG_URL")
            // Set by the `make` that runs the tests.
            .env_remove("MAKEFLAGS")
            .current_dir(folder.path())
            .output()
            .unwrap();
        let printed = String::from_utf8(made.stdout).unwrap();
        printed.lines().last().map(str::to_owned)
    };
    let serve = "serve -c examples/showcase/forebay.toml --tls-dev";
    assert_eq!(last_line(), Some(format!("<> {serve}")));
    folder.write("target/postgres.env", "FOREBAY_PG_URL=postgres://u@h/d\n");
    assert_eq!(last_line(), Some(format!("<postgres://u@h/d> {serve}")));
}

#[test]
fn every_route_answers_as_it_says() {
    let (folder, serving) = showcase(&[]);
    serving.workers(15);
    for (target, body) in [
        ("/local", "{\"status\":\"success\",\"result\":\"local\"}"),
        ("/helloworld", "{\"hello\":\"world\"}"),
        ("/bun/helloworld", "{\"hello\":\"world\"}"),
        ("/py/helloworld", "{\"hello\":\"world\"}\n"),
        ("/e1/helloworld", "{\"hello\":\"world\"}"),
        ("/slow?ms=20", "{\"slept_ms\":20}"),
        (
            "/stream",
            "chunk 1 of 5\nchunk 2 of 5\nchunk 3 of 5\nchunk 4 of 5\nchunk 5 of 5\n",
        ),
    ] {
        let response = serving.get(target);
        assert_eq!((response.status, response.text()), (200, body), "{target}");
    }
    for (target, file) in [
        ("/", "index.html"),
        ("/static/index.html", "index.html"),
        ("/static/style.css", "style.css"),
    ] {
        let response = serving.get(target);
        assert_eq!(
            response.text(),
            folder.read(&format!("showcase/public/{file}")).unwrap(),
            "{target}"
        );
    }
    assert_eq!(serving.get("/docs").json()["info"]["title"], "Showcase");
    for (target, status) in [
        ("/slow?ms=x", 400),
        ("/slow?ms=-1", 400),
        ("/echo", 405),
        ("/nothing", 404),
    ] {
        assert_eq!(serving.get(target).status, status, "{target}");
    }
}

#[test]
fn applications_of_frameworks_answer_as_they_are() {
    let (_folder, serving) = showcase(&[]);
    for (framework, ada) in [
        ("express", "Hello ada, from 127.0.0.1"),
        ("fastify", "Hello ada"),
        ("hono", "Hello ada"),
        ("fastapi", "{\"name\":\"ada\",\"age\":0}"),
    ] {
        let hello = serving.get(&format!("/{framework}/helloworld"));
        assert_eq!(
            (hello.status, hello.text()),
            (200, "{\"hello\":\"world\"}"),
            "{framework}"
        );
        assert_eq!(serving.get(&format!("/{framework}/users/ada")).text(), ada);
        assert_eq!(serving.get(&format!("/{framework}/nothing")).status, 404);
    }
    let events = serving.get("/hono/events");
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    assert!(
        events.text().contains("data: event 3\nid: 3\n\n"),
        "{}",
        events.text()
    );
    // FastAPI's page finds its description below the path of the route.
    assert!(
        serving
            .get("/fastapi/docs")
            .text()
            .contains("'/fastapi/openapi.json'")
    );
}

#[test]
fn browsers_talk_on_the_live_page() {
    let (_folder, serving) = showcase(&[]);
    let output = Command::new(node())
        .arg("--test")
        .arg(workspace().join("crates/cli/tests/site/live.test.mjs"))
        .env("FOREBAY_SHOWCASE_URL", format!("http://{}", serving.address()))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn another_server_answers_through_the_proxy() {
    let behind = Folder::new();
    behind.write(
        "forebay.toml",
        "[[route]]\npath = \"/local\"\nrespond = { text = \"from behind\" }\n",
    );
    let behind = Serving::start(behind.path(), &[]);
    let folder = examples();
    let showcase = folder.path().join("showcase");
    let mut command = forebay(&showcase, &["serve", "--listen", "127.0.0.1:0", "--admin", "off"]);
    command.env("FOREBAY_BEHIND", format!("http://{}", behind.address()));
    let serving = Serving::spawn(&showcase, command);
    let response = serving.get("/proxy/local");
    assert_eq!((response.status, response.text()), (200, "from behind"));
}

#[test]
fn the_store_answers_without_a_handler() {
    let (folder, serving) = showcase(&[]);
    let post = |name: &str| {
        let body = format!("{{\"firstName\":\"{name}\"}}");
        let mut client = serving.connect();
        client.post("/store/Person", body.as_bytes());
        client.response().json()["id"].clone()
    };
    assert_eq!((post("Ada"), post("Grace")), (1.into(), 2.into()));
    assert_eq!(serving.get("/store/Person/2").text(), "{\"firstName\":\"Grace\"}");
    assert_eq!(serving.get("/store/Person?keys&reverse").text(), "[\"2\",\"1\"]");
    assert_eq!(serving.get("/store/Secret").status, 403);
    assert!(folder.path().join("showcase/data/store.mdbx").is_file());
}

#[test]
fn workflows_and_a_decision_are_run() {
    let (folder, serving) = showcase(&[]);
    let post = |target: &str, body: &str| {
        let mut client = serving.connect();
        client.post(target, body.as_bytes());
        client.response().json()
    };
    let args = r#"{"userId":"u1","date":"2026-11-20","recharge":150}"#;
    let answer = post("/workflow/promotion", args);
    assert_eq!(answer["valueMap"]["points"], 20, "{answer}");
    let answer = post("/workflow/shipping", r#"{"country":"CH","weight":5}"#);
    assert_eq!(answer["result"]["fee"], 18, "{answer}");
    let request = folder.read("workflows/benchmark1.json").unwrap();
    let answer = post("/execute/internal/workflow", &request);
    assert_eq!(answer["status"], "SUCCESS", "{answer}");
}

#[test]
fn one_controller_answers_records_in_six_places() {
    let (_folder, serving) = showcase(&[]);
    let put = |target: &str| {
        let body = format!("{{\"kind\":\"Article\",\"title\":\"{target}\"}}");
        let response = serving.connect().ask("PUT", target, "", body);
        (response.status, response.text().to_owned())
    };
    let places = ["/e1", "/v1", "/f1", "/n1", "/b1", "/w1"];
    for (place, reference) in places.iter().zip(1..) {
        let made = format!("{{\"code\":0,\"ref\":{reference}}}");
        assert_eq!(put(&format!("{place}/Article")), (201, made));
    }
    for place in places {
        let answer = serving.get(&format!("{place}/Article/2"));
        let expected =
            "{\"code\":0,\"results\":[{\"id\":2,\"data\":{\"kind\":\"Article\",\"title\":\"/v1/Article\"}}]}";
        assert_eq!((answer.status, answer.text()), (200, expected), "{place}");
        assert_eq!(serving.get(&format!("{place}/Article/9")).status, 404, "{place}");
        assert_eq!(serving.get(&format!("{place}/Entry/2")).status, 404, "{place}");
    }
    let direct = serving.get("/json/0000000000000006");
    assert_eq!(direct.text(), "{\"kind\":\"Article\",\"title\":\"/w1/Article\"}");
}

#[test]
fn handlers_of_mg_web_run_on_the_store() {
    let (_folder, serving) = showcase(&[]);
    let save = |body: &str| {
        let fields = "content-type: application/json\r\n";
        let response = serving.connect().ask("POST", "/mgweb/save", fields, body);
        (response.status, response.text().to_owned())
    };
    let rob = "{\"firstName\":\"Rob\",\"lastName\":\"Tweed\"}";
    assert_eq!(
        serving.get("/mgweb/helloworld").text(),
        "{\"hello\":\"world 123\"}"
    );
    assert_eq!(save(rob), (200, "{\"saved\":true,\"id\":1}".into()));
    assert_eq!(
        save("{\"firstName\":\"Ada\",\"lastName\":\"L\"}").1,
        "{\"saved\":true,\"id\":2}"
    );
    assert_eq!(save("{}").0, 422);
    for target in ["/mgweb/userx/1", "/mgweb/user/1"] {
        assert_eq!(
            serving.get(target).text(),
            format!("{{\"key\":\"1\",\"data\":{rob}}}"),
            "{target}"
        );
    }
    assert_eq!(serving.get("/store/Person/data/1").text(), rob);
    assert_eq!(serving.get("/store/Person/nextId").text(), "2");
}

#[test]
fn echo_returns_the_bytes_with_their_type_and_length() {
    let (_folder, serving) = showcase(&[]);
    let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let response = serving
        .connect()
        .ask("POST", "/echo", "content-type: image/x-own\r\n", &body);
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("image/x-own"));
    assert_eq!(response.header("content-length"), Some("100000"));
    assert_eq!(response.body, body);
}

#[test]
fn spin_and_crash_hurt_nobody_else() {
    let (_folder, serving) = showcase(&["--workers", "2"]);
    let mut spinning: Client = serving.connect();
    spinning.request("GET", "/spin");
    assert_eq!(serving.get("/helloworld").status, 200);
    assert_eq!(serving.get("/crash").status, 502);
    assert_eq!(serving.get("/helloworld").status, 200);
    assert_eq!(spinning.response().status, 504);
    assert_eq!(serving.get("/helloworld").status, 200);
}
